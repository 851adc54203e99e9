"""The order in which roles come, over all traces together, as loops in loops: what can follow what, as a graph, whose
strongly connected parts are the loops (Steensgaard 1993). Every trace is then read as iterations of these loops.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.synthesis.indices import Said

Ints = NDArray[np.int64]
ROOT: Final = 0
DEEPEST: Final = 40
"""Loops in each other, at most."""


@dataclass(frozen=True)
class Loop:
    """What is repeated, in order: roles (int) and loops; any of it may be absent from an iteration. Number 0 is the
    whole trace, which comes once."""

    number: int
    body: tuple[int | Loop, ...]


@dataclass(frozen=True)
class Place:
    """Where a role stands: in which loops, outermost first, beginning with the whole trace, and at which place of the
    body of each."""

    loops: tuple[int, ...]
    at: tuple[int, ...]


@dataclass
class Looks:
    """How many nodes and edges may still be looked at in the search for loops, in which each takes some 50 ns."""

    left: int = 300_000_000

    def spend(self, count: int) -> None:
        """So many are looked at."""
        self.left -= count


def order_of(traces: Sequence[Sequence[int]], words: dict[str, Ints], looks: Looks) -> tuple[Loop, list[list[int]]]:
    """The loops of all traces together, as far as there are ``looks`` for, and not more than ``DEEPEST`` in each other;
    in the others nothing is in order. By trace of each node the loop of which an iteration begins there by what names
    say, or 0. ``words``: what names say, as `words_of` has it."""
    graph = _Graph(looks, Said(traces, words))
    for number, roles in enumerate(traces):
        graph.add(roles, 1 << number)
    return Loop(ROOT, graph.body({*graph.follow}, graph.follow, {}, 0)), graph.said.of_traces()


class _Graph:
    """What follows what, and in which traces: these are bits of a number."""

    def __init__(self, looks: Looks, said: Said) -> None:
        self.looks = looks
        self.said = said
        self.nodes = 0
        self.follow: dict[int, set[int]] = defaultdict(set)
        self.used: dict[tuple[int, int], int] = defaultdict(int)
        self.count = Counter[tuple[int, int]]()
        self.first: list[dict[int, int]] = []
        self.every: list[Sequence[int]] = []
        self.numbers = iter(range(1, 1 << 30))

    def add(self, roles: Sequence[int], bit: int) -> None:
        """A trace; before its first node there is none, -1."""
        self.every.append(roles)
        self.nodes += len(roles)
        self.first.append({role: at for at, role in reversed([*enumerate(roles)])})
        steps = Counter(zip((-1, *roles), roles, strict=False))
        self.count.update(steps)
        for a, b in steps:
            self.used[a, b] |= bit
            self.follow[a].add(b)
            self.follow[b] |= set()

    def body(
        self, inside: set[int], edges: dict[int, set[int]], entered: dict[int, int], deep: int
    ) -> tuple[int | Loop, ...]:
        """What these roles are, in order. ``entered``: those that are come to from outside, and in which traces.
        ``deep``: how many loops they are in."""
        found: list[int | Loop] = []
        for part in _parts(inside, edges):
            if len(part) == 1 and part[0] not in edges[part[0]]:
                found += [one for one in part if one >= 0]
                continue
            own = set(part)
            entries = {one: entered[one] for one in own if one in entered}
            for a in inside - own:
                for b in edges[a] & own:
                    entries[b] = entries.get(b, 0) | self.used[a, b]
            number = next(self.numbers)
            found.append(
                Loop(number, self.body(own, self.within(own, edges, entries, number, deep), entries, deep + 1))
            )
        return tuple(found)

    def within(
        self, own: set[int], edges: dict[int, set[int]], entries: dict[int, int], number: int, deep: int
    ) -> dict[int, set[int]]:
        """What follows what in an iteration of the loop of these roles: nothing where no more is looked at, and what
        names say if they do. Else to a head leads what is in a loop within with it: what comes before it in all visits,
        and in the first iteration of some; and what else makes iterations fewer."""
        if self.looks.left <= 0 or deep >= DEEPEST:
            return {a: set() for a in own}
        if self.said.words:
            self.looks.spend(self.nodes)
            told = self.said.within(own, edges, number)
            if told is not None:
                return told
        heads = self.heads(own, edges, entries)
        visits = self.visits(own)
        ahead = _ahead(visits, {a: edges[a] & own for a in own}, heads)
        heads |= ahead
        self.looks.spend(len(visits) * sum(len(edges[a] & heads) for a in own))
        turns = [_first_turn(visit, heads) for visit in visits]
        inner = {a: (edges[a] & own) - heads for a in own}
        before = {(a, b) for a in own for b in edges[a] & heads
                  if a in ahead or (b not in ahead and _begins(visits, turns, a, b))}  # fmt: skip
        found = {a: inner[a] | {b for b in edges[a] & heads if (a, b) in before} for a in own}
        if all(found[a] == edges[a] & own for a in own):
            found = inner
        part = {one: number for number, each in enumerate(_parts(own, found)) for one in each}
        found = {a: inner[a] | {b for b in found[a] if part[a] == part[b]} for a in own}
        self.join(found, heads, {(a, b) for a in own for b in (edges[a] & heads) - found[a]}, before)
        return found

    def join(
        self, found: dict[int, set[int]], heads: set[int], cut: set[tuple[int, int]], before: set[tuple[int, int]]
    ) -> None:
        """Of the edges to heads that are ``cut``, each of which begins an iteration, those that can be in one are put
        back: first those of what comes ``before`` the other wherever both come, then the ways in which most steps go, a
        way being all from one head to others, or all others to it."""
        into = {b for _, b in cut}
        self.looks.spend(len(into) * sum(map(len, found.values())))
        back = {b: _reached(found, b) for b in into}
        free = [(a, b) for a, b in sorted(cut) if a not in back[b]]
        self.looks.spend(len(free) * sum(map(len, found.values())))
        ways = {(a, b): (a, True) if a in heads else (b, False) for a, b in free}
        steps = Counter[tuple[int, bool]]()
        for edge, way in ways.items():
            steps[way] += self.count[edge]
        for a, b in sorted(free, key=lambda edge: (edge not in before, -steps[ways[edge]], -self.count[edge])):
            if a not in _reached(found, b):
                found[a].add(b)

    def visits(self, own: set[int]) -> list[Visit]:
        """As `visits_of` has them of all traces."""
        self.looks.spend(self.nodes)
        return visits_of(self.every, own)

    def heads(self, own: set[int], edges: dict[int, set[int]], entries: dict[int, int]) -> set[int]:
        """With what an iteration begins: the entry that comes before the others in all traces, else, of those that none
        leads to, the one that most traces come in by, and others of which no trace shows that they begin something that
        is repeated within an iteration."""
        before = [one for one in sorted(entries) if all(self.comes_before(one, other) for other in entries)]
        visits = self.visits(own)
        self.looks.spend(len(visits) * len(entries) ** 2)
        first = {next(iter(each.first)) for each in visits} & {*entries}
        free = {one for one in first if not any(_leads_to(visits, other, one) for other in first)}
        most = max(sorted(entries), key=lambda one: entries[one].bit_count())
        heads = {before[0]} if before else free or {most}
        while self.looks.left > 0:
            outer = self.traces(own, heads)
            more = set()
            for part in _parts(own, {a: (edges[a] & own) - heads for a in own}):
                others = ({*part} & {*entries}) - heads
                if len(part) > 1 and others and not outer & self.traces({*part}, others):
                    more |= others
                elif len(part) > 1:
                    more |= {one for one in others if self.alternate(own, heads, one, visits)}
            self.looks.spend(len(own) * len(heads))
            if not more:
                break
            heads |= more
        return heads

    def alternate(self, own: set[int], heads: set[int], other: int, visits: Sequence[Visit]) -> bool:
        """Whether no trace shows the other in a loop within: there it comes twice with no head between, more than once
        in a visit, and heads do not come so. Where no first iteration that a head begins has it, a visit that it begins
        and heads with none of it between show that it is beside. None does when no more is looked at."""
        self.looks.spend(2 * self.nodes)
        if self.looks.left <= 0:
            return False
        begun = [(visit, next(iter(visit.first))) for visit in visits]
        apart = not any(begin in heads and other in _first_turn(visit, heads | {other}) for visit, begin in begun)
        beside = {visit.number for visit, begin in begun if apart and begin == other}
        for number, roles in enumerate(self.every):
            if other in roles and not heads.isdisjoint(roles) and number not in beside:
                last = within = before = 0
                inner = outer = False
                for one in roles:
                    if one not in own:
                        last = within = 0
                    elif one == other or one in heads:
                        this = 1 if one == other else 2
                        within += last == this == 1
                        inner |= within > 1
                        outer |= this == 2 and (last == this or (apart and before == this))
                        last = before = this
                if inner and not outer:
                    return False
        return True

    def comes_before(self, one: int, other: int) -> bool:
        """Whether no trace has ``other`` first that has both."""
        return all(own[one] <= own[other] for own in self.first if one in own and other in own)

    def traces(self, own: set[int], heads: set[int]) -> int:
        """In which traces one of the heads is come to from within."""
        found = 0
        for a in own:
            for b in heads & self.follow[a]:
                found |= self.used[a, b]
        return found


@dataclass
class Visit:
    """A time that a trace, by ``number``, is among some roles, up to before place ``end``; where each of them comes
    ``first``, in order."""

    trace: Sequence[int]
    number: int
    first: dict[int, int] = field(default_factory=dict)
    end: int = 0


def visits_of(traces: Iterable[Sequence[int]], own: Set[int]) -> list[Visit]:
    """Each time that a trace is among these roles."""
    found: list[Visit] = []
    for number, roles in enumerate(traces):
        inside = False
        for at, one in enumerate(roles):
            if one in own:
                if not inside:
                    found.append(Visit(roles, number))
                found[-1].first.setdefault(one, at)
                found[-1].end = at + 1
            inside = one in own
    return found


def looped(traces: Iterable[Sequence[int]], own: Set[int]) -> set[int]:
    """Which of these roles are repeated among them."""
    edges: dict[int, set[int]] = {one: set() for one in own}
    for roles in traces:
        for a, b in pairwise(roles):
            if a in own and b in own:
                edges[a].add(b)
    return {one for part in _parts({*own}, edges) for one in part if len(part) > 1 or one in edges[one]}


def _first_turn(visit: Visit, heads: Set[int]) -> list[int]:
    """The roles of the first iteration, in order: those that come before any comes again. If from there to the next
    head hardly anything is new, an iteration of another kind has begun between, with the last head there."""
    begin = next(iter(visit.first.values()))
    turn = [one for number, (one, at) in enumerate(visit.first.items()) if at - begin == number]
    rest = visit.trace[begin + len(turn) : visit.end]
    if rest and rest[0] not in heads:
        again = {*takewhile(lambda one: one not in heads, rest)}
        since = turn.index(rest[0])
        if 2 * len(again & {*turn}) > len(again):
            turn = turn[: max((at for at, one in enumerate(turn) if one in heads and at > since), default=len(turn))]
    return turn


def _begins(visits: Sequence[Visit], begins: Sequence[Sequence[int]], one: int, other: int) -> bool:
    """Whether all visits that have both have ``one`` first, and some of them ``other`` in the first iteration."""
    both = [(own.first[one] < own.first[other], other in begin) for own, begin in zip(visits, begins, strict=True)
            if one in own.first and other in own.first]  # fmt: skip
    return all(before for before, _ in both) and any(begun for _, begun in both)


def _ahead(visits: Sequence[Visit], edges: dict[int, set[int]], heads: Set[int]) -> set[int]:
    """What comes ahead of an iteration, not behind the one before, such as weights that are gathered for later: only
    heads follow it, visits begin with it, and none ends with it."""
    first = {next(iter(visit.first)) for visit in visits}
    last = {visit.trace[visit.end - 1] for visit in visits}
    found: set[int] = set()
    while more := {a for a in first - last - found if edges[a] and edges[a] <= heads | found}:
        found |= more
    return found if heads - found else set()


def _leads_to(visits: Sequence[Visit], one: int, other: int) -> bool:
    """Whether some visit has both, and all that have them have ``one`` first."""
    both = [own.first[one] < own.first[other] for own in visits if one in own.first and other in own.first]
    return bool(both) and all(both)


def _reached(edges: dict[int, set[int]], one: int) -> set[int]:
    """What edges lead to from one, and that itself."""
    seen, left = {one}, [one]
    while left:
        more = edges[left.pop()] - seen
        seen |= more
        left += more
    return seen


def _parts(inside: set[int], edges: dict[int, set[int]]) -> list[list[int]]:
    """Strongly connected parts in an order in which no edge leads back (Tarjan 1972)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on: set[int] = set()
    found: list[list[int]] = []
    for root in sorted(inside):
        if root in index:
            continue
        work = [(root, iter(sorted(edges[root] & inside)))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        while work:
            node, rest = work[-1]
            after = next(rest, None)
            if after is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    found.append(sorted(stack[at:]))
                    on -= {*stack[at:]}
                    del stack[at:]
            elif after not in index:
                index[after] = low[after] = len(index)
                stack.append(after)
                on.add(after)
                work.append((after, iter(sorted(edges[after] & inside))))
            elif after in on:
                low[node] = min(low[node], index[after])
    return found[::-1]


def inner_loops(loop: Loop, around: tuple[int, ...] = ()) -> Iterator[tuple[Loop, tuple[int, ...]]]:
    """The loops in a loop, those in them too, each with the numbers of the loops around it, outermost first."""
    for one in loop.body:
        if isinstance(one, Loop):
            yield one, (*around, loop.number)
            yield from inner_loops(one, (*around, loop.number))


def body_roles(loop: Loop) -> set[int]:
    """The roles in a loop and those in it."""
    return set().union(*(body_roles(one) if isinstance(one, Loop) else {one} for one in loop.body))


def places(loop: Loop, loops: tuple[int, ...] = (), at: tuple[int, ...] = ()) -> dict[int, Place]:
    """Where each role stands."""
    found: dict[int, Place] = {}
    for i, one in enumerate(loop.body):
        if isinstance(one, Loop):
            found |= places(one, (*loops, loop.number), (*at, i))
        else:
            found[one] = Place((*loops, loop.number), (*at, i))
    return found


@dataclass
class Iterations:
    """The iterations of one loop in a trace, in order.

    ``parent``: the iteration of the loop around it, by number there; ``index``: how many came before in this run of the
    loop.
    """

    parent: list[int] = field(default_factory=list)
    index: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.parent)


