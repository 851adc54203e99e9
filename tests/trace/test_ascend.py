"""Traces of Ascend NPUs as device traces: work, launches, collectives, and the profiler's own figures of overlap."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ascend_documents import CANN_PID, HARDWARE_PID, PYTHON, arrows, complete, document

from chakrasim.analysis.table.kernel_classes import COMMUNICATION, COMPUTE
from chakrasim.analysis.table.work import DeviceWork, device_work
from chakrasim.linker.api import link
from chakrasim.notes import Notes
from chakrasim.scenarios.asked import asked_of
from chakrasim.scenarios.recorded import ask_recorded
from chakrasim.trace import KinetoTrace, read_kineto
from chakrasim.trace.intervals import merge
from chakrasim.trace.kineto.only_work import last_begun
from chakrasim.trace.linked.columns import EdgeKind, Evidence, RowKind


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
    assert launchers == {"Node@launch"}
    handed = np.flatnonzero((linked.edge_kind == EdgeKind.INTER_THREAD) & (linked.edge_evidence == Evidence.FLOW))
    givers = {linked.strings[name] for name in linked.name[linked.edge_source[handed]]}
    assert (len(handed), givers) == ((29, {"Enqueue"}) if queue else (0, set()))
    assert set(linked.step[rows].tolist()) == {4}
    rows = rows[np.argsort(linked.start_ns[rows])]
    parents = [linked.strings[name] for name in linked.name[linked.parent[rows]]]
    assert parents == [f"aten::op{number}" for number in range(1, 30)]


def queued(kernel_us: float) -> list[dict[str, Any]]:
    """Three tasks, given within 6 us, of which each is compiled for 100 us before it launches a kernel."""
    operator = partial(complete, cat="cpu_op")
    events = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
        for pid, name in ((PYTHON, "Python"), (CANN_PID, "CANN"), (HARDWARE_PID, "Ascend Hardware"))
    ]
    free = 0
    for number in range(1, 4):
        given, taken, launched = 2000 * number, 110_000 * (number - 1) + 10_000, 110_000 * number
        free = max(free, launched + 5_000) + round(1000 * kernel_us)
        began = free - round(1000 * kernel_us)
        events.append(operator(PYTHON, 1, f"aten::op{number}", given, given + 1500))
        events.append(complete(PYTHON, 1, "Enqueue", given + 100, given + 900, cat="enqueue"))
        events.append(complete(PYTHON, 2, f"Dequeue@{number}", taken, launched + 8_000, cat="dequeue"))
        events += arrows("async_task_queue", number, (PYTHON, 1, given + 100), (PYTHON, 2, taken))
        events.append(complete(CANN_PID, 2, "AscendCL@aclopCompileAndExecute", taken + 1000, launched + 7_000))
        events.append(complete(HARDWARE_PID, 4, f"MatMul{number}", began, free))
        events += arrows("HostToDevice", str(number << 32), (CANN_PID, 2, launched), (HARDWARE_PID, 4, began))
    end = max(free, 341_000) + 2_000
    events.append(operator(PYTHON, 1, "aten::item", 9_000, end + 1_000))
    events.append(complete(CANN_PID, 1, "AscendCL@aclrtSynchronizeStream", 341_000, end))  # once the queue is empty
    events.append(operator(PYTHON, 1, "ProfilerStep#1", 1_000, end + 5_000))
    return events


def test_what_the_thread_of_a_queue_does_is_no_delay_and_holds_kernels_up(read: Any) -> None:
    linked = link(device=read(queued(10)))
    assert linked.step_paths[0].delay_only_share < 0.03
    for kernel_us in (0, 40, 200):
        (answer,) = ask_recorded(linked, [asked_of(f"compute={kernel_us / 10}")]).steps
        truth = link(device=read(queued(kernel_us)))
        (known,) = ask_recorded(truth, [asked_of("compute=1")]).steps
        assert answer.after_ns == pytest.approx(known.before_ns, rel=0.01), kernel_us


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
    launched = trace.correlation[last_begun(trace, kernels, end)]
    linked = link(device=trace)
    row = {int(linked.correlation[row]): row for row in np.flatnonzero(linked.kind == RowKind.KERNEL)}
    rows = [row[int(one)] for one in launched]
    named = [linked.strings[name] for name in linked.name[linked.parent[rows]]]
    assert len(asked) == 274 and named == [trace.strings[name] for name in trace.name[asked]]
    assert linked.step_paths[0].delay_only_share < 0.02  # the thread of the queue compiles: its work, no delay
