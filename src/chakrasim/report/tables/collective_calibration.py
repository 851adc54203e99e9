"""The tables of a calibration of collectives."""

from __future__ import annotations

from collections.abc import Sequence

from chakrasim.calibration.collectives.calibrate import CollectiveCalibration, FittedGroup
from chakrasim.calibration.collectives.class_errors import ClassErrors
from chakrasim.calibration.collectives.verdict import Verdict
from chakrasim.collectives.libraries.calibrated import CLASS_NAMES
from chakrasim.text.amounts import first_of, plural
from chakrasim.text.layout import Section


def collective_calibration_sections(calibration: CollectiveCalibration, files: Sequence[str] = ()) -> list[Section]:
    """The tables that the command prints: errors of each machine, what they are pooled, verdicts, files written."""
    head = ("machine", "library", "environment", "curves", "points", *CLASS_NAMES)
    rows = [
        (group.machine, group.library, group.environment, f"{len(group.curves):,}", f"{group.points:,}",
         *map(_error, group.errors))
        for group in calibration.groups
    ]  # fmt: skip
    if len(rows) > 1:
        rows.append(("all", "", "", "", "", *map(_error, calibration.errors)))
    title = "Mean absolute error of sizes held out of a fit to the others, by size"
    pooled = [
        (one.name, f"{one.points:,}", _error(one), _percent(one.covered_percent), _percent(one.half_width_percent))
        for one in calibration.errors
        if one.points
    ]
    return [
        Section(title, head, tuple(rows), (0, 1, 2)),
        Section("The 90 % interval of these", ("sizes", "points", "error", "times inside", "half width"),
                tuple(pooled)),
        verdict_section(calibration.verdicts, calibration.groups),
        Section("Not described", ("curve", "reason"), _refused(calibration), (0, 1)),
        Section(lines=tuple(f"{name} written" for name in files)),
    ]  # fmt: skip


def verdict_section(verdicts: Sequence[Verdict], groups: Sequence[FittedGroup]) -> Section:
    """What contradicts the hardware: one line for each machine, library, environment and cause."""
    alike: dict[tuple[str, ...], list[Verdict]] = {}
    for one in verdicts:
        alike.setdefault((one.machine, one.library, one.environment, one.where, one.cause.split(":")[-1]), []).append(
            one
        )
    fitted = {one.curve.name for group in groups for one in group.curves}
    lines = []
    for (machine, library, environment, *_), same in alike.items():
        whose = ", ".join(part for part in (machine, library, environment) if part)
        lines.append(f"{whose}: {verdict_text(same, fitted)}")
    return Section("Measurements that contradict the hardware", lines=tuple(lines), loud=True)


def verdict_text(same: Sequence[Verdict], fitted: frozenset[str] | set[str]) -> str:
    """Verdicts of one cause in a sentence: what was measured of what was possible, the cause, and what became of it."""
    worst = min(same, key=lambda one: (one.measured_GBps / one.wire_GBps if one.wire_GBps else 0.0, -one.slower))
    what = worst.where
    if worst.wire_GBps:
        what += (
            f" {worst.measured_GBps:.3g} GB/s of {worst.wire_GBps:.4g}, {worst.slower:.1f} times longer than it takes"
        )
    else:
        what += f" {worst.slower:.1f} times longer"
    used = any(one.curve in fitted for one in same)
    became = "fitted, for there are no others" if used and worst.left_out else "left out of the fit"
    became = became if worst.left_out else "the median is fitted"
    names = plural(len(same), "curve") if len(same) > 1 else worst.curve
    return f"{what} ({names}): {worst.cause}; {became}"


def _refused(calibration: CollectiveCalibration) -> tuple[tuple[str, str], ...]:
    """Curves refused for like reasons, counted."""
    alike: dict[str, list[str]] = {}
    for name, reason in calibration.refused.items():
        alike.setdefault(reason.replace(name, "CURVE"), []).append(name)
    return tuple((first_of(names, 2), reason) for reason, names in alike.items())


def _error(one: ClassErrors) -> str:
    return _percent(one.error_percent)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} %"
