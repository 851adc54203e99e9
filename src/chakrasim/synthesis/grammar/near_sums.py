"""Sums that come near what was measured: a constant and a few terms, none of which is negative, each a product of
columns. A term is taken if it brings jobs nearer that the sum was not fitted to. Libraries do work in tiles, so that a
size which is no multiple of one costs as much as the next: work counts so, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.synthesis.expressions import Expression, Ints

Floats = NDArray[np.float64]
TERMS: Final = 3
FOLDS: Final = 6
TRIED: Final = 8
"""Terms that are tried on other jobs, of those that seem to fit best."""
BETTER: Final = 0.97
"""A term is taken that makes what is off in other jobs so much smaller,"""
NEAR: Final = 0.005
"""as long as that is more than this."""
DEGREES: Final = ((12, 3), (40, 2), (1 << 30, 1))
"""How many parameters one product has, by how many there are."""
TILES: Final = (32, 64, 128)


@dataclass(frozen=True)
class _Term:
    """A product of columns to whole powers, with those of ``tiles`` rounded up to a multiple of a tile."""

    powers: Mapping[str, int]
    tiles: tuple[tuple[str, int], ...] = ()

    def value(self, columns: Mapping[str, Floats], rows: int) -> Floats:
        found = np.ones(rows)
        for name, power in self.powers.items():
            found = found * np.maximum(columns[name], 1e-300 if power < 0 else 0) ** power
        for name, tile in self.tiles:
            found = found * np.ceil(columns[name] / tile) * tile
        return np.nan_to_num(found, posinf=0.0)

    def law(self, weight: Fraction) -> Expression:
        found: Expression = ["sum", [[weight.numerator, weight.denominator,
                                      {name: 2 * power for name, power in self.powers.items()}]]]  # fmt: skip
        for name, tile in self.tiles:
            whole = ["ceil", ["column", name], ["const", tile, 1]]
            found = ["*", found, ["*", whole, ["const", tile, 1]]]
        return found


@dataclass(frozen=True, eq=False)
class Measurements:
    """``aim`` float64[n]: above 0; ``job`` int64[n]: in which job; by name what is known of each: the ``work`` that it
    is, and ``parameters`` of its job."""

    aim: Floats
    job: Ints
    work: Mapping[str, Floats] = field(default_factory=dict)
    parameters: Mapping[str, Floats] = field(default_factory=dict)


def near_sum(given: Measurements) -> tuple[Expression, float]:
    """A sum near the measurements, and how far off the like is in the median, relative, in jobs that it was not fitted
    to."""
    columns = {**given.work, **given.parameters}
    terms = [_Term({}), *_terms(given)]
    table = np.stack([term.value(columns, len(given.aim)) for term in terms], axis=1) / given.aim[:, None]
    number = np.unique(given.job, return_inverse=True)[1].ravel()
    fold = number % min(FOLDS, int(number.max()) + 1)
    chosen, made = [0], _left_out(table[:, [0]], fold)
    while len(chosen) <= TERMS and _off(made) > NEAR:
        tried = [(_left_out(table[:, [*chosen, one]], fold), one) for one in _promising(table, chosen)]
        best, one = min(tried, key=lambda each: _off(each[0]), default=(made, 0))
        if _off(best) >= BETTER * _off(made):
            break
        chosen, made = [*chosen, one], best
    weights = _fitted(table[:, chosen])
    laws = [
        terms[one].law(share) for one, weight in zip(chosen, weights.tolist(), strict=True) if (share := _short(weight))
    ]
    return _added(laws), float(np.median(np.abs(made - 1)))


def _added(laws: Sequence[Expression]) -> Expression:
    plain: Expression = ["sum", [term for law in laws if law[0] == "sum" for term in law[1]]]
    for law in laws:
        if law[0] != "sum":
            plain = ["+", plain, law]
    return plain


def _short(weight: float) -> Fraction:
    """The weight to nine digits, however small it is."""
    if not weight:
        return Fraction(0)
    scale = 10 ** max(0, 9 - int(np.floor(np.log10(weight))))
    return Fraction(round(weight * scale), scale)


def _terms(given: Measurements) -> Iterator[_Term]:
    """What may be in the sum: work, products of parameters, and work in tiles."""
    work = [name for name, column in given.work.items() if len(np.unique(column)) > 1]
    own = {name: column for name, column in given.parameters.items() if len(np.unique(column)) > 1}
    for name in work:
        yield _Term({name: 1})
    degree = next(degree for most, degree in DEGREES if len(own) <= most)
    for many in range(1, degree + 1):
        for names in combinations_with_replacement(own, many):
            yield _Term({name: names.count(name) for name in names})
    for size, column in own.items():
        for tile in TILES:
            if (column % tile).any() and column.max() > tile:
                for name in work:
                    yield _Term({name: 1, size: -1}, ((size, tile),))
                    yield _Term({name: 1, size: -2}, ((size, tile), (size, tile)))


def _promising(table: Floats, chosen: Sequence[int]) -> list[int]:
    """The columns that point most where the sum of those chosen is too small (orthogonal matching pursuit)."""
    base = np.linalg.qr(table[:, chosen])[0]
    left = np.ones(len(table)) - table[:, chosen] @ _fitted(table[:, chosen])
    across = table - base @ (base.T @ table)
    length = np.sqrt((across**2).sum(axis=0))
    usable = length > 1e-9 * np.sqrt((table**2).sum(axis=0)) + 1e-300
    score = np.where(usable, np.abs(left @ across) / np.where(usable, length, 1), -1.0)
    score[[*chosen]] = -1.0
    return [int(one) for one in np.argsort(-score, kind="stable")[:TRIED] if score[one] > 0]


def _off(made: Floats) -> float:
    """How far off what is made is in the mean, as a logarithm."""
    return float(np.abs(np.log(made)).mean())


def _left_out(table: Floats, fold: Ints) -> Floats:
    """float64[n]: what the sum makes that is fitted to the other folds, where 1 is wanted."""
    made = np.zeros(len(table))
    for one in np.unique(fold).tolist():
        out = fold == one
        made[out] = table[out] @ _fitted(table if out.all() else table[~out])
    return np.clip(made, 1e-3, 1e3)


def _fitted(table: Floats) -> Floats:
    """Weights of the columns whose sum is as often so many times too large as too small."""
    weights = _not_negative(table)
    return np.asarray(weights / np.exp(np.log(np.maximum(table @ weights, 1e-3)).mean()), np.float64)


def _not_negative(table: Floats) -> Floats:
    """Weights of the columns, none negative, whose sum comes nearest to ones: columns of negative weights are left out,
    the most negative first."""
    scale = np.maximum(np.abs(table).max(axis=0), 1e-300)
    kept = [i for i in range(table.shape[1]) if scale[i] > 1e-290]
    weights = np.zeros(table.shape[1])
    while kept:
        found = np.linalg.lstsq(table[:, kept] / scale[kept], np.ones(len(table)), rcond=None)[0]
        if found.min() >= 0:
            weights[kept] = found / scale[kept]
            break
        kept.pop(int(found.argmin()))
    return weights
