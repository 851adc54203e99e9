"""Launches, streams, orphans, graphs, devices of all makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kineto_maker import BASE, KinetoMaker
from linked_checks import check, device_rows, edges, name_of, row

from chakrasim.linker.api import link
from chakrasim.linker.rows.replay import replay
from chakrasim.notes import Notes
from chakrasim.trace.linked.columns import EdgeKind, RowKind

LAUNCHES = [
    ("cuLaunchKernel", "cuda_driver"),
    ("cuLaunchKernelEx", "cuda_driver"),
    ("cudaLaunchCooperativeKernel", "cuda_runtime"),
    ("cudaLaunchKernelExC", "cuda_runtime"),
    ("hipLaunchKernel", "cuda_runtime"),
    ("hipExtModuleLaunchKernel", "cuda_runtime"),
    ("hipGraphLaunch", "cuda_runtime"),
    ("urEnqueueKernelLaunch", "xpu_runtime"),
    ("a launch nobody has heard of", "privateuse1_runtime"),
]


@pytest.mark.parametrize(("call", "category"), LAUNCHES)
def test_any_call_can_launch(tmp_path: Path, call: str, category: str) -> None:
    """L-116, 122, 171: no list of names."""
    trace = KinetoMaker(tmp_path).op("aten::mm", 0, 50).call(call, 10, 5, 77, category=category).kernel("k", 30, 40, 77)
    linked = link(device=trace.write())
    check(linked)
    assert edges(linked, EdgeKind.LAUNCH) == [(call, "k")]
    assert name_of(linked, linked.parent[row(linked, "k")]) == "aten::mm"
    assert linked.counts["unlinked_device_rows"] == 0


@pytest.mark.parametrize("correlation", [None, -1, 0])
def test_unknown_correlations_join_nothing(tmp_path: Path, correlation: int | None) -> None:
    """L-128 and roctracer's 0: kept as orphans, in the order of their stream."""
    notes = Notes()
    trace = KinetoMaker(tmp_path).op("a", 0, 50).call("cudaLaunchKernel", 10, 5, correlation or 0)
    trace.kernel("first", 30, 40, correlation).kernel("second", 80, 40, correlation)
    linked = link(device=trace.write(), notes=notes)
    check(linked)
    assert edges(linked, EdgeKind.LAUNCH) == []
    assert edges(linked, EdgeKind.STREAM) == [("first", "second")]
    assert linked.counts["unlinked_device_rows"] == 2
    assert linked.counts["unlinked_device_ns"] == linked.counts["device_ns"] == 80_000
    assert "2 events of the device have no launch in the trace" in notes.warnings[0]


def test_kernels_of_a_stream_are_chained(tmp_path: Path) -> None:
    """L-215."""
    trace = KinetoMaker(tmp_path)
    for at in range(4):
        trace.launch(f"k{at}", 10 * at, 100 + 50 * at, 50, 1 + at)
    linked = link(device=trace.write())
    check(linked)
    assert edges(linked, EdgeKind.STREAM) == [("k0", "k1"), ("k1", "k2"), ("k2", "k3")]
    assert linked.delay_ns[linked.is_device].tolist() == [95_000, 0, 0, 0]


