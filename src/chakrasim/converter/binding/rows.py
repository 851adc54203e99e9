"""A recorded rank as rows of work, whether it comes as a linked trace or as the Chakra trace of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.trace.chakra.graph import Ints, StringTable, Trace
from chakrasim.trace.kinds import NodeType
from chakrasim.trace.linked.columns import EdgeKind, LinkedTrace, RowKind

Mask = NDArray[np.bool_]

_HANDS_OVER: Final = (EdgeKind.LAUNCH, EdgeKind.COMMUNICATION)


@dataclass(frozen=True, eq=False)
class Rows:
    """``n`` rows of one rank, every parent before its children.

    Attributes
    ----------
    rank, source: for messages.
    strings: all texts.
    name: int64[n], string index.
    operator: bool[n], rows that stand for an operator (not its later pieces).
    host, device, communicates: bool[n], work of a host thread, of a device, and collectives and messages (which a
        device or a thread of their own carries out).
    parent: int64[n], the operator around; -1 at the top. Of a later piece of an operator its first one.
    giver: int64[n], of work of a device and communication: the row that launched it or handed it over; else -1.
    step: int64[n], number of the profiler's step, -1 outside.
    start_ns, duration_ns: int64[n], of a row's own work.
    schema: int64[n], string index.
    texts: int64[n, 2, 3], string index of values, shapes and types of inputs and outputs; 0: not recorded.
    """

    rank: int
    source: str
    strings: StringTable
    name: Ints
    operator: Mask
    host: Mask
    device: Mask
    communicates: Mask
    parent: Ints
    giver: Ints
    step: Ints
    start_ns: Ints
    duration_ns: Ints
    schema: Ints
    texts: Ints

    def __len__(self) -> int:
        return len(self.name)


def rows_of_linked(linked: LinkedTrace) -> Rows:
    """The rows of a linked trace."""
    communicates = np.zeros(len(linked), np.bool_)
    communicates[linked.communication.row] = True
    device = np.isin(linked.kind, [int(kind) for kind in (RowKind.KERNEL, RowKind.MEMCPY, RowKind.MEMSET)])
    host = ~device & (linked.kind != RowKind.HOST_COLLECTIVE)
    giver = np.full(len(linked), -1, np.int64)
    over = np.isin(linked.edge_kind, [int(kind) for kind in _HANDS_OVER])
    over &= ~host[linked.edge_target] & host[linked.edge_source]
    giver[linked.edge_target[over]] = linked.edge_source[over]
    later = linked.part > 0
    return Rows(
        rank=linked.rank,
        source=linked.source,
        strings=linked.strings,
        name=linked.name.astype(np.int64),
        operator=(linked.kind == RowKind.OPERATOR) & ~later,
        host=host,
        device=device,
        communicates=communicates | (linked.kind == RowKind.HOST_COLLECTIVE),
        parent=np.where(later, linked.head, linked.parent).astype(np.int64),
        giver=giver,
        step=linked.step.astype(np.int64),
        start_ns=linked.start_ns + linked.wait_ns,
        duration_ns=linked.duration_ns,
        schema=linked.op_schema.astype(np.int64),
        texts=np.stack((linked.values, linked.shapes, linked.types), axis=2).astype(np.int64),
    )


def rows_of_chakra(trace: Trace, rank: int) -> Rows:
    """The rows of a Chakra trace that was made of a linked one (`convert`)."""
    count = len(trace)
    device = trace.attr("device").present & trace.attr("stream").present
    communicates = trace.types >= int(NodeType.COMM_SEND_NODE)
    offset = trace.attr("is_start_offset").integers() != 0
    host = ~device & ~communicates & ~offset
    later = (trace.attr("part").integers() > 0) & host
    gap = trace.attr("is_gap").integers() != 0
    micros = trace.duration_micros.astype(np.int64) * 1000
    wait = trace.attr("wait_ns").integers()
    ports = np.stack((trace.inputs, trace.outputs), axis=1)
    return Rows(
        rank=rank,
        source=trace.source,
        strings=trace.strings,
        name=trace.name_index.astype(np.int64),
        operator=host & ~later & ~gap & trace.attr("op_schema").present,
        host=host,
        device=device,
        communicates=communicates,
        parent=_parents(trace, later),
        giver=_givers(trace, device | communicates, host),
        step=trace.attr("step").integers(-1),
        start_ns=trace.attr("start_ns").integers_or(trace.start_micros.astype(np.int64) * 1000) + wait,
        duration_ns=trace.attr("duration_ns").integers_or(micros),
        schema=np.where(trace.attr("op_schema").present, trace.attr("op_schema").bits.astype(np.int64), 0),
        texts=np.maximum(ports, 0).astype(np.int64).reshape(count, 2, 3),
    )


def _positions(trace: Trace, ids: NDArray[np.uint64]) -> Ints:
    """Where nodes with these ids stand; -1: nowhere."""
    order = np.argsort(trace.ids, kind="stable")
    at = np.minimum(np.searchsorted(trace.ids[order], ids), max(len(order) - 1, 0))
    found = order[at] if len(order) else np.zeros(len(ids), np.int64)
    return np.where(trace.ids[found] == ids, found, -1) if len(order) else found - 1


def _parents(trace: Trace, later: Mask) -> Ints:
    """The caller, which is the control dependency; of a later piece, the piece before it."""
    parent = np.full(len(trace), -1, np.int64)
    offsets = trace.ctrl_deps.offsets
    has = np.flatnonzero(np.diff(offsets))
    parent[has] = _positions(trace, trace.ctrl_deps.targets[offsets[has]])
    parent[parent >= np.arange(len(trace))] = -1
    part, thread = trace.attr("part").integers(), trace.attr("tid").bits
    waiting: dict[tuple[int, int, int], list[int]] = {}
    begun = np.unique(trace.name_index[later])
    for at in np.flatnonzero(np.isin(trace.name_index, begun)).tolist():
        name, lane, number = int(trace.name_index[at]), int(thread[at]), int(part[at])
        before = waiting.get((name, lane, number - 1)) if number else None
        if before:
            parent[at] = before.pop()
        waiting.setdefault((name, lane, number), []).append(at)
    return parent


def _givers(trace: Trace, taking: Mask, host: Mask) -> Ints:
    """Who launched work of a device, or handed a collective over, by the kinds of data dependencies."""
    giver = np.full(len(trace), -1, np.int64)
    kinds = trace.attr("data_dep_kinds")
    sources = _positions(trace, trace.data_deps.targets)
    for at in np.flatnonzero(taking & kinds.present).tolist():
        own = sources[trace.data_deps.offsets[at] : trace.data_deps.offsets[at + 1]].tolist()
        for source, kind in zip(own, kinds.list(at), strict=False):
            if kind in _HANDS_OVER and source >= 0 and host[source]:
                giver[at] = source
    return giver
