"""Numbers that are part of a word, such as those of fc1 and fc2: they are the same few in every trace, where those of
layers go on as the job says. They stay in the name, and the roles are told apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from chakrasim.synthesis.roles import HOLE, Nodes, Roles

MOST: Final = 4
"""Numbers that a word has, at most."""


def spelled(traces: Sequence[Nodes], roles: Roles) -> tuple[list[Nodes], Roles]:
    """The traces with such numbers in the names of their roles, and these roles."""
    own = _of_words(traces, roles)
    if not own:
        return [*traces], roles
    found = Roles()
    made = []
    for nodes in traces:
        role_of, numbers = [], []
        for role, said in zip(nodes.role, nodes.numbers, strict=True):
            at = own.get(role, [])
            name = _with(roles.known[role].name, {i: said[i] for i in at})
            role_of.append(found.of(replace(roles.known[role], name=name)))
            numbers.append(tuple(number for i, number in enumerate(said) if i not in at))
        made.append(replace(nodes, role=role_of, numbers=numbers))
    return made, found


def _of_words(traces: Sequence[Nodes], roles: Roles) -> dict[int, list[int]]:
    """By role the numbers of its name that stand behind a letter and are the same few in all traces that have it."""
    holes = {role: [i for i, part in enumerate(what.name.split(HOLE)[:-1]) if part[-1:].isalpha()]
             for role, what in enumerate(roles.known)}  # fmt: skip
    sets: dict[tuple[int, int], set[frozenset[int]]] = defaultdict(set)
    for nodes in traces:
        here: dict[tuple[int, int], set[int]] = defaultdict(set)
        for role, said in zip(nodes.role, nodes.numbers, strict=True):
            for i in holes[role]:
                here[role, i].add(said[i])
        for key, values in here.items():
            sets[key].add(frozenset(values))
    found: dict[int, list[int]] = defaultdict(list)
    for (role, i), said_in in sorted(sets.items()):
        if len(said_in) == 1 and 1 < len(next(iter(said_in))) <= MOST:
            found[role].append(i)
    return found


def _with(name: str, numbers: dict[int, int]) -> str:
    """The name with some of its holes filled."""
    first, *parts = name.split(HOLE)
    return first + "".join(f"{numbers.get(i, HOLE)}{part}" for i, part in enumerate(parts))
