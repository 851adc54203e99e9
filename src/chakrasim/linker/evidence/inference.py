"""Waiting that no record proves: what calls that block by their name, and the times, make likely."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakrasim.linker.evidence.blocking import blocking_copies, calls_with
from chakrasim.linker.evidence.enqueued import Enqueued, Links, ended_last, join, links
from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.linker.evidence.launches import Launches
from chakrasim.linker.evidence.nesting import TOLERANCE_NS, last_at
from chakrasim.linker.evidence.stream_waits import by_calls, by_habit, by_times
from chakrasim.linker.evidence.synchronisation import EVENT, WAIT, SyncRecords, Waits
from chakrasim.trace.kineto.columns import Indices, Ints, Mask
from chakrasim.trace.linked.columns import EdgeKind, Evidence, RowKind


def named(work: LaneEvents, *parts: str) -> Mask:
    """bool[h]: calls whose name contains one of ``parts`` (lower case)."""
    found: Mask = work.host.kind == RowKind.RUNTIME
    found[found] = calls_with(work.kineto, work.host.event[found], *parts)
    return found


def infer(work: LaneEvents, launches: Launches, queues: Enqueued, records: SyncRecords, waits: Waits) -> Waits:
    """Add to what records prove: blocking copies, blocking calls without a record, waits whose record lacks its
    source, and, where records of waiting streams lack or say too little, waits between streams."""
    recorded = np.zeros(len(work.host), np.bool_)
    recorded[records.call[records.call >= 0]] = True
    host = [waits.host, *_copies(work, launches), *_blocking(work, launches, queues, recorded)]
    host.append(_events(work, launches, queues, waits.unresolved))
    device = [waits.device, _stream_waits(work, queues, waits.unresolved)]
    work.counts["cross_stream_waits_proven"] = len(waits.device)
    if not (records.what == WAIT).any() or (waits.unresolved.what == WAIT).any():
        waiting = named(work, "streamwaitevent")
        calls = np.flatnonzero(waiting & ~_answered(work, records)).astype(np.int32)
        recordings = np.flatnonzero(named(work, "eventrecord")).astype(np.int32)
        device.append(by_calls(work, launches, calls, recordings))
        if not waiting.any():
            device.append(by_habit(work, launches, queues))
        device.append(by_times(work, launches, join(device)))
    found = Waits(join(host), join(device), waits.unresolved)
    work.counts["cross_stream_waits_inferred"] = len(found.device) - len(waits.device)
    return found


def cross_stream(work: LaneEvents, waits: Waits) -> str:
    """ "complete", "inferred" or "absent": how well waiting between streams is known."""
    if work.counts["cross_stream_waits_inferred"]:
        return "inferred"
    return "complete" if work.counts["sync_records"] and not (waits.unresolved.what == WAIT).any() else "absent"


def _copies(work: LaneEvents, launches: Launches) -> list[Links]:
    """Calls that copy and returned after their copy had ended."""
    device, host = work.device, work.host
    copies = np.flatnonzero((device.kind == RowKind.MEMCPY) & (launches.call >= 0))
    call = launches.call[copies]
    late = device.end_ns[copies] - host.end_ns[call]
    blocking = blocking_copies(work.kineto, host.event[call], device.event[copies], late)
    sure, likely = (np.flatnonzero(which) for which in blocking)
    return [
        links(copies[sure], call[sure], EdgeKind.SYNC_COPY, Evidence.CORRELATION),
        links(copies[likely], call[likely], EdgeKind.SYNC_COPY, Evidence.INFERRED),
    ]


def _blocking(work: LaneEvents, launches: Launches, queues: Enqueued, recorded: Mask) -> list[Links]:
    """Calls that synchronise by their name but have no record: the work that ended last while they ran; for a whole
    device the last work of every stream."""
    host = work.host
    whole = named(work, "devicesynchronize", "ctxsynchronize", "contextsynchronize")
    some = named(work, "synchronize") & ~whole & ~recorded
    event = named(work, "eventsynchronize")
    found = []
    for which, kind in ((some & event, EdgeKind.SYNC_EVENT), (some & ~event, EdgeKind.SYNC_STREAM)):
        call = np.flatnonzero(which)
        start, end = host.start_ns[call], host.end_ns[call]
        found.append(links(ended_last(work, launches, start, end, start), call, kind, Evidence.INFERRED))
    call = np.flatnonzero(whole & ~recorded)
    if len(call):
        device = _devices(work, queues, call)
        for (number, _), lane in work.stream_of.items():
            here = call[(device == number) | (device < 0)]
            at = queues.streams.last_before(np.full(len(here), lane, np.int32), host.start_ns[here])
            at, _ = queues.streams.step_back(at, work.device.end_ns, host.end_ns[here] + TOLERANCE_NS)
            found.append(links(queues.streams.devices(at), here, EdgeKind.SYNC_CONTEXT, Evidence.INFERRED))
    return found


def _devices(work: LaneEvents, queues: Enqueued, call: NDArray[np.intp]) -> Ints:
    """The device on which each call's thread last launched work; -1: it never did."""
    at = queues.threads.last_before(work.host.lane[call], work.host.start_ns[call])
    number = np.array([lane.device for lane in work.lanes] or [-1], np.int64)
    last = queues.threads.devices(at)
    return np.where(last >= 0, number[work.device.lane[last]], -1) if len(work.device) else np.full(len(call), -1)


