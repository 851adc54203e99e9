"""How far predictions are off on machines that were not in the fit: what the intervals of others are made of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from chakrasim.calibration.collectives.design import Design, Floats
from chakrasim.calibration.collectives.levels import factors, fit_levels, shares, with_residual
from chakrasim.calibration.collectives.own import predicted
from chakrasim.collectives.libraries.model import COVERED, SIZE_CLASSES, WIDE, Model

_SCOPES = ("node", "network", "other")
_SMALL = 30.0
"""Points of a scope that count as much as all scopes together."""


def fit_model(design: Design, basis: str = "", show: Callable[[int, int, str], None] | None = None) -> Model:
    """The model of all points, with residuals from leaving out one machine after the other."""
    known = design.some(~np.isnan(design.log_time))
    machines, machine = known.labels([one.curve.machine for one in known.curves])
    needed = np.zeros(len(known))
    for at, name in enumerate(machines):
        if show is not None:
            show(at, len(machines), str(name))
        out = machine == at
        if not out.all():
            model, some = fit_levels(known.some(~out)).model(), known.some(out)
            needed[out] = residual_needed(some, model)
    if show is not None:
        show(len(machines), len(machines), "")
    model = fit_levels(known).model(basis)
    return with_residual(model, residual_by_scope(known, needed))


def residual_by_scope(design: Design, needed: Floats) -> dict[str, tuple[float, ...]]:
    """The residuals that cover nine points of ten, by scope and size class."""
    scopes = np.array([_SCOPES.index(scope) for scope in design.scopes()])[design.curve]
    return {name: _sized(needed, design, scopes == at) for at, name in enumerate(_SCOPES)}


def residual_needed(design: Design, model: Model) -> Floats:
    """float64[n]: the residual (as a standard deviation of logarithms) that an interval needs to reach each point."""
    off = np.abs(design.log_time - np.log(predicted(design, model))) / WIDE
    share = shares(design, factors(design, model))
    spread = np.array([model.spread.get(name, 0.3) for name in design.constants])
    known = ((share * spread) ** 2).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(off**2 - known, 0.0)))


def _sized(needed: Floats, design: Design, which: NDArray[np.bool_]) -> tuple[float, ...]:
    """By size class, the residual that covers nine points of ten."""
    found = []
    for sized in range(len(SIZE_CLASSES) + 1):
        of_all = needed[design.sized == sized]
        some = needed[which & (design.sized == sized)]
        own = float(np.quantile(some, COVERED)) if len(some) else 0.0
        every = float(np.quantile(of_all, COVERED)) if len(of_all) else 0.3
        found.append((len(some) * own + _SMALL * every) / (len(some) + _SMALL))
    return tuple(found)
