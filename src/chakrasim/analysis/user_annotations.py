"""User annotations: how long each takes on the host and on devices, and which work belongs to which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from chakrasim.analysis.table.nesting import innermost
from chakrasim.analysis.table.result import Flags, Ints, Reals, Result, Texts
from chakrasim.analysis.table.statistics import group_keys, group_statistics
from chakrasim.analysis.table.traces import RankTrace, Traces, open_traces
from chakrasim.notes import Notes
from chakrasim.trace.kineto.columns import HAS_DUR, HAS_TS, KinetoTrace

#: Where an annotation was measured, and the category of its events.
SIDES: Final = {"host": "user_annotation", "device": "gpu_user_annotation"}


@dataclass(frozen=True, eq=False)
class AnnotationBreakdown(Result):
    """One row for each rank, side ("host" or "device") and annotation, the longest total first."""

    TITLE: ClassVar[str] = "User annotations"
    rank: Ints
    side: Texts
    name: Texts
    count: Ints
    total_ns: Ints
    min_ns: Ints
    mean_ns: Reals
    median_ns: Reals
    max_ns: Ints
    std_ns: Reals


@dataclass(frozen=True, eq=False)
class AnnotatedWork(Result):
    """Each piece of device work with its innermost annotation, by rank and start.

    ``source``: "device" if an annotation on its stream covers it, else "host" if one covers its launch on the launching
    thread, else "". ``event``: position in ``traceEvents``.
    """

    TITLE: ClassVar[str] = "Device work by annotation"
    rank: Ints
    event: Ints
    name: Texts
    annotation: Texts
    source: Texts
    start_ns: Ints
    duration_ns: Ints


def annotation_breakdown(traces: Traces, *, rank: int | None = None) -> AnnotationBreakdown:
    """How long each annotation takes. Raises InputError."""
    notes = Notes()
    ranks = open_traces(traces, rank=rank, notes=notes)
    return AnnotationBreakdown.join(notes, [_by_name(one, side) for one in ranks for side in SIDES])


def _by_name(one: RankTrace, side: str) -> AnnotationBreakdown:
    rows = annotation_rows(one.kineto, side)
    group, first = group_keys(one.kineto.name[rows])
    found = group_statistics(np.maximum(one.kineto.dur_ns[rows], 0), group, len(first))
    order = np.argsort(-found.total, kind="stable")
    return AnnotationBreakdown(
        rank=np.full(len(order), one.rank),
        side=(side,) * len(order),
        name=one.work.names(rows[first[order]]),
        **found.in_order(order),
    )


def annotation_rows(kineto: KinetoTrace, side: str) -> Ints:
    """The rows of annotations of a side."""
    return np.flatnonzero(kineto.where(kineto.category, SIDES[side]) & kineto.has(HAS_DUR) & kineto.has(HAS_TS))


def annotated_work(traces: Traces, *, rank: int | None = None) -> AnnotatedWork:
    """The innermost annotation of each piece of device work. Raises InputError."""
    notes = Notes()
    return AnnotatedWork.join(notes, [_labelled(one) for one in open_traces(traces, rank=rank, notes=notes)])


def _labelled(one: RankTrace) -> AnnotatedWork:
    work = one.work
    at = np.flatnonzero(work.busy)
    label, on_device = _labels(one, at)
    source = np.where(label < 0, 0, np.where(on_device, 2, 1))
    return AnnotatedWork(
        rank=np.full(len(at), one.rank),
        event=work.kineto.index[work.row[at]].astype(np.int64),
        name=work.names(work.row[at]),
        annotation=work.names(label),
        source=tuple(map(("", "host", "device").__getitem__, source.tolist())),
        start_ns=work.start_ns[at],
        duration_ns=work.end_ns[at] - work.start_ns[at],
    )


def _labels(one: RankTrace, at: Ints) -> tuple[Ints, Flags]:
    """The row of the innermost annotation of each piece of work (-1: none), and whether it is one of the device."""
    work = one.work
    label = innermost(one.kineto, annotation_rows(one.kineto, "device"), work.row[at])
    on_device = label >= 0
    ask = np.flatnonzero(~on_device & (work.launch[at] >= 0))
    label[ask] = innermost(one.kineto, annotation_rows(one.kineto, "host"), work.launch[at[ask]])
    return label, on_device
