"""Waiting between streams that no record proves: from calls that let a stream wait, from gaps, from habits.

A call such as cudaStreamWaitEvent says that a stream waits, but in most traces neither which nor for what. What the
thread launches next on some stream waits then, for work of another stream that was launched before. Which two streams
is seen from the times where the wait held work up: the one began when the other's work had ended, though it had been
launched long before and its own stream was idle. Where it did not, the order of launches says what is likely.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from chakrasim.collectives.spelling import DEVICE_BACKENDS
from chakrasim.linker.evidence.enqueued import Enqueued, Links, enqueue, links
from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.linker.evidence.launches import Launches
from chakrasim.linker.evidence.nesting import TOLERANCE_NS
from chakrasim.linker.evidence.wait_calls import Works, match
from chakrasim.trace.kineto.columns import Indices, Ints, Mask
from chakrasim.trace.linked.columns import EdgeKind, Evidence

NEAR_NS: Final = 10_000
"""So long after the end of what it waited for, work begins at the latest."""
NEAR_CALL_NS: Final = 20_000
"""The same where a call says that it waited: ROCm takes that long."""
LATE_NS: Final = 2_000
"""So much later than its launch and its stream explain, work begins that waited."""
_USUAL: Final = 50
_QUICK: Final = 10
"""The percentile of latencies that is free of waiting for other streams."""
_TWICE: Final = 2
_ALWAYS: Final = 0.95
_NEVER: Final = np.iinfo(np.int64).min // 2


@dataclass(frozen=True, eq=False)
class Times:
    """Of each event of the device, int64[d]: when it could have begun by its launch and its stream, and how much later
    it did. ``gap_ns``: what usually lies between two of a stream."""

    ready_ns: Ints
    late_ns: Ints
    gap_ns: int


def by_calls(work: LaneEvents, launches: Launches, calls: Indices, recordings: Indices) -> Links:
    """What ``calls`` let streams wait for: positions in ``LaneEvents.host`` of calls that say nothing but that;
    ``recordings`` are calls that recorded events."""
    device = work.device
    if not len(calls) or not len(device):
        return links([], [], EdgeKind.EVENT_WAIT, Evidence.INFERRED)
    launches = replace(launches, time_ns=_in_order(work, launches))
    queues = enqueue(work, launches)
    following = queues.threads.devices(queues.threads.first_from(work.host.lane[calls], work.host.start_ns[calls]))
    order = np.lexsort((work.host.start_ns[calls], following, launches.time_ns[following]))
    calls, following = calls[order][following[order] >= 0], following[order][following[order] >= 0]
    lane, time = work.host.lane[calls], work.host.start_ns[calls]
    streams = np.unique(device.lane)
    queue = queues.streams.device
    place = np.full(len(device) + 1, -1, np.int64)
    place[queue] = np.arange(len(queue))
    streams = np.unique(device.lane)
    rows = [(np.full(len(calls), stream, np.int32), time) for stream in streams.tolist()]
    before = [queues.streams.last_before(*row) for row in rows]
    after = [place[_next_on(work, launches, queues, *row, lane)] for row in rows]
    times = times_of(work, launches)
    works = Works(
        np.searchsorted(streams, queues.streams.lane).astype(np.int64),
        device.start_ns[queue],
        device.end_ns[queue],
        launches.time_ns[queue],
        times.ready_ns[queue],
        times.late_ns[queue],
        _run_ends(work, queues, np.concatenate((calls, recordings)))[queue],
        _collectives(work)[queue],
    )
    sides = [np.ascontiguousarray(np.stack(side, axis=1), np.int64) for side in (before, after)]
    source, target = match(works, sides[0], sides[1], place[following], (NEAR_CALL_NS, LATE_NS, TOLERANCE_NS))
    both = (source >= 0) & (target >= 0)
    return links(queue[source[both]], queue[target[both]], EdgeKind.EVENT_WAIT, Evidence.INFERRED)


def by_times(work: LaneEvents, launches: Launches, known: Links) -> Links:
    """Work that began late, nobody knows why, when another stream's work had just ended."""
    device = work.device
    if not len(device):
        return links([], [], EdgeKind.EVENT_WAIT, Evidence.INFERRED)
    times = times_of(work, launches)
    near = _near(work, times, known)
    late = times.late_ns > LATE_NS + times.gap_ns
    late[known.target] = False
    target = np.flatnonzero(late)
    order = np.argsort(device.end_ns, kind="stable")
    at = np.searchsorted(device.end_ns[order], device.start_ns[target] + TOLERANCE_NS, side="right") - 1
    source = np.full(len(target), -1, np.int64)
    open_ = np.flatnonzero(at >= 0)
    while len(open_):
        one, to = order[at[open_]], target[open_]
        late = device.end_ns[one] < device.start_ns[to] - near
        fits = ~late & (device.lane[one] != device.lane[to]) & (device.end_ns[one] > times.ready_ns[to])
        fits &= (launches.time_ns[one] < launches.time_ns[to]) | (launches.call[to] < 0) | (launches.call[one] < 0)
        source[open_[fits]] = one[fits]
        open_ = open_[~late & ~fits]
        at[open_] -= 1
        open_ = open_[at[open_] >= 0]
    return links(source, target, EdgeKind.EVENT_WAIT, Evidence.INFERRED)


