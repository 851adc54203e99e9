"""Figures of rows of predictions: errors and intervals by size class."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Final

import numpy as np

from chakrasim.calibration.collectives.class_errors import mean_of_curves
from chakrasim.validation.scoreboard.predictions import CLASSES, Bools, Predictions

MANY: Final = 200


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

    @property
    def remark(self) -> str:
        """Whether so many rows inside are too few or too many for a 90 % interval: from `MANY` rows on beyond 85 to
        95 %, of fewer where nine of ten would come to that in one case of a hundred."""
        if not self.points:
            return ""
        low, high = (85.0, 95.0) if self.points >= MANY else _band(self.points)
        return "too few inside" if self.inside_pct < low else "too many inside" if self.inside_pct > high else ""


def scores(rows: Predictions, which: Bools | None = None) -> tuple[Score, ...]:
    """By size class, of the rows that have both times."""
    known = rows.known if which is None else rows.known & which
    sized, error = rows.sized, np.abs(rows.error_pct)
    found = []
    for at in range(len(CLASSES)):
        some = known & (sized == at)
        found.append(Score(int(some.sum()), *mean_of_curves(rows.curve[some], error[some])))
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


def _band(points: int) -> tuple[float, float]:
    """The least and the greatest per cent of rows inside that are not unlikely: beyond one end and the other
    half a case of a hundred."""
    chance = np.cumsum([comb(points, k) * 0.9**k * 0.1 ** (points - k) for k in range(points + 1)])
    low, high = np.searchsorted(chance, 0.005), np.searchsorted(chance, 0.995)
    return 100 * float(low) / points, 100 * float(high) / points
