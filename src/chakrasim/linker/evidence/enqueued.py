"""The order in which work was put on streams, and who put it there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.linker.evidence.launches import Launches
from chakrasim.linker.evidence.nesting import TOLERANCE_NS, last_at
from chakrasim.trace.kineto.columns import Indices, Ints


@dataclass(frozen=True, eq=False)
class Links:
    """Dependencies, ``k`` of them: ``source`` positions in ``LaneEvents.device``, ``target`` positions in
    ``LaneEvents.host`` or ``LaneEvents.device``; ``kind`` and ``evidence`` as in `LinkedTrace`."""

    source: Indices
    target: Indices
    kind: NDArray[np.uint8]
    evidence: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.source)


def links(source: object, target: object, kind: int, evidence: int) -> Links:
    """Links of one kind; pairs with a -1 are left out."""
    a, b = np.asarray(source, np.int32), np.asarray(target, np.int32)
    both = (a >= 0) & (b >= 0)
    a, b = a[both], b[both]
    return Links(a, b, np.full(len(a), kind, np.uint8), np.full(len(a), evidence, np.uint8))


def join(parts: list[Links]) -> Links:
    """All links, each pair once: the first that names it stays."""
    parts = [part for part in parts if len(part)] or [links([], [], 0, 0)]
    names = ("source", "target", "kind", "evidence")
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in names]
    key = columns[0].astype(np.int64) << 32 | columns[1]
    once = np.sort(np.unique(key, return_index=True)[1])
    return Links(*(column[once] for column in columns))


class Queue:
    """Work of the device by the time at which it was launched, on each lane: streams, or the launching threads."""

    def __init__(self, lane: Indices, time_ns: Ints, start_ns: Ints, lanes: int, which: NDArray[np.intp]) -> None:
        order = np.lexsort((start_ns[which], time_ns[which], lane[which]))
        self.device = which[order].astype(np.int32)
        self.lane = lane[self.device]
        self.time_ns = time_ns[self.device]
        self.lanes = lanes

    def last_before(self, lane: Indices, time_ns: Ints) -> NDArray[np.intp]:
        """Positions in this queue of the last work launched on ``lane`` before ``time_ns``; -1: none, or no lane."""
        known = np.flatnonzero(lane >= 0)
        found = np.full(len(lane), -1, np.intp)
        found[known] = last_at(self.lane, self.time_ns, self.lanes, lane[known], time_ns[known] - 1)
        return found

    def first_from(self, lane: Indices, time_ns: Ints) -> NDArray[np.intp]:
        """Positions of the first work launched on ``lane`` at ``time_ns`` or later; -1: none, or no lane."""
        if not len(self.lane):
            return np.full(len(lane), -1, np.intp)
        before = self.last_before(lane, time_ns)
        begin = np.searchsorted(self.lane, lane)
        at = np.where(before >= 0, before + 1, begin)
        safe = np.minimum(at, len(self.lane) - 1)
        return np.where((at < len(self.lane)) & (self.lane[safe] == lane), at, -1)

    def devices(self, at: NDArray[np.intp]) -> Indices:
        """Positions in ``LaneEvents.device`` of positions in this queue; -1 stays."""
        if not len(self.device):
            return np.full(len(at), -1, np.int32)
        return np.where(at >= 0, self.device[at], -1).astype(np.int32)

    def step_back(self, at: NDArray[np.intp], end_ns: Ints, limit_ns: Ints) -> tuple[NDArray[np.intp], int]:
        """Go back on each lane until the work had ended by ``limit_ns``; how many had to be gone back from.

        Who waits for a stream waits for all work before, so the earlier work was waited for as well.
        """
        at = at.copy()
        late = np.flatnonzero((at >= 0) & (end_ns[self.device[at]] > limit_ns)) if len(self.device) else at[:0]
        count = len(late)
        while len(late):
            before = at[late] - 1
            same = (before >= 0) & (self.lane[before] == self.lane[at[late]])
            at[late] = np.where(same, before, -1)
            late = late[same]
            late = late[end_ns[self.device[at[late]]] > limit_ns[late]]
        return at, count


@dataclass(frozen=True, eq=False)
class Enqueued:
    """``streams``: by stream; ``threads``: by launching thread, without work whose launch is unknown."""

    streams: Queue
    threads: Queue


def enqueue(work: LaneEvents, launches: Launches) -> Enqueued:
    """Put the device's events in the order of their launches."""
    device = work.device
    everything = np.arange(len(device))
    known = np.flatnonzero(launches.call >= 0)
    thread = np.full(len(device), -1, np.int32)
    thread[known] = work.host.lane[launches.call[known]]
    count = len(work.lanes)
    return Enqueued(
        Queue(device.lane, launches.time_ns, device.start_ns, count, everything),
        Queue(thread, launches.time_ns, device.start_ns, count, known),
    )


def ended_last(work: LaneEvents, launches: Launches, after_ns: Ints, until_ns: Ints, launched_ns: Ints) -> Indices:
    """For each point the event of the device that ended last within (``after_ns``, ``until_ns`` + 1 us] among those
    launched before ``launched_ns``; -1 if none did."""
    if not len(work.device):
        return np.full(len(after_ns), -1, np.int32)
    order = np.argsort(work.device.end_ns, kind="stable")
    ends = work.device.end_ns[order]
    time = launches.time_ns[order]
    at = np.searchsorted(ends, until_ns + TOLERANCE_NS, side="right") - 1
    found = np.full(len(after_ns), -1, np.int32)
    open_ = np.flatnonzero((at >= 0) & (ends[at] > after_ns))
    while len(open_):
        fits = time[at[open_]] < launched_ns[open_]
        found[open_[fits]] = order[at[open_[fits]]]
        open_ = open_[~fits]
        at[open_] -= 1
        open_ = open_[(at[open_] >= 0)]
        open_ = open_[ends[at[open_]] > after_ns[open_]]
    return found
