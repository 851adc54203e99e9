"""Laws at the level on which a number varies: from job to job, among the traces of a job, or along its loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.synthesis import expressions
from chakrasim.synthesis.columns import MARK
from chakrasim.synthesis.expressions import Expression, Ints, Limit
from chakrasim.synthesis.laws import (
    CASES,
    FEW,
    Examples,
    beyond_plain,
    law_by_case,
    near_law,
    one_law,
    plain_law,
    relevant,
    simple,
)
from chakrasim.synthesis.search.digits import digit_sums
from chakrasim.synthesis.search.sums import ROWS, spread
from chakrasim.synthesis.search.totals import Inside, added, law_of_totals, products_of
from chakrasim.synthesis.search.work import Work

MOST: Final = 400
"""Examples that a law is looked for in, at most, and then tried on all; as often as ``ROUNDS`` with up to ``MORE`` that
it does not give."""
MORE: Final = 60
ROUNDS: Final = 3
PARTS: Final = 4
"""Of the jobs, of which a law is tried on one that it was not looked for in."""
MANY: Final = 100
"""Jobs without which laws come by chance if other parts than the last are tried, too."""
ENOUGH: Final = 100
"""Examples of which so many have no law have none of all either."""

SPARE: Final = 8
"""Examples for each term of a sum that was not tried on other jobs than it is from, at least."""
SURE: Final = 2
"""Cases, or tests of conditions, that a law may have that was not tried on other jobs than it is from."""
DIGITS: Final = -1
"""In place of a number of cases: a plain law, or one of digits."""
PLAIN: Final = -2
"""The same: a plain law alone."""
ALONG: Final = 2
"""Cases of what goes along a column, and of where that begins."""
_ALIKE: Final = 1e-9
"""Two columns whose products differ by less than this share vary alike."""
METERED: Final = " of meter "
"""In names of columns of what adds up along a loop."""


@dataclass
class Known:
    """What was ``found`` for examples, by these with their common divisor taken out, which stands beside it; those of
    which ``no_one`` law gives all; and the ``work`` that was done."""

    found: dict[bytes, tuple[Expression | None, int]] = field(default_factory=dict)
    no_one: set[bytes] = field(default_factory=set)
    work: Work = field(default_factory=Work)

    def law(self, examples: bytes, few: Examples, cases: int) -> Expression | None:
        """A law that gives the examples and is not plain; one without cases is searched for once."""
        if examples not in self.no_one:
            found = beyond_plain(few, self.work)
            if found is not None:
                return found
            if not self.work.is_spent:
                self.no_one.add(examples)
        return law_by_case(few, cases, self.work)


@dataclass(frozen=True, eq=False)
class Table:
    """Examples with where they come from.

    ``job``, ``rank`` int64[n]: equal where a job and a trace are the same. ``levels``: columns by what they vary with:
    jobs, ranks, iterations; each int64[n]. ``inside``: what nodes there add up to.
    """

    job: Ints
    rank: Ints
    levels: tuple[Mapping[str, Ints], Mapping[str, Ints], Mapping[str, Ints]]
    inside: Inside | None = None

    def some(self, rows: NDArray[Any]) -> Table:
        """These rows alone."""
        first, second, third = ({name: column[rows] for name, column in each.items()} for each in self.levels)
        inside = self.inside and self.inside.some(rows)
        return Table(self.job[rows], self.rank[rows], (first, second, third), inside)

    def columns(self, level: int) -> dict[str, Ints]:
        """Those of this level and the ones before."""
        return {name: column for each in self.levels[: level + 1] for name, column in each.items()}

    def asked(self, *laws: Expression) -> dict[str, Ints]:
        """All columns, and of what nodes add up to those that laws ask for."""
        sums = self.inside.columns(set().union(*map(expressions.names, laws))) if self.inside else {}
        return self.columns(2) | sums


def find(wanted: Ints, table: Table, known: Known, cases: int = CASES) -> Expression | None:
    """A law of what is wanted, int64[n], of so many ``cases`` at most, or None."""
    known.work.begin()
    level = level_of(wanted, table)
    found = _find(wanted, table, known, level, cases)
    return found or (find_metered(wanted, table, known, cases) if level < 2 else None)


def find_metered(wanted: Ints, table: Table, known: Known, cases: int = 0) -> Expression | None:
    """The same with what adds up along loops, whatever it varies with."""
    if not any(METERED in name for name in table.levels[2]):
        return None
    known.work.begin()
    return _find(wanted, table, known, 2, cases)


def by_limits(wanted: Ints, table: Table, known: Known, limits: Sequence[Limit]) -> Expression | None:
    """A law of what is wanted, int64[n], by the first of these ``limits`` that leaves two laws without cases."""
    columns = table.columns(1)
    for column, sign, number in [limit for limit in limits if limit[0] in columns]:
        held = expressions.test([column, sign, "", number], columns)
        if held.all() or not held.any():
            continue
        one, other = (find(wanted[rows], table.some(rows), known, 0) for rows in map(np.flatnonzero, (held, ~held)))
        if one is not None and other is not None:
            return ["if", [column, sign, "", number], one, other]
    return None


def _find(wanted: Ints, table: Table, known: Known, level: int, cases: int) -> Expression | None:
    """A law that is looked for in three quarters of the jobs and tried on all; one of them all has to be simple."""
    every = first_rows((table.job, table.rank)[level]) if level < 2 else np.arange(len(wanted))
    whole = Examples(wanted[every], {name: column[every] for name, column in table.columns(level).items()})

    def search(rows: Ints, sure: bool) -> Expression | None:
        return _of_rows(every[rows], wanted, table, known, level, cases, sure)

    return tried(whole.wanted, table.job[every], search, whole.given_by)


def tried(
    wanted: Ints,
    job: Ints,
    search: Callable[[Ints, bool], Expression | None],
    given_by: Callable[[Expression], NDArray[np.bool_]],
) -> Expression | None:
    """What a search finds in some rows of three quarters of the jobs, if it gives all: of the first, or of others where
    what the first say is wrong for those left out alone; or in some of all jobs, where it is told that this is not
    sure. Rows that it does not give join those that it is asked for."""
    jobs = np.unique(job)
    parts = range(PARTS)[::-1] if len(jobs) >= MANY else (PARTS - 1,)
    for sure, left_out in (*((True, jobs[at::PARTS]) for at in parts), (False, jobs[:0])):
        out = np.isin(job, left_out)
        rows = _sample(wanted, np.flatnonzero(~out))
        for _ in range(ROUNDS):
            found = search(rows, sure)
            if found is None:
                break
            wrong = np.flatnonzero(~given_by(found))
            if not len(wrong):
                return found
            wrong = wrong[~out[wrong]]
            if not len(wrong):
                break
            rows = np.union1d(rows, wrong[np.linspace(0, len(wrong) - 1, min(len(wrong), MORE)).astype(np.int64)])
        if found is None and (~out).sum() > ENOUGH:
            break
    return None


def of_totals(wanted: Ints, table: Table, known: Known, group: Ints | None = None) -> Expression | None:
    """A law of what is wanted, int64[n], as a sum of what nodes inside of the iterations add up to, or None; where they
    are in groups, of what iterations of a ``group`` have together, int64[groups] in ascending order."""
    if table.inside is None or len(np.unique(wanted)) < FEW or known.work.is_spent:
        return None
    _, at, of = np.unique(np.arange(len(wanted)) if group is None else group, return_index=True, return_inverse=True)
    said = {name: column[at] for name, column in table.columns(1).items()}
    sums = {name: added(column, of, len(at)) for name, column in table.inside.columns().items()}
    known.work.spend(4 * len(of) * len(sums))

    def search(rows: Ints, sure: bool) -> Expression | None:
        rows = rows[wanted[rows] != 0]
        if len(rows) < FEW:
            return None
        rows = rows[spread(wanted[rows], ROWS)]
        here = {name: column[rows] for name, column in said.items()}
        chosen = relevant(simple(Examples(wanted[rows], here)))
        turns = {name: here[name] for name in table.levels[0] if (here[name] > 0).all() and np.ptp(here[name])}
        above, below = ({name: here[name].astype(np.float64) for name in names}
                        for names in (chosen.above, chosen.below))  # fmt: skip
        some = {name: column[rows] for name, column in sums.items()}
        often = np.bincount(of, minlength=len(at))[rows]
        found = law_of_totals(wanted[rows], some, turns if group is None else {}, products_of(above, below), often,
                              known.work)  # fmt: skip
        return found if found is None or sure or len(found[1]) * SPARE < len(rows) else None

    def given_by(law: Expression) -> NDArray[np.bool_]:
        made = added(expressions.value(law, table.asked(law), len(of)), of, len(at))
        return Examples(wanted, {"made": made}).given_by(["column", "made"])

    return tried(wanted, table.job[at], search, given_by)


def _of_rows(
    rows: Ints, wanted: Ints, table: Table, known: Known, level: int, cases: int, sure: bool
) -> Expression | None:
    """A law of these rows, which is simple unless it is ``sure`` to be tried on other jobs."""
    tests, cases = (None, cases) if sure else (SURE, min(cases, SURE))
    columns = table.columns(level)
    few = simple(Examples(wanted[rows], {name: column[rows] for name, column in columns.items()}))
    unit = max(int(np.gcd.reduce(few.wanted)), 1)
    named = (name.encode("utf-8", "surrogatepass") + column.tobytes() for name, column in few.columns.items())
    examples = b"|".join([(few.wanted // unit).tobytes(), *named])
    key = b"%d %d|" % (cases, sure) + examples
    if key not in known.found or not expressions.names(known.found[key][0] or ["const"]) <= {*columns}:
        found = plain_law(few, 0, known.work, tests=tests)
        if found is None and level:
            found = _along(wanted, table, level, known, min(cases, ALONG))
            if found is None and level == 2:
                found = _along_two(wanted, table, known, min(cases, ALONG)) or _left_over(few, known.work)
        if found is None and cases == DIGITS:
            digits = digit_sums(few.wanted, few.columns, known.work)
            found = next((one for one in digits if few.given_by(one).all()), None)
        elif found is None and cases != PLAIN:
            found = known.law(examples, few, cases)
        known.found[key] = found, unit
    found, of = known.found[key]
    return expressions.times(found, Fraction(unit, of)) if found is not None and unit != of else found


def guess(wanted: Ints, table: Table, work: Work) -> tuple[Expression, float]:
    """Something near what is wanted where no law was found: by case the commonest value, or for what is spread over
    many values a product of powers. How far off the like from four fifths of the jobs is in the others: the sum of
    what it is off by that of what is wanted."""
    rows = _sample(wanted, np.arange(len(wanted)))
    columns = table.columns(2)

    def near(chosen: Ints) -> Expression:
        work.begin()
        own = {name: column[chosen] for name, column in columns.items()}
        return near_law(simple(Examples(wanted[chosen], own)), work)

    jobs = np.unique(table.job)
    out = np.isin(table.job[rows], jobs[::5])
    tried = near(rows[~out]) if (~out).any() else ["const", 0, 1]
    rest = rows[out]
    made = expressions.value(tried, {name: column[rest] for name, column in columns.items()}, len(rest))
    off = float(np.abs(made.astype(np.float64) - wanted[rest]).sum())
    return near(rows), off / max(float(np.abs(wanted[rest].astype(np.float64)).sum()), 1.0)


def level_of(wanted: Ints, table: Table) -> int:
    """With what it varies: 0 jobs, 1 ranks, 2 iterations."""
    for level, group in enumerate((table.job, table.rank)):
        first = first_rows(group)
        value = np.zeros(int(group.max(initial=0)) + 1, np.int64)
        value[group[first]] = wanted[first]
        if (value[group] == wanted).all():
            return level
    return 2


def first_rows(group: Ints) -> Ints:
    """The first of each group."""
    if (group[1:] >= group[:-1]).all():
        return np.flatnonzero(np.diff(group, prepend=-1))
    return np.sort(np.unique(group, return_index=True)[1])


def _sample(wanted: Ints, rows: Ints) -> Ints:
    """Some of the rows, spread over them and over what is wanted."""
    if len(rows) <= MOST:
        return rows
    _, kind = np.unique(wanted[rows], return_inverse=True)
    order = np.argsort(kind, kind="stable")
    place = np.arange(len(rows)) - np.searchsorted(kind[order], kind[order])
    rare = order[place < max(1, MOST // (2 * (int(kind.max()) + 1)))][:MOST]
    return rows[np.union1d(rare, np.linspace(0, len(rows) - 1, MOST // 2).astype(np.int64))]


def _along(wanted: Ints, table: Table, level: int, known: Known, cases: int) -> Expression | None:
    """What goes up or down evenly along one column of this level, within what the level before has as one."""
    group = (table.job, table.rank)[level - 1]
    for name, column in table.levels[level].items():
        slope = _slopes(wanted, column, group)
        if slope is None:
            continue
        told, value = slope
        part = table.some(told)
        by = _find(value[told], part, known, level_of(value[told], part), cases)
        if by is None:
            continue
        along = expressions.value(by, table.columns(2), len(wanted))
        left = wanted - along * column
        start = _find(left, table, known, level_of(left, table), cases) if (along != 0).any() else None
        if start is not None:
            return ["+", start, ["*", by, ["column", name]]]
    return None


def _left_over(few: Examples, work: Work) -> Expression | None:
    """What has added up along a loop, and something that has a plain law beside, or beside what is left at its end one
    without cases."""
    rests = {name: few.wanted - column for name, column in few.columns.items() if METERED in name and column.any()}
    rests = {name: rest for name, rest in rests.items() if rest.min(initial=0) >= 0}
    ends = [name for name in rests if name.startswith("left of")]
    for names, search in ((rests, plain_law), (ends, one_law)):
        for name in names:
            law = search(Examples(rests[name], few.columns), work=work)
            if law is not None:
                return ["+", ["column", name], law]
    return None


def _along_two(wanted: Ints, table: Table, known: Known, cases: int) -> Expression | None:
    """What goes evenly along two of the columns that say which an iteration is, within each trace."""
    marks = {name: column for name, column in table.levels[2].items() if name.startswith(MARK)}
    for one, other in combinations(marks, 2):
        slopes = _two_slopes(wanted, marks[one], marks[other], table.rank)
        if slopes is None:
            continue
        found: Expression | None = None
        left = wanted
        for name, (told, value) in zip((one, other), slopes, strict=True):
            part = table.some(told)
            by = _find(value[told], part, known, level_of(value[told], part), cases)
            if by is None:
                break
            left = left - expressions.value(by, table.columns(2), len(wanted)) * marks[name]
            term: Expression = ["*", by, ["column", name]]
            found = term if found is None else ["+", found, term]
        else:
            level = level_of(left, table)
            start = _find(left, table, known, level, cases) if level < 2 else None
            if start is not None and found is not None:
                return ["+", start, found]
    return None


def _two_slopes(wanted: Ints, one: Ints, other: Ints, group: Ints) -> list[tuple[NDArray[np.bool_], Ints]] | None:
    """The same as `_slopes` for each of two columns together; groups in which they go alike tell nothing."""
    along = _Along(wanted, np.stack([one, other]), group)
    slopes, told = along.slopes()
    if not along.holds(slopes, told):
        return None
    varies = (told & (np.diagonal(along.squares) > 0).T)[:, along.of]
    found = [(here, np.where(here, own[along.of], 0)) for here, own in zip(varies, slopes, strict=True)]
    return found if varies.any(axis=1).all() else None


def _slopes(wanted: Ints, column: Ints, group: Ints) -> tuple[NDArray[np.bool_], Ints] | None:
    """bool[n], int64[n]: in which groups the column has two values, and how much more is wanted there for each one more
    of it. None if that is no whole number, not the same all over a group, or nowhere different from 0."""
    along = _Along(wanted, np.stack([column, np.zeros_like(column)]), group)
    slopes, told = along.slopes()
    if not along.holds(slopes, told):
        return None
    value = slopes[0][along.of]
    return ((along.squares[0, 0] > 0)[along.of], value) if value.any() else None


class _Along:
    """What is wanted along two columns, int64[2, n], each less what it is at the first of its group: ``rise`` int64[n],
    ``across`` int64[2, n]; ``of`` int64[n]: of which group; ``squares`` float64[2, 2, groups]: products of columns."""

    def __init__(self, wanted: Ints, columns: Ints, group: Ints) -> None:
        _, first, self.of = np.unique(group, return_index=True, return_inverse=True)
        begin = first[self.of]
        self.rise, self.across = wanted - wanted[begin], columns - columns[:, begin]
        self.squares = np.array([self._along(one) for one in self.across])

    def _along(self, own: Ints) -> NDArray[np.float64]:
        """float64[2, groups]: products with the columns, added up."""
        return np.array([np.bincount(self.of, own.astype(np.float64) * column) for column in self.across])

    def slopes(self) -> tuple[Ints, NDArray[np.bool_]]:
        """int64[2, groups]: whole slopes of least squares, and where there are such: not where both columns vary
        alike."""
        (one, both), (_, other) = self.squares
        apart = one * other - both * both
        two = apart > _ALIKE * one * other
        found = np.zeros((2, len(one)), np.int64)
        for _ in range(2):  # what rounding leaves of large numbers the second time tells
            first, second = self._along(self.rise - self._made(found))
            found[0] += _whole(np.where(two, first * other - second * both, first), np.where(two, apart, one))
            found[1] += _whole(np.where(two, second * one - first * both, second), np.where(two, apart, other))
        return found, two | (one * other == 0)

    def _made(self, slopes: Ints) -> Ints:
        made: Ints = (slopes[:, self.of] * self.across).sum(axis=0)
        return made

    def holds(self, slopes: Ints, told: NDArray[np.bool_]) -> bool:
        """Whether the slopes give all of the groups that are told."""
        return not (told[self.of] & (self._made(slopes) != self.rise)).any()


def _whole(over: NDArray[np.float64], under: NDArray[np.float64]) -> Ints:
    """What is over so much, 0 over none."""
    return np.rint(over / np.where(under == 0, 1, under)).astype(np.int64)