def read_trace(
    roles: Sequence[int], where: dict[int, Place], loops: int, begins: Sequence[int] | None = None
) -> tuple[list[Iterations], Ints]:
    """The iterations of each loop, by its number, and int64[nodes]: the iteration of the innermost loop of each node.

    A node that stands before the one before it, or at the same place, begins an iteration of the innermost loop that
    both are in, or of one around it: that of which an iteration ``begins`` with the node, as `order_of` has it. Raises
    KeyError for a role that has no place.
    """
    found = [Iterations() for _ in range(loops)]
    found[ROOT].parent.append(-1)
    found[ROOT].index.append(0)
    own = np.zeros(len(roles), np.int64)
    before: Place | None = None
    for i, role in enumerate(roles):
        place = where[role]
        entered = 1
        if before is not None:
            same = _same(before.at, place.at)
            again = same == len(place.at) or place.at[same] < before.at[same]
            entered = min(same + 1, len(place.at))
            if begins and begins[i] in place.loops[1:entered]:
                again, entered = True, place.loops.index(begins[i]) + 1
            if again:
                rows = found[place.loops[entered - 1]]
                rows.index.append(rows.index[-1] + 1)
                rows.parent.append(rows.parent[-1])
        for loop, around in zip(place.loops[entered:], place.loops[entered - 1 :], strict=False):
            found[loop].index.append(0)
            found[loop].parent.append(len(found[around]) - 1)
        own[i] = len(found[place.loops[-1]]) - 1
        before = place
    if len(found[ROOT]) > 1:
        raise KeyError("the trace does not fit the loops")
    return found, own


def _same(a: Sequence[int], b: Sequence[int]) -> int:
    """How many levels two places share."""
    count = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        count += 1
    return count