def test_collectives_of_a_stream_keep_their_times(tmp_path: Path) -> None:
    """L-184: five all-reduces, launched early, one stream."""
    starts = [28743436, 28755013 + 0, 28786286, 28809750 + 0, 28871565]
    durations = [8932.93, 31272.55, 22644.126, 42481.079, 44283.024]
    starts_us = [28_743_436.0, 28_755_013.0, 28_786_286.0, 28_809_750.0, 28_871_565.0]
    trace = KinetoMaker(tmp_path)
    for at, (start, duration) in enumerate(zip(starts_us, durations, strict=True)):
        trace.launch(f"ncclKernel{at}", 10 * at, start, duration, 100 + at, stream=20)
    linked = link(device=trace.write())
    check(linked)
    device = np.flatnonzero(linked.is_device)
    assert ((linked.start_ns[device] - BASE * 1000) // 1000).tolist() == starts
    assert (linked.start_ns[device[1:]] >= linked.end_ns[device[:-1]]).all()


def test_kernel_before_its_launch(tmp_path: Path) -> None:
    """L-1380: 0.4 us before: kept, no negative delay, counted."""
    trace = KinetoMaker(tmp_path).op("a", 0, 50).launch("k", 10, 9.6, 20, 5)
    linked = link(device=trace.write())
    check(linked, exact=False)
    assert edges(linked, EdgeKind.LAUNCH) == [("cudaLaunchKernel", "k")]
    assert linked.counts["kernels_before_launch"] == 1
    assert linked.delay_ns[row(linked, "k")] == 0


def test_kernel_that_starts_before_its_launch_returns(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path).call("cudaLaunchKernel", 10, 20, 5).kernel("k", 18, 3, 5).op("next", 40, 5)
    linked = link(device=trace.write())
    check(linked)
    assert edges(linked, EdgeKind.LAUNCH) == [("cudaLaunchKernel", "k")]
    assert linked.duration_ns[row(linked, "cudaLaunchKernel")] == 8_000
    assert linked.duration_ns[row(linked, "cudaLaunchKernel:1")] == 12_000


def test_graph_launch_owns_many_kernels(tmp_path: Path) -> None:
    """L-290."""
    trace = KinetoMaker(tmp_path).op("a", 0, 50).call("cudaGraphLaunch", 10, 20, 31)
    for at in range(5):
        trace.kernel(f"g{at}", 20 + 10 * at, 10, 31, stream=7 + at % 2, **{"graph node id": at})
    linked = link(device=trace.write())
    check(linked)
    assert len(edges(linked, EdgeKind.LAUNCH)) == 5
    assert linked.counts["calls_with_several_kernels"] == 1
    assert {name_of(linked, linked.parent[at]) for at in np.flatnonzero(linked.is_device)} == {"a"}


def test_equal_correlations_of_calls_are_told_apart_by_time(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path)
    trace.call("cudaLaunchKernel", 10, 5, 9).kernel("k1", 20, 5, 9)
    trace.call("cuLaunchKernel", 100, 5, 9).kernel("k2", 120, 5, 9)
    linked = link(device=trace.write())
    check(linked)
    assert edges(linked, EdgeKind.LAUNCH) == [("cuLaunchKernel", "k2"), ("cudaLaunchKernel", "k1")]
    assert linked.counts["launches_with_equal_correlation"] == 2


def test_streams_are_keyed_by_device(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path).launch("a0", 0, 20, 50, 1).launch("b0", 6, 30, 50, 2, device=1)
    trace.launch("a1", 12, 80, 50, 3).launch("b1", 18, 90, 50, 4, device=1)
    linked = link(device=trace.write())
    check(linked)
    assert edges(linked, EdgeKind.STREAM) == [("a0", "a1"), ("b0", "b1")]
    assert [(lane.device, lane.stream) for lane in linked.lanes[1:]] == [(0, 7), (1, 7)]


def test_all_categories_of_device_work(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path).op("a", 0, 50)
    kinds = {"kernel": RowKind.KERNEL, "gpu_memcpy": RowKind.MEMCPY, "gpu_memset": RowKind.MEMSET,
             "Kernel": RowKind.KERNEL, "Memcpy": RowKind.MEMCPY, "Memset": RowKind.MEMSET,
             "mtia_ccp_events": RowKind.KERNEL}  # fmt: skip
    for at, category in enumerate(kinds):
        trace.call("launch", 2 + 5 * at, 2, 1 + at).kernel(category, 100 + at * 10, 5, 1 + at, 0, category=category)
    linked = link(device=trace.write())
    check(linked)
    assert device_rows(linked) == list(kinds)
    assert linked.kind[linked.is_device].tolist() == list(kinds.values())
    assert linked.counts["unlinked_device_rows"] == 0


def test_stream_as_text_and_stream_zero(tmp_path: Path) -> None:
    """AMD: stream 0, and numbers written as text."""
    trace = KinetoMaker(tmp_path).call("hipLaunchKernel", 0, 5, 1).kernel("k0", 10, 5, 1, stream="0")
    trace.call("hipLaunchKernel", 6, 3, 2).kernel("k1", 20, 5, 2, stream="0")
    linked = link(device=trace.write())
    check(linked)
    assert edges(linked, EdgeKind.STREAM) == [("k0", "k1")]


def test_overlap_within_a_stream_makes_no_false_order(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path).launch("a", 0, 10, 50, 1).launch("b", 6, 40, 50, 2).launch("c", 12, 100, 5, 3)
    linked = link(device=trace.write())
    check(linked)
    assert edges(linked, EdgeKind.STREAM) == [("b", "c")]
    assert linked.counts["events_overlapping_in_their_stream"] == 1


def test_a_shorter_kernel_ends_the_step_sooner(tmp_path: Path) -> None:
    """L-126: streams run side by side, and what depends on nothing else follows."""
    trace = KinetoMaker(tmp_path).op("a", 0, 30)
    trace.launch("s7", 2, 10, 1000, 1).launch("s20", 8, 20, 900, 2, stream=20)
    linked = link(device=trace.write())
    check(linked)
    linked.duration_ns[row(linked, "s7")] = 1
    _, end = replay(linked)
    assert int(end.max()) == (BASE + 920) * 1000
