"""The constants of one machine and library, fitted to its own points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.calibration.collectives.design import Design, Floats
from chakrasim.calibration.collectives.levels import SIGMA, balance, factors, shares
from chakrasim.collectives.libraries.model import COVERED, SIZE_CLASSES, WIDE, Constants, Model

MOST_CONSTANTS: Final = 12
"""Freed for a machine and library: those that its points say most about."""
FREEDOM: Final = 2.5
"""A machine's own points may move constants this much further than those of other machines are spread."""
_STEPS: Final = 60
_PRIOR_POINTS: Final = 3.0
"""Residuals of a size class are those of this many points of the prior, and the machine's."""


@dataclass(frozen=True, eq=False)
class Own:
    """A fit: constants freed, their logarithms, and their covariance."""

    free: tuple[str, ...]
    values: Floats
    covariance: Floats


def fit_own(design: Design, model: Model) -> Own:
    """Fit the constants of the one group that ``design`` has points of, all with a time.

    All are fitted first; those stay free, at most `MOST_CONSTANTS`, that the fit would lose most without.
    """
    problem = _Problem(design, model)
    everything = np.flatnonzero(problem.told > 0)
    at, bend = problem.least(everything)
    loss = at**2 / np.diag(np.linalg.inv(bend))
    free = np.sort(everything[np.argsort(-loss, kind="stable")[:MOST_CONSTANTS]])
    at, bend = problem.least(free)
    return Own(tuple(design.constants[k] for k in free), at, np.asarray(np.linalg.inv(bend)))


class _Problem:
    """The points of a group, and where its constants act."""

    def __init__(self, design: Design, model: Model) -> None:
        self.base = factors(design, model)
        self.sigma, self.log_time = SIGMA[design.sized], design.log_time
        self.sd = FREEDOM * np.array(model.spread_of(design.constants))
        self.told = shares(design, self.base).sum(axis=0)
        self.acts = np.eye(len(design.constants))[design.owner]
        self.weight = balance(design)

    def least(self, free: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """The logarithms of the free constants, and the curvature of the fit there."""
        acts, sd = self.acts[:, free], self.sd[free]
        at, damping = np.zeros(len(free)), 1e-3
        cost, times, off = self._cost(at, acts, sd)
        bend = np.diag(sd**-2)
        for _ in range(_STEPS):
            slope = (times / times.sum(axis=1)[:, None]) @ acts / self.sigma[:, None]
            weighed = slope * (self.weight / np.sqrt(1 + off * off))[:, None]
            bend = weighed.T @ slope + np.diag(sd**-2)
            pull = weighed.T @ off + at / sd**2
            step = np.clip(np.linalg.solve(bend + damping * np.diag(np.diag(bend)), -pull), -1, 1)
            new, new_times, new_off = self._cost(at + step, acts, sd)
            if new >= cost:
                damping *= 6
                if damping > 1e6:
                    break
                continue
            settled = cost - new < 1e-6 * cost
            at, cost, times, off, damping = at + step, new, new_times, new_off, max(damping / 5, 1e-9)
            if settled:
                break
        return at, bend

    def _cost(self, at: Floats, acts: Floats, sd: Floats) -> tuple[float, Floats, Floats]:
        times = self.base * np.exp(acts @ at)
        off = (np.log(times.sum(axis=1)) - self.log_time) / self.sigma
        return float((self.weight * 2 * (np.sqrt(1 + off * off) - 1)).sum() + ((at / sd) ** 2).sum()), times, off


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
        own_share = float(np.quantile(some, COVERED)) / WIDE if len(some) else 0.0
        residual.append((_PRIOR_POINTS * prior + len(some) * own_share) / (_PRIOR_POINTS + len(some)))
    values = dict(zip(own.free, own.values.tolist(), strict=True))
    return Constants(values, tuple(map(tuple, own.covariance.tolist())), tuple(residual), source)
