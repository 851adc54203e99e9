"""Roles of recorded jobs told apart by their places in a program that most of them share: that of the longest trace,
with what comes several times in a row as runs, to which each other trace is aligned with the fewest nodes too many or
too few (a shortest path of weights 0 and 1). A run may come any number of times, and not at all.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

import numpy as np

from chakrasim.synthesis.grammar.context import Run, runs_of
from chakrasim.synthesis.grammar.recorded import SUMMED
from chakrasim.synthesis.roles import HOLE, Nodes, Role, Roles, Said, attributes_of, number_names, titles
from chakrasim.trace.job.job import Parameter

STEP: Final = "step"
WORK: Final = ("num_ops", "bytes_read", "bytes_written", "comm_size")
OTHER: Final = 4
"""A trace of which more than one node in so many does not fit is of another program."""
PROGRAMS: Final = 8
MOST: Final = 100_000
"""Pairs of a node and a place that are looked at for one trace, at most, beside as many for each node."""
EACH: Final = 8
Kind = tuple[int, str]
"""Type and name of a node."""
Spot = tuple[Kind, str]
"""A kind and a place."""


@dataclass
class _Program:
    """Kinds of nodes in order with the names of their places, and by place in that order to which others one may go
    on: round a run, or past it."""

    kinds: list[Kind] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    jumps: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def lay(self, items: Sequence[int | Run], kind_of: Sequence[Kind], around: str) -> None:
        for number, one in enumerate(items, 1):
            if isinstance(one, Run):
                begin = len(self.kinds)
                self.lay(one.body, kind_of, f"{around}{number}/")
                self.jumps[len(self.kinds)].append(begin)
                self.jumps[begin].append(len(self.kinds))
            else:
                self.kinds.append(kind_of[one])
                self.places.append(f"{around}{number}")


def aligned(
    traces: Sequence[Nodes], roles: Roles, said: Sequence[Mapping[str, Parameter]]
) -> tuple[list[Nodes], Roles, dict[str, float]]:
    """The traces with roles told apart by their places, and these; what only some have has a place, too. ``said``:
    parameters by trace. And what did not fit, for people, with the share of nodes."""
    kinds = [[(roles.known[role].type, roles.known[role].name) for role in nodes.role] for nodes in traces]
    programs: list[_Program] = []
    known: dict[tuple[Kind, ...], tuple[list[str], int]] = {}
    for number in sorted(range(len(traces)), key=lambda one: -len(traces[one])):
        key = tuple(kinds[number])
        if key in known:
            continue
        tried = [found for program in programs if (found := _places(key, program))]
        if not tried and len(programs) < PROGRAMS:
            programs.append(_program(traces[number], key, roles, f"{len(programs)}:" if programs else ""))
            tried = [found for found in (_places(key, programs[-1]),) if found]
        known[key] = min(tried, key=lambda one: one[1]) if tried else ([""] * len(key), len(key))
    places = [known[tuple(own)][0] for own in kinds]
    every = [place for own in places for place in own]
    lost = {"where nodes stand, of traces that fit no program": every.count("") / len(every)} if "" in every else {}
    made, fresh, changed = _alike(traces, places, roles, _told_apart(traces, places, roles, said))
    return made, fresh, lost | changed


def _program(nodes: Nodes, kinds: Sequence[Kind], roles: Roles, name: str) -> _Program:
    """The program of one trace: of steps, where it says them, the one of which most are like, as often as it will."""
    number: dict[tuple[int, ...], int] = {}
    kind_of: list[Kind] = []
    tokens, steps = [], []
    for role, own, kind in zip(nodes.role, nodes.numbers, kinds, strict=True):
        said = dict(zip(roles.known[role].numbers(), own, strict=True))
        token = (role, *(said.get(each, 0) for each in WORK))
        if token not in number:
            number[token] = len(kind_of)
            kind_of.append(kind)
        tokens.append(number[token])
        steps.append(said.get(STEP, -1))
    items: tuple[int | Run, ...]
    parts = [
        (step, [token for _, token in own])
        for step, own in groupby(zip(steps, tokens, strict=True), lambda one: one[0])
    ]
    inside = [i for i, (step, _) in enumerate(parts) if step >= 0]
    if len(inside) > 1:
        like = Counter(tuple(kind_of[token] for token in parts[i][1]) for i in inside)
        ((most, _),) = like.most_common(1)
        best = next(part for step, part in parts if step >= 0 and tuple(kind_of[token] for token in part) == most)
        before = [token for _, part in parts[: inside[0]] for token in part]
        behind = [token for _, part in parts[inside[-1] + 1 :] for token in part]
        items = (*before, Run(runs_of(np.array(best, np.int64)), len(inside)), *behind)
    else:
        items = runs_of(np.array(tokens, np.int64))
    made = _Program()
    made.lay(items, kind_of, name)
    return made


def _places(kinds: Sequence[Kind], program: _Program) -> tuple[list[str], int] | None:
    """The place of each node in the program, one that is too many having that before it with a mark, and how many are
    too many or too few; None if these are too many."""
    end = len(kinds), len(program.kinds)
    inside = {*program.kinds}
    if sum(kind not in inside for kind in kinds) * OTHER > len(kinds):
        return None
    came: dict[tuple[int, int], tuple[int, int]] = {}
    ahead: deque[tuple[tuple[int, int], tuple[int, int], int]] = deque([((0, 0), (-1, -1), 0)])
    while ahead:
        here, before, off = ahead.popleft()
        if here in came:
            continue
        came[here] = before
        if here == end:
            return [*_read(program, came, end)][::-1], off
        if len(came) > MOST + EACH * len(kinds) or off * OTHER > len(kinds):
            return None
        node, at = here
        if node < end[0]:
            ahead.append(((node + 1, at), here, off + 1))
        if at < end[1]:
            ahead.append(((node, at + 1), here, off + 1))
        ahead.extendleft(((node, other), here, off) for other in program.jumps.get(at, ()))
        if node < end[0] and at < end[1] and kinds[node] == program.kinds[at]:
            ahead.appendleft(((node + 1, at + 1), here, off))
    return None


def _read(program: _Program, came: dict[tuple[int, int], tuple[int, int]], end: tuple[int, int]) -> Iterator[str]:
    """Places on the way back."""
    here = end
    while here != (0, 0):
        before = came[here]
        if here[0] > before[0]:
            matched = here[1] > before[1]
            yield program.places[before[1]] if matched else f"{program.places[here[1] - 1] if here[1] else ''}+"
        here = before


def _texts(role: Role) -> dict[str, Said]:
    """What a role says beside numbers, by name."""
    return {one[0]: one for one in role.attributes if one[2] is not None}


def _told_apart(
    traces: Sequence[Nodes], places: Sequence[Sequence[str]], roles: Roles, said: Sequence[Mapping[str, Parameter]]
) -> dict[Spot, set[str]]:
    """By spot the texts that are others in some traces than in others, where a parameter tells which."""
    seen: dict[Spot, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for number, (nodes, own) in enumerate(zip(traces, places, strict=True)):
        for role, place in {*zip(nodes.role, own, strict=True)}:
            one = roles.known[role]
            seen[(one.type, one.name), place][role].add(number)
    found: dict[Spot, set[str]] = defaultdict(set)
    for spot, by_role in seen.items():
        texts = {role: _texts(roles.known[role]) for role in by_role}
        for name in {name for own in texts.values() for name in own}:
            groups: dict[Said | None, set[int]] = defaultdict(set)
            for role, traces_of in by_role.items():
                groups[texts[role].get(name)] |= traces_of
            if len(groups) > 1 and _is_told(groups.values(), said):
                found[spot].add(name)
    return found


def _is_told(groups: Collection[Set[int]], said: Sequence[Mapping[str, Parameter]]) -> bool:
    """Whether a parameter tells groups of traces apart, each of two at least and of two for each of its values."""
    every = set().union(*groups)
    if min(map(len, groups)) < 2 or sum(map(len, groups)) > len(every):
        return False
    for name in said[min(every)]:
        values = [{said[one].get(name) for one in group} for group in groups]
        count = sum(map(len, values))
        if 2 * count <= len(every) and count == len(set().union(*values)):
            return True
    return False


def _alike(
    traces: Sequence[Nodes], places: Sequence[Sequence[str]], roles: Roles, apart: Mapping[Spot, Set[str]]
) -> tuple[list[Nodes], Roles, dict[str, float]]:
    """Nodes of one kind and place have one role, the commonest, and numbers in other texts as the first that has these;
    what this has and a node has not is 0 there. Where texts are told ``apart`` each has one. And what shares of nodes
    are now others, for people."""

    def spot(role: int, place: str) -> tuple[Spot, tuple[Said, ...]]:
        one = roles.known[role]
        own = (one.type, one.name), place
        names = apart.get(own, ())
        return own, tuple(said for name, said in _texts(one).items() if name in names) if names else ()

    votes: dict[tuple[Spot, tuple[Said, ...]], Counter[int]] = defaultdict(Counter)
    first: dict[tuple[int, str], tuple[int, ...]] = {}
    for nodes, own in zip(traces, places, strict=True):
        for role, values, place in zip(nodes.role, nodes.numbers, own, strict=True):
            votes[spot(role, place)][role] += 1
            first.setdefault((role, place), values)
    found = Roles()
    which: dict[tuple[Spot, tuple[Said, ...]], tuple[int, Role, dict[str, int]]] = {}
    for key, own_votes in votes.items():
        place = key[0][1]
        most = max(own_votes, key=lambda role: (own_votes[role], len(roles.known[role].numbers()), -role))
        best = roles.known[most]
        merged = replace(best, place=place, timed=any(roles.known[one].timed for one in own_votes))
        which[key] = found.of(merged), merged, dict(zip(best.numbers(), first[most, place], strict=True))
    made, changed = [], Counter[int]()
    for nodes, own in zip(traces, places, strict=True):
        role_of, numbers = [], []
        for role, values, place in zip(nodes.role, nodes.numbers, own, strict=True):
            before = roles.known[role]
            number, after, usual = which[spot(role, place)]
            role_of.append(number)
            if before.attributes != after.attributes or before.timed != after.timed:
                said = dict(zip(before.numbers(), values, strict=True))
                other = {
                    name for one in {*_texts(after).values()} - {*_texts(before).values()} for name in number_names(one)
                }
                given = values
                values = tuple(usual[name] if name in other else said.get(name, 0) for name in after.numbers())
                changed[number] += _content(before, given) != _content(after, values)
            numbers.append(values)
        made.append(replace(nodes, role=role_of, numbers=numbers))
    names, count = titles(found.known), Counter(role for nodes in made for role in nodes.role)
    what = "attributes, in which some nodes differ from most at their place"
    return made, found, {f"{names[role]}: {what}": off / count[role] for role, off in sorted(changed.items()) if off}


def _content(role: Role, numbers: Sequence[int]) -> dict[str, object]:
    """Attributes by name, whatever the kinds of numbers, without sums of 0."""
    found = attributes_of(role.attributes, numbers[role.name.count(HOLE) :])
    plain = {name: next(iter(one.values())) if isinstance(one, dict) else one for name, one in found.items()}
    return {name: one for name, one in plain.items() if one or name not in SUMMED}