def _near(work: LaneEvents, times: Times, known: Links) -> int:
    """So long after the end of what it waited for, work begins at the latest: as waits that are known show it."""
    since = work.device.start_ns[known.target] - work.device.end_ns[known.source]
    held = since[(times.late_ns[known.target] > LATE_NS) & (since > 0) & (since < NEAR_CALL_NS)]
    return max(NEAR_NS, int(1.5 * np.percentile(held, 90))) if len(held) else NEAR_NS


def by_habit(work: LaneEvents, launches: Launches, queues: Enqueued) -> Links:
    """Without any call that lets streams wait: what a thread launches on a stream after work of another waits for that,
    if between these two streams it did so wherever times can tell, and they can more than once."""
    device, queue = work.device, queues.threads
    before, after = queue.device[:-1], queue.device[1:]
    turns = (queue.lane[1:] == queue.lane[:-1]) & (device.lane[before] != device.lane[after])
    source, target = before[turns], after[turns]
    if not len(source):
        return links([], [], EdgeKind.EVENT_WAIT, Evidence.INFERRED)
    times = times_of(work, launches)
    obeys = device.end_ns[source] <= device.start_ns[target] + TOLERANCE_NS
    tells = device.end_ns[source] > times.ready_ns[target]
    pair = device.lane[source].astype(np.int64) * len(work.lanes) + device.lane[target]
    _, pair = np.unique(pair, return_inverse=True)
    held, told = (np.bincount(pair, weights=which) for which in (tells & obeys, tells))
    usual = ((held >= _TWICE) & (held >= _ALWAYS * told))[pair] & obeys
    usual &= device.end_ns[source] > launches.time_ns[target]
    return links(source[usual], target[usual], EdgeKind.EVENT_WAIT, Evidence.INFERRED)


def times_of(work: LaneEvents, launches: Launches) -> Times:
    """When work of the device could have begun."""
    device = work.device
    order = np.lexsort((device.start_ns, device.lane))
    previous = np.full(len(device), _NEVER, np.int64)
    same = np.r_[False, device.lane[order][1:] == device.lane[order][:-1]]
    previous[order[same]] = np.minimum(device.end_ns[order][:-1][same[1:]], device.start_ns[order[same]])
    known = launches.call >= 0
    launched = np.where(known, launches.time_ns, _NEVER)
    idle = known & (previous < launched)
    wait = (device.start_ns - launched)[idle]
    latency = int(np.percentile(wait, _QUICK)) if wait.size else 0
    queued = ~idle & (previous > _NEVER)
    gap = (device.start_ns - previous)[queued & (device.start_ns >= previous)]
    usual = int(np.percentile(gap, _USUAL)) if gap.size else 0
    ready = np.maximum(np.where(known, launched + latency, _NEVER), previous)
    late = np.where((ready > _NEVER) | known, device.start_ns - ready, -_NEVER)
    return Times(ready, late, min(usual, NEAR_NS))


def _in_order(work: LaneEvents, launches: Launches) -> Ints:
    """Times of launches where those of unknown calls are as their stream shows: that of the work ahead; of work ahead
    of all that is known, before all calls."""
    found, call = launches.time_ns.copy(), launches.call
    for lane in np.unique(work.device.lane[call < 0]).tolist():
        low, high = np.searchsorted(work.device.lane, (lane, lane + 1))
        known = call[low:high] >= 0
        if known.any():
            ahead = np.maximum.accumulate(np.where(known, found[low:high], work.host.start_ns.min() - 1))
            found[low:high] = np.where(known, found[low:high], np.minimum(ahead, found[low:high]))
    return found


def _next_on(
    work: LaneEvents, launches: Launches, queues: Enqueued, stream: Indices, time: Ints, thread: Indices
) -> Indices:
    """The work that a stream is given next, if the same thread gives it."""
    found = queues.streams.devices(queues.streams.first_from(stream, time))
    call = launches.call[found]
    ours = (found >= 0) & (call >= 0) & (work.host.lane[call] == thread)
    return np.where(ours, found, -1).astype(np.int32)


def _collectives(work: LaneEvents) -> Mask:
    """bool[d]: work that by its name is a collective's."""
    names = work.kineto.name[work.device.event]
    found: Mask = work.kineto.strings.each(names, _is_collective)
    return found


def _is_collective(name: str) -> bool:
    return any(library in name.lower() for library in DEVICE_BACKENDS)


def _run_ends(work: LaneEvents, queues: Enqueued, calls: Indices) -> Mask:
    """bool[d]: work after which its thread launched on another stream, or called what marks a point of a stream."""
    last = np.ones(len(work.device), np.bool_)
    queue = queues.threads
    if len(queue.device) > 1:
        same = (queue.lane[1:] == queue.lane[:-1]) & (np.diff(work.device.lane[queue.device]) == 0)
        order = np.lexsort((work.host.start_ns[calls], work.host.lane[calls]))
        place = queue.last_before(work.host.lane[calls[order]], work.host.start_ns[calls[order]])
        same[place[(place >= 0) & (place < len(same))]] = False
        last[queue.device[:-1][same]] = False
    return last
