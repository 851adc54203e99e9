"""What some measurements of a machine say of others: sizes, ranks, collectives and nodes that the fit has not seen.

The weights are fitted without the machine, then its constants to the points that are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from chakrasim.calibration.collectives.design import Design
from chakrasim.calibration.collectives.own import constants_of
from chakrasim.calibration.collectives.unseen import residual_of_unseen
from chakrasim.collectives.libraries.model import Model
from chakrasim.progress import Progress, told
from chakrasim.validation.scoreboard.baselines import FROM_SIZES, every_second, from_shown
from chakrasim.validation.scoreboard.predictions import (
    INFINIBAND,
    NODE,
    OTHER_NODE,
    Bools,
    Floats,
    Predictions,
    predict,
    scope_of_curve,
)

SIZES, RANKS, COLLECTIVE, NODES = "other sizes", "4 ranks from 2 and 8", "reduce-scatter", "other nodes, InfiniBand"
TASKS: Final = (SIZES, RANKS, COLLECTIVE, NODES)


@dataclass(frozen=True, eq=False)
class Cut:
    """Points of one machine and library that a fit sees, bool[points of the design], and rows that it is to predict,
    bool[rows of the board]."""

    fitted: Bools
    hidden: Bools


@dataclass(frozen=True, eq=False)
class Task:
    """Rows that were hidden, their predictions, and by name what baselines say of the same rows."""

    name: str
    predictions: Predictions
    baselines: Mapping[str, Floats]


def task_of(
    name: str, rows: Predictions, design: Design, models: Mapping[str, Model], progress: Progress | None = None
) -> Task:
    """One of `TASKS`. The curves of ``design`` are those of ``rows``; a machine without a model takes no part."""
    cuts = [cut for cut in cuts_of(name, rows, design) if _machine(design, cut) in models]
    found = rows.instead(np.full(len(rows), np.nan))
    for cut in told(cuts, lambda cut: f"{name}, {_machine(design, cut)}", progress):
        model = models[_machine(design, cut)]
        fitted = design.some(cut.fitted)
        constants = constants_of(fitted, model)
        if name != SIZES:
            constants = replace(constants, residual=residual_of_unseen(fitted, model, constants.residual))
        found = predict(found, cut.hidden, model, constants)
    hidden = ~np.isnan(found.predicted_us)
    baselines = {}
    if name == SIZES:
        baselines = {what: from_shown(rows, ~hidden, of)[hidden] for what, of in FROM_SIZES.items()}
    return Task(name, found.some(hidden), baselines)


def cuts_of(name: str, rows: Predictions, design: Design) -> Iterator[Cut]:
    """What is shown and hidden, machine by machine; only where both are there."""
    known = ~np.isnan(design.log_time)
    groups, group = design.labels([one.group for one in design.curves])
    of_row = np.array([groups.index(one.group) for one in rows.curves], np.int64)[rows.curve]
    for shown, hidden in _parts(name, rows, design):
        for at in range(len(groups)):
            cut = Cut(shown & known & (group == at), hidden & (of_row == at))
            if cut.fitted.any() and cut.hidden.any():
                yield cut


def _parts(name: str, rows: Predictions, design: Design) -> Iterator[tuple[Bools, Bools]]:
    if name == SIZES:
        yield every_second(design.curve, design.bytes) == 0, every_second(rows.curve, rows.bytes) == 1
        return
    for shown, hidden in _curves(name, design):
        yield shown[design.curve], hidden[rows.curve]


def _curves(name: str, design: Design) -> Iterator[tuple[Bools, Bools]]:
    """bool[curves] that are shown and hidden."""
    curves = design.curves
    alone = np.array([one.site.nodes == 1 and scope_of_curve(one) in (NODE, OTHER_NODE) for one in curves], np.bool_)
    ranks = np.array([one.site.nranks for one in curves], np.int64)
    nodes = np.array([one.site.nodes for one in curves], np.int64)
    if name == RANKS:
        measured = {(one.group, one.kind, one.site.nranks) for one in curves if one.site.nodes == 1}
        both = [all((one.group, one.kind, count) in measured for count in (2, 8)) for one in curves]
        yield alone & np.isin(ranks, (2, 8)), alone & (ranks == 4) & np.array(both, np.bool_)
    elif name == COLLECTIVE:
        measured_kinds = {(one.group, one.kind) for one in curves}
        shown = np.array([one.kind in ("all_reduce", "all_gather") for one in curves], np.bool_)
        both = [all((one.group, kind) in measured_kinds for kind in ("all_reduce", "all_gather")) for one in curves]
        hidden = np.array([one.kind == "reduce_scatter" for one in curves], np.bool_)
        yield shown, hidden & np.array(both, np.bool_)
    else:
        far = np.array([scope_of_curve(one) == INFINIBAND for one in curves], np.bool_)
        for count in np.unique(nodes[far]).tolist():
            hidden = far & (nodes == count)
            others = {one.group for one, other in zip(curves, far & ~hidden, strict=True) if other}
            yield ~hidden, hidden & np.array([one.group in others for one in curves], np.bool_)


def _machine(design: Design, cut: Cut) -> str:
    return design.curves[int(design.curve[np.flatnonzero(cut.fitted)[0]])].curve.machine
