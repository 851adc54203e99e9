"""The loops that make HTA's graph: locks, threads' call stacks, the device's rows.

All edges go into one set of arrays, in the order in which they are made (``Edges`` below): ``source``, ``target``
(int32, nodes), ``kind`` (int8), ``weight`` (float64, us: differences of times), ``event`` (int32, the event that the
edge belongs to, NO_EVENT for none). A kernel returns how many edges there are afterwards.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chakrasim.jit import inner, kernel

OPERATOR_KERNEL: Final = 0
DEPENDENCY: Final = 1
KERNEL_LAUNCH_DELAY: Final = 2
KERNEL_KERNEL_DELAY: Final = 3
SYNC_DEPENDENCY: Final = 4

#: ``event`` of an edge that belongs to no event, and of one between two top-level pieces.
NO_EVENT: Final = -2
ROOT: Final = -1
#: Bits of ``traits``.
IS_LOCK: Final = 1
IS_BLOCKING: Final = 2
#: Codes of ``what`` in `walk_device`.
KERNEL: Final = 0
STREAM_WAIT: Final = 1
EVENT_SYNC: Final = 2
STREAM_SYNC: Final = 3
CONTEXT_SYNC: Final = 4
OTHER_SYNC: Final = 5
#: What `walk_device` returns beside a number of edges: HTA fails with one of these.
ASSERTION_ERROR: Final = -1
KEY_ERROR: Final = -2
ATTRIBUTE_ERROR: Final = -3
VALUE_ERROR: Final = -4
KERNEL_GAP_LIMIT_US: Final = 1500.0


class Edges(NamedTuple):
    """Edges in the making, all of one length: the capacity."""

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    kind: NDArray[np.int8]
    weight: NDArray[np.float64]
    event: NDArray[np.int32]


@inner
def _add(edges: Any, count: int, source: int, target: int, kind: int, weight: float, event: int) -> int:
    edges.source[count] = source
    edges.target[count] = target
    edges.kind[count] = kind
    edges.weight[count] = weight
    edges.event[count] = event
    return count + 1


@kernel
def lock_edges(nodes: Any, node_event: Any, node_is_end: Any, node_ts: Any, pending: Any, edges: Any) -> int:
    """Calls that take the runtime's lock, of all threads, in the order of ``nodes`` (step A of 1.4.5).

    ``nodes`` int32[k]: the nodes of such calls; ``pending`` int32[k]: room for the open ones.
    """
    count = 0
    waiting = 0
    last = -1
    for at in range(len(nodes)):
        node = nodes[at]
        if node_is_end[node] == 0:
            pending[waiting] = node
            waiting += 1
            last = node
            continue
        while waiting > 0:
            waiting -= 1
            begun = pending[waiting]
            event = node_event[begun]
            if event == node_event[node]:
                weight = node_ts[node] - node_ts[begun]
                count = _add(edges, count, begun, node, OPERATOR_KERNEL, weight, event)
            else:
                count = _add(edges, count, begun, node, DEPENDENCY, 0.0, NO_EVENT)
        if last >= 0 and node_is_end[last] != 0:
            count = _add(edges, count, last, node, DEPENDENCY, 0.0, NO_EVENT)
        last = node
    return count


@kernel
def walk_stacks(
    group: Any,
    starts: Any,
    ends: Any,
    event: Any,
    traits: Any,
    begin_node: Any,
    end_node: Any,
    node_ts: Any,
    skip_locks: int,
    stack: Any,
    edges: Any,
    count: int,
) -> int:
    """The calls of each thread, nested, linked in the order in which the thread enters and leaves them (step B).

    ``group``, ``starts``, ``event``, ``traits``, ``begin_node``, ``end_node``: by row, in the order of the starts;
    a row without nodes has -1. ``ends``: float64, per group in ascending order: which call an end closes is decided
    by nesting alone. ``stack``: int32[rows + 1]. ``skip_locks``: whether pairs of lock calls are linked elsewhere.

    Long because its parts would have to hand a dozen counters to one another.
    """
    row = 0
    stop = 0
    while row < len(starts):
        here = group[row]
        depth = 0
        level = 0
        last = -1
        last_is_end = 0
        last_lock = 0
        last_event = ROOT
        last_parent = ROOT
        while (row < len(starts) and group[row] == here) or depth > 0:
            if row < len(starts) and group[row] == here and (depth == 0 or starts[row] < ends[stop]):
                parent = event[stack[depth - 1]] if depth > 0 else ROOT
                stack[depth] = row
                depth += 1
                node = begin_node[row]
                if node >= 0:
                    lock = traits[row] & IS_LOCK
                    if last >= 0 and not (skip_locks != 0 and lock != 0 and last_lock != 0 and last_is_end == 0):
                        if level == 0:
                            count = _add(edges, count, last, node, DEPENDENCY, 0.0, NO_EVENT)
                        else:
                            owner = last_event if last_is_end == 0 else last_parent
                            weight = node_ts[node] - node_ts[last]
                            count = _add(edges, count, last, node, OPERATOR_KERNEL, weight, owner)
                    last = node
                    last_is_end = 0
                    last_lock = lock
                    last_event = event[row]
                    last_parent = parent
                    level += 1
                row += 1
            else:
                stop += 1
                depth -= 1
                left = stack[depth]
                node = end_node[left]
                if node >= 0:
                    lock = traits[left] & IS_LOCK
                    if not (skip_locks != 0 and lock != 0 and last_lock != 0):
                        weight = node_ts[node] - node_ts[last]
                        if traits[left] & IS_BLOCKING != 0:
                            weight = 0.0
                        owner = last_event if last_is_end == 0 else event[left]
                        count = _add(edges, count, last, node, OPERATOR_KERNEL, weight, owner)
                    last = node
                    last_is_end = 1
                    last_lock = lock
                    last_event = event[left]
                    last_parent = event[stack[depth - 1]] if depth > 0 else ROOT
                    level -= 1
    return count


class DeviceColumns(NamedTuple):
    """The rows of the kernel loop (see ``tables.DeviceRows``), all int64 but ``launch_ts`` (float64).

    ``what``: KERNEL, ...; ``lane``: the stream as a number from 0; ``fresh``: nodes that the row gets when it is
    reached (start; the end follows), -1 if its event has nodes from the beginning.
    """

    what: NDArray[np.int64]
    event: NDArray[np.int64]
    lane: NDArray[np.int64]
    runtime: NDArray[np.int64]
    launch_ts: NDArray[np.float64]
    queue: NDArray[np.int64]
    queue_at_launch: NDArray[np.int64]
    source: NDArray[np.int64]
    next_launch: NDArray[np.int64]
    fresh: NDArray[np.int64]


@inner
def _sync(start: int, runtime: int, end_of: Any, pinned: int, edges: Any, count: int) -> int:
    """An edge from a device's node to the end of the call that waited for it; ATTRIBUTE_ERROR where HTA fails."""
    node = end_of[runtime]
    if node < 0:
        return ATTRIBUTE_ERROR if pinned != 0 else count
    if node == start:
        return ASSERTION_ERROR
    return _add(edges, count, start, node, SYNC_DEPENDENCY, 0.0, NO_EVENT)


