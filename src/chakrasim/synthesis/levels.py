"""Laws at the level on which a number varies: from job to job, among the traces of a job, or along its loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.synthesis import expressions
from chakrasim.synthesis.expressions import Expression, Ints
from chakrasim.synthesis.laws import Examples, law, near_law, simple

MOST: Final = 4000
"""Examples of one law, at most: of more, some are taken, and the law is tried on all."""

Known = dict[bytes, tuple[Expression | None, int]]
"""What was found for examples, by these with their common divisor taken out, which stands beside it."""


@dataclass(frozen=True, eq=False)
class Table:
    """Examples with where they come from.

    ``job``, ``rank`` int64[n]: equal where a job and a trace are the same. ``levels``: columns by what they vary with:
    jobs, ranks, iterations; each int64[n].
    """

    job: Ints
    rank: Ints
    levels: tuple[Mapping[str, Ints], Mapping[str, Ints], Mapping[str, Ints]]

    def some(self, rows: NDArray[Any]) -> Table:
        """These rows alone."""
        first, second, third = ({name: column[rows] for name, column in each.items()} for each in self.levels)
        return Table(self.job[rows], self.rank[rows], (first, second, third))

    def columns(self, level: int) -> dict[str, Ints]:
        """Those of this level and the ones before."""
        return {name: column for each in self.levels[: level + 1] for name, column in each.items()}


def find(wanted: Ints, table: Table, known: Known) -> Expression | None:
    """A law of what is wanted, int64[n], or None."""
    level = level_of(wanted, table)
    rows = _first_rows((table.job, table.rank)[level]) if level < 2 else _sample(wanted)
    columns = {name: column[rows] for name, column in table.columns(level).items()}
    few = simple(Examples(wanted[rows], columns))
    unit = max(int(np.gcd.reduce(few.wanted)), 1)
    key = b"|".join(
        [(few.wanted // unit).tobytes(), *(name.encode() + column.tobytes() for name, column in few.columns.items())]
    )
    if key not in known:
        found = law(few)
        if found is None and level:
            found = _along(wanted, table, level, known)
        known[key] = found, unit
    found, of = known[key]
    if found is not None and unit != of:
        found = expressions.times(found, Fraction(unit, of))
    if found is not None and level == 2 and not Examples(wanted, table.columns(2)).given_by(found).all():
        return None
    return found


def guess(wanted: Ints, table: Table) -> Expression:
    """Something near what is wanted where no law was found: by case the commonest value, or for what is spread over
    many values a product of powers."""
    rows = _sample(wanted)
    few = simple(Examples(wanted[rows], {name: column[rows] for name, column in table.columns(2).items()}))
    return near_law(few)


def level_of(wanted: Ints, table: Table) -> int:
    """With what it varies: 0 jobs, 1 ranks, 2 iterations."""
    for level, group in enumerate((table.job, table.rank)):
        first = _first_rows(group)
        value = np.zeros(int(group.max(initial=0)) + 1, np.int64)
        value[group[first]] = wanted[first]
        if (value[group] == wanted).all():
            return level
    return 2


def _first_rows(group: Ints) -> Ints:
    return np.sort(np.unique(group, return_index=True)[1])


def _sample(wanted: Ints) -> Ints:
    if len(wanted) <= MOST:
        return np.arange(len(wanted))
    return np.unique(np.linspace(0, len(wanted) - 1, MOST).astype(np.int64))


def _along(wanted: Ints, table: Table, level: int, known: Known) -> Expression | None:
    """What goes up or down evenly along one column of this level, within what the level before has as one."""
    group = (table.job, table.rank)[level - 1]
    for name, column in table.levels[level].items():
        slope = _slopes(wanted, column, group)
        if slope is None:
            continue
        told, value = slope
        by = find(value[told], table.some(told), known)
        if by is None:
            continue
        along = expressions.value(by, table.columns(2), len(wanted))
        start = find(wanted - along * column, table, known) if (along != 0).any() else None
        if start is not None:
            return ["+", start, ["*", by, ["column", name]]]
    return None


def _slopes(wanted: Ints, column: Ints, group: Ints) -> tuple[NDArray[np.bool_], Ints] | None:
    """bool[n], int64[n]: in which groups the column has two values, and how much more is wanted there for each one more
    of it. None if that is no whole number, not the same all over a group, or nowhere different from 0."""
    order = np.argsort(group, kind="stable")
    begins = np.flatnonzero(np.diff(group[order], prepend=-1))
    told, value = np.zeros(len(wanted), np.bool_), np.zeros(len(wanted), np.int64)
    for rows in np.split(order, begins[1:]):
        rise, across = wanted[rows] - wanted[rows[0]], column[rows] - column[rows[0]]
        at = int(np.abs(across).argmax())
        if not across[at]:
            if rise.any():
                return None
            continue
        slope = int(rise[at]) // int(across[at])
        if (rise != across * slope).any():
            return None
        told[rows], value[rows] = True, slope
    return (told, value) if value.any() else None
