"""First turns taken out of loops: what a program does ahead, such as gathering a layer's weights while the one before
computes, comes once before the loop. As a role of its own it leaves the loop, and what stands between with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations, islice
from typing import Final

from chakrasim.synthesis.indices import Ints, words_of
from chakrasim.synthesis.loops import Looks, Visit, body_roles, inner_loops, looped, order_of, visits_of
from chakrasim.synthesis.roles import Nodes, Roles

FIRST: Final = "first"
"""In the place of roles that are such turns."""
TRIED: Final = 8
"""Roles with which a loop begins that are tried, at most."""
MOST: Final = 16
"""First turns, at most."""


def peeled(traces: Sequence[Nodes], roles: Roles, looks: Looks) -> tuple[list[Nodes], Roles]:
    """The traces with first turns as roles of their own, as far as there are ``looks`` for, and the roles that come."""
    lists = [nodes.role for nodes in traces]
    words = words_of(traces, roles.known)
    for _ in range(MOST):
        found = _turn(lists, words, looks)
        if found is None:
            break
        own, turned = found
        known = {role: roles.known[role] for role in sorted(turned)}
        fresh = {role: roles.of(replace(what, place=f"{what.place} {FIRST}".strip())) for role, what in known.items()}
        lists = [_renamed(each, own, fresh) for each in lists]
    met = dict.fromkeys(chain(*lists))
    made = Roles() if len(met) < len(roles.known) else roles  # All turns of a role may be first ones.
    number = {role: made.of(roles.known[role]) for role in met}
    return [replace(nodes, role=[number[one] for one in own]) for nodes, own in zip(traces, lists, strict=True)], made


def _turn(traces: Sequence[Sequence[int]], words: dict[str, Ints], looks: Looks) -> tuple[set[int], set[int]] | None:
    """Roles of a loop, and those of them whose first turn, taken out, takes others out of the loop: all that comes
    until their next turn, and not in the iterations that follow. None if there are none."""
    nodes = sum(map(len, traces))
    for loop, _ in reversed([*inner_loops(order_of(traces, words, looks)[0])]):
        own = body_roles(loop)
        looks.spend(nodes)
        visits = visits_of(traces, own)
        runs = dict.fromkeys((*visit.trace[next(iter(visit.first.values())) : visit.end],) for visit in visits)
        for turned in _turns(visits) if looks.left > 0 else ():
            looks.spend(3 * sum(map(len, runs)))
            without = [_renamed(each, own, dict.fromkeys(turned, -2)) for each in runs]
            left = own - looped(without, own) - turned
            between = [each for roles in without for each in _between(roles, own, turned)]
            if left and between and all(once <= left and once.isdisjoint(rest) for once, rest in between):
                return own, turned
    return None


def _turns(visits: Sequence[Visit]) -> Iterator[set[int]]:
    """Roles of which the first turn may be one: what visits begin with, each alone, with what comes next, and where
    iterations are of several kinds two together."""
    begins = sorted({next(iter(visit.first)) for visit in visits})[:TRIED]
    nexts = Counter((*islice(visit.first, 2),) for visit in visits if len(visit.first) > 1)
    pairs = [pair for pair, _ in nexts.most_common() if pair[0] in begins][: 2 * TRIED]
    chosen = dict.fromkeys(map(frozenset, chain(combinations(begins, 1), pairs, combinations(begins, 2))))
    yield from ({*each} for each in chosen)


def _between(roles: Sequence[int], own: set[int], turned: set[int]) -> Iterator[tuple[set[int], set[int]]]:
    """What comes between a first turn, -2, and the next of these roles in the same visit of the loop, and from there to
    the visit's end, each time that there is a next."""
    parts: list[set[int]] = []
    for one in (*roles, -1):
        if one not in own:
            if len(parts) == 2:
                yield parts[0], parts[1]
            parts = [set()] if one == -2 else []
        elif one in turned and len(parts) == 1:
            parts.append(set())
        if one in own and parts:
            parts[-1].add(one)


def _renamed(roles: Sequence[int], own: set[int], fresh: Mapping[int, int]) -> list[int]:
    """The trace with other roles for the first turn of these in each visit of their loop: what comes there of them,
    each once, with nothing between."""
    found: list[int] = []
    turn: set[int] = set()
    over = False
    for one in roles:
        if one not in own:
            turn, over = set(), False
        over = over or one in turn or (bool(turn) and one not in fresh)
        if one in fresh and not over:
            turn.add(one)
        found.append(fresh[one] if one in fresh and not over else one)
    return found
