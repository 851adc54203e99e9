"""Traces of Ascend NPUs as device traces: work, launches, collectives, and the profiler's own figures of overlap."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ascend_documents import document

from chakrasim.analysis.table.intervals import merge
from chakrasim.analysis.table.kernel_classes import COMMUNICATION, COMPUTE
from chakrasim.analysis.table.work import DeviceWork, device_work
from chakrasim.linker.api import link
from chakrasim.notes import Notes
from chakrasim.trace import KinetoTrace, read_kineto
from chakrasim.trace.kineto.only_work import last_begun
from chakrasim.trace.linked.columns import EdgeKind, RowKind


def lane_ns(trace: KinetoTrace, name: str) -> int:
    """The sum of a lane of the overlap analysis."""
    lane = trace.where(trace.category, "overlap_analysis") & trace.where(trace.name, name)
    return int(trace.dur_ns[lane].sum())


def time_ns(work: DeviceWork, *kinds: int) -> int:
    """How long work of some class ran."""
    chosen = np.isin(work.kind, kinds)
    return int(merge(work.start_ns[chosen], work.end_ns[chosen]).total)


def agrees(trace: KinetoTrace, tolerance_ns: int = 0) -> None:
    """Compute, communication and free are those that the profiler states."""
    work = device_work(trace)
    both = time_ns(work, COMPUTE, COMMUNICATION)
    chosen = np.isin(work.kind, (COMPUTE, COMMUNICATION))
    span = int(work.end_ns[chosen].max() - work.start_ns[chosen].min())
    exposed = both - time_ns(work, COMPUTE)
    assert time_ns(work, COMPUTE) == pytest.approx(lane_ns(trace, "Computing"), abs=tolerance_ns)
    assert time_ns(work, COMMUNICATION) == lane_ns(trace, "Communication")
    assert exposed == lane_ns(trace, "Communication(Not Overlapped)")
    assert span - both == pytest.approx(lane_ns(trace, "Free"), abs=tolerance_ns)


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def of(events: list[dict[str, Any]], **options: Any) -> KinetoTrace:
        path = tmp_path / "trace_view.json"
        path.write_text(json.dumps(events))
        return read_kineto(path, **options)

    return of


@pytest.mark.parametrize("queue", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_compute_communication_and_free_are_the_profilers(seed: int, queue: bool, read: Any) -> None:
    agrees(read(document(seed, queue)))


def test_events_get_the_categories_of_their_processes(read: Any) -> None:
    notes = Notes()
    trace = read(document(1), notes=notes)
    names = Counter(trace.strings[category] for category in trace.category[trace.has(2)])  # those with a duration
    assert names["kernel"] == 24 + 4 and names["gpu_memcpy"] == 1 and names["npu_task"] == 4
    assert names["communication_task"] == 4 and names["cann_runtime"] == 4 * 29 and names["user_annotation"] == 1
    assert names["cpu_op"] == 29 and "" not in names
    work = device_work(trace)
    assert set(work.device.tolist()) == {3} and work.steps.number.tolist() == [4]
    streams = Counter(work.stream[work.kind == COMMUNICATION].tolist())
    assert set(work.stream[work.kind == COMPUTE].tolist()) == {4} and min(streams) > 9
    assert trace.rare_column("bytes").bits.tolist() == [512]
    assert list(notes) == [f"{trace.source}: the AI cores' clock changes, from 1200 to 1800 MHz"]
    assert len(read(document(1), keep="work")) == sum(names.values())


@pytest.mark.parametrize("queue", [True, False])
def test_work_is_launched_by_the_operator_that_asked_for_it(queue: bool, read: Any) -> None:
    trace = read(document(2, queue))
    linked = link(device=trace)
    kinds = (RowKind.KERNEL, RowKind.MEMCPY)
    rows = np.flatnonzero(np.isin(linked.kind, kinds))
    arrows = linked.edge_kind == EdgeKind.LAUNCH
    assert set(linked.edge_target[arrows].tolist()) == set(rows.tolist()) and len(rows) == 29
    launchers = {linked.strings[name] for name in linked.name[linked.edge_source[arrows]]}
    assert launchers == ({"Enqueue"} if queue else {"Node@launch"})
    rows = rows[np.argsort(linked.start_ns[rows])]
    parents = [linked.strings[name] for name in linked.name[linked.parent[rows]]]
    assert parents == [f"aten::op{number}" for number in range(1, 30)]


def test_the_public_sample(shared_dir: Path) -> None:
    path = shared_dir / "traces" / "wild" / "traces" / "ascend_npu_trace_view.json.gz"
    trace = read_kineto(path)
    events = json.loads(gzip.decompress(path.read_bytes()))
    pids = {event["args"]["name"]: event["pid"] for event in events if event["name"] == "process_name"}
    mine = Counter(trace.strings[category] for category in trace.category)
    theirs = Counter((event["pid"], event.get("cat")) for event in events if event["ph"] == "X")
    assert mine["kernel"] + mine["gpu_memcpy"] == theirs[pids["Ascend Hardware"], None] == 276
    queued = theirs[pids["Python"], "enqueue"] + theirs[pids["Python"], "dequeue"]
    assert mine["cann_runtime"] == theirs[pids["CANN"], None] + queued
    assert mine["overlap_analysis"] == theirs[pids["Overlap Analysis"], None]
    assert mine["cpu_op"] + mine["user_annotation"] == theirs[pids["Python"], "cpu_op"]
    agrees(trace, 50)  # its free time overlaps its compute by some ns: old versions computed with floats
    assert link(device=trace).counts["unlinked_device_rows"] == 2  # copies that no arrow leads to
    arrows = trace.where(trace.category, "async_npu")
    begin, end = (np.flatnonzero(arrows & (trace.phase == ord(letter))) for letter in "sf")
    kernels = np.flatnonzero(trace.where(trace.category, "kernel"))
    operators = np.flatnonzero(trace.where(trace.category, "cpu_op"))
    asked = last_begun(trace, operators, begin[np.argsort(trace.rare_column("id").integers(len(trace))[begin])])
    end = end[np.argsort(trace.rare_column("id").integers(len(trace))[end])]
    launched = trace.correlation[last_begun(trace, kernels, end)] - 1
    within = last_begun(trace, operators, launched)
    assert len(asked) == 274 and (within == asked).all()
