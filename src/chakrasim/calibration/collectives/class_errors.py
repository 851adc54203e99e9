"""Errors by class of sizes, pooled so that each curve counts the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chakrasim.calibration.collectives.design import Floats, Ints
from chakrasim.collectives.libraries.calibrated import CLASS_NAMES
from chakrasim.collectives.libraries.model import SIZE_CLASSES, size_classes


@dataclass(frozen=True)
class ClassErrors:
    """Mean absolute errors in per cent, and the share of times inside the interval, of one class of sizes: the mean
    of each curve, then over curves. ``name`` tells the class, ``half_width`` is the median of the intervals', in per
    cent. None where there is no point."""

    name: str
    points: int
    error_percent: float | None
    covered_percent: float | None
    half_width_percent: float | None


def mean_of_curves(curve: Ints, error: Floats) -> tuple[int, float]:
    """How many curves there are, and the mean of each curve's errors, then over curves: of rows, with an index of the
    curve of each; NaN of none."""
    counts = np.bincount(curve)
    has = counts > 0
    mean = float((np.bincount(curve, error)[has] / counts[has]).mean()) if has.any() else float("nan")
    return int(has.sum()), mean


def class_errors(
    curve: Sequence[str], size_bytes: Sequence[int], time_us: Sequence[float], predicted_us: Sequence[float],
    low_us: Sequence[float], high_us: Sequence[float],
) -> tuple[ClassErrors, ...]:  # fmt: skip
    """The errors of points that have a time, one for each class of sizes."""
    times, predicted = np.array(time_us, np.float64), np.array(predicted_us, np.float64)
    low, high, names = np.array(low_us, np.float64), np.array(high_us, np.float64), np.array(curve, np.str_)
    sized, index = size_classes(np.array(size_bytes, np.int64)), np.unique(names, return_inverse=True)[1]
    found = []
    for number in range(len(SIZE_CLASSES) + 1):
        which = (sized == number) & (times > 0)
        if not which.any():
            found.append(ClassErrors(CLASS_NAMES[number], 0, None, None, None))
            continue
        off = np.abs(predicted[which] / times[which] - 1)
        inside = (low[which] <= times[which]) & (times[which] <= high[which])
        found.append(
            ClassErrors(
                CLASS_NAMES[number],
                int(which.sum()),
                100 * mean_of_curves(index[which], off)[1],
                float(100 * inside.mean()),
                float(100 * np.median(np.sqrt(high[which] / low[which]) - 1)),
            )
        )
    return tuple(found)
