"""Ranks on one clock: the shift of each rank's clock, its start, and what of each collective was waiting.

The ranks of a collective end it together, to within a few microseconds on GPUs, however far apart they began. So the
difference of recorded ends is the difference of the clocks: the median over all that two ranks share. What is sure is
kept too: nobody can end a collective before the last has come, which bounds the difference from both sides.

It is always corrected, also where it is small: then the outcome does not depend on how the clocks stood (shifting a
rank's clock by any amount gives the same split to the nanosecond), at the price of up to the spread of the ends where
clocks were in step already. Only ranks whose files name the same host are taken to share its clock, unless they show
that they do not. Clocks that run at different speed are not corrected; what is left over is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.kinds import Root, numbers_of
from chakrasim.linker.across_ranks.meetings import Meetings, meet
from chakrasim.trace.kineto.columns import Indices, Ints, Mask
from chakrasim.trace.linked.columns import LinkedTrace

#: Stands for a moment where nobody arrived.
NOBODY: Final = np.iinfo(np.int64).min

#: Collectives that nobody can leave before all have come.
_TOGETHER = numbers_of(Root.NONE)
#: Ranks of one host whose recorded times contradict each other by no more than this still share its clock.
_TOLERANCE_NS = 10_000
#: Ranks of one host that end all their collectives apart by more than this, and about as much each time, do not.
_STEADY_NS = 100_000
#: Halving steps until clocks are possible.
_ROUNDS = 64


@dataclass(frozen=True, eq=False)
class ClockFit:
    """``shift_ns`` int64[traces], to be added to each rank's times; ``residual_ns`` int64[traces], median distance of a
    rank's corrected ends from the median of all (0 where nothing is shared); ``component`` int32[traces], equal for
    ranks that shared collectives tie together: shifts say nothing across components."""

    shift_ns: Ints
    residual_ns: Ints
    component: Indices


def align(linked: Sequence[LinkedTrace]) -> list[LinkedTrace]:
    """The traces of some ranks with clocks compared.

    Set are ``clock_shift_ns`` (0 for the first of those that share collectives), ``start_offset_ns`` and of each
    collective and message ``transfer_ns``, from the last arrival to its own end, and ``wait_ns``, the rest; both stay
    -1 where only one rank took part or the ranks disagree about what it is. Who waits for whom:

    - broadcast and scatter: all for the root; reduce and gather: the root for all; where the root is known;
    - messages: sender and receiver for each other;
    - others, and where the root is not known: all for all;
    - messages under one kernel: for the last of all their peers.

    ``counts`` of each trace tells what could not be compared. Raises InputError as `meetings.meet` does.
    """
    meetings = meet(linked)
    fit = fit_clocks(meetings, [str(trace.header.get("host_name") or "") for trace in linked])
    waits = [np.full(len(trace.communication), -1, np.int64) for trace in linked]
    transfers = [np.full(len(trace.communication), -1, np.int64) for trace in linked]
    needed = last_arrivals(meetings, fit.shift_ns)
    compared = needed != NOBODY
    for position, trace in enumerate(linked):
        own = np.flatnonzero((meetings.trace == position) & compared)
        entries = meetings.entry[own]
        arrival = _of_rows(trace.communication.row, entries, needed[own])
        found = trace.communication
        duration = found.end_ns[entries] - found.start_ns[entries]
        transfer = np.clip(found.end_ns[entries] + fit.shift_ns[position] - arrival, 0, duration)
        transfers[position][entries] = transfer
        waits[position][entries] = duration - transfer
    starts = np.array([int(t.start_ns.min()) if len(t) else 0 for t in linked], np.int64) + fit.shift_ns
    earliest = int(starts.min()) if len(starts) else 0
    incomplete = _incomplete(meetings)
    return [
        replace(
            trace,
            clock_shift_ns=int(fit.shift_ns[position]),
            start_offset_ns=int(starts[position]) - earliest if len(trace) else 0,
            communication=replace(trace.communication, wait_ns=waits[position], transfer_ns=transfers[position]),
            counts={
                **trace.counts,
                "clock_residual_ns": int(fit.residual_ns[position]),
                "communications_not_compared": int((transfers[position] < 0).sum()),
                "communications_of_missing_ranks": int((incomplete & (meetings.trace == position)).sum()),
                "ranks_on_another_clock": int((fit.component != fit.component[0]).sum()),
            },
        )
        for position, trace in enumerate(linked)
    ]


def fit_clocks(meetings: Meetings, hosts: Sequence[str]) -> ClockFit:
    """The shift of each clock from the ends of shared collectives; ``hosts``: the host of each trace, "" where unknown.

    First along a tree: between two clocks the median difference of ends, pairs with more collectives before those with
    fewer, messages last. Then each clock by the median distance of its ends from the median end of all ranks. Then as
    far as needed for nobody to end a collective before the last has come.
    """
    traces = len(hosts)
    usable = meetings.agrees[meetings.meeting] & (meetings.attendance[meetings.meeting] > 1)
    together = np.flatnonzero(usable & np.isin(meetings.operation, _TOGETHER))
    clock = _clocks(meetings, together, hosts)
    shift = np.zeros(traces, np.int64)
    component = clock.copy()
    for rows in (together, np.flatnonzero(usable & meetings.is_message)):
        for one, other, ahead in _edges(meetings, rows, clock):
            if component[one] == component[other]:
                continue
            moved = component == component[other]
            shift[moved] += (shift[one] - ahead) - shift[other]
            component[moved] = component[one]
    shift -= _medians(_distances(meetings, together, shift), clock[meetings.trace[together]], traces)[clock]
    _keep_possible(meetings, together, clock, shift)
    residual = _medians(np.abs(_distances(meetings, together, shift)), meetings.trace[together], traces)
    for label in np.unique(component):
        members = np.flatnonzero(component == label)
        shift[members] -= shift[members[0]]
        component[members] = members[0]
    return ClockFit(shift, residual, component)


def _clocks(meetings: Meetings, rows: NDArray[np.intp], hosts: Sequence[str]) -> Indices:
    """int32[traces]: the first trace that has the same clock: of the same host, if the traces of that host do not
    contradict: one of them ends a collective before another has come, or ends always earlier by about as much."""
    clock = np.arange(len(hosts), dtype=np.int32)
    of_host: dict[str, list[int]] = {}
    for trace, host in enumerate(hosts):
        if host:
            of_host.setdefault(host, []).append(trace)
    for traces in of_host.values():
        own = rows[np.isin(meetings.trace[rows], traces)]
        _, meeting = np.unique(meetings.meeting[own], return_inverse=True)
        ends, starts = meetings.end_ns[own], meetings.start_ns[own]
        first_end, last_start = _extremes(meeting, ends, starts)
        if len(own) and (last_start - first_end).max() > _TOLERANCE_NS:
            continue
        if not any(abs(ahead) > _STEADY_NS for _, _, ahead in _edges(meetings, own, clock, steady=True)):
            clock[traces] = traces[0]
    return clock


def _keep_possible(meetings: Meetings, rows: NDArray[np.intp], clock: Indices, shift: Ints) -> None:
    """Move clocks by the least that lets every collective end after its last arrival on all ranks."""
    if not len(rows):
        return
    _, meeting = np.unique(meetings.meeting[rows], return_inverse=True)
    trace = meetings.trace[rows]
    for _ in range(_ROUNDS):
        starts, ends = meetings.start_ns[rows] + shift[trace], meetings.end_ns[rows] + shift[trace]
        first_end, last_start = _extremes(meeting, ends, starts)
        too_early, too_late = np.zeros(len(shift), np.int64), np.zeros(len(shift), np.int64)
        np.maximum.at(too_early, clock[trace], last_start[meeting] - ends)
        np.maximum.at(too_late, clock[trace], starts - first_end[meeting])
        step = too_early - too_late
        if not step.any():
            return
        # Whoever is too early for one is so for another that is too late: each goes half the way.
        shift += (np.sign(step) * ((np.abs(step) + 1) // 2))[clock]


def _extremes(meeting: NDArray[np.intp], ends: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """The first end and the last start of each meeting."""
    count = int(meeting.max()) + 1 if len(meeting) else 0
    first_end, last_start = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(first_end, meeting, ends)
    np.maximum.at(last_start, meeting, starts)
    return first_end, last_start


def _distances(meetings: Meetings, rows: NDArray[np.intp], shift: Ints) -> Ints:
    """How much later than the median of its meeting each of these entries ends."""
    ends = meetings.end_ns[rows] + shift[meetings.trace[rows]]
    return ends - _medians(ends, meetings.meeting[rows], meetings.count)[meetings.meeting[rows]]


def last_arrivals(meetings: Meetings, shift_ns: Ints) -> Ints:
    """int64[entries]: when the last rank that each entry has to wait for arrived (its own arrival at the earliest), on
    the common clock; NOBODY where there is none to compare with."""
    arrival = meetings.start_ns + shift_ns[meetings.trace]
    latest = np.full(meetings.count, np.iinfo(np.int64).min)
    np.maximum.at(latest, meetings.meeting, arrival)
    needed = latest[meetings.meeting]
    is_root = meetings.rank == meetings.peer
    of_root = np.full(meetings.count, NOBODY, np.int64)
    of_root[meetings.meeting[is_root]] = arrival[is_root]
    roots = of_root[meetings.meeting]
    from_root = np.isin(meetings.operation, numbers_of(Root.GIVES)) & (roots != NOBODY)
    needed = np.where(from_root, np.maximum(arrival, roots), needed)
    to_root = np.isin(meetings.operation, numbers_of(Root.GETS)) & (roots != NOBODY) & ~is_root
    needed = np.where(to_root, arrival, needed)
    compared = meetings.agrees[meetings.meeting] & (meetings.attendance[meetings.meeting] > 1)
    return np.where(compared, needed, NOBODY)


def _of_rows(rows: Indices, entries: Indices, needed: Ints) -> Ints:
    """The last arrival of all entries that share a row: a kernel ends when the last of its messages has."""
    if not len(entries):
        return needed
    _, place = np.unique(rows[entries], return_inverse=True)
    latest = np.full(int(place.max()) + 1, np.iinfo(np.int64).min)
    np.maximum.at(latest, place, needed)
    return latest[place]


def _incomplete(meetings: Meetings) -> Mask:
    """bool[entries]: collectives that some rank of the group has no entry of."""
    sizes = np.array([group.size for group in meetings.groups] or [0], np.int64)
    expected = np.where(meetings.is_message, 2, sizes[meetings.group])
    return meetings.attendance[meetings.meeting] < expected


def _edges(
    meetings: Meetings, rows: NDArray[np.intp], clock: Indices, steady: bool = False
) -> list[tuple[int, int, int]]:
    """(clock, other clock, by how much the other is ahead), the best founded first. In each meeting the first trace is
    compared with the others. ``steady``: 0 ahead where the differences are fewer than three, or vary by as much as half
    their median."""
    if not len(rows):
        return []
    first = np.flatnonzero(np.diff(meetings.meeting[rows], prepend=-1))
    lead = np.repeat(first, np.diff(first, append=len(rows)))
    one, two = clock[meetings.trace[rows[lead]]], clock[meetings.trace[rows]]
    apart = np.flatnonzero(one != two)
    swapped = one[apart] > two[apart]
    ahead = (meetings.end_ns[rows] - meetings.end_ns[rows[lead]])[apart] * np.where(swapped, -1, 1)
    both = np.sort(np.stack([one[apart], two[apart]], 1), axis=1)
    pairs, place, times = np.unique(both, axis=0, return_inverse=True, return_counts=True)
    place = place.reshape(-1)
    medians = _medians(ahead, place, len(pairs))
    if steady:
        low, high = medians.copy(), medians.copy()
        np.minimum.at(low, place, ahead)
        np.maximum.at(high, place, ahead)
        medians = np.where((times >= 3) & (2 * (high - low) < np.abs(medians)), medians, 0)
    order = np.argsort(-times, kind="stable")
    return [(int(pairs[at, 0]), int(pairs[at, 1]), int(medians[at])) for at in order.tolist()]


def _medians(values: Ints, keys: NDArray[np.integer], size: int) -> Ints:
    """int64[size]: the median of the values of each key, rounded down; 0 for keys without values."""
    order = np.lexsort((values, keys))
    counts = np.bincount(keys, minlength=size)
    ends = np.cumsum(counts)
    medians = np.zeros(size, np.int64)
    used = counts > 0
    low = (ends - counts + (counts - 1) // 2)[used]
    high = (ends - counts + counts // 2)[used]
    ordered = values[order]
    medians[used] = ordered[low] + (ordered[high] - ordered[low]) // 2
    return medians
