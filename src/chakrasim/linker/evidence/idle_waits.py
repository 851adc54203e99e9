"""Threads that idle because they wait for the device, in traces in which no call says that it waits (JAX's)."""

from __future__ import annotations

import numpy as np

from chakrasim.linker.evidence.enqueued import Links
from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.linker.evidence.launches import Launches
from chakrasim.linker.evidence.nesting import Pieces
from chakrasim.linker.evidence.threads import Handovers
from chakrasim.trace.intervals import covered_before, merge

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
    busy = merge(device.start_ns, device.end_ns)
    before, until_done, until_end = (covered_before(busy, times) for times in (start, done, end))
    idle, worked = until_end == until_done, 2 * (until_done - before) >= end - start
    fits = own & idle & (done > start) & (end - done <= WAKING_NS) & worked
    for at in np.flatnonzero(fits & (launches.time_ns[last] <= start)).tolist():
        gap, over = int(gaps[at]), int(done[at])
        if gap not in found.kept:
            found.kept[gap] = [(over, int(end[at]))] if over < end[at] else []
            found.returns.append((int(last[at]), int(pieces.lane[gap]), over))
    work.counts["idle_waits_for_the_device"] = len(found.returns)
