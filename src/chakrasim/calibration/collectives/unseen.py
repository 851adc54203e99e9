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
    """By size class, the standard deviation of what is left over (as a logarithm) in cases, each a collective on some
    ranks, that are held out of the fit; nowhere less than ``residual``, that of sizes held out."""
    cases, case = design.labels([(one.kind, one.site) for one in design.curves])
    off = _off(design, model, len(cases), case)
    found = []
    for sized in range(len(SIZE_CLASSES) + 1):
        which = (design.sized == sized) & ~np.isnan(off)
        own = [float(np.sqrt((off[which & (case == at)] ** 2).mean())) for at in np.unique(case[which])]
        prior = _PRIOR * float(SIGMA[sized])
        found.append(max(residual[sized], (_PRIOR_CASES * prior + sum(own)) / (_PRIOR_CASES + len(own))))
    return tuple(found)


def _off(design: Design, model: Model, cases: int, case: NDArray[np.int64]) -> Floats:
    off = np.full(len(design), np.nan)
    for fold in range(min(cases, _FOLDS)):
        out = case % min(cases, _FOLDS) == fold
        if out.all():
            continue
        some = design.some(out)
        off[out] = some.log_time - np.log(predicted(some, model, fit_own(design.some(~out), model)))
    return off
