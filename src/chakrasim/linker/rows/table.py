"""Rows put in order: what the stages found about events, as columns of the linked trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.jit import kernel
from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.linker.evidence.launches import Launches
from chakrasim.linker.evidence.nesting import Pieces, innermost
from chakrasim.linker.memory import give_back
from chakrasim.linker.rows.columns import constant
from chakrasim.linker.rows.edges import Edges
from chakrasim.linker.rows.order import put_in_order
from chakrasim.linker.rows.row_table import RowTable
from chakrasim.linker.rows.texts import TextPool
from chakrasim.trace.kineto.columns import Indices, Ints
from chakrasim.trace.linked.columns import RowKind


@dataclass
class Stages:
    """What the stages found: the events, how the host's hang together (``asker`` as in `Tasks`; ``parent``,
    ``inclusive_ns``, ``host_node``: the node of each, None without a host trace), the rows before they are put in order
    (``pieces`` to ``wait_ns``, as in `Shape`), and edges between them.

    In a trace of a gigabyte these columns are what memory is needed for: so there is nothing here that `make_table`
    does not need, and it empties ``pieces`` and ``edges``.
    """

    work: LaneEvents
    launches: Launches
    asker: Indices
    parent: Indices
    inclusive_ns: Ints
    host_node: Indices | None
    pieces: Pieces
    first: Indices
    launching: Indices
    waiting: NDArray[np.intp]
    wait_ns: Ints
    edges: list[Edges]


@dataclass(frozen=True, eq=False)
class _Order:
    """``before`` int32[n]: where each row stood, among the pieces or behind them among the device's events; ``after``
    int32[n + 1]: where each of those now stands, -1 behind the last, for those that are -1."""

    before: Indices
    after: Indices

    def put(self, pieces: NDArray[Any], device: NDArray[Any]) -> NDArray[Any]:
        """A column of the rows, from those of the pieces and of the device's events."""
        return np.concatenate((pieces, device))[self.before]

    def rows(self, pieces: Indices, device: Indices) -> Indices:
        """The same of a column that names rows."""
        found: Indices = self.after[self.put(pieces, device)]
        return found


def make_table(stages: Stages, texts: TextPool) -> tuple[RowTable, Edges, Indices]:
    """All rows in order, the edges between them, and of each row the position in ``LaneEvents.annotations`` of the
    innermost annotation around it."""
    work, pieces = stages.work, stages.pieces
    around_calls = _around_calls(work, stages.launches)
    asked_ns = _asked_ns(stages)
    work.host.forget_times()
    order, edges = _put_in_order(stages)
    give_back(len(pieces))
    start, wait, duration = _times(stages, order)
    step = work.steps.of(np.concatenate(asked_ns))[order.before]
    del asked_ns
    spans = work.annotations
    around = innermost(spans.lane, spans.start_ns, spans.end_ns, pieces.lane, pieces.start_ns)
    annotation = order.put(around, around_calls)
    lane = order.put(pieces.lane, work.device.lane)
    del around
    pieces.forget_times()
    give_back(len(start))
    owner = pieces.owner
    part, head = _parts(owner, stages.first, order)
    parent = _operators(stages, order)
    launch = order.rows(np.full(len(owner), -1, np.int32), stages.launching)
    give_back(len(start))
    event, kind = _events(work, owner, order)
    node = _nodes(stages, order)
    name = np.where(event >= 0, work.kineto.name[event], np.int32(0)).astype(np.int32, copy=False)
    table = RowTable(
        texts=texts,
        kind=kind,
        part=part,
        head=head,
        name=name,
        lane=lane,
        start_ns=start,
        wait_ns=wait,
        duration_ns=duration,
        inclusive_ns=_inclusive(stages, order),
        parent=parent,
        step=step,
        event=event,
        host_node=node,
        launch=launch,
        lanes=work.lanes,
    )
    return table, edges, annotation


def _put_in_order(stages: Stages) -> tuple[_Order, Edges]:
    pieces, device = stages.pieces, stages.work.device
    begin = np.concatenate((pieces.start_ns, device.start_ns))
    begin[stages.waiting] += stages.wait_ns
    # In lists, out of which they are taken with their last use.
    columns = [begin], [np.concatenate((pieces.end_ns, device.end_ns))]
    del begin
    before, edges, rejected = put_in_order(*columns, stages.edges)
    stages.work.counts["edges_rejected_circular"] = rejected
    after = np.empty(len(before) + 1, np.int32)
    after[before] = np.arange(len(before), dtype=np.int32)
    after[-1] = -1
    return _Order(before, after), edges


