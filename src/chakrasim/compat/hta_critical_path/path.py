"""The critical path as HTA computes it, exactly, quirks included (1.4), for comparison with that tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.compat.hta.table import HtaFailure, HtaTable, Version, hta_table
from chakrasim.compat.hta_critical_path import kernels as loops
from chakrasim.compat.hta_critical_path.kernels import DeviceColumns, Edges
from chakrasim.compat.hta_critical_path.longest import longest_path, merge_repeated
from chakrasim.compat.hta_critical_path.result import CriticalPath
from chakrasim.compat.hta_critical_path.stacks import Stacks, call_stacks
from chakrasim.compat.hta_critical_path.tables import DeviceRows, device_rows
from chakrasim.compat.hta_critical_path.window import Instance, Window, clip, touches_repeated
from chakrasim.trace.kineto.columns import KinetoTrace

Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]

LOCKING: Final = ("cudaHostAlloc", "cudaLaunchKernel", "cudaMemcpyAsync")
BLOCKING: Final = (
    *("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventQuery", "cudaEventSynchronize"),
    *("cudaMemcpy", "cudaMemcpyAsync"),
)
HOST_CATEGORIES: Final = ("cpu_op", "cuda_runtime", "cuda_driver")
_SYNC_CODES: Final = {
    "Stream Wait Event": loops.STREAM_WAIT,
    "Event Sync": loops.EVENT_SYNC,
    "Stream Sync": loops.STREAM_SYNC,
    "Context Sync": loops.CONTEXT_SYNC,
}
_FAILURES: Final = {
    loops.ASSERTION_ERROR: ("AssertionError", "a launch has no nodes, or a synchronisation has a name unknown to HTA"),
    loops.KEY_ERROR: ("KeyError", "a Stream Wait Event belongs to no cudaStreamWaitEvent"),
    loops.ATTRIBUTE_ERROR: ("AttributeError", "the call that waited is outside the window"),
    loops.VALUE_ERROR: ("ValueError", "a Stream Wait Event belongs to several rows"),
}


def critical_path(
    kineto: KinetoTrace,
    *,
    version: Version = "new",
    annotation: str = "ProfilerStep",
    instance: Instance = 0,
    zero_weight_launch_edges: bool = False,
    data_load_events: list[str] | None = None,
) -> CriticalPath:
    """HTA's critical path of one rank.

    Where HTA itself fails, the result's ``failure`` says how. Raises InputError.

    Parameters
    ----------
    kineto: all events of the trace (``read_kineto(path, keep="all")``).
    version: "new" or "pinned".
    annotation: the part of a name of the events that bound the window; "" for the whole trace.
    instance: which of these events, counted from 0 in HTA's order; a pair for several, both ends included; None is 0.
    zero_weight_launch_edges: also link launches that delay nothing.
    data_load_events: parts of names of events that load data ("new" only; as regular expressions they also decide what
        the breakdown calls data loading).
    """
    loads = tuple(data_load_events or ()) if version == "new" else ()
    try:
        table = hta_table(kineto, version)
        window = clip(table, annotation, instance)
        graph = _build(table, window, zero_weight_launch_edges, loads)
        return _solve(graph, table, window, loads)
    except HtaFailure as failure:
        return _failed(version, failure, loads)


@dataclass(eq=False)
class _Graph:
    """The graph in the making; see `CriticalPath`."""

    event: NDArray[np.int32]
    is_end: NDArray[np.int8]
    ts: NDArray[np.float64]
    begin_of: NDArray[np.int32]
    end_of: NDArray[np.int32]
    edges: Edges
    count: int


def _build(table: HtaTable, window: Window, launch_edges: bool, loads: tuple[str, ...]) -> _Graph:
    """Nodes and edges. Raises HtaFailure."""
    host = table.in_category(*HOST_CATEGORIES)
    if table.version == "new":
        taking = host | (table.stream != -1) & (table.index_correlation >= 0)
        for part in loads:
            taking |= np.isin(table.name, table.symbols_with(part))
        row = window.rows[taking[window.rows]]
        if window.repeated and touches_repeated(window, table, row):
            raise HtaFailure("TypeError", "list indices must be integers or slices, not Series")
        event, is_end, ts = _nodes_by_time(table, row)
    stacks = call_stacks(table, window)
    if table.version == "pinned":
        taking = host & (table.row_index > 0)
        event, is_end, ts = _nodes_in_pairs(table, stacks.row[taking[stacks.row]])
    graph = _start(table, event, is_end, ts)
    lock_nodes = np.zeros(0, np.int32)
    if table.version == "new":
        locks = np.zeros(len(graph.begin_of), np.bool_)
        locks[table.row_index[table.named(*LOCKING)]] = True
        lock_nodes = np.flatnonzero(locks[event]).astype(np.int32)
    _reserve(graph, len(lock_nodes) + 2 * len(stacks.row))
    graph.count = loops.lock_edges(
        lock_nodes, graph.event, graph.is_end, graph.ts, np.empty_like(lock_nodes), graph.edges
    )
    _walk_stacks(graph, table, stacks)
    rows = device_rows(table, window)
    _walk_device(graph, table, window, rows, launch_edges)
    return graph


def _nodes_by_time(table: HtaTable, row: Rows) -> tuple[Any, Any, Any]:
    """Start and end of each row, numbered by time."""
    event = np.tile(table.row_index[row], 2)
    ts = np.concatenate([table.ts[row], table.ts[row] + table.dur[row]])
    order = np.lexsort((event, ts))
    return event[order], order >= len(row), ts[order]


def _nodes_in_pairs(table: HtaTable, row: Rows) -> tuple[Any, Any, Any]:
    """Start and end of each row, one after the other."""
    ts = np.stack([table.ts[row], table.ts[row] + table.dur[row]], axis=1)
    return np.repeat(table.row_index[row], 2), np.tile([False, True], len(row)), ts.reshape(-1)


def _start(table: HtaTable, event: Any, is_end: Any, ts: Any) -> _Graph:
    """A graph of these nodes without edges; of two nodes of one event the later counts."""
    size = int(table.row_index.max(initial=-1)) + 1
    begin_of, end_of = np.full(size, -1, np.int32), np.full(size, -1, np.int32)
    number = np.arange(len(event), dtype=np.int32)
    begin_of[event[~is_end]] = number[~is_end]
    end_of[event[is_end]] = number[is_end]
    whole = np.zeros(0, np.int32)
    edges = Edges(whole, whole, np.zeros(0, np.int8), np.zeros(0, np.float64), whole)
    return _Graph(event.astype(np.int32), is_end.astype(np.int8), ts.astype(np.float64), begin_of, end_of, edges, 0)


def _reserve(graph: _Graph, more: int) -> None:
    """Room for so many more edges."""
    count = graph.count
    graph.edges = Edges(*(np.concatenate([part[:count], np.empty(more, part.dtype)]) for part in graph.edges))


def _walk_stacks(graph: _Graph, table: HtaTable, stacks: Stacks) -> None:
    row = stacks.row
    traits = np.zeros(len(table), np.int8)
    traits[table.named(*LOCKING)] |= loops.IS_LOCK
    traits[table.named(*BLOCKING)] |= loops.IS_BLOCKING
    ends = (table.ts[row] + table.dur[row]).astype(np.float64)
    ends = ends[np.lexsort((ends, stacks.thread))]
    event = table.row_index[row]
    graph.count = loops.walk_stacks(
        stacks.thread,
        table.ts[row].astype(np.float64),
        ends,
        event.astype(np.int32),
        traits[row],
        graph.begin_of[event],
        graph.end_of[event],
        graph.ts,
        int(table.version == "new"),
        np.empty(len(row) + 1, np.int32),
        graph.edges,
        graph.count,
    )


def _walk_device(graph: _Graph, table: HtaTable, window: Window, rows: DeviceRows, launch_edges: bool) -> None:
    """Kernels, copies and synchronisations. Raises HtaFailure."""
    what = np.full(len(table), loops.KERNEL, np.int64)
    what[table.in_category("cuda_sync")] = loops.OTHER_SYNC
    for name, code in _SYNC_CODES.items():
        what[table.named(name) & (what != loops.KERNEL)] = code
    what = what[rows.row]
    lanes, lane = np.unique(table.stream[rows.row], return_inverse=True)
    fresh = np.full(len(rows), -1, np.int64)
    pinned = table.version == "pinned"
    if pinned:
        kernels = rows.row[what == loops.KERNEL]
        fresh[what == loops.KERNEL] = len(graph.event) + 2 * np.arange(len(kernels))
        event, is_end, ts = _nodes_in_pairs(table, kernels)
        graph.event = np.concatenate([graph.event, event.astype(np.int32)])
        graph.is_end = np.concatenate([graph.is_end, is_end.astype(np.int8)])
        graph.ts = np.concatenate([graph.ts, ts.astype(np.float64)])
    launch_ts = np.full(len(graph.begin_of), np.nan)
    launch_ts[table.row_index] = table.ts
    columns = DeviceColumns(
        what=what,
        event=table.row_index[rows.row],
        lane=lane.reshape(-1).astype(np.int64),
        runtime=rows.runtime,
        launch_ts=launch_ts[rows.runtime],
        queue=rows.queue,
        queue_at_launch=rows.queue_at_launch,
        source=rows.source,
        next_launch=rows.next_launch,
        fresh=fresh,
    )
    syncs = int(np.sum(what == loops.CONTEXT_SYNC)) * len(lanes)
    _reserve(graph, 4 * len(rows) + syncs)
    count = loops.walk_device(
        columns,
        int(pinned),
        int(launch_edges),
        graph.begin_of,
        graph.end_of,
        graph.ts,
        np.full(len(graph.begin_of), -1, np.int32),
        np.full(len(lanes), -1, np.int64),
        np.full(len(lanes), -1, np.int64),
        graph.edges,
        graph.count,
    )
    if count < 0:
        raise HtaFailure(*_FAILURES[count])
    graph.count = count
    if pinned and window.repeated and touches_repeated(window, table, rows.row[what == loops.KERNEL]):
        raise HtaFailure("ValueError", "The truth value of a Series is ambiguous")


def _solve(graph: _Graph, table: HtaTable, window: Window, loads: tuple[str, ...]) -> CriticalPath:
    """Validation and the heaviest path (1.4.8). Raises HtaFailure."""
    edges = _merged(graph)
    delays = edges.kind == loops.KERNEL_KERNEL_DELAY
    edges.event[delays] = graph.event[edges.source[delays]]
    nodes = _graph_nodes(graph, edges) if table.version == "new" else np.arange(len(graph.event), dtype=np.int32)
    valid = _is_valid(graph, edges, table)
    path_nodes, path_edges = (np.zeros(0, np.int32),) * 2
    if valid:
        found = _heaviest(graph, edges, nodes, table.version)
        valid = found is not None
        path_nodes, path_edges = found or (path_nodes, path_edges)
    if not valid and table.version == "pinned":
        raise HtaFailure("ValueError", "Graph is not valid, see prints above for help on debugging")
    if valid and len(path_nodes) < 2:
        raise HtaFailure("AssertionError", "the path has fewer than two nodes")
    return CriticalPath(
        version=table.version,
        failure=None,
        reason="" if valid else "the graph is not valid",
        success=valid,
        clipped_rows=len(window.rows),
        node_event=graph.event,
        node_is_end=graph.is_end,
        node_ts=graph.ts,
        graph_nodes=len(nodes),
        edge_source=edges.source,
        edge_target=edges.target,
        edge_kind=edges.kind,
        edge_weight=edges.weight,
        edge_event=edges.event,
        path_nodes=path_nodes,
        path_edges=path_edges,
        table=table,
        data_load_events=loads,
    )


def _merged(graph: _Graph) -> Edges:
    """The edges, those between the same two nodes made one."""
    count, size = graph.count, len(graph.event)
    first = np.zeros(count, np.int8)
    room = (np.zeros(size + 1, np.int64), np.empty(count, np.int32), np.full(size, -1, np.int32))
    gone = merge_repeated(graph.edges, count, *room, first)
    keep: Any = np.flatnonzero(first) if gone else slice(0, count)
    return Edges(*(np.ascontiguousarray(part[keep]) for part in graph.edges))


def _graph_nodes(graph: _Graph, edges: Edges) -> NDArray[np.int32]:
    """Nodes that have edges, in the order in which these name them."""
    named = np.stack([edges.source, edges.target], axis=1).reshape(-1)
    first = np.full(len(graph.event), -1, np.int64)
    first[named[::-1]] = np.arange(len(named) - 1, -1, -1)
    return np.asarray(named[first[named] == np.arange(len(named))], np.int32)


def _is_valid(graph: _Graph, edges: Edges, table: HtaTable) -> bool:
    """Whether HTA trusts the graph, cycles apart."""
    syncs = np.flatnonzero(edges.kind == loops.SYNC_DEPENDENCY)
    source, target = graph.event[edges.source[syncs]], graph.event[edges.target[syncs]]
    stream = np.full(len(graph.begin_of), -1, np.int64)
    stream[table.row_index] = table.stream
    if np.any((stream[source] != -1) & (stream[source] == stream[target])):
        return False
    return table.version == "new" or not np.any(edges.weight < -1)


def _heaviest(
    graph: _Graph, edges: Edges, nodes: NDArray[np.int32], version: Version
) -> tuple[NDArray[np.int32], NDArray[np.int32]] | None:
    """Nodes and edges of the heaviest path; None if the graph has a cycle."""
    size, count = len(graph.event), len(edges.source)
    if not len(nodes):
        return np.zeros(0, np.int32), np.zeros(0, np.int32)
    ignored = edges.weight <= -1 if version == "new" else edges.weight == -1
    order, queue = np.empty(count, np.int32), np.empty(len(nodes), np.int32)
    length = longest_path(
        edges,
        np.where(ignored, 0.0, edges.weight),
        nodes,
        np.zeros(size + 1, np.int64),
        order,
        np.zeros(size, np.int32),
        queue,
        np.zeros(size, np.float64),
        np.full(size, -1, np.int32),
    )
    if length < 0:
        return None
    return queue[:length][::-1].copy(), order[: max(length - 1, 0)][::-1].copy()


def _failed(version: Version, failure: HtaFailure, loads: tuple[str, ...]) -> CriticalPath:
    none = np.zeros(0, np.int32)
    flags, reals = np.zeros(0, np.int8), np.zeros(0, np.float64)
    return CriticalPath(
        version, failure.kind, failure.reason, False, 0, none, flags, reals, 0,
        none, none, flags, reals, none, none, none, None, loads,
    )  # fmt: skip
