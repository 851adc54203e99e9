"""How far off predictions are of collectives and numbers of ranks that were not measured."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakrasim.calibration.collectives.design import Design, Floats
from chakrasim.calibration.collectives.levels import SIGMA
from chakrasim.calibration.collectives.own import fit_own, predicted
from chakrasim.collectives.libraries.model import SIZE_CLASSES, Model

_FOLDS = 8
_PRIOR = 2.0
"""What is unseen is taken to be off this many times as far as repeats, as long as nothing was measured beside it."""
_PRIOR_CASES = 2.0
"""So many cases the prior counts as."""


def residual_of_unseen(design: Design, model: Model, residual: tuple[float, ...]) -> tuple[float, ...]:
    """By size class, the standard deviation of what is left over (as a logarithm) where a collective, or a number of
    ranks, is held out of the fit; nowhere less than ``residual``, that of sizes held out."""
    kinds = design.labels([one.kind for one in design.curves])
    ranks = design.labels([(one.site.merged().nodes, one.site.nranks) for one in design.curves])
    cases, case = design.labels([(one.kind, one.site) for one in design.curves])
    off = [_off(design, model, len(names), which) for names, which in (kinds, ranks)]
    found = []
    for sized in range(len(SIZE_CLASSES) + 1):
        own = []
        for at in range(len(cases)):
            which = (design.sized == sized) & (case == at)
            squares = np.concatenate([one[which] for one in off]) ** 2
            if (~np.isnan(squares)).any():
                own.append(float(np.sqrt(np.nanmean(squares))))
        prior = _PRIOR * float(SIGMA[sized])
        found.append(max(residual[sized], (_PRIOR_CASES * prior + sum(own)) / (_PRIOR_CASES + len(own))))
    return tuple(found)


def _off(design: Design, model: Model, values: int, which: NDArray[np.int64]) -> Floats:
    """How far each point is off when all with its value, or those of some values where there are many, are left out."""
    off = np.full(len(design), np.nan)
    for fold in range(min(values, _FOLDS)):
        out = which % min(values, _FOLDS) == fold
        if out.all():
            continue
        some = design.some(out)
        off[out] = some.log_time - np.log(predicted(some, model, fit_own(design.some(~out), model)))
    return off
