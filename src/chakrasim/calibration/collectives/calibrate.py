"""``chakrasim.calibration.calibrate_collectives``: from measured collectives to the constants of machines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.calibration.collectives.class_errors import ClassErrors, class_errors
from chakrasim.calibration.collectives.design import Described, matrix_of
from chakrasim.calibration.collectives.groups import Key, described, every, grouped, nearest, part, timed
from chakrasim.calibration.collectives.hardware import bases_of
from chakrasim.calibration.collectives.own import constants_of
from chakrasim.calibration.collectives.unseen import residual_of_unseen
from chakrasim.calibration.collectives.verdict import Verdict, verdicts_of
from chakrasim.calibration.measurements.csv_folder import Holdout, read_holdout
from chakrasim.calibration.measurements.curves import Curve, Measurements
from chakrasim.calibration.measurements.read import Paths, read_measurements
from chakrasim.collectives.libraries.calibrated import Calibrated, case_of, weights_name
from chakrasim.collectives.libraries.model import Constants, Model, estimate, shipped_model
from chakrasim.errors import InputError
from chakrasim.machine.machine import Machine
from chakrasim.notes import Notes
from chakrasim.text.amounts import first_of

SHARE: Final = 0.25
"""Of the sizes of each curve that are held out to state the error, unless another is asked for."""


@dataclass(frozen=True)
class HeldOut:
    """A point that the fit has not seen. Times in us; ``time_us`` None: not read."""

    curve: str
    in_place: bool
    size_bytes: int
    time_us: float | None
    predicted_us: float
    low_us: float
    high_us: float


@dataclass(frozen=True, eq=False)
class FittedGroup:
    """Curves of one machine, library and environment with their constants.

    Attributes
    ----------
    machine, library, environment: of all curves; ``library`` as in ``nccl-2.27.7``.
    curves: that the constants were fitted to, with the points of the fit.
    left_out: names of those that contradict the hardware; empty where all do, and are fitted.
    calibrated: the constants, fitted to all points that may be seen.
    errors: of every fourth size, or the share asked for, held out of a fit to the others.
    """

    machine: str
    library: str
    environment: str
    curves: tuple[Described, ...]
    left_out: tuple[str, ...]
    calibrated: Calibrated
    errors: tuple[ClassErrors, ...]

    @property
    def points(self) -> int:
        """Points of the fit."""
        return sum(len(one.curve) for one in self.curves)


@dataclass(frozen=True, eq=False)
class CollectiveCalibration:
    """What was fitted, by group, the largest first; ``points`` held out and predicted; ``refused``: curves that cannot
    be described, with the reason; ``verdicts`` on curves that contradict the hardware."""

    groups: tuple[FittedGroup, ...]
    points: tuple[HeldOut, ...]
    errors: tuple[ClassErrors, ...]
    refused: Mapping[str, str]
    verdicts: tuple[Verdict, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


def calibrate_collectives(
    data: Paths | Measurements,
    *,
    holdout: str | os.PathLike[str] | float | Holdout | None = None,
    machine: str | os.PathLike[str] | Machine | None = None,
    model: Model | None = None,
) -> CollectiveCalibration:
    """Fit at most 12 constants for each machine and library, and predict what was held out.

    Raises InputError.

    Parameters
    ----------
    data: folders with curves.csv, points.csv and machines.csv, logs of nccl-tests and rccl-tests, their JSON, CSV.
    holdout: a CSV file with the columns curve, place, bytes (no bytes: all), whose points are predicted, and of which
        no time is read; or the share of each curve's sizes that is held out to state the error (a quarter unless
        given) before the constants are fitted to all.
    machine: that was measured, where the data do not describe it, as logs do not: a board such as h100, the path of a
        machine file, or a Machine; default: the shipped board of the GPUs' name, with a warning.
    model: the weights that hold for all machines; default: the shipped ones.
    """
    notes = Notes()
    named, step = _holdout(holdout)
    if isinstance(data, Measurements):
        measured = data if named is None else named.hidden_in(data)
    else:
        measured = read_measurements(data, notes, holdout=named)
    used = model or shipped_model()
    curves, refused = described(measured, bases_of(measured, machine, notes))
    asked = _asked(curves, measured.curves, named, refused, notes)
    seen = timed(curves, notes)
    if not seen and not asked:
        raise InputError("there is nothing to fit: no point of a curve that can be described has a time",
                         found=_first_reason(refused), expected="measured times")  # fmt: skip
    verdicts = verdicts_of(seen, measured, used)
    bad = {verdict.curve for verdict in verdicts if verdict.left_out}
    groups: dict[Key, FittedGroup] = {}
    sick: dict[Key, FittedGroup] = {}
    own: list[HeldOut] = []
    for key, members in grouped(seen).items():
        healthy = [one for one in members if one.curve.name not in bad]
        rest = [one for one in members if one.curve.name in bad] if healthy else []
        groups[key], tried = _fitted(key, healthy or members, rest, step, used)
        own += tried
        if rest:
            sick[key], _ = _fitted(key, rest, [], step, used)
    points = tuple(_predicted(asked, groups, sick, used)) if named is not None else tuple(own)
    return CollectiveCalibration(
        tuple(sorted(groups.values(), key=lambda group: -group.points)),
        points, _errors(own), refused, verdicts, notes.warnings, notes.notes,
    )  # fmt: skip


def _holdout(given: str | os.PathLike[str] | float | Holdout | None) -> tuple[Holdout | None, int]:
    """The points that are held out by name, and every how manieth size is held out to state the error."""
    if isinstance(given, Holdout):
        return given, round(1 / SHARE)
    share: object = SHARE if given is None else given
    if isinstance(share, str | os.PathLike):
        text = os.fspath(share)
        try:
            share = float(text)
        except ValueError:
            return read_holdout(text), round(1 / SHARE)
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0.01 <= share <= 0.5:
        raise InputError("the share that is held out is none", found=share, expected="a file, or 0.01 to 0.5")
    return None, round(1 / share)


def _asked(
    curves: Iterable[Described], all_curves: Sequence[Curve], holdout: Holdout | None, refused: dict[str, str],
    notes: Notes,
) -> list[Described]:  # fmt: skip
    """The curves with the points held out alone. What the data do not have is told."""
    if holdout is None:
        return []
    names = {curve.name for curve in all_curves}
    wanted = holdout.curves | {name for name, _ in holdout.sizes}
    lost = sorted(wanted - names)
    if lost and len(lost) == len(wanted):
        raise InputError("no curve that is to be held out is in the data", found=first_of(lost, 3),
                         expected=first_of(sorted(names), 3))  # fmt: skip
    if lost:
        notes.warn(f"{len(lost):,} curves that are to be held out are not in the data: {first_of(lost, 3)}")
    refused |= dict.fromkeys(lost, "not in the data")
    found = [(one, holdout.rows(one.curve)) for one in curves]
    there = {(one.curve.name, size) for one, rows in found for size in one.curve.bytes[rows].tolist()}
    missing = [f"{name} {size}" for name, size in sorted(holdout.sizes - there) if name in names - refused.keys()]
    if missing:
        notes.warn(f"{len(missing):,} sizes that are to be held out have no row: {first_of(missing, 3)}")
    return [part(one, rows) for one, rows in found if rows.any()]


def _fitted(
    key: Key, curves: list[Described], left_out: list[Described], step: int, model: Model
) -> tuple[FittedGroup, list[HeldOut]]:
    """A group's constants, and its own points held out to state the error."""
    machine, library, environment = key
    library = library.removesuffix("-")
    kept, out = every(curves, step)
    points: list[HeldOut] = []
    if out:
        trial = constants_of(matrix_of(kept), model)
        points = [point for one in out for point in _points(one, trial, model)]
    design = matrix_of(curves)
    source = f"{len(design):,} points of {len(curves):,} curves of {machine}, {library}"
    constants = rounded(constants_of(design, model, source + (f", {environment}" if environment else "")))
    errors = _errors(points)
    calibrated = Calibrated(
        constants,
        tuple(round(value, 6) for value in residual_of_unseen(design, model, constants.residual)),
        frozenset(case_of(one.kind, one.site) for one in curves),
        library,
        {one.name: round(one.error_percent, 2) for one in errors if one.error_percent is not None},
        weights_name(model),
    )
    names = tuple(one.curve.name for one in left_out)
    return FittedGroup(machine, library, environment, tuple(curves), names, calibrated, errors), points


