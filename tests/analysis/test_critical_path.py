"""The critical path of a linked trace: made by hand with its exact answer, random, and recorded."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from linked_maker import LinkedMaker

from chakrasim import InputError
from chakrasim.analysis.critical_path.path import (
    CAUSES,
    LinkedPath,
    linked_critical_path,
    mark_critical_path,
    path_figures,
)
from chakrasim.linker.api import link
from chakrasim.trace.linked.columns import ON_CRITICAL_PATH, EdgeKind, LinkedTrace, RowKind

OPERATOR, RUNTIME, GAP, KERNEL, MEMCPY = (
    RowKind.OPERATOR,
    RowKind.RUNTIME,
    RowKind.GAP,
    RowKind.KERNEL,
    RowKind.MEMCPY,
)
THREAD, LAUNCH, STREAM = EdgeKind.THREAD, EdgeKind.LAUNCH, EdgeKind.STREAM


def synchronising() -> LinkedMaker:
    """A launch (10 ns to 20 ns); its kernel 25 to 125, 5 late; a copy 128 to 158; the host waits from 30 on, returns 7
    after the copy's end, and works 40 more."""
    made = LinkedMaker()
    first = made.row(OPERATOR, "aten::mm", 0, 0, 10)
    launch = made.row(RUNTIME, "cudaLaunchKernel", 0, 10, 10)
    idle = made.row(GAP, "", 0, 20, 10)
    kernel = made.row(KERNEL, "gemm", 2, 25, 100, delay=5)
    copy = made.row(MEMCPY, "Memcpy", 2, 128, 30, delay=3)
    wait = made.row(RUNTIME, "cudaDeviceSynchronize", 0, 30, 7, wait=128)
    after = made.row(OPERATOR, "aten::add", 0, 165, 40)
    for kind, source, target in (
        (THREAD, first, launch), (THREAD, launch, idle), (LAUNCH, launch, kernel), (STREAM, kernel, copy),
        (THREAD, idle, wait), (EdgeKind.SYNC_CONTEXT, copy, wait), (EdgeKind.SYNC_CONTEXT, kernel, wait),
        (EdgeKind.CONTROL, first, after), (THREAD, wait, after),
    ):  # fmt: skip
        made.edge(kind, source, target)
    made.notes = [("ProfilerStep#1", 0, 25), ("ProfilerStep#2", 30, 175)]
    return made


def test_the_path_goes_over_the_device_and_back() -> None:
    linked = synchronising().build()
    path = linked_critical_path(linked)
    assert path.rows.tolist() == [0, 1, 3, 4, 5, 6]
    assert path.edges.tolist() == [-1, 0, 2, 3, 5, 8]
    assert (path.start_ns, path.end_ns, path.total_ns) == (0, 205, 205)
    assert path.breakdown_ns() == {
        "host": 60,
        "host gap": 0,
        "kernel": 100,
        "communication": 0,
        "memory copy": 30,
        "launch latency": 5,
        "kernel-kernel gap": 3,
        "synchronisation": 7,
    }
    assert path.sync_edges.tolist() == [5, 6] and path.on_path.tolist() == [True, False]


def test_collectives_are_told_apart() -> None:
    made = synchronising()
    made.collectives = [3]
    breakdown = linked_critical_path(made.build()).breakdown_ns()
    assert (breakdown["kernel"], breakdown["communication"]) == (0, 100)


def test_a_window_keeps_the_work_that_was_begun_in_it() -> None:
    linked = synchronising().build()
    first = linked_critical_path(linked, annotation="ProfilerStep", instance=0)
    assert first.rows.tolist() == [0, 1, 3]
    assert first.window_ns == (0, 25)
    second = linked_critical_path(linked, annotation="ProfilerStep", instance=1)
    assert second.window_ns == (30, 205)
    assert second.rows.tolist() == [4, 5, 6]
    both = linked_critical_path(linked, annotation="ProfilerStep")
    assert both.rows.tolist() == linked_critical_path(linked).rows.tolist()
    assert linked_critical_path(linked, annotation="Step", instance=(0, 1)).total_ns == 205


def test_a_device_row_belongs_where_it_was_launched() -> None:
    made = synchronising()
    made.notes = [("late", 26, 10), ("early", 0, 22)]
    linked = made.build()
    assert 3 in linked_critical_path(linked, annotation="early").rows
    assert 3 not in linked_critical_path(linked, annotation="late").rows


