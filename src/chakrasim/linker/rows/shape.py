"""The rows of threads and streams: pieces cut where something begins or is waited for in the middle of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.linker.evidence.enqueued import Links
from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.linker.evidence.launches import Launches
from chakrasim.linker.evidence.nesting import Pieces, last_at
from chakrasim.linker.evidence.synchronisation import Waits
from chakrasim.linker.evidence.threads import Handovers
from chakrasim.trace.kineto.columns import Indices, Ints, Mask


@dataclass(frozen=True, eq=False)
class Shape:
    """Rows before they are put in order: ``p`` pieces of threads, then the device's events.

    ``pieces``; ``first``, ``last`` int32[h]: the first and last piece of each event of the host; ``launching``
    int32[d]: the piece that launched each event of the device, -1: unknown; ``waiting``, ``wait_ns``: pieces that
    waited, and how long.
    """

    pieces: Pieces
    first: Indices
    last: Indices
    launching: Indices
    waiting: NDArray[np.intp]
    wait_ns: Ints


def shape(work: LaneEvents, pieces: Pieces, handovers: Handovers, launches: Launches, found: Waits) -> Shape:
    """Cut the pieces:

    - a call in which the device began what it launched: before that it launches, after it goes on (and may wait);
    - a call that launches and waits: into these two, if need be with no time in one of them; where other work held up
      what it launched, or may have, all of it waits;
    - idle time at the borders of the profiler's steps;
    - what another thread's beginning hangs on, there.
    """
    waits = found.host
    handovers.apply(pieces, work.threads)
    first, last = _ends(pieces, len(work.host))
    calls, at, time, forced = _launch_cuts(work, pieces, first, last, launches, found)
    piece, times = _ordinary_cuts(work, pieces, handovers)
    where = np.concatenate((at[forced], piece))
    when = np.concatenate((time[forced], times))
    order = np.lexsort((when, where))
    where, when = where[order], when[order]
    once = np.ones(len(where), np.bool_)
    once[1:] = (where[1:] != where[:-1]) | (when[1:] != when[:-1])
    where, when = where[once], when[once]
    _cut(pieces, where, when)
    launch_piece = at + _position(where, when, at, time)
    launch_of = np.full(len(work.host) + 1, -1, np.int32)
    launch_of[calls] = launch_piece
    first = first + np.searchsorted(where, first, side="left").astype(np.int32)
    last = last + np.searchsorted(where, last, side="right").astype(np.int32)
    return Shape(pieces, first, last, launch_of[launches.call], *_waiting(work, pieces, last, waits))


def _ends(pieces: Pieces, events: int) -> tuple[Indices, Indices]:
    """The first and last piece of each event."""
    owned = np.flatnonzero(pieces.owner >= 0).astype(np.int32)
    first, last = np.zeros(events, np.int32), np.zeros(events, np.int32)
    last[pieces.owner[owned]] = owned
    first[pieces.owner[owned[::-1]]] = owned[::-1]
    return first, last


def _launch_cuts(
    work: LaneEvents, pieces: Pieces, first: Indices, last: Indices, launches: Launches, waits: Waits
) -> tuple[Indices, Indices, Ints, Mask]:
    """Of each call that launched something: the call, its piece in which the device began, when, and whether that
    cuts the piece."""
    known = launches.call >= 0
    calls = np.unique(launches.call[known]).astype(np.int32)
    begin = np.full(len(work.host) + 1, np.iinfo(np.int64).max)
    np.minimum.at(begin, launches.call[known], work.device.start_ns[known])
    waiting = np.zeros(len(work.host) + 1, np.bool_)
    waiting[waits.host.target] = True
    # A wait is no work: a call that is held up has launched as soon as it was called.
    held = waiting & _held(work, launches, waits.device)
    start = pieces.start_ns[first[calls]]
    time = np.where(held[calls], start, np.maximum(begin[calls], start))
    at = last[calls].copy()
    early = np.flatnonzero(pieces.start_ns[at] > time)
    if len(early):
        here = last_at(pieces.lane, pieces.start_ns, work.threads, work.host.lane[calls[early]], time[early])
        while True:
            foreign = np.flatnonzero(pieces.owner[here] != calls[early])
            if not len(foreign):
                break
            here[foreign] -= 1
        at[early] = here
    both = waiting[calls] & (at == last[calls])
    forced = (time < pieces.end_ns[at]) | both
    return calls, at, np.minimum(time, pieces.end_ns[at]), forced


def _held(work: LaneEvents, launches: Launches, waits: Links) -> Mask:
    """bool[h + 1]: calls whose work on the device had to wait for other work that had not ended when they were called:
    of its stream, of which it may be the first in the trace, or of a stream that its own waited for."""
    device = work.device
    called = launches.time_ns
    first = np.append(True, device.lane[1:] != device.lane[:-1])[: len(device)]
    held = first | (np.roll(device.end_ns, 1) > called)
    np.logical_or.at(held, waits.target, device.end_ns[waits.source] > called[waits.target])
    found = np.zeros(len(work.host) + 1, np.bool_)
    found[launches.call[held & (launches.call >= 0)]] = True
    return found


def _ordinary_cuts(work: LaneEvents, pieces: Pieces, handovers: Handovers) -> tuple[Indices, Ints]:
    """The pieces around the points where other threads begin, and idle ones around borders of steps."""
    borders = np.unique(np.concatenate((work.steps.start_ns, work.steps.end_ns)))
    threads = np.arange(work.threads, dtype=np.int32)
    lane = np.concatenate((np.repeat(threads, len(borders)), [cut[0] for cut in handovers.cuts])).astype(np.int32)
    times = [np.tile(borders, work.threads), np.array([cut[1] for cut in handovers.cuts], np.int64)]
    time = np.concatenate(times).astype(np.int64)
    at = last_at(pieces.lane, pieces.start_ns, work.threads, lane, time)
    any_piece = np.arange(len(at)) >= work.threads * len(borders)
    if not len(pieces):
        return np.zeros(0, np.int32), np.zeros(0, np.int64)
    cuts = (at >= 0) & (pieces.start_ns[at] < time) & (time < pieces.end_ns[at]) & (any_piece | (pieces.owner[at] < 0))
    return at[cuts].astype(np.int32), time[cuts]


def _cut(pieces: Pieces, where: Indices, when: Ints) -> None:
    """Cut piece ``where`` at ``when``; both ascending."""
    if not len(where):
        return
    pieces.insert(where + 1, pieces.owner[where], pieces.lane[where], when, pieces.end_ns[where])
    made = where + 1 + np.arange(len(where))
    pieces.end_ns[made - 1] = pieces.start_ns[made]


def _position(where: Indices, when: Ints, at: Indices, time: Ints) -> NDArray[np.intp]:
    """How many cuts come before the part of piece ``at`` that ends at ``time``, or that is its last."""
    low = np.searchsorted(where, at, side="left")
    high = np.searchsorted(where, at, side="right")
    found = high.copy()
    single = np.flatnonzero(high == low + 1)
    found[single] = low[single] + (when[low[single]] < time[single])
    for point in np.flatnonzero(high > low + 1).tolist():
        found[point] = low[point] + int(np.searchsorted(when[low[point] : high[point]], time[point]))
    return found


def _waiting(work: LaneEvents, pieces: Pieces, last: Indices, waits: Links) -> tuple[NDArray[np.intp], Ints]:
    """The pieces that waited and how long: until the last of what they waited for had ended, at most to their end."""
    target = last[waits.target]
    rows, which = np.unique(target, return_inverse=True)
    until = np.full(len(rows), np.iinfo(np.int64).min)
    np.maximum.at(until, which, work.device.end_ns[waits.source])
    start, end = pieces.start_ns[rows], pieces.end_ns[rows]
    work.counts["calls_that_waited"] = len(rows)
    work.counts["waits_ending_late_by_clock"] = int((until > end).sum())
    return rows.astype(np.intp), np.clip(until - start, 0, end - start)
