"""Threads that idle because they wait for the device, in traces in which no call says that it waits (JAX's)."""

from __future__ import annotations

import numpy as np

from chakrasim.linker.evidence.enqueued import Links
from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.linker.evidence.launches import Launches
from chakrasim.linker.evidence.nesting import Pieces
from chakrasim.linker.evidence.threads import Handovers
from chakrasim.trace.kineto.columns import Ints

#: A thread that goes on this soon after the device has done all it was given waited for it: the runtime wakes it by a
#: thread of its own, which takes some 100 us.
WAKING_NS = 1_000_000


def idle_waits(work: LaneEvents, launches: Launches, pieces: Pieces, said: Links, found: Handovers) -> None:
    """Idle time of threads half of which the device worked, at the end of which it had done all it was given, by this
    thread last; ``said``: waits of calls, of which there must be none."""
    work.counts["idle_waits_for_the_device"] = 0
    if not len(work.device) or not len(work.host) or len(said):
        return
    device = work.device
    by_end = np.argsort(device.end_ns, kind="stable")
    gaps = np.flatnonzero(pieces.owner < 0)
    start, end = pieces.start_ns[gaps], pieces.end_ns[gaps]
    last = by_end[np.maximum(np.searchsorted(device.end_ns[by_end], end, side="right") - 1, 0)]
    done, call = device.end_ns[last], launches.call[last]
    own = (call >= 0) & (work.host.lane[call] == pieces.lane[gaps])
    idle = _worked(device.start_ns, device.end_ns, end) == _worked(device.start_ns, device.end_ns, done)
    busy = 2 * (_worked(device.start_ns, device.end_ns, done) - _worked(device.start_ns, device.end_ns, start))
    fits = own & idle & (done > start) & (end - done <= WAKING_NS) & (busy >= end - start)
    for at in np.flatnonzero(fits & (launches.time_ns[last] <= start)).tolist():
        gap, over = int(gaps[at]), int(done[at])
        if gap not in found.kept:
            found.kept[gap] = [(over, int(end[at]))] if over < end[at] else []
            found.returns.append((int(last[at]), int(pieces.lane[gap]), over))
    work.counts["idle_waits_for_the_device"] = len(found.returns)


def _worked(start_ns: Ints, end_ns: Ints, until_ns: Ints) -> Ints:
    """For how long some of the work was under way before each time, in ns."""
    order = np.argsort(start_ns, kind="stable")
    begin, over = start_ns[order], np.maximum.accumulate(end_ns[order])
    fresh = np.append(True, begin[1:] > over[:-1])
    begin, over = begin[fresh], over[np.append(fresh[1:], True)]
    before = np.append(0, np.cumsum(over - begin))
    at = np.searchsorted(begin, until_ns, side="right") - 1
    open_ = np.minimum(until_ns, over[at]) - begin[at]
    return np.where(at >= 0, before[np.maximum(at, 0)] + open_, 0)
