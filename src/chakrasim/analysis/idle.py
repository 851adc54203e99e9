"""Why streams and devices stand idle between two pieces of work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from chakrasim.analysis.table.kernel_classes import WAIT
from chakrasim.analysis.table.result import Ints, Reals, Result, Texts, percentage
from chakrasim.analysis.table.statistics import group_keys, group_statistics
from chakrasim.analysis.table.traces import Traces, open_traces
from chakrasim.analysis.table.work import DeviceWork
from chakrasim.notes import Notes
from chakrasim.trace.intervals import running_maximum
from chakrasim.trace.kineto.columns import Mask

#: A gap shorter than this between two launched kernels is what starting a kernel takes.
KERNEL_GAP_NS: Final = 30_000
HOST_WAIT, KERNEL_WAIT, EVENT_WAIT, OTHER, UNKNOWN = range(5)
CAUSES: Final = ("host_wait", "kernel_wait", "event_wait", "other", "unknown")
#: ``stream`` of rows for a device as a whole; -1 is work whose stream the trace does not say.
WHOLE_DEVICE: Final = -2


@dataclass(frozen=True, eq=False)
class IdleBreakdown(Result):
    """One row for each rank, device, stream and cause that occurs; ``stream`` -2 is the device as a whole, idle when
    none of its streams works.

    Causes, of the gap before a piece of work: ``host_wait``: it was launched after all work before it had ended, the
    host was too slow; ``kernel_wait``: launched in time, and the gap is shorter than the limit; ``event_wait``: the
    stream waited for an event of another one (needs the profiler's synchronisation records); ``other``; ``unknown``:
    its launch is not in the trace. ``pct``: of the idle time of the stream.
    """

    TITLE: ClassVar[str] = "Idle time by cause"
    rank: Ints
    device: Ints
    stream: Ints
    cause: Texts
    gaps: Ints
    idle_ns: Ints
    pct: Reals
    mean_ns: Reals
    median_ns: Reals
    max_ns: Ints


def idle_breakdown(traces: Traces, *, rank: int | None = None, kernel_gap_ns: int = KERNEL_GAP_NS) -> IdleBreakdown:
    """Idle time between the first and the last work, by cause. Raises InputError."""
    notes = Notes()
    parts = []
    for one in open_traces(traces, rank=rank, notes=notes):
        notes.note(*one.work.notes)
        for whole in (True, False):
            parts.append(_by_cause(one.rank, *_gaps(one.work, kernel_gap_ns, whole)))
    return IdleBreakdown.join(notes, parts)


def _by_cause(rank: int, device: Ints, stream: Ints, cause: Ints, length: Ints) -> IdleBreakdown:
    group, first = group_keys(device, stream, cause)
    found = group_statistics(length, group, len(first))
    stream_of, head = group_keys(device[first], stream[first])
    sums = np.bincount(stream_of, found.total, minlength=len(head))
    return IdleBreakdown(
        rank=np.full(len(first), rank),
        device=device[first],
        stream=stream[first],
        cause=tuple(CAUSES[code] for code in cause[first].tolist()),
        gaps=found.count,
        idle_ns=found.total,
        pct=percentage(found.total, sums[stream_of]),
        mean_ns=found.mean,
        median_ns=found.median,
        max_ns=found.most,
    )


def _gaps(work: DeviceWork, kernel_gap_ns: int, whole: bool) -> tuple[Ints, Ints, Ints, Ints]:
    """Device, stream, cause and length of every gap; of the device as a whole, or of each stream."""
    at = np.flatnonzero(work.busy)
    device, stream = work.device[at], work.stream[at]
    lane = np.full(len(at), WHOLE_DEVICE) if whole else stream
    order = np.lexsort((work.start_ns[at], lane, device))
    at, device, stream, lane = at[order], device[order], stream[order], lane[order]
    opens = np.ones(len(at), np.bool_)
    opens[1:] = (device[1:] != device[:-1]) | (lane[1:] != lane[:-1])
    before = np.roll(running_maximum(work.end_ns[at], opens), 1)
    start = work.start_ns[at]
    gap = np.flatnonzero(~opens & (start > before))
    since, until, launch = before[gap], start[gap], work.launch[at[gap]]
    called = np.where(launch >= 0, work.kineto.ts_ns[launch], 0)
    waited = _waited(work, device[gap], stream[gap], since, until)
    cause = np.select(
        [launch < 0, called > since, waited, until - since < kernel_gap_ns],
        [UNKNOWN, HOST_WAIT, EVENT_WAIT, KERNEL_WAIT],
        OTHER,
    )
    return device[gap], lane[gap], cause, until - since


def _waited(work: DeviceWork, device: Ints, stream: Ints, since: Ints, until: Ints) -> Mask:
    """Whether the stream waited for an event at some time of each gap."""
    waits = np.flatnonzero((work.kind == WAIT) & (work.stream >= 0))
    waits = waits[work.kineto.where(work.kineto.name, "Stream Wait Event")[work.row[waits]]]
    found = np.zeros(len(since), np.bool_)
    if not len(waits):
        return found
    group, first = group_keys(work.device[waits], work.stream[waits])
    for number, one in enumerate(waits[first].tolist()):
        mine = (device == work.device[one]) & (stream == work.stream[one])
        theirs = waits[group == number]
        begun = np.searchsorted(np.sort(work.start_ns[theirs]), until[mine], "right")
        over = np.searchsorted(np.sort(work.end_ns[theirs]), since[mine], "left")
        found[mine] = begun > over
    return found
