"""How far predictions are off on machines that were not in the fit: what the intervals of others are made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from chakrasim.calibration.collectives.design import Design, Floats
from chakrasim.calibration.collectives.levels import factors, fit_levels, shares
from chakrasim.calibration.collectives.own import predicted
from chakrasim.collectives.libraries.model import COVERED, SCOPES, SIZE_CLASSES, WIDE, Model
from chakrasim.progress import Progress, told

Bools = NDArray[np.bool_]
_SMALL = 30.0
"""Points of a scope that count as much as all scopes together."""


def fit_model(design: Design, basis: str = "", show: Progress | None = None) -> Model:
    """The model of all points, with residuals from leaving out one machine after the other."""
    known = ~np.isnan(design.log_time)
    _, needed = left_out(design, known, show)
    residual = residual_by_scope(design.some(known), needed[known])
    return replace(fit_levels(design.some(known)).model(basis), residual=residual)


def left_out(design: Design, fitted: Bools, show: Progress | None = None) -> tuple[dict[str, Model], Floats]:
    """For each machine the model of the others' points among ``fitted``, bool[n], and float64[n] the residual that each
    of these points needs then. A machine that has all the points fitted has no model, and needs nothing."""
    machines, machine = design.labels([one.curve.machine for one in design.curves])
    models: dict[str, Model] = {}
    needed = np.zeros(len(design))
    for at, name in told(list(enumerate(machines)), lambda step: f"fitting without {step[1]}", show):
        own = machine == at
        if (fitted & ~own).any():
            models[name] = fit_levels(design.some(fitted & ~own)).model(f"all but {name}")
            needed[fitted & own] = residual_needed(design.some(fitted & own), models[name])
    return models, needed


def residual_by_scope(design: Design, needed: Floats) -> dict[str, tuple[float, ...]]:
    """The residuals that cover nine points of ten, by scope and size class."""
    scopes = np.array([SCOPES.index(scope) for scope in design.scopes()])[design.curve]
    return {name: _sized(needed, design, scopes == at) for at, name in enumerate(SCOPES)}


def residual_needed(design: Design, model: Model) -> Floats:
    """float64[n]: the residual (as a standard deviation of logarithms) that an interval needs to reach each point."""
    off = np.abs(design.log_time - np.log(predicted(design, model))) / WIDE
    share = shares(design, factors(design, model))
    spread = np.array(model.spread_of(design.constants))
    known = ((share * spread) ** 2).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(off**2 - known, 0.0)))


def _sized(needed: Floats, design: Design, which: Bools) -> tuple[float, ...]:
    """By size class, the residual that covers nine points of ten."""
    found = []
    for sized in range(len(SIZE_CLASSES) + 1):
        of_all = needed[design.sized == sized]
        some = needed[which & (design.sized == sized)]
        own = float(np.quantile(some, COVERED)) if len(some) else 0.0
        every = float(np.quantile(of_all, COVERED)) if len(of_all) else 0.3
        found.append((len(some) * own + _SMALL * every) / (len(some) + _SMALL))
    return tuple(found)
