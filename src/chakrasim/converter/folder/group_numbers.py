"""Process groups under the numbers that a simulator takes: one table for all ranks of a run.

ASTRA-sim names a group by a whole number above 0; 0 stands for all ranks (astra-system.md, 8.4). PyTorch names groups
by a counter or by a hash, and the default group is "0".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from chakrasim.linker.communication.group_table import MOST_RANKS
from chakrasim.notes import Notes
from chakrasim.text.amounts import first_of
from chakrasim.trace.linked.columns import LinkedTrace, ProcessGroup

EVERYBODY, UNUSABLE = 0, -1
"""Numbers of the group of all ranks, and of one whose members nobody knows."""

_LARGEST = 2**31 - 1

Members = tuple[int, ...]


@dataclass(frozen=True)
class GroupNumbers:
    """The process groups of a run.

    Attributes
    ----------
    members: by number, in group order; without the group of all ranks (`EVERYBODY`).
    names: PyTorch's name by number, the group of all ranks among them if it is known.
    numbers: by trace, in the order given: the number of each of its ``LinkedTrace.groups``, or `UNUSABLE`.
    world_size: the number of ranks of the run, as far as the traces tell.
    warnings: what the ranks do not agree on, or what had to be guessed.
    """

    members: dict[int, Members]
    names: dict[int, str]
    numbers: tuple[tuple[int, ...], ...]
    world_size: int
    warnings: tuple[str, ...]

    def to_mapping(self) -> dict[str, list[int]]:
        """The groups as ASTRA-sim's file of communicator groups holds them."""
        return {str(number): list(self.members[number]) for number in sorted(self.members)}


def number_groups(traces: Sequence[LinkedTrace]) -> GroupNumbers:
    """Number the groups of all ranks: equal name and members, equal number.

    Names that are numbers stay as they are; others (hashes, and a "0" that is not all ranks) get the lowest free ones,
    in order of their names. Members that no rank states are taken from the ranks that use the group, where their count
    fits its size.
    """
    return _Numbering(traces).result()


class _Numbering:
    def __init__(self, traces: Sequence[LinkedTrace]) -> None:
        self.traces = traces
        self.notes = Notes()
        self.world = world_size(traces, self.notes)
        self.everybody = tuple(range(self.world))
        self.stated: dict[str, list[Members]] = defaultdict(list)
        self.users: dict[str, set[int]] = defaultdict(set)
        for trace in traces:
            used = set(trace.communication.group.tolist())
            for index, group in enumerate(trace.groups):
                if group.ranks and group.ranks not in self.stated[group.name]:
                    self.stated[group.name].append(group.ranks)
                if index in used and trace.rank >= 0:
                    self.users[group.name].add(trace.rank)
        for name in sorted(self.stated, key=_order):
            self._report_conflict(name)

    def result(self) -> GroupNumbers:
        resolved = [[self._resolve(group) for group in trace.groups] for trace in self.traces]
        known = {
            (group.name, members)
            for trace, row in zip(self.traces, resolved, strict=True)
            for group, members in zip(trace.groups, row, strict=True)
            if members is not None
        }
        number_of = self._assign(sorted(known, key=lambda entry: (_order(entry[0]), entry[1])))
        numbers = tuple(
            tuple(
                UNUSABLE if members is None else number_of[group.name, members]
                for group, members in zip(trace.groups, row, strict=True)
            )
            for trace, row in zip(self.traces, resolved, strict=True)
        )
        members_of = {number: members for (_, members), number in number_of.items() if number != EVERYBODY}
        names = {number: name for (name, _), number in number_of.items()}
        return GroupNumbers(members_of, dict(sorted(names.items())), numbers, self.world, self.notes.warnings)

    def _report_conflict(self, name: str) -> None:
        """Groups of one name with members in common are one group on which the ranks do not agree."""
        stated = self.stated[name]
        for members in stated[1:]:
            if set(members) & set(stated[0]):
                self.notes.warn(
                    f"the ranks do not agree on the members of process group {name!r}: "
                    f"[{first_of(stated[0])}] and [{first_of(members)}]; the first is used"
                )
                return

    def _resolve(self, group: ProcessGroup) -> Members | None:
        """The members of a group as one rank knows it; None where they cannot be known."""
        if group.ranks:
            first = self.stated[group.name][0]
            return first if set(first) & set(group.ranks) else group.ranks
        if group.name in self.stated:
            return self.stated[group.name][0]
        if group.size == self.world or (not group.size and _is_default(group)):
            return self.everybody
        users = tuple(sorted(self.users[group.name]))
        if group.size and len(users) == group.size:
            note = f"the members of process group {group.name!r} are not recorded: taken from the ranks that use it"
            self.notes.warn(note)
            return users
        return None

    def _assign(self, known: list[tuple[str, Members]]) -> dict[tuple[str, Members], int]:
        numbers: dict[tuple[str, Members], int] = {}
        taken: set[int] = set()
        for name, members in known:
            number = int(name) if name.isascii() and name.isdigit() and len(name) < 11 else -1
            if (name == "0" and members == self.everybody) or (0 < number <= _LARGEST and number not in taken):
                numbers[name, members] = number
                taken.add(number)
        free = (number for number in count(1) if number not in taken)
        for entry in known:
            if entry not in numbers:
                numbers[entry] = next(free)
        return numbers


def world_size(traces: Sequence[LinkedTrace], notes: Notes) -> int:
    """The number of ranks of the run that these traces are of, as far as they tell; at least 1.

    Absurd numbers are left out, and told in ``notes``.
    """
    named = [rank for trace in traces for group in trace.groups for rank in group.ranks]
    sizes = [trace.world_size for trace in traces] + [group.size for trace in traces for group in trace.groups]
    peers = [int(trace.communication.peer.max(initial=-1)) for trace in traces]
    ranks = [trace.rank for trace in traces]
    told = {1, len(traces), *sizes, *(rank + 1 for rank in (*named, *peers, *ranks))}
    absurd = max(told)
    if absurd > MOST_RANKS:
        notes.warn(f"the traces tell of {absurd} ranks, which no run has: this number is not used")
    return int(max(size for size in told if size <= MOST_RANKS))


def _is_default(group: ProcessGroup) -> bool:
    return group.name == "0" or group.description == "default_pg"


def _order(name: str) -> tuple[int, int, str]:
    whole = name.isascii() and name.isdigit() and len(name) < 19
    return (0, int(name), name) if whole else (1, 0, name)
