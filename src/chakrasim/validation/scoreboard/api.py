"""The scoreboard of collectives: every measurement beside its prediction, and what that comes to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from chakrasim.calibration.collectives.design import Described, describe
from chakrasim.calibration.measurements.csv_folder import Rows, read_folder, read_rows
from chakrasim.calibration.measurements.curves import Measurements
from chakrasim.collectives.libraries.model import Model, shipped_model
from chakrasim.errors import InputError
from chakrasim.files.picture import Drawn
from chakrasim.notes import Notes
from chakrasim.progress import Progress, told
from chakrasim.validation.scoreboard.baselines import FROM_SIZES, LIBRARY, from_other_sizes, library_tables
from chakrasim.validation.scoreboard.predictions import (
    CLASSES,
    SCOPES,
    Bools,
    Floats,
    Predictions,
    pooled_curve,
    predict,
    scope_of_curve,
    unpredicted,
)
from chakrasim.validation.scoreboard.refit import design_of_rows, models_without, without_each
from chakrasim.validation.scoreboard.scores import coverage, scores
from chakrasim.validation.scoreboard.tasks import TASKS, Task, task_of

SHIPPED: Final = Path(__file__).parents[1] / "collectives"
"""The measurements that come with the package."""


@dataclass(frozen=True)
class Refused:
    """A curve without predictions: its rows, why, and whether it would have counted for pooled figures."""

    curve: str
    reason: str
    points: int
    pooled: bool


@dataclass(frozen=True, eq=False)
class Scoreboard(Drawn):
    """Measurements beside predictions.

    Attributes
    ----------
    source: the folder of the measurements, or that they come with the package.
    weights: what the model's weights were fitted to.
    predictions: the rows in the file's order, without those of ``refused``.
    pooled: bool by curve of the predictions: whether it counts for pooled figures.
    baselines: by name, float64[n] in us for the same rows, NaN where there is none.
    tasks: what was hidden of each machine's measurements and predicted from the others; without a refit none.
    """

    source: str
    weights: str
    predictions: Predictions
    pooled: tuple[bool, ...]
    refused: tuple[Refused, ...]
    baselines: Mapping[str, Floats] = field(default_factory=dict)
    tasks: tuple[Task, ...] = ()

    def scopes(self, rows: Predictions) -> dict[str, Bools]:
        """Those of the board's or a task's rows that count for pooled figures, by where they were measured; only what
        there is."""
        counted = rows.of_curves(self.pooled).astype(np.bool_) & rows.known
        scope = rows.of_curves([scope_of_curve(one) for one in rows.curves])
        found = {name: counted & (scope == name) for name in SCOPES}
        return {name: which for name, which in found.items() if which.any()}

    @property
    def refused_pct(self) -> float:
        """Of the curves that count for pooled figures, in per cent."""
        out = sum(one.pooled for one in self.refused)
        return 100 * out / max(out + sum(self.pooled), 1)

    def to_json(self) -> dict[str, Any]:
        """Plain values, as ``chakrasim validate collectives --json`` writes them."""
        return {
            "source": self.source,
            "weights": self.weights,
            "points": points_json(self.predictions),
            "refused": [{"curve": one.curve, "reason": one.reason, "points": one.points} for one in self.refused],
            "refused_pct": round(self.refused_pct, 3),
            "size_classes": list(CLASSES),
            **self._figures(self.predictions, self.baselines),
            "tasks": {task.name: self._figures(task.predictions, task.baselines) for task in self.tasks},
        }

    def _figures(self, rows: Predictions, baselines: Mapping[str, Floats]) -> dict[str, Any]:
        scopes, named = self.scopes(rows), with_baselines(rows, baselines)
        return {
            "error_pct": {
                scope: {name: [_plain(one.error_pct) for one in scores(some, which)] for name, some in named.items()}
                for scope, which in scopes.items()
            },
            "coverage_pct": {
                scope: [_plain(one.inside_pct) for one in coverage(rows, which)] for scope, which in scopes.items()
            },
            "half_width_pct": {
                scope: [_plain(one.half_width_pct) for one in coverage(rows, which)] for scope, which in scopes.items()
            },
        }


def validate_collectives(
    data: str | os.PathLike[str] | None = None,
    *,
    refit: bool = False,
    notes: Notes | None = None,
    progress: Progress | None = None,
    model: Model | None = None,
) -> Scoreboard:
    """Predict every measurement in a folder from the descriptions of its machines, and compare.

    Parameters
    ----------
    data: a folder with curves.csv, points.csv and machines.csv; by default that of the package. No measured column is
        read before all is predicted; points whose time is blank are predicted and not compared.
    refit: predict each machine by weights that were fitted to the others' measured times, instead of the shipped
        weights, which may have seen it; and predict what is hidden of a machine's times from the rest. Takes minutes.
    progress: called before each step with how many are done, how many there are, and what it is, and at the end.
    model: weights instead of the shipped ones.

    Raises
    ------
    InputError: for a folder that cannot be read.
    """
    folder, notes = SHIPPED if data is None else Path(data), Notes() if notes is None else notes
    source = "what ships with the package" if data is None else str(folder)
    board = described(read_rows(folder, notes, times=False), source, progress, model)
    board = with_times(board, read_rows(folder, Notes()))
    return refitted(board, read_folder(folder, Notes()), progress) if refit else board


def refitted(board: Scoreboard, measured: Measurements, progress: Progress | None = None) -> Scoreboard:
    """The board by weights that have not seen each machine, with all `TASKS`; ``measured`` is of the same folder."""
    design = design_of_rows(board.predictions, measured)
    models = models_without(design, board.pooled, progress)
    found = without_each(board.predictions, models, progress)
    tasks = tuple(task_of(name, found, design, models, progress) for name in TASKS)
    return replace(board, predictions=found, weights="the other machines here", tasks=tasks)


def described(rows: Rows, source: str, progress: Progress | None = None, model: Model | None = None) -> Scoreboard:
    """The predictions from descriptions alone."""
    counts = np.bincount(rows.points.curve, minlength=len(rows.curves)).tolist()
    refused = [Refused(name, "curves.csv has no such curve", count, False) for name, count in rows.unknown.items()]
    curves: list[Described] = []
    counted: list[bool] = []
    index = np.full(len(rows.curves), -1, np.int64)
    for at, curve in enumerate(rows.curves):
        pooled = pooled_curve(curve, rows.machines.get(curve.machine))
        try:
            curves.append(describe(curve, rows.machines))
        except InputError as error:
            refused.append(Refused(curve.name, str(error), counts[at], pooled))
            continue
        index[at] = len(counted)
        counted.append(pooled)
    found = unpredicted(tuple(curves), replace(rows.points, curve=index[rows.points.curve]))
    found = found.some(found.curve >= 0)
    for at, one in told(list(enumerate(curves)), lambda step: f"predicting {step[1].curve.name}", progress):
        which = found.curve == at
        try:
            found = predict(found, which, model)
        except InputError as error:
            refused.append(Refused(one.curve.name, str(error), int(which.sum()), counted[at]))
            found, counted[at] = found.some(~which), False
    if not len(found):
        reason = refused[0].reason if refused else "no points"
        raise InputError("no curve can be predicted", file=source, found=reason, expected="curves of NCCL or RCCL")
    return Scoreboard(source, (model or shipped_model()).basis, found, tuple(counted), tuple(refused))


def with_times(board: Scoreboard, rows: Rows) -> Scoreboard:
    """The board with measured times, and baselines, of which those from other sizes know half of the times."""
    names = {one.curve.name: at for at, one in enumerate(board.predictions.curves)}
    left = np.zeros(len(names), np.bool_)
    left[board.predictions.curve] = True
    has = np.array([name in names and left[names[name]] for name in (curve.name for curve in rows.curves)], np.bool_)
    found = replace(board.predictions, time_us=rows.points.time_us[has[rows.points.curve]])
    baselines = {LIBRARY: library_tables(found)}
    baselines |= {name: from_other_sizes(found, of) for name, of in FROM_SIZES.items()}
    return replace(board, predictions=found, baselines=baselines)


def with_baselines(rows: Predictions, baselines: Mapping[str, Floats]) -> dict[str, Predictions]:
    """The model's predictions and those of the baselines, by name."""
    return {"model": rows} | {name: rows.instead(times) for name, times in baselines.items()}


def points_json(rows: Predictions) -> list[dict[str, Any]]:
    """The rows as plain values."""
    names = [one.curve.name for one in rows.curves]
    columns = (rows.time_us, rows.predicted_us, rows.low_us, rows.high_us)
    times = zip(*(column.tolist() for column in columns), strict=True)
    return [
        {
            "curve": names[curve], "place": "in" if place else "out", "bytes": size, "time_us": _plain(time, 6),
            "predicted_us": _plain(predicted, 4), "low_us": _plain(low, 4), "high_us": _plain(high, 4),
        }
        for curve, place, size, (time, predicted, low, high) in zip(
            rows.curve.tolist(), rows.place.tolist(), rows.bytes.tolist(), times, strict=True
        )
    ]  # fmt: skip


def _plain(value: float, digits: int = 2) -> float | None:
    return None if value != value else round(value, digits)