@inner
def _sync_row(rows: Any, at: int, pinned: int, waits_for: Any, last: Any, order: Any, known: int,
              end_of: Any, edges: Any, count: int) -> int:  # fmt: skip
    """One record of a synchronisation."""
    what = rows.what[at]
    runtime = rows.runtime[at]
    if what == STREAM_WAIT:
        if rows.source[at] >= 0:
            target = rows.next_launch[at]
            if target < -1:
                return KEY_ERROR if target == -2 else ATTRIBUTE_ERROR if target == -3 else VALUE_ERROR
            if target >= 0:
                waits_for[target] = rows.source[at]
        return count
    if what == EVENT_SYNC:
        if rows.source[at] >= 0:
            node = end_of[rows.source[at]]
            if node >= 0:
                count = _sync(node, runtime, end_of, pinned, edges, count)
        return count
    if what == STREAM_SYNC:
        node = last[rows.lane[at]]
        return _sync(node, runtime, end_of, pinned, edges, count) if node >= 0 else count
    if what == CONTEXT_SYNC:
        for number in range(known):
            count = _sync(last[order[number]], runtime, end_of, pinned, edges, count)
            if count < 0:
                return count
        return count
    return ASSERTION_ERROR


@kernel
def walk_device(
    rows: Any,
    pinned: int,
    launch_edges: int,
    begin_of: Any,
    end_of: Any,
    node_ts: Any,
    waits_for: Any,
    last: Any,
    order: Any,
    edges: Any,
    count: int,
) -> int:
    """The kernel loop (1.4.7). ``begin_of``, ``end_of``: int32 by event index, its nodes or -1; ``waits_for`` the
    same, the source of a pending wait; ``last`` by lane: end of the last kernel; ``order``: lanes as first seen.

    Long because it is one chain of HTA's decisions, in HTA's order."""
    known = 0
    for at in range(len(rows.what)):
        if rows.what[at] != KERNEL:
            count = _sync_row(rows, at, pinned, waits_for, last, order, known, end_of, edges, count)
            if count < 0:
                return count
            continue
        event = rows.event[at]
        if rows.fresh[at] >= 0:
            begin_of[event] = rows.fresh[at]
            end_of[event] = rows.fresh[at] + 1
        start = begin_of[event]
        end = end_of[event]
        if start < 0:
            continue
        count = _add(edges, count, start, end, OPERATOR_KERNEL, node_ts[end] - node_ts[start], event)
        source = -1
        if waits_for[event] >= 0:
            source = end_of[waits_for[event]]
            waits_for[event] = -1
            if source >= 0:
                count = _add(edges, count, source, start, SYNC_DEPENDENCY, 0.0, NO_EVENT)
        lane = rows.lane[at]
        before = last[lane]
        call = begin_of[rows.runtime[at]]
        launch_ts = rows.launch_ts[at]
        launched = (
            rows.queue_at_launch[at] == 1
            and rows.queue[at] == 0
            and (before < 0 or node_ts[before] < launch_ts)
            and (source < 0 or node_ts[source] < launch_ts)
        )
        if call == start and (launched or launch_edges != 0):
            return ASSERTION_ERROR  # event 0 stands for "not found", and here it is the kernel itself
        if launched:
            if call < 0:
                return ASSERTION_ERROR
            count = _add(edges, count, call, start, KERNEL_LAUNCH_DELAY, node_ts[start] - node_ts[call], NO_EVENT)
        else:
            if before >= 0 and (source < 0 or node_ts[source] < node_ts[before]):
                gap = node_ts[start] - node_ts[before]
                if pinned != 0 or gap < KERNEL_GAP_LIMIT_US:
                    # of the previous kernel, whichever that was
                    count = _add(edges, count, before, start, KERNEL_KERNEL_DELAY, gap, NO_EVENT)
            if launch_edges != 0 and call >= 0:
                count = _add(edges, count, call, start, KERNEL_LAUNCH_DELAY, 0.0, NO_EVENT)
        if before < 0:
            order[known] = lane
            known += 1
        last[lane] = end
    return count
