"""Memory of devices over time, as PyTorch's profiler records it with ``profile_memory=True``.

Each allocation and release is an instant event named ``[memory]`` whose arguments have what the allocator holds after
it: ``Total Allocated``, the bytes of tensors, and ``Total Reserved``, what it has from the device; ``Device Type`` is 0
for the host, whose ``Device Id`` says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from chakrasim.analysis.table.result import Ints, Result
from chakrasim.analysis.table.traces import RankTrace, Traces, open_traces
from chakrasim.errors import InputError
from chakrasim.files.picture import Drawn
from chakrasim.notes import Notes
from chakrasim.trace.kineto.columns import EMPTY_RARE, HAS_TS

EVENT: Final = "[memory]"
HOST: Final = -1


@dataclass(frozen=True, eq=False)
class MemorySeries(Result, Drawn):
    """A point for each allocation and release, by rank, device (-1: the host) and time: what is held from ``ts_ns`` on.

    ``event``: position in ``traceEvents``.
    """

    TITLE: ClassVar[str] = "Memory over time"
    rank: Ints
    device: Ints
    ts_ns: Ints
    allocated_bytes: Ints
    reserved_bytes: Ints
    event: Ints


@dataclass(frozen=True, eq=False)
class MemorySummary(Result):
    """One row for each rank and device: the most that tensors took, when that was after the rank's first event, and the
    most that the allocator had."""

    TITLE: ClassVar[str] = "Memory"
    rank: Ints
    device: Ints
    events: Ints
    peak_allocated_bytes: Ints
    peak_after_ns: Ints
    peak_reserved_bytes: Ints
    last_allocated_bytes: Ints


def memory_series(traces: Traces, *, rank: int | None = None) -> MemorySeries:
    """Memory over time. Raises InputError, also where no trace has events of memory."""
    notes = Notes()
    opened = open_traces(traces, rank=rank, notes=notes)
    parts = [_series(one, notes) for one in opened]
    if not any(len(part) for part in parts):
        raise InputError(
            "no memory was recorded",
            file=opened[0].kineto.source,
            found=f"no events {EVENT} with their totals",
            remedy="record with torch.profiler.profile(profile_memory=True)",
        )
    return MemorySeries.join(notes, parts)


def memory_summary(traces: Traces, *, rank: int | None = None) -> MemorySummary:
    """The most of each device's memory that was in use. Raises InputError."""
    return summarise(memory_series(traces, rank=rank))


def summarise(series: MemorySeries) -> MemorySummary:
    """The summary of a series."""
    rows = []
    for rank, device, after_ns, own in by_device(series):
        allocated = series.allocated_bytes[own]
        most = int(allocated.argmax())
        rows.append((rank, device, len(own), int(allocated[most]), int(after_ns[most]),
                     int(series.reserved_bytes[own].max()), int(allocated[-1])))  # fmt: skip
    return MemorySummary.of_rows(series.notes, rows)


def by_device(series: MemorySeries) -> Iterator[tuple[int, int, Ints, Ints]]:
    """Each rank and device with its points: how long after the rank's first event, int64[k] ns, and their places in
    the series, int64[k]."""
    for rank in np.unique(series.rank).tolist():
        of_rank = series.rank == rank
        begin = int(series.ts_ns[of_rank].min())
        for device in np.unique(series.device[of_rank]).tolist():
            own = np.flatnonzero(of_rank & (series.device == device))
            yield rank, device, series.ts_ns[own] - begin, own


def _series(one: RankTrace, notes: Notes) -> MemorySeries:
    kineto, count = one.kineto, len(one.kineto.name)
    names, which = np.unique(kineto.name, return_inverse=True)
    is_memory = np.array([kineto.strings[name] == EVENT for name in names.tolist()], np.bool_)[which.reshape(-1)]
    columns = {
        name: kineto.rare.get(name, EMPTY_RARE).integers(count, -1)
        for name in ("Device Type", "Device Id", "Total Allocated", "Total Reserved")
    }
    held, kind = columns["Total Allocated"], columns["Device Type"]
    told = is_memory & (held >= 0) & (kineto.flags & HAS_TS > 0)
    if lost := int(is_memory.sum() - told.sum()):
        whole = f"rank {one.rank}: left out {lost:,} of {is_memory.sum():,} events {EVENT}"
        notes.warn(f"{whole}: they have no time, or not the bytes in use")
    device = np.where(kind == 0, HOST, np.maximum(columns["Device Id"], HOST))
    rows = np.flatnonzero(told)
    rows = rows[np.lexsort((rows, kineto.ts_ns[rows], device[rows]))]
    return MemorySeries(
        rank=np.full(len(rows), one.rank),
        device=device[rows],
        ts_ns=kineto.ts_ns[rows],
        allocated_bytes=held[rows],
        reserved_bytes=np.maximum(columns["Total Reserved"][rows], 0),
        event=kineto.index[rows].astype(np.int64),
    )
