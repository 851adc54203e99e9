"""Predictions beside measurements, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from chakrasim.text.layout import Section

if TYPE_CHECKING:
    from chakrasim.validation.megatron import Validation

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
