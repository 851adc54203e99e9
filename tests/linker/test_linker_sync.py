"""Synchronisation: what records prove, what is only likely, and what is rejected."""

from __future__ import annotations

from pathlib import Path

import pytest
from kineto_maker import KinetoMaker
from linked_checks import BLOCKING, check, edges, evidence, row

from chakrasim.linker.api import link
from chakrasim.notes import Notes
from chakrasim.trace.linked.columns import EdgeKind, Evidence, LinkedTrace, RowKind


def two_kernels(tmp_path: Path) -> KinetoMaker:
    """Kernels on streams 7 and 20 that end at 300 and 400."""
    return KinetoMaker(tmp_path).launch("k7", 10, 100, 200, 11).launch("k20", 20, 100, 300, 12, stream=20)


def waits(linked: LinkedTrace) -> list[tuple[str, str]]:
    return edges(linked, *BLOCKING)


def test_stream_sync(tmp_path: Path) -> None:
    trace = two_kernels(tmp_path).call("cudaStreamSynchronize", 50, 255, 13).sync("Stream Sync", 50, 252, 13, stream=7)
    linked = link(device=trace.op("next", 310, 5).write())
    check(linked)
    assert edges(linked, EdgeKind.SYNC_STREAM) == [("k7", "cudaStreamSynchronize")]
    assert evidence(linked, EdgeKind.SYNC_STREAM) == {Evidence.SYNC_RECORD}
    call = row(linked, "cudaStreamSynchronize")
    assert (linked.wait_ns[call], linked.duration_ns[call]) == (250_000, 5_000)
    assert linked.header["cross_stream_edges"] == "complete"


def test_context_sync_waits_for_every_stream(tmp_path: Path) -> None:
    trace = two_kernels(tmp_path).kernel("other device", 100, 900, None, device=1)
    trace.call("cudaDeviceSynchronize", 50, 355, 13).sync("Context Sync", 50, 352, 13)
    linked = link(device=trace.write())
    check(linked)
    assert edges(linked, EdgeKind.SYNC_CONTEXT) == [("k20", "cudaDeviceSynchronize"), ("k7", "cudaDeviceSynchronize")]


def test_event_sync_waits_for_what_was_enqueued_before_the_event(tmp_path: Path) -> None:
    trace = two_kernels(tmp_path).call("cudaEventRecord", 30, 2, 14).launch("later", 40, 310, 500, 15)
    trace.call("cudaEventSynchronize", 60, 245, 16).sync("Event Sync", 60, 242, 16, on_stream=7, record=14)
    linked = link(device=trace.write())
    check(linked)
    assert edges(linked, EdgeKind.SYNC_EVENT) == [("k7", "cudaEventSynchronize")]


def test_record_call_of_another_name(tmp_path: Path) -> None:
    trace = two_kernels(tmp_path).call("cudaEventRecordWithFlags", 30, 2, 14)
    trace.call("cudaEventQuery", 350, 4, 16).sync("Event Sync", 350, 3, 16, on_stream=7, record=14)
    linked = link(device=trace.write())
    check(linked)
    assert edges(linked, EdgeKind.SYNC_EVENT) == [("k7", "cudaEventQuery")]


def test_stream_wait_event(tmp_path: Path) -> None:
    """Whichever thread launches next; several sources for one kernel."""
    trace = two_kernels(tmp_path).call("cudaEventRecord", 30, 2, 14).call("cudaEventRecord", 33, 2, 15)
    trace.call("cudaStreamWaitEvent", 40, 2, 16).sync("Stream Wait Event", 40, 1, 16, stream=24, on_stream=7, record=14)
    trace.call("cudaStreamWaitEvent", 44, 2, 17).sync(
        "Stream Wait Event", 44, 1, 17, stream=24, on_stream=20, record=15
    )
    trace.launch("k24", 60, 410, 50, 18, stream=24, tid=5)
    linked = link(device=trace.write())
    check(linked)
    assert edges(linked, EdgeKind.EVENT_WAIT) == [("k20", "k24"), ("k7", "k24")]
    assert linked.delay_ns[row(linked, "k24")] == 10_000


