"""Figures by which two jobs, or two orders, are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from chakrasim.comparison.jobs.measures import Measures

K = TypeVar("K")


def apart(a: Mapping[K, int], b: Mapping[K, int]) -> float:
    """Half the sum of the differences of shares, 0 (the same) to 1 (nothing in common)."""
    whole_a, whole_b = sum(a.values()), sum(b.values())
    if not whole_a or not whole_b:
        return float(bool(whole_a) != bool(whole_b))
    return sum(abs(a.get(key, 0) / whole_a - b.get(key, 0) / whole_b) for key in {*a, *b}) / 2


def relative(a: float, b: float) -> float:
    """The difference over the greater of two amounts, 0 to 1."""
    return abs(a - b) / max(abs(a), abs(b)) if a or b else 0.0


def kendall(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Kendall's rank correlation, tau-b, which counts ties on neither side; None where one side has nothing but ties.

    M. G. Kendall, "The treatment of ties in ranking problems", Biometrika 33 (1945).
    """
    first, second = (np.sign(np.subtract.outer(values, values))[np.triu_indices(len(values), 1)]
                     for values in (np.asarray(a, np.float64), np.asarray(b, np.float64)))  # fmt: skip
    whole = float(np.sqrt((first**2).sum() * (second**2).sum()))
    return float((first * second).sum()) / whole if whole else None


def regret(seen: Sequence[float], real: Sequence[float]) -> float:
    """How much longer the choice that is fastest by ``seen`` takes in ``real`` than the fastest there, as a share."""
    return real[int(np.argmin(seen))] / min(real) - 1 if min(real) > 0 else 0.0


def distance(a: Measures, b: Measures) -> float:
    """The mean, over all counts of roles and amounts of work of either job, of how many times one has what the other
    has, as a logarithm: 0 for equal figures, 0.69 where all are doubled."""
    found = []
    for name in ("roles", "flops", "moved", "sent", "calls"):
        first, second = getattr(a, name), getattr(b, name)
        found += [abs(np.log1p(first[key]) - np.log1p(second[key])) for key in {*first, *second}]
    return float(np.mean(sorted(found))) if found else 0.0
