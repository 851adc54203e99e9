"""Why threads idle: because they wait for other threads. What that does not explain stays a gap."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from chakrasim.linker.communication.host import HandedOver
from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.linker.evidence.nesting import Pieces
from chakrasim.linker.evidence.task_queues import Tasks
from chakrasim.linker.rows.columns import rare_at
from chakrasim.trace.linked.columns import EdgeKind, Evidence, RowKind

#: A thread that goes on this soon after another's burst of work has ended waited for it.
RETURN_NS = 50_000
#: The same after a collective of the host: its end wakes the program's own code, which is slower.
COLLECTIVE_RETURN_NS = 1_000_000
#: More threads than this are not compared with one another: the busiest are.
_MOST_THREADS = 64
_ENGINE = "autograd::engine::evaluate_function"


@dataclass
class Handovers:
    """Dependencies between points of threads, and where that cuts the pieces.

    ``edges``: (source thread, its time, target thread, its time, kind, evidence): the target's first row from its time
    on waits for the source's last row up to its time. ``cuts``: (thread, time). ``kept``: for pieces of idle time that
    were explained, the parts (start, end) of them that were not. ``added``: idle time (thread, start, end) before a
    thread's first event. ``returns``: (event of the device, thread, time): the thread's first row from
    then on waits for that work.
    """

    edges: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    cuts: list[tuple[int, int]] = field(default_factory=list)
    kept: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    added: list[tuple[int, int, int]] = field(default_factory=list)
    returns: list[tuple[int, int, int]] = field(default_factory=list)
    begun: dict[tuple[int, int], tuple[int, int, int]] = field(default_factory=dict)
    """Collectives of which it is known what handed them over: (thread, start) to (end, giver, time it was given)."""

    def apply(self, pieces: Pieces, threads: int) -> None:
        """Take the idle time that has been explained out of the pieces, and put what was added into them."""
        offsets = pieces.offsets(threads)
        gone = [gap for gap, parts in self.kept.items() if not parts]
        stays = np.ones(len(pieces), np.bool_)
        stays[gone] = False
        more = [(int(offsets[thread]), thread, start, end) for thread, start, end in self.added]
        for gap, parts in self.kept.items():
            if parts:
                pieces.start_ns[gap], pieces.end_ns[gap] = parts[0]
                more += [(gap + 1, int(pieces.lane[gap]), start, end) for start, end in parts[1:]]
        more.sort()
        if more:
            at, lane, start, end = np.array(more, np.int64).T
            pieces.insert(at, np.full(len(at), -1, np.int32), lane.astype(np.int32), start, end)
            stays = np.insert(stays, at, True)
        if gone:
            pieces.keep(stays)


class _Threads:
    """The pieces of each thread, for looking up."""

    def __init__(self, work: LaneEvents, pieces: Pieces) -> None:
        self.work, self.pieces = work, pieces
        self.offsets = pieces.offsets(work.threads)
        self.busy = [self._busy(thread) for thread in range(work.threads)]
        self.pairs = _forward_and_backward(work)
        collective = np.flatnonzero(work.host.kind == RowKind.HOST_COLLECTIVE)
        self.collective = set(np.unique(work.host.lane[collective]).tolist())

    def _busy(self, thread: int) -> NDArray[np.intp]:
        low, high = int(self.offsets[thread]), int(self.offsets[thread + 1])
        return np.flatnonzero(self.pieces.owner[low:high] >= 0) + int(low)

    def is_collective(self, piece: int) -> bool:
        """Whether a piece is a collective, which must stay in one piece."""
        owner = int(self.pieces.owner[piece])
        return owner >= 0 and bool(self.work.host.kind[owner] == RowKind.HOST_COLLECTIVE)

    def gaps(self, thread: int) -> NDArray[np.intp]:
        """Idle pieces that end with work on the same thread."""
        low, high = int(self.offsets[thread]), int(self.offsets[thread + 1])
        return np.flatnonzero(self.pieces.owner[low : max(high - 1, low)] < 0) + int(low)


def explain(work: LaneEvents, pieces: Pieces, handed: HandedOver, tasks: Tasks) -> Handovers:
    """Find out which idle time of threads is waiting for other threads; ``handed``: what `handed_over` finds."""
    found = Handovers()
    if work.threads > 1:
        threads = _Threads(work, pieces)
        _handed_over(threads, handed, found)
        _queued(threads, tasks, found)
        order = [work.main, *(thread for thread in range(work.threads) if thread != work.main)]
        for waiting in order:
            _returns(threads, waiting, found)
        _in_order(found)
        _collectives(threads, found)
        _starts(threads, found)
    work.counts["handovers_between_threads"] = len(found.edges)
    return found


def _forward_and_backward(work: LaneEvents) -> dict[tuple[int, int], int]:
    """Pairs (forward, backward) of threads, and the evidence: equal sequence numbers, or the names of operators."""
    kineto, host = work.kineto, work.host
    forward_thread = rare_at(kineto.rare_column("Fwd thread id"), host.event)
    sequence = rare_at(kineto.rare_column("Sequence number"), host.event)
    backward = (forward_thread > 0) & (sequence >= 0)
    engine = kineto.strings.each(kineto.name[host.event], lambda name: name.startswith(_ENGINE))
    pairs: dict[tuple[int, int], int] = {}
    for thread in np.unique(host.lane[engine | backward]).tolist():
        pairs[work.main, thread] = Evidence.INFERRED
        numbers = np.unique(sequence[backward & (host.lane == thread)])
        same = ~backward & (sequence >= 0) & np.isin(sequence, numbers)
        for other in np.unique(host.lane[same]).tolist():
            pairs[other, thread] = Evidence.FLOW
    return pairs


def _handed_over(threads: _Threads, handed: HandedOver, found: Handovers) -> None:
    """Collectives of the host of which an operator is known that hands them over: their threads idle before them."""
    pieces, host = threads.pieces, threads.work.host
    for collective, (giver, given, evidence) in handed.items():
        thread, time = int(host.lane[collective]), int(host.start_ns[collective])
        low, high = int(threads.offsets[thread]), int(threads.offsets[thread + 1])
        before = int(np.searchsorted(pieces.start_ns[low:high], time, side="left")) + low - 1
        if before >= low and pieces.owner[before] < 0:
            found.kept[before] = []
        found.cuts.append((giver, given))
        found.edges.append((giver, given, thread, time, EdgeKind.COMMUNICATION, evidence))
        found.begun[thread, time] = int(host.end_ns[collective]), giver, given


def _queued(threads: _Threads, tasks: Tasks, found: Handovers) -> None:
    """Tasks of queues: their threads idle until there is one, and then for as long as waking up takes."""
    pieces, host = threads.pieces, threads.work.host
    for giver, taker in zip(tasks.giver.tolist(), tasks.taker.tolist(), strict=True):
        thread, time, source = int(host.lane[taker]), int(host.start_ns[taker]), int(host.lane[giver])
        given = min(int(host.end_ns[giver]), time)
        low, high = int(threads.offsets[thread]), int(threads.offsets[thread + 1])
        before = int(np.searchsorted(pieces.start_ns[low:high], time, side="left")) + low - 1
        taken = time
        if before >= low and pieces.owner[before] < 0:
            taken = max(given, int(pieces.start_ns[before]))
            found.kept[before] = [(taken, time)] if taken < time else []
        elif before < low and given < time:
            taken = given
            found.added.append((thread, given, time))
        found.cuts.append((source, given))
        found.edges.append((source, given, thread, taken, EdgeKind.INTER_THREAD, Evidence.FLOW))


def _returns(threads: _Threads, waiting: int, found: Handovers) -> None:
    """Idle time of a thread that ends just after a burst of another thread, which lies inside it and fills half of it.

    Forward and backward threads: however late it ends and whatever it fills. Collectives: it ends just after one, or a
    quarter of it is one, since waking up may take long where cores are few."""
    pieces = threads.pieces
    gaps = threads.gaps(waiting)
    gaps = gaps[[gap not in found.kept for gap in gaps.tolist()]] if found.kept else gaps
    gs, ge = pieces.start_ns[gaps], pieces.end_ns[gaps]
    bursts: dict[int, list[tuple[int, int, int, int]]] = {}
    others = sorted(range(len(threads.busy)), key=lambda thread: -len(threads.busy[thread]))[:_MOST_THREADS]
    for other in others:
        busy = threads.busy[other]
        if other == waiting or not len(busy) or not len(gaps):
            continue
        starts, ends = pieces.start_ns[busy], pieces.end_ns[busy]
        first = np.searchsorted(ends, gs, side="right")
        after = np.searchsorted(starts, ge, side="left")
        inside = np.flatnonzero(first < after)
        a, b = busy[first[inside]], busy[after[inside] - 1]
        fits = pieces.end_ns[b] <= ge[inside]
        collective = other in threads.collective
        if not collective:
            fits &= pieces.start_ns[a] >= gs[inside]
        if (waiting, other) not in threads.pairs:
            soon = ge[inside] - pieces.end_ns[b] <= (COLLECTIVE_RETURN_NS if collective else RETURN_NS)
            filled = pieces.end_ns[b] - np.maximum(pieces.start_ns[a], gs[inside])
            idle = ge[inside] - gs[inside]
            fits &= (soon | (4 * filled >= idle)) if collective else (soon & (2 * filled >= idle))
        for gap, one, two in zip(inside[fits].tolist(), a[fits].tolist(), b[fits].tolist(), strict=True):
            bursts.setdefault(int(gaps[gap]), []).append(
                (int(pieces.start_ns[one]), int(pieces.end_ns[two]), other, one)
            )
    for gap, list_ in bursts.items():
        _hand_over(threads, waiting, gap, sorted(list_), found)


def _hand_over(
    threads: _Threads, waiting: int, gap: int, bursts: list[tuple[int, int, int, int]], found: Handovers
) -> None:
    """The bursts of other threads take the place of idle time; what is left of it stays."""
    pieces = threads.pieces
    low, high = int(pieces.start_ns[gap]), int(pieces.end_ns[gap])
    now, kept = low, []
    for start, end, other, first in bursts:
        kind = EdgeKind.COMMUNICATION if other in threads.collective else EdgeKind.INTER_THREAD
        evidence = threads.pairs.get((waiting, other), Evidence.INFERRED)
        gives = waiting == threads.work.main or (waiting, other) in threads.pairs
        if (other, start) in found.begun:
            # Waiting for a collective began with the idle time, not with the collective.
            pass
        elif start >= now and gives:
            kept.append((now, start))
            before = first - 1
            idle = before >= threads.offsets[other] and pieces.owner[before] < 0
            if (idle or first == threads.offsets[other]) and before not in found.kept:
                if idle:
                    found.kept[before] = []
                found.edges.append((waiting, start, other, start, kind, evidence))
        now = max(now, end)
        found.edges.append((other, end, waiting, now, kind, evidence))
    kept.append((now, high))
    found.kept[gap] = [(a, b) for a, b in kept if b > a]


def _in_order(found: Handovers) -> None:
    """A thread that waits for one of the collectives that it handed over has waited for those that it handed over
    before: programs wait in order, and what is over by then shows no waiting."""
    ends = {(thread, end): (giver, given) for (thread, _), (end, giver, given) in found.begun.items()}
    returns = [
        (target, at, ends[source, end])
        for source, end, target, at, _, _ in found.edges
        if (source, end) in ends and ends[source, end][0] == target
    ]
    for waiting in sorted({target for target, _, _ in returns}):
        open_ = sorted((given, end, thread) for (thread, end), (giver, given) in ends.items() if giver == waiting)
        for _, at, (_, last) in sorted(one for one in returns if one[0] == waiting):
            earlier = [one for one in open_ if one[0] <= last and one[1] <= at]
            open_ = [one for one in open_ if one not in earlier]
            found.edges += [
                (thread, end, waiting, at, EdgeKind.COMMUNICATION, Evidence.INFERRED)
                for given, end, thread in earlier
                if given != last
            ]


def _collectives(threads: _Threads, found: Handovers) -> None:
    """Collectives of the host begin when some other thread hands them over."""
    pieces = threads.pieces
    for thread in sorted(threads.collective):
        for gap in threads.gaps(thread).tolist():
            time = int(pieces.end_ns[gap])
            collective = threads.work.host.kind[pieces.owner[gap + 1]] == RowKind.HOST_COLLECTIVE
            explained = gap in found.kept or (thread, time) in found.begun
            if explained or not collective or time - pieces.start_ns[gap] <= RETURN_NS:
                continue
            giver = _covering(threads, thread, time, found)
            if giver >= 0:
                found.kept[gap] = []
                found.cuts.append((giver, time))
                found.edges.append((giver, time, thread, time, EdgeKind.COMMUNICATION, Evidence.INFERRED))


def _covering(threads: _Threads, thread: int, time: int, found: Handovers) -> int:
    """A thread, the main one first, that has a piece around ``time``, explained idle time left out; -1: none."""
    pieces, offsets = threads.pieces, threads.offsets
    main = threads.work.main
    for other in (main, *(one for one in range(len(offsets) - 1) if one != main)):
        low, high = int(offsets[other]), int(offsets[other + 1])
        at = int(np.searchsorted(pieces.start_ns[low:high], time, side="left")) + low - 1
        if other == thread or at < low or pieces.end_ns[at] < time or threads.is_collective(at):
            continue
        if at not in found.kept or any(a < time <= b for a, b in found.kept[at]):
            return other
    return -1


def _starts(threads: _Threads, found: Handovers) -> None:
    """The first row of a thread that starts later than the first one depends on what ran then, or, after a gap, on
    what had ended last."""
    pieces, offsets = threads.pieces, threads.offsets
    some = np.flatnonzero(offsets[1:] > offsets[:-1])  # a thread may have no piece
    starts = np.full(len(offsets) - 1, np.iinfo(np.int64).max)
    ends = starts.copy()
    starts[some], ends[some] = pieces.start_ns[offsets[some]], pieces.end_ns[offsets[some + 1] - 1]
    begun = {edge[2] for edge in found.edges if edge[3] <= starts[edge[2]]}
    for thread in some.tolist():
        time = int(starts[thread])
        if thread in begun or time == starts.min():
            continue
        kind = EdgeKind.COMMUNICATION if thread in threads.collective else EdgeKind.INTER_THREAD
        giver = _covering(threads, thread, time, found)
        given = time
        if giver >= 0:
            found.cuts.append((giver, time))
        elif (ends <= time).any():
            giver = int(np.argmax(np.where(ends <= time, ends, np.iinfo(np.int64).min)))
            given = int(ends[giver])
            if given < time:
                found.added.append((thread, given, time))
        if giver >= 0:
            found.edges.append((giver, given, thread, given, kind, Evidence.INFERRED))
