"""The constants of one machine and library, fitted to its own points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.calibration.collectives.design import Design, Floats
from chakrasim.calibration.collectives.levels import SIGMA, balance, factors, shares
from chakrasim.collectives.libraries.model import SIZE_CLASSES, Constants, Model

MOST_CONSTANTS: Final = 12
"""Freed for a machine and library: those that its points say most about."""
_STEPS: Final = 60
_PRIOR_POINTS: Final = 12.0
"""Residuals of a size class are those of this many points of the prior, and the machine's."""


@dataclass(frozen=True, eq=False)
class Own:
    """A fit: constants freed, their logarithms, and their covariance."""

    free: tuple[str, ...]
    values: Floats
    covariance: Floats


def fit_own(design: Design, model: Model) -> Own:
    """Fit the constants of the one group that ``design`` has points of, all with a time."""
    base = factors(design, model)
    names, owner = design.constants, design.owner
    sd = np.array([model.spread.get(name, 0.3) for name in names])
    told = ((shares(design, base) / SIGMA[design.sized][:, None]) ** 2).sum(axis=0) * sd**2
    free = np.sort(np.argsort(-told, kind="stable")[:MOST_CONSTANTS])
    free = free[told[free] > 0]
    where = np.eye(len(names))[owner][:, free]
    weight = balance(design)

    def times(at: Floats) -> Floats:
        return np.asarray(base * np.exp(where @ at))

    def off(found: Floats) -> Floats:
        return np.asarray((np.log(found.sum(axis=1)) - design.log_time) / SIGMA[design.sized])

    def cost(at: Floats, far: Floats) -> float:
        return float((weight * 2 * (np.sqrt(1 + far * far) - 1)).sum() + ((at / sd[free]) ** 2).sum())

    at, damping = np.zeros(len(free)), 1e-3
    found = times(at)
    far = off(found)
    least, bend = cost(at, far), np.diag(sd[free] ** -2)
    for _ in range(_STEPS):
        slope = (found / found.sum(axis=1)[:, None]) @ where / SIGMA[design.sized][:, None]
        weighed = slope * (weight / np.sqrt(1 + far * far))[:, None]
        bend = weighed.T @ slope + np.diag(sd[free] ** -2)
        step = np.linalg.solve(bend + damping * np.diag(np.diag(bend)), -(weighed.T @ far + at / sd[free] ** 2))
        new = times(at + np.clip(step, -1, 1))
        new_far = off(new)
        lower = cost(at + np.clip(step, -1, 1), new_far)
        if lower >= least:
            damping *= 6
            if damping > 1e6:
                break
            continue
        settled = least - lower < 1e-6 * least
        at, found, far, least, damping = at + np.clip(step, -1, 1), new, new_far, lower, max(damping / 5, 1e-9)
        if settled:
            break
    return Own(tuple(names[k] for k in free), at, np.linalg.inv(bend))


def predicted(design: Design, model: Model, own: Own | None = None) -> Floats:
    """float64[n]: times in us."""
    times = factors(design, model)
    if own is not None:
        index = {name: at for at, name in enumerate(design.constants)}
        log = np.zeros(len(design.constants))
        for name, value in zip(own.free, own.values.tolist(), strict=True):
            if name in index:
                log[index[name]] = value
        times = times * np.exp(log[design.owner])
    return np.asarray(times.sum(axis=1))


def left_over(design: Design, model: Model) -> Floats:
    """float64[n]: how far each point is off, as a logarithm, when a quarter of the sizes at a time is left out."""
    sizes = np.array([design.curves[c].curve.bytes[r] for c, r in zip(design.curve, design.row, strict=True)])
    off = np.full(len(design), np.nan)
    _, rank = np.unique(sizes, return_inverse=True)
    parts = 4
    for part in range(parts):
        out: NDArray[np.bool_] = rank % parts == part
        if out.all() or not out.any():
            continue
        own = fit_own(design.some(~out), model)
        some = design.some(out)
        off[out] = some.log_time - np.log(predicted(some, model, own))
    return off


def constants_of(design: Design, model: Model, source: str = "") -> Constants:
    """The constants of a group with their covariance, and what is left over by size class."""
    own, off = fit_own(design, model), left_over(design, model)
    residual = []
    for sized in range(len(SIZE_CLASSES) + 1):
        some = np.abs(off[(design.sized == sized) & ~np.isnan(off)])
        prior = float(SIGMA[sized])
        residual.append(float((_PRIOR_POINTS * prior + (some.sum() * 1.25)) / (_PRIOR_POINTS + len(some))))
    values = dict(zip(own.free, own.values.tolist(), strict=True))
    return Constants(values, tuple(map(tuple, own.covariance.tolist())), tuple(residual), source)
