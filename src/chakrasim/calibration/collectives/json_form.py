"""A calibration of collectives as plain values, for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from chakrasim.calibration.collectives.calibrate import CollectiveCalibration, FittedGroup
from chakrasim.calibration.collectives.class_errors import ClassErrors

FORMAT: Final = "chakrasim-collective-calibration-1"


def collective_calibration_json(calibration: CollectiveCalibration) -> dict[str, Any]:
    """Plain values: the points held out with their predictions in us, errors in per cent, constants as logarithms."""
    return {
        "format": FORMAT,
        "points": [
            {
                "curve": point.curve,
                "place": "in" if point.in_place else "out",
                "bytes": point.size_bytes,
                "time_us": point.time_us,
                "predicted_us": point.predicted_us,
                "low_us": point.low_us,
                "high_us": point.high_us,
            }
            for point in calibration.points
        ],
        "refused": [{"curve": name, "reason": reason} for name, reason in calibration.refused.items()],
        "errors": _errors(calibration.errors),
        "groups": [_group(group) for group in calibration.groups],
        "verdicts": [asdict(verdict) for verdict in calibration.verdicts],
        "warnings": list(calibration.warnings),
    }


def _group(group: FittedGroup) -> dict[str, Any]:
    return {
        "machine": group.machine,
        "library": group.library,
        "environment": group.environment,
        "curves": [one.curve.name for one in group.curves],
        "left_out": list(group.left_out),
        "points": group.points,
        "constants": dict(group.calibrated.constants.values),
        "residual": list(group.calibrated.constants.residual),
        "residual_unseen": list(group.calibrated.unseen),
        "errors": _errors(group.errors),
    }


def _errors(errors: Sequence[ClassErrors]) -> list[dict[str, Any]]:
    return [asdict(one) for one in errors]