def test_a_wait_without_work_after_it_is_handed_on(tmp_path: Path) -> None:
    """Stream 24 waits for stream 7, gets no work, and is then waited for itself."""
    trace = two_kernels(tmp_path).launch("k24", 25, 100, 5, 30, stream=24).call("cudaEventRecord", 31, 2, 14)
    trace.call("cudaStreamWaitEvent", 40, 2, 16).sync("Stream Wait Event", 40, 1, 16, stream=24, on_stream=7, record=14)
    trace.call("cudaStreamSynchronize", 50, 255, 17).sync("Stream Sync", 50, 252, 17, stream=24)
    linked = link(device=trace.write())
    check(linked)
    assert edges(linked, EdgeKind.SYNC_STREAM) == [("k24", "cudaStreamSynchronize"), ("k7", "cudaStreamSynchronize")]
    assert linked.counts["stream_waits_without_later_work"] == 1


def test_sources_that_end_late_are_rejected(tmp_path: Path) -> None:
    """The record says stream 20, whose kernel still ran when the call returned."""
    notes = Notes()
    trace = two_kernels(tmp_path).call("cudaStreamSynchronize", 50, 100, 13).sync("Stream Sync", 50, 95, 13, stream=20)
    linked = link(device=trace.write(), notes=notes)
    check(linked)
    assert waits(linked) == []
    assert linked.counts["edges_rejected_source_ends_late"] == 1
    assert "1 waits were rejected" in notes.warnings[0]


def test_source_that_ends_within_a_microsecond_is_kept(tmp_path: Path) -> None:
    trace = (
        two_kernels(tmp_path).call("cudaStreamSynchronize", 50, 249.5, 13).sync("Stream Sync", 50, 249, 13, stream=7)
    )
    linked = link(device=trace.write())
    check(linked, exact=False)
    assert waits(linked) == [("k7", "cudaStreamSynchronize")]
    assert linked.counts["waits_ending_late_by_clock"] == 1


def test_earlier_work_of_the_stream_stands_in(tmp_path: Path) -> None:
    """Another thread launched while the call began: what was before it was waited for all the same."""
    trace = two_kernels(tmp_path).launch("late", 49, 310, 500, 30, tid=5)
    trace.call("cudaStreamSynchronize", 50, 255, 13).sync("Stream Sync", 50, 252, 13, stream=7)
    linked = link(device=trace.write())
    check(linked)
    assert waits(linked) == [("k7", "cudaStreamSynchronize")]


def test_every_step_and_outside_steps(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path).note("ProfilerStep#1", 0, 1000).note("ProfilerStep#2", 1000, 1000)
    for at in (0, 1000, 5000):
        trace.launch(f"k{at}", at + 10, at + 50, 100, at + 1)
        trace.call(f"sync{at}", at + 20, 150, at + 2).sync("Stream Sync", at + 20, 145, at + 2, stream=7)
    linked = link(device=trace.write())
    check(linked)
    assert waits(linked) == [("k0", "sync0"), ("k1000", "sync1000"), ("k5000", "sync5000")]


def test_colliding_external_ids_make_no_pairs(tmp_path: Path) -> None:
    """Old Kineto: calls and kernels carry their correlation as External id, and operators have such ids by chance."""
    trace = (
        KinetoMaker(tmp_path).op("innocent", 400, 20, **{"External id": 13}).op("other", 430, 5, **{"External id": 1})
    )
    trace.call("cudaLaunchKernel", 10, 5, 11, **{"External id": 11}).kernel("k", 50, 100, 11, **{"External id": 11})
    trace.call("cudaStreamSynchronize", 20, 140, 13, **{"External id": 13})
    trace.sync("Stream Sync", 20, 135, 13, stream=7)
    linked = link(device=trace.write())
    check(linked)
    assert waits(linked) == [("k", "cudaStreamSynchronize")]
    assert linked.counts["false_pairs_of_reference"] == 1


def test_blocking_copy(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path).call("cudaMemcpy", 10, 100, 5).copy("Memcpy DtoH (Device -> Pageable)", 30, 60, 5)
    linked = link(device=trace.op("next", 120, 5).write())
    check(linked)
    assert edges(linked, EdgeKind.LAUNCH) == [("cudaMemcpy", "Memcpy DtoH (Device -> Pageable)")]
    assert edges(linked, EdgeKind.SYNC_COPY) == [("Memcpy DtoH (Device -> Pageable)", "cudaMemcpy:1")]
    assert evidence(linked, EdgeKind.SYNC_COPY) == {Evidence.CORRELATION}


