"""Rows put in order: what the stages found about events, as columns of the linked trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.jit import kernel
from chakrasim.linker.evidence.events import Work
from chakrasim.linker.evidence.launches import Launches
from chakrasim.linker.evidence.nesting import Nesting, innermost
from chakrasim.linker.memory import give_back
from chakrasim.linker.rows.columns import constant
from chakrasim.linker.rows.edges import Edges
from chakrasim.linker.rows.order import put_in_order
from chakrasim.linker.rows.row_table import RowTable
from chakrasim.linker.rows.shape import Shape
from chakrasim.linker.rows.texts import TextPool
from chakrasim.trace.linked.columns import RowKind

Indices = NDArray[np.int32]


@dataclass
class Stages:
    """What the stages found. `make_table` takes it over and frees each part with its last use, for in a trace of a
    gigabyte these columns are what memory is needed for. ``host_node`` int32[h]: of each event of the host."""

    work: Work
    nesting: Nesting | None
    launches: Launches
    shape: Shape | None
    edges: list[Edges]
    host_node: Indices | None


def make_table(stages: Stages, texts: TextPool) -> tuple[RowTable, Edges, Indices]:
    """All rows in order, the edges between them, and of each row the position in ``Work.annotations`` of the
    innermost annotation around it."""
    work, launches = stages.work, stages.launches
    nesting, shape, host_node = stages.nesting, stages.shape, stages.host_node
    assert nesting is not None and shape is not None
    stages.nesting = stages.shape = stages.host_node = None
    device, host = work.device, work.host
    pieces, first, launching, parent = shape.pieces, shape.first, shape.launching, nesting.parent
    waiting, waited = shape.waiting, shape.wait_ns
    inclusive = nesting.end_ns - host.start_ns
    around_calls = _around_calls(work, launches)
    host.forget_times()
    del shape, nesting
    begin = [np.concatenate((pieces.start_ns, device.start_ns))]
    begin[0][waiting] += waited
    order, edges, rejected = put_in_order(begin, [np.concatenate((pieces.end_ns, device.end_ns))], stages.edges)
    work.counts["edges_rejected_circular"] = rejected
    give_back(len(order))
    start = np.concatenate((pieces.start_ns, device.start_ns))[order]
    duration = np.concatenate((pieces.end_ns, device.end_ns))[order]
    duration -= start
    row_of = np.empty(len(order) + 1, np.int32)
    row_of[order] = np.arange(len(order), dtype=np.int32)
    row_of[-1] = -1
    # Few rows wait; memory that is never written to takes none.
    wait = np.zeros(len(order), np.int64)
    wait[row_of[waiting]] = waited
    duration[row_of[waiting]] -= waited
    step = work.steps.of(np.concatenate((pieces.start_ns, launches.time_ns)))[order]
    spans = work.annotations
    around = innermost(spans.lane, spans.start_ns, spans.end_ns, pieces.lane, pieces.start_ns)
    annotation = np.concatenate((around, around_calls))[order]
    del around
    lane = np.concatenate((pieces.lane, device.lane))[order]
    owner = pieces.owner
    del pieces
    give_back(len(order))
    part, head = (column[order] for column in _parts(owner, first, len(device)))
    head = row_of[head]
    give_back(len(order))
    event, kind = _events(work, owner)
    event, kind = event[order], kind[order]
    above = np.append(first, np.int32(-1))
    calls = np.where(owner >= 0, parent[owner], np.int32(-1)) if len(host) else np.full(len(owner), -1, np.int32)
    threads = len(owner)
    del owner
    # One step at a time, so that at most two columns of it are there at once.
    calls = np.concatenate((calls, launches.operator))
    calls = calls[order]
    calls = above[calls]
    parent = row_of[calls]
    del calls, above
    give_back(len(order))
    launch = np.concatenate((np.full(threads, -1, np.int32), launching))
    launch = launch[order]
    launch = row_of[launch]
    whole = np.zeros(len(order), np.int64)
    whole[row_of[first]] = inclusive
    whole[row_of[threads:-1]] = device.end_ns - device.start_ns
    del inclusive, row_of
    give_back(len(order))
    node = constant(-1, len(order), np.int32)
    if host_node is not None:
        node = np.full(len(order), -1, np.int32)
        node[first] = host_node
        node = node[order]
    del order
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
        inclusive_ns=whole,
        parent=parent,
        step=step,
        event=event,
        host_node=node,
        launch=launch,
        lanes=work.lanes,
    )
    return table, edges, annotation


def _around_calls(work: Work, launches: Launches) -> Indices:
    """The innermost annotation around the launch of each of the device's events."""
    spans, host = work.annotations, work.host
    around = innermost(spans.lane, spans.start_ns, spans.end_ns, host.lane, host.start_ns)
    return np.append(around, np.int32(-1))[launches.call]


def _events(work: Work, owner: Indices) -> tuple[Indices, NDArray[np.uint8]]:
    """Event in the trace and kind of each row before ordering."""
    gap = owner < 0
    if len(work.host):
        event = np.where(gap, np.int32(-1), work.host.event[owner])
        kind = np.where(gap, np.uint8(RowKind.GAP), work.host.kind[owner])
    else:
        event, kind = np.full(len(gap), -1, np.int32), np.full(len(gap), RowKind.GAP, np.uint8)
    return np.concatenate((event, work.device.event)), np.concatenate((kind, work.device.kind))


def _parts(owner: Indices, first: Indices, devices: int) -> tuple[Indices, Indices]:
    """Number of each piece within its event, and the row of the event's first."""
    head = np.arange(len(owner) + devices, dtype=np.int32)
    part = np.zeros(len(head), np.int32)
    _number(owner, first, np.zeros(len(first), np.int32), part, head)
    return part, head


@kernel
def _number(owner: Any, first: Any, pieces: Any, part: Any, head: Any) -> None:
    for piece in range(len(owner)):
        event = owner[piece]
        if event >= 0:
            part[piece] = pieces[event]
            head[piece] = first[event]
            pieces[event] += 1
