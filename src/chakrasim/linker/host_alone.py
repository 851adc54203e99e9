"""A host trace without a device trace: what ran, in which order, on what data; not when."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.spelling import host_backend_of
from chakrasim.linker.evidence.events import step_named
from chakrasim.linker.evidence.host_join import frame_nodes
from chakrasim.linker.rows.columns import constant
from chakrasim.linker.rows.data_edges import parents, tensor_pairs
from chakrasim.linker.rows.edges import Edges, all_edges, edges_of
from chakrasim.linker.rows.order import put_in_order
from chakrasim.linker.rows.row_table import RowTable
from chakrasim.linker.rows.texts import TextPool
from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.kineto.columns import Indices, Mask
from chakrasim.trace.linked.columns import EdgeKind, Evidence, Lane, RowKind

_NAMES_ONLY = re.compile(r"ProfilerStep#[0-9]+|Optimizer\.(step|zero_grad)#.*|enumerate\(DataLoader\)#.*|## .* ##")
#: Names around names around names: more levels than this are a circle of a damaged trace.
_DEEPEST = 10_000


def rows_of_host(host: HostTrace, counts: dict[str, int]) -> tuple[RowTable, Edges]:
    """Rows in the order of their ids (in which operators start), all times 0, and their edges."""
    named = host.strings.each(host.name, lambda name: _NAMES_ONLY.fullmatch(name) is not None)
    step = host.strings.each(host.name, step_named, np.int32)
    carried_out = host.strings.each(host.name, host_backend_of)
    work = ~frame_nodes(host) & ~named
    nodes = np.flatnonzero(work)
    nodes = nodes[np.argsort(host.ids[nodes], kind="stable")]
    row = np.full(len(host) + 1, -1, np.int32)
    row[nodes] = np.arange(len(nodes), dtype=np.int32)
    above = parents(host)
    lane, lanes = _threads(host, nodes)
    edges = _edges(host, nodes, row, lane, work, above)
    n = len(nodes)
    zeros = np.zeros(n, np.int64)
    order, edges, rejected = put_in_order([np.arange(n, dtype=np.int64)], [zeros], [edges])
    counts.update(rows_without_times=n, host_nodes=n, edges_rejected_circular=rejected)
    back = np.empty(n + 1, np.int32)
    back[order] = np.arange(n, dtype=np.int32)
    back[-1] = -1
    nodes = nodes[order]
    parent = back[row[_ancestor(above, work)[nodes]]]
    table = RowTable(
        texts=TextPool(host.strings),
        kind=np.where(carried_out[nodes], RowKind.HOST_COLLECTIVE, RowKind.OPERATOR).astype(np.uint8),
        part=constant(0, n, np.int32),
        head=np.arange(n, dtype=np.int32),
        name=host.name[nodes],
        lane=lane[order],
        start_ns=zeros,
        wait_ns=zeros.copy(),
        duration_ns=zeros.copy(),
        inclusive_ns=zeros.copy(),
        # In a damaged trace a node may come before its parent.
        parent=np.where(parent < np.arange(n), parent, np.int32(-1)),
        step=_steps(step, above)[nodes],
        event=np.full(n, -1, np.int32),
        host_node=nodes.astype(np.int32),
        launch=np.full(n, -1, np.int32),
        lanes=lanes,
    )
    return table, edges


def _threads(host: HostTrace, nodes: NDArray[np.intp]) -> tuple[Indices, tuple[Lane, ...]]:
    tids, first, lane = np.unique(host.tid[nodes], return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(tids), np.int32)
    rank[order] = np.arange(len(tids), dtype=np.int32)
    pid = host.header.get("pid", -1)
    process = pid if type(pid) is int and 0 <= pid < 2**63 else -1
    return rank[lane], tuple(Lane(f"thread {tid}", process, str(tid)) for tid in tids[order].tolist())


def _ancestor(above: NDArray[np.intp], work: Mask) -> NDArray[np.intp]:
    """The innermost node above each that is work, -1: none."""
    found = above.copy()
    for _ in range(min(len(found), _DEEPEST)):
        skipped = np.flatnonzero((found >= 0) & ~work[found])
        # The process is its own parent.
        found[skipped] = np.where(above[found[skipped]] == found[skipped], -1, above[found[skipped]])
        if not len(skipped):
            return found
    return np.where((found >= 0) & work[found], found, -1)


def _steps(step: Indices, above: NDArray[np.intp]) -> Indices:
    """The step of each node: its own name's, or that of the nodes above; pointers jump twice as far each round."""
    step, up = step.copy(), above.copy()
    for _ in range(64):
        open_ = np.flatnonzero((step < 0) & (up >= 0))
        if not len(open_):
            break
        step[open_] = step[up[open_]]
        up[open_] = up[up[open_]]
    return step


def _edges(
    host: HostTrace,
    nodes: NDArray[np.intp],
    row: Indices,
    lane: Indices,
    work: Mask,
    above: NDArray[np.intp],
) -> Edges:
    by_lane = np.argsort(lane, kind="stable")
    follows = lane[by_lane[1:]] == lane[by_lane[:-1]]
    start = np.zeros(len(host), np.int64)
    start[nodes] = np.arange(len(nodes))
    giver, taker = tensor_pairs(host, work, start, _last_below(start, above, work))
    proof = Evidence.HOST_TRACE
    parent = row[_ancestor(above, work)[nodes]]
    return all_edges(
        [
            edges_of(by_lane[:-1][follows], by_lane[1:][follows], EdgeKind.THREAD, Evidence.NESTING),
            edges_of(parent, np.arange(len(nodes)), EdgeKind.CONTROL, proof),
            edges_of(row[giver], row[taker], EdgeKind.DATA, proof),
            _backward(host, nodes, lane),
        ]
    )


def _last_below(start: NDArray[np.int64], above: NDArray[np.intp], work: Mask) -> NDArray[np.int64]:
    """The last position that each node's own subtree takes: it has ended before the next."""
    last = start.copy()
    nodes = np.flatnonzero(work)
    for node in nodes[np.argsort(-start[nodes], kind="stable")].tolist():
        parent = above[node]
        if parent >= 0 and parent != node:
            last[parent] = max(last[parent], last[node])
    return last


def _backward(host: HostTrace, nodes: NDArray[np.intp], lane: Indices) -> Edges:
    """From the last forward operator of each sequence number to the first backward one, on another thread."""
    sequence, forward = host.seq_id[nodes], host.fw_tid[nodes]
    back = np.flatnonzero((sequence >= 0) & (forward > 0))
    numbers, first = np.unique(sequence[back], return_index=True)
    fore = np.flatnonzero((sequence >= 0) & (forward <= 0))[::-1]
    known, last = np.unique(sequence[fore], return_index=True)
    _, a, b = np.intersect1d(known, numbers, assume_unique=True, return_indices=True)
    source, target = fore[last[a]], back[first[b]]
    fits = (source < target) & (lane[source] != lane[target])
    return edges_of(source[fits], target[fits], EdgeKind.INTER_THREAD, Evidence.FLOW)
