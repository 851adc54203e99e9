"""Waiting between streams that no record proves: from calls that let a stream wait, and from gaps.

A call such as cudaStreamWaitEvent says that a stream waits, but in most traces neither which nor for what. What the
thread launches next on some stream waits then, for work of another stream that was launched before. Which two streams
is seen from the times where the wait held work up: the one began when the other's work had ended, though it had been
launched long before and its own stream was idle. Where it did not, the order of launches says what is likely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.linker.evidence.enqueued import Enqueued, Links, join, links
from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.linker.evidence.launches import Launches
from chakrasim.linker.evidence.nesting import TOLERANCE_NS
from chakrasim.trace.kineto.columns import Indices, Ints
from chakrasim.trace.linked.columns import EdgeKind, Evidence

NEAR_NS: Final = 5_000
"""So long after the end of what it waited for, work begins at the latest."""
LATE_NS: Final = 2_000
"""So much later than its launch and its stream explain, work begins that waited."""
_USUAL: Final = 50
_NEVER: Final = np.iinfo(np.int64).min // 2


@dataclass(frozen=True, eq=False)
class _Times:
    """Of each event of the device, int64[d]: when it could have begun by its launch and its stream, and how much later
    it did. ``gap_ns``: what usually lies between two of a stream."""

    ready_ns: Ints
    late_ns: Ints
    gap_ns: int


def by_calls(work: LaneEvents, launches: Launches, queues: Enqueued, calls: Indices) -> Links:
    """What ``calls`` let streams wait for: positions in ``LaneEvents.host`` of calls that say nothing but that."""
    if not len(calls) or not len(work.device):
        return links([], [], EdgeKind.EVENT_WAIT, Evidence.INFERRED)
    times = _times(work, launches)
    streams = np.unique(work.device.lane)
    lane, time = work.host.lane[calls], work.host.start_ns[calls]
    following = queues.threads.devices(queues.threads.first_from(lane, time))
    before = np.stack([_last_on(queues, stream, time) for stream in streams.tolist()])
    after = np.stack([_next_on(work, launches, queues, stream, lane, time) for stream in streams.tolist()])
    source, target = _held_up(work, times, before, after, queues)
    plain = target < 0
    target[plain] = following[plain]
    source[plain] = _launched_last(work, launches, before, following, time)[plain]
    return _allowed(work, queues, source, target)


def by_times(work: LaneEvents, launches: Launches, known: Links) -> Links:
    """Work that began late, nobody knows why, when another stream's work had just ended."""
    device = work.device
    if not len(device):
        return links([], [], EdgeKind.EVENT_WAIT, Evidence.INFERRED)
    times = _times(work, launches)
    late = times.late_ns > LATE_NS + times.gap_ns
    late[known.target] = False
    target = np.flatnonzero(late)
    order = np.argsort(device.end_ns, kind="stable")
    at = np.searchsorted(device.end_ns[order], device.start_ns[target] + TOLERANCE_NS, side="right") - 1
    source = np.full(len(target), -1, np.int64)
    open_ = np.flatnonzero(at >= 0)
    while len(open_):
        one, to = order[at[open_]], target[open_]
        near = device.end_ns[one] >= device.start_ns[to] - NEAR_NS
        fits = near & (device.lane[one] != device.lane[to]) & (device.end_ns[one] > times.ready_ns[to])
        fits &= (launches.time_ns[one] < launches.time_ns[to]) | (launches.call[to] < 0) | (launches.call[one] < 0)
        source[open_[fits]] = one[fits]
        open_ = open_[near & ~fits]
        at[open_] -= 1
        open_ = open_[at[open_] >= 0]
    return links(source, target, EdgeKind.EVENT_WAIT, Evidence.INFERRED)


