"""Who waited for the device, and which stream for another, by the profiler's synchronisation records.

A record names the call (correlation) and what it waited for: a stream, the device, or an event, which stands for the
work that its stream had been given before the event was recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.linker.evidence.enqueued import Enqueued, Links, Queue, join, links
from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.linker.evidence.launches import CallIndex
from chakrasim.linker.evidence.nesting import TOLERANCE_NS, last_at
from chakrasim.linker.rows.columns import rare_at
from chakrasim.trace.kineto.columns import Indices, Ints, Mask
from chakrasim.trace.linked.columns import EdgeKind, Evidence

STREAM, CONTEXT, EVENT, WAIT, OTHER = 0, 1, 2, 3, 4
_NAMES = {"stream sync": STREAM, "stream synchronize": STREAM, "context sync": CONTEXT, "context synchronize": CONTEXT}
_NAMES |= {"device sync": CONTEXT, "event sync": EVENT, "event synchronize": EVENT, "stream wait event": WAIT}


@dataclass(frozen=True, eq=False)
class SyncRecords:
    """Synchronisation records by time, ``s`` of them.

    ``what``: STREAM, ...; ``call`` int32[s] position in ``LaneEvents.host`` of the call that waited; ``device``
    int64[s]; ``lane`` int32[s] the stream that it is about (that waits, for WAIT), -1: none; ``time_ns`` int64[s] start
    of the call; ``recorded`` int32[s] position of the call that recorded the event, -1: unknown; ``source_stream``
    int64[s] the stream it was recorded on, -1: unknown; ``source_lane`` int32[s] the same as a lane, -1 also if it has
    no work.
    """

    what: NDArray[np.uint8]
    call: Indices
    device: Ints
    lane: Indices
    time_ns: Ints
    recorded: Indices
    source_stream: Ints
    source_lane: Indices

    def take(self, which: Mask) -> SyncRecords:
        """Some of the records."""
        return SyncRecords(*(getattr(self, name)[which] for name in self.__dataclass_fields__))

    def __len__(self) -> int:
        return len(self.what)


def read_records(work: LaneEvents, calls: CallIndex) -> SyncRecords:
    """The records of the trace."""
    kineto = work.kineto
    rows = work.syncs
    call = calls.find(kineto.correlation[rows])
    time = np.where(call >= 0, work.host.start_ns[call], kineto.ts_ns[rows]) if len(work.host) else kineto.ts_ns[rows]
    order = np.argsort(time, kind="stable")
    rows, call, time = rows[order], call[order], time[order]
    device = np.where(kineto.device[rows] >= 0, kineto.device[rows], np.maximum(kineto.pid[rows], 0)).astype(np.int64)
    waited = rare_at(kineto.rare_column("wait_on_stream"), rows)
    recorded = calls.find(rare_at(kineto.rare_column("wait_on_cuda_event_record_corr_id"), rows))
    what = kineto.strings.each(kineto.name[rows], lambda name: _NAMES.get(name.lower(), OTHER), np.uint8)
    work.counts["sync_records"] = len(rows)
    work.counts["sync_records_of_unknown_kind"] = int((what == OTHER).sum())
    lane = _lanes(work, device, kineto.stream[rows], elsewhere=False)
    return SyncRecords(what, call, device, lane, time, recorded, waited, _lanes(work, device, waited, elsewhere=True))


def _lanes(work: LaneEvents, device: Ints, stream: Ints, elsewhere: bool) -> Indices:
    """The lane of each (device, stream), -1 if it has no work; ``elsewhere``: or, if only one other device has it,
    that one's."""
    by_number: dict[int, list[int]] = {}
    for (_, number), lane in work.stream_of.items():
        by_number.setdefault(number, []).append(lane)
    pairs, at = np.unique(np.stack((device, stream), axis=1), axis=0, return_inverse=True)
    found = []
    for one, number in pairs.tolist():
        lane = work.stream_of.get((one, number), -1)
        others = by_number.get(number, [])
        found.append(others[0] if lane < 0 and elsewhere and len(others) == 1 else lane)
    return np.array(found, np.int32)[at.ravel()] if found else np.zeros(0, np.int32)


@dataclass(frozen=True, eq=False)
class Waits:
    """``host``: calls that waited for work; ``device``: work that waited for other streams' work. ``unresolved``:
    records that do not say what they waited for."""

    host: Links
    device: Links
    unresolved: SyncRecords


def find_waits(work: LaneEvents, queues: Enqueued, records: SyncRecords) -> Waits:
    """What the records prove."""
    proof = Evidence.SYNC_RECORD
    known = (records.recorded >= 0) & (records.source_lane >= 0)
    waiting = records.take((records.what == WAIT) & known & (records.lane >= 0))
    streams = _Streams(work, queues.streams, waiting)
    host = []
    for what, kind in ((STREAM, EdgeKind.SYNC_STREAM), (EVENT, EdgeKind.SYNC_EVENT)):
        some = records.take((records.what == what) & (records.call >= 0) & (known | (what == STREAM)))
        lane, time = (some.lane, some.time_ns) if what == STREAM else _recorded(work, some)
        host.append(links(*streams.sources(lane, time, some.call, work.host.end_ns), kind, proof))
    host.append(links(*_context(work, streams, records), EdgeKind.SYNC_CONTEXT, proof))
    device = links(*streams.waits(), EdgeKind.EVENT_WAIT, proof)
    work.counts["edges_rejected_source_ends_late"] = streams.rejected
    work.counts["stream_waits_without_later_work"] = streams.idle
    work.counts["sync_records_without_call"] = int(((records.call < 0) & (records.what < WAIT)).sum())
    event = (records.what == EVENT) | (records.what == WAIT)
    unresolved = records.take(event & ((records.recorded < 0) | (records.source_stream < 0)))
    work.counts["sync_records_unresolved"] = len(unresolved)
    return Waits(join(host), join([device]), unresolved)


