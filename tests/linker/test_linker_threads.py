"""Threads: nesting, pieces, gaps, steps, and threads that wait for one another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kineto_maker import BASE, KinetoMaker
from linked_checks import check, edges, evidence, name_of, row

from chakrasim.errors import InputError
from chakrasim.linker.api import link
from chakrasim.linker.rows.replay import replay
from chakrasim.notes import Notes
from chakrasim.trace.linked.columns import EdgeKind, Evidence, LinkedTrace, RowKind


def spans(linked: LinkedTrace) -> list[tuple[str, int, int]]:
    """(name, start, end) of every row, in microseconds."""
    start = (linked.start_ns - BASE * 1000) // 1000
    end = (linked.end_ns - BASE * 1000) // 1000
    return [(name_of(linked, at), int(start[at]), int(end[at])) for at in range(len(linked))]


def test_pieces_of_an_interrupted_operator(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path).op("a", 0, 100).op("b", 10, 20).op("c", 30, 10).op("d", 120, 10)
    linked = link(device=trace.write())
    check(linked)
    assert spans(linked) == [
        ("a", 0, 10),
        ("b", 10, 30),
        ("c", 30, 40),
        ("a:1", 40, 100),
        ("gap", 100, 120),
        ("d", 120, 130),
    ]
    assert edges(linked, EdgeKind.CONTROL) == [("a", "b"), ("a", "c")]
    assert linked.inclusive_ns.tolist() == [100_000, 20_000, 10_000, 0, 0, 10_000]
    assert linked.parent.tolist() == [-1, 0, 0, -1, -1, -1]
    assert linked.head.tolist() == [0, 1, 2, 0, 4, 5]


def test_child_listed_before_its_parent_with_the_same_start(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path).op("child", 0, 10).op("parent", 0, 30).op("late child", 20, 11)
    linked = link(device=trace.write())
    check(linked)
    assert edges(linked, EdgeKind.CONTROL) == [("parent", "child"), ("parent", "late child")]
    assert linked.counts["children_clamped"] == 1
    assert linked.inclusive_ns[row(linked, "late child")] == 10_000


def test_equal_spans_nest_as_in_the_file(tmp_path: Path) -> None:
    linked = link(device=KinetoMaker(tmp_path).op("first", 5, 10).op("second", 5, 10).write())
    check(linked)
    assert edges(linked, EdgeKind.CONTROL) == [("first", "second")]
    assert spans(linked) == [("first", 5, 5), ("second", 5, 15)]


def test_neighbours_that_overlap_by_a_microsecond_follow_each_other(tmp_path: Path) -> None:
    linked = link(device=KinetoMaker(tmp_path).op("a", 0, 10).op("b", 9, 50).write())
    check(linked)
    assert spans(linked) == [("a", 0, 9), ("b", 9, 59)]
    assert edges(linked, EdgeKind.CONTROL) == []
    assert linked.counts["ends_moved_to_the_next_start"] == 1


def test_straddling_events_are_kept_and_counted(tmp_path: Path) -> None:
    notes = Notes()
    trace = KinetoMaker(tmp_path).op("a", 0, 50).op("b", 30, 50).op("c", 60, 10)
    linked = link(device=trace.write(), notes=notes)
    check(linked)
    assert spans(linked) == [("a", 0, 30), ("b", 30, 60), ("c", 60, 70), ("b:1", 70, 80)]
    assert linked.counts["straddling_events"] == 1
    assert "1 events of a thread end after the event around them" in notes.warnings[0]


def test_threads_are_told_apart_by_process_and_thread(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path).op("a", 0, 50).event("cpu_op", "b", 10, 10, 200, 1)
    linked = link(device=trace.write())
    check(linked)
    assert [(lane.pid, lane.identity) for lane in linked.lanes] == [(100, "1"), (200, "1")]
    assert edges(linked, EdgeKind.CONTROL) == []


def test_nesting_deeper_than_a_thousand_levels(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path)
    for level in range(3000):
        trace.op(f"f{level}", level, 2 * (3000 - level))
    linked = link(device=trace.write())
    check(linked)
    assert len(edges(linked, EdgeKind.CONTROL)) == 2999


def test_annotations_name_work_but_are_none(tmp_path: Path) -> None:
    """Optimizer.step over 90 % of the run is a span, not work."""
    trace = KinetoMaker(tmp_path).note("Optimizer.step#SGD.step", 0, 90).op("a", 10, 10).op("b", 95, 5)
    linked = link(device=trace.write())
    check(linked)
    assert spans(linked) == [("gap", 0, 10), ("a", 10, 20), ("gap", 20, 95), ("b", 95, 100)]
    assert linked.strings[int(linked.annotations.name[0])] == "Optimizer.step#SGD.step"
    assert linked.annotation.tolist() == [0, 0, 0, -1]


def test_steps_are_unions_of_rows(tmp_path: Path) -> None:
    trace = (
        KinetoMaker(tmp_path)
        .note("ProfilerStep#7", 0, 100)
        .note("ProfilerStep#8", 100, 50)
        .op("a", 10, 20)
        .op("b", 110, 20)
    )
    linked = link(device=trace.write())
    check(linked)
    assert spans(linked) == [
        ("gap", 0, 10),
        ("a", 10, 30),
        ("gap", 30, 100),
        ("gap", 100, 110),
        ("b", 110, 130),
        ("gap", 130, 150),
    ]
    assert linked.step.tolist() == [7, 7, 7, 8, 8, 8]
    assert linked.annotations.step.tolist() == [7, 8]


def test_one_step_alone(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path).note("ProfilerStep#7", 0, 100).note("ProfilerStep#8", 100, 100)
    for at in (10, 110):
        trace.op("op", at, 20).launch(f"kernel{at}", at + 5, at + 50, 70, at)
    linked = link(device=trace.write(), step=8)
    check(linked)
    assert set(linked.step.tolist()) == {8}
    assert [name_of(linked, at) for at in np.flatnonzero(linked.is_device)] == ["kernel110"]
    start, end = replay(linked)
    assert int(end[~linked.is_device].max() - start.min()) == 100_000
    with pytest.raises(InputError, match=r"there is no such step; found 9; expected one of 7, 8"):
        link(device=trace.write(), step=9)


def test_a_step_of_a_trace_without_steps(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the trace has no ProfilerStep"):
        link(device=KinetoMaker(tmp_path).op("a", 0, 1).write(), step=1)


def test_gap_of_49_nanoseconds(tmp_path: Path) -> None:
    """L-487: numbers that float64 cannot hold."""
    trace = (
        KinetoMaker(tmp_path).op("a", "1732107142997066.682", "476375.838").op("b", "1732107143473442.569", "10.000")
    )
    linked = link(device=trace.write())
    check(linked)
    assert linked.end_ns[0] == 1732107143473442520
    assert linked.duration_ns[1] == 49 and linked.kind[1] == RowKind.GAP


def backward(tmp_path: Path) -> KinetoMaker:
    """A main thread that runs forward, waits for the backward thread, and goes on 400 us after it."""
    return (
        KinetoMaker(tmp_path)
        .note("ProfilerStep#1", 0, 2000)
        .op("aten::mm", 10, 90, **{"Sequence number": 5, "Fwd thread id": 0})
        .op("autograd::engine::evaluate_function: MmBackward0", 300, 400, tid=2,
            **{"Sequence number": 5, "Fwd thread id": 1})
        .op("aten::add_", 1100, 100)
    )  # fmt: skip


def test_backward_runs_on_another_thread(tmp_path: Path) -> None:
    linked = link(device=backward(tmp_path).write())
    check(linked)
    engine = "autograd::engine::evaluate_function: MmBackward0"
    assert spans(linked) == [
        ("gap", 0, 10),
        ("aten::mm", 10, 100),
        ("gap", 100, 300),
        (engine, 300, 700),
        ("gap", 700, 1100),
        ("aten::add_", 1100, 1200),
        ("gap", 1200, 2000),
    ]
    assert edges(linked, EdgeKind.INTER_THREAD) == [(engine, "gap"), ("gap", engine)]
    assert evidence(linked, EdgeKind.INTER_THREAD) == {Evidence.FLOW}


def test_a_slower_backward_delays_the_main_thread(tmp_path: Path) -> None:
    linked = link(device=backward(tmp_path).write())
    linked.duration_ns[row(linked, "autograd::engine::evaluate_function: MmBackward0")] += 1_000_000
    _, end = replay(linked)
    assert int(end.max() - linked.end_ns.max()) == 1_000_000


def test_a_worker_that_fills_the_idle_time_was_waited_for(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path).op("a", 0, 100).op("work", 110, 800, tid=2).op("b", 930, 50).op("c", 3000, 10)
    linked = link(device=trace.write())
    check(linked)
    assert edges(linked, EdgeKind.INTER_THREAD) == [("gap", "work"), ("work", "gap")]
    assert evidence(linked, EdgeKind.INTER_THREAD) == {Evidence.INFERRED}


def test_idle_time_that_nothing_explains_stays(tmp_path: Path) -> None:
    """The worker ends long before the main thread goes on, and fills little of its idle time."""
    trace = KinetoMaker(tmp_path).op("a", 0, 100).op("work", 110, 50, tid=2).op("b", 930, 50)
    linked = link(device=trace.write())
    check(linked)
    assert ("gap", 110, 930) in spans(linked)
    assert edges(linked, EdgeKind.INTER_THREAD) == [("gap", "work")]


def test_a_later_thread_starts_from_what_runs_then(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path).op("main", 0, 1000).op("worker", 400, 2000, tid=9)
    linked = link(device=trace.write())
    check(linked)
    assert spans(linked)[:3] == [("main", 0, 400), ("main:1", 400, 1000), ("worker", 400, 2400)]
    assert edges(linked, EdgeKind.INTER_THREAD) == [("main", "worker")]


def test_host_collectives_are_work(tmp_path: Path) -> None:
    trace = (
        KinetoMaker(tmp_path)
        .op("c10d::allreduce_", 0, 100)
        .note("gloo:all_reduce", 60, 440, tid=3)
        .op("after", 900, 100)
    )
    linked = link(device=trace.write())
    check(linked)
    assert linked.kind[row(linked, "gloo:all_reduce")] == RowKind.HOST_COLLECTIVE
    pairs = [("c10d::allreduce_", "gloo:all_reduce"), ("gloo:all_reduce", "gap")]
    assert edges(linked, EdgeKind.COMMUNICATION) == pairs
    assert ("gap", 500, 900) in spans(linked)


@pytest.mark.parametrize(("goes_on", "waits"), [(800, True), (501, False)])
def test_a_collective_whose_end_was_written_late_ends_where_its_waiter_goes_on(
    tmp_path: Path, goes_on: float, waits: bool
) -> None:
    trace = (
        KinetoMaker(tmp_path)
        .op("c10d::allreduce_", 0, 100)
        .note("gloo:all_reduce", 60, 940, tid=3)
        .op("step", goes_on, 20)
        .op("after", 1100, 100)
    )
    linked = link(device=trace.write())
    check(linked)
    assert linked.counts["collective_ends_corrected"] == waits
    assert (("gloo:all_reduce", "step") in edges(linked, EdgeKind.COMMUNICATION)) == waits
    assert (("gloo:all_reduce", 60, goes_on) in spans(linked)) == waits


def test_a_late_end_is_not_corrected_where_the_program_waits_on_or_another_collective_explains(tmp_path: Path) -> None:
    waits_on = KinetoMaker(tmp_path).op("c10d::allreduce_", 0, 100).note("gloo:all_reduce", 60, 2940, tid=3)
    waits_on.op("short", 1500, 100).op("after", 3020, 100)
    other = KinetoMaker(tmp_path).op("c10d::allreduce_", 0, 40).op("c10d::allreduce_", 40, 60)
    other.note("gloo:all_reduce", 30, 750, tid=3).note("gloo:all_reduce", 90, 950, tid=4).op("step", 800, 400)
    for trace in (waits_on, other):
        assert link(device=trace.write()).counts["collective_ends_corrected"] == 0


def test_threads_named_by_text_and_other_noise(tmp_path: Path) -> None:
    trace = (
        KinetoMaker(tmp_path).op("a", 0, 10).event("Trace", "PyTorch Profiler (0)", 0, 99, "Spans", "PyTorch Profiler")
    )
    trace.event("python_function", "f", 0, 99, 100, 1).event("overhead", "o", 0, 5, 100, 1)
    trace.event("gpu_user_annotation", "ProfilerStep#1", 0, 5, 0, 7)
    linked = link(device=trace.write())
    check(linked)
    assert spans(linked) == [("a", 0, 10)]
    assert len(linked.lanes) == 1 and len(linked.annotations) == 0


def test_negative_and_absurd_times_of_a_trace_in_memory(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path).op("a", 0, 10).op("b", 20, 5).op("c", 30, 5).read()
    trace.dur_ns[1], trace.ts_ns[2] = -1, 1 << 62
    linked = link(device=trace)
    check(linked)
    assert spans(linked) == [("a", 0, 10), ("gap", 10, 20), ("b", 20, 20)]
    assert (linked.counts["negative_durations"], linked.counts["events_with_absurd_times"]) == (1, 1)


def test_nothing_to_link(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to link; expected a host trace, a device trace, or both"):
        link()
    with pytest.raises(InputError, match="there is no work in this trace; found 1 events"):
        link(device=KinetoMaker(tmp_path).note("x", 0, 1).write())