def _events(work: LaneEvents, launches: Launches, queues: Enqueued, unresolved: SyncRecords) -> Links:
    """Calls that waited for an event of unknown origin: the last work of its stream, or, if that is unknown as well,
    the work that ended last while they ran."""
    some = unresolved.take((unresolved.what == EVENT) & (unresolved.call >= 0))
    start, end = work.host.start_ns[some.call], work.host.end_ns[some.call]
    before = np.where(some.recorded >= 0, work.host.start_ns[some.recorded], start)
    anything = ended_last(work, launches, start, end, before)
    at = queues.streams.last_before(some.source_lane, before)
    at, _ = queues.streams.step_back(at, work.device.end_ns, end + TOLERANCE_NS)
    source = np.where(some.source_stream >= 0, queues.streams.devices(at), anything)
    return links(source, some.call, EdgeKind.SYNC_EVENT, Evidence.INFERRED)


def _stream_waits(work: LaneEvents, queues: Enqueued, unresolved: SyncRecords) -> Links:
    """Streams that waited for an event of which its stream or its recording is unknown.

    The recording is taken as the last of the thread before the wait, the stream as that of the work that the thread
    launched last before it.
    """
    some = unresolved.take((unresolved.what == WAIT) & (unresolved.lane >= 0) & (unresolved.call >= 0))
    recorded = np.where(some.recorded >= 0, some.recorded, _last_recorded(work, some.call))
    at = queues.streams.last_before(some.source_lane, some.time_ns)
    known = some.source_stream >= 0
    source = np.where(known, queues.streams.devices(at), _launched_before(work, queues, recorded))
    target = queues.streams.devices(queues.streams.first_from(some.lane, some.time_ns))
    return _checked(work, source.astype(np.int32), target)


def _answered(work: LaneEvents, records: SyncRecords) -> Mask:
    """bool[h]: calls of which a record says, or the recording before them shows, for what their stream waits."""
    waits = np.flatnonzero((records.what == WAIT) & (records.call >= 0))
    call = records.call[waits]
    shown = (records.source_stream[waits] >= 0) | (records.recorded[waits] >= 0) | (_last_recorded(work, call) >= 0)
    found = np.zeros(len(work.host), np.bool_)
    found[call[shown]] = True
    return found


def _last_recorded(work: LaneEvents, call: Indices) -> Indices:
    """The last call before each that recorded an event, on its thread; -1: none."""
    recording = np.flatnonzero(named(work, "eventrecord")).astype(np.int32)
    lane, time = work.host.lane[recording], work.host.start_ns[recording]
    at = last_at(lane, time, work.threads, work.host.lane[call], work.host.start_ns[call] - 1)
    return np.where(at >= 0, recording[at], -1).astype(np.int32) if len(recording) else np.full(len(call), -1, np.int32)


def _launched_before(work: LaneEvents, queues: Enqueued, call: Indices) -> Indices:
    """The work that each call's thread had launched last; -1: none, or no call."""
    source = np.full(len(call), -1, np.int32)
    known = np.flatnonzero(call >= 0)
    lane, time = work.host.lane[call[known]], work.host.start_ns[call[known]]
    source[known] = queues.threads.devices(queues.threads.last_before(lane, time))
    return source


def _checked(work: LaneEvents, source: Indices, target: Indices) -> Links:
    """Links between different streams that the times allow."""
    both = np.flatnonzero((source >= 0) & (target >= 0))
    a, b = source[both], target[both]
    device = work.device
    other = device.lane[a] != device.lane[b]
    early = device.end_ns[a] <= device.start_ns[b] + TOLERANCE_NS
    name = "inferred_waits_rejected"
    work.counts[name] = work.counts.get(name, 0) + int((other & ~early).sum())
    return links(a[other & early], b[other & early], EdgeKind.EVENT_WAIT, Evidence.INFERRED)