def _recorded(work: LaneEvents, records: SyncRecords) -> tuple[Indices, Ints]:
    return records.source_lane, work.host.start_ns[records.recorded]


def _context(work: LaneEvents, streams: _Streams, records: SyncRecords) -> tuple[Indices, Indices]:
    """Each stream of the device, for each call that waited for the whole device."""
    some = records.take((records.what == CONTEXT) & (records.call >= 0))
    found: list[tuple[Indices, Indices]] = [(np.zeros(0, np.int32), np.zeros(0, np.int32))]
    for (device, _), lane in work.stream_of.items():
        here = some.take(some.device == device)
        if len(here):
            lanes = np.full(len(here), lane, np.int32)
            found.append(streams.sources(lanes, here.time_ns, here.call, work.host.end_ns))
    return np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])


class _Streams:
    """What a stream had before it at some time: its last work, and what it had been told to wait for since."""

    def __init__(self, work: LaneEvents, queue: Queue, waiting: SyncRecords) -> None:
        self.work, self.queue, self.waiting = work, queue, waiting
        self.rejected = self.idle = 0
        order = np.lexsort((waiting.time_ns, waiting.lane))
        self.by_lane = order
        self.wait_lane, self.wait_time = waiting.lane[order], waiting.time_ns[order]
        lane, time = _recorded(work, waiting)
        self.last = queue.last_before(lane, time)
        self.more: dict[int, list[int]] = {}
        for point in np.flatnonzero(self._pending(lane, time, self.last)).tolist():
            self.more[point] = self._expand(int(lane[point]), int(time[point]))

    def sources(self, lane: Indices, time: Ints, target: Indices, end_ns: Ints) -> tuple[Indices, Indices]:
        """The work that each ``target`` waited for, which waited for all that ``lane`` had been given before ``time``;
        ``end_ns`` of the targets says by when it must have ended."""
        last = self.queue.last_before(lane, time)
        pending = np.flatnonzero(self._pending(lane, time, last))
        at, late = self.queue.step_back(last, self.work.device.end_ns, end_ns[target] + TOLERANCE_NS)
        self.rejected += late
        source, targets = [self.queue.devices(at)], [target]
        for point in pending.tolist():
            more = self._expand(int(lane[point]), int(time[point]))
            limit = int(end_ns[target[point]]) + TOLERANCE_NS
            fit = [one for one in more if self.work.device.end_ns[one] <= limit]
            self.rejected += len(more) - len(fit)
            source.append(np.array(fit, np.int32))
            targets.append(np.full(len(fit), target[point], np.int32))
        return np.concatenate(source), np.concatenate(targets)

    def waits(self) -> tuple[Indices, Indices]:
        """The work that each waiting stream was given next, with what it waited for."""
        device = self.work.device
        target = self.queue.devices(self.queue.first_from(self.waiting.lane, self.waiting.time_ns))
        self.idle = int((target < 0).sum())
        given = np.flatnonzero((target >= 0) & (self.last >= 0))
        limit = device.start_ns[target[given]] + TOLERANCE_NS
        at, late = self.queue.step_back(self.last[given], device.end_ns, limit)
        self.rejected += late
        sources, targets = [self.queue.devices(at)], [target[given]]
        for point, more in self.more.items():
            to = int(target[point])
            fit = [one for one in more if to >= 0 and device.end_ns[one] <= device.start_ns[to] + TOLERANCE_NS]
            sources.append(np.array(fit, np.int32))
            targets.append(np.full(len(fit), to, np.int32))
        return np.concatenate(sources), np.concatenate(targets)

    def _pending(self, lane: Indices, time: Ints, last: NDArray[np.intp]) -> Mask:
        """Whether the stream had been told to wait after its last work."""
        if not len(self.wait_lane) or not len(lane):
            return np.zeros(len(lane), np.bool_)
        wait = self._last_wait(lane, time)
        since = np.where(last >= 0, self.queue.time_ns[last], np.iinfo(np.int64).min) if len(self.queue.lane) else 0
        return (wait >= 0) & (self.wait_time[wait] > since)

    def _last_wait(self, lane: Indices, time: Ints) -> NDArray[np.intp]:
        found = np.full(len(lane), -1, np.intp)
        known = np.flatnonzero(lane >= 0)
        found[known] = last_at(self.wait_lane, self.wait_time, self.queue.lanes, lane[known], time[known] - 1)
        return found

    def _expand(self, lane: int, time: int) -> list[int]:
        """Devices' events that the waits pending on ``lane`` at ``time`` stand for (those of waits before are known:
        waits come by time)."""
        at = int(self.queue.last_before(np.array([lane], np.int32), np.array([time]))[0])
        since = int(self.queue.time_ns[at]) if at >= 0 else np.iinfo(np.int64).min
        wait = int(self._last_wait(np.array([lane], np.int32), np.array([time]))[0])
        found: dict[int, None] = {}
        while wait >= 0 and self.wait_lane[wait] == lane and self.wait_time[wait] > since and len(found) < 64:
            point = int(self.by_lane[wait])
            if self.last[point] >= 0:
                found[int(self.queue.device[self.last[point]])] = None
            found.update(dict.fromkeys(self.more.get(point, [])))
            wait -= 1
        return list(found)
