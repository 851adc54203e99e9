"""Runs of a benchmark, each one table of times, put together to curves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from chakrasim.calibration.measurements.curves import Curve, MachineRow, Measurements, Points, with_points
from chakrasim.calibration.measurements.nccl_debug import NcclDebug
from chakrasim.errors import shown
from chakrasim.notes import Notes

Point = tuple[bool, int, float, float, float, int]
"""In place, bytes, time, low and high in us, repeats."""

_ENDS: Final = frozenset({".gz", ".log", ".txt", ".out", ".csv", ".json"})
_SAME: Final = (
    *("source", "machine", "gpu", "nodes", "gpus_per_node", "nranks", "library", "version", "collective"),
    *("algo", "proto", "env", "dtype", "redop", "hosts"),
)


@dataclass(frozen=True, eq=False)
class Run:
    """What one table holds: a curve without points, whose name is the file's, and the points."""

    curve: Curve
    points: list[Point]
    debug: NcclDebug | None = None
    machine: MachineRow | None = None


def assembled(runs: Sequence[Run], notes: Notes) -> Measurements:
    """The runs as curves: those of the same ranks, library and collective are one, whose points were measured again."""
    index: dict[tuple[object, ...], int] = {}
    curves: list[Curve] = []
    names: set[str] = set()
    recorded: dict[str, NcclDebug] = {}
    machines: dict[str, MachineRow] = {}
    columns: list[tuple[int, Point]] = []
    for run in runs:
        key = tuple(getattr(run.curve, name) for name in _SAME)
        if key not in index:
            index[key] = len(curves)
            curves.append(replace(run.curve, name=unused(_name_of(run.curve), names)))
        at = index[key]
        columns += [(at, point) for point in run.points]
        if run.debug is not None:
            recorded.setdefault(curves[at].name, run.debug)
        if run.machine is not None:
            machines.setdefault(run.machine.name, run.machine)
    complete, again = with_points(curves, _points(columns))
    if again:
        notes.warn(f"{again:,} points were measured again: the median of each is taken")
    return Measurements(complete, machines, recorded)


def unused(name: str, names: set[str]) -> str:
    """The name, or the first of ``NAME-2``, ``NAME-3``, ... that is not among the names; it is added to them."""
    free, number = name, 1
    while free in names:
        number += 1
        free = f"{name}-{number}"
    names.add(free)
    return free


def joined(parts: Iterable[Measurements], notes: Notes) -> Measurements:
    """All curves and machines of several sources. Of machines of one name the first stays."""
    curves: list[Curve] = []
    machines: dict[str, MachineRow] = {}
    recorded: dict[str, NcclDebug] = {}
    names: set[str] = set()
    for part in parts:
        for curve in part.curves:
            name = unused(curve.name, names)
            curves.append(replace(curve, name=name))
            if curve.name in part.recorded:
                recorded[name] = part.recorded[curve.name]
        own = {curve.name for curve in part.curves}
        recorded |= {unused(name, names): debug for name, debug in part.recorded.items() if name not in own}
        for name, machine in part.machines.items():
            if machines.setdefault(name, machine) != machine:
                notes.warn(f"machine {shown(name)}: described twice, differently; the first description is taken")
    return Measurements(tuple(curves), machines, recorded)


def stem_of(file: str) -> str:
    """The name of a file without its folder and the ends that say what it is."""
    name = os.path.basename(file)
    while (parts := os.path.splitext(name))[1].lower() in _ENDS:
        name = parts[0]
    return name


def _name_of(curve: Curve) -> str:
    return f"{curve.name}-{curve.collective}-N{curve.nodes}-n{curve.nranks}"


def _points(columns: Sequence[tuple[int, Point]]) -> Points:
    ints = np.array([(at, point[0], point[1], point[5]) for at, point in columns], np.int64).reshape(-1, 4)
    floats = np.array([point[2:5] for _, point in columns], np.float64).reshape(-1, 3)
    return Points(
        ints[:, 0], ints[:, 1].astype(np.bool_), ints[:, 2], floats[:, 0], floats[:, 1], floats[:, 2], ints[:, 3]
    )
