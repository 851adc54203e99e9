"""Why a node of one trace waits for another, as a reason that finds it again: the reference is not how far away it is.

("before",)            the node before it on its thread or stream
("up", k)              the call around it there, k 0, or one k further out
("same", name, role)   the last of a role that has its number ``name``, such as the call that launched it
("writer", t, part)    the last that gave its t-th tensor (part 0), or anything in that one's storage (1)
("role", role, k)      the k-th last of a role
("on", d)              d further on in its role than what the last of the node's own role waited for in this place
("ahead", d)           the node d further on in the file (0: itself)
("absent", id)         a node that the file does not have
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Reason = tuple[Any, ...]
Slot = tuple[int, int]
"""A place among a node's waits: by control (0) or for data (1), and how many come before."""
CALLS: Final = 40
"""Calls around a node that are looked at, at most."""
LINKS: Final = ("correlation",)
"""Numbers by which one node names another."""


@dataclass(frozen=True, eq=False)
class Known:
    """What reasons go by, of a node: its role, name and lane, whether it goes on with a call (``part``) or is no call
    at all (``call`` False), its `LINKS`, and the tensors (number, storage) that it takes and gives."""

    role: int
    name: str
    lane: int
    part: bool
    call: bool
    links: Mapping[str, int]
    takes: Sequence[tuple[int, int]]
    gives: Sequence[tuple[int, int]]


@dataclass(eq=False)
class Past:
    """The nodes so far, as reasons ask for them."""

    last: dict[int, int] = field(default_factory=dict)
    calls: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    roles: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    place: list[int] = field(default_factory=list)
    known: list[Known] = field(default_factory=list)
    linked: dict[tuple[int, str, int], int] = field(default_factory=dict)
    written: dict[tuple[int, int], int] = field(default_factory=dict)
    asked: dict[tuple[int, Slot], int] = field(default_factory=dict)

    def add(self, node: Known, waits: Sequence[Sequence[int]]) -> None:
        """The next node, and what it waits for, by control and for data."""
        at, calls = len(self.known), self.calls[node.lane]
        if node.part:
            while len(calls) > 1 and self.known[calls[-1]].name != node.name:
                calls.pop()
        elif node.call:
            while calls and calls[-1] not in waits[0]:
                calls.pop()
            calls.append(at)
        self.last[node.lane] = at
        self.place.append(len(self.roles[node.role]))
        self.roles[node.role].append(at)
        self.known.append(node)
        for name, number in node.links.items():
            self.linked[node.role, name, number] = at
        for both in node.gives:
            for part in (0, 1):
                self.written[part, both[part]] = at
        self.asked.update({(node.role, slot): one for slot, one in slots(waits) if 0 <= one <= at})

    def answer(self, reason: Reason, node: Known, slot: Slot) -> int:
        """The place of the node that a reason means. Raises IndexError or KeyError if there is none."""
        match reason:
            case ("before",):
                return self.last[node.lane]
            case ("up", k):
                return self.calls[node.lane][-1 - int(k)]
            case ("same", name, role):
                return self.linked[int(role), str(name), node.links[name]]
            case ("writer", t, part):
                return self.written[int(part), node.takes[t][part]]
            case ("role", role, k):
                return self.roles[int(role)][-int(k)]
            case ("on", d):
                before = self.asked[node.role, slot]
                return self.roles[self.known[before].role][self.place[before] + int(d)]
            case ("ahead", d):
                return len(self.known) + int(d)
        raise KeyError(reason[0])

    def reasons(self, node: Known, other: int, slot: Slot) -> Iterator[Reason]:
        """All that mean this other node; one of them always does."""
        if other >= len(self.known):
            yield ("ahead", other - len(self.known))
            return
        if self.last.get(node.lane) == other:
            yield ("before",)
        for k, call in enumerate(self.calls[node.lane][: -CALLS - 1 : -1]):
            if call == other:
                yield ("up", k)
        role = self.known[other].role
        for name, number in node.links.items():
            if self.linked.get((role, name, number)) == other:
                yield ("same", name, role)
        for t, both in enumerate(node.takes):
            for part in (0, 1):
                if self.written.get((part, both[part])) == other:
                    yield ("writer", t, part)
        yield ("role", role, len(self.roles[role]) - self.place[other])
        before = self.asked.get((node.role, slot), -1)
        if before >= 0 and self.known[before].role == role:
            yield ("on", self.place[other] - self.place[before])


def slots(waits: Sequence[Sequence[int]]) -> Iterator[tuple[Slot, int]]:
    """Each of a node's waits with its place."""
    return (((kind, at), one) for kind, own in enumerate(waits) for at, one in enumerate(own))


def reasons_of(
    nodes: Sequence[Known], waits: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]
) -> list[tuple[tuple[Reason, ...], tuple[Reason, ...]]]:
    """For each node a reason for each of its waits, by control and for data: of all that are right the one that is
    right most often for nodes of its role. ``waits``: places; of nodes that are absent -1 - their ids."""
    past, every = Past(), []
    often: Counter[tuple[int, int, Reason]] = Counter()
    for at, node in enumerate(nodes):
        mine = waits[0][at], waits[1][at]
        own = [
            (slot[0], [("absent", -1 - one)] if one < 0 else [*past.reasons(node, one, slot)])
            for slot, one in slots(mine)
        ]
        every.append(own)
        often.update({(node.role, kind, reason) for kind, each in own for reason in each})
        past.add(node, mine)
    both = [[_best(node.role, own, often, moving) for node, own in zip(nodes, every, strict=True)]
            for moving in (False, True)]  # fmt: skip
    return min(both, key=lambda found: len({(node.role, why) for node, why in zip(nodes, found, strict=True)}))


def _best(
    role: int, waits: Sequence[tuple[int, Sequence[Reason]]], often: Mapping[tuple[int, int, Reason], int], moving: bool
) -> tuple[tuple[Reason, ...], tuple[Reason, ...]]:
    """Of each wait, by control and for data, the reason that is right most often; unless ``moving`` none that goes on
    through a role, which is worth it where much is done in the order of something else."""
    found: tuple[list[Reason], list[Reason]] = ([], [])
    for kind, each in waits:
        some = [one for one in each if moving or one[0] != "on" or not one[1]]
        found[kind].append(max(some, key=lambda reason: often[role, kind, reason]))
    return (*found[0],), (*found[1],)
