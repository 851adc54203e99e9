"""``chakrasim.validate_steps``: every row of a table of training steps beside its simulation."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from chakrasim.errors import InputError
from chakrasim.files.picture import Drawn
from chakrasim.progress import Progress, told
from chakrasim.validation.steps.baselines import constant_rate, nearest_row
from chakrasim.validation.steps.describe import Described, described
from chakrasim.validation.steps.rows import StepRow, StepTable, read_steps

if TYPE_CHECKING:
    from chakrasim.estimation.result import StepEstimate
    from chakrasim.estimation.uncertainty import Doubts
    from chakrasim.generator.spec.spec import Spec

SHIPPED: Final = Path(__file__).with_name("steps.csv")
"""The rows that come with the package."""
CONSTANT, NEAREST = "constant rate of the GPU", "nearest row by FLOPs"


@dataclass(frozen=True)
class StepPrediction:
    """A row beside its estimate, in seconds; ``measured_s`` None: blank. Nine measured times of ten are to lie from
    ``low_s`` to ``high_s``."""

    described: Described
    measured_s: float | None
    predicted_s: float
    low_s: float
    high_s: float
    doubts: Doubts

    @property
    def row(self) -> StepRow:
        """The row."""
        return self.described.row

    @property
    def error_pct(self) -> float | None:
        """How much longer the prediction is than the measurement, in per cent of the latter."""
        return None if self.measured_s is None else 100 * (self.predicted_s / self.measured_s - 1)


@dataclass(frozen=True)
class RefusedStep:
    """A row that is not predicted, and why."""

    row: StepRow
    reason: str


@dataclass(frozen=True)
class StepsBoard(Drawn):
    """Predictions beside measurements.

    Attributes
    ----------
    source: the table.
    predictions: in the table's order, without ``refused``.
    baselines: by name, seconds for the same rows, NaN where there is none.
    """

    source: str
    predictions: tuple[StepPrediction, ...]
    refused: tuple[RefusedStep, ...]
    baselines: Mapping[str, tuple[float, ...]]

    def counted(self, one: StepPrediction) -> bool:
        """Whether a row counts for pooled figures: measured, printed once, of a source whose runs agree."""
        return one.measured_s is not None and not one.row.is_set("reprint") and not one.row.is_set("noisy_source")

    def to_json(self) -> dict[str, Any]:
        """Plain values, as ``chakrasim validate steps --json`` writes them."""
        return {
            "source": self.source,
            "rows": [
                {
                    "id": one.row.id,
                    "measured_s": one.measured_s,
                    "predicted_s": round(one.predicted_s, 6),
                    "low_s": round(one.low_s, 6),
                    "high_s": round(one.high_s, 6),
                    "assumed": list(one.described.assumed),
                    "baselines_s": {name: _plain(values[at]) for name, values in self.baselines.items()},
                }
                for at, one in enumerate(self.predictions)
            ],
            "refused": [{"id": one.row.id, "reason": one.reason} for one in self.refused],
        }


def validate_steps(data: str | os.PathLike[str] | None = None, *, progress: Progress | None = None) -> StepsBoard:
    """Predict every training step of a table from its description, and compare.

    Parameters
    ----------
    data: a CSV file with the columns of docs/reference-steps.md; by default that of the package. Measured columns and
        notes are not looked at before all is predicted; times may be blank.
    progress: called before each row with how many are done, how many there are, and its id, and at the end.

    Raises
    ------
    InputError: for a file that cannot be read, and where no row can be predicted.
    """
    table = read_steps(SHIPPED if data is None else data)
    predictions: list[StepPrediction] = []
    refused: list[RefusedStep] = []
    pairs = list(zip(table.rows, table.measured_s, strict=True))
    for row, seconds in told(pairs, lambda pair: pair[0].id, progress):
        try:
            found = described(row)
            step = estimated(found)
        except InputError as error:
            refused.append(RefusedStep(row, str(error)))
            continue
        measured = None if math.isnan(seconds) else seconds
        predictions.append(StepPrediction(found, measured, step.step_s, step.low_s, step.high_s, step.doubts))
    if not predictions:
        reason = refused[0].reason if refused else "no rows"
        raise InputError("no row can be predicted", file=table.source, found=reason, expected="training steps")
    source = "what ships with the package" if data is None else table.source
    return StepsBoard(source, tuple(predictions), tuple(refused), _baselines(table, predictions))


def estimated(one: Described) -> StepEstimate:
    """A row's step as ``chakrasim.estimate`` has it: generated, and simulated on its machine."""
    return _estimated(one.spec, one.board, one.gpus, one.nic, one.assumed, one.recipe)


@cache
def _estimated(spec: Spec, board: str, gpus: int, nic: str, assumed: tuple[str, ...], recipe: str) -> StepEstimate:
    """Rows of one description are simulated once."""
    from chakrasim.estimation.api import estimate_step
    from chakrasim.machine import load_machine

    return estimate_step(spec, load_machine(board, gpus=gpus, nic=nic or None), assumed, recipe=recipe)


def _baselines(table: StepTable, predictions: list[StepPrediction]) -> dict[str, tuple[float, ...]]:
    """Of the predicted rows; each knows the measured times of all other rows."""
    found = {}
    place = {row.id: at for at, row in enumerate(table.rows)}
    for name, baseline in ((CONSTANT, constant_rate), (NEAREST, nearest_row)):
        seconds = baseline(table.rows, table.measured_s)
        found[name] = tuple(seconds[place[one.row.id]] for one in predictions)
    return found


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)
