"""Quantiles of drawn values, each with what chance may have made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.event_graph.graph import Floats

LEVELS: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
_DEVIATIONS: Final = 1.96


@dataclass(frozen=True)
class Quantile:
    """A value that is not exceeded with some probability; ``low`` to ``high`` holds it in 95 of 100 sets of draws."""

    value: float
    low: float
    high: float

    def to_dict(self, unit: str) -> dict[str, float]:
        """Plain values, the unit in their keys."""
        return {f"{name}_{unit}": value for name, value in vars(self).items()}


def quantile(ordered: Floats, level: float) -> Quantile:
    """A quantile of values in ascending order, its interval by order statistics (binomial, by its normal limit)."""
    draws = len(ordered)
    around = _DEVIATIONS * np.sqrt(draws * level * (1 - level))
    low, high = np.clip((np.floor(draws * level - around), np.ceil(draws * level + around)), 0, draws - 1)
    return Quantile(float(np.quantile(ordered, level)), float(ordered[int(low)]), float(ordered[int(high)]))