def test_edges_on_the_path_are_marked_and_no_others() -> None:
    linked = synchronising().build()
    marked = mark_critical_path(linked, linked_critical_path(linked))
    assert np.flatnonzero(marked.edge_flags & ON_CRITICAL_PATH).tolist() == [0, 2, 3, 5, 8]
    assert not linked.edge_flags.any()
    again = mark_critical_path(marked, linked_critical_path(linked, annotation="ProfilerStep", instance=1))
    assert np.flatnonzero(again.edge_flags & ON_CRITICAL_PATH).tolist() == [5, 8]


def test_the_figures() -> None:
    linked = synchronising().build()
    figures = path_figures(linked, linked_critical_path(linked))
    assert figures["total_ns"] == sum(figures["breakdown_ns"].values()) == 205
    assert list(figures["breakdown_ns"]) == list(CAUSES)
    assert figures["rows"][2] == {
        "row": 3,
        "name": "gemm",
        "lane": "GPU 0 stream 7",
        "start_ns": 25,
        "duration_ns": 100,
        "cause": "kernel",
        "delay_ns": 5,
        "delay_cause": "launch latency",
        "reached_by": "launch",
    }
    assert [(edge["from_name"], edge["to_name"], edge["on_path"]) for edge in figures["sync_edges"]] == [
        ("Memcpy", "cudaDeviceSynchronize", True),
        ("gemm", "cudaDeviceSynchronize", False),
    ]
    ends = [row["start_ns"] + row["duration_ns"] for row in figures["rows"]]
    assert [row["start_ns"] - row["delay_ns"] for row in figures["rows"]][1:] == ends[:-1]


def message(linked: LinkedTrace, **options: object) -> str:
    with pytest.raises(InputError) as refused:
        linked_critical_path(linked, **options)  # type: ignore[arg-type]
    return str(refused.value)


def test_what_cannot_be_analysed() -> None:
    linked = synchronising().build()
    assert message(linked, annotation="forward") == (
        "made: no annotation contains 'forward'; found 'ProfilerStep#1', 'ProfilerStep#2'; name another one, or '' for "
        "the whole trace"
    )
    assert message(linked, annotation="Profiler", instance=2) == (
        "made: there is no instance 2 of 'Profiler'; expected 0 to 1"
    )
    assert "there is no instance 1:0" in message(linked, annotation="Profiler", instance=(1, 0))
    made = synchronising()
    made.notes = [("far", 1000, 5)]
    assert message(made.build(), annotation="far") == "made: nothing starts in the window; found 1000 to 1005 ns"
    assert "no times" in message(LinkedMaker().build())
    backwards = synchronising()
    backwards.edge(THREAD, 6, 0)
    assert message(backwards.build()) == "made: an edge of the linked trace goes backwards"


def longest(linked: LinkedTrace, path: LinkedPath) -> int:
    """The latest end of all, by recursion over all paths."""

    def end(row: int) -> int:
        before = [
            end(int(source))
            for source, target, kind in zip(linked.edge_source, linked.edge_target, linked.edge_kind, strict=True)
            if target == row and kind != EdgeKind.CONTROL
        ]
        begin = max(before) + linked.delay_ns[row] if before else linked.start_ns[row] + linked.wait_ns[row]
        return int(begin + linked.duration_ns[row])

    return max(end(row) for row in range(len(linked)))


@given(seed=st.integers(0, 2**32))
def test_no_path_is_longer(seed: int) -> None:
    random = Random(seed)
    made = LinkedMaker()
    for row in range(random.randrange(1, 9)):
        kind = random.choice([OPERATOR, GAP, KERNEL])
        made.row(
            kind, "work", random.randrange(3), random.randrange(9) + 1, random.randrange(9), 0, random.randrange(3)
        )
        for source in range(row):
            if random.random() < 0.3:
                made.edge(random.choice(list(EdgeKind)), source, row)
    linked = made.build()
    path = linked_critical_path(linked)
    assert path.end_ns == longest(linked, path)
    assert path.total_ns == sum(path.breakdown_ns().values())
    assert path.edges[0] == -1
    for at in range(1, len(path)):
        edge = path.edges[at]
        assert (linked.edge_source[edge], linked.edge_target[edge]) == (path.rows[at - 1], path.rows[at])
        assert linked.edge_kind[edge] != EdgeKind.CONTROL


@pytest.mark.parametrize("name", ["event_sync_trace", "multi_stream_event_sync_trace", "nccl_data"])
def test_recorded_traces_are_explained_to_their_end(name: str, shared_dir: Path) -> None:
    linked = link(device=shared_dir / "traces" / "hta" / f"{name}.json.gz")
    path = linked_critical_path(linked)
    assert path.end_ns == linked.end_ns.max()
    assert path.total_ns == sum(path.breakdown_ns().values())
    assert len(path.sync_edges) >= 5
