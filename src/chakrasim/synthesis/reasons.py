"""Why a node waits for which others: rules that find them again in any trace of the program.

["stream", s]                  the last node before it on stream s; s -1: on its own
["last", [role...], [[own, its, more]...]]
                               the last node before it of one of these roles, of those of which the number ``its``
                               is its own number ``own`` and ``more``
["mirror", role]               of this role the last, for the next node the one before that, and so on: what a backward
                               pass takes of a forward one
["begin", [loop...], back, s]  the last node on stream s before the current iteration of one of these loops (back 0),
                               or the one before (1), began
["since", [role...], [sent...]]
                               the last node before it of one of these roles, if none that is sent came since
["sent", [own...], [role...], [sent...]]
                               with it as many nodes of its ``own`` roles stand before it as of these roles before one
                               of theirs: the first after that one that is sent
["every", role, loop]          all nodes of this role before it since an iteration of this loop began last
["when", loop, which, rule]    the rule, for iterations of the loop that are "first", "last", or "not" the first
["else", other, rule]          the rule, where the other finds nothing
["beside", other, role, rule]  the rule, where the other finds a node of this role
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, combinations, islice
from typing import Any, Final

from chakrasim.synthesis.roles import STREAM, Role
from chakrasim.synthesis.search.work import Work

Rule = list[Any]
OWN: Final = -1
TRIED: Final = 600
"""Nodes of a role that rules are tried on, at most."""
SOME: Final = 50
"""Of which streams and loops are taken."""
LOOK: Final = 200
"""What it costs to look at a node, in numbers that laws look at."""
PLAIN: Final = 20_000
"""Rules that are tried for a role, at most, not counting those that depend on others."""
SETS: Final = 6
"""Roles of which all sets are tried; of more, pairs and all together."""


@dataclass
class Lane:
    """Where nodes of a trace are, as it is gone through, by stream and by role, and where iterations begin."""

    streams: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    roles: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    begins: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    numbers: list[tuple[int, ...]] = field(default_factory=list)
    role: list[int] = field(default_factory=list)

    def add(self, role: int, stream: int, numbers: tuple[int, ...], begun: Iterable[int]) -> None:
        """The next node; ``begun``: loops of which an iteration begins with it."""
        at = len(self.numbers)
        for loop in begun:
            self.begins[loop].append(at)
        self.numbers.append(numbers)
        self.role.append(role)
        self.streams[stream].append(at)
        self.roles[role].append(at)


@dataclass(frozen=True)
class Asking:
    """A node that a rule is asked about: its place, stream, and numbers, all in the trace of the lane."""

    at: int
    stream: int
    numbers: tuple[int, ...]
    iteration: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """By loop around it: how many iterations of the run came before, and how many follow."""


class Rules:
    """Answers rules. ``counters``: names of numbers that go up along the loops of a trace, such as a micro-batch's.
    ``sent``: kinds of nodes of which messages send what they wrote, and kinds of these. ``place``: of each role, where
    each of its numbers stands, by name."""

    def __init__(
        self, roles: Sequence[Role], counters: Set[str] = frozenset(), sent: Sequence[tuple[list[int], list[int]]] = ()
    ) -> None:
        self.sent, self.kinds = sent, [(role.name, role.attributes) for role in roles]
        self.place = [{name: i for i, name in enumerate(role.numbers())} for role in roles]
        self.counters = counters
        self.looks = 0

    def stream(self, role: int, numbers: Sequence[int]) -> int:
        """On which stream a node is, -2 for none."""
        at = self.place[role].get(STREAM)
        return numbers[at] if at is not None else -2

    def answers(self, rule: Rule, role: int, node: Asking, lane: Lane) -> set[int]:
        """The nodes that it finds."""
        if rule[0] != "every":
            return {self.answer(rule, role, node, lane)} - {-1}
        places, begin = lane.roles[rule[1]], _before(lane.begins[rule[2]], node.at + 1)
        found = {*places[bisect_left(places, begin) : bisect_left(places, node.at)]} if begin >= 0 else set()
        self.looks += 1 + len(found)
        return found

    def answer(self, rule: Rule, role: int, node: Asking, lane: Lane) -> int:
        """The node that it finds, -1 for none; of any rule but for those of "every" node."""
        self.looks += len(rule[1]) if rule[0] == "last" else 1
        match rule[0]:
            case "stream":
                return _before(lane.streams[node.stream if rule[1] == OWN else rule[1]], node.at)
            case "mirror":
                return self._mirrored(rule[1], role, node, lane)
            case "begin":
                begin = _nth_before([lane.begins[loop] for loop in rule[1]], node.at + 1, rule[2])
                return _before(lane.streams[rule[3]], begin) if begin >= 0 else -1
            case "since":
                at, sent = (max((_before(lane.roles[one], node.at) for one in each), default=-1) for each in rule[1:])
                return at if at > sent else -1
            case "sent":
                return self._sent(rule[1:], node, lane)
            case "when":
                before, behind = node.iteration[rule[1]]
                held = {"first": not before, "last": not behind, "not": bool(before)}[rule[2]]
                return self.answer(rule[3], role, node, lane) if held else -1
            case "else":
                return self.answer(rule[2], role, node, lane) if self.answer(rule[1], role, node, lane) < 0 else -1
            case "beside":
                other = self.answer(rule[1], role, node, lane)
                return self.answer(rule[3], role, node, lane) if other >= 0 and lane.role[other] == rule[2] else -1
            case _:
                return max((self._last(one, rule[2], role, node, lane) for one in rule[1]), default=-1)

    def _mirrored(self, wanted: int, role: int, node: Asking, lane: Lane) -> int:
        places, own = lane.roles[wanted], lane.roles[role]
        at = bisect_left(places, node.at) - 1
        if at < 0:
            return -1
        at -= bisect_left(own, node.at) - bisect_left(own, places[at])
        return places[at] if at >= 0 else -1

    def _sent(self, kinds: list[list[int]], node: Asking, lane: Lane) -> int:
        """The message with what the node is about: as many as it there are before it, of its kinds, stand before what
        it has of the summed kinds."""
        own, summed, sent = kinds
        self.looks += 10 * len(summed)
        count = sum(bisect_left(lane.roles[one], node.at) for one in own)
        places = [lane.roles[one] for one in summed]
        at = bisect_right(range(node.at), count, key=lambda place: sum(bisect_right(each, place) for each in places))
        later = (lane.roles[one][bisect_left(lane.roles[one], at) :][:1] for one in sent)
        found = min(chain.from_iterable(later), default=node.at)
        return found if found < node.at else -1

    def _last(self, wanted: int, same: list[Any], role: int, node: Asking, lane: Lane) -> int:
        places = lane.roles[wanted]
        at = bisect_left(places, node.at) - 1
        if not same:
            return places[at] if at >= 0 else -1
        own = [(self.place[wanted][its], node.numbers[self.place[role][name]] + more) for name, its, more in same]
        while at >= 0:
            self.looks += 1
            if all(lane.numbers[places[at]][i] == value for i, value in own):
                return places[at]
            at -= 1
        return -1


def check_rule(content: Any, roles: Set[int], loops: Set[str]) -> Rule:
    """The rule that plain values are. Raises ValueError for what is none, and for roles and loops that are not there
    (loops by their numbers as texts)."""

    def held(loop: Any) -> bool:
        return type(loop) is int and (loop == 0 or str(loop) in loops)

    plain: Rule = content if isinstance(content, list) else []
    plain = [] if any(isinstance(one, list) and one[:1] == ["every"] for one in plain) else plain
    match plain:
        case ["stream", int()]:
            return plain
        case ["mirror", int(role)] if role in roles:
            return plain
        case ["last", [*wanted], [*same]] if all(one in roles for one in wanted):
            if all(isinstance(one, list) and [*map(type, one)] == [str, str, int] for one in same):
                return plain
        case ["begin", [*begun], 0 | 1, int()] if begun and all(map(held, begun)):
            return plain
        case ["every", int(role), loop] if role in roles and held(loop):
            return plain
        case ["since" | "sent", [*first], [*second], *more] if len(more) == (plain[0] == "sent"):
            if all(isinstance(each, list) and {*each} <= roles for each in (first, second, *more)):
                return plain
        case ["when", loop, "first" | "last" | "not", rule] if held(loop):
            return ["when", loop, plain[2], check_rule(rule, roles, loops)]
        case ["else", other, rule]:
            return ["else", check_rule(other, roles, loops), check_rule(rule, roles, loops)]
        case ["beside", other, int(role), rule] if role in roles:
            return ["beside", check_rule(other, roles, loops), role, check_rule(rule, roles, loops)]
    raise ValueError(f"no rule of waiting: {str(content)[:60]}")


def _before(places: list[int], at: int) -> int:
    index = bisect_left(places, at) - 1
    return places[index] if index >= 0 else -1


def _nth_before(lists: Sequence[list[int]], at: int, back: int) -> int:
    """Of all places in ascending lists that are below ``at``, each counted once, the last, or one further back."""
    found = {place for places in lists for place in places[max(0, bisect_left(places, at) - back - 1) :] if place < at}
    ordered = sorted(found)
    return ordered[-1 - back] if len(ordered) > back else -1


@dataclass
class Case:
    """A node whose waits are known, ``waits`` as places."""

    lane: Lane
    node: Asking
    waits: tuple[int, ...]


def find(role: int, cases: Sequence[Case], rules: Rules, work: Work) -> tuple[list[Rule], int]:
    """Rules that together find all that the nodes of a role wait for, and nothing else, as far as there are such; and
    how many waits they leave. Rules are tried until the role's share of the work is spent."""
    work.begin()
    left = [set(case.waits) for case in cases]
    order = [*range(len(cases))]
    found: list[Rule] = []
    targets = Counter(case.lane.role[one] for case in cases for one in case.waits)
    loops = sorted(cases[0].node.iteration) if cases else []
    plain = list(islice(_candidates(role, [*targets], cases, rules), PLAIN))
    first = (rule for rule in plain if rule[0] != "begin" or len(rule[1]) < 2)
    by_iteration = (["when", loop, which, rule] for rule in plain if rule[0] != "begin"
                    for loop in loops for which in ("first", "not", "last"))  # fmt: skip
    pairs = (rule for rule in plain if rule[0] == "begin" and len(rule[1]) > 1)
    every = (["every", target, loop] for target in targets for loop in _begun(cases))
    for rule in chain(first, every, by_iteration, pairs, _beside(found, [*targets], plain)):
        if not any(left) or work.is_spent:
            break
        looks = rules.looks
        answers = _right(rule, role, cases, rules, order)
        work.spend(LOOK * (rules.looks - looks))
        if answers is not None and any(some & own for some, own in zip(answers, left, strict=True)):
            found.append(rule)
            for some, own in zip(answers, left, strict=True):
                own -= some
    return found, sum(map(len, left))


