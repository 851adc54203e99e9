"""Models of machines fitted to measurements, with the error that they make on what was held out of the fit."""

from typing import TYPE_CHECKING

from chakrasim.lazy import lazily

if TYPE_CHECKING:
    from chakrasim.calibration.collectives.calibrate import CollectiveCalibration, calibrate_collectives
    from chakrasim.calibration.collectives.json_form import collective_calibration_json
    from chakrasim.calibration.collectives.machine_text import machine_entries, machine_text
    from chakrasim.calibration.compute import Calibration, calibrate_compute
    from chakrasim.calibration.json_form import calibration_json
    from chakrasim.calibration.models import ModelConfig, built_in_models, load_model_configs

__all__ = [
    "Calibration",
    "CollectiveCalibration",
    "ModelConfig",
    "built_in_models",
    "calibrate_collectives",
    "calibrate_compute",
    "calibration_json",
    "collective_calibration_json",
    "load_model_configs",
    "machine_entries",
    "machine_text",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "collectives.calibrate": ("CollectiveCalibration", "calibrate_collectives"),
        "collectives.json_form": ("collective_calibration_json",),
        "collectives.machine_text": ("machine_entries", "machine_text"),
        "compute": ("Calibration", "calibrate_compute"),
        "json_form": ("calibration_json",),
        "models": ("ModelConfig", "built_in_models", "load_model_configs"),
    },
)
