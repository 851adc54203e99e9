"""The constants of one machine and library, fitted to its own points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.calibration.collectives.descent import Solve, least
from chakrasim.calibration.collectives.design import Design, Floats
from chakrasim.calibration.collectives.levels import SIGMA, balance, factors
from chakrasim.collectives.libraries.calibrated import MOST_CONSTANTS
from chakrasim.collectives.libraries.model import COVERED, SIZE_CLASSES, WIDE, Constants, Model

FREEDOM: Final = 2.5
"""A machine's own points may move constants this much further than those of other machines are spread."""
SD_TERM: Final = (0.2, 1.0)
"""Of single terms beside their constants, inside nodes and between them: logarithms."""
_SWAPS: Final = 30
_FARTHEST: Final = 5.0
"""A logarithm that keeps a first try from overflowing."""
_PRIOR: Final = (0.06, 0.08, 0.05, 0.012)
_PRIOR_POINTS: Final = 3.0
"""Residuals of a size class are those of this many points of the prior, and the machine's."""

_State = tuple[Floats, Floats]
"""Times of terms, and by how much each point is off."""


@dataclass(frozen=True, eq=False)
class Own:
    """A fit: constants freed, their logarithms, and their covariance."""

    free: tuple[str, ...]
    values: Floats
    covariance: Floats


def fit_own(design: Design, model: Model) -> Own:
    """Fit the constants of the one group that ``design`` has points of, all with a time.

    All, and single terms of theirs, are fitted first; those stay free, at most `MOST_CONSTANTS`, that the fit would
    lose most without. Then what it loses least without gives way to what it would gain most with, while that helps.
    """
    problem = _Problem(design, model)
    everything = np.flatnonzero(problem.told > 0)
    at, bend = problem.least(everything)
    free = everything[_worth(at, np.asarray(np.linalg.inv(bend)))]
    at, bend = problem.least(free)
    cost = problem.cost(free, at)
    for _ in range(_SWAPS if len(free) < len(everything) else 0):
        other = free.copy()
        gain = problem.gain(free, at, bend)
        gain[np.setdiff1d(np.arange(len(gain)), everything)] = 0.0
        other[np.argmin(at**2 / np.diag(np.linalg.inv(bend)))] = np.argmax(gain)
        new, new_bend = problem.least(other)
        lower = problem.cost(other, new)
        if lower >= cost:
            break
        free, at, bend, cost = other, new, new_bend, lower
    order = np.argsort(free)
    free, at, covariance = free[order], at[order], np.linalg.inv(bend)[np.ix_(order, order)]
    return Own(tuple(problem.names[k] for k in free), at, np.asarray(covariance))


def _worth(at: Floats, covariance: Floats) -> NDArray[np.intp]:
    """Of constants at a fit, those that are left when what the fit loses least without is taken out, one by one; the
    others then move as their covariance says."""
    left = np.arange(len(at))
    while len(left) > MOST_CONSTANTS:
        out = int(np.argmin(at**2 / np.diag(covariance)))
        column, variance = covariance[:, out], covariance[out, out]
        at, covariance = at - column * at[out] / variance, covariance - np.outer(column, column) / variance
        kept = np.arange(len(left)) != out
        at, covariance, left = at[kept], covariance[np.ix_(kept, kept)], left[kept]
    return left


def names_of(design: Design) -> tuple[str, ...]:
    """What may be fitted: constants, and terms by themselves."""
    return (*design.constants, *design.names)


def _acts(design: Design) -> Floats:
    """float64[terms, names]: which terms each of them acts on."""
    return np.concatenate([np.eye(len(design.constants))[design.owner], np.eye(len(design.names))], axis=1)


