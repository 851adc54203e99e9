"""Predicted training steps beside measurements, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from chakrasim.text.layout import Section
from chakrasim.validation.steps.scores import StepErrors, by, in_order, inside

if TYPE_CHECKING:
    from chakrasim.validation.megatron import Validation
    from chakrasim.validation.steps.api import StepPrediction, StepsBoard

_HEADS: Final = {
    "matrices": "matrices",
    "attention": "attention",
    "other_compute": "other compute",
    "optimizer": "optimizer",
    "tensor_parallel": "tensor parallel",
    "pipeline": "pipeline",
}


def validation_sections(validation: Validation) -> list[Section]:
    """The runs with their errors, then where the predicted time goes."""
    runs = validation.predictions
    errors = Section(
        title=f"Iteration time in seconds, simulated on {validation.device}",
        columns=("run", "ranks", "measured", "predicted", "error"),
        rows=tuple(
            (
                one.run.name,
                f"{one.run.ranks:,}",
                f"{one.run.seconds:.2f}",
                f"{one.seconds:.2f}",
                f"{one.error_pct:+.1f}%",
            )
            for one in runs
        ),
        lines=(
            f"mean error {validation.mean_error_pct:.2f}%, largest {validation.max_error_pct:.2f}%",
            f"measured: {validation.source}",
        ),
    )
    parts = Section(
        title="Where it goes on a GPU of the last stage, percent",
        columns=("run", *_HEADS.values()),
        rows=tuple((one.run.name, *(f"{100 * one.parts[name] / one.seconds:.1f}" for name in _HEADS)) for one in runs),
    )
    return [errors, parts]


_COLUMNS: Final = ("rows", "bias", "median error", "9 of 10 below")


def steps_sections(board: StepsBoard) -> list[Section]:
    """Pooled errors beside baselines, errors by source, GPU, model and scale, and what was refused."""
    parts: tuple[tuple[str, Callable[[StepPrediction], str]], ...] = (
        ("source", lambda one: one.row.get("source", "?")),
        ("GPU", lambda one: one.row.get("gpu")),
        ("model", lambda one: one.row.get("model", "?")),
        ("GPUs", lambda one: _scale(int(one.row.get("gpus")))),
    )
    return [_pooled(board), *(_by(board, name, of) for name, of in parts), _refused(board)]


def _pooled(board: StepsBoard) -> Section:
    rows = []
    for name, seconds in (("simulation", None), *board.baselines.items()):
        for kind, one in by(board, _kind, seconds).items():
            rows.append((kind, name, *_figures(one)))
    (pairs, right), (counted, held) = in_order(board), inside(board)
    order = f"{100 * right / pairs:.0f} % of {pairs:,} pairs" if pairs else "no pairs"
    return Section(
        "Errors of step times, in per cent of the measured",
        ("class", "predicted by", *_COLUMNS),
        tuple(sorted(rows, key=lambda row: row[0])),
        (0, 1),
        (
            f"rows predicted: {len(board.predictions):,}, refused: {len(board.refused):,}; reprints and sources whose "
            "own runs differ are left out",
            f"in the right order, of one model and number of GPUs, 5 % apart or more: {order}",
            f"measured inside the 90 % interval: {held:,} of {counted:,}",
            "the baselines know the measured times of all other models",
            f"measured: {board.source}",
        ),
    )


def _kind(one: StepPrediction) -> str:
    """The class of its model; steps of adapters apart."""
    return "lora" if one.row.get("task") == "lora" else one.row.get("class", "dense")


def _by(board: StepsBoard, what: str, of: Callable[[StepPrediction], str]) -> Section:
    rows = tuple((name, *_figures(one)) for name, one in by(board, of).items())
    return Section(f"By {what}", (what, *_COLUMNS), rows, (0,))


def _figures(one: StepErrors) -> tuple[str, ...]:
    return f"{one.rows:,}", f"{one.bias_pct:+.1f} %", f"{one.median_pct:.1f} %", f"{one.ninth_pct:.1f} %"


def _scale(gpus: int) -> str:
    low = 1 << (gpus.bit_length() - 1)
    return f"{low:5,} to {2 * low - 1:,}"


def _refused(board: StepsBoard) -> Section:
    counts = Counter(one.reason.partition(": ")[2].partition(";")[0] or one.reason for one in board.refused)
    rows = tuple((f"{count:,}", reason) for reason, count in counts.most_common())
    return Section("Rows that are not predicted", ("rows", "reason"), rows, (1,))
