"""``chakrasim.calibration.calibrate_compute``: from measured layer times to a device profile and its error."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.calibration.errors import LayerError, pooled
from chakrasim.calibration.fit import Samples, fit_efficiency
from chakrasim.calibration.layers import ITEMSIZE, PROJECTIONS, attention_work, layer_work, plain_name, work_for
from chakrasim.calibration.measured import PREFILL, Series, read_measured
from chakrasim.calibration.models import ModelConfig, find_config, load_model_configs, same_model, unlike_built_in
from chakrasim.calibration.split import unsplit_layers
from chakrasim.errors import InputError
from chakrasim.machine.device.file import device_like, device_names, load_device
from chakrasim.machine.device.profile import DeviceProfile, Efficiency, chain_steps
from chakrasim.notes import Notes
from chakrasim.trace.work import Work, WorkKind

Floats = NDArray[np.float64]

STRIDE: Final = 5
"""Of each layer's times, every so many go into the fit; all are compared with it."""

IMPOSSIBLE: Final = 1.25
"""From this ratio of the data sheet's bound to the measured time, the median of a layer, its times are not believed."""

USUAL: Final = {
    WorkKind.GEMM: Efficiency(2500.0, 1.0, 0.8, 0.9, 3.0, 2.0),
    WorkKind.ATTENTION: Efficiency(2500.0, 20.0, 0.6, 0.8, 3.0, 2.0),
    WorkKind.ELEMENTWISE: Efficiency(2000.0, 0.0, 0.9, 0.8, 3.0, 2.0, None, 0.95, 2e7),
    WorkKind.NORMALIZATION: Efficiency(2000.0, 0.0, 0.9, 0.8, 3.0, 2.0, None, 0.95, 2e7),
    WorkKind.ROTARY: Efficiency(2000.0, 0.0, 0.9, 0.5, 3.0, 2.0, None, 0.8, 2e7),
    WorkKind.EMBEDDING: Efficiency(2000.0, 0.0, 0.9, 0.5, 3.0, 2.0),
}
"""Where fits begin, and what they keep of what the data leave open: round figures of accelerators, the same for all.
Not those of a shipped profile, which may have seen what is held out."""


@dataclass(frozen=True, eq=False)
class Timed:
    """A measured series with the work that it timed, and whether efficiencies are fitted to it."""

    series: Series
    config: ModelConfig
    work: Work
    fitted: bool


@dataclass(frozen=True)
class Fold:
    """A fit: of which models' times, and which models were held out and predicted. Without any left to hold out, the
    second is empty, and errors are those of the fit itself."""

    trained_on: tuple[str, ...]
    held_out: tuple[str, ...]


@dataclass(frozen=True)
class FittedDevice:
    """``device`` as the data name it, the profile fitted, and the folds whose errors are reported."""

    device: str
    profile: DeviceProfile
    folds: tuple[Fold, ...]


@dataclass(frozen=True)
class Calibration:
    """Fitted devices and their errors; ``configs`` by model: where its dimensions are from."""

    devices: tuple[FittedDevice, ...]
    errors: tuple[LayerError, ...]
    configs: Mapping[str, str]
    unsplit: Mapping[str, tuple[str, ...]]
    """Layers that the data show not to be split, by model."""
    warnings: tuple[str, ...]


def calibrate_compute(
    data: str | os.PathLike[str],
    *,
    model_config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    holdout: Sequence[str] = (),
    gpu: str | None = None,
    device_profile: str | os.PathLike[str] | Mapping[str, Any] | DeviceProfile | None = None,
    dtype: str = "float16",
) -> Calibration:
    """Fit how well a device does matrix products and other layers, and predict models that the fit has not seen.

    Raises InputError.

    Parameters
    ----------
    data: folder DEVICE/ORGANISATION/MODEL/tpN/layers.csv, or one of its folders; see `read_measured`.
    model_config: dimensions of the models; see `load_model_configs`. Well-known ones are built in. A configuration that
        names no model is that of the single held-out model, or of the single model of the data.
    holdout: models to predict from a fit of the others; default: each in its turn.
    gpu: which of the data's devices; default: all that have times of the held-out models.
    device_profile: peak and bandwidth of the device; default: the shipped device that the data's folder is named after.
    dtype: the type that was measured in.
    """
    if dtype not in ITEMSIZE:
        raise InputError("unknown type", found=repr(dtype), expected="one of " + ", ".join(ITEMSIZE))
    notes = Notes()
    measured = _chosen(read_measured(data, notes), gpu, holdout, str(data), notes)
    models = sorted({series.model for series in measured})
    nameless = holdout[0] if len(holdout) == 1 else models[0] if len(models) == 1 else None
    given = load_model_configs(model_config, nameless) if model_config is not None else ()
    configs = {model: _config(model, given, str(data)) for model in models}
    for model, config in configs.items():
        if unlike := unlike_built_in(config):
            notes.warn(f"{config.source}: not the dimensions of {model} as it is known: {unlike}")
    unsplit = unsplit_layers(measured)
    timed = list(_timed(measured, configs, unsplit, dtype, notes))
    if not timed:
        raise InputError("no layer of these is one whose work is known", file=str(data))
    fitted: list[FittedDevice] = []
    errors: list[LayerError] = []
    for device in sorted({entry.series.device for entry in timed}):
        base = load_device(device_profile) if device_profile is not None else shipped_device(device)
        own = _possible([entry for entry in timed if entry.series.device == device], base, notes)
        one, found = _calibrate(device, own, base, holdout, dtype, notes)
        fitted.append(one)
        errors += found
    whole = sorted({model for model, _ in unsplit})
    return Calibration(
        devices=tuple(fitted),
        errors=tuple(errors),
        configs={model: config.source for model, config in configs.items()},
        unsplit={name: tuple(sorted(layer for model, layer in unsplit if model == name)) for name in whole},
        warnings=notes.warnings,
    )


