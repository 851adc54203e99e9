"""Events of a thread into a tree, and the thread's time into pieces that belong to one event or to none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.jit import kernel, leaf
from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.trace.kineto.columns import Indices, Ints, Mask

#: Times are rounded when they are written: what disagrees by no more than this is taken as equal.
TOLERANCE_NS = 1000


@dataclass(eq=False)
class Pieces:
    """The time of the threads, cut up, by thread and time: no overlaps, and no holes before some are explained.

    ``owner`` int32[p] position in ``LaneEvents.host``, -1 where no event explains the time; ``lane`` int32[p];
    ``start_ns``, ``end_ns`` int64[p]. Changed in place, a column at a time: they are the larger part of what linking
    needs.
    """

    owner: Indices
    lane: Indices
    start_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.owner)

    def offsets(self, threads: int) -> Ints:
        """int64[threads + 1]: where the pieces of each thread begin."""
        return np.searchsorted(self.lane, np.arange(threads + 1)).astype(np.int64)

    def forget_times(self) -> None:
        """Free the lanes and times, which the rows have by now."""
        self.lane, self.start_ns, self.end_ns = np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64)

    def keep(self, which: Mask | slice) -> None:
        """Drop all other pieces."""
        for name in ("owner", "lane", "start_ns", "end_ns"):
            setattr(self, name, getattr(self, name)[which].copy())

    def insert(
        self, at: NDArray[np.intp] | Indices, owner: Indices, lane: Indices, start_ns: Ints, end_ns: Ints
    ) -> None:
        """Insert pieces before the positions ``at``, which ascend."""
        values: dict[str, NDArray[Any]] = {"owner": owner, "lane": lane, "start_ns": start_ns, "end_ns": end_ns}
        for name, column in values.items():
            setattr(self, name, np.insert(getattr(self, name), at, column))


@dataclass(eq=False)
class Nesting:
    """The tree: ``parent`` int32[h] position in ``LaneEvents.host`` of the event around each, -1 at the top; ``end_ns``
    int64[h] ends of the events after repair; ``pieces`` their time, until they are given away."""

    parent: Indices
    end_ns: Ints
    pieces: Pieces

    def give_pieces(self) -> Pieces:
        """The pieces, which this then no longer holds on to."""
        given, nothing = self.pieces, np.zeros(0, np.int64)
        self.pieces = Pieces(nothing.astype(np.int32), nothing.astype(np.int32), nothing, nothing)
        return given


def nest(work: LaneEvents) -> Nesting:
    """Nest the host's events, thread by thread.

    An event that starts inside another is its child. A child that ends up to 1 us after its parent ends with it; one
    that begins less than 1 us before its neighbour's end follows it. Other overlaps (``straddling_events``) are left:
    the time belongs to the event that started last.
    """
    host = work.host
    n = len(host)
    end = host.end_ns.copy()
    parent = np.full(n, -1, np.int32)
    first = np.full(n, -1, np.int32)
    room = 2 * n + 2 * work.threads
    pieces = Pieces(
        np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.int64)
    )
    counts = np.zeros(3, np.int64)
    stack = np.empty(n + 1, np.int32)
    table = (pieces.owner, pieces.lane, pieces.start_ns, pieces.end_ns)
    used = _cut(host.lane, host.start_ns, end, _extents(work), parent, first, stack, table, counts)
    names = ("children_clamped", "ends_moved_to_the_next_start", "straddling_events")
    work.counts.update(zip(names, counts.tolist(), strict=True))
    del table
    pieces.keep(slice(used))
    return Nesting(parent, end, pieces)


def _extents(work: LaneEvents) -> Ints:
    """int64[threads, 2]: from when to when there is something on each thread, names included."""
    extents = np.empty((work.threads, 2), np.int64)
    extents[:, 0], extents[:, 1] = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    for spans in (work.host, work.annotations):
        np.minimum.at(extents[:, 0], spans.lane, spans.start_ns)
        np.maximum.at(extents[:, 1], spans.lane, spans.end_ns)
    return extents


@kernel
def _cut(
    lane: Any, start: Any, end: Any, extents: Any, parent: Any, first: Any, stack: Any, pieces: Any, counts: Any
) -> int:
    at = 0
    event = 0
    for thread in range(len(extents)):
        now = extents[thread, 0]
        depth = 0
        while True:
            more = event < len(lane) and lane[event] == thread
            while depth > 0:
                top = stack[depth - 1]
                if more and end[top] > start[event]:
                    over = end[event] - end[top]
                    lap = end[top] - start[event]
                    if over <= 0 or lap > TOLERANCE_NS or over <= lap:
                        break
                    end[top] = start[event]
                    counts[1] += 1
                if end[top] > now or first[top] < 0:
                    first[top] = at
                    at = _add_piece(pieces, at, top, thread, now, max(end[top], now))
                    now = max(end[top], now)
                depth -= 1
            if not more:
                break
            if depth > 0:
                top = stack[depth - 1]
                parent[event] = top
                if end[event] > end[top]:
                    if end[event] - end[top] <= TOLERANCE_NS:
                        end[event] = end[top]
                        counts[0] += 1
                    else:
                        counts[2] += 1
                if start[event] > now or first[top] < 0:
                    first[top] = at
                    at = _add_piece(pieces, at, top, thread, now, start[event])
            elif start[event] > now:
                at = _add_piece(pieces, at, np.int32(-1), thread, now, start[event])
            now = start[event]
            stack[depth] = event
            depth += 1
            event += 1
        if extents[thread, 1] > now:
            at = _add_piece(pieces, at, np.int32(-1), thread, now, extents[thread, 1])
    return at


@leaf
def _add_piece(pieces: Any, at: Any, owner: Any, lane: Any, start: Any, end: Any) -> Any:
    """Write a row of `Pieces`; where the next one goes."""
    pieces[0][at], pieces[1][at], pieces[2][at], pieces[3][at] = owner, lane, start, end
    return at + 1


def innermost(lane: Indices, start_ns: Ints, end_ns: Ints, at_lane: Indices, at_ns: Ints) -> Indices:
    """int32: for each point (thread ``at_lane``, time ``at_ns``), both ascending, the last started of the spans
    around it, -1 for none. The spans, too, come by lane and start."""
    found = np.full(len(at_lane), -1, np.int32)
    if len(lane) and len(at_lane):
        _innermost(lane, start_ns, end_ns, at_lane, at_ns, np.empty(len(lane), np.int32), found)
    return found


@kernel
def _innermost(lane: Any, start: Any, end: Any, at_lane: Any, at: Any, stack: Any, found: Any) -> None:
    span = 0
    depth = 0
    for point in range(len(at)):
        here = at_lane[point]
        while span < len(lane) and (lane[span] < here or (lane[span] == here and start[span] <= at[point])):
            stack[depth] = span
            depth += 1
            span += 1
        while depth > 0 and (lane[stack[depth - 1]] != here or end[stack[depth - 1]] <= at[point]):
            depth -= 1
        if depth > 0:
            found[point] = stack[depth - 1]


def last_at(
    keys_lane: Indices, keys_ns: Ints, lanes: int, lane: NDArray[np.integer], time_ns: Ints
) -> NDArray[np.intp]:
    """For each point, the position of the last key of its lane that is not later than it; -1 where there is none.

    The keys come by lane, then time; points in any order.
    """
    offsets = np.searchsorted(keys_lane, np.arange(lanes + 1)).astype(np.int64)
    found = np.empty(len(lane), np.int64)
    _last_at(offsets, keys_ns, np.ascontiguousarray(lane, np.int32), np.ascontiguousarray(time_ns, np.int64), found)
    return found.astype(np.intp)


@kernel
def _last_at(offsets: Any, keys: Any, lane: Any, time: Any, found: Any) -> None:
    for point in range(len(lane)):
        low = offsets[lane[point]]
        high = offsets[lane[point] + 1]
        begin = low
        while low < high:
            middle = (low + high) // 2
            if keys[middle] <= time[point]:
                low = middle + 1
            else:
                high = middle
        found[point] = low - 1 if low > begin else -1
