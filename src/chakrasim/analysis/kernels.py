"""Which kernels take the time: by class, and by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from chakrasim.analysis.table.kernel_classes import CLASS_NAMES, COMMUNICATION, COMPUTE, MEMORY, OTHER
from chakrasim.analysis.table.result import Ints, Reals, Result, Texts, percentage
from chakrasim.analysis.table.scopes import devices_of
from chakrasim.analysis.table.statistics import group_keys, group_statistics
from chakrasim.analysis.table.traces import RankTrace, Traces, open_traces
from chakrasim.notes import Notes
from chakrasim.trace.intervals import merge, time_by_state

_ORDER = (COMPUTE, COMMUNICATION, MEMORY, OTHER)


@dataclass(frozen=True, eq=False)
class KernelTypes(Result):
    """Time with each combination of classes running: one row for each rank, device and combination that lasts.

    ``running``: class names joined by " + ". ``pct``: of the time during which anything ran on the device.
    """

    TITLE: ClassVar[str] = "Time by what runs at once"
    rank: Ints
    device: Ints
    running: Texts
    time_ns: Ints
    pct: Reals


@dataclass(frozen=True, eq=False)
class KernelBreakdown(Result):
    """One row for each rank, class and kernel, the longest total of a rank first.

    Figures are of single kernels: ``total_ns`` counts overlapping kernels each. ``std_ns``: of the sample, NaN for one
    kernel. ``pct``: of the total of the rank's kernels of all classes.
    """

    TITLE: ClassVar[str] = "Kernels"
    rank: Ints
    kind: Texts
    name: Texts
    count: Ints
    total_ns: Ints
    pct: Reals
    min_ns: Ints
    mean_ns: Reals
    median_ns: Reals
    max_ns: Ints
    std_ns: Reals


def kernel_types(traces: Traces, *, rank: int | None = None) -> KernelTypes:
    """Time with each combination of classes running. Raises InputError."""
    notes = Notes()
    rows = []
    for one in open_traces(traces, rank=rank, notes=notes):
        work = one.work
        for device in devices_of(work):
            chosen = [(work.device == device) & (work.kind == kind) for kind in _ORDER]
            time = time_by_state([merge(work.start_ns[at], work.end_ns[at]) for at in chosen])
            states = sorted((state for state in range(1, len(time)) if time[state]), key=lambda state: -time[state])
            busy = int(time[1:].sum())
            rows += [(one.rank, device, state_name(s), time[s], 100 * time[s] / busy) for s in states]
    return KernelTypes.of_rows(notes, rows)


def state_name(state: int) -> str:
    """The classes whose bits are set."""
    return " + ".join(CLASS_NAMES[kind] for bit, kind in enumerate(_ORDER) if state >> bit & 1)


def kernel_breakdown(traces: Traces, *, rank: int | None = None, top: int | None = None) -> KernelBreakdown:
    """The kernels by name; of each rank the ``top`` longest totals, or all. Raises InputError."""
    notes = Notes()
    parts = [_of_rank(one, top, notes) for one in open_traces(traces, rank=rank, notes=notes)]
    return KernelBreakdown.join(notes, parts)


def _of_rank(one: RankTrace, top: int | None, notes: Notes) -> KernelBreakdown:
    work = one.work
    notes.note(*work.notes)
    busy = np.flatnonzero(work.busy)
    length = (work.end_ns - work.start_ns)[busy]
    group, first = group_keys(work.kind[busy], one.kineto.name[work.row[busy]])
    found = group_statistics(length, group, len(first))
    order = np.argsort(-found.total, kind="stable")
    if top is not None and len(order) > top:
        rest = int(found.total[order[top:]].sum())
        notes.note(f"rank {one.rank}: {len(order) - top:,} more kernels take {rest:,} ns together")
        order = order[:top]
    example = busy[first[order]]
    return KernelBreakdown(
        rank=np.full(len(order), one.rank),
        kind=tuple(CLASS_NAMES[kind] for kind in work.kind[example].tolist()),
        name=work.names(work.row[example]),
        pct=percentage(found.total, int(length.sum()))[order],
        **found.in_order(order),
    )
