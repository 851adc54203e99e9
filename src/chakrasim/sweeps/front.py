"""What nothing else beats in everything."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def front_of(figures: Floats) -> NDArray[np.intp]:
    """The rows of float64[n, axes] that no other row is as small as in every axis and smaller in one, ascending; of
    equal rows all. Rows with NaN are none of them."""
    rows = np.flatnonzero(~np.isnan(figures).any(axis=1))
    if not len(rows):
        return rows
    rows = rows[np.lexsort(figures[rows].T[::-1])]
    kept: list[int] = []
    best = np.empty((0, figures.shape[1]))
    for row in rows.tolist():
        own = figures[row]
        beaten = (best <= own).all(axis=1) & (best < own).any(axis=1)
        if not beaten.any():
            kept.append(row)
            best = np.vstack([best, own])
    return np.array(sorted(kept), np.intp)
