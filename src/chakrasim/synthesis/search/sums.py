"""Sums of products of powers, found from examples: of all products that are tried, the few that give every example
together. Two are searched for in all pairs; more by basis pursuit (Chen, Donoho and Saunders 1998): of the sums that
give the examples the one whose terms are least together, a linear program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from itertools import combinations, combinations_with_replacement
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.synthesis.expressions import Expression
from chakrasim.synthesis.search.least import least
from chakrasim.synthesis.search.work import Work

TERMS: Final = 12
"""Of a sum, at most."""
ROWS: Final = 120
"""Examples that a sum of what nodes add up to is searched on, at most; such have ten terms and more."""
FEW_ROWS: Final = 64
"""The same of other sums: of some hundred products as many as four or five are told from others by so few."""
PRODUCTS: Final = 24_000
"""Products that are tried, at most."""
_PAIRED: Final = 600
"""Products of which all pairs are tried."""
_FIRST: Final = (200, 800)
"""Products of which a sum is looked for before more are: simple ones."""
_SAME: Final = 600
"""Products that cost least together of which few are looked for, at most."""
_STEPS: Final = 16
_STEP: Final = 30_000
"""Of a search for weights, and what one costs beside what comes of the size."""
_PLAIN: Final = 1024 * 9 * 5
"""What factors of a sum are parts of: sevenths are what comes of powers of few numbers."""
_AWAY: Final = 1e4
"""What it costs to leave an example, where a term that is all of it costs 1."""
_LEFT: Final = 1e-6
"""What may be left of the examples where all are given."""
_NONE: Final = 1e-7
"""Weights, and shares of a sum, below are 0."""


Floats = NDArray[np.float64]
Powers = Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Products:
    """Products of powers, by number: ``powers`` are twice those of each column, of two factors; ``where`` the column
    that has to be 0 for the product to count, "" for none. ``table`` float64[n, products]: their values."""

    powers: list[tuple[Powers, Powers]]
    where: list[str]
    table: Floats

    def few(self, count: int) -> Products:
        """The first of them."""
        return Products(self.powers[:count], self.where[:count], self.table[:, :count])


def sums(
    wanted: Floats, above: Mapping[str, Floats], below: Mapping[str, Floats], zero: Mapping[str, Any], work: Work
) -> Iterator[Expression]:
    """Sums that give what is wanted, float64[n] and not 0, of products of the columns ``above``, over those ``below``,
    some where a column of ``zero``, bool[n], is 0."""
    rows = spread(wanted, FEW_ROWS)
    target = wanted[rows]
    pick = [{name: column[rows] for name, column in each.items()} for each in (above, below, zero)]
    for degree, cases in ((3, False), (3, True), (4, True)):
        if (cases and not zero and degree == 3) or work.is_spent:
            continue
        products = _products(target, pick[0], pick[1], pick[2] if cases else {}, degree)
        work.spend(3 * products.table.size + 10 * min(_PAIRED, len(products.powers)) ** 2)
        kept = np.isfinite(products.table).all(axis=0)
        if not kept.all():
            raise ValueError("products of columns overflow")
        if degree == 3 and not cases:
            for taken in _best_pairs(products.few(_PAIRED).table):
                yield from _said(products, taken)
        yield from few_terms(products, work)


def rounded_sums(
    most: Floats, above: Mapping[str, Floats], below: Mapping[str, Floats], over: Floats, work: Work
) -> Iterator[Expression]:
    """Sums of products that are at most so much, float64[n], and less by less than ``over``: what is rounded up."""
    rows = spread(most, FEW_ROWS)
    target, slack = most[rows], (over[rows] - 1) / most[rows]
    pick = [{name: column[rows] for name, column in each.items()} for each in (above, below)]
    products = _products(target, pick[0], pick[1], {}, 3).few(_FIRST[0])
    work.spend(3 * products.table.size)
    largest = np.abs(products.table).max(axis=0)
    weights = _corner(products.table / largest, work, slack) if _has_scipy() else None
    taken = [] if weights is None else np.flatnonzero(np.abs(weights) > max(_NONE, float(slack.max()))).tolist()
    for finest in (1, 8) if 0 < len(taken) <= _most(len(rows)) else ():
        yield from _said(products, taken, 1 - slack / 2, finest)


def spread(wanted: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Some of the examples, spread over what is wanted."""
    order = np.argsort(wanted, kind="stable")
    return order[np.linspace(0, len(order) - 1, min(count, len(order))).astype(np.int64)]


def _products(
    wanted: Floats, above: Mapping[str, Floats], below: Mapping[str, Floats], zero: Mapping[str, Any], degree: int
) -> Products:
    """Products of up to ``degree`` columns over up to three, simple ones first, each over what is wanted, and each once
    again for where a column is 0."""
    powers, columns = [], []
    under = [(each, np.prod([below[name] for name in each], axis=0)) for count in range(4)
             for each in combinations(below, count)]  # fmt: skip
    seen: set[tuple[tuple[str, int], ...]] = set()
    for count in range(degree + 1):
        for over in combinations_with_replacement(above, count):
            product = np.ones(len(wanted))
            for name in over:
                product = product * above[name]
            for each, divisor in under:
                own: dict[str, int] = {}
                for names, step in ((over, 2), (each, -2)):
                    for name in names:
                        own[name] = own.get(name, 0) + step
                own = {name: power for name, power in own.items() if power}
                key = tuple(sorted(own.items()))
                if key in seen or len(seen) * (1 + len(zero)) >= PRODUCTS:
                    continue
                seen.add(key)
                powers.append(own)
                columns.append(product / divisor / wanted)
    table = np.stack(columns, axis=1)
    tables = [table, *(table * held[:, None] for held in zero.values())]
    where = [name for name in ("", *zero) for _ in powers]
    order = np.argsort(np.tile([sum(map(abs, own.values())) for own in powers], len(tables)), kind="stable")
    joined = np.concatenate(tables, axis=1)[:, order]
    kept = np.abs(joined).max(axis=0) > 0
    chosen = order[kept]
    return Products([(powers[i % len(powers)], {}) for i in chosen], [where[i] for i in chosen], joined[:, kept])


