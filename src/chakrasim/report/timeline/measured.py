"""What was measured, beside what was simulated: nodes of converted traces say when they ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from chakrasim.report.timeline.events import Counter, Process, Track, rows_in_parallel
from chakrasim.simulator.outcome.records import NodeRecord

Ints = NDArray[np.int64]
MEASURED = "measured"


def begin_ns(records: Sequence[NodeRecord]) -> int | None:
    """The first time that any of them has measured; None where no node says when it ran."""
    starts = [start[known] for start, _, known in map(_times, records)]
    return min((int(own.min()) for own in starts if own.size), default=None)


def beside(process: Process, record: NodeRecord, numbers: Ints, begin: int) -> Process:
    """The process of a rank with what was measured below what was simulated, from ``begin`` on, and a counter of how
    much later nodes ended than measured. ``numbers``: the node of each entry of the process."""
    start, duration, known = (column[numbers] for column in _times(record))
    chosen = np.flatnonzero(known)
    if not chosen.size:
        return process
    own = chosen[np.lexsort((chosen, start[chosen]))]
    starts, lengths = start[own] - begin, duration[own]
    lanes = np.array(_lanes(record, numbers[own]))
    tracks = list(process.tracks)
    last = max((track.tid for track in tracks), default=0)
    for lane in np.unique(lanes).tolist():
        at = np.flatnonzero(lanes == lane)
        rows = np.array(rows_in_parallel(starts[at].tolist(), (starts + lengths)[at].tolist()))
        for row in range(int(rows.max()) + 1):
            last += 1
            name = f"{MEASURED} {lane}" + (f" {row + 1}" if row else "")
            tracks.append(Track(last, name, len(process.names) + at[rows == row], MEASURED))
    ends = record.end_ns[numbers[own]]
    order = np.argsort(ends, kind="stable")
    later = Counter("later than measured", "ns", ends[order], (ends - starts - lengths)[order])
    indices = own.tolist()
    return replace(
        process,
        tracks=tracks,
        start_ns=np.concatenate([process.start_ns, starts]),
        duration_ns=np.concatenate([process.duration_ns, lengths]),
        names=[*process.names, *(process.names[i] for i in indices)],
        args=[*process.args, *(process.args[i] for i in indices)],
        ids=None if process.ids is None else np.concatenate([process.ids, process.ids[own]]),
        counters=(*process.counters, later),
    )


def _times(record: NodeRecord) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Of each node start and duration in ns as measured, and whether it says both."""
    trace, order = record.graph.trace, record.graph.order
    start, duration = (trace.attr(name) for name in ("start_ns", "duration_ns"))
    known = start.is_integer & duration.is_integer
    return start.integers_or(0)[order], np.maximum(duration.integers_or(0)[order], 0), known[order]


def _lanes(record: NodeRecord, numbers: Ints) -> list[str]:
    """The thread or stream of each node."""
    trace, order = record.graph.trace, record.graph.order
    stream, thread = trace.attr("stream"), trace.attr("tid")
    found = []
    for node in order[numbers].tolist():
        column, what = (stream, "stream") if stream.is_integer[node] else (thread, "thread")
        found.append(f"{what} {int(column.bits[node])}" if column.is_integer[node] else "work")
    return found
