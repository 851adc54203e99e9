"""Numbers that add up others: the parameters that an optimizer updates are those whose gradients were computed,
whatever they are of. A column "total of ROLE NAME" is what a number of the nodes of a role adds up to within an
iteration of the loop whose nodes are asked about, "total of ROLE" how often they come in it; "next of ROLE NAME" is
that of the next iteration, as where weights are gathered ahead, "first of ROLE NAME" that of the first iterations of
loops inside. NAME may be numbers "A * B", which are multiplied. Laws are sums of such columns, and of products of
parameters as often as something comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations_with_replacement
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.synthesis.expressions import Expression, Ints
from chakrasim.synthesis.loops import Place
from chakrasim.synthesis.search.conditions import once
from chakrasim.synthesis.search.sums import Floats, Powers, Products, few_terms
from chakrasim.synthesis.search.work import Work

TOTAL: Final = "total of "
NEXT: Final = "next of "
FIRST: Final = "first of "
TIMES: Final = " * "
OPERAND: Final = ("batch", "k", "n")
"""Numbers of a matrix product that are those of what it multiplies by, which are weights."""
COLUMNS: Final = 8_000
"""That a law is looked for in, at most."""
DEGREE: Final = 2
"""Columns of a product that is as often as something comes."""
LARGEST: Final = float(1 << 62)


def total_of(role: int, name: str = "", which: str = TOTAL) -> str:
    """The column of what a number adds up to, or of how often the role comes."""
    return f"{which}{role} {name}".rstrip()


@dataclass(frozen=True)
class Summand:
    """The ``role`` whose ``name`` a column adds up, "" for how often the role comes, and of ``which`` iterations."""

    role: int
    name: str
    which: str

    def values(self, number: Callable[[int, str], Ints], count: int) -> Ints:
        """int64[count]: by node what is added up. Raises OverflowError for products beyond int64."""
        found = np.ones(count, np.int64)
        for name in self.name.split(TIMES) if self.name else ():
            own = number(self.role, name)
            if np.abs(found.astype(np.float64) * own).max(initial=0) >= LARGEST:
                raise OverflowError(f"what {self.name} multiplies to is beyond int64")
            found = found * own
        return found


@cache
def summand(column: str) -> Summand | None:
    """What a column adds up; None for other columns."""
    which = next((one for one in (TOTAL, NEXT, FIRST) if column.startswith(one)), None)
    if which is None:
        return None
    role, _, name = column.removeprefix(which).partition(" ")
    return Summand(int(role), name, which)


def turned(law: Expression, which: str) -> Expression:
    """The same of other iterations."""

    def renamed(part: Any) -> Any:
        if isinstance(part, str):
            of = summand(part)
            return total_of(of.role, of.name, which) if of else part
        if isinstance(part, Mapping):
            return {renamed(name): power for name, power in part.items()}
        return [renamed(one) for one in part] if isinstance(part, list) else part

    return [renamed(part) for part in law]


def added(values: Ints, rows: Ints, count: int) -> Ints:
    """int64[count]: by row what its values add up to."""
    found = np.zeros(count, np.int64)
    np.add.at(found, rows, values)
    return found


def ahead(values: Ints, parent: Ints) -> Ints:
    """int64[n]: of each iteration the value of the next one of the same ``parent``, 0 where there is none."""
    found = np.zeros_like(values)
    found[:-1] = np.where(parent[1:] == parent[:-1], values[1:], 0)
    return found


def is_first(parent: Ints) -> NDArray[np.bool_]:
    """bool[n]: which iterations are the first of their ``parent``."""
    first: NDArray[np.bool_] = np.diff(parent, prepend=-1) != 0
    return first


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
        self.known[role] = [*self.known.get(role, ()), *(name for name in numbers if TIMES not in name)]

    def names(self, loops: tuple[int, ...], which: str = TOTAL) -> list[str]:
        """The columns at a loop, those around it being before it in ``loops``."""
        within = [role for role in self.known if self._is_within(loops, Summand(role, "", which))]
        named = [
            total_of(role, name, which)
            for role in within
            for name in ("", *self.known[role], *self._operand(role, which))
        ]
        return [name for name in named if self.column(loops, name) is not None]

    def _is_within(self, loops: tuple[int, ...], of: Summand) -> bool:
        around = self.where[of.role].loops
        there = {NEXT: len(loops) > 1, FIRST: len(around) > len(loops)}.get(of.which, True)
        return there and around[: len(loops)] == loops

    def _operand(self, role: int, which: str) -> list[str]:
        """What a matrix product multiplies by, which nothing else says of weights that are gathered ahead of it."""
        factors = [name for name in OPERAND if name in self.known[role]]
        return [TIMES.join(factors)] if which != TOTAL and {*OPERAND[1:]} <= {*factors} else []

    def column(self, loops: tuple[int, ...], name: str) -> Ints | None:
        """A column, by iteration of the last of the loops; None for one with numbers that are too large, or of
        what is not there."""
        if (loops, name) not in self.made:
            of = summand(name)
            try:
                self.made[loops, name] = self._column(loops, of) if of and self._is_within(loops, of) else None
            except OverflowError:
                self.made[loops, name] = None
        return self.made[loops, name]

    def _column(self, loops: tuple[int, ...], of: Summand) -> Ints | None:
        rows, count = self.rows(of.role, loops), self.count(loops[-1])
        values = of.values(self.number, len(rows))
        if of.which == FIRST:
            values = np.where(self._is_first(of.role, loops), values, 0)
        if np.bincount(rows, np.abs(values.astype(np.float64)), count).max(initial=0) >= LARGEST:
            return None
        made = added(values, rows, count)
        return ahead(made, self.parent(loops[-1], loops[-2])) if of.which == NEXT else made

    def _is_first(self, role: int, loops: tuple[int, ...]) -> NDArray[np.bool_]:
        """Of each node of a role whether it is in the first iterations of all loops inside of the last of these."""
        around, rows = self.where[role].loops, self.own(role)
        found = np.ones(len(rows), np.bool_)
        for at in range(len(around) - 1, len(loops) - 1, -1):
            parent = self.parent(around[at], around[at - 1])
            found, rows = found & is_first(parent)[rows], parent[rows]
        return found

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
    """Columns of `Totals` at a loop, of these ``rows`` or all, and of ``which`` iterations."""

    totals: Totals
    loops: tuple[int, ...]
    rows: NDArray[Any] | None = None
    which: str = TOTAL

    def some(self, rows: NDArray[Any]) -> Inside:
        """Of these of its rows alone."""
        places = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return replace(self, rows=places if self.rows is None else self.rows[places])

    def columns(self, names: Iterable[str] | None = None) -> dict[str, Ints]:
        """All of them, or those of them among these names."""
        asked = self.totals.names(self.loops, self.which) if names is None else (one for one in names if summand(one))
        found = {name: self.totals.column(self.loops, name) for name in asked}
        return {name: column if self.rows is None else column[self.rows]
                for name, column in found.items() if column is not None}  # fmt: skip


def law_of_totals(
    wanted: Ints,
    sums: Mapping[str, Ints],
    turns: Mapping[str, Ints],
    products: Sequence[tuple[Powers, Floats]],
    often: Ints,
    work: Work,
) -> Expression | None:
    """A sum of few ``sums``, each perhaps over one of ``turns`` that divides how often its role comes, and of
    ``products``, ``often`` or as often as a role comes, near all that is wanted, int64[n] and not 0; or None."""
    found = _products(wanted.astype(np.float64), sums, turns, products, often)
    work.spend(3 * found.table.size)
    return next(few_terms(found, work), None) if found.powers else None


def _products(
    wanted: Floats,
    sums: Mapping[str, Ints],
    turns: Mapping[str, Ints],
    products: Sequence[tuple[Powers, Floats]],
    often: Ints,
) -> Products:
    """Candidates, each over what is wanted."""
    single, named = [], list[tuple[Powers, Powers]]()
    times: list[tuple[Floats, Powers]] = [(often.astype(np.float64), {})]
    turns_of: dict[str, list[str]] = {}
    every_turn = np.reshape([*turns.values()], (len(turns), len(wanted))).astype(np.int64)
    for name, values in sums.items():
        of = summand(name) or Summand(-1, "", TOTAL)
        role = total_of(of.role, "", of.which)
        if role not in turns_of:
            turns_of[role] = ["", *_turns(sums[role], [*turns], every_turn)]
        for turn in turns_of[role] if values.any() else ():
            column, own = (values, {name: 2}) if not turn else (values / turns[turn], {name: 2, turn: -2})
            single.append(column.astype(np.float64))
            named.append((own, {}))
            if not of.name:
                times.append((single[-1], own))
    rows = len(wanted)
    times = [times[at] for at in once(np.stack([column for column, _ in times])).tolist()]
    factors = np.stack([column for column, _ in times])
    above = np.reshape([product for _, product in products], (-1, 1, rows))
    made = (above * factors).reshape(-1, rows)
    named += [(powers, own) for powers, _ in products for _, own in times]
    every = np.concatenate([np.reshape(single, (-1, rows)), made])
    kept = once(every)[:COLUMNS]
    return Products([named[at] for at in kept.tolist()], [""] * len(kept), every[kept].T / wanted[:, None])


def _turns(often: Ints, names: Sequence[str], columns: Ints) -> list[str]:
    """Of these ``columns``, int64[names, n], those that divide how often a role comes that comes more than once, such
    as micro-batches: what it adds up to is so much for each."""
    if often.max(initial=0) <= 1:
        return []
    return [names[at] for at in np.flatnonzero(~(often % columns).any(axis=1)).tolist()]


def products_of(above: Mapping[str, Floats], below: Mapping[str, Floats]) -> list[tuple[Powers, Floats]]:
    """Of one or two columns ``above``, perhaps over one ``below``."""
    found: list[tuple[Powers, Floats]] = []
    for over in (each for count in range(1, DEGREE + 1) for each in combinations_with_replacement(above, count)):
        product = np.prod([above[name] for name in over], axis=0)
        own = {name: 2 * over.count(name) for name in over}
        found.append((own, product))
        found += [({**own, name: -2}, product / divisor) for name, divisor in below.items() if name not in over]
    return found
