"""Weights that are gathered: what matrix products multiply by, of each of them as much, and beside them something in
proportion to a number of one of them, such as a norm's. So much is known of them that a few jobs tell which they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.synthesis.expressions import Expression, Ints
from chakrasim.synthesis.laws import EXACT, Examples
from chakrasim.synthesis.search.levels import Known, Table, tried
from chakrasim.synthesis.search.sums import Floats, spread
from chakrasim.synthesis.search.totals import TIMES, summand, total_of

SURE: Final = 4
"""Different numbers that tell of which products they are."""
ROWS: Final = 24
"""Examples that products are looked for in, at most, and then tried on all."""
ALL: Final = 10
"""Products of which all sets are tried; of more those of up to ``FEW``."""
FEW: Final = 3
FINEST: Final = 16
"""Parts of what a product multiplies by that count, at most."""


def of_weights(wanted: Ints, table: Table, known: Known) -> Expression | None:
    """A law of what is wanted, int64[n], as so many times what some matrix products of what is inside multiply by, and
    perhaps so many times a number of one of them; of several such that with most of them."""
    if table.inside is None or len(np.unique(wanted)) < SURE or known.work.is_spent:
        return None
    columns = table.inside.columns()
    products = {name: column for name, column in columns.items() if TIMES in name}
    named = (total_of(of.role, own, of.which) for of in map(summand, products) if of for own in of.name.split(TIMES))
    parts = {name: columns[name] for name in dict.fromkeys(named) if name in columns}

    def search(rows: Ints, sure: bool) -> Expression | None:
        rows = rows[wanted[rows] != 0]
        if len(np.unique(wanted[rows])) < SURE:
            return None
        rows = rows[spread(wanted[rows], ROWS)]
        own, beside = ({name: column[rows] for name, column in each.items() if column[rows].any()}
                       for each in (products, parts))  # fmt: skip
        known.work.spend(len(rows) * (len(beside) + 1) << min(len(own), ALL))
        return _alike(wanted[rows].astype(np.float64), own, beside) if own else None

    def given_by(law: Expression) -> NDArray[np.bool_]:
        return Examples(wanted, table.asked(law)).given_by(law)

    return tried(wanted, table.job, search, given_by)


def _alike(wanted: Floats, products: dict[str, Ints], parts: dict[str, Ints]) -> Expression | None:
    """The law with the least factor of those that give what is wanted, float64[n]; one of products alone before."""
    sets = np.array([*_sets(len(products))], np.float64)
    sums = sets @ np.stack([*products.values()]).astype(np.float64)
    found = None
    for name, part in (("", np.zeros_like(wanted)), *parts.items()):
        fits = [*_fits(wanted, sums, part.astype(np.float64))]
        if fits:
            factor, beside, at = min(fits, key=lambda each: (each[0], -sets[each[2]].sum()))
            if found is None or factor < found[0]:
                chosen = [own for own, held in zip(products, sets[at].tolist(), strict=True) if held]
                terms = [_term(factor, own) for own in chosen] + ([_term(beside, name)] if name else [])
                found = factor, terms
        if found and not name:
            break
    return found and ["sum", found[1]]


def _term(factor: Fraction, name: str) -> list[Any]:
    return [factor.numerator, factor.denominator, {name: 2}]


def _sets(count: int) -> Iterator[NDArray[np.bool_]]:
    """Each bool[count]."""
    for many in range(1, (count if count <= ALL else FEW) + 1):
        for chosen in combinations(range(count), many):
            held = np.zeros(count, np.bool_)
            held[[*chosen]] = True
            yield held


def _fits(wanted: Floats, sums: Floats, part: Floats) -> Iterator[tuple[Fraction, Fraction, int]]:
    """Factors of a sum, float64[sums, n], and of a part, float64[n], that together give what is wanted, and which."""
    square, both, along = (sums**2).sum(axis=1), sums @ part, sums @ wanted
    own, aim = float(part @ part), float(part @ wanted)
    apart = square * own - both**2
    with np.errstate(divide="ignore", invalid="ignore"):
        times = (along * own - aim * both) / apart if own else along / square
        beside = (square * aim - both * along) / apart if own else np.zeros_like(times)
        off = np.abs(times[:, None] * sums + beside[:, None] * part - wanted).max(axis=1)
    for at in np.flatnonzero((off < 1e-6 * np.abs(wanted).max()) & (times > 0) & (beside >= 0)).tolist():
        factor, more = (Fraction(one).limit_denominator(FINEST) for one in (float(times[at]), float(beside[at])))
        if (np.abs(float(factor) * sums[at] + float(more) * part - wanted) <= EXACT * np.abs(wanted)).all() and factor:
            yield factor, more, at
