"""Roles told apart by where they come: in captured programs one operator comes all over, and what it works on says
little of which it is. What comes several times in a row, with the same numbers, is a loop; a role is then one of an
operator at its place in the loop.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import Any, Final

import numpy as np

from chakrasim.synthesis.expressions import Ints
from chakrasim.synthesis.grammar.written import counted, is_beside
from chakrasim.synthesis.roles import HOLE, Nodes, Roles
from chakrasim.trace.kinds import NodeType

BLURRED: Final = 0.25
"""Roles are told apart if more than this share of nodes has other numbers than some node of its role and trace, and
none in its name."""
TRIED: Final = 8
LONGEST: Final = 4096
"""Nodes of an iteration, at most."""
COMMUNICATION: Final = (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE, NodeType.COMM_COLL_NODE)
FEWEST: Final = 3
"""Times that one node comes in a row, or it is not taken for a loop."""


@dataclass(frozen=True)
class Run:
    """Something ``count`` times in a row."""

    body: tuple[int | Run, ...]
    count: int


def told_apart(traces: Sequence[Nodes], roles: Roles) -> tuple[list[Nodes], Roles]:
    """The traces with roles told apart by their places, and these; as they are where their roles tell already what
    nodes are, by some of the traces."""
    if _blurred(traces[:: max(1, len(traces) // TRIED)], roles) <= BLURRED:
        return [*traces], roles
    found = Roles()
    every = _tokens(traces, roles)
    return [_told_apart(nodes, tokens, roles, found) for nodes, tokens in zip(traces, every, strict=True)], found


def _tokens(traces: Sequence[Nodes], roles: Roles) -> list[list[tuple[int, Any]]]:
    """Of each node of each trace its role and its numbers, without those of time and name."""
    names = [role.numbers() for role in roles.known]
    kept = [
        [(name, number) for name, number in zip(names[role], numbers, strict=True) if not is_beside(name)]
        for nodes in traces
        for role, numbers in zip(nodes.role, nodes.numbers, strict=True)
    ]
    numbers = iter(counted(((role, lane) for lane, nodes in enumerate(traces) for role in nodes.role), kept)[1])
    return [[(role, next(numbers)) for role in nodes.role] for nodes in traces]


def _blurred(traces: Sequence[Nodes], roles: Roles) -> float:
    """The share of nodes whose role has other numbers in the same trace, too, and not in its name."""
    blurred = total = 0
    for nodes, tokens in zip(traces, _tokens(traces, roles), strict=True):
        different: dict[int, set[Any]] = defaultdict(set)
        named: dict[int, set[Any]] = defaultdict(set)
        for (role, numbers), said in zip(tokens, nodes.numbers, strict=True):
            different[role].add(numbers)
            named[role].add(said[: roles.known[role].name.count(HOLE)])
        blurred += sum(len(different[role]) > 1 and len(named[role]) == 1 for role, _ in tokens)
        total += len(tokens)
    return blurred / max(total, 1)


def _told_apart(nodes: Nodes, tokens: Sequence[tuple[int, Any]], roles: Roles, into: Roles) -> Nodes:
    """Communication, which libraries put where they have gathered enough, has the place of the node before it."""
    number: dict[tuple[int, Any], int] = {}
    work = [one for one in tokens if roles.known[one[0]].type not in COMMUNICATION]
    sequence = np.array([number.setdefault(one, len(number)) for one in work], np.int64)
    role_of = [role for role, _ in number]
    places = _places(runs_of(sequence), role_of, "")
    found, place = [], "0"
    for role, _ in tokens:
        if roles.known[role].type in COMMUNICATION:
            place += "+"
        else:
            _, place = next(places)
        found.append(into.of(replace(roles.known[role], place=place)))
    return replace(nodes, role=found)


def _places(items: Sequence[int | Run], role_of: Sequence[int], around: str) -> Iterator[tuple[int, str]]:
    """Each token in order, with the place of its role: which of its kind it is, of which run of its kind, and so on."""
    known: Counter[Any] = Counter()
    for one in items:
        shape = _shape(one, role_of)
        known[shape] += 1
        if isinstance(one, Run):
            name = f"{around}{len(_flat(one))}-{known[shape]}/"
            for _ in range(one.count):
                yield from _places(one.body, role_of, name)
        else:
            yield one, f"{around}{known[shape]}"


def _shape(one: int | Run, role_of: Sequence[int]) -> Any:
    return tuple(_shape(each, role_of) for each in one.body) if isinstance(one, Run) else role_of[one]


def _flat(run: Run) -> list[int]:
    return [token for one in run.body for token in (_flat(one) if isinstance(one, Run) else [one])]


def runs_of(tokens: Ints) -> tuple[int | Run, ...]:
    """The sequence with what comes several times in a row as runs: that which covers most first, and in what is
    repeated and beside it again."""
    heap = [
        stretch for period in range(1, min(len(tokens) // 2, LONGEST) + 1) for stretch in _stretches(tokens, period)
    ]
    heapify(heap)
    begins, ends = [-1, len(tokens)], [0, len(tokens)]
    taken: list[tuple[int, int, int]] = []
    while heap:
        covered, period, begin = heappop(heap)
        end = begin - covered
        if begin >= ends[at := bisect_right(begins, begin) - 1] and end <= begins[at + 1]:
            end -= (end - begin) % period
            begins.insert(at + 1, begin)
            ends.insert(at + 1, end)
            taken.append((begin, end, period))
            continue
        for after in range(at, bisect_left(begins, end)):
            first, last = max(begin, ends[after]), min(end, begins[after + 1])
            if last - first >= _least(period):
                heappush(heap, (first - last, period, first))
    found: list[int | Run] = []
    done = 0
    for begin, end, period in sorted(taken):
        found += tokens[done:begin].tolist()
        found.append(Run(runs_of(tokens[begin : begin + period]), (end - begin) // period))
        done = end
    return (*found, *tokens[done:].tolist())


def _stretches(tokens: Ints, period: int) -> Iterator[tuple[int, int, int]]:
    """What comes at least twice in a row: how many tokens it covers, negative, after how many it comes again, where."""
    same = np.concatenate(([0], tokens[:-period] == tokens[period:], [0])).astype(np.int8)
    begins, ends = np.flatnonzero(np.diff(same) > 0), np.flatnonzero(np.diff(same) < 0)
    long = ends - begins + period >= _least(period)
    for begin, end in zip(begins[long].tolist(), ends[long].tolist(), strict=True):
        yield begin - end - period, period, begin


def _least(period: int) -> int:
    """Tokens that a run covers at least."""
    return 2 * period if period > 1 else FEWEST
