"""Values that add up over the iterations of a loop until they pass a limit, and begin anew then: what is sent in one
piece as soon as enough has come together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.synthesis import expressions
from chakrasim.synthesis.expressions import Columns, Expression, Ints
from chakrasim.synthesis.search.totals import added

NEVER: Final = np.iinfo(np.int64).max
NOTHING: Final[Expression] = ["const", 0, 1]
Gap = tuple[Expression, Expression]


@dataclass(frozen=True)
class Part:
    """Laws of a part of what a meter adds up, which is sent by itself: of the iterations of the loop around what is
    there before the run, and of the loop's iterations what each adds."""

    start: Expression
    weight: Expression


@dataclass(frozen=True)
class Meter:
    """Laws of what adds up along a loop, and when it is let go.

    Attributes
    ----------
    number: its own.
    loop: along whose iterations it adds up, run by run.
    start: of the iterations of the loop around: what is there before the run; let go at once if that is enough.
    weights: of the loop's iterations: what each adds, at one place of it after another.
    limit: of the loop's iterations: how much is enough.
    flush: of the loop's iterations: more than 0 if what is there after the last one of a run is let go, enough or not.
    active: of the iterations of the loop around: more than 0 where any of this happens.
    parts: of what adds up at the one place, if it is sent in more than one piece.
    gap: a limit over the first of these and up to the second gives all jobs learned from; equal if nothing is open.
    """

    number: int
    loop: int
    start: Expression
    weights: tuple[Expression, ...]
    limit: Expression
    flush: Expression
    active: Expression
    parts: tuple[Part, ...] = ()
    gap: Gap = (NOTHING, NOTHING)

    def laws(self) -> list[Expression]:
        """All of them."""
        own = [self.start, *self.weights, self.limit, self.flush, self.active]
        return own + [law for part in self.parts for law in (part.start, part.weight)]

    def sums(self) -> list[Expression]:
        """The laws of what each iteration adds that are sums of sums, as one sum each."""
        terms = [_terms(weight) for weight in self.weights]
        return [["sum", own] for own in terms if own]

    def in_doubt(self, own: Columns, first: Columns, second: Columns, parent: Ints) -> int:
        """How often what has added up lies where the jobs do not say whether it is enough, by what `columns` returns
        for these."""
        many, rows = len(self.weights), len(parent)
        low, high = (np.repeat(expressions.value(law, own, rows), many) for law in self.gap)
        sums, active = self.along(first, "sum"), second[f"active of meter {self.number}"][parent]
        last = np.append(parent[1:] != parent[:-1], True)[:rows]
        flush = np.flatnonzero(last & (expressions.value(self.flush, own, rows) > 0))
        low[many * (flush + 1) - 1] = NEVER
        return int(((low < sums) & (sums < high) & (np.repeat(active, many) > 0)).sum())

    def name(self, what: str, place: int) -> str:
        """Of a column of the loop's iterations."""
        return f"{what} {place} of meter {self.number}" if len(self.weights) > 1 else f"{what} of meter {self.number}"

    def along(self, columns: Columns, what: str) -> Ints:
        """int64[n]: columns of the loop's iterations, of one place after another."""
        return np.stack([columns[self.name(what, place)] for place in range(len(self.weights))], axis=1).ravel()

    def columns(
        self, own: Columns, around: Columns, parent: Ints, runs: int, *, fits: bool = False
    ) -> tuple[dict[str, Ints], dict[str, Ints]]:
        """Columns of the loop's iterations and of the ``runs`` iterations of the loop around it, from theirs, by name.
        ``parent`` int64[n]: in which of these each iteration is, ascending. Raises OverflowError for numbers beyond
        int64 if laws have to be of ones that it ``fits``, and for sums beyond it."""
        rows, many, value = len(parent), len(self.weights), partial(expressions.value, fits=fits)
        start, active = (value(law, around, runs) for law in (self.start, self.active))
        limit, flush = (np.repeat(value(law, own, rows), many) for law in (self.limit, self.flush))
        weight = np.stack([value(law, own, rows) for law in self.weights], axis=1).ravel()
        found = _run(start, weight, limit, flush, active, np.repeat(parent, many))
        names = ("sum", "since", "begun", "fires", "before")
        first = {self.name(name, place): column[place::many] for name, column in zip(names, found[:5], strict=True)
                 for place in range(many)}  # fmt: skip
        more = ("left", "left since", "left begun", "early", "active", "let go")
        second = {f"{name} of meter {self.number}": column for name, column in zip(more, found[5:], strict=True)}
        for number, part in enumerate(self.parts):
            own_start, own_weight = value(part.start, around, runs), value(part.weight, own, rows)
            sums, left = _with(found[3], found[8], found[9], own_start, own_weight, parent)
            first[f"part {number} of meter {self.number}"] = sums
            second[f"left part {number} of meter {self.number}"] = left
        return first, second