def _times(work: LaneEvents, launches: Launches) -> _Times:
    device = work.device
    order = np.lexsort((device.start_ns, device.lane))
    previous = np.full(len(device), _NEVER, np.int64)
    same = np.r_[False, device.lane[order][1:] == device.lane[order][:-1]]
    previous[order[same]] = np.minimum(device.end_ns[order][:-1][same[1:]], device.start_ns[order[same]])
    known = launches.call >= 0
    launched = np.where(known, launches.time_ns, _NEVER)
    idle = known & (previous < launched)
    wait = (device.start_ns - launched)[idle]
    latency = int(np.percentile(wait, _USUAL)) if wait.size else 0
    queued = ~idle & (previous > _NEVER)
    gap = (device.start_ns - previous)[queued & (device.start_ns >= previous)]
    usual = int(np.percentile(gap, _USUAL)) if gap.size else 0
    ready = np.maximum(np.where(known, launched + latency, _NEVER), previous)
    return _Times(ready, np.where(ready > _NEVER, device.start_ns - ready, 0), min(usual, NEAR_NS))


def _last_on(queues: Enqueued, stream: int, time: Ints) -> Indices:
    """The work that a stream had been given last before each time."""
    return queues.streams.devices(queues.streams.last_before(np.full(len(time), stream, np.int32), time))


def _next_on(
    work: LaneEvents, launches: Launches, queues: Enqueued, stream: int, thread: Indices, time: Ints
) -> Indices:
    """The work that a stream is given next, if the same thread gives it."""
    found = queues.streams.devices(queues.streams.first_from(np.full(len(time), stream, np.int32), time))
    call = launches.call[found]
    ours = (found >= 0) & (call >= 0) & (work.host.lane[call] == thread)
    return np.where(ours, found, -1).astype(np.int32)


def _held_up(
    work: LaneEvents, times: _Times, before: Indices, after: Indices, queues: Enqueued
) -> tuple[Indices, Indices]:
    """For each call the pair of another stream's work before it and of work after it that was held up until then."""
    device = work.device
    calls = before.shape[1]
    source, target = np.full(calls, -1, np.int32), np.full(calls, -1, np.int32)
    least = np.full(calls, NEAR_NS + 1, np.int64)
    place = np.empty(len(device), np.int64)
    place[queues.streams.device] = np.arange(len(queues.streams.device))
    for to in after:
        held = (to >= 0) & (times.late_ns[to] > LATE_NS)
        for of in before:
            both = np.flatnonzero(held & (of >= 0) & (device.lane[of] != device.lane[to]))
            at, _ = queues.streams.step_back(place[of[both]], device.end_ns, device.start_ns[to[both]] + TOLERANCE_NS)
            found = queues.streams.devices(at)
            since = np.abs(device.start_ns[to[both]] - device.end_ns[found])
            binds = (found >= 0) & (since < least[both]) & (device.end_ns[found] > times.ready_ns[to[both]])
            best = both[binds]
            least[best], source[best], target[best] = since[binds], found[binds], to[best]
    return source, target


def _launched_last(work: LaneEvents, launches: Launches, before: Indices, target: Indices, time: Ints) -> Indices:
    """What was launched last on any other stream than the target's."""
    device = work.device
    found = np.full(before.shape[1], -1, np.int32)
    when = np.full(before.shape[1], _NEVER, np.int64)
    for of in before:
        launched = launches.time_ns[of]
        later = (of >= 0) & (target >= 0) & (device.lane[of] != device.lane[target]) & (launched > when)
        found[later], when[later] = of[later], launched[later]
    return found


def _allowed(work: LaneEvents, queues: Enqueued, source: Indices, target: Indices) -> Links:
    """Links between streams; of a source that ends too late, the work before it on its stream."""
    device = work.device
    both = np.flatnonzero((source >= 0) & (target >= 0))
    place = np.empty(len(device), np.int64)
    place[queues.streams.device] = np.arange(len(queues.streams.device))
    limit = device.start_ns[target[both]] + TOLERANCE_NS
    at, late = queues.streams.step_back(place[source[both]], device.end_ns, limit)
    work.counts["inferred_waits_moved_back"] = work.counts.get("inferred_waits_moved_back", 0) + late
    found = links(queues.streams.devices(at), target[both], EdgeKind.EVENT_WAIT, Evidence.INFERRED)
    return join([found])
