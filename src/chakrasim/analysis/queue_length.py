"""How many launched pieces of work wait on each stream, over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from chakrasim.analysis.table.result import Ints, Reals, Result, percentage
from chakrasim.analysis.table.traces import Traces, open_traces
from chakrasim.analysis.table.work import DeviceWork
from chakrasim.notes import Notes

#: CUDA's driver blocks a launch when this many are outstanding on a stream.
FULL_QUEUE: Final = 1024


@dataclass(frozen=True, eq=False)
class QueueSeries(Result):
    """A point for each launch and each start of work, by rank, device, stream and time: ``length`` from ``ts_ns`` on.

    ``event``: position in ``traceEvents`` of the launching call or the work. At equal times launches come first.
    """

    TITLE: ClassVar[str] = "Queue length over time"
    rank: Ints
    device: Ints
    stream: Ints
    ts_ns: Ints
    length: Ints
    event: Ints


@dataclass(frozen=True, eq=False)
class QueueSummary(Result):
    """One row for each rank, device and stream.

    ``mean``: over time, from the first launch to the last start. ``full_ns``: with at least the limit in the queue;
    ``full_pct``: of the time from the first launch to the last start.
    """

    TITLE: ClassVar[str] = "Queue length"
    rank: Ints
    device: Ints
    stream: Ints
    launches: Ints
    span_ns: Ints
    mean: Reals
    max: Ints
    full_ns: Ints
    full_pct: Reals


def queue_series(traces: Traces, *, rank: int | None = None) -> QueueSeries:
    """The length of each stream's queue over time. Raises InputError."""
    notes = Notes()
    parts = [_series(one.work, notes) for one in open_traces(traces, rank=rank, notes=notes)]
    return QueueSeries.join(notes, parts)


def queue_summary(traces: Traces, *, rank: int | None = None, full: int = FULL_QUEUE) -> QueueSummary:
    """Mean and longest queue of each stream, and the time with ``full`` or more in it. Raises InputError."""
    return summarise(queue_series(traces, rank=rank), full)


def summarise(series: QueueSeries, full: int = FULL_QUEUE) -> QueueSummary:
    """The summary of a series."""
    count = len(series.ts_ns)
    opens = np.ones(count, np.bool_)
    keys = {"rank": series.rank, "device": series.device, "stream": series.stream}
    opens[1:] = np.any([column[1:] != column[:-1] for column in keys.values()], axis=0)
    first = np.flatnonzero(opens)
    if not count:
        return QueueSummary.of_rows(series.notes, ())
    last = np.append(first[1:], count) - 1
    lasts = np.diff(series.ts_ns, append=0)
    lasts[last] = 0
    span = series.ts_ns[last] - series.ts_ns[first]
    held = np.add.reduceat((series.length * lasts).astype(np.float64), first)
    blocked = np.add.reduceat(np.where(series.length >= full, lasts, 0), first)
    return QueueSummary(
        notes=series.notes,
        **{name: column[first] for name, column in keys.items()},
        launches=(last - first + 1) // 2,
        span_ns=span,
        mean=np.divide(held, span, out=np.full(len(first), np.nan), where=span > 0),
        max=np.maximum.reduceat(series.length, first),
        full_ns=blocked,
        full_pct=percentage(blocked, span),
    )


def _series(work: DeviceWork, notes: Notes) -> QueueSeries:
    notes.note(*work.notes)
    at = np.flatnonzero(work.busy & (work.launch >= 0))
    start, call = work.start_ns[at], work.kineto.ts_ns[work.launch[at]]
    early = int((call > start).sum())
    if early:
        notes.note(f"rank {work.rank}: {early:,} pieces of work start before their launch; taken as launched then")
    count = len(at)
    ts = np.concatenate([np.minimum(call, start), start])
    step = np.concatenate([np.ones(count, np.int64), np.full(count, -1)])
    device, stream = np.tile(work.device[at], 2), np.tile(work.stream[at], 2)
    event = work.kineto.index[np.concatenate([work.launch[at], work.row[at]])].astype(np.int64)
    order = np.lexsort((-step, ts, stream, device))
    return QueueSeries(
        rank=np.full(2 * count, work.rank),
        device=device[order],
        stream=stream[order],
        ts_ns=ts[order],
        length=np.cumsum(step[order]),  # every queue is empty at its end, so one running sum serves all
        event=event[order],
    )
