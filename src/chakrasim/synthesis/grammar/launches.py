"""How many kernels a node launches, which only those say that launch several: all have the number, so that nodes of one
place of a program are of one kind whatever their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chakrasim.synthesis.roles import Nodes, Role, Roles
from chakrasim.trace.work import KERNELS


def with_launches(traces: Sequence[Nodes], roles: Roles) -> tuple[list[Nodes], Roles]:
    """The traces with the number in all kinds of nodes that have it in some jobs, and these roles."""
    several = {_without(role): role for role in roles.known if KERNELS in role.numbers()}
    if several.keys().isdisjoint(roles.known):
        return [*traces], roles
    place = {role: several[role].numbers().index(KERNELS) for role in roles.known if role in several}
    found = Roles()
    made = []
    for nodes in traces:
        known = [roles.known[role] for role in nodes.role]
        made.append(replace(
            nodes,
            role=[found.of(several.get(role, role)) for role in known],
            numbers=[(*said[: place[role]], 1, *said[place[role] :]) if role in place else said
                     for role, said in zip(known, nodes.numbers, strict=True)],
        ))  # fmt: skip
    return made, found


def _without(role: Role) -> Role:
    return replace(role, attributes=tuple(said for said in role.attributes if said[0] != KERNELS))