def shipped_device(name: str) -> DeviceProfile:
    """The shipped device that a folder like "H100" or "TPU-v6e-1" is named after. Raises InputError."""
    known = device_like(name)
    if known is None:
        raise InputError(
            f"no shipped device is called {name!r}, after which the data's folder is named",
            expected="one of " + ", ".join(device_names()),
            remedy="give peak and bandwidth with --device-profile NAME|FILE",
        )
    return load_device(known)


def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _chosen(measured: list[Series], gpu: str | None, holdout: Sequence[str], data: str, notes: Notes) -> list[Series]:
    """The series of the devices asked for that have both held-out models and others. Raises InputError for a device or
    held-out model that is not there, and if nothing is left to fit."""
    if gpu is not None:
        devices = sorted({series.device for series in measured})
        measured = [series for series in measured if _bare(series.device) == _bare(gpu)]
        if not measured:
            raise InputError("no such device in the data", file=data, found=gpu, expected=" or ".join(devices))
    for name in holdout:
        models = sorted({series.model for series in measured})
        if not any(same_model(model, name) for model in models):
            raise InputError(
                "the model to be held out is not in the data", file=data, found=name, expected=" or ".join(models)
            )
    if not holdout:
        return measured
    out = {(s.device, s.model) for s in measured if any(same_model(s.model, name) for name in holdout)}
    rest = {series.device for series in measured if (series.device, series.model) not in out}
    having = {device for device, _ in out}
    if not having & rest:
        raise InputError("nothing is left to fit: all models are held out", file=data, found=", ".join(holdout))
    for device in sorted(having - rest):
        notes.warn(f"{device}: left out, since it has times of held-out models only")
    return [series for series in measured if series.device in having & rest]


def _config(model: str, given: Sequence[ModelConfig], data: str) -> ModelConfig:
    config = find_config(model, given)
    if config is None:
        raise InputError(
            f"the dimensions of {model} are not known",
            file=data,
            remedy="give a file with its config.json under its name: --model-config FILE",
        )
    return config


def _timed(
    measured: Iterable[Series],
    configs: Mapping[str, ModelConfig],
    unsplit: frozenset[tuple[str, str]],
    dtype: str,
    notes: Notes,
) -> Iterable[Timed]:
    """The series whose work is known; the others are counted in a warning."""
    unknown: dict[str, int] = {}
    for series in measured:
        config = configs[series.model]
        where = f"{series.file}: layer {series.layer!r}"
        parts = 1 if (series.model, series.layer) in unsplit else series.parts
        if series.layer == PREFILL:
            work, fitted = attention_work(config, series.parts, series.tokens, series.keys, dtype, where), True
        else:
            layer = layer_work(series.layer, config, parts, ITEMSIZE[dtype])
            if layer is None:
                unknown[series.layer] = unknown.get(series.layer, 0) + len(series)
                continue
            work, fitted = work_for(layer, series.tokens, dtype, where), layer.fitted
        yield Timed(series, config, work, fitted)
    for layer_name, rows in unknown.items():
        notes.warn(f"layer {layer_name!r} is not modelled: {rows:,} times are left out")


