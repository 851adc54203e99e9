"""Models of machines fitted to measurements, with the error that they make on what was held out of the fit."""

from typing import TYPE_CHECKING

from chakrasim.lazy import lazily

if TYPE_CHECKING:
    from chakrasim.calibration.compute import Calibration, calibrate_compute
    from chakrasim.calibration.json_form import calibration_json
    from chakrasim.calibration.models import ModelConfig, built_in_models, load_model_configs

__all__ = [
    "Calibration",
    "ModelConfig",
    "built_in_models",
    "calibrate_compute",
    "calibration_json",
    "load_model_configs",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "compute": ("Calibration", "calibrate_compute"),
        "json_form": ("calibration_json",),
        "models": ("ModelConfig", "built_in_models", "load_model_configs"),
    },
)
