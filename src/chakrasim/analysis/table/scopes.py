"""The windows that figures are for: the whole trace, each profiler step, and the mean of the complete steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from chakrasim.analysis.table.work import DeviceWork

TRACE, MEAN = -1, -2
"""``step`` of rows that are for the whole trace, or the mean over complete steps."""


@dataclass(frozen=True)
class Scope:
    """A window of one rank. ``partial``: a step whose work is missing in the trace."""

    step: int
    start_ns: int
    end_ns: int
    partial: bool = False


def scopes_of(work: DeviceWork, steps: bool = True) -> Iterator[Scope]:
    """The whole trace, then each step."""
    yield Scope(TRACE, *work.window_ns)
    if steps:
        for i in range(len(work.steps)):
            held = work.steps
            yield Scope(int(held.number[i]), int(held.start_ns[i]), int(held.end_ns[i]), bool(held.partial[i]))


def scope_label(step: int, partial: bool = False) -> str:
    """``trace``, ``step 12``, ``mean step``."""
    if step == TRACE:
        return "trace"
    return "mean step" if step == MEAN else f"step {step}{' (partial)' if partial else ''}"


def devices_of(work: DeviceWork) -> list[int]:
    """The devices that did anything, ascending; [-1] if none did."""
    return [int(device) for device in np.unique(work.device[work.busy])] or [-1]


def step_notes(work: DeviceWork) -> list[str]:
    """What to know about the steps before comparing them."""
    if not work.busy.any():
        return [f"rank {work.rank}: no device work was recorded"]
    notes = []
    for number, kernels, lost, partial, unlike in zip(
        *(column.tolist() for column in (work.steps.number, work.steps.kernels, work.steps.lost)),
        *(column.tolist() for column in (work.steps.partial, work.steps.unlike)),
        strict=True,
    ):
        if partial and not kernels:
            notes.append(f"rank {work.rank}, step {number}: no device work was recorded; left out of the mean")
        elif partial:
            notes.append(
                f"rank {work.rank}, step {number}: the work of {lost:,} launches is missing; left out of the mean"
            )
        elif unlike:
            median = float(np.median(work.steps.kernels[work.steps.kernels > 0]))
            notes.append(
                f"rank {work.rank}, step {number}: {kernels:,} pieces of device work, {median:,.6g} in the median"
            )
    return notes
