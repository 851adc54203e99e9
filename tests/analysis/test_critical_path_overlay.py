"""The trace with its critical path drawn in."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from chakrasim import InputError
from chakrasim.analysis.critical_path.overlay import Arrow, linked_arrows, write_overlay
from chakrasim.analysis.critical_path.path import linked_critical_path
from chakrasim.compat.hta_critical_path.arrows import compat_arrows
from chakrasim.compat.hta_critical_path.path import critical_path
from chakrasim.linker.api import link
from chakrasim.trace.kineto.read import read_kineto
from compat.test_critical_path_compat import cases


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "recorded.json"
    (case,) = (case for case in cases("recorded.jsonl.gz") if case["name"] == "event_sync.z0")
    path.write_text(json.dumps(case["trace"], indent=1))
    return path


def overlay(trace: Path, name: str, *rest: Any) -> dict[str, Any]:
    out = trace.parent / name
    write_overlay(trace, out, *rest)
    raw = out.read_bytes()
    content: dict[str, Any] = json.loads(gzip.decompress(raw) if name.endswith(".gz") else raw)
    return content


@pytest.mark.parametrize("name", ["out.json", "out.json.gz"])
def test_nothing_else_changes(recorded: Path, name: str) -> None:
    before = json.loads(recorded.read_text())
    after = overlay(recorded, name, {3}, [], True)
    assert list(after) == list(before)
    before["traceEvents"][3].setdefault("args", {})["critical"] = 1
    assert after == before


def test_only_what_matters_is_kept(recorded: Path) -> None:
    before = json.loads(recorded.read_text())["traceEvents"]
    after = overlay(recorded, "out.json", {3}, [], False)["traceEvents"]
    kept = [event for event in before if event["ph"] != "X" or event["cat"] in ("user_annotation", "python_function")]
    assert len(after) == len(kept) + 1
    assert next(event["name"] for event in after if event.get("args", {}).get("critical")) == before[3]["name"]


def test_arrows_as_the_newest_version_draws_them(recorded: Path) -> None:
    path = critical_path(read_kineto(recorded), version="new")
    events, arrows = compat_arrows(path)
    drawn = overlay(recorded, "out.json", events, arrows, False)["traceEvents"]
    flows = [event for event in drawn if event["name"] == "critical_path"]
    kinds = [edge for edge in path.edge_kind[path.path_edges].tolist() if edge in (1, 2, 4)]
    assert len(flows) == 2 * len(kinds) > 0
    sync = [flow for flow in flows if flow["args"]["type"] == "critical_path_sync_dependency"]
    assert [flow["ph"] for flow in sync] == ["s", "f"]
    assert "bp" not in sync[0] and sync[1]["bp"] == "e"
    assert sync[0]["args"] == {"weight": 0, "critical": True, "type": "critical_path_sync_dependency"}
    source, target = (json.loads(recorded.read_text())["traceEvents"][event] for event in (33, 41))
    assert sync[0]["ts"] == source["ts"] + source["dur"] - 1  # inside the kernel
    assert sync[1]["ts"] == target["ts"] + target["dur"]
    assert (sync[0]["pid"], sync[0]["tid"], sync[1]["tid"]) == (source["pid"], source["tid"], target["tid"])


def test_arrows_as_the_pinned_version_draws_them(recorded: Path) -> None:
    path = critical_path(read_kineto(recorded), version="pinned")
    _, arrows = compat_arrows(path)
    assert len(arrows) == len(path.path_edges)
    assert {arrow.category for arrow in arrows} >= {"critical_path_operator", "critical_path_sync_dependency"}
    assert all(set(arrow.details) == {"weight", "critical"} for arrow in arrows)
    _, everything = compat_arrows(path, all_edges=True)
    assert len(everything) == len(path.edge_kind)
    assert sum(arrow.details["critical"] for arrow in everything) == len(path.path_edges)


def test_launches_without_weight_are_not_drawn(recorded: Path) -> None:
    path = critical_path(read_kineto(recorded), version="new", zero_weight_launch_edges=True)
    _, arrows = compat_arrows(path, all_edges=True)
    hidden = ((path.edge_kind == 2) & (path.edge_weight == 0)).sum()
    assert len(arrows) == len(path.edge_kind) - hidden


def test_the_figures_of_the_reference(shared_dir: Path) -> None:
    kineto = read_kineto(shared_dir / "traces" / "hta" / "benchmark_result_2869224_1695835535_trace.json.gz")
    annotation = "[param|pytorch.model.alex_net|0|0|0|measure|forward]"
    flows = {}
    for version in ("new", "pinned"):
        path = critical_path(kineto, version=version, annotation=annotation, instance=1)
        flows[version] = [2 * len(compat_arrows(path, everything)[1]) for everything in (False, True)]
    assert flows == {"new": [12, 842], "pinned": [296, 842]}


def test_a_linked_trace_s_path(recorded: Path) -> None:
    kineto = read_kineto(recorded, keep="work")
    linked = link(device=kineto)
    path = linked_critical_path(linked)
    events, arrows, missing = linked_arrows(linked, path, kineto)
    assert missing == 0
    drawn = overlay(recorded, "out.json", events, arrows, False)["traceEvents"]
    critical = {event["name"] for event in drawn if event.get("args", {}).get("critical") == 1}
    assert {"cudaLaunchKernel", "aten::sum"} <= critical
    kinds = [arrow.details["type"] for arrow in arrows]
    assert "launch" in kinds and "sync_event" in kinds


def refusal(trace: Path, arrows: list[Arrow]) -> str:
    with pytest.raises(InputError) as refused:
        write_overlay(trace, trace.parent / "out.json.gz", set(), arrows, True)
    assert not (trace.parent / "out.json.gz").exists()
    return str(refused.value).replace(str(trace), "FILE")


def test_what_cannot_be_drawn_on(tmp_path: Path) -> None:
    trace = tmp_path / "broken.json"
    trace.write_text('{"a": 1, "traceEvents": [{"ts": 1}, {"ts"')
    assert refusal(trace, []).startswith("FILE: the file is damaged: Expecting")
    trace.write_text("7")
    assert refusal(trace, []) == "FILE: character 0: the file is damaged; expected '{'"
    trace.write_text('{"a": [1]}')
    assert refusal(trace, []) == "FILE: the file has no traceEvents; expected a Kineto trace"
    trace.write_text('{"traceEvents": [{"ts": 1, "args": {"x": NaN}}]}')
    assert refusal(trace, []) == "FILE: the file is damaged: NaN is no JSON"
    trace.write_text('{"traceEvents": [{"ts": 1e999}]}')
    assert refusal(trace, []) == "FILE: the file is damaged: the number 1e999 is out of range"
    trace.write_text('{"traceEvents": [{"ts": 1, "dur": 2}]}')
    arrow = Arrow(0, True, 9, False, "critical_path", {})
    assert refusal(trace, [arrow]) == "FILE: event 9: the trace has changed since it was analysed"
