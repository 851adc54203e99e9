"""``chakrasim.calibrate_steps``: a device's open constants, fitted to measured training steps."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.estimation.uncertainty import t_quantile
from chakrasim.files.picture import Drawn
from chakrasim.machine import DeviceProfile, load_device, load_machine
from chakrasim.progress import Progress
from chakrasim.validation.steps.constants import constants_of, most_of, prior_of, value_of, with_constants
from chakrasim.validation.steps.describe import Described, described
from chakrasim.validation.steps.recorded import read_measured

if TYPE_CHECKING:
    from chakrasim.generator.spec.spec import Spec
    from chakrasim.machine import Machine

Floats = NDArray[np.float64]

SCATTER: Final = 0.06
"""Of measured steps around a model of the device, as a standard deviation of logarithms: runs, frameworks, hosts."""
OUTLIER: Final = 2.0
"""So many of these away, a step counts linearly."""
STEP: Final = 0.05
"""By which logarithms of constants are moved to see what steps make of it."""
ROUNDS: Final = 3
_DESCENTS: Final = 30


@dataclass(frozen=True)
class StepErrors:
    """Of predictions: how many, the median error with its sign and the median of the absolute ones, in per cent, and
    the factors of a prediction that nine measured times of ten lie between."""

    steps: int
    bias_pct: float
    median_pct: float
    low: float
    high: float


@dataclass(frozen=True)
class Constant:
    """A constant as it shipped and as it was fitted."""

    name: str
    before: float
    after: float


@dataclass(frozen=True)
class FittedStep:
    """A step that the fit used: its time in seconds as measured, by the profile that shipped, by the fit, and by a fit
    that did not see its model (None: there is no other model)."""

    id: str
    measured_s: float
    shipped_s: float
    fitted_s: float
    held_out_s: float | None

    @property
    def best_s(self) -> float:
        """What says most of steps that nobody has measured: the time of a fit that did not see it, if there is one."""
        return self.fitted_s if self.held_out_s is None else self.held_out_s


@dataclass(frozen=True)
class StepsCalibration(Drawn):
    """A device fitted to steps.

    Attributes
    ----------
    source, device: the table, and the device's name.
    profile: with the fitted constants.
    constants: which they are.
    errors: of the steps by the profile that shipped, by the fit, and by fits that did not see the step's model ("held
        out"), where there are two models or more.
    refused: rows that could not be described, with the reason.
    steps: those that were used, in the table's order.
    """

    source: str
    device: str
    profile: DeviceProfile
    constants: tuple[Constant, ...]
    errors: Mapping[str, StepErrors]
    refused: tuple[tuple[str, str], ...]
    steps: tuple[FittedStep, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values, as ``chakrasim calibrate steps --json`` writes them."""
        return {
            "source": self.source,
            "device": self.device,
            "constants": {one.name: {"before": one.before, "after": one.after} for one in self.constants},
            "errors": {name: {**vars(one)} for name, one in self.errors.items()},
            "refused": [{"id": name, "reason": reason} for name, reason in self.refused],
            "steps": [vars(one) for one in self.steps],
        }


@dataclass(frozen=True)
class _Measured:
    """A described step with its time, and the machine that it ran on."""

    one: Described
    seconds: float
    machine: Machine


def calibrate_steps(
    data: str | os.PathLike[str],
    *,
    device: str | os.PathLike[str] | DeviceProfile | None = None,
    progress: Progress | None = None,
) -> StepsCalibration:
    """Fit a device's open constants to measured training steps.

    The constants are the share of a single product's speed that products keep in long runs, by type (``sustained``),
    the share of the peak that attention reaches, the share of the bandwidth that element-wise kernels reach, and what
    starting a kernel costs; each is drawn towards what it was. The fit is robust: steps far off count less.

    Parameters
    ----------
    data: a CSV file with the columns of docs/reference-steps.md; or a folder with such a file, and PyTorch's traces of
        rows without a time in folders of their ids. Steps without a time are not used.
    device: the shipped device or the profile to begin with, and whose steps are used if it is a shipped one's name; by
        default the only one that the table has steps of.
    progress: called before each simulation with how many are done, how many there are, and the step's id.

    Raises
    ------
    InputError: for a file that cannot be read, steps of several devices, and where no step can be used.
    """
    source, steps, refused = _steps(data, device)
    before = load_device(device) if device is not None else steps[0].machine.profile
    assert before is not None  # all described steps have one
    names = constants_of(before, (_product_type(step.one.spec) for step in steps))
    told = _Told(progress, (len(names) + 1 + ROUNDS) * len(steps))
    log_measured = np.array([math.log(step.seconds) for step in steps])

    def predicted(factors: Floats) -> Floats:
        profile = with_constants(before, dict(zip(names, np.exp(factors).tolist(), strict=True)))
        return np.array([math.log(_seconds(step, profile)) for step in told.each(steps)])

    start = predicted(np.zeros(len(names)))
    slopes = np.stack([_slope(predicted, start, at, len(names)) for at in range(len(names))], axis=1)
    bounds = np.array([most_of(before, name) for name in names])
    priors = np.array([prior_of(name) for name in names])
    found, base = np.zeros(len(names)), start
    for _ in range(ROUNDS):
        found = _fitted(slopes, log_measured - base + slopes @ found, priors, bounds)
        base = predicted(found)
    factors = dict(zip(names, np.exp(found).tolist(), strict=True))
    errors = {"shipped": _errors(log_measured - start), "fitted": _errors(log_measured - base)}
    groups = [step.one.row.get("model", step.one.row.id) for step in steps]
    held = None
    if len(set(groups)) > 1:
        held = _held_out(slopes, log_measured - base + slopes @ found, priors, bounds, groups)
        errors["held out"] = _errors(held)
    after = replace(with_constants(before, factors), source=f"{before.source.strip()}\n{_told(source, names, errors)}")
    constants = tuple(Constant(name, value_of(before, name), value_of(after, name)) for name in names)
    used = _used(steps, start, base, None if held is None else log_measured - held)
    return StepsCalibration(source, before.name, after, constants, errors, tuple(refused), used)


