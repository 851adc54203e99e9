"""What points that were not tried come to, from those that were: by how alike they are, key by key.

A Gaussian process whose covariance is the product over keys of 1 + c k, with k = exp(-distance) of a key's values: a
sum of effects of each key alone, of each pair, and so on, ever smaller (Durrande, Ginsbourger and Roustant 2012).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.sweeps.space import Point, Space

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

_AMOUNT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(.*)")
_LARGEST: Final = 1e300
_WEIGHT: Final = 0.5
"""c: of effects of one more key, beside those of fewer."""
_REACH: Final = 1.0
"""Over the whole range of a key of numbers, the covariance falls by this power of e."""
_OTHER: Final = 1.0
"""The same between words."""
_NOISE: Final = 1e-5


def levels_of(values: Sequence[Any]) -> Floats | None:
    """Places of a key's values from 0 to 1, by logarithms where they go; None of words, which have no order."""
    found = [number_of(value) for value in values]
    numbers = [one[0] for one in found if one is not None]
    if len(numbers) < len(values) or len({one[1] for one in found if one is not None}) > 1:
        return None
    own = np.array(numbers)
    own = np.log(own) if (own > 0).all() else np.argsort(np.argsort(own)).astype(float)
    spread = float(own.max() - own.min())
    return (own - own.min()) / spread if spread else np.zeros(len(own))


def number_of(value: Any) -> tuple[float, str] | None:
    """A number and its unit, "" without one; None of other values, numbers without end among them."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (float(value), "") if abs(value) < _LARGEST else None
    match = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    return (float(match[1]), match[2].strip()) if match and float(match[1]) < _LARGEST else None


class Likeness:
    """Covariances of points of a space, each by its places of the keys and of what follows from them."""

    def __init__(self, space: Space, rows: Sequence[int], derived: Sequence[Point]) -> None:
        """``derived``: figures that follow from each row's keys, all of the same names."""
        own = np.array(np.unravel_index(np.asarray(rows, np.intp), [len(v) for v in space.vary.values()]), np.intp).T
        self.tables: list[Floats] = []
        for values in space.vary.values():
            places = levels_of(values)
            if places is None:
                far = _OTHER * (1 - np.eye(len(values)))
            else:
                far = _REACH * abs(places[:, None] - places[None, :])
            self.tables.append(1 + _WEIGHT * np.exp(-far))
        more = []
        for name in derived[0] if derived else ():
            figures, at = np.unique([one[name] for one in derived], return_inverse=True)
            places = levels_of(figures.tolist())
            assert places is not None
            self.tables.append(1 + _WEIGHT * np.exp(-_REACH * abs(places[:, None] - places[None, :])))
            more.append(at)
        self.at = np.column_stack([own, *more]) if more else own

    def between(self, some: Rows, others: Rows) -> Floats:
        """float64[some, others]: covariances."""
        found = np.ones((len(some), len(others)))
        for key, table in enumerate(self.tables):
            found *= table[self.at[some, key]][:, self.at[others, key]]
        return found


class Guess:
    """Of figures that are known at some points, what they are elsewhere."""

    def __init__(self, covariances: Floats, figures: Floats) -> None:
        """float64[n, n] between the known points; float64[n, k]: what is known there."""
        self.mean = figures.mean(axis=0)
        scale = float(np.mean(np.diag(covariances)))
        noisy = covariances + _NOISE * scale * np.eye(len(covariances))
        inverse = np.linalg.inv(noisy)
        self.weights = inverse @ (figures - self.mean)
        self.off = np.sqrt(np.mean((self.weights / np.diag(inverse)[:, None]) ** 2, axis=0))
        """float64[k]: root mean square of the errors where a point is guessed from the others."""

    def at(self, covariances: Floats) -> Floats:
        """float64[m, k]: of points whose covariances with the known ones are float64[m, n]."""
        found: Floats = covariances @ self.weights + self.mean
        return found