def _possible(timed: Sequence[Timed], base: DeviceProfile, notes: Notes) -> list[Timed]:
    """The same, without fitting to layers that take less time than the device's data sheet allows for the work that
    they are taken to do: it is not what ran. A little less is possible, with operands in the cache."""
    checked = []
    for entry in timed:
        compute_ns, memory_ns = base.bounds_ns(entry.work)
        too_fast = float(np.median(np.maximum(compute_ns, memory_ns) / entry.series.time_ns))
        if entry.fitted and too_fast > IMPOSSIBLE:
            series = entry.series
            notes.warn(
                f"{series.device}: layer {series.layer!r} of {series.model} (tp {series.parts}) is not fitted: its "
                f"times are {too_fast:.1f} times shorter than the data sheet allows"
            )
            entry = replace(entry, fitted=False)
        checked.append(entry)
    return checked


def _calibrate(
    device: str, timed: Sequence[Timed], base: DeviceProfile, holdout: Sequence[str], dtype: str, notes: Notes
) -> tuple[FittedDevice, list[LayerError]]:
    """Fit one device and compare it with what was held out."""
    models = sorted({entry.series.model for entry in timed})
    folds = _folds(models, holdout, device, notes)
    errors: list[LayerError] = []
    for fold in folds:
        trained = [entry for entry in timed if entry.series.model in fold.trained_on]
        profile = replace(_fit(trained, base), sustained={})  # What was measured are single kernels.
        tested = fold.held_out or fold.trained_on
        errors += [_error(entry, profile, fold) for entry in timed if entry.series.model in tested]
    final = replace(profile, sustained=base.sustained) if len(folds) == 1 else _fit(timed, base)
    return FittedDevice(device, _named(final, device, folds, errors, dtype), tuple(folds)), errors


def _folds(models: Sequence[str], holdout: Sequence[str], device: str, notes: Notes) -> list[Fold]:
    if holdout:
        out = tuple(model for model in models if any(same_model(model, name) for name in holdout))
        return [Fold(tuple(model for model in models if model not in out), out)]
    if len(models) == 1:
        notes.warn(f"{device}: times of one model only: the errors are those of the fit, nothing was held out")
        return [Fold(tuple(models), ())]
    return [Fold(tuple(model for model in models if model != out), (out,)) for out in models]


def _fit(timed: Sequence[Timed], base: DeviceProfile) -> DeviceProfile:
    """The base device with the efficiencies that these times show; kinds that were not measured keep the base's."""
    efficiency = dict(base.efficiency)
    for kind, usual in USUAL.items():
        parts = []
        for index, entry in enumerate(entry for entry in timed if entry.fitted):
            rows = np.flatnonzero(entry.work.kind == kind)[index % STRIDE :: STRIDE]
            if len(rows):
                work = entry.work
                traffic = work.bytes_read + work.bytes_written
                columns = (*base.bounds_ns(work), chain_steps(work), work.kernels, traffic, entry.series.time_ns)
                parts.append(np.stack([column[rows] for column in columns]))
        if parts:
            efficiency[kind] = fit_efficiency(Samples(*np.concatenate(parts, axis=1)), usual)
    return replace(base, efficiency=efficiency)


def _error(entry: Timed, profile: DeviceProfile, fold: Fold) -> LayerError:
    series = entry.series
    ratio = profile.durations_ns(entry.work) / series.time_ns
    compute_ns, memory_ns = profile.bounds_ns(entry.work)
    roofline = np.maximum(compute_ns, memory_ns) / series.time_ns
    return LayerError(
        device=series.device,
        model=series.model,
        parts=series.parts,
        layer=series.layer,
        projection=plain_name(series.layer) in PROJECTIONS or (series.layer == "gate" and not entry.config.experts),
        held_out=bool(fold.held_out),
        points=len(series),
        mape_percent=float(100 * np.abs(ratio - 1).mean()),
        bias_percent=float(100 * np.median(ratio - 1)),
        roofline_mape_percent=float(100 * np.abs(roofline - 1).mean()),
    )


def _named(
    profile: DeviceProfile, device: str, folds: Sequence[Fold], errors: Sequence[LayerError], dtype: str
) -> DeviceProfile:
    """The profile with a name, and a source that says how it was made and how well it predicts."""
    models = sorted({model for fold in folds for model in (*fold.trained_on, *fold.held_out)})
    trained = folds[0].trained_on if len(folds) == 1 else models
    projections = pooled([error for error in errors if error.projection])
    against = "models left out of the fit" if folds[0].held_out else "the times that it was fitted to"
    error = (
        f" Error of matrix products of {against}: {projections.mape_percent:.1f} % (mean absolute)."
        if projections
        else ""
    )
    return replace(
        profile,
        name=f"{profile.name}-fitted",
        source=f"Efficiencies fitted by chakrasim calibrate compute to {dtype} times of {', '.join(trained)} on "
        f"{device}.{error}\nPeak and bandwidth: {profile.source}",
    )
