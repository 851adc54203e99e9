"""What HTA's critical path knows of launches, queues and events before it walks over the kernels (1.4.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.compat.hta.table import DEVICE_NAMES, HtaFailure, HtaTable
from chakrasim.compat.hta_critical_path.window import Window

Rows = NDArray[np.int64]
Keys = NDArray[Any]

LAUNCHES_PINNED: Final = (
    *("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel"),
    *("cudaMemcpyAsync", "cudaMemsetAsync"),
)
LAUNCHES_NEW: Final = (
    *LAUNCHES_PINNED,
    *("cuLaunchKernelEx", "runFunction - job_prep_and_submit_for_execution", "hipLaunchKernel"),
    *("hipExtModuleLaunchKernel", "hipMemsetAsync", "hipMemcpyAsync", "hipMemcpyWithStream"),
)
#: What ``DeviceRows.next_launch`` says beside an event index: none; no such call; no table; several calls.
NO_LAUNCH, NO_CALL, NO_TABLE, MANY_CALLS = -1, -2, -3, -4


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """The rows of the kernel loop, in its order, ``k`` rows; all of int64.

    ``row``: position in the table; ``runtime``: event index of the call; ``queue``, ``queue_at_launch``: number of
    launches outstanding on the stream (-1 unknown); ``source``: event index of the kernel that an event waited for,
    -1; ``next_launch``: of a Stream Wait Event the event index of the kernel that waits, or a code (NO_LAUNCH, ...).
    """

    row: Rows
    runtime: Rows
    queue: Rows
    queue_at_launch: Rows
    source: Rows
    next_launch: Rows

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, eq=False)
class _Launches:
    """Launches by time: event index, ts, pid and tid of the call; stream and pid of what it launched; its index."""

    event: Rows
    ts: Keys
    pid: Rows
    tid: Rows
    stream: Rows
    gpu: Rows
    kernel: Rows


def device_rows(table: HtaTable, window: Window) -> DeviceRows:
    """The kernel loop's rows with all that it looks up. Raises HtaFailure where HTA fails."""
    is_launch = table.named(*(LAUNCHES_NEW if table.version == "new" else LAUNCHES_PINNED))
    is_launch = is_launch & (table.index_correlation > 0)
    queue_event, queue_length = _queue_lengths(table, is_launch)
    at = window.rows
    wanted = (table.stream[at] != -1) | table.named(*DEVICE_NAMES)[at]
    row = at[wanted & (table.index_correlation[at] >= 0)]
    left, found = left_join(table.index_correlation[row], queue_event)
    row, at_launch = row[left], _take(queue_length, found, -1)
    left, found = left_join(table.row_index[row], queue_event)
    row, at_launch, queue = row[left], at_launch[left], _take(queue_length, found, -1)
    launches = _launch_table(table, is_launch)
    previous = _previous_launches(table, launches)
    waits = _next_launches(table, launches)
    is_sync = table.in_category("cuda_sync")[row]
    order = np.argsort(table.ts[row] + np.where(is_sync, table.dur[row], 0), kind="stable")
    row, at_launch, queue = row[order], at_launch[order], queue[order]
    kernel_of = _kernel_of(launches, table)
    source = np.full(len(row), -1, np.int64)
    if previous is not None:
        correlation, launch = previous
        _, found = left_join(table.rare("wait_on_cuda_event_record_corr_id")[row], correlation)
        source = kernel_of[_take(launch, found, -1)]
    next_launch = np.full(len(row), NO_TABLE, np.int64)
    if waits is not None:
        next_launch = _wait_targets(table.index_correlation[row], *waits, kernel_of)
    return DeviceRows(row, table.index_correlation[row], queue, at_launch, source, next_launch)


def left_join(left: Keys, right: Keys) -> tuple[Rows, Rows]:
    """Positions of all pairs with equal keys, in the left side's order, then the right side's; -1 on the right where
    a left key has no partner."""
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    first = np.searchsorted(ordered, left, "left")
    count = np.searchsorted(ordered, left, "right") - first
    if len(count) == 0 or count.max() <= 1:
        partner = np.full(len(left), -1, np.int64)
        partner[count == 1] = order[first[count == 1]]
        return np.arange(len(left)), partner
    times = np.maximum(count, 1)
    at = np.repeat(np.arange(len(left)), times)
    offset = np.arange(len(at)) - np.repeat(np.cumsum(times) - times, times)
    slot = np.minimum(first[at] + offset, max(len(order) - 1, 0))
    return at, np.where(count[at] > 0, order[slot], -1)


def _take(values: Rows, at: Rows, default: int) -> Rows:
    return np.append(values, default)[at]


def _queue_lengths(table: HtaTable, is_launch: NDArray[np.bool_]) -> tuple[Rows, Rows]:
    """Event indices and the queue's length on their stream from then on: up at a launch, down at a kernel's start."""
    launch = np.flatnonzero(is_launch)
    device = np.flatnonzero(table.stream != -1)
    at, found = left_join(table.correlation[launch], table.correlation[device])
    running = device[np.isin(table.correlation[device], table.correlation[launch])]
    if len(at) != len(running):
        raise HtaFailure("AssertionError", f"{len(at)} launches, but {len(running)} device rows of theirs")
    if not len(at):
        if table.version == "new":
            raise HtaFailure("AssertionError", "the trace has no launch, so there is no series of queue lengths")
        raise HtaFailure("TypeError", "the trace has no launch: 'NoneType' object is not subscriptable")
    row = np.concatenate([launch[at], running])
    stream = np.concatenate([table.stream[device[found]], table.stream[running]])
    change = np.repeat(np.array([1, -1]), len(at))
    order = np.argsort(table.ts[row], kind="stable")
    order = order[np.argsort(stream[order], kind="stable")]
    total = np.cumsum(change[order])
    stream = stream[order]
    first = np.flatnonzero(np.append(True, stream[1:] != stream[:-1]))
    before = np.append(0, total)[first]
    lengths = np.diff(np.append(first, len(order)))
    return table.row_index[row[order]], total - np.repeat(before, lengths)