def _times(stages: Stages, order: _Order) -> tuple[Ints, Ints, Ints]:
    """When each row starts, how long it waits and works."""
    pieces, device = stages.pieces, stages.work.device
    start = order.put(pieces.start_ns, device.start_ns)
    duration = order.put(pieces.end_ns, device.end_ns)
    duration -= start
    # Few rows wait; memory that is never written to takes none.
    wait = np.zeros(len(start), np.int64)
    waiting = order.after[stages.waiting]
    wait[waiting] = stages.wait_ns
    duration[waiting] -= stages.wait_ns
    return start, wait, duration


def _inclusive(stages: Stages, order: _Order) -> Ints:
    """How long the event of each row took, with all that it called; 0 but for its first piece."""
    device = stages.work.device
    inclusive = np.zeros(len(order.before), np.int64)
    inclusive[order.after[stages.first]] = stages.inclusive_ns
    inclusive[order.after[len(stages.pieces) : -1]] = device.end_ns - device.start_ns
    return inclusive


def _around_calls(work: LaneEvents, launches: Launches) -> Indices:
    """The innermost annotation around the launch of each of the device's events."""
    spans, host = work.annotations, work.host
    around = innermost(spans.lane, spans.start_ns, spans.end_ns, host.lane, host.start_ns)
    return np.append(around, np.int32(-1))[launches.asked]


def _asked_ns(stages: Stages) -> tuple[Ints, Ints]:
    """When the program came to each piece, and asked for each of the device's events: a task may be carried out long
    after the step that put it into a queue."""
    pieces, launches, host = stages.pieces, stages.launches, stages.work.host
    if not len(stages.asker):
        return pieces.start_ns, launches.time_ns
    asker = np.append(stages.asker, np.int32(-1))[pieces.owner]
    return (
        np.where(asker >= 0, host.start_ns[asker], pieces.start_ns),
        np.where(launches.asked >= 0, host.start_ns[launches.asked], launches.time_ns),
    )


def _operators(stages: Stages, order: _Order) -> Indices:
    """The row of the operator around each piece's event, or around the call that launched a device's event."""
    owner = stages.pieces.owner
    around = np.full(len(owner), -1, np.int32)
    if len(stages.parent):
        around = np.where(owner >= 0, stages.parent[owner], around)
    event = order.put(around, stages.launches.operator)
    row: Indices = order.after[np.append(stages.first, np.int32(-1))[event]]
    return row


def _events(work: LaneEvents, owner: Indices, order: _Order) -> tuple[Indices, NDArray[np.uint8]]:
    """Event in the trace and kind of each row."""
    event, kind = np.full(len(owner), -1, np.int32), np.full(len(owner), RowKind.GAP, np.uint8)
    if len(work.host):
        event = np.where(owner < 0, event, work.host.event[owner])
        kind = np.where(owner < 0, kind, work.host.kind[owner])
    return order.put(event, work.device.event), order.put(kind, work.device.kind)


def _nodes(stages: Stages, order: _Order) -> Indices:
    """The node of the host trace of each event, at its first piece."""
    count = len(order.before)
    if stages.host_node is None:
        nothing: Indices = constant(-1, count, np.int32)
        return nothing
    node = np.full(count, -1, np.int32)
    node[order.after[stages.first]] = stages.host_node
    return node


def _parts(owner: Indices, first: Indices, order: _Order) -> tuple[Indices, Indices]:
    """Number of each piece within its event, and the row of the event's first."""
    head = np.arange(len(order.before), dtype=np.int32)
    part = np.zeros(len(head), np.int32)
    _number(owner, first, np.zeros(len(first), np.int32), part, head)
    return part[order.before], order.after[head[order.before]]


@kernel
def _number(owner: Any, first: Any, pieces: Any, part: Any, head: Any) -> None:
    for piece in range(len(owner)):
        event = owner[piece]
        if event >= 0:
            part[piece] = pieces[event]
            head[piece] = first[event]
            pieces[event] += 1
