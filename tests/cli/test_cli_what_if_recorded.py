"""``chakrasim what-if`` on PyTorch's trace of one rank."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from chakrasim.cli.main import main
from chakrasim.linker.api import link
from chakrasim.trace.linked.columns import EdgeKind


def _asked(trace: Path, folder: Path, *changes: str) -> dict[str, Any]:
    out = folder / "answer.json"
    sets = [word for change in changes for word in ("--set", change)]
    assert main(["what-if", str(trace), *sets, "--json", str(out), "--quiet"]) == 0
    answer: dict[str, Any] = json.loads(out.read_text())
    return answer


def _event(category: str, name: str, start: float, length: float, lane: int, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, "pid": 0, "tid": lane, "args": args}


@pytest.fixture
def device_only(tmp_path: Path) -> Path:
    """A collective of 100 us between kernels of 50 and 30 us, 2 us apart; no host, no steps."""
    events = [
        _event("kernel", "gemm_a", 0, 50, 7, device=0, stream=7),
        _event("kernel", "ncclDevKernel_AllReduce", 52, 100, 20, device=0, stream=20),
        _event("kernel", "gemm_b", 154, 30, 7, device=0, stream=7),
    ]
    path = tmp_path / "device.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()))
    return path


def test_a_trace_without_steps_is_one(device_only: Path, tmp_path: Path) -> None:
    (step,) = _asked(device_only, tmp_path, "communication=0")["steps"]
    assert step["step"] == -1 and step["before_us"] == 184
    assert step["after_us"] == pytest.approx(84, abs=0.01)
    assert 0 <= step["delay_only_share"] < 0.05


@pytest.mark.parametrize(
    ("changes", "after"),
    [
        (("kernel:*gemm*=0.5",), 144),
        (("kernel:gemm_b=2",), 214),
        (("communication=0.5", "compute=2"), 214),
        (("communication=1",), 184),
        (("all=0",), 4),
    ],
)
def test_changes_of_kernels_and_classes(
    device_only: Path, tmp_path: Path, changes: tuple[str, ...], after: float
) -> None:
    assert _asked(device_only, tmp_path, *changes)["steps"][0]["after_us"] == pytest.approx(after, abs=0.01)


@pytest.mark.parametrize(
    "change", ["communicatoin=0", "kernel:none=0", "communication=-1", "communication", "all=ideal"]
)
def test_what_cannot_be_asked(
    device_only: Path, tmp_path: Path, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "answer.json"
    assert main(["what-if", str(device_only), "--set", change, "--json", str(out)]) == 2
    assert "--set" in capsys.readouterr().err and not out.exists()


def test_waits_without_records_of_a_reduced_trace(shared_dir: Path, tmp_path: Path) -> None:
    folder = shared_dir / "traces/wild/reduced"
    if not folder.is_dir():
        pytest.skip("no such traces")
    expected = json.loads((folder / "stream_wait_without_event_record.expected.json").read_text())
    path = folder / expected["trace"]
    (step,) = _asked(path, tmp_path, "communication=0")["steps"]
    assert step["before_us"] == expected["measured_us"]
    assert 250 <= step["after_us"] <= expected["with_collective_0us"]["at_most_us"]
    linked = link(None, path)
    waits = linked.edge_kind == EdgeKind.EVENT_WAIT
    ends = [[linked.strings[int(linked.name[row])] for row in rows[waits]]
            for rows in (linked.edge_source, linked.edge_target)]  # fmt: skip
    assert [list(pair) for pair in zip(*ends, strict=True)] == expected["event_wait_edges"]


def test_gaps_after_collectives_on_mi300_are_explained(shared_dir: Path, tmp_path: Path) -> None:
    path = shared_dir / "traces/wild/traces/ddp_resnet_mi300_rank0.json.gz"
    if not path.is_file():
        pytest.skip("no such trace")
    answer = _asked(path, tmp_path, "communication=0")
    assert [step["step"] for step in answer["steps"]] == [15, 16, 17]
    assert all(step["delay_only_share"] < 0.05 for step in answer["steps"])
    assert answer["stream_waits_inferred"] == answer["stream_waits"] >= 24
    assert sum(step["before_us"] - step["after_us"] for step in answer["steps"]) > 27_000
