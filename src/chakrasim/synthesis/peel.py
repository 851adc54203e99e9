"""First turns taken out of loops: what a program does ahead, such as gathering a layer's weights while the one before
computes, comes once before the loop. As a role of its own it leaves the loop, and what stands between with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from chakrasim.synthesis.loops import Looks, body_roles, inner_loops, looped, loops_of, visits_of
from chakrasim.synthesis.roles import Nodes, Roles

FIRST: Final = "first"
"""In the place of roles that are such turns."""
TRIED: Final = 8
"""Roles with which a loop begins that are tried, at most."""
MOST: Final = 16
"""First turns, at most."""


def peeled(traces: Sequence[Nodes], roles: Roles, looks: Looks) -> list[Nodes]:
    """The traces with first turns as roles of their own, which are added to the roles, as far as there are ``looks``
    for."""
    lists = [nodes.role for nodes in traces]
    for _ in range(MOST):
        found = _turn(lists, looks)
        if found is None:
            break
        own, role = found
        what = roles.known[role]
        fresh = roles.of(replace(what, place=f"{what.place} {FIRST}".strip()))
        lists = [_renamed(each, own, role, fresh) for each in lists]
    return [replace(nodes, role=own) for nodes, own in zip(traces, lists, strict=True)]


def _turn(traces: Sequence[Sequence[int]], looks: Looks) -> tuple[set[int], int] | None:
    """Roles of a loop, and the one of them whose first turn, taken out, takes others out of the loop: all that comes
    until its next turn. None if there is none."""
    nodes = sum(map(len, traces))
    for loop, _ in reversed([*inner_loops(loops_of(traces, looks))]):
        own = body_roles(loop)
        begins = sorted({next(iter(visit)) for visit in visits_of(traces, own)})
        looks.spend(nodes)
        for role in begins[:TRIED] if looks.left > 0 else ():
            looks.spend(3 * nodes)
            without = [_renamed(each, own, role, -2) for each in traces]
            left = own - looped(without, own) - {role}
            between = [each for roles in without for each in _between(roles, own, role)]
            if left and between and set().union(*between) <= left:
                return own, role
    return None


def _between(roles: Sequence[int], own: set[int], role: int) -> Iterator[set[int]]:
    """What comes between a first turn, -2, and the next of the role in the same visit of the loop."""
    since: set[int] | None = None
    for one in roles:
        if one == role and since is not None:
            yield since
        if one == -2:
            since = set()
        elif one == role or one not in own:
            since = None
        elif since is not None:
            since.add(one)


def _renamed(roles: Sequence[int], own: set[int], role: int, fresh: int) -> list[int]:
    """The trace with another role for the first of these that comes in each visit of its loop."""
    found, met = [], False
    for one in roles:
        if one not in own:
            met = False
        found.append(fresh if one == role and not met else one)
        met = met or one == role
    return found
