"""What changed between two traces: operators and kernels by name, how often and how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from chakrasim.analysis.operators import operator_rows
from chakrasim.analysis.table.kernel_classes import CLASS_NAMES
from chakrasim.analysis.table.result import Reals, Result, Texts
from chakrasim.analysis.table.statistics import group_keys, sums
from chakrasim.analysis.table.traces import Traces, open_traces
from chakrasim.analysis.table.work import DeviceWork
from chakrasim.errors import InputError
from chakrasim.notes import Notes

HOST = "operator"


@dataclass(frozen=True, eq=False)
class TraceComparison(Result):
    """One row for each operator and each kernel of either trace, the largest change of time first.

    ``kind``: "operator" or the class of device work. Counts and times are per step (the mean over complete steps) where
    both traces have steps, else of the whole traces; ``change`` is "added", "deleted", "+" or "-" by count; where that
    is the same, "slower" or "faster" by time, or "=".
    """

    TITLE: ClassVar[str] = "Changes from the first trace to the second"
    kind: Texts
    name: Texts
    count_a: Reals
    count_b: Reals
    total_a_ns: Reals
    total_b_ns: Reals
    diff_count: Reals
    diff_ns: Reals
    change: Texts


_Table = dict[tuple[str, str], tuple[float, float]]


def compare_traces(
    a: Traces,
    b: Traces,
    *,
    rank_a: int | None = None,
    rank_b: int | None = None,
    step_a: int | None = None,
    step_b: int | None = None,
    side: str = "all",
    short_names: bool = False,
) -> TraceComparison:
    """Compare the first rank of ``a`` with that of ``b``, or the ranks named.

    ``step_a`` and ``step_b`` pick a profiler step; without them the mean over complete steps, or the whole traces if
    one of them has no steps. ``side``: "host", "device" or "all". ``short_names``: without template and call
    arguments; names that become equal count together. Raises InputError.
    """
    if side not in ("host", "device", "all"):
        raise InputError("there is no such side", found=repr(side), expected="host, device or all")
    notes = Notes()
    works = [open_traces(t, rank=r, notes=notes)[0].work for t, r in ((a, rank_a), (b, rank_b))]
    chosen = [_steps(work, step) for work, step in zip(works, (step_a, step_b), strict=True)]
    whole = not all(map(len, chosen))
    if whole and any(map(len, chosen)):
        notes.note("one of the traces has no steps: whole traces are compared")
    tables = [_table(work, steps, whole, side, short_names) for work, steps in zip(works, chosen, strict=True)]
    return _joined(tables[0], tables[1], tuple(notes))


def _steps(work: DeviceWork, step: int | None) -> NDArray[np.int64]:
    """Positions of the steps to compare."""
    if step is None:
        return np.flatnonzero(~work.steps.partial) if len(work.steps) else np.zeros(0, np.int64)
    at = np.flatnonzero(work.steps.number == step)
    if not len(at):
        known = ", ".join(map(str, work.steps.number.tolist()[:20])) or "no steps"
        raise InputError(f"the trace has no step {step}", file=work.kineto.source, found=known)
    return at


def _table(work: DeviceWork, steps: NDArray[np.int64], whole: bool, side: str, short: bool) -> _Table:
    """Count and time by kind and name."""
    kineto = work.kineto
    per = 1 if whole else max(len(steps), 1)
    table: _Table = {}
    if side != "device":
        rows = operator_rows(kineto)
        if not whole:
            rows = rows[np.isin(work.steps.holding(kineto.ts_ns[rows]), steps)]
        _add(table, work, rows, np.full(len(rows), len(CLASS_NAMES)), np.maximum(kineto.dur_ns[rows], 0), per, short)
    if side != "host":
        at = np.flatnonzero(work.busy if whole else work.busy & np.isin(work.step, steps))
        _add(table, work, work.row[at], work.kind[at], work.end_ns[at] - work.start_ns[at], per, short)
    return table


def _add(
    table: _Table,
    work: DeviceWork,
    rows: NDArray[np.int64],
    kind: NDArray[np.integer],
    length: NDArray[np.int64],
    per: int,
    short: bool,
) -> None:
    group, first = group_keys(kind.astype(np.int64), work.kineto.name[rows].astype(np.int64))
    count = np.bincount(group, minlength=len(first))
    total = sums(length, group, len(first))
    kinds = (*CLASS_NAMES, HOST)
    for g, name in enumerate(work.names(rows[first])):
        key = kinds[int(kind[first[g]])], short_name(name) if short else name
        before = table.get(key, (0.0, 0.0))
        table[key] = before[0] + count[g] / per, before[1] + total[g] / per


def short_name(name: str) -> str:
    """A name without what stands in ``<>`` and ``()``, and of that the last word. Copies keep theirs."""
    if name.startswith(("Mem", "hipMem", "dma")) or not ("<" in name or "(" in name):
        return name
    kept: list[str] = []
    for letter in name.replace("->", ""):
        opener = {">": "<", ")": "("}.get(letter)
        if opener is None:
            kept.append(letter)
            continue
        while kept and kept[-1] != opener:
            kept.pop()
        if kept:
            kept.pop()
    return "".join(kept).split(" ")[-1]


def _joined(a: _Table, b: _Table, notes: tuple[str, ...]) -> TraceComparison:
    keys = sorted(a.keys() | b.keys())
    none = (0.0, 0.0)
    figures = np.array([(*a.get(key, none), *b.get(key, none)) for key in keys], np.float64).reshape(-1, 4)
    order = np.argsort(-np.abs(figures[:, 3] - figures[:, 1]), kind="stable")
    figures, keys = figures[order], [keys[i] for i in order.tolist()]
    change = tuple(_change(*row) for row in figures.tolist())
    return TraceComparison(
        notes=notes,
        kind=tuple(kind for kind, _ in keys),
        name=tuple(name for _, name in keys),
        count_a=figures[:, 0],
        count_b=figures[:, 2],
        total_a_ns=figures[:, 1],
        total_b_ns=figures[:, 3],
        diff_count=figures[:, 2] - figures[:, 0],
        diff_ns=figures[:, 3] - figures[:, 1],
        change=change,
    )


def _change(before: float, before_ns: float, after: float, after_ns: float) -> str:
    if not before:
        return "added"
    if not after:
        return "deleted"
    if before != after:
        return "+" if after > before else "-"
    return "=" if before_ns == after_ns else "slower" if after_ns > before_ns else "faster"
