"""Where the time of a device goes: compute, exposed communication, exposed copies, idle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from chakrasim.analysis.table.kernel_classes import COMMUNICATION, COMPUTE, MEMORY, OTHER
from chakrasim.analysis.table.result import Flags, Ints, Reals, Result, percentage
from chakrasim.analysis.table.scopes import MEAN, Scope, devices_of, scope_label, scopes_of, step_notes
from chakrasim.analysis.table.traces import Traces, open_traces
from chakrasim.analysis.table.work import DeviceWork
from chakrasim.notes import Notes
from chakrasim.trace.intervals import Union, check_times, merge, time_by_state

PARTS = ("before", "compute", "exposed_comm", "exposed_memory", "other", "idle", "after")
SUMS = ("communication", "overlap_comm_compute", "busy", "span")
_ORDER = (COMPUTE, COMMUNICATION, MEMORY, OTHER)


@dataclass(frozen=True, eq=False)
class TemporalBreakdown(Result):
    """One row for each rank, device and scope. The seven parts add up to ``window_ns`` exactly.

    ``step``: a step's number, -1 the whole trace, -2 the mean over the rank's complete steps (if there are several);
    a step's window is the host's ``ProfilerStep`` span, whatever step launched the work in it. ``before_ns`` and
    ``after_ns``: until the first and since the last work of the window. ``exposed_comm_ns``: communication while
    nothing computes; ``exposed_memory_ns``: copies while nothing computes or communicates. Waiting (stream, event
    and device synchronisation) is not work. Percentages are of the window, NaN if that is empty.

    ``communication_ns``: some communication runs; ``overlap_comm_compute_ns``: compute too; ``busy_ns``: anything runs;
    ``span_ns``: from the first start to the last end, busy and idle.
    """

    TITLE: ClassVar[str] = "Where the time goes"
    NOT_IN_TABLES: ClassVar[tuple[str, ...]] = tuple(f"{sum_}_ns" for sum_ in SUMS)
    rank: Ints
    device: Ints
    step: Ints
    window_ns: Ints
    before_ns: Ints
    compute_ns: Ints
    exposed_comm_ns: Ints
    exposed_memory_ns: Ints
    other_ns: Ints
    idle_ns: Ints
    after_ns: Ints
    compute_pct: Reals
    exposed_comm_pct: Reals
    idle_pct: Reals
    communication_ns: Ints
    overlap_comm_compute_ns: Ints
    busy_ns: Ints
    span_ns: Ints
    partial: Flags


def temporal_breakdown(traces: Traces, *, rank: int | None = None, steps: bool = True) -> TemporalBreakdown:
    """The breakdown of each trace, of each of its devices, and of each profiler step. Raises InputError."""
    notes = Notes()
    rows: list[tuple[int, ...]] = []
    for one in open_traces(traces, rank=rank, notes=notes):
        notes.note(*one.work.notes, *step_notes(one.work))
        for device in devices_of(one.work):
            rows += _of_device(one.work, device, steps)
    table = np.array(rows, np.int64).reshape(-1, 5 + len(PARTS) + len(SUMS))
    names = ("rank", "device", "step", "window_ns", *(f"{part}_ns" for part in PARTS + SUMS))
    columns: dict[str, Any] = {name: table[:, i].copy() for i, name in enumerate(names)}
    shown = ("compute", "exposed_comm", "idle")
    shares = {f"{part}_pct": percentage(columns[f"{part}_ns"], columns["window_ns"]) for part in shown}
    return TemporalBreakdown(notes=tuple(notes), **columns, **shares, partial=table[:, -1] != 0)


def _of_device(work: DeviceWork, device: int, steps: bool) -> list[tuple[int, ...]]:
    mine = work.device == device
    unions = [merge(work.start_ns[at], work.end_ns[at]) for at in (mine & (work.kind == kind) for kind in _ORDER)]
    rows, whole_steps = [], []
    for scope in scopes_of(work, steps):
        parts = parts_of_window(unions, scope)
        row = (work.rank, device, scope.step, scope.end_ns - scope.start_ns, *parts, int(scope.partial))
        rows.append(row)
        if scope.step >= 0 and not scope.partial:
            whole_steps.append(row)
    if len(whole_steps) > 1:
        rows.append(_mean(work.rank, device, np.array(whole_steps, np.int64)))
    return rows


def parts_of_window(unions: list[Union], scope: Scope) -> tuple[int, ...]:
    """The time in each of PARTS and SUMS; ``unions`` are those of compute, communication, copies and other work.
    Raises ChakrasimError if one of them is negative, which intervals in order never give."""
    clipped = [union.clip(scope.start_ns, scope.end_ns) for union in unions]
    first = min((int(union.start[0]) for union in clipped if len(union)), default=scope.end_ns)
    last = max((int(union.end[-1]) for union in clipped if len(union)), default=scope.end_ns)
    time = time_by_state(clipped)
    state = np.arange(len(time))
    compute, comm, memory = (state & 1) != 0, (state & 2) != 0, (state & 4) != 0
    chosen = {
        "compute": compute,
        "exposed_comm": ~compute & comm,
        "exposed_memory": ~compute & ~comm & memory,
        "other": ~compute & ~comm & ~memory & (state > 0),
        "idle": state == 0,
        "communication": comm,
        "overlap_comm_compute": compute & comm,
        "busy": state > 0,
    }
    times = {name: int(time[which].sum()) for name, which in chosen.items()}
    times |= {"before": first - scope.start_ns, "after": scope.end_ns - last, "span": max(last - first, 0)}
    check_times(times, f"{scope_label(scope.step, scope.partial)}, {scope.start_ns} to {scope.end_ns} ns")
    return tuple(times[name] for name in PARTS + SUMS)


def _mean(rank: int, device: int, rows: Ints) -> tuple[int, ...]:
    """The mean of steps, in whole nanoseconds; the window is what the parts add up to."""
    times = np.rint(rows[:, 4:-1].mean(axis=0)).astype(np.int64).tolist()
    return rank, device, MEAN, sum(times[: len(PARTS)]), *times, 0
