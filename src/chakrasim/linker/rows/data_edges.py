"""Dependencies through tensors: who gave the memory that an operator takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.linker.evidence.host_join import HostJoin
from chakrasim.linker.evidence.launches import Launches
from chakrasim.linker.evidence.nesting import TOLERANCE_NS, Nesting, last_at
from chakrasim.linker.rows.columns import look_up
from chakrasim.linker.rows.edges import Edges, all_edges, edges_of
from chakrasim.linker.rows.shape import Shape
from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.kineto.columns import Indices, Ints, Mask
from chakrasim.trace.linked.columns import EdgeKind, Evidence


def tensor_pairs(host: HostTrace, usable: Mask, start: Ints, end: Ints) -> tuple[Indices, Indices]:
    """Pairs (giver, taker) of nodes: the innermost operator that last gave a storage before the taker began, and the
    innermost that takes it. ``start``, ``end`` int64[nodes]: any common clock; ``usable``: nodes that have times."""
    tensors = host.tensors
    keep = usable[tensors.node] & (tensors.elements > 0)
    memory = np.where(tensors.storage_id > 0, tensors.storage_id * 2, tensors.tensor_id * 2 + 1)[keep]
    node, output = tensors.node[keep].astype(np.int64), tensors.is_output[keep]
    memories, memory = np.unique(memory, return_inverse=True)
    parent = parents(host)
    given = _innermost(node[output], memory[output], parent, len(memories))
    taken = _innermost(node[~output], memory[~output], parent, len(memories))
    giver, what = given // max(len(memories), 1), given % max(len(memories), 1)
    order = np.lexsort((giver, end[giver], what))
    giver, what = giver[order], what[order]
    taker, which = taken // max(len(memories), 1), taken % max(len(memories), 1)
    at = last_at(what.astype(np.int32), end[giver], len(memories), which.astype(np.int32), start[taker])
    known = np.flatnonzero(at >= 0)
    pairs = np.unique(giver[at[known]] * len(host) + taker[known])
    return (pairs // max(len(host), 1)).astype(np.int32), (pairs % max(len(host), 1)).astype(np.int32)


def parents(host: HostTrace) -> NDArray[np.intp]:
    """The row of each node's parent, -1: none."""
    order = np.argsort(host.ids, kind="stable")
    return look_up(host.ids[order], order, host.parent)


def _innermost(node: Ints, memory: NDArray[np.intp], parent: NDArray[np.intp], memories: int) -> Ints:
    """The (node, memory) pairs, as node * memories + memory, that no child has too."""
    pairs = np.unique(node * memories + memory)
    above = parent[pairs // max(memories, 1)]
    outer = np.where(above >= 0, above * memories + pairs % max(memories, 1), -1)
    return np.setdiff1d(pairs, outer, assume_unique=False)


def data_edges(
    work: LaneEvents, nesting: Nesting, launches: Launches, shape: Shape, host: HostTrace, join: HostJoin
) -> Edges:
    """Edges between operators, and between the device's work that they launched where it runs on different streams."""
    event = join.event
    usable = event >= 0
    start, end = np.zeros(len(host), np.int64), np.zeros(len(host), np.int64)
    start[usable] = work.host.start_ns[event[usable]]
    end[usable] = nesting.end_ns[event[usable]]
    giver, taker = tensor_pairs(host, usable, start, end)
    giver, taker = event[giver], event[taker]
    kind, proof = EdgeKind.DATA, Evidence.HOST_TRACE
    base = len(shape.pieces)
    first, last = _first_and_last(work, launches)
    a, b = last[giver], first[taker]
    both = np.flatnonzero((a >= 0) & (b >= 0))
    a, b = a[both], b[both]
    device = work.device
    fits = (device.lane[a] != device.lane[b]) & (device.end_ns[a] <= device.start_ns[b] + TOLERANCE_NS)
    # Of what takes no time, the times do not tell which came first; the order on a thread does.
    source, target = shape.last[giver], shape.first[taker]
    ordered = (source < target) | (shape.pieces.lane[source] != shape.pieces.lane[target])
    return all_edges(
        [
            edges_of(source[ordered], target[ordered], kind, proof),
            edges_of(a[fits] + base, b[fits] + base, kind, proof),
        ]
    )


def _first_and_last(work: LaneEvents, launches: Launches) -> tuple[Indices, Indices]:
    """The first and the last of the device's events that each event of the host itself launched, -1: none."""
    known = np.flatnonzero(launches.operator >= 0)
    known = known[np.lexsort((work.device.start_ns[known], launches.time_ns[known]))].astype(np.int32)
    first, last = (np.full(len(work.host) + 1, -1, np.int32) for _ in range(2))
    last[launches.operator[known]] = known
    first[launches.operator[known[::-1]]] = known[::-1]
    return first, last