def test_a_blocking_copy_behind_other_work_waits_from_its_call_on(tmp_path: Path) -> None:
    """What it stands behind is no work of the host: a kernel of its stream, one of a stream that its own waits for, or
    work that is not in the trace."""
    copy = "Memcpy DtoH (Device -> Pageable)"
    trace = (
        KinetoMaker(tmp_path).launch("k7", 10, 100, 400, 1).call("cudaMemcpyAsync", 50, 460, 5).copy(copy, 501, 5, 5)
    )
    trace.launch("k8", 600, 610, 300, 2).launch("early", 605, 612, 3, 3, stream=9)
    trace.call("cudaEventRecord", 620, 2, 6).call("cudaStreamWaitEvent", 625, 2, 7)
    trace.sync("Stream Wait Event", 625, 2, 7, stream=9, on_stream=7, record=6)
    trace.call("cudaMemcpyAsync", 650, 270, 8).copy(copy, 912, 5, 8, stream=9)
    trace.call("hipMemcpyWithStream", 1000, 500, 9).copy(copy, 1490, 5, 9, stream=11)
    trace.launch("k7", 1600, 1610, 20, 10).call("cudaMemcpyAsync", 1700, 30, 11).copy(copy, 1720, 5, 11)
    linked = link(device=trace.op("next", 1740, 5).write())
    check(linked)
    calls = [row for row, name in enumerate(linked.name) if "Memcpy" in linked.strings[name] and linked.kind[row] == 1]
    spans = [(int(linked.wait_ns[row]), int(linked.duration_ns[row])) for row in calls]
    behind = [(0, 0), (456_000, 4_000), (0, 0), (267_000, 3_000), (0, 0), (495_000, 5_000)]
    assert spans == [*behind, (0, 20_000), (5_000, 5_000)]  # the last had only to be prepared


def test_copies_that_do_not_block(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path)
    trace.call("cudaMemcpyAsync", 10, 100, 5).copy("Memcpy HtoD (Pinned -> Device)", 30, 60, 5)
    trace.call("cudaMemcpyAsync", 200, 10, 6).copy("Memcpy DtoH (Device -> Pageable)", 230, 60, 6)
    linked = link(device=trace.write())
    check(linked)
    assert waits(linked) == []


def test_without_records_blocking_calls_are_inferred(tmp_path: Path) -> None:
    trace = two_kernels(tmp_path).call("cudaStreamSynchronize", 50, 255, 13).call("cudaDeviceSynchronize", 310, 95, 14)
    linked = link(device=trace.write())
    check(linked)
    assert edges(linked, EdgeKind.SYNC_STREAM) == [("k7", "cudaStreamSynchronize")]
    assert edges(linked, EdgeKind.SYNC_CONTEXT) == [("k20", "cudaDeviceSynchronize"), ("k7", "cudaDeviceSynchronize")]
    assert evidence(linked, *BLOCKING) == {Evidence.INFERRED}
    assert linked.header["cross_stream_edges"] == "absent"


def test_cuda_12_9_records_lack_their_source(tmp_path: Path) -> None:
    """L-195068: who recorded the event is taken from the calls, and said to be inferred."""
    trace = KinetoMaker(tmp_path).launch("k7", 10, 100, 200, 11).call("cudaEventRecord", 20, 2, 14)
    trace.call("cudaStreamWaitEvent", 30, 2, 16).sync("Stream Wait Event", 30, 1, 16, stream=24)
    trace.launch("k24", 40, 310, 50, 18, stream=24)
    trace.call("cudaEventSynchronize", 60, 245, 19).sync("Event Sync", 60, 240, 19)
    linked = link(device=trace.write())
    check(linked)
    assert edges(linked, EdgeKind.EVENT_WAIT) == [("k7", "k24")]
    assert edges(linked, EdgeKind.SYNC_EVENT) == [("k7", "cudaEventSynchronize")]
    assert evidence(linked, EdgeKind.EVENT_WAIT, EdgeKind.SYNC_EVENT) == {Evidence.INFERRED}
    assert linked.header["cross_stream_edges"] == "inferred"


def test_without_records_stream_waits_are_inferred_where_times_allow(tmp_path: Path) -> None:
    trace = KinetoMaker(tmp_path).launch("k7", 10, 100, 200, 11).call("cudaEventRecord", 20, 2, 14)
    trace.call("cudaStreamWaitEvent", 30, 2, 16).launch("k24", 40, 310, 50, 18, stream=24)
    linked = link(device=trace.write())
    check(linked)
    assert edges(linked, EdgeKind.EVENT_WAIT) == [("k7", "k24")]
    assert linked.header["cross_stream_edges"] == "inferred"


