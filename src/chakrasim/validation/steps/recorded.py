"""Steps that were recorded: a folder with a table of what ran, and PyTorch's traces of its rows in folders."""

from __future__ import annotations

import math
import os
import re
from dataclasses import replace
from glob import escape, glob
from statistics import median
from typing import Final

from chakrasim.errors import InputError
from chakrasim.text.amounts import first_of
from chakrasim.validation.steps.rows import StepTable, read_steps

_STEP: Final = re.compile(r"ProfilerStep#[0-9]+")


def read_measured(path: str | os.PathLike[str]) -> StepTable:
    """A table of steps, or of a folder the table in it, whose blank times are those of recordings.

    The recording of a row is in a folder of the row's id. Raises InputError for a folder without a table or with
    several, and for recordings without steps.
    """
    folder = os.fspath(path)
    if not os.path.isdir(folder):
        return read_steps(folder)
    tables = sorted(glob(os.path.join(escape(folder), "*.csv")) + glob(os.path.join(escape(folder), "*.csv.gz")))
    if len(tables) != 1:
        names = first_of([os.path.basename(one) for one in tables])
        raise InputError("not one table", file=folder, found=names or "none",
                         expected="a CSV file that describes the recorded steps")  # fmt: skip
    table = read_steps(tables[0])
    measured = []
    for row, seconds in zip(table.rows, table.measured_s, strict=True):
        recorded = os.path.join(folder, row.id)
        here = math.isnan(seconds) and os.path.basename(row.id) == row.id and os.path.isdir(recorded)
        measured.append(recorded_step_s(recorded) if here else seconds)
    return replace(table, measured_s=tuple(measured))


def recorded_step_s(folder: str) -> float:
    """Seconds of a recorded step: the slowest rank's of each ``ProfilerStep``, of these the median."""
    from chakrasim.analysis.user_annotations import annotation_breakdown

    found = annotation_breakdown(folder)
    slowest: dict[str, float] = {}
    for name, side, time_ns in zip(found.name, found.side, found.mean_ns, strict=True):
        if str(side) == "host" and _STEP.fullmatch(str(name)):
            slowest[str(name)] = max(slowest.get(str(name), 0.0), float(time_ns))
    if not slowest:
        raise InputError("no steps were recorded", file=folder, expected="ProfilerStep#N in its device traces",
                         remedy="let the profiler know of steps: prof.step()")  # fmt: skip
    return median(slowest.values()) / 1e9
