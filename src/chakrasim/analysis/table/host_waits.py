"""When the threads of the host stood in calls and waited for the device: that is no work of theirs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrasim.analysis.table.kernel_classes import MEMORY
from chakrasim.analysis.table.nesting import threads_of
from chakrasim.analysis.table.statistics import group_keys
from chakrasim.analysis.table.work import DeviceWork, runtime_rows
from chakrasim.linker.evidence.blocking import blocking_copies, calls_with
from chakrasim.linker.evidence.nesting import TOLERANCE_NS
from chakrasim.trace.intervals import Union, covered_before, merge, running_maximum
from chakrasim.trace.kineto.columns import Ints


@dataclass(frozen=True, eq=False)
class HostWaits:
    """Waits by start: ``row`` int64[w] of the call, ``start_ns``, ``end_ns``.

    ``unseen_ns``: time in calls that synchronise during which no device work ended: the trace does not say what they
    waited for, if for anything. It is not in the waits.
    """

    row: Ints
    start_ns: Ints
    end_ns: Ints
    unseen_ns: int


def host_waits(work: DeviceWork) -> HostWaits:
    """The waits of all threads.

    A call that synchronises (stream, event, device, context) waits from its start until the last device work that
    ended while it ran: what comes after is the call's return. A copy that blocks waits until the copy has ended: from
    the call's start if the device was busy then, if what its stream had before had not ended, or if the trace does not
    say what that was; else from the copy's start, since until then the host prepares it. (A linked trace knows which
    streams wait for which, and asks only those: `chakrasim.linker.rows.shape`. Here any work of a device counts.)
    """
    kineto = work.kineto
    busy = np.flatnonzero(work.busy)
    calls = np.flatnonzero(runtime_rows(kineto))
    calls = calls[calls_with(kineto, calls, "synchronize")]
    start = kineto.ts_ns[calls]
    end = start + np.maximum(kineto.dur_ns[calls], 0)
    ends = np.sort(work.end_ns[busy])
    at = np.searchsorted(ends, end + TOLERANCE_NS, "right") - 1
    until = np.minimum(ends[np.maximum(at, 0)], end) if len(ends) else start
    waited = (at >= 0) & (until > start)
    copy, copy_start, copy_end = _copies(work, busy)
    row = np.concatenate((calls[waited], copy))
    starts, stops = np.concatenate((start[waited], copy_start)), np.concatenate((until[waited], copy_end))
    order = np.argsort(starts, kind="stable")
    unseen = merge(start[~waited], end[~waited]).total
    return HostWaits(row[order], starts[order], stops[order], unseen)


def _copies(work: DeviceWork, busy: Ints) -> tuple[Ints, Ints, Ints]:
    """Calls of copies that block, and from when to when they waited."""
    kineto = work.kineto
    copies = np.flatnonzero((work.kind == MEMORY) & (work.launch >= 0))
    call = work.launch[copies]
    returned = kineto.ts_ns[call] + np.maximum(kineto.dur_ns[call], 0)
    sure, likely = blocking_copies(kineto, call, work.row[copies], work.end_ns[copies] - returned)
    blocking = sure | likely
    copies, call, returned = copies[blocking], call[blocking], returned[blocking]
    called = kineto.ts_ns[call]
    merged = merge(work.start_ns[busy], work.end_ns[busy])
    held = covered_before(merged, called + 1) > covered_before(merged, called)
    held |= _before(work, busy)[copies] > called
    since = np.where(held, called, np.maximum(work.start_ns[copies], called))
    until = np.minimum(work.end_ns[copies], returned)
    waited = until > since
    return call[waited], since[waited], until[waited]


def _before(work: DeviceWork, busy: Ints) -> Ints:
    """int64[n]: when all that the stream of each row of ``work`` had before it had ended; endless if it had nothing."""
    order = busy[np.lexsort((work.start_ns[busy], work.stream[busy], work.device[busy]))]
    lane = group_keys(work.device[order], work.stream[order])[0]
    first = np.append(True, lane[1:] != lane[:-1])[: len(order)]
    ended = np.full(len(work), np.iinfo(np.int64).max)
    ended[order] = np.where(first, ended[order], np.roll(running_maximum(work.end_ns[order], first), 1))
    return ended


def by_thread(work: DeviceWork, waits: HostWaits, rows: Ints) -> list[tuple[Ints, Union]]:
    """For each thread of ``rows`` (events of the host): their positions, and when that thread waited."""
    thread = threads_of(work.kineto, np.concatenate((rows, waits.row)))
    own, theirs = thread[: len(rows)], thread[len(rows) :]
    found = []
    for number in np.unique(own).tolist():
        mine = theirs == number
        found.append((np.flatnonzero(own == number), merge(waits.start_ns[mine], waits.end_ns[mine])))
    return found