def test_item_and_data_loader_make_no_circle(tmp_path: Path) -> None:
    """L-189, 134: .item() copies and synchronises inside one operator; a worker thread loads data meanwhile."""
    trace = KinetoMaker(tmp_path)
    for step in range(20):
        at = 1000 * step
        trace.op("aten::mm", at, 50).launch("gemm", at + 10, at + 60, 400, 10 * step + 1)
        trace.op("aten::item", at + 100, 420).op("aten::_local_scalar_dense", at + 101, 415)
        trace.call("cudaMemcpyAsync", at + 105, 370, 10 * step + 2)
        trace.copy("Memcpy DtoH (Device -> Pageable)", at + 465, 5, 10 * step + 2)
        trace.call("cudaStreamSynchronize", at + 480, 20, 10 * step + 3)
        trace.sync("Stream Sync", at + 480, 15, 10 * step + 3, stream=7)
        trace.op("enumerate(DataLoader)", at + 200, 500, tid=9)
    linked = link(device=trace.write())
    check(linked)
    assert linked.counts["edges_rejected_circular"] == 0
    assert len(edges(linked, EdgeKind.SYNC_STREAM)) == len(edges(linked, EdgeKind.SYNC_COPY)) == 20


def test_records_without_calls_and_of_unknown_kind(tmp_path: Path) -> None:
    trace = two_kernels(tmp_path).sync("Stream Sync", 50, 252, 999, stream=7).sync("Sync of tomorrow", 60, 5, 998)
    linked = link(device=trace.write())
    check(linked)
    assert waits(linked) == []
    assert linked.counts["sync_records_without_call"] == 1
    assert linked.counts["sync_records_of_unknown_kind"] == 1


def test_idle_thread_goes_on_after_the_device_has_done_all(tmp_path: Path) -> None:
    """No call says that it waits, as in JAX's profiles."""
    trace = two_kernels(tmp_path).launch("k20 too", 30, 400, 5000, 13, stream=20).op("next", 5640, 5)
    linked = link(device=trace.write())
    check(linked)
    assert edges(linked, EdgeKind.SYNC_STREAM) == [("k20 too", "gap")]
    assert evidence(linked, EdgeKind.SYNC_STREAM) == {Evidence.INFERRED}
    assert linked.counts["idle_waits_for_the_device"] == 1
    gaps = linked.duration_ns[linked.kind == RowKind.GAP]
    assert gaps[-1] == 240_000, "what is left is how long waking took"


@pytest.mark.parametrize(
    ("start", "also"),
    [
        (7_000, None),  # it goes on long after the device
        (5_640, ("k7 late", 35, 5_500, 400, 14)),  # the device goes on
        (60_000, ("k7 late", 35, 59_000, 500, 14)),  # the device did little meanwhile
        (5_640, ("k20 mine", 5_300, 5_400, 100, 14)),  # another thread launched what ended last
    ],
)
def test_idle_threads_that_did_not_wait(
    tmp_path: Path, start: float, also: tuple[str, float, float, float, int] | None
) -> None:
    trace = two_kernels(tmp_path).launch("k20 too", 30, 400, 5000, 13, stream=20).op("next", start, 5)
    if also is not None:
        trace.launch(*also, **({"tid": 9} if "mine" in also[0] else {}))
    linked = link(device=trace.write())
    check(linked)
    assert waits(linked) == []


def test_idle_threads_wait_by_calls_where_calls_say_so(tmp_path: Path) -> None:
    trace = two_kernels(tmp_path).call("cudaStreamSynchronize", 50, 255, 15)
    trace.launch("k20 too", 310, 400, 5000, 13, stream=20).op("next", 5640, 5)
    linked = link(device=trace.write())
    check(linked)
    assert edges(linked, EdgeKind.SYNC_STREAM) == [("k7", "cudaStreamSynchronize")]


def test_nobody_waits_where_the_host_did_nothing_or_all_its_time_is_of_calls(tmp_path: Path) -> None:
    lonely = KinetoMaker(tmp_path).event("user_annotation", "ProfilerStep#1", 0, 100, 100, 1).kernel("k", 10, 20, None)
    busy = KinetoMaker(tmp_path).launch("k", 0, 10, 20, 1)
    for trace in (lonely, busy):
        linked = link(device=trace.write())
        assert waits(linked) == [] and linked.counts["idle_waits_for_the_device"] == 0
