"""Roles of what comes at several places of an iteration, such as collectives that all have one name, or gradients that
are reduced wherever enough has come together: one for each place, told by the node before, or after.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from chakrasim.synthesis.indices import Ints, words_of
from chakrasim.synthesis.roles import Nodes, Roles


def at_stations(traces: Sequence[Nodes], roles: Roles) -> tuple[list[Nodes], Roles]:
    """The traces with such roles apart, and the roles. Where what comes after tells fewer places, that tells them."""
    lists = [nodes.role for nodes in traces]
    several = set().union(*(_several(lists, index) for index in words_of(traces, roles.known).values()))
    if not several:
        return [*traces], roles
    sides = [[_last(own, several) for own in lists], [_last(own[::-1], several)[::-1] for own in lists]]
    beside: list[dict[int, set[int]]] = [defaultdict(set), defaultdict(set)]
    for found, side in zip(beside, sides, strict=True):
        for own, others in zip(lists, side, strict=True):
            for role, other in zip(own, others, strict=True):
                found[role].add(other)
    which = {role: int(len(beside[0][role]) > len(beside[1][role])) for role in several}
    apart = {role: side for role, side in which.items() if len(beside[side][role]) > 1}
    made = Roles()

    @cache
    def told(role: int, other: int) -> int:
        what = roles.known[role]
        if role in apart:
            side = apart[role]
            beside = ("before " * side + roles.known[other].title) if other >= 0 else ("begin", "end")[side]
            what = replace(what, place=f"{what.place} {beside}".strip())
        return made.of(what)

    rows = (zip(own, zip(*both, strict=True), strict=True) for own, *both in zip(lists, *sides, strict=True))
    told_of = [[told(role, both[apart.get(role, 0)]) for role, both in row] for row in rows]
    return [replace(nodes, role=own) for nodes, own in zip(traces, told_of, strict=True)], made


def _several(traces: Sequence[Sequence[int]], index: Ints) -> set[int]:
    """Roles without the index that come after several others while it stays, none of which comes again meanwhile."""
    found: set[int] = set()
    at = 0
    for roles in traces:
        for own in _stretches(roles, index[at : at + len(roles)].tolist()):
            carriers = [role for role, said in own if said]
            if len({*carriers}) < len(carriers):
                continue
            last = carriers[0]
            places: dict[int, set[int]] = defaultdict(set)
            for role, said in own:
                if said:
                    last = role
                else:
                    places[role].add(last)
            found |= {role for role, after in places.items() if len(after) > 1}
        at += len(roles)
    return found


def _stretches(roles: Sequence[int], index: Sequence[int]) -> Iterator[list[tuple[int, bool]]]:
    """The nodes from the first to the last that say the same index, one after another: the role of each, and whether it
    says it."""
    own: list[tuple[int, bool]] = []
    value, end = -1, 0
    for role, said in zip(roles, index, strict=True):
        if said >= 0:
            if said != value:
                if end:
                    yield own[:end]
                own, value = [], said
            end = len(own) + 1
        if value >= 0:
            own.append((role, said >= 0))
    if end:
        yield own[:end]


def _last(roles: Sequence[int], several: set[int]) -> list[int]:
    """Of each node the last before it of another role than such, or -1."""
    found, last = [], -1
    for role in roles:
        found.append(last)
        last = last if role in several else role
    return found
