"""What launching work costs the host, and how long work takes to start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from chakrasim.analysis.table.host_waits import host_waits
from chakrasim.analysis.table.kernel_classes import MEMORY
from chakrasim.analysis.table.result import Ints, Reals, Result, Texts
from chakrasim.analysis.table.statistics import group_keys, group_statistics, sums
from chakrasim.analysis.table.traces import Traces, open_traces
from chakrasim.analysis.table.work import DeviceWork
from chakrasim.linker.rows.columns import look_up
from chakrasim.notes import Notes

LONG_CALL_NS: Final = 50_000
LONG_DELAY_NS: Final = 100_000


@dataclass(frozen=True, eq=False)
class Launches(Result):
    """One row for each piece of work whose launch is in the trace, by rank and launch.

    ``call_ns``: how long the launching call took, without what it waited for the device (copies that block), which is
    ``wait_ns``; ``work_ns``: the work itself; ``delay_ns``: from the end of the call
    to the start of the work, 0 if it starts earlier. ``call``: the call's name. ``event``: position of the work in
    ``traceEvents``.
    """

    TITLE: ClassVar[str] = "Launches"
    rank: Ints
    device: Ints
    stream: Ints
    correlation: Ints
    call: Texts
    name: Texts
    call_ns: Ints
    wait_ns: Ints
    work_ns: Ints
    delay_ns: Ints
    event: Ints


@dataclass(frozen=True, eq=False)
class LaunchSummary(Result):
    """One row for each rank and launching call.

    ``short``: pieces of work shorter than their call, of calls that were not long themselves; ``long_calls`` and
    ``long_delays``: beyond the limits.
    """

    TITLE: ClassVar[str] = "Launches by call"
    rank: Ints
    call: Texts
    count: Ints
    call_mean_ns: Reals
    call_max_ns: Ints
    wait_mean_ns: Reals
    work_mean_ns: Reals
    delay_mean_ns: Reals
    delay_median_ns: Reals
    delay_max_ns: Ints
    short: Ints
    long_calls: Ints
    long_delays: Ints


def launch_list(traces: Traces, *, rank: int | None = None, copies: bool = True) -> Launches:
    """Every launch, with or without ``copies`` (and fills) of memory. Raises InputError."""
    notes = Notes()
    parts = []
    for one in open_traces(traces, rank=rank, notes=notes):
        notes.note(*one.work.notes)
        parts.append(_of_rank(one.work, copies))
    return Launches.join(notes, parts)


def _of_rank(work: DeviceWork, copies: bool) -> Launches:
    at = np.flatnonzero(work.busy & (work.launch >= 0) & (copies | (work.kind != MEMORY)))
    at = at[np.argsort(work.kineto.ts_ns[work.launch[at]], kind="stable")]
    call = work.launch[at]
    took = np.maximum(work.kineto.dur_ns[call], 0)
    waits = host_waits(work)
    calls, of = np.unique(waits.row, return_inverse=True)
    waited = np.maximum(look_up(calls, sums(waits.end_ns - waits.start_ns, of, len(calls)), call), 0)
    return Launches(
        rank=np.full(len(at), work.rank),
        device=work.device[at],
        stream=work.stream[at],
        correlation=work.kineto.correlation[call],
        call=work.names(call),
        name=work.names(work.row[at]),
        call_ns=took - waited,
        wait_ns=waited,
        work_ns=work.end_ns[at] - work.start_ns[at],
        delay_ns=np.maximum(work.start_ns[at] - work.kineto.ts_ns[call] - took, 0),
        event=work.kineto.index[work.row[at]].astype(np.int64),
    )


def launch_summary(
    traces: Traces,
    *,
    rank: int | None = None,
    copies: bool = True,
    long_call_ns: int = LONG_CALL_NS,
    long_delay_ns: int = LONG_DELAY_NS,
) -> LaunchSummary:
    """Launches by the call that made them, most first. Raises InputError."""
    all_ = launch_list(traces, rank=rank, copies=copies)
    codes = {name: code for code, name in enumerate(dict.fromkeys(all_.call))}
    group, first = group_keys(all_.rank, np.array([codes[name] for name in all_.call], np.int64))
    size = len(first)
    times = (all_.call_ns, all_.wait_ns, all_.work_ns, all_.delay_ns)
    call, wait, work, delay = (group_statistics(values, group, size) for values in times)
    short = (all_.call_ns <= long_call_ns) & (all_.work_ns < all_.call_ns)
    counted = [
        np.bincount(group[chosen], minlength=size).astype(np.int64)
        for chosen in (short, all_.call_ns > long_call_ns, all_.delay_ns > long_delay_ns)
    ]
    columns = {
        "count": call.count,
        "call_mean_ns": call.mean,
        "call_max_ns": call.most,
        "wait_mean_ns": wait.mean,
        "work_mean_ns": work.mean,
        "delay_mean_ns": delay.mean,
        "delay_median_ns": delay.median,
        "delay_max_ns": delay.most,
        **dict(zip(("short", "long_calls", "long_delays"), counted, strict=True)),
    }
    ranks = all_.rank[first]
    order = np.lexsort((-call.count, ranks))
    names = tuple(all_.call[row] for row in first[order].tolist())
    ordered = {name: column[order] for name, column in columns.items()}
    return LaunchSummary(notes=all_.notes, rank=ranks[order], call=names, **ordered)
