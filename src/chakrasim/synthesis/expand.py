"""A rank's trace from a program: loops by their counts, roles where they come, numbers by their laws, waits by their
rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.synthesis import expressions
from chakrasim.synthesis.columns import COMES, comes_of, mark_of, path_columns, turn_columns
from chakrasim.synthesis.expressions import Expression, Ints
from chakrasim.synthesis.grammar.durations import MEASURED, Draw
from chakrasim.synthesis.loops import ROOT, Iterations, Loop
from chakrasim.synthesis.model import Model
from chakrasim.synthesis.reasons import Asking, Lane, Rules
from chakrasim.synthesis.roles import DURATION, HOLE, attributes_of, filled
from chakrasim.synthesis.search.meters import Meter, summed
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Trace

MOST_ITERATIONS: Final = 1 << 22
"""Of one loop in a trace."""


@dataclass(frozen=True, eq=False)
class Expanded:
    """Nodes in order: role and numbers of each, its stream, and the loops around it with its iteration in each."""

    role: list[int]
    numbers: list[tuple[int, ...]]
    begun: list[list[int]]
    iteration: list[dict[int, tuple[int, int]]]


def trace_of(model: Model, job: Mapping[str, int], rank: Mapping[str, int], draw: Draw | None = None) -> Trace:
    """The trace of a rank with these columns, its durations drawn. Raises KeyError for a column that is not there."""
    nodes = expanded(model, {**job, **rank}, draw)
    rules, lane = Rules(model.roles, model.counters), Lane()
    made = TraceBuilder(metadata=_metadata(model, {**job, **rank}))
    for at, (role, numbers) in enumerate(zip(nodes.role, nodes.numbers, strict=True)):
        stream = rules.stream(role, numbers)
        lane.add(role, stream, numbers, nodes.begun[at])
        asking = Asking(at, stream, numbers, nodes.iteration[at])
        ctrl, data = (
            sorted({rules.answer(rule, role, asking, lane) for rule in model.reasons[kind][role]} - {-1})
            for kind in (0, 1)
        )
        what = model.roles[role]
        count = what.name.count(HOLE)
        made.add(
            id=at,
            name=filled(what.name, numbers[:count]),
            type=what.type,
            ctrl_deps=ctrl,
            data_deps=data,
            duration_micros=max(numbers[rules.place[role][DURATION]], 0) if what.timed else 0,
            attrs=attributes_of(what.attributes, numbers[count:]),
        )
    return made.build()


def _metadata(model: Model, columns: Mapping[str, int]) -> dict[str, object]:
    single = {name: np.array([value], np.int64) for name, value in columns.items()}
    found: dict[str, object] = {}
    for said, laws in model.metadata:
        numbers = [int(expressions.value(law, single, 1)[0]) for law in laws]
        found |= attributes_of([said], numbers)
    return found


def expanded(model: Model, columns: Mapping[str, int], draw: Draw | None = None) -> Expanded:
    """The nodes of a rank with these columns."""
    made = _Expansion(model, columns, draw)
    for number, row in made.order(model.loop, 0, ()):
        made.emit(number, row)
    return made.found


class _Expansion:
    def __init__(self, model: Model, columns: Mapping[str, int], draw: Draw | None) -> None:
        self.model = model
        self.draw = draw
        self.fixed = columns
        root = Iterations([-1], [0])
        self.iterations: dict[int, Iterations] = {ROOT: root}
        self.children: dict[int, list[list[int]]] = {}
        self.columns: dict[int, dict[str, Ints]] = {}
        self.numbers: dict[int, dict[int, tuple[int, ...]]] = {}
        self.found = Expanded([], [], [], [])
        self.begun: dict[int, int] = {}
        self.asked: set[int] = set()
        self._lay(model.loop, (ROOT,))
        self._fill(model.loop, (ROOT,))

    def _lay(self, loop: Loop, path: tuple[int, ...]) -> None:
        """The iterations of the loops in a loop, and the columns of all, those of what adds up along them too."""
        rows = len(self.iterations[loop.number])
        own = {name: np.full(rows, value, np.int64) for name, value in self.fixed.items()}
        own |= path_columns([self.iterations[one] for one in path], path)
        if loop.number in self.model.marks:
            own[mark_of(loop.number)] = expressions.value(self.model.marks[loop.number], own, rows)
        self.columns[loop.number] = own
        for meter in self.model.meters:
            if meter.loop == loop.number:
                self._measure(meter, path)
        for one in loop.body:
            if isinstance(one, Loop):
                counts = np.maximum(expressions.value(self.model.counts[one.number], own, rows), 0)
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

    def _parents(self, path: tuple[int, ...]) -> list[Ints]:
        return [np.array(self.iterations[loop].parent, np.int64) for loop in path]

    def _measure(self, meter: Meter, path: tuple[int, ...]) -> None:
        """Columns of what adds up along the last of these loops, for it and for those around it."""
        parents = self._parents(path)
        around = self.columns[path[-2]]
        first, second = meter.columns(self.columns[path[-1]], around, parents[-1], len(parents[-2]))
        self.columns[path[-1]] |= first
        for at in range(len(path) - 2, -1, -1):
            self.columns[path[at]] |= second
            if at:
                second = summed(second, parents[at], len(parents[at - 1]))

    def _fill(self, loop: Loop, path: tuple[int, ...]) -> None:
        for one in loop.body:
            if isinstance(one, Loop):
                self._fill(one, (*path, one.number))
            else:
                self.numbers[one] = self._numbers(one, path)

    def _comes(self, role: int, loop: int) -> Ints:
        """Where the role comes, 1, in iterations of its loop. Raises KeyError where that goes by itself."""
        columns, name = self.columns[loop], comes_of(role)
        if name not in columns:
            if role in self.asked:
                raise KeyError(name)
            self.asked.add(role)
            law = self.model.present[role]
            self._tell(law, loop)
            columns[name] = (expressions.value(law, columns, len(self.iterations[loop])) > 0).astype(np.int64)
        return columns[name]

    def _tell(self, law: Expression, loop: int) -> None:
        """The columns of a loop that the law asks for and that say whether others come."""
        for name in expressions.names(law):
            if name.startswith(COMES):
                self._comes(int(name.removeprefix(COMES)), loop)

    def _numbers(self, role: int, path: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
        """By iteration in which the role comes, its numbers."""
        here = np.flatnonzero(self._comes(role, path[-1]))
        for law in self.model.numbers[role].values():
            self._tell(law, path[-1])
        own = {name: column[here] for name, column in self.columns[path[-1]].items()}
        own |= turn_columns(here, path, self._parents(path)[1:])
        names = self.model.roles[role].numbers()
        for name, law in self.model.numbers[role].items():
            own[f"own {name}"] = expressions.value(law, own, len(here))
            if self.draw and name == MEASURED:
                steps = own.get("own step", np.zeros(len(here), np.int64))
                own[f"own {name}"] = self.draw.drawn(role, own[f"own {name}"], steps)
        listed = [own[f"own {name}"].tolist() for name in names]
        return {row: tuple(each[i] for each in listed) for i, row in enumerate(here.tolist())}

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
