"""``chakrasim generate transformer`` and ``collective``: files, JSON, tables, and what ends in an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from step_machines import SYSTEM

import chakrasim
from chakrasim.cli.main import main

STEP = """\
model: {preset: llama-7b, layers: 4, sequence: 512}
parallel: {dp: 2, tp: 2, pp: 2, sp: true}
batch: {global_batch: 8}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "step.yaml").write_text(STEP)
    return tmp_path


def machine(ranks: int) -> dict[str, Any]:
    network = {"topology": ["Switch"], "npus_count": [ranks], "bandwidth": [100], "latency": [500]}
    return {"network": network, "system": SYSTEM}


def test_a_transformer_is_written_and_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["generate", "transformer", "--spec", "step.yaml", "--output", "s", "--json", "totals.json"]
    assert main(argv) == 0
    said = capsys.readouterr().out
    assert "dp 2, tp 2 with sp, pp 2" in said and "add up to those of the undivided model" in said
    totals = json.loads((folder / "totals.json").read_text())
    assert totals["files"] == ["s.class-0.et", "s.class-1.et", "s.ranks.json"]
    assert totals["ranks"] == 8 and totals["total_flops"] == totals["model_flops"]
    assert totals["executed_flops"] == totals["total_flops"] + totals["flash_recomputed_flops"]
    assert set(totals["bytes_by_collective_type"]) == {"all_gather", "all_reduce", "reduce_scatter", "send", "receive"}
    assert [entry["ranks"] for entry in totals["peak_memory_by_class"]] == [
        {"first": 0, "count": 4},
        {"first": 4, "count": 4},
    ]
    parts = totals["peak_memory_by_class"][0]
    assert parts["peak_bytes"] == sum(
        parts[f"{name}_bytes"] for name in ("parameters", "gradients", "optimizer", "activations", "working")
    )
    assert chakrasim.simulate("s", **machine(8)).makespan_ns > 0


def test_expanded_and_shared_files_run_alike(folder: Path) -> None:
    for prefix, more in (("s", []), ("x", ["--expand"])):
        assert main(["generate", "transformer", "--spec", "step.yaml", "-o", prefix, "--quiet", *more]) == 0
    written = {path.name for path in folder.glob("x*")}
    assert written == {"x.comm_group.json", "x.parameters.json", *(f"x.{rank}.et" for rank in range(8))}
    shared = chakrasim.simulate("s", **machine(8))
    expanded = chakrasim.simulate("x", comm_groups="x.comm_group.json", **machine(8))
    assert shared.finish_ns.tolist() == expanded.finish_ns.tolist()


def test_a_device_gives_durations_and_a_verdict(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["generate", "transformer", "--spec", "step.yaml", "-o", "s", "--json", "totals.json", "--device-profile"]
    assert main([*argv, "h100"]) == 0
    assert "h100: fits: a peak of" in capsys.readouterr().out
    totals = json.loads((folder / "totals.json").read_text())
    assert totals["fits_memory"] and totals["device_profile"] == "h100"
    trace = chakrasim.read_job("s").traces[0]
    compute = trace.types == 4
    nanoseconds = trace.attr("duration_ns").integers()
    assert (nanoseconds[compute] > 0).all() and not nanoseconds[~compute].any()
    assert (abs(trace.duration_micros[compute] * 1000.0 - nanoseconds[compute]) <= 1000).all()
    own = chakrasim.simulate("s", **machine(8), device_profile="h100")
    assert own.makespan_ns > 0
    (folder / "step.yaml").write_text("model: llama-70b\n")
    assert main([*argv, "h100"]) == 0
    assert "h100: OUT OF MEMORY: a peak of" in capsys.readouterr().out
    assert not json.loads((folder / "totals.json").read_text())["fits_memory"]


def test_a_machine_gives_the_time_of_the_step(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["generate", "transformer", "--spec", "step.yaml", "--output", "s", "--machine", "h100"]
    assert main([*argv, "--json", "totals.json"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("A training step of llama-7b on 8 GPUs of h100-8\n")
    step = json.loads((folder / "totals.json").read_text())["step"]
    alone = chakrasim.estimate("step.yaml", machine="h100", gpus=8, zero=0)
    assert step["low_s"] < step["step_s"] == pytest.approx(alone.step_s, rel=1e-6)
    large = STEP.replace("layers: 4", "layers: 32").replace("dp: 2, tp: 2, pp: 2, sp: true", "dp: 8")
    (folder / "step.yaml").write_text(large)
    assert main([*argv[:5], "large", "--machine", "a100-40gb", "--strict"]) == 2
    assert "it does not fit in memory" in capsys.readouterr().err
    assert not list(folder.glob("large*"))
    assert main([*argv[:5], "large", "--machine", "hgx-h100-8"]) == 2
    assert "the machine has no device profile" in capsys.readouterr().err


def test_json_on_standard_output_is_all_there_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "transformer", "--spec", "step.yaml", "--output", "s", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["parameters"] > 0


def test_files_of_the_prefix_are_replaced(folder: Path) -> None:
    argv = ["generate", "collective", "--type", "all_reduce", "--size", "1MiB", "--ranks", "4", "-o", "c", "--quiet"]
    assert main(argv) == 0
    first = (folder / "c.class-0.et").read_bytes()
    argv[5] = "2 MiB"
    assert main(argv) == 0
    assert (folder / "c.class-0.et").read_bytes() != first


def test_a_smaller_job_leaves_no_ranks_of_a_larger_one(folder: Path) -> None:
    argv = ["generate", "collective", "--type", "barrier", "--output", "c", "--quiet", "--expand", "--ranks"]
    assert main([*argv, "12"]) == 0
    for name in ("c.1.et.gz", "cc.9.et", "c.9.json"):
        (folder / name).write_bytes(b"")
    assert main([*argv, "2"]) == 0
    assert {path.name for path in folder.glob("c*.[0-9]*")} == {"c.0.et", "c.1.et", "cc.9.et", "c.9.json"}


def test_a_collective_is_written_and_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["generate", "collective", "--type", "all_reduce", "--size", "1MiB", "--ranks", "8", "--output", "c"]
    assert main([*argv, "--json", "c.json"]) == 0
    assert capsys.readouterr().out == "c: all_reduce of 1 MiB (what each rank has) on 8 ranks\n"
    assert json.loads((folder / "c.json").read_text())["comm_size"] == 1 << 20
    result = chakrasim.simulate("c", **machine(8))
    assert result.message_bytes == 14 << 20
    assert main([*argv, "--type", "All-Reduce", "--quiet", "--json", "d.json"]) == 0
    assert (folder / "d.json").read_text() == (folder / "c.json").read_text()
    assert main([*argv, "--expand"]) == 0
    assert len(list(folder.glob("c.*.et"))) >= 8 and not (folder / "c.ranks.json").exists()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["transformer", "--spec", "none.yaml", "--output", "s"], "none.yaml: transformer spec: no such file"),
        (["transformer", "--spec", "step.yaml", "--output", "step.yaml/s"], "its folder cannot be made"),
        (["transformer", "--spec", "step.yaml", "--output", "s", "--json", "step.yaml"], "would replace an input"),
        (["collective", "--type", "all_reduce", "--ranks", "8", "--output", "c"], "--size: a size is needed"),
        (["collective", "--type", "x", "--ranks", "8", "--output", "c"], "invalid choice: 'x'"),
        (["collective", "--type", "barrier", "--ranks", "1", "--output", "c"], "expected an integer from 2"),
    ],
)
def test_refusals_leave_nothing(
    folder: Path, argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", *argv]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["step.yaml"]
