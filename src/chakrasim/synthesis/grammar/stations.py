"""Roles of what comes at several places of an iteration, such as collectives that all have one name, or gradients that
are reduced wherever enough has come together: one for each place, told by the node before, or after.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from chakrasim.synthesis.indices import Ints, words_of
from chakrasim.synthesis.roles import HOLE, Nodes, Roles


def at_stations(traces: Sequence[Nodes], roles: Roles) -> tuple[list[Nodes], Roles]:
    """The traces with such roles apart, and the roles."""
    lists = [nodes.role for nodes in traces]
    several = set().union(*(_several(lists, index) for index in words_of(traces, roles.known).values()))
    before, after = (_beside(each, several) for each in (lists, [own[::-1] for own in lists]))
    sides = {role: (False, before[role]) if len(before[role]) <= len(after[role]) else (True, after[role])
             for role in several}  # fmt: skip
    apart = {role: behind for role, (behind, found) in sides.items() if len(found) > 1}
    if not apart:
        return [*traces], roles
    made, names = Roles(), [_title(what.name) for what in roles.known]
    found = []
    for nodes in traces:
        last = _last(nodes.role, several)
        following = _last(nodes.role[::-1], several)[::-1]
        own = []
        for at, role in enumerate(nodes.role):
            what = roles.known[role]
            if role in apart:
                one, side = (following[at], "before") if apart[role] else (last[at], "after")
                beside = f"{side} {names[one]}" if one >= 0 else side
                what = replace(what, place=f"{what.place} {beside}".strip())
            own.append(made.of(what))
        found.append(replace(nodes, role=own))
    return found, made


def _title(name: str) -> str:
    return name.replace(HOLE, "#")


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


def _beside(traces: Sequence[Sequence[int]], several: set[int]) -> dict[int, set[int]]:
    """By such role the others that it comes after."""
    found: dict[int, set[int]] = defaultdict(set)
    for roles in traces:
        for role, last in zip(roles, _last(roles, several), strict=True):
            if role in several:
                found[role].add(last)
    return found


def _last(roles: Sequence[int], several: set[int]) -> list[int]:
    """Of each node the last before it of another role than such, or -1."""
    found, last = [], -1
    for role in roles:
        found.append(last)
        last = last if role in several else role
    return found
