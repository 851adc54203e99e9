"""What predictions are held against: the library's own estimate, and what other sizes of a curve alone say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from chakrasim.collectives.libraries.course import choice_of
from chakrasim.collectives.libraries.terms import Operation
from chakrasim.validation.scoreboard.predictions import Bools, Floats, Ints, Predictions

LIBRARY, ALPHA_BETA, INTERPOLATION = "the library's own tables", "alpha-beta", "interpolation"
_PARTS: Final = 2
_TURNS: Final = 20


def library_tables(rows: Predictions) -> Floats:
    """float64[n] in us: what the library itself expects of its choice; NaN of what it has no estimate for."""
    found = np.full(len(rows), np.nan)
    for row in range(len(rows)):
        one = rows.curves[rows.curve[row]]
        operation = Operation(one.kind, int(rows.bytes[row]), bool(rows.place[row]), one.item_bytes)
        expected = choice_of(one.site, one.library, operation, one.settings).predicted_us
        if expected > 0:
            found[row] = expected
    return found


def every_second(curve: Ints, sizes: Ints) -> Ints:
    """int64[n]: 0 or 1 by turns, over the sizes of each curve; of a size both places have the same."""
    order = np.lexsort((sizes, curve))
    of, size = curve[order], sizes[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = of[1:] != of[:-1]
    new = first.copy()
    new[1:] |= size[1:] != size[:-1]
    rank = np.cumsum(new) - 1
    found = np.empty(len(order), np.int64)
    found[order] = (rank - np.maximum.accumulate(np.where(first, rank, 0))) % _PARTS
    return found


def from_other_sizes(rows: Predictions, of: Callable[[Floats, Floats, Floats], Floats]) -> Floats:
    """float64[n] in us: each half of a curve's sizes, by turns, from the measured times of the other half."""
    found, part = np.full(len(rows), np.nan), every_second(rows.curve, rows.bytes)
    for hidden in range(_PARTS):
        some = part == hidden
        found[some] = from_shown(rows, ~some, of)[some]
    return found


def from_shown(rows: Predictions, shown: Bools, of: Callable[[Floats, Floats, Floats], Floats]) -> Floats:
    """float64[n] in us: rows from those of the same curve and place that are shown; NaN where fewer than two are."""
    found = np.full(len(rows), np.nan)
    key = rows.curve * 2 + rows.place
    order = np.argsort(key, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        told = group[shown[group] & ~np.isnan(rows.time_us[group])]
        if len(np.unique(rows.bytes[told])) >= 2:
            sizes = rows.bytes.astype(np.float64)
            found[group] = of(sizes[told], rows.time_us[told], sizes[group])
    return found


def interpolated(sizes: Floats, times: Floats, wanted: Floats) -> Floats:
    """Straight lines between points by logarithms, and on beyond the last two."""
    x, which = np.unique(np.log(sizes), return_inverse=True)
    y = np.bincount(which, weights=np.log(times)) / np.bincount(which)
    at = np.log(wanted)
    piece = np.clip(np.searchsorted(x, at) - 1, 0, len(x) - 2)
    slope = (y[piece + 1] - y[piece]) / (x[piece + 1] - x[piece])
    return np.asarray(np.exp(y[piece] + slope * (at - x[piece])))


def alpha_beta(sizes: Floats, times: Floats, wanted: Floats) -> Floats:
    """A latency and a bandwidth whose relative errors are least, in the mean of their absolute values."""
    one, other = 1 / times, sizes / times
    weight = np.ones(len(sizes))
    alpha = beta = 0.0
    for _ in range(_TURNS):
        a, b, c = (float((weight * product).sum()) for product in (one * one, one * other, other * other))
        d, e = float((weight * one).sum()), float((weight * other).sum())
        alpha, beta = (d * c - b * e) / (a * c - b * b), (a * e - b * d) / (a * c - b * b)
        weight = 1 / np.maximum(np.abs(1 - alpha * one - beta * other), 1e-3)
    return np.asarray(np.maximum(alpha + beta * wanted, 1e-9))


FROM_SIZES: Final = {ALPHA_BETA: alpha_beta, INTERPOLATION: interpolated}
"""Baselines that know other sizes of a curve, by name."""