def rounded(constants: Constants) -> Constants:
    """The constants with as many digits as matter, which a file gives back as they are."""
    return Constants(
        {name: round(value, 6) for name, value in constants.values.items()},
        tuple(tuple(float(f"{value:.8g}") for value in row) for row in constants.covariance),
        tuple(round(value, 6) for value in constants.residual),
        constants.source,
    )


def _predicted(
    asked: Iterable[Described], groups: Mapping[Key, FittedGroup], sick: Mapping[Key, FittedGroup], model: Model
) -> Iterable[HeldOut]:
    """The points held out by name: with the constants of their group, of the nearest, or from the description."""
    sizes = {key: group.points for key, group in groups.items()}
    for one in asked:
        key = nearest(one.group, sizes)
        group = groups[key] if key is not None else None
        if group is not None and one.curve.name in group.left_out:
            group = sick[key or one.group]
        if group is None:
            yield from _points(one, None, model)
            continue
        own = group.calibrated
        yield from _points(one, own.of_collective(one.kind, one.site) if key == one.group else own.elsewhere, model)


def _points(one: Described, constants: Constants | None, model: Model) -> Iterable[HeldOut]:
    curve = one.curve
    for place, size, time in zip(curve.place.tolist(), curve.bytes.tolist(), curve.time_us.tolist(), strict=True):
        found = estimate(one.site, one.library, one.terms(size, place), size, constants, model)
        yield HeldOut(curve.name, place, size, None if np.isnan(time) else time, *found.times_us)


def _errors(points: Sequence[HeldOut]) -> tuple[ClassErrors, ...]:
    known = [point for point in points if point.time_us is not None]
    return class_errors(
        [point.curve for point in known],
        [point.size_bytes for point in known],
        [point.time_us or 0.0 for point in known],
        [point.predicted_us for point in known],
        [point.low_us for point in known],
        [point.high_us for point in known],
    )


def _first_reason(refused: Mapping[str, str]) -> str:
    return next(iter(refused.values()), "no times")