def _terms(law: Expression) -> list[Any]:
    """Of sums that are added; none of other laws."""
    if law[0] == "+":
        one, other = map(_terms, law[1:])
        return [*one, *other] if one and other else []
    return [*law[1]] if law[0] == "sum" else []


def _with(fires: Ints, early: Ints, active: Ints, start: Ints, weight: Ints, parent: Ints) -> tuple[Ints, Ints]:
    """int64[n], int64[runs]: what has added up of a part with each iteration where all ``fires``, and what is left."""
    sums, left = np.zeros(len(parent), np.int64), np.zeros(len(start), np.int64)
    ends = np.searchsorted(parent, np.arange(len(start)), side="right").tolist()
    at = 0
    for run, end in enumerate(ends):
        held = 0 if early[run] else int(start[run])
        while at < end:
            held += int(weight[at])
            sums[at] = held
            held = 0 if fires[at] else held
            at += 1
        left[run] = held if active[run] else 0
    return sums, left


def summed(columns: Columns, parent: Ints, rows: int) -> dict[str, Ints]:
    """Columns of the iterations of a loop for the ``rows`` iterations of the loop around it: their sums."""
    return {name: added(column, parent, rows) for name, column in columns.items()}


def _run(start: Ints, weight: Ints, limit: Ints, flush: Ints, active: Ints, parent: Ints) -> tuple[Ints, ...]:
    """int64[n] each: what has added up with each iteration, of how many, whether the start is in it, whether it is let
    go, and how often that was before in the run; and int64[runs]: what is left, of how many, whether the start is in
    it, whether the start was let go before, whether anything happens, and how often it was let go."""
    rows, runs = len(parent), len(start)
    sums, since, begun, fires, before = (np.zeros(rows, np.int64) for _ in range(5))
    left, behind, whether, early, often = (np.zeros(runs, np.int64) for _ in range(5))
    ends = np.searchsorted(parent, np.arange(runs), side="right")
    at = 0
    for run, (end, held, on) in enumerate(zip(ends.tolist(), start.tolist(), active.tolist(), strict=True)):
        count = 0
        if on > 0 and at < end and held >= limit[at]:
            early[run], often[run], held = 1, 1, 0
        from_start = int(held > 0)
        while at < end:
            held, count = held + int(weight[at]), count + 1
            sums[at], since[at], begun[at], before[at] = held, count, from_start, often[run]
            if on > 0 and (held >= limit[at] or (at == end - 1 and flush[at] > 0)):
                fires[at] = 1
                often[run] += 1
                held = count = from_start = 0
            at += 1
        if on > 0:
            left[run], behind[run], whether[run] = held, count, from_start
    return sums, since, begun, fires, before, left, behind, whether, early, (active > 0).astype(np.int64), often


@dataclass(frozen=True, eq=False)
class Pieces:
    """What came together in the examples. ``value`` int64[n]: by iteration of the loop what is let go there, 0 for
    nothing, in each at so many ``places`` one after another. ``parent`` int64[n]: the iteration of the loop around, by
    its place in the table of that."""

    value: Ints
    parent: Ints
    places: int = 1

    def without(self, out: NDArray[np.bool_]) -> Pieces:
        """The same, nothing being let go in these iterations."""
        return replace(self, value=np.where(np.repeat(out, self.places), 0, self.value))

    def windows(self) -> tuple[Ints, Ints, Ints]:
        """int64[n] each: the iteration with which what each is part of is let go, -1 for none in its run; of how many
        iterations; whether it is the first of its run."""
        rows = len(self.value)
        until, count, first = np.full(rows, -1), np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        begin, opened = 0, True
        for at in range(rows):
            if at and self.parent[at] != self.parent[at - 1]:
                begin, opened = at, True
            if self.value[at]:
                until[begin : at + 1], count[begin : at + 1], first[begin : at + 1] = at, at + 1 - begin, opened
                begin, opened = at + 1, False
        return until, count, first

    def last(self) -> NDArray[np.bool_]:
        """bool[n]: which iterations are the last of their runs."""
        return np.append(self.parent[1:] != self.parent[:-1], True)
