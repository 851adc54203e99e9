"""The tables of a calibration."""

from __future__ import annotations

from typing import Final

from chakrasim.calibration.compute import Calibration
from chakrasim.calibration.errors import LayerError, Pooled, grouped, pooled
from chakrasim.text.layout import Section
from chakrasim.validation.steps.calibrate import StepErrors, StepsCalibration
from chakrasim.validation.steps.constants import START


def calibration_sections(calibration: Calibration) -> list[Section]:
    """The tables that the command prints: matrix products by model, then the other layers."""
    rows = []
    for (device, model, parts), errors in grouped(calibration.errors).items():
        products = [error for error in errors if error.projection]
        if mean := pooled(products):
            against = "held out" if products[0].held_out else "the fit itself"
            rows.append((device, model, f"{parts}", f"{mean.points:,}", *_percents(mean), against))
    if mean := pooled([error for error in calibration.errors if error.projection]):
        rows.append(("all", "", "", f"{mean.points:,}", *_percents(mean), ""))
    title = "Matrix products: mean absolute error of the predicted time"
    head = ("device", "model", "tp", "points", "error", "plain roofline", "against")
    others = [
        (error.device, error.model, f"{error.parts}", error.layer, f"{error.mape_percent:.1f} %", _signed(error))
        for error in calibration.errors
        if not error.projection
    ]
    return [
        Section(title, head, tuple(rows), (0, 1, 6)),
        Section("Other layers", ("device", "model", "tp", "layer", "error", "median"), tuple(others), (0, 1, 3)),
        _notes(calibration),
    ]


def _percents(mean: Pooled) -> tuple[str, str]:
    return f"{mean.mape_percent:.1f} %", f"{mean.roofline_mape_percent:.1f} %"


def _signed(error: LayerError) -> str:
    return f"{error.bias_percent:+.1f} %"


def _notes(calibration: Calibration) -> Section:
    rows = [("dimensions of", model, source) for model, source in calibration.configs.items()]
    rows += [("not split", model, ", ".join(layers)) for model, layers in calibration.unsplit.items()]
    return Section("Taken as given, and found in the data", (), tuple(rows), (0, 1, 2))


_UNITS: Final = {START: "start (ns)"}


def steps_calibration_sections(found: StepsCalibration) -> list[Section]:
    """Constants of a device fitted to steps, and errors with and without."""
    constants = tuple(
        (_UNITS.get(one.name, one.name), f"{one.before:.4g}", f"{one.after:.4g}") for one in found.constants
    )
    errors = tuple((name, *_step_errors(one)) for name, one in found.errors.items())
    meaning = (
        "90 %: measured times are so many times the predicted ones, in nine of ten",
        "held out: by fits that did not see steps of the same model",
    )
    return [
        Section(f"{found.device}, fitted to steps of {found.source}", ("constant", "shipped", "fitted"), constants),
        Section("Errors of step times", ("constants", "steps", "bias", "median error", "90 %"), errors, (0,), meaning),
        Section("Rows that are not used", ("row", "reason"), found.refused, (0, 1)),
    ]


def _step_errors(one: StepErrors) -> tuple[str, ...]:
    return f"{one.steps:,}", f"{one.bias_pct:+.1f} %", f"{one.median_pct:.1f} %", f"{one.low:.2f} to {one.high:.2f}"
