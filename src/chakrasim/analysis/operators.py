"""Which operators launch which kernels, and how long they take to get there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from chakrasim.analysis.table.nesting import innermost
from chakrasim.analysis.table.result import Ints, Reals, Result, Texts
from chakrasim.analysis.table.sequence_groups import equal_sequences
from chakrasim.analysis.table.statistics import group_statistics, sums
from chakrasim.analysis.table.traces import Traces, open_traces
from chakrasim.analysis.table.work import DeviceWork
from chakrasim.notes import Notes
from chakrasim.trace.kineto.columns import HAS_DUR, HAS_TS, KinetoTrace

#: Categories of operators.
OPERATOR_CATEGORIES = ("cpu_op", "Operator")


@dataclass(frozen=True, eq=False)
class OperatorKernels(Result):
    """One row for each rank, operator and sequence of work it launches itself, the most frequent first.

    A launch belongs to the innermost operator around it on its thread. ``work``: names of kernels and copies in the
    order of their launches, joined by " -> ". ``to_launch_ns``: mean time from the operator's start to its first
    launch; ``to_start_ns``: mean time from that launch to the start of its work (0 if it starts earlier). ``work_ns``:
    all work of all occurrences.
    """

    TITLE: ClassVar[str] = "Operators and their kernels"
    rank: Ints
    operator: Texts
    work: Texts
    count: Ints
    to_launch_ns: Reals
    to_start_ns: Reals
    work_ns: Ints


def operator_kernels(traces: Traces, *, rank: int | None = None) -> OperatorKernels:
    """The work of each operator. Raises InputError."""
    notes = Notes()
    return OperatorKernels.join(
        notes, [_of_rank(one.work, notes) for one in open_traces(traces, rank=rank, notes=notes)]
    )


def operator_rows(kineto: KinetoTrace) -> Ints:
    """The rows of operators."""
    return np.flatnonzero(
        kineto.where(kineto.category, *OPERATOR_CATEGORIES) & kineto.has(HAS_DUR) & kineto.has(HAS_TS)
    )


def _of_rank(work: DeviceWork, notes: Notes) -> OperatorKernels:
    kineto = work.kineto
    at = np.flatnonzero(work.busy & (work.launch >= 0))
    holder = innermost(kineto, operator_rows(kineto), work.launch[at])
    alone = int((holder < 0).sum())
    if alone:
        notes.note(f"rank {work.rank}: {alone:,} pieces of work are launched outside all operators")
    at, holder = at[holder >= 0], holder[holder >= 0]
    call = work.launch[at]
    order = np.lexsort((work.start_ns[at], kineto.ts_ns[call], holder))
    at, holder, call = at[order], holder[order], call[order]
    opens = np.append(True, holder[1:] != holder[:-1])[: len(holder)]
    offsets = np.append(np.flatnonzero(opens), len(at))
    head = offsets[:-1]
    name = kineto.name[work.row[at]].astype(np.int64)
    group, first = equal_sequences(name, offsets, kineto.name[holder[head]].astype(np.int64))
    to_launch = kineto.ts_ns[call[head]] - kineto.ts_ns[holder[head]]
    to_start = np.maximum(work.start_ns[at[head]] - kineto.ts_ns[call[head]], 0)
    size = len(first)
    launch, start = group_statistics(to_launch, group, size), group_statistics(to_start, group, size)
    work_ns = sums(work.end_ns[at] - work.start_ns[at], np.repeat(group, np.diff(offsets)), size)
    ranked = np.argsort(-launch.count, kind="stable")
    chosen = first[ranked].tolist()
    return OperatorKernels(
        rank=np.full(size, work.rank),
        operator=work.names(holder[head[first[ranked]]]),
        work=tuple(" -> ".join(work.names(work.row[at[offsets[i] : offsets[i + 1]]])) for i in chosen),
        count=launch.count[ranked],
        to_launch_ns=launch.mean[ranked],
        to_start_ns=start.mean[ranked],
        work_ns=work_ns[ranked],
    )
