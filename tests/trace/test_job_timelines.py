"""Timelines of whole jobs: veScale's ndtimeline, and dPRO's, made as their sources and documents have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chakrasim.analysis import comm_overlap
from chakrasim.analysis.table.kernel_classes import COMMUNICATION
from chakrasim.analysis.table.work import device_work
from chakrasim.cli.main import main
from chakrasim.notes import Notes
from chakrasim.trace import read_kineto


def ndtimeline() -> list[dict[str, Any]]:
    """Two ranks of one replica, with metrics on their lanes."""
    events: list[dict[str, Any]] = []
    lanes = (
        ("forward-compute", 0, 0, 100), ("tp-allreduce", 4, 40, 20), ("forward-send", 2, 100, 10),
        ("forward-send-backward-recv", 3, 120, 10), ("backward-compute", 0, 110, 150),
        ("grads-reduce-scatter", 5, 240, 60), ("optimizer", 0, 300, 50), ("optimizer-inner-step", 0, 310, 30),
    )  # fmt: skip
    for rank in (4, 5):
        args = {"rank": rank, "step": 1, "tp": rank - 4, "pp": 0}
        events += [
            {"name": name, "cat": name, "pid": 2, "tid": 10 * rank + lane, "args": args, "ts": 1e15 + begin,
             "dur": long, "ph": "X"}
            for name, lane, begin, long in lanes
        ]  # fmt: skip
    return [*events, {"name": "process_name", "pid": 2, "ph": "M", "args": {"name": "dp rank[2]"}}]


def dpro() -> dict[str, Any]:
    events = []
    for rank in (0, 1):
        for name, tid, cat, begin, long in (
            ("FW.conv0", "tid0", "operator", 0, 30), ("BW.conv0", "tid0", "operator", 30, 50),
            ("Comm.conv0.PUSH", "comm", "Comm", 60, 40), ("UPDATE_0", "tid0", "operator", 100, 9),
        ):  # fmt: skip
            place = {"pid": f"host0.rank{rank}", "tid": tid, "ts": begin, "dur": long, "ph": "X", "cat": cat}
            events.append({"name": name, **place, "args": {"name": name, "cnt": 1, "step": 3}})
    return {"traceEvents": events}


def test_ranks_of_vescale_are_devices_with_lanes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace_step1_1"
    path.write_text(json.dumps(ndtimeline()))
    notes = Notes()
    trace = read_kineto(path, notes=notes)
    work = device_work(trace)
    assert set(work.device.tolist()) == {4, 5} and set(work.stream.tolist()) == {0, 2, 3, 4, 5}
    names = work.names(work.row[work.device == 4])
    assert "optimizer" not in names and "optimizer-inner-step" in names  # its time is that of what is inside
    talk = {name for name, kind in zip(work.names(work.row), work.kind, strict=True) if kind == COMMUNICATION}
    assert talk == {"tp-allreduce", "forward-send", "forward-send-backward-recv", "grads-reduce-scatter"}
    overlap = comm_overlap(trace)
    assert overlap.communication_ns.tolist() == [100_000] * 2 and overlap.exposed_ns.tolist() == [50_000] * 2
    assert "a veScale job timeline (ndtimeline) of 2 ranks" in notes.notes[-1]
    assert len(read_kineto(path, keep="work")) == 16
    assert main(["info", str(path)]) == 0 and "veScale job timeline" in capsys.readouterr().out


def test_ranks_of_dpro_are_devices_with_lanes(tmp_path: Path) -> None:
    path = tmp_path / "bps_trace_final.json"
    path.write_text(json.dumps(dpro()))
    work = device_work(read_kineto(path))
    assert work.device.tolist().count(1) == 4 and set(work.stream.tolist()) == {0, 1}
    assert set(work.names(work.row[work.kind == COMMUNICATION])) == {"Comm.conv0.PUSH"}


def test_steps_that_end_beyond_int64_end_at_its_end(tmp_path: Path) -> None:
    late = {"pid": 1, "tid": 1, "ph": "X", "ts": 9.2e15, "dur": 1e14, "args": {}}
    events = [
        {"name": "ProfilerStep#1", "cat": "user_annotation", **late},
        {"name": "aten::mm", "cat": "cpu_op", **late},
    ]
    path = tmp_path / "late.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    assert device_work(read_kineto(path)).steps.end_ns.tolist() == [2**63 - 1]


def test_straggler_traces_are_named_with_what_takes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "steps.parquet"
    path.write_bytes(b"PAR1\x15\x04\x15\x10\x15\x14\x4c\x15\x02")
    for command in (["info"], ["analyze", "overlap"]):
        assert main([*command, str(path)]) == 2
        said = capsys.readouterr().err
        assert "found a Parquet file (a straggler trace?)" in said and "chakrasim what-if FILE --meta JOB.yaml" in said
