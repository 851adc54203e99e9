"""Sequences of kernels that operators of a name launch again and again: candidates for fusion or a CUDA graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from chakrasim.analysis.operators import operator_rows
from chakrasim.analysis.table.nesting import nest, threads_of
from chakrasim.analysis.table.result import Ints, Result, Texts
from chakrasim.analysis.table.sequence_groups import equal_sequences
from chakrasim.analysis.table.statistics import sums
from chakrasim.analysis.table.traces import Traces, open_traces
from chakrasim.analysis.table.work import DeviceWork
from chakrasim.notes import Notes


@dataclass(frozen=True, eq=False)
class KernelSequences(Result):
    """One row for each rank, operator and sequence of work launched inside it, the most frequent first.

    ``work``: names in the order of starting, joined by " | ". ``work_ns``, ``operator_ns``: all occurrences together.
    """

    TITLE: ClassVar[str] = "Sequences of kernels"
    rank: Ints
    operator: Texts
    work: Texts
    length: Ints
    count: Ints
    work_ns: Ints
    operator_ns: Ints


def kernel_sequences(
    traces: Traces, operator: str = "", *, rank: int | None = None, least: int = 3, top: int | None = None
) -> KernelSequences:
    """Sequences of at least ``least`` pieces of work inside operators whose name contains ``operator``.

    Of matching operators inside each other the outermost counts; an empty name means all outermost operators. ``top``:
    so many rows a rank. Raises InputError.
    """
    notes = Notes()
    parts = []
    for one in open_traces(traces, rank=rank, notes=notes):
        found = _of_rank(one.work, operator, least, top)
        if not len(found):
            named = f" named {operator!r}" if operator else ""
            notes.note(f"rank {one.rank}: no operator{named} launches {least} or more pieces of work")
        parts.append(found)
    return KernelSequences.join(notes, parts)


def _of_rank(work: DeviceWork, operator: str, least: int, top: int | None) -> KernelSequences:
    kineto = work.kineto
    at, root = _within(work, operator)
    order = np.lexsort((work.start_ns[at], root))
    at, root = at[order], root[order]
    head = np.flatnonzero(np.append(True, root[1:] != root[:-1])[: len(root)])
    count = np.diff(np.append(head, len(at)))
    keep = np.repeat(count >= least, count)
    at, root = at[keep], root[keep]
    offsets = np.append(0, np.cumsum(count[count >= least]))
    head = offsets[:-1]
    name = kineto.name[work.row[at]].astype(np.int64)
    group, first = equal_sequences(name, offsets, kineto.name[root[head]].astype(np.int64))
    times = np.bincount(group, minlength=len(first)).astype(np.int64)
    each = np.repeat(group, np.diff(offsets))
    work_ns = sums(work.end_ns[at] - work.start_ns[at], each, len(first))
    operator_ns = sums(kineto.dur_ns[root[head]], group, len(first))
    ranked = np.lexsort((-work_ns, -times))[:top]
    chosen = first[ranked].tolist()
    return KernelSequences(
        rank=np.full(len(ranked), work.rank),
        operator=work.names(root[head[first[ranked]]]),
        work=tuple(" | ".join(work.names(work.row[at[offsets[i] : offsets[i + 1]]])) for i in chosen),
        length=np.diff(offsets)[first[ranked]],
        count=times[ranked],
        work_ns=work_ns[ranked],
        operator_ns=operator_ns[ranked],
    )


def _within(work: DeviceWork, operator: str) -> tuple[Ints, Ints]:
    """Pieces of work launched inside outermost operators of the name, and the row of that operator."""
    kineto = work.kineto
    rows = operator_rows(kineto)
    if operator:
        rows = rows[kineto.strings.each(kineto.name[rows], lambda name: operator in name)]
    at = np.flatnonzero(work.busy & (work.launch >= 0))
    both = np.concatenate([rows, work.launch[at]])
    start = kineto.ts_ns[both]
    is_call = np.arange(len(both)) >= len(rows)
    end = np.where(is_call, start, start + np.maximum(kineto.dur_ns[both], 0))
    nested = nest(threads_of(kineto, both), start, end)
    entered_call = is_call[nested.entered]
    roots = np.flatnonzero((nested.depth == 0) & ~entered_call)
    calls = np.flatnonzero(entered_call)
    place = np.searchsorted(roots, calls, "right") - 1
    inside = place >= 0
    inside[inside] = calls[inside] < nested.end_of_family[roots[place[inside]]]
    calls, place = calls[inside], place[inside]
    return at[nested.entered[calls] - len(rows)], both[nested.entered[roots[place]]]