class _Problem:
    """The points of a group, and where its constants act."""

    def __init__(self, design: Design, model: Model) -> None:
        self.design = design
        self.base = factors(design, model)
        self.sigma, self.log_time = SIGMA[design.sized], design.log_time
        self.names = names_of(design)
        single = [SD_TERM[name.startswith("net.")] for name in design.names]
        self.sd = np.array([FREEDOM * sd for sd in model.spread_of(design.constants)] + single)
        self.acts = _acts(design)
        self.told = self.base.sum(axis=0) @ self.acts
        self.weight = balance(design)

    def least(self, free: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """The logarithms of the free constants, and the curvature of the fit there."""
        acts, sd = self.acts[:, free], self.sd[free]

        def bend(state: _State) -> Floats:
            slope, weighed = self._slopes(*state, acts)
            return np.asarray(weighed.T @ slope + np.diag(sd**-2))

        def equations(at: Floats, state: _State) -> Solve:
            bent, pull = bend(state), self._slopes(*state, acts)[1].T @ state[1] + at / sd**2
            return lambda damping: np.linalg.solve(bent + damping * np.diag(np.diag(bent)), -pull)

        at, state = least(np.zeros(len(free)), lambda at: self._cost(at, acts, sd), equations, 1.0, 1e-6)
        return at, bend(state)

    def cost(self, free: NDArray[np.intp], at: Floats) -> float:
        """What the fit makes least."""
        return self._cost(at, self.acts[:, free], self.sd[free])[0]

    def gain(self, free: NDArray[np.intp], at: Floats, bend: Floats) -> Floats:
        """float64[names]: what the fit would gain if one more were free, about; 0 for those that are."""
        _, (times, off) = self._cost(at, self.acts[:, free], self.sd[free])
        slope, weighed = self._slopes(times, off, self.acts)
        across = weighed.T @ slope[:, free]
        alone = (weighed * slope).sum(axis=0) + self.sd**-2
        left = alone - (across * np.linalg.solve(bend, across.T).T).sum(axis=1)
        gain = (weighed.T @ off) ** 2 / np.maximum(left, 1e-12)
        gain[free] = 0.0
        return np.asarray(gain)

    def _slopes(self, times: Floats, off: Floats, acts: Floats) -> tuple[Floats, Floats]:
        """By logarithms of factors: how ``off`` moves, and that times what a point counts."""
        slope = (times / times.sum(axis=1)[:, None]) @ acts * (1 / self.sigma + off)[:, None]
        return slope, slope * (self.weight / np.sqrt(1 + off * off))[:, None]

    def _cost(self, at: Floats, acts: Floats, sd: Floats) -> tuple[float, _State]:
        """What the fit makes least, times of terms, and by how much of the measured time each point is off, in its
        sigmas: errors are told in per cent of what was measured, so that is what is made small."""
        times = self.design.overlapped(self.base * np.exp(acts @ at))
        ratio = np.exp(np.minimum(np.log(times.sum(axis=1)) - self.log_time, _FARTHEST))
        off = (ratio - 1) / self.sigma
        cost = (self.weight * 2 * (np.sqrt(1 + off * off) - 1)).sum() + ((at / sd) ** 2).sum()
        return float(cost), (times, off)


def predicted(design: Design, model: Model, own: Own | None = None) -> Floats:
    """float64[n]: times in us."""
    return np.asarray(_times(design, model, own).sum(axis=1))


def _times(design: Design, model: Model, own: Own | None) -> Floats:
    """float64[n, terms] in us, as they add up."""
    log = np.zeros(len(names_of(design)))
    if own is not None:
        index = {name: at for at, name in enumerate(names_of(design))}
        for name, value in zip(own.free, own.values.tolist(), strict=True):
            if name in index:
                log[index[name]] = value
    return design.overlapped(factors(design, model) * np.exp(_acts(design) @ log))


def needed(design: Design, model: Model, own: Own) -> Floats:
    """float64[n]: the residual (a standard deviation of logarithms) that an interval needs to reach each point, beside
    what the constants are uncertain by."""
    times = _times(design, model, own)
    total = times.sum(axis=1)
    index = {name: at for at, name in enumerate(names_of(design))}
    share = (times / total[:, None]) @ _acts(design)[:, [index[name] for name in own.free]]
    known = ((share @ own.covariance) * share).sum(axis=1)
    off = (design.log_time - np.log(total)) / WIDE
    return np.asarray(np.sqrt(np.maximum(off**2 - known, 0.0)))


def left_over(design: Design, model: Model) -> Floats:
    """float64[n]: what each point needs (`needed`) when a quarter of the sizes at a time is left out; NaN where that
    leaves nothing to fit."""
    found = np.full(len(design), np.nan)
    _, rank = np.unique(design.bytes, return_inverse=True)
    parts = 4
    for part in range(parts):
        out: NDArray[np.bool_] = rank % parts == part
        if not out.all() and out.any():
            found[out] = needed(design.some(out), model, fit_own(design.some(~out), model))
    return found


def constants_of(design: Design, model: Model, source: str = "") -> Constants:
    """The constants of a group with their covariance, and what is left over by size class."""
    own, left = fit_own(design, model), left_over(design, model)
    residual = []
    for sized in range(len(SIZE_CLASSES) + 1):
        some = left[(design.sized == sized) & ~np.isnan(left)]
        prior = _PRIOR[sized]
        own_share = float(np.quantile(some, COVERED)) if len(some) else 0.0
        residual.append((_PRIOR_POINTS * prior + len(some) * own_share) / (_PRIOR_POINTS + len(some)))
    values = dict(zip(own.free, own.values.tolist(), strict=True))
    return Constants(values, tuple(map(tuple, own.covariance.tolist())), tuple(residual), source)