def _best_pairs(table: Floats) -> Iterator[list[int]]:
    """The pairs of columns that together come nearest to ones, if that is near."""
    unit = table / np.linalg.norm(table, axis=0)
    target = np.ones(len(table))
    both, along = unit.T @ unit, unit.T @ target
    apart = np.maximum(1 - both**2, 1e-9)
    said = (along[:, None] ** 2 + along**2 - 2 * both * np.outer(along, along)) / apart
    said[np.tril_indices(len(said))] = 0
    whole = float(target @ target)
    for place in np.argpartition(said, -6, axis=None)[-6:].tolist() if said.size > 6 else range(said.size):
        i, j = divmod(place, len(said))
        if said[i, j] > whole * (1 - 1e-7) and i < j:
            yield [i, j]


def few_terms(products: Products, work: Work) -> Iterator[Expression]:
    """The sum of ones of few products, if there is one."""
    asked = b"%d %d|" % products.table.shape + products.table.tobytes()
    taken = work.once(asked, lambda: _pursued(products.table, work))
    if taken is not None:
        yield from _said(products, taken)


def _pursued(table: Floats, work: Work) -> list[int] | None:
    """The columns of the sum of ones that costs least, of the first or of all, if they are few. None without SciPy."""
    if not _has_scipy():
        return None
    rows, columns = table.shape
    for count in (*(most for most in _FIRST if most < columns), columns):
        scaled = table[:, :count] / np.abs(table[:, :count]).max(axis=0)
        work.spend(_STEPS * (_STEP + rows * rows * count // 100))
        weights, left = least(scaled, _AWAY)
        taken = np.flatnonzero(np.abs(weights) > _NONE)
        if left <= _LEFT and len(taken := _fewer(scaled, taken, work)) <= _most(rows):
            return [int(one) for one in taken] or None
        if work.is_spent:
            return None
    return None


def _fewer(table: Floats, taken: NDArray[np.int64], work: Work) -> NDArray[np.int64]:
    """Of columns that cost least together those of a corner of what they span, where there is more than the one."""
    if len(taken) > _SAME or np.linalg.matrix_rank(table[:, taken]) == len(taken):
        return taken
    weights = _corner(table[:, taken], work)
    return taken if weights is None else taken[np.abs(weights) > _NONE]


def _corner(table: Floats, work: Work, slack: Floats | None = None) -> Floats | None:
    """Weights of least sum, few of which are not 0, that give ones, or what is less by no more than the ``slack``,
    float64[n]; None where none do."""
    from scipy.optimize import linprog

    rows, columns = table.shape
    free = np.zeros((rows, 0)) if slack is None else np.eye(rows)
    ends = [] if slack is None else [(0.0, float(end)) for end in slack]
    matrix = np.concatenate([table, -table, np.eye(rows), -np.eye(rows), free], axis=1)
    cost = np.concatenate([np.ones(2 * columns), np.full(2 * rows, _AWAY), np.zeros(free.shape[1])])
    work.spend(40 * matrix.size)
    found = linprog(cost, A_eq=matrix, b_eq=np.ones(rows), method="highs-ds", options={"presolve": False},
                    bounds=[(0.0, None)] * (2 * (rows + columns)) + ends)  # fmt: skip
    if found.status != 0 or found.x[2 * columns : 2 * (rows + columns)].sum() > _LEFT:
        return None
    weights: Floats = found.x[:columns] - found.x[columns : 2 * columns]
    return weights


def _most(rows: int) -> int:
    """How many terms are few."""
    return min(TERMS, rows // 3)


def _has_scipy() -> bool:
    return find_spec("scipy") is not None


def _said(
    products: Products, taken: list[int], wanted: Floats | None = None, finest: int | None = None
) -> Iterator[Expression]:
    """The sum of these products with simple factors, if they have such; of what is ``wanted`` about, of those that are
    parts of ``finest`` the nearest."""
    matrix = products.table[:, taken]
    slopes = np.linalg.lstsq(matrix, np.ones(len(matrix)) if wanted is None else wanted, rcond=None)[0]
    terms: dict[str, list[list[Any]]] = {}
    for one, slope, most in zip(taken, slopes.tolist(), np.abs(matrix).max(axis=0).tolist(), strict=True):
        if abs(slope) * most < _NONE:
            continue
        factor = (
            Fraction(slope).limit_denominator(1 << 10) if finest is None else Fraction(round(slope * finest), finest)
        )
        if finest is not None and not factor:
            continue
        if not factor or _PLAIN % factor.denominator or (finest is None and abs(float(factor) / slope - 1) > 1e-4):
            return
        powers = _both(*products.powers[one])
        terms.setdefault(products.where[one], []).append([factor.numerator, factor.denominator, powers])
    said: Expression = ["sum", terms.pop("", [])]
    for name, own in terms.items():
        said = ["+", said, ["if", [name, "==", "", 0], ["sum", own], ["const", 0, 1]]]
    yield said


def _both(one: Powers, other: Powers) -> dict[str, int]:
    """Powers of a product of two."""
    both = {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
    return {name: power for name, power in both.items() if power}