def _beside(found: Sequence[Rule], targets: list[int], plain: list[Rule]) -> Iterator[Rule]:
    """Rules that depend on what others find, those that were found before first."""
    lasts = [rule for rule in plain if rule[0] == "last" and not rule[2] and len(rule[1]) > 1]
    single = [rule for rule in plain if rule[0] == "last" and len(rule[1]) == 1]
    found = [rule for rule in found if rule[0] != "every"]
    for other in found:
        for rule in plain:
            yield ["else", other, rule]
    for other in (*found, *lasts):
        for rule in single:
            for role in other[1] if other[0] == "last" else targets:
                yield ["beside", other, role, rule]


def _right(rule: Rule, role: int, cases: Sequence[Case], rules: Rules, order: list[int]) -> list[set[int]] | None:
    """What the rule finds for each case; None if that is wrong for any, which is then the first in the ``order`` in
    which they are asked: many rules are wrong for the same."""
    found: list[set[int]] = [set()] * len(cases)
    for place, at in enumerate(order):
        case = cases[at]
        found[at] = rules.answers(rule, role, case.node, case.lane)
        if not found[at].issubset(case.waits):
            order.insert(0, order.pop(place))
            return None
    return found


def _candidates(role: int, targets: list[int], cases: Sequence[Case], rules: Rules) -> Iterator[Rule]:
    yield ["stream", OWN]
    sets = list(_sets(targets))
    for chosen in sets:
        yield ["last", list(chosen), []]
    streams = sorted({stream for case in cases[:SOME] for stream in case.lane.streams})
    for stream in streams:
        yield ["stream", stream]
    for same in _same(role, targets, rules):
        for chosen in sets:
            if all(its in rules.place[one] for one in chosen for _, its, _ in same):
                yield ["last", list(chosen), same]
    for target in targets:
        if target != role:
            yield ["mirror", target]
    alike = [one for one, own in enumerate(rules.kinds) if own == rules.kinds[role]]
    for summed, sent in rules.sent:
        if not {*summed}.isdisjoint(targets):
            yield ["since", summed, sent]
        if not {*sent}.isdisjoint(targets):
            yield ["sent", alike, summed, sent]
    known = _begun(cases)
    for loops in (*((one,) for one in known), *combinations(known, 2)):
        for back in (0, 1):
            for stream in streams:
                yield ["begin", list(loops), back, stream]


def _begun(cases: Sequence[Case]) -> list[int]:
    """Loops of which iterations begin in some of the traces."""
    return sorted({loop for case in cases[:SOME] for loop in case.lane.begins})


def _sets(targets: list[int]) -> Iterator[tuple[int, ...]]:
    sizes = range(len(targets), 0, -1) if len(targets) <= SETS else (len(targets), 2, 1)
    for size in sizes:
        yield from combinations(targets, size)


def _same(role: int, targets: list[int], rules: Rules) -> Iterator[list[list[Any]]]:
    """Numbers that are the same: of equal names, up to two of them, the last one perhaps one more or less."""
    own = [name for name in rules.place[role] if any(name in rules.place[one] for one in targets)]
    own = [name for name in own if name in rules.counters]
    for count in (1, 2):
        for names in combinations(own, count):
            for more in (0, 1, -1):
                yield [[name, name, more if name == names[-1] else 0] for name in names]
