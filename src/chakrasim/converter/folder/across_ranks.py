"""What comparing ranks says about the collectives and messages of each: which are one, and of what size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from chakrasim.converter.folder.group_numbers import GroupNumbers, number_groups
from chakrasim.notes import Notes
from chakrasim.trace.chakra.graph import Ints
from chakrasim.trace.kinds import CollectiveType
from chakrasim.trace.linked.columns import LinkedTrace

if TYPE_CHECKING:
    from chakrasim.linker.across_ranks.meetings import Meetings


@dataclass(frozen=True, eq=False)
class RankInRun:
    """One rank among the others.

    Attributes
    ----------
    world_size: ranks of the run.
    numbers: by ``LinkedTrace.groups``: the group's number (`GroupNumbers.numbers`).
    meeting: int64 by entry of ``LinkedTrace.communication``: a number that is equal on all ranks that take part; -1
        where that is not known.
    attendance: int64 by entry: how many ranks take part in that meeting, as recorded.
    size_bytes: int64 by entry: the same for all ranks of a collective, the largest that any of them states.
    lonely: bool by entry: ranks that took part by their group, and whose traces are there, recorded nothing that fits.
    """

    world_size: int
    numbers: tuple[int, ...]
    meeting: Ints
    attendance: Ints
    size_bytes: Ints
    lonely: NDArray[np.bool_]


def alone(linked: LinkedTrace) -> RankInRun:
    """What is known of one rank without the others."""
    groups = number_groups([linked])
    communication = linked.communication
    nobody = np.full(len(communication), -1, np.int64)
    never = np.zeros(len(communication), np.bool_)
    return RankInRun(groups.world_size, groups.numbers[0], nobody, nobody, communication.size_bytes, never)


def compare_ranks(linked: Sequence[LinkedTrace]) -> tuple[list[RankInRun], GroupNumbers, list[str]]:
    """Every rank among the others, the groups of all, and warnings.

    ASTRA-sim's collectives need all members and one size. Where members give different sizes (an all-to-all of uneven
    parts), the largest is taken: the member with the most bytes ends last. Raises InputError as `meet` does.
    """
    from chakrasim.linker.across_ranks.meetings import meet  # not needed for a rank alone

    groups = number_groups(linked)
    meetings = meet(linked)
    sizes = np.full(meetings.count, -1, np.int64)
    np.maximum.at(sizes, meetings.meeting, meetings.size_bytes)
    differing = _differing(meetings, sizes)
    lonely = _lonely(meetings, {trace.rank for trace in linked})
    ranks = [_of_trace(meetings, place, trace, groups, sizes, lonely) for place, trace in enumerate(linked)]
    notes = Notes()
    notes.warn(*groups.warnings)
    if differing:
        notes.warn(
            f"the members of {differing} collectives give different sizes: all take the largest, as a simulation needs"
        )
    return ranks, groups, list(notes.warnings)


def _of_trace(
    meetings: Meetings, place: int, trace: LinkedTrace, groups: GroupNumbers, sizes: Ints, lonely: NDArray[np.bool_]
) -> RankInRun:
    communication = trace.communication
    own = np.flatnonzero(meetings.trace == place)
    entry, number = meetings.entry[own], meetings.meeting[own]
    meeting = np.full(len(communication), -1, np.int64)
    meeting[entry] = number
    attendance = np.zeros(len(communication), np.int64)
    attendance[entry] = meetings.attendance[number]
    size = communication.size_bytes.copy()
    collective = ~meetings.is_message[own]
    size[entry[collective]] = sizes[number[collective]]
    unmatched = np.zeros(len(communication), np.bool_)
    unmatched[entry] = lonely[number]
    return RankInRun(groups.world_size, groups.numbers[place], meeting, attendance, size, unmatched)


def _differing(meetings: Meetings, sizes: Ints) -> int:
    smaller = (meetings.size_bytes != sizes[meetings.meeting]) & ~meetings.is_message
    return len(np.unique(meetings.meeting[smaller & (meetings.operation != int(CollectiveType.BARRIER))]))


def _lonely(meetings: Meetings, present: set[int]) -> NDArray[np.bool_]:
    """bool[meetings]: a rank whose trace is there has not recorded its side, or ranks contradict each other."""
    expected = np.array([len(present.intersection(group.ranks)) for group in meetings.groups] or [0], np.int64)
    whole = np.array([present.issuperset(group.ranks) for group in meetings.groups] or [True])
    entries = meetings.meeting
    wanted, complete = np.zeros(meetings.count, np.int64), np.ones(meetings.count, np.bool_)
    message = meetings.is_message
    peer_here = np.isin(meetings.peer, list(present))
    wanted[entries] = np.where(message, 1 + peer_here, expected[meetings.group])
    complete[entries] = np.where(message, True, whole[meetings.group])
    return complete & ((meetings.attendance < wanted) | ~meetings.agrees)
