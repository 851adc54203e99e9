"""Figures of predicted steps: errors, and whether faster ones are predicted to be faster."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from chakrasim.estimation.uncertainty import Residual

if TYPE_CHECKING:
    from chakrasim.validation.steps.api import StepPrediction, StepsBoard

APART: Final = 0.05
"""Pairs of steps that lie so far apart, as a share of the shorter, are to be in the right order."""


@dataclass(frozen=True)
class StepErrors:
    """Of some rows: how many, the median of the errors with their sign, and the median and the 90th percentile of the
    absolute ones, in per cent."""

    rows: int
    bias_pct: float
    median_pct: float
    ninth_pct: float


def errors(predicted_s: Iterable[float], measured_s: Iterable[float]) -> StepErrors | None:
    """The errors of rows with both times; None where there are none."""
    pairs = zip(predicted_s, measured_s, strict=True)
    off = np.array([100 * (predicted / measured - 1) for predicted, measured in pairs if predicted > 0 < measured])
    if not len(off):
        return None
    far = np.abs(off)
    return StepErrors(len(off), float(np.median(off)), float(np.median(far)), float(np.quantile(far, 0.9)))


def by(
    board: StepsBoard, of: Callable[[StepPrediction], str], predicted_s: Sequence[float] | None = None
) -> dict[str, StepErrors]:
    """Errors of the rows that count, by what ``of`` says of them, in its order; ``predicted_s``: a baseline's."""
    seconds = [one.predicted_s for one in board.predictions] if predicted_s is None else predicted_s
    groups: dict[str, list[tuple[float, float]]] = {}
    for one, predicted in zip(board.predictions, seconds, strict=True):
        if board.counted(one) and not math.isnan(predicted):
            groups.setdefault(of(one), []).append((predicted, one.measured_s or math.nan))
    found = {name: errors(*zip(*pairs, strict=True)) for name, pairs in sorted(groups.items())}
    return {name: one for name, one in found.items() if one is not None}


def in_order(board: StepsBoard) -> tuple[int, int]:
    """Pairs of rows of one model and number of GPUs that lie apart, and how many of them are in the right order."""
    groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for one in board.predictions:
        if board.counted(one):
            key = one.row.get("model"), one.row.get("gpus")
            groups.setdefault(key, []).append((one.measured_s or math.nan, one.predicted_s))
    pairs = right = 0
    for known in groups.values():
        measured, predicted = np.array(known).T
        for at, (seconds, first) in enumerate(known):
            later = measured[at + 1 :] - seconds
            apart = np.abs(later) >= APART * np.minimum(measured[at + 1 :], seconds)
            pairs += int(apart.sum())
            right += int(((later > 0) == (predicted[at + 1 :] > first))[apart].sum())
    return pairs, right


def inside(board: StepsBoard) -> tuple[int, int]:
    """Rows that count, and how many of them were measured inside their interval."""
    found = [one.low_s <= (one.measured_s or math.nan) <= one.high_s for one in board.predictions if board.counted(one)]
    return len(found), sum(found)


def residuals(board: StepsBoard) -> list[Residual]:
    """The rows that count, for `chakrasim.estimation.uncertainty.fit_spread`: groups are models on a GPU."""
    return [
        Residual(
            one.row.id,
            f"{one.row.get('model', one.row.id)} on {one.row.get('gpu')}",
            one.doubts,
            one.predicted_s,
            one.measured_s or math.nan,
        )
        for one in board.predictions
        if board.counted(one)
    ]
