"""A calibration as plain values, for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from chakrasim.calibration.compute import Calibration, FittedDevice
from chakrasim.calibration.errors import LayerError, grouped, pooled

FORMAT = "chakrasim-calibration-1"


def calibration_json(calibration: Calibration) -> dict[str, Any]:
    """Plain values: errors pooled, by model and number of devices, and by layer; all in per cent, times in ns."""
    projections = [error for error in calibration.errors if error.projection]
    return {
        "format": FORMAT,
        "pooled": _figures(projections),
        "per_model_tp": [
            {"device": device, "model": model, "tp": parts, **_figures([e for e in errors if e.projection])}
            for (device, model, parts), errors in grouped(calibration.errors).items()
            if any(error.projection for error in errors)
        ],
        "per_device": {one.device: _device(one, calibration.errors) for one in calibration.devices},
        "per_layer": [
            {**{name: value for name, value in asdict(error).items() if name != "parts"}, "tp": error.parts}
            for error in calibration.errors
        ],
        "model_configs": dict(calibration.configs),
        "layers_not_split": {model: list(layers) for model, layers in calibration.unsplit.items()},
        "warnings": list(calibration.warnings),
    }


def _figures(errors: Sequence[LayerError]) -> dict[str, Any]:
    """Mean errors of several layers over all their points; None where there are none."""
    mean = pooled(errors)
    return {
        "mape_percent": mean.mape_percent if mean else None,
        "roofline_mape_percent": mean.roofline_mape_percent if mean else None,
        "points": mean.points if mean else 0,
        "held_out": all(error.held_out for error in errors) if errors else False,
        "layers": {error.layer: error.mape_percent for error in errors} if len(grouped(errors)) == 1 else {},
    }


def _device(one: FittedDevice, errors: Sequence[LayerError]) -> dict[str, Any]:
    own = [error for error in errors if error.device == one.device]
    figures = _figures([error for error in own if error.projection])
    return {
        **{name: figures[name] for name in ("mape_percent", "roofline_mape_percent", "points", "held_out")},
        "folds": [{"trained_on": list(f.trained_on), "held_out": list(f.held_out)} for f in one.folds],
        "profile": one.profile.name,
        "efficiency": {
            kind.name.lower(): {
                name: getattr(found, name) for name in ("start_ns", "step_ns", "compute", "bandwidth", "knee", "tail")
            }
            for kind, found in one.profile.efficiency.items()
        },
    }