def _used(steps: Sequence[_Measured], start: Floats, base: Floats, held: Floats | None) -> tuple[FittedStep, ...]:
    """The steps with their times, of which the logarithms are given."""
    times = [np.exp(column).tolist() for column in (start, base)]
    apart = [None] * len(steps) if held is None else np.exp(held).tolist()
    columns = zip(steps, *times, apart, strict=True)
    return tuple(FittedStep(step.one.row.id, step.seconds, *seconds) for step, *seconds in columns)


class _Told:
    """Progress over all simulations."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def each(self, steps: Sequence[_Measured]) -> Iterator[_Measured]:
        for step in steps:
            if self._progress is not None:
                self._progress(self._done, self._total, step.one.row.id)
            self._done += 1
            yield step
        if self._progress is not None and self._done == self._total:
            self._progress(self._done, self._total, "")


def _steps(
    data: str | os.PathLike[str], device: str | os.PathLike[str] | DeviceProfile | None
) -> tuple[str, list[_Measured], list[tuple[str, str]]]:
    """The measured steps of one device, and rows that cannot be described."""
    table = read_measured(data)
    found, refused = list[_Measured](), list[tuple[str, str]]()

    @cache
    def machine(board: str, gpus: int, nic: str) -> Machine:
        return load_machine(board, gpus=gpus, nic=nic or None)

    for row, seconds in zip(table.rows, table.measured_s, strict=True):
        if math.isnan(seconds):
            continue
        try:
            one = described(row)
            found.append(_Measured(one, seconds, machine(one.board, one.gpus, one.nic)))
        except InputError as error:
            refused.append((row.id, str(error)))
    profiles = sorted({step.machine.profile.name for step in found if step.machine.profile is not None})
    if isinstance(device, str) and device.lower() in profiles:
        profiles = [device.lower()]
    if not profiles:
        reason = refused[0][1] if refused else "no row with a time"
        raise InputError("no step can be used", file=table.source, found=reason, expected="measured training steps")
    if len(profiles) > 1:
        raise InputError("steps of several devices", file=table.source, found=", ".join(profiles), expected="one",
                         remedy="choose one with --device NAME")  # fmt: skip
    own = [step for step in found if step.machine.profile is not None and step.machine.profile.name == profiles[0]]
    return table.source, own, refused


def _product_type(spec: Spec) -> str:
    return spec.dtype if spec.matrix_dtype == "none" else spec.matrix_dtype


def _seconds(step: _Measured, profile: DeviceProfile) -> float:
    from chakrasim.estimation.api import estimate_step

    return estimate_step(step.one.spec, replace(step.machine, profile=profile), recipe=step.one.recipe).step_s


def _slope(predicted: Callable[[Floats], Floats], start: Floats, at: int, count: int) -> Floats:
    """How logarithms of times change with that of a constant, made smaller, so that no share is above 1."""
    moved = np.zeros(count)
    moved[at] = -STEP
    return (predicted(moved) - start) / -STEP


def _fitted(slopes: Floats, target: Floats, priors: Floats, bounds: Floats) -> Floats:
    """Logarithms of factors: robust least squares with normal priors, below bounds."""
    found = np.zeros(len(priors))
    for _ in range(_DESCENTS):
        off = np.abs(target - slopes @ found) / SCATTER
        weights = np.minimum(1.0, OUTLIER / np.maximum(off, 1e-12)) / SCATTER**2
        free = np.ones(len(priors), np.bool_)
        for _ in priors:
            normal = (slopes * weights[:, None]).T @ slopes + np.diag(priors**-2.0)
            right = (slopes * weights[:, None]).T @ (target - slopes[:, ~free] @ bounds[~free])
            found = np.where(free, 0.0, bounds)
            found[free] = np.linalg.solve(normal[np.ix_(free, free)], right[free])
            beyond = free & (found > bounds)
            if not beyond.any():
                break
            free &= ~beyond
    return found


def _held_out(slopes: Floats, target: Floats, priors: Floats, bounds: Floats, groups: Sequence[str]) -> Floats:
    """What is left of each step's target by a fit to the steps of other models."""
    left = np.zeros(len(target))
    names = np.array(groups)
    for group in sorted(set(groups)):
        out = names == group
        found = _fitted(slopes[~out], target[~out], priors, bounds)
        left[out] = target[out] - slopes[out] @ found
    return left


def _errors(left: Floats) -> StepErrors:
    """Of log(measured / predicted)."""
    off = 100 * np.expm1(-left)
    mean = float(left.mean())
    spread = float(left.std(ddof=1)) if len(left) > 1 else SCATTER
    far = t_quantile(0.95, max(len(left) - 1, 3)) * math.hypot(spread, 0.01)
    return StepErrors(
        len(left), float(np.median(off)), float(np.median(np.abs(off))), math.exp(mean - far), math.exp(mean + far)
    )


def _told(source: str, names: Sequence[str], errors: Mapping[str, StepErrors]) -> str:
    """What the profile's source says of the fit."""
    best = errors.get("held out", errors["fitted"])
    seen = "on models left out" if "held out" in errors else "on the steps fitted to"
    return (
        f"chakrasim calibrate steps: {', '.join(names)} fitted to {best.steps} steps of {os.path.basename(source)}; "
        f"median error {seen} {best.median_pct:.1f} % ({errors['shipped'].median_pct:.1f} % before)."
    )
