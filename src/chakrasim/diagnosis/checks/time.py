"""What can be wrong with the times of a device trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from chakrasim.diagnosis.checks.findings import Finding
from chakrasim.diagnosis.checks.subject import ERROR, NOTE, TOLERANCE_NS, WARNING, Subject
from chakrasim.linker.memory import narrow
from chakrasim.trace.kineto.columns import HAS_DUR, HAS_TS

HUGE_EVENTS: Final = 50_000_000
LONGEST_NS: Final = 86_400 * 10**9


def check_time(subject: Subject) -> Iterator[Finding]:
    """All findings about times, and size."""
    for check in (_times, _stream_order, _nesting, _size):
        yield from check(subject)


def _times(subject: Subject) -> Iterator[Finding]:
    trace = subject.rows.trace
    timed = trace.has(HAS_DUR)
    without = int((timed & ~trace.has(HAS_TS)).sum())
    if without:
        yield subject.finding(
            "missing-times",
            WARNING,
            f"{without:,} events have a duration but no start",
            "they are taken to start at 0",
            "record again",
            events=without,
        )
    stated = trace.ts_ns[timed & trace.has(HAS_TS)]
    span = int(stated.max()) - int(stated.min()) if len(stated) else 0
    if span > LONGEST_NS:
        yield subject.finding(
            "clock-jump",
            ERROR,
            f"the events spread over {span / 3.6e12:,.1f} hours",
            "some of the times are wrong, so no order among events can be trusted",
            "record again; the clock was set during the run, or the file is damaged",
            span_ns=span,
        )


def _stream_order(subject: Subject) -> Iterator[Finding]:
    """Kernels of one stream that overlap: a stream does one thing at a time."""
    rows, trace = subject.rows, subject.rows.trace
    work = np.flatnonzero(rows.kernels & (trace.stream >= 0))
    if len(work) < 2:
        return
    work = work[np.lexsort((trace.ts_ns[work], trace.stream[work], trace.device[work]))]
    same = (trace.stream[work][1:] == trace.stream[work][:-1]) & (trace.device[work][1:] == trace.device[work][:-1])
    same &= (rows.launch_of[work][1:] != rows.launch_of[work][:-1]) | (rows.launch_of[work][1:] < 0)
    overlap = np.where(same, rows.end_ns[work][:-1] - trace.ts_ns[work][1:], 0)
    count, worst = int((overlap > TOLERANCE_NS).sum()), int(overlap.max())
    if count:
        yield subject.finding(
            "overlap-in-stream",
            WARNING,
            f"{count:,} kernels start before the one before them in their stream has ended, by up to "
            f"{worst / 1000:,.3f} us",
            "a stream does one thing at a time, so some of the times are wrong",
            "look whether streams of several processes share a number; record again",
            kernels=count,
            worst_ns=worst,
        )


def _nesting(subject: Subject) -> Iterator[Finding]:
    """Operators that end after the operator around them."""
    rows, trace = subject.rows, subject.rows.trace
    host = np.flatnonzero(rows.operators | rows.calls).astype(np.int32)
    if len(host) < 2:
        return
    tid, pid = narrow(trace.tid[host]), narrow(trace.pid[host])
    order = np.lexsort((narrow(-trace.dur_ns[host]), trace.ts_ns[host], tid, pid)).astype(np.int32)
    same = (tid[order][1:] == tid[order][:-1]) & (pid[order][1:] == pid[order][:-1])
    host = host[order]
    del tid, pid, order
    end, start = rows.end_ns[host], trace.ts_ns[host]
    inside = same & (start[1:] < end[:-1])
    overhang = np.where(inside, end[1:] - end[:-1], 0)
    count, worst = int((overhang > 0).sum()), int(overhang.max())
    if count:
        yield subject.finding(
            "operators-not-nested",
            WARNING if worst > TOLERANCE_NS else NOTE,
            f"{count:,} operators or calls end after the one they began in, by up to {worst / 1000:,.3f} us",
            "they are cut to its end" if worst <= TOLERANCE_NS else "the tree of operators is not certain there",
            "none below 1 us (rounding); above, look whether several processes are in one file",
            operators=count,
            worst_ns=worst,
        )


def _size(subject: Subject) -> Iterator[Finding]:
    count = subject.rows.trace.event_count
    if count > HUGE_EVENTS:
        yield subject.finding(
            "huge-trace",
            NOTE,
            f"the trace has {count:,} events",
            "reading takes minutes and tens of GB",
            "record fewer steps, without with_stack",
            events=count,
        )
