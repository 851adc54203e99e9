"""What predictions are worth on machines that nobody has measured: each is left out of the fit of the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from chakrasim.calibration.collectives.design import Design, matrix_of
from chakrasim.calibration.collectives.intervals import left_out, residual_by_scope
from chakrasim.calibration.measurements.curves import Measurements
from chakrasim.collectives.libraries.model import Model
from chakrasim.errors import InputError
from chakrasim.progress import Progress, told
from chakrasim.validation.scoreboard.predictions import Predictions, predict


def design_of_rows(rows: Predictions, measured: Measurements) -> Design:
    """The points of the rows' curves, pooled, as the fit takes them; curves in the same order."""
    points = {curve.name: curve for curve in measured.curves}
    return matrix_of([replace(one, curve=points[one.curve.name]) for one in rows.curves])


def models_without(design: Design, counts: Sequence[bool], progress: Progress | None = None) -> Mapping[str, Model]:
    """For each machine the model fitted to all others' curves that count (``counts``, by curve).

    The residual of its intervals is made of what these others need, each as predicted without itself. (So widths, not
    times, know a little of the machine: it was in the fits that those predictions are from. To leave out every pair
    would take as many fits as there are pairs.)
    """
    known = ~np.isnan(design.log_time) & np.array(counts, np.bool_)[design.curve]
    found, needed = left_out(design, known, progress)
    machines, machine = design.labels([one.curve.machine for one in design.curves])
    models: dict[str, Model] = {}
    for at, name in enumerate(map(str, machines)):
        if name not in found:
            raise InputError(
                "there is one machine, and none to fit the weights to", found=name, expected="two machines"
            )
        others = known & (machine != at)
        residual = residual_by_scope(design.some(others), needed[others])
        models[name] = replace(found[name], residual=residual)
    return models


def without_each(rows: Predictions, models: Mapping[str, Model], progress: Progress | None = None) -> Predictions:
    """The rows, each predicted by the model that has not seen its machine.

    Rows of machines without a time were in no fit, and keep their prediction.
    """
    machine = rows.of_curves([one.curve.machine for one in rows.curves])
    for name in told(list(models), lambda name: f"predicting {name}", progress):
        rows = predict(rows, np.asarray(machine == name), models[name])
    return rows
