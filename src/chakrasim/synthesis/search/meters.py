"""Values that add up over the iterations of a loop until they pass a limit, and begin anew then: what is sent in one
piece as soon as enough has come together. They are found from the kinds of nodes whose coming no law of
places gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.synthesis import expressions
from chakrasim.synthesis.expressions import Columns, Expression, Ints
from chakrasim.synthesis.search.levels import Known, Table, find

FEWEST: Final = 8
"""Pieces without which nothing is told of them."""


@dataclass(frozen=True)
class Meter:
    """Laws of what adds up along a loop, and when it is let go.

    Attributes
    ----------
    number: its own.
    loop: along whose iterations it adds up, run by run.
    start: of the iterations of the loop around: what is there before the run; let go at once if that is enough.
    weight: of the loop's iterations: what each adds.
    limit: of the loop's iterations: how much is enough.
    flush: of the loop's iterations: more than 0 if what is there after the last one of a run is let go, enough or not.
    active: of the iterations of the loop around: more than 0 where any of this happens.
    """

    number: int
    loop: int
    start: Expression
    weight: Expression
    limit: Expression
    flush: Expression
    active: Expression

    def names(self) -> set[str]:
        """The columns that its laws ask for."""
        laws = (self.start, self.weight, self.limit, self.flush, self.active)
        return set().union(*map(expressions.names, laws))

    def columns(
        self, own: Columns, around: Columns, parent: Ints, runs: int
    ) -> tuple[dict[str, Ints], dict[str, Ints]]:
        """Columns of the loop's iterations and of the ``runs`` iterations of the loop around it, from theirs, by name.
        ``parent`` int64[n]: in which of these each iteration is, ascending."""
        rows = len(parent)
        start, active = (expressions.value(law, around, runs) for law in (self.start, self.active))
        weight, limit, flush = (expressions.value(law, own, rows) for law in (self.weight, self.limit, self.flush))
        found = _run(start, weight, limit, flush, active, parent)
        names = ("sum", "since", "begun", "fires")
        first = {f"{name} of meter {self.number}": column for name, column in zip(names, found[:4], strict=True)}
        more = ("left", "left since", "left begun", "early", "active")
        second = {f"{name} of meter {self.number}": column for name, column in zip(more, found[4:], strict=True)}
        return first, second


def summed(columns: Columns, parent: Ints, rows: int) -> dict[str, Ints]:
    """Columns of the iterations of a loop for the ``rows`` iterations of the loop around it: their sums."""
    return {name: _sum(column, parent, rows) for name, column in columns.items()}


def _sum(column: Ints, parent: Ints, rows: int) -> Ints:
    found = np.zeros(rows, np.int64)
    np.add.at(found, parent, column)
    return found


def _run(start: Ints, weight: Ints, limit: Ints, flush: Ints, active: Ints, parent: Ints) -> tuple[Ints, ...]:
    """int64[n] each: what has added up with each iteration, of how many, whether the start is in it, whether it is let
    go; and int64[runs]: what is left, of how many, whether the start is in it, whether the start was let go before, and
    whether anything happens."""
    rows, runs = len(parent), len(start)
    sums, since, begun, fires = (np.zeros(rows, np.int64) for _ in range(4))
    left, behind, whether, early = (np.zeros(runs, np.int64) for _ in range(4))
    ends = np.searchsorted(parent, np.arange(runs), side="right")
    at = 0
    for run, (end, held, on) in enumerate(zip(ends.tolist(), start.tolist(), active.tolist(), strict=True)):
        count = 0
        if on > 0 and at < end and held >= limit[at]:
            early[run], held = 1, 0
        from_start = int(held > 0)
        while at < end:
            held, count = held + int(weight[at]), count + 1
            sums[at], since[at], begun[at] = held, count, from_start
            if on > 0 and (held >= limit[at] or (at == end - 1 and flush[at] > 0)):
                fires[at] = 1
                held = count = from_start = 0
            at += 1
        if on > 0:
            left[run], behind[run], whether[run] = held, count, from_start
    return sums, since, begun, fires, left, behind, whether, early, (active > 0).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Pieces:
    """What came together in the examples. ``value`` int64[n]: by iteration of the loop what is let go there, 0 for
    nothing. ``parent`` int64[n]: the iteration of the loop around, by its place in the table of that."""

    value: Ints
    parent: Ints

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


def meter_of(number: int, loop: int, pieces: Pieces, own: Table, around: Table, known: Known) -> Meter | None:
    """The meter that lets go these pieces, or None."""
    if (pieces.value > 0).sum() < FEWEST:
        return None
    until, count, first = pieces.windows()
    weight = _weight(pieces, until, count, first, own, known)
    if weight is None:
        return None
    each = expressions.value(weight, own.columns(2), len(until))
    rows = np.flatnonzero(first == 1)
    live, place = np.unique(pieces.parent[rows], return_index=True)
    runs = len(around.job)
    more = np.zeros(runs, np.int64)
    np.add.at(more, pieces.parent[rows], -each[rows])
    more[live] += pieces.value[until[rows[place]]]
    limit = _limit(pieces, each, more, own)
    if limit is None or (more[live] < 0).any():
        return None
    start = _start(more, live, int(expressions.value(limit, own.columns(2), len(until)).min()), around, known)
    if start is None:
        return None
    made = Meter(number, loop, start, weight, limit, ["const", 0, 1], ["const", 1, 1])
    return _checked(made, pieces, own, around, known)


def _weight(pieces: Pieces, until: Ints, count: Ints, first: Ints, own: Table, known: Known) -> Expression | None:
    """What each iteration adds: from pieces that are the same of each, or from pieces of one. The first piece of a run
    may have more; it has not if others of the job have as much of each."""
    parts = until >= 0
    shares = np.where(parts, pieces.value[until] // np.maximum(count, 1), 0)
    whole = parts & (shares * count == pieces.value[until])
    least = np.full(int(own.job.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, own.job[whole], shares[whole])
    alike = whole & (shares == least[own.job])
    behind, ranks = np.zeros(len(least), np.bool_), np.zeros(len(least), np.int64)
    np.logical_or.at(behind, own.job[alike], first[alike] == 0)
    np.add.at(ranks, own.job[alike], np.diff(own.rank[alike], prepend=-1) > 0)
    for rows in (alike & (behind | (ranks > 1))[own.job], parts & (count == 1) & (first == 0)):
        at = np.flatnonzero(rows)
        if len(at) >= FEWEST:
            law = find(shares[at], own.some(at), known)
            if law is not None:
                return law
    return None


def _start(more: Ints, live: Ints, limit: int, around: Table, known: Known) -> Expression | None:
    """What is there before a run, from what the first pieces of ``live`` runs have more than their iterations add.
    Where it is enough for a piece it was let go before: that tells nothing."""
    some = live[more[live] > 0]
    if not len(some):
        return ["const", 0, 1]
    law = find(more[some], around.some(some), known)
    if law is None:
        return None
    would = expressions.value(law, around.columns(2), len(around.job))
    sure = live[(more[live] > 0) | (would[live] < limit)]
    there = find((more[sure] > 0).astype(np.int64), around.some(sure), known)
    return None if there is None else ["*", there, law]


def _limit(pieces: Pieces, each: Ints, more: Ints, own: Table) -> Expression | None:
    """How much is enough: a column that lies between what was and what was not in every job, else a round number."""
    jobs = int(own.job.max(initial=0)) + 1
    most, least = np.zeros(jobs, np.int64), np.full(jobs, np.iinfo(np.int64).max)
    live = np.isin(pieces.parent, pieces.parent[pieces.value > 0])
    last = np.append(pieces.parent[1:] != pieces.parent[:-1], True)
    held, run = 0, -1
    for at in np.flatnonzero(live).tolist():
        if pieces.parent[at] != run:
            run = int(pieces.parent[at])
            held = int(more[run])
        held, job = held + int(each[at]), own.job[at]
        if not pieces.value[at]:
            most[job] = max(most[job], held)
        else:
            if not last[at]:
                least[job] = min(least[job], held)
            held = 0
    if (most >= least).any():
        return None
    rows = np.unique(own.job, return_index=True)[1]
    for name, column in own.levels[0].items():
        if ((column[rows] > most[own.job[rows]]) & (column[rows] <= least[own.job[rows]])).all():
            return ["column", name]
    low, high = int(most.max()), int(least.min())
    if low >= high or high == np.iinfo(np.int64).max:
        return None
    step = next(1 << bits for bits in range(62, -1, -1) if high >> bits << bits > low)
    return ["const", high // step * step, 1]


def _checked(meter: Meter, pieces: Pieces, own: Table, around: Table, known: Known) -> Meter | None:
    """The meter with what is let go at the end of runs, and where anything happens, if it then gives all pieces."""
    runs = len(around.job)
    live = np.unique(pieces.parent[pieces.value > 0])
    first, _ = meter.columns(own.columns(2), around.columns(2), pieces.parent, runs)
    fires, last = first[f"fires of meter {meter.number}"], np.append(pieces.parent[1:] != pieces.parent[:-1], True)
    ends = np.flatnonzero(last & np.isin(pieces.parent, live) & (fires == 0))
    flush = find((pieces.value[ends] > 0).astype(np.int64), own.some(ends), known) if len(ends) else ["const", 0, 1]
    if flush is None:
        return None
    meter = Meter(meter.number, meter.loop, meter.start, meter.weight, meter.limit, flush, meter.active)
    first, _ = meter.columns(own.columns(2), around.columns(2), pieces.parent, runs)
    fires = first[f"fires of meter {meter.number}"]
    would = np.unique(pieces.parent[fires > 0])
    active = find(np.isin(would, live).astype(np.int64), around.some(would), known)
    if active is None:
        return None
    meter = Meter(meter.number, meter.loop, meter.start, meter.weight, meter.limit, flush, active)
    first, _ = meter.columns(own.columns(2), around.columns(2), pieces.parent, runs)
    made = first[f"sum of meter {meter.number}"] * first[f"fires of meter {meter.number}"]
    return meter if (made == pieces.value).all() else None