def _launch_table(table: HtaTable, is_launch: NDArray[np.bool_]) -> _Launches:
    launch = np.flatnonzero(is_launch)
    launch = launch[np.argsort(table.ts[launch], kind="stable")]
    device = np.flatnonzero((table.stream != -1) & (table.index_correlation > 0))
    at, found = left_join(table.index_correlation[launch], table.row_index[device])
    row, kernel = launch[at[found >= 0]], device[found[found >= 0]]
    return _Launches(
        table.row_index[row],
        table.ts[row],
        table.pid[row],
        table.tid[row],
        table.stream[kernel],
        table.pid[kernel],
        table.row_index[kernel],
    )


def _kernel_of(launches: _Launches, table: HtaTable) -> Rows:
    """By event index of a launch, the event index of its kernel; -1 elsewhere and in the last place."""
    kernel = np.full(int(table.row_index.max(initial=-1)) + 2, -1, np.int64)
    kernel[launches.event] = launches.kernel
    return kernel


def _previous_launches(table: HtaTable, launches: _Launches) -> tuple[Rows, Rows] | None:
    """Correlations of event records, and the last launch before each onto the recorded stream; None: no records."""
    if not table.has_symbol("cudaEventRecord"):
        return None
    record = np.flatnonzero(table.named("cudaEventRecord"))
    record = record[np.argsort(table.ts[record], kind="stable")]
    on_stream = table.rare("wait_on_stream")
    waiting = np.flatnonzero(on_stream > -1)
    keys = np.stack(
        [table.rare("wait_on_cuda_event_record_corr_id")[waiting], on_stream[waiting], table.pid[waiting]], axis=1
    )
    triples = np.unique(keys, axis=0) if len(keys) else keys
    for side, correlations in (("left", table.correlation[record]), ("right", triples[:, 0])):
        if len(np.unique(correlations)) != len(correlations):
            raise HtaFailure("MergeError", f"Merge keys are not unique in {side} dataset; not a one-to-one merge")
    _, found = left_join(table.correlation[record], triples[:, 0])
    record, found = record[found >= 0], found[found >= 0]
    if not len(record):
        return None
    left = np.stack([triples[found, 2], triples[found, 1]], axis=1)
    right = np.stack([launches.gpu, launches.stream], axis=1)
    earlier = _neighbour(left, table.ts[record], right, launches.ts, before=True)
    return table.correlation[record], _take(launches.event, earlier, -1)


def _next_launches(table: HtaTable, launches: _Launches) -> tuple[Rows, Rows] | None:
    """Event indices of cudaStreamWaitEvent calls, and the first launch after each, by the same thread onto the same
    stream; None: such calls are not in the trace."""
    if not (table.has_symbol("cudaStreamWaitEvent") and table.has_symbol("Stream Wait Event")):
        return None
    wait = np.flatnonzero(table.named("cudaStreamWaitEvent") & (table.index_correlation > 0))
    wait = wait[np.argsort(table.ts[wait], kind="stable")]
    device = np.flatnonzero((table.stream != -1) & (table.index_correlation > 0))
    at, found = left_join(table.index_correlation[wait], table.row_index[device])
    wait, on = wait[at[found >= 0]], device[found[found >= 0]]
    if not len(wait):
        raise HtaFailure("ValueError", "No objects to concatenate")
    left = np.stack([table.pid[wait], table.tid[wait], table.stream[on]], axis=1)
    right = np.stack([launches.pid, launches.tid, launches.stream], axis=1)
    later = _neighbour(left, table.ts[wait], right, launches.ts, before=False)
    return table.row_index[wait], _take(launches.event, later, -1)


def _neighbour(left: Rows, left_ts: Keys, right: Rows, right_ts: Keys, before: bool) -> Rows:
    """For each left row the last right row (of equal key columns) that is not later, or the first that is not
    earlier; -1 for none. The right side is ordered by time."""
    key = np.zeros(len(left) + len(right), np.int64)
    for column in (*np.concatenate([left, right]).T, np.concatenate([left_ts, right_ts])):
        thread = key
        _, rank = np.unique(column, return_inverse=True)
        _, key = np.unique(key * (len(key) + 1) + rank.reshape(-1), return_inverse=True)
        key = key.reshape(-1)
    code, key = key, thread
    mine, theirs = code[: len(left)], code[len(left) :]
    order = np.argsort(theirs, kind="stable")
    slot = np.searchsorted(theirs[order], mine, "right") - 1 if before else np.searchsorted(theirs[order], mine, "left")
    valid = (slot >= 0) & (slot < len(order))
    place = np.where(valid, np.append(order, -1)[np.where(valid, slot, -1)], -1)
    same = np.append(key[len(left) :], -1)[place] == key[: len(left)]
    return np.where(same, place, -1)


def _wait_targets(runtime: Rows, wait: Rows, launch: Rows, kernel_of: Rows) -> Rows:
    """For each row the kernel that its cudaStreamWaitEvent holds back, or why there is none."""
    order = np.argsort(wait, kind="stable")
    first = np.searchsorted(wait[order], runtime, "left")
    count = np.searchsorted(wait[order], runtime, "right") - first
    target = np.full(len(runtime), NO_CALL, np.int64)
    one = count == 1
    next_launch = launch[order[first[one]]]
    target[one] = np.where(next_launch >= 0, kernel_of[next_launch], NO_LAUNCH)
    target[count > 1] = MANY_CALLS
    return target
