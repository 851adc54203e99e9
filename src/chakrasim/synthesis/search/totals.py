"""Numbers that add up others: the parameters that an optimizer updates are those whose gradients were computed,
whatever they are of. A column "total of ROLE NAME" is what a number of the nodes of a role adds up to within an
iteration of the loop whose nodes are asked about, "total of ROLE" how often they come in it; laws are sums of such
columns, and of products of parameters as often as something comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.synthesis.expressions import Expression, Ints
from chakrasim.synthesis.loops import Place
from chakrasim.synthesis.search.sums import Floats, Products, few_terms
from chakrasim.synthesis.search.work import Work

TOTAL: Final = "total of "
COLUMNS: Final = 4_000
"""That a law is looked for in, at most."""
DEGREE: Final = 2
"""Columns of a product that is as often as something comes."""
Powers = tuple[tuple[str, int], ...]
"""Of columns, twice."""
LARGEST: Final = float(1 << 62)


def total_of(role: int, name: str = "") -> str:
    """The column of what a number adds up to, or of how often the role comes."""
    return f"{TOTAL}{role} {name}".rstrip()


def summand(column: str) -> tuple[int, str] | None:
    """The role and the number that a column adds up, "" for how often the role comes; None for other columns."""
    if not column.startswith(TOTAL):
        return None
    role, _, name = column.removeprefix(TOTAL).partition(" ")
    return int(role), name


def added(values: Ints, rows: Ints, count: int) -> Ints:
    """int64[count]: by row what its values add up to."""
    found = np.zeros(count, np.int64)
    np.add.at(found, rows, values)
    return found


class Totals:
    """What nodes within the iterations of loops add up to, over all readings; of roles and numbers that are ``known``
    alone: those whose laws are found."""

    def __init__(
        self,
        where: Mapping[int, Place],
        own: Callable[[int], Ints],
        parent: Callable[[int, int], Ints],
        count: Callable[[int], int],
        number: Callable[[int, str], Ints],
    ) -> None:
        """Over all readings, ``own``: of each node of a role the iteration of its innermost loop; ``parent``: of each
        iteration of a loop that of the loop around it; ``count``: how many a loop has; ``number``: of each node."""
        self.where, self.own, self.parent, self.count, self.number = where, own, parent, count, number
        self.known: dict[int, list[str]] = {}
        self.found: dict[tuple[int, tuple[int, ...]], Ints] = {}
        self.made: dict[tuple[tuple[int, ...], str], Ints | None] = {}

    def add(self, role: int, numbers: Sequence[str] = ()) -> None:
        """The role, and numbers of it, are known."""
        self.known[role] = [*self.known.get(role, ()), *numbers]

    def names(self, loops: tuple[int, ...]) -> list[str]:
        """The columns at a loop, those around it being before it in ``loops``."""
        within = [role for role in self.known if self.where[role].loops[: len(loops)] == loops]
        named = [total_of(role, name) for role in within for name in ("", *self.known[role])]
        return [name for name in named if self.column(loops, name) is not None]

    def column(self, loops: tuple[int, ...], name: str) -> Ints | None:
        """A column, by iteration of the last of the loops; None for one with numbers that are too large."""
        if (loops, name) not in self.made:
            role, number = summand(name) or (-1, "")
            rows, count = self.rows(role, loops), self.count(loops[-1])
            values = self.number(role, number) if number else np.ones(len(rows), np.int64)
            fits = np.bincount(rows, np.abs(values.astype(np.float64)), count).max(initial=0) < LARGEST
            self.made[loops, name] = added(values, rows, count) if fits else None
        return self.made[loops, name]

    def rows(self, role: int, loops: tuple[int, ...]) -> Ints:
        """Of each node of a role the iteration of the last of the loops."""
        if (role, loops) not in self.found:
            around, rows = self.where[role].loops, self.own(role)
            for at in range(len(around) - 1, len(loops) - 1, -1):
                rows = self.parent(around[at], around[at - 1])[rows]
            self.found[role, loops] = rows
        return self.found[role, loops]


@dataclass(frozen=True, eq=False)
class Inside:
    """Columns of `Totals` at a loop, of these ``rows`` or all."""

    totals: Totals
    loops: tuple[int, ...]
    rows: NDArray[Any] | None = None

    def some(self, rows: NDArray[Any]) -> Inside:
        """Of these of its rows alone."""
        places = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return replace(self, rows=places if self.rows is None else self.rows[places])

    def columns(self, names: Iterable[str] | None = None) -> dict[str, Ints]:
        """All of them, or those of them among these names."""
        asked = self.totals.names(self.loops) if names is None else (one for one in names if summand(one))
        found = {name: self.totals.column(self.loops, name) for name in asked}
        return {name: column if self.rows is None else column[self.rows]
                for name, column in found.items() if column is not None}  # fmt: skip


def law_of_totals(
    wanted: Ints,
    sums: Mapping[str, Ints],
    turns: Mapping[str, Ints],
    products: Mapping[Powers, Floats],
    often: Ints,
    work: Work,
) -> Expression | None:
    """A sum of few ``sums``, each perhaps over one of ``turns`` that divides how often its role comes, and of
    ``products``, ``often`` or as often as a role comes, near all that is wanted, int64[n] and not 0; or None."""
    if not len(wanted):
        return None
    found = _products(wanted.astype(np.float64), sums, turns, products, often)
    work.spend(3 * found.table.size)
    return next(few_terms(found, work), None) if found.powers else None


def _products(
    wanted: Floats, sums: Mapping[str, Ints], turns: Mapping[str, Ints], products: Mapping[Powers, Floats], often: Ints
) -> Products:
    """Candidates, each over what is wanted."""
    found: dict[bytes, tuple[Floats, dict[str, int]]] = {}
    times: dict[bytes, tuple[Floats, dict[str, int]]] = {}
    times[often.astype(np.float64).tobytes()] = often.astype(np.float64), {}
    for name, values in sums.items():
        role, number = summand(name) or (-1, "")
        for turn in _turns(sums[total_of(role)], turns):
            column, own = (values, {name: 2}) if not turn else (values / turns[turn], {name: 2, turn: -2})
            column = column.astype(np.float64)
            if column.any():
                found.setdefault(column.tobytes(), (column, own))
                if not number:
                    times.setdefault(column.tobytes(), (column, own))
    for powers, product in products.items():
        for column, own in times.values():
            if len(found) < COLUMNS:
                both = {name: own.get(name, 0) + dict(powers).get(name, 0) for name in {**dict(powers), **own}}
                made = product * column
                found.setdefault(made.tobytes(), (made, {name: power for name, power in both.items() if power}))
    if not found:
        return Products([], [], np.zeros((len(wanted), 0)))
    table = np.stack([column for column, _ in found.values()], axis=1) / wanted[:, None]
    return Products([own for _, own in found.values()], [""] * len(found), table)


def _turns(often: Ints, turns: Mapping[str, Ints]) -> Iterator[str]:
    """None, "", and columns that divide how often a role comes that comes more than once, such as micro-batches: what
    it adds up to is so much for each."""
    yield ""
    if often.max(initial=0) > 1:
        yield from (name for name, own in turns.items() if not (often % own).any())


def products_of(above: Mapping[str, Floats], below: Mapping[str, Floats]) -> dict[Powers, Floats]:
    """Of one or two columns ``above``, perhaps over one ``below``."""
    found: dict[Powers, Floats] = {}
    for over in (each for count in range(1, DEGREE + 1) for each in combinations_with_replacement(above, count)):
        product = np.prod([above[name] for name in over], axis=0)
        own = {name: 2 * over.count(name) for name in over}
        found[tuple(own.items())] = product
        for name in below:
            if name not in over:
                found[(*own.items(), (name, -2))] = product / below[name]
    return found
