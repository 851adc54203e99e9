"""The search for meters, from the pieces that are let go: kinds of nodes whose coming no law of places gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.synthesis import expressions
from chakrasim.synthesis.expressions import Expression, Ints
from chakrasim.synthesis.search.levels import Known, Table, find, of_totals
from chakrasim.synthesis.search.meters import NEVER, NOTHING, Gap, Meter, Part, Pieces
from chakrasim.synthesis.search.totals import added

FEWEST: Final = 8
"""Pieces without which nothing is told of them."""
_ONE: Final[Expression] = ["const", 1, 1]


@dataclass(frozen=True, eq=False)
class _Seen:
    """The examples: the pieces of ``kinds``, those of the rarest first, and what stands beside them. ``beside``: runs
    in which something is let go outside of the loop; ``early``: by run what is let go before it. ``each``: the loop's
    iterations; ``own``: the same at every one of the places of them at which something is let go, one row after
    another."""

    kinds: Sequence[Pieces]
    pieces: Pieces
    beside: Ints
    early: Ints
    each: Table
    own: Table
    around: Table
    known: Known

    def of(self, *laws: Expression) -> Ints:
        """By iteration of the loop, and place if there are several, what laws say, one for each."""
        table, rows = self.each.asked(*laws), len(self.each.job)
        return np.stack([expressions.value(law, table, rows) for law in laws], axis=1).ravel()

    def begin(self, law: Expression) -> Ints:
        """The same by iteration of the loop around."""
        return expressions.value(law, self.around.asked(law), len(self.around.job))

    def in_jobs(self, held: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """bool[n]: which iterations are of jobs of which any is ``held``."""
        return np.isin(self.own.job, self.own.job[held])

    def before(self, value: Ints, each: Ints) -> tuple[Ints, Ints]:
        """int64[runs]: what the first piece of each run has more of a value than its iterations add; and which runs
        have pieces."""
        until, _, first = self.pieces.windows()
        rows = np.flatnonzero(first == 1)
        parent = self.pieces.parent
        live, place = np.unique(parent[rows], return_index=True)
        more = added(-each[rows], parent[rows], len(self.around.job))
        more[live] += value[until[rows[place]]]
        return more, live


@dataclass(frozen=True)
class _Second:
    """A kind of pieces beside the main one, and in which jobs its part is ``apart`` from that."""

    part: Part
    apart: Expression


def meter_of(
    number: int,
    loop: int,
    kinds: Sequence[Pieces],
    own: Table,
    around: Table,
    known: Known,
    beside: Sequence[int] = (),
    early: Ints | None = None,
) -> Meter | None:
    """The meter that lets go these pieces, in each iteration one of each of one or two ``kinds``, or of one kind at
    each of several places, and in some runs more ``beside`` the loop, of it ``early``, int64[runs], before it; or None.
    ``own`` is of iterations, pieces are of places, one iteration after another."""
    places = max(each.places for each in kinds)
    if len(kinds) > 2 or len(kinds) > 1 < places:
        return None
    pieces = replace(kinds[0], value=np.sum([each.value for each in kinds], axis=0))
    if (pieces.value > 0).sum() < FEWEST:
        return None
    every = own if places == 1 else own.some(np.repeat(np.arange(len(own.job)), places))
    ordered = sorted(kinds, key=lambda each: len(np.unique(every.job[each.value > 0])))
    early = np.zeros(len(around.job), np.int64) if early is None else early
    seen = _Seen(ordered, pieces, np.array(beside, np.int64), early, own, every, around, known)
    if places > 1:
        weights = _weights_of_places(seen)
        return _with_limit(number, loop, seen, weights, None) if weights else None
    part = _second_part(seen) if len(kinds) == 2 else None
    weight = _main_weight(seen, part) if part or len(kinds) == 1 else None
    if weight is None:
        return None
    if part is None:
        return _with_limit(number, loop, seen, [weight], None)
    apart = _apart(seen, part, weight)
    return None if apart is None else _with_limit(number, loop, seen, [weight], _Second(part, apart))


def _second_part(seen: _Seen) -> Part | None:
    """What is sent of the rarer kind in jobs in which it comes."""
    value = seen.kinds[0].value
    come = seen.in_jobs(value > 0)
    weight = _weight(seen, value, come)
    if weight is None:
        return None
    more, live = seen.before(value, seen.of(weight))
    live = live[np.isin(live, seen.pieces.parent[come])]
    start = find(more[live], seen.around.some(live), seen.known)
    return None if start is None else Part(start, weight)


def _main_weight(seen: _Seen, part: Part | None) -> Expression | None:
    """What each iteration adds to pieces of the main kind beside the other ``part``, by jobs in which that comes, or is
    nothing."""
    among = np.ones(len(seen.pieces.value), np.bool_)
    if part:
        among = seen.in_jobs(seen.kinds[0].value > 0) | ~seen.in_jobs(seen.of(part.weight) > 0)
    return _weight(seen, seen.kinds[-1].value, among)


def _apart(seen: _Seen, part: Part, weight: Expression) -> Expression | None:
    """A law of jobs: 1 where pieces of the main kind are without the other part, 0 where that is in them."""
    until, _, first = seen.pieces.windows()
    inside = (until >= 0) & (first == 0)
    count = len(until)
    main, other = (added(seen.of(law)[inside], until[inside], count) for law in (weight, part.weight))
    told = np.flatnonzero(np.isin(np.arange(count), until[inside]) & (other > 0))
    left = (seen.kinds[-1].value - main)[told]
    if ((left != 0) & (left != other[told])).any():
        return None
    law = find((left == 0).astype(np.int64), seen.own.some(told), seen.known)
    return law if law is not None and expressions.names(law) <= {*seen.own.columns(1)} else None


def _with_limit(
    number: int, loop: int, seen: _Seen, weights: Sequence[Expression], second: _Second | None
) -> Meter | None:
    """The meter of which this is what iterations add, one law for each place. What never comes of more than one of
    them does not add up."""
    adds = main = [*weights]
    if second:
        (weight,) = weights
        adds = [["+", weight, second.part.weight]]
        main = [["-", *adds, ["*", second.apart, second.part.weight]]]
    each, until = seen.of(*adds), seen.pieces.windows()[0]
    if np.bincount(until[(until >= 0) & (each > 0)], minlength=1).max() < 2:
        return None
    more, live = seen.before(seen.kinds[-1].value, seen.of(*main))
    if second:
        more = more + seen.begin(["*", second.apart, second.part.start])
    told = _limit(seen.pieces, each, more, seen.own)
    if told is None:
        return None
    limit, gap = told
    start = _start(seen, more, live, limit)
    if start is None:
        return None
    made = Meter(number, loop, start, tuple(adds), limit, NOTHING, _ONE, gap=gap)
    if second:
        rest = Part(["-", start, ["*", second.apart, second.part.start]], *main)
        made = replace(made, parts=(second.part, rest))
    return _checked(made, seen)


def _weight(seen: _Seen, value: Ints, among: NDArray[np.bool_]) -> Expression | None:
    """What each iteration adds to a value of pieces, by those ``among`` these iterations: what nodes in it add up to,
    else by pieces that are the same of each, or pieces of one. The first piece of a run may have more."""
    until, count, first = seen.pieces.windows()
    for which in (first >= 0, first == 0):
        inside = np.flatnonzero((until >= 0) & which & among)
        ends = np.unique(until[inside])
        seen.known.work.begin()
        found = of_totals(value[ends], seen.own.some(inside), seen.known, until[inside])
        if found is not None:
            return found
    return _even_weight(value, np.where(among, until, -1), count, first, seen.own, seen.known)


def _weights_of_places(seen: _Seen) -> list[Expression] | None:
    """What is added at each place, place by place, from pieces that have it once and beside it only what is known."""
    until, _, first = seen.pieces.windows()
    inside = np.flatnonzero((until >= 0) & (first == 0))
    ends, of = np.unique(until[inside], return_inverse=True)
    place, rest = inside % seen.pieces.places, seen.pieces.value[ends]
    often, at = np.zeros((2, len(ends), seen.pieces.places), np.int64)
    np.add.at(often, (of, place), 1)
    at[of, place] = inside
    found: dict[int, Expression] = {}
    while left := [one for one in range(seen.pieces.places) if one not in found]:
        for one in left:
            told = np.flatnonzero((often[:, one] == 1) & (often[:, left].sum(axis=1) == 1))
            rows = at[told, one]
            law = find(rest[told], seen.own.some(rows), seen.known) if len(told) >= FEWEST else None
            if law is not None:
                found[one] = law
                here = place == one
                rest = rest - added(seen.of(law)[inside[here] // seen.pieces.places], of[here], len(ends))
                break
        else:
            return None
    return [found[one] for one in range(seen.pieces.places)]


def _even_weight(value: Ints, until: Ints, count: Ints, first: Ints, own: Table, known: Known) -> Expression | None:
    """The same, where iterations of a job are alike. The first piece of a run has not more if others of the job have as
    much of each."""
    parts = until >= 0
    shares = np.where(parts, value[until] // np.maximum(count, 1), 0)
    whole = parts & (shares * count == value[until])
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


def _start(seen: _Seen, more: Ints, live: Ints, limit: Expression) -> Expression | None:
    """What is there before a run, from what the first pieces of ``live`` runs have more than their iterations add (or
    less, where nodes behind the place add, too), and what is let go before a run. Where it would be enough for a piece,
    and none is known of any run, that tells nothing."""
    before = np.where(seen.early > 0, seen.early, more)
    live = np.union1d(live, np.flatnonzero(seen.early))
    some = live[before[live] != 0]
    if not len(some):
        return NOTHING
    law = find(before[some], seen.around.some(some), seen.known)
    if law is None:
        return None
    least = np.full(len(before), NEVER)
    np.minimum.at(least, seen.pieces.parent, np.repeat(seen.of(limit), seen.pieces.places))
    sure = live[(before[live] != 0) | (seen.begin(law)[live] < least[live]) | seen.early.any()]
    there = find((before[sure] != 0).astype(np.int64), seen.around.some(sure), seen.known)
    return None if there is None else ["*", there, law]


def _limit(pieces: Pieces, each: Ints, more: Ints, own: Table) -> tuple[Expression, Gap] | None:
    """How much is enough: a column that lies between what was and what was not in every job, else a round number, or
    one times a column; and for these what was not enough in any job, and what was."""
    jobs = int(own.job.max(initial=0)) + 1
    most, least = np.zeros(jobs, np.int64), np.full(jobs, NEVER)
    live = np.isin(pieces.parent, pieces.parent[pieces.value > 0])
    last = pieces.last()
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
    return limit_between(most, least, own)


def limit_between(most: Ints, least: Ints, own: Table) -> tuple[Expression, Gap] | None:
    """The same from what was not enough in each job, and the least that was."""
    if (most >= least).any():
        return None
    rows = np.unique(own.job, return_index=True)[1]
    most, least = most[own.job[rows]], least[own.job[rows]]
    columns = {name: column[rows] for name, column in own.levels[0].items() if column.min() > 0}
    for name, column in columns.items():
        if ((column > most) & (column <= least)).all():
            return ["column", name], (NOTHING, NOTHING)
    for name, column in [("", np.ones(len(rows), np.int64)), *columns.items()]:
        low, high = int((most // column).max()), int((least // column).min())
        if low < high < NEVER // int(column.max()):
            step = next(1 << bits for bits in range(62, -1, -1) if high >> bits << bits > low)
            return _times(high // step * step, name), (_times(low, name), _times(high, name))
    return None


def _times(number: int, name: str) -> Expression:
    return ["sum", [[number, 1, {name: 2}]]] if name else ["const", number, 1]


def _checked(meter: Meter, seen: _Seen) -> Meter | None:
    """The meter with what is let go at the end of runs, and where anything happens, if it then gives all pieces."""
    pieces, own, around, laws = seen.pieces, seen.own, seen.around, meter.laws()
    parent, runs = pieces.parent, len(around.job)
    live = np.unique(parent[pieces.value > 0])
    columns = seen.each.asked(*laws), around.asked(*laws), parent[:: seen.pieces.places], runs
    fires = meter.along(meter.columns(*columns)[0], "fires")
    ends = np.flatnonzero(pieces.last() & np.isin(parent, np.union1d(live, seen.beside)) & (fires == 0))
    flush = find((pieces.value[ends] > 0).astype(np.int64), own.some(ends), seen.known) if len(ends) else NOTHING
    if flush is None:
        return None
    meter = replace(meter, flush=flush)
    columns = seen.each.asked(*laws, flush), around.asked(*laws), parent[:: seen.pieces.places], runs
    would = np.unique(parent[meter.along(meter.columns(*columns)[0], "fires") > 0])
    active = find(np.isin(would, live).astype(np.int64), around.some(would), seen.known)
    if active is None:
        return None
    meter = replace(meter, active=active)
    first, _ = meter.columns(*columns)
    fires = meter.along(first, "fires")
    whole = [first[f"part {i} of meter {meter.number}"] for i in range(len(meter.parts))]
    for kind, sums in zip(seen.kinds, whole or [meter.along(first, "sum")], strict=True):
        if (fires * sums != kind.value)[seen.in_jobs(kind.value > 0)].any():
            return None
    return meter if ((pieces.value > 0) == fires).all() else None
