"""A rank's trace from a program: loops by their counts, roles where they come, numbers by their laws, waits by their
rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.synthesis import expressions
from chakrasim.synthesis.columns import TURNS, mark_of, marks_in, path_columns, turn_columns
from chakrasim.synthesis.expressions import Ints
from chakrasim.synthesis.grammar.durations import MEASURED, WORK, Draw
from chakrasim.synthesis.loops import ROOT, Iterations, Loop, places
from chakrasim.synthesis.model import Model
from chakrasim.synthesis.reasons import Asking, Lane, Rules
from chakrasim.synthesis.roles import DURATION, add_node, attributes_of
from chakrasim.synthesis.search.buckets import Bucket
from chakrasim.synthesis.search.meters import Meter, summed
from chakrasim.synthesis.search.totals import FIRST, LARGEST, NEXT, Summand, added, ahead, is_first, summand
from chakrasim.trace import work
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Trace

MOST_ITERATIONS: Final = 1 << 22
"""Of one loop in a trace."""
IN_DOUBT: Final = "enough of what adds up"
"""What is counted where the jobs do not say whether what has added up is enough."""
SIZES: Final = frozenset({*WORK, work.BYTES, work.KERNELS, *work.SHAPE, DURATION, MEASURED})
"""Numbers that cannot be less than 0."""


@dataclass(frozen=True, eq=False)
class Expanded:
    """Nodes in order: role and numbers of each, its stream, and the loops around it with its iteration in each."""

    role: list[int]
    numbers: list[tuple[int, ...]]
    begun: list[list[int]]
    iteration: list[dict[int, tuple[int, int]]]


def trace_of(
    model: Model,
    job: Mapping[str, int],
    rank: Mapping[str, int],
    draw: Draw | None = None,
    below: Counter[str] | None = None,
) -> Trace:
    """The trace of a rank with these columns, its durations drawn; what laws put below 0 where nothing can be is
    counted in ``below``, by what it is of. Raises KeyError for a column that is not there, and OverflowError for
    numbers beyond int64."""
    nodes = expanded(model, {**job, **rank}, draw, below)
    rules, lane = Rules(model.roles, model.counters), Lane()
    made = TraceBuilder(metadata=_metadata(model, {**job, **rank}))
    for at, (role, numbers) in enumerate(zip(nodes.role, nodes.numbers, strict=True)):
        stream = rules.stream(role, numbers)
        lane.add(role, stream, numbers, nodes.begun[at])
        asking = Asking(at, stream, numbers, nodes.iteration[at])
        ctrl, data = (
            sorted(set().union(*(rules.answers(rule, role, asking, lane) for rule in model.reasons[kind][role])))
            for kind in (0, 1)
        )
        add_node(made, at, model.roles[role], numbers, (ctrl, data))
    return made.build()


def _metadata(model: Model, columns: Mapping[str, int]) -> dict[str, object]:
    single = {name: np.array([value], np.int64) for name, value in columns.items()}
    found: dict[str, object] = {}
    for said, laws in model.metadata:
        numbers = [int(expressions.value(law, single, 1, fits=True)[0]) for law in laws]
        found |= attributes_of([said], numbers)
    return found


def expanded(
    model: Model, columns: Mapping[str, int], draw: Draw | None = None, below: Counter[str] | None = None
) -> Expanded:
    """The nodes of a rank with these columns."""
    made = _Expansion(model, columns, draw, Counter() if below is None else below)
    for number, row in made.order(model.loop, 0, ()):
        made.emit(number, row)
    return made.found


class _Expansion:
    def __init__(self, model: Model, columns: Mapping[str, int], draw: Draw | None, below: Counter[str]) -> None:
        self.model = model
        self.draw = draw
        self.below = below
        self.fixed = columns
        root = Iterations([-1], [0])
        self.iterations: dict[int, Iterations] = {ROOT: root}
        self.children: dict[int, list[list[int]]] = {}
        self.columns: dict[int, dict[str, Ints]] = {}
        self.where = places(model.loop)
        self.here: dict[int, Ints] = {}
        self.asking: set[int] = set()
        self.made: dict[tuple[int, str], Ints | None] = {}
        self.found = Expanded([], [], [], [])
        self.begun: dict[int, int] = {}
        self._lay(model.loop, (ROOT,))
        paths = {of.loops[-1]: of.loops for of in self.where.values()}
        for meter in model.meters:
            self._measure(meter, paths[meter.loop])
        self.numbers = {role: self._numbers(role) for role in self.where}

    def _lay(self, loop: Loop, path: tuple[int, ...]) -> None:
        """The iterations of the loops in a loop, and the columns of all."""
        rows = len(self.iterations[loop.number])
        own = {name: np.full(rows, value, np.int64) for name, value in self.fixed.items()}
        own |= path_columns([self.iterations[one] for one in path], path)
        if len(path) > 1:
            own |= marks_in(self.columns[path[-2]], self._parent(path[-1]))
        for number, law in enumerate(self.model.marks.get(loop.number, ())):
            own[mark_of(loop.number, number)] = expressions.value(law, own, rows, fits=True)
        self.columns[loop.number] = own
        for one in loop.body:
            if isinstance(one, Loop):
                counts = expressions.value(self.model.counts[one.number], own, rows, fits=True)
                counts = self._not_below(f"how often loop {one.number} comes", counts)
                total = float(counts.astype(np.float64).sum())
                if total > MOST_ITERATIONS:
                    raise InputError("these parameters make a trace that is too long to be written",
                                     found=f"{total:,.0f} iterations of a loop",
                                     expected=f"at most {MOST_ITERATIONS:,}")  # fmt: skip
                parent = np.repeat(np.arange(rows), counts)
                ends = np.cumsum(counts)
                index = np.arange(len(parent)) - np.repeat(ends - counts, counts)
                self.iterations[one.number] = Iterations(parent.tolist(), index.tolist())
                self.children[one.number] = [
                    list(range(e - c, e)) for e, c in zip(ends.tolist(), counts.tolist(), strict=True)
                ]
                self._lay(one, (*path, one.number))

    def _measure(self, meter: Meter | Bucket, path: tuple[int, ...]) -> None:
        """Columns of what adds up along the last of these loops, for it and for those around it."""
        parents = [self._parent(loop) for loop in path]
        asked = set().union(*map(expressions.names, meter.laws()))
        own, around = (self._asked(loop, asked) for loop in (path[-1], path[-2]))
        first, second = meter.columns(own, around, parents[-1], len(parents[-2]), fits=True)
        if doubts := meter.in_doubt(own, first, second, parents[-1]):
            self.below[IN_DOUBT] += doubts
        self.columns[path[-1]] |= first
        for at in range(len(path) - 2, -1, -1):
            self.columns[path[at]] |= second
            if at:
                second = summed(second, parents[at], len(parents[at - 1]))

    def _not_below(self, what: str, made: Ints) -> Ints:
        """0 in place of numbers that are less, which are counted."""
        if less := int((made < 0).sum()):
            self.below[what] += less
        return np.maximum(made, 0)

    def _parent(self, loop: int) -> Ints:
        return np.array(self.iterations[loop].parent, np.int64)

    def _asked(self, loop: int, names: Set[str]) -> dict[str, Ints]:
        """The columns of a loop's iterations that are asked for, as far as there are such."""
        own = self.columns[loop]
        found = {name: own[name] for name in names if name in own}
        sums = {name: of for name in names if (of := summand(name)) and loop in self.where[of.role].loops}
        return found | {name: self._sum(loop, of) for name, of in sums.items()}

    def _sum(self, loop: int, of: Summand) -> Ints:
        """What a number of the nodes of a role adds up to in each iteration of a loop that they are in."""
        around, rows = self.where[of.role].loops, self._present(of.role)
        values = of.values(self._number, len(rows))
        for one in reversed(around[around.index(loop) + 1 :]):
            if of.which == FIRST:
                values = np.where(is_first(self._parent(one))[rows], values, 0)
            rows = self._parent(one)[rows]
        count = len(self.iterations[loop])
        if np.bincount(rows, np.abs(values.astype(np.float64)), count).max(initial=0) >= LARGEST:
            raise OverflowError(f"what {of.name} of {self.model.roles[of.role].title} adds up to is beyond int64")
        made = added(values, rows, count)
        return ahead(made, self._parent(loop)) if of.which == NEXT else made

    def _present(self, role: int) -> Ints:
        """The iterations in which a role comes. Raises ValueError for one that comes where it comes itself."""
        if role not in self.here:
            if role in self.asking:
                raise ValueError(f"where {self.model.roles[role].title} comes follows from itself")
            self.asking.add(role)
            law, loop = self.model.present[role], self.where[role].loops[-1]
            own = self._asked(loop, expressions.names(law))
            self.here[role] = np.flatnonzero(expressions.value(law, own, len(self.iterations[loop])) > 0)
        return self.here[role]

    def _number(self, role: int, name: str) -> Ints:
        """A number of a role, in each iteration that has it. Raises ValueError for one that follows from itself."""
        if (role, name) not in self.made:
            self.made[role, name] = None
            law, here = self.model.numbers[role][name], self._present(role)
            asked = expressions.names(law)
            own = {one: column[here] for one, column in self._asked(self.where[role].loops[-1], asked).items()}
            if any(one.startswith(TURNS) for one in asked):
                path = self.where[role].loops
                own |= turn_columns(here, path, [self._parent(loop) for loop in path[1:]])
            inner = [one.removeprefix("own ") for one in asked if one.startswith("own ")]
            own |= {f"own {one}": self._number(role, one) for one in inner}
            made = expressions.value(law, own, len(here), fits=True)
            if name in SIZES:
                made = self._not_below(f"{name} of {self.model.roles[role].title}", made)
            if self.draw and name == MEASURED:
                step = "step" in self.model.numbers[role]
                steps = self._number(role, "step") if step else np.zeros(len(here), np.int64)
                made = self.draw.drawn(role, made, steps)
            self.made[role, name] = made
        found = self.made[role, name]
        if found is None:
            raise ValueError(f"{name} of {self.model.roles[role].title} follows from itself")
        return found

    def _numbers(self, role: int) -> dict[int, tuple[int, ...]]:
        """By iteration in which the role comes, its numbers."""
        listed = [self._number(role, name).tolist() for name in self.model.roles[role].numbers()]
        return {row: tuple(each[i] for each in listed) for i, row in enumerate(self._present(role).tolist())}

    def order(
        self, loop: Loop, row: int, path: tuple[tuple[int, int], ...]
    ) -> Iterator[tuple[int, tuple[tuple[int, int], ...]]]:
        """Roles in order, with the iterations that they are in, outermost first."""
        path = (*path, (loop.number, row))
        for one in loop.body:
            if isinstance(one, Loop):
                for child in self.children[one.number][row]:
                    yield from self.order(one, child, path)
            elif row in self.numbers[one]:
                yield one, path

    def emit(self, role: int, path: tuple[tuple[int, int], ...]) -> None:
        """The node of a role in these iterations."""
        self.found.role.append(role)
        self.found.numbers.append(self.numbers[role][path[-1][1]])
        fresh = [loop for loop, row in path if self.begun.get(loop) != row]
        self.begun.update(path)
        self.found.begun.append(fresh)
        self.found.iteration.append({
            loop: (int(self.columns[loop][f"index of {loop}"][row]), int(self.columns[loop][f"behind in {loop}"][row]))
            for loop, row in path if loop
        })  # fmt: skip
