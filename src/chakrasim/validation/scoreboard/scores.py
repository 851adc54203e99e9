"""Figures of rows of predictions: errors and intervals by size class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrasim.validation.scoreboard.predictions import CLASSES, Bools, Predictions


@dataclass(frozen=True)
class Score:
    """Of a size class: rows, curves, and the mean absolute error in per cent: of each curve, then of curves."""

    points: int
    curves: int
    error_pct: float


@dataclass(frozen=True)
class Coverage:
    """Of a size class: rows with an interval, how many of them it holds, and the median half width, in per cent."""

    points: int
    inside_pct: float
    half_width_pct: float


def scores(rows: Predictions, which: Bools | None = None) -> tuple[Score, ...]:
    """By size class, of the rows that have both times."""
    known = rows.known if which is None else rows.known & which
    sized, error = rows.sized, np.abs(rows.error_pct)
    found = []
    for at in range(len(CLASSES)):
        some = known & (sized == at)
        counts = np.bincount(rows.curve[some], minlength=len(rows.curves))
        sums = np.bincount(rows.curve[some], weights=error[some], minlength=len(rows.curves))
        has = counts > 0
        mean = float((sums[has] / counts[has]).mean()) if has.any() else float("nan")
        found.append(Score(int(some.sum()), int(has.sum()), mean))
    return tuple(found)


def coverage(rows: Predictions, which: Bools | None = None) -> tuple[Coverage, ...]:
    """By size class, and of all together, of the rows that have a time and an interval."""
    known = rows.known & ~np.isnan(rows.low_us)
    known = known if which is None else known & which
    sized = rows.sized
    return (*(_coverage(rows, known & (sized == at)) for at in range(len(CLASSES))), _coverage(rows, known))


def _coverage(rows: Predictions, some: Bools) -> Coverage:
    if not some.any():
        return Coverage(0, float("nan"), float("nan"))
    inside, half = 100 * rows.inside[some].mean(), np.median(rows.half_width_pct[some])
    return Coverage(int(some.sum()), float(inside), float(half))
