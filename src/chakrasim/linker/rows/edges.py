"""Dependencies between rows, before the rows are put in order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.linker.evidence.enqueued import Links
from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.linker.evidence.nesting import TOLERANCE_NS, Nesting, Pieces, last_at
from chakrasim.linker.evidence.threads import Handovers
from chakrasim.linker.rows.shape import Shape
from chakrasim.trace.kineto.columns import Indices, Ints, Mask
from chakrasim.trace.linked.columns import EdgeKind, Evidence


@dataclass(frozen=True, eq=False)
class Edges:
    """``m`` dependencies: ``source``, ``target`` int32[m] rows; ``kind``, ``evidence`` uint8[m]."""

    source: Indices
    target: Indices
    kind: NDArray[np.uint8]
    evidence: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.source)

    def take(self, which: Mask | NDArray[np.intp] | slice) -> Edges:
        """Some of the edges."""
        return Edges(self.source[which], self.target[which], self.kind[which], self.evidence[which])


def edges_of(source: object, target: object, kind: object, evidence: object) -> Edges:
    """Edges from columns or single values; those with a -1 or from a row to itself are left out."""
    a, b = np.asarray(source, np.int32), np.asarray(target, np.int32)
    columns = (np.broadcast_to(np.asarray(column, np.uint8), a.shape) for column in (kind, evidence))
    found = Edges(a, b, *columns)
    both = (a >= 0) & (b >= 0) & (a != b)
    return found if both.all() else found.take(both)


def all_edges(parts: list[Edges]) -> Edges:
    """All edges of several lists."""
    names = ("source", "target", "kind", "evidence")
    return Edges(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def make_edges(
    work: LaneEvents, nesting: Nesting, shape: Shape, handovers: Handovers, to_host: Links, to_device: Links
) -> list[Edges]:
    """All edges but those of data: of threads, calls, streams, synchronisation. Rows: pieces, then device's events."""
    pieces = shape.pieces
    base = len(pieces)
    device = np.arange(len(work.device), dtype=np.int32) + base
    follows = np.flatnonzero(pieces.lane[1:] == pieces.lane[:-1]).astype(np.int32)
    called = np.flatnonzero(nesting.parent >= 0)
    return [
        edges_of(follows, follows + 1, EdgeKind.THREAD, Evidence.NESTING),
        edges_of(shape.first[nesting.parent[called]], shape.first[called], EdgeKind.CONTROL, Evidence.NESTING),
        _between_threads(work, pieces, handovers),
        _returns(work, pieces, handovers, base),
        edges_of(shape.launching, device, EdgeKind.LAUNCH, Evidence.CORRELATION),
        _streams(work, base),
        edges_of(to_device.source + base, to_device.target + base, to_device.kind, to_device.evidence),
        edges_of(to_host.source + base, shape.last[to_host.target], to_host.kind, to_host.evidence),
    ]


def _between_threads(work: LaneEvents, pieces: Pieces, handovers: Handovers) -> Edges:
    if not handovers.edges:
        return edges_of([], [], [], [])
    giver, given, taker, taken, kind, evidence = np.array(handovers.edges, np.int64).T
    source = last_at(pieces.lane, pieces.start_ns, work.threads, giver, given - 1)
    return edges_of(source, _first_from(work, pieces, taker, taken), kind, evidence)


def _returns(work: LaneEvents, pieces: Pieces, handovers: Handovers, base: int) -> Edges:
    """What threads that idled waited for on the device."""
    event, thread, time = np.array(handovers.returns, np.int64).reshape(-1, 3).T
    target = _first_from(work, pieces, thread, time)
    return edges_of(event + base, target, EdgeKind.SYNC_STREAM, Evidence.INFERRED)


def _first_from(work: LaneEvents, pieces: Pieces, thread: Ints, time: Ints) -> Ints:
    """The first piece of each thread from its time on, -1: none."""
    offsets = pieces.offsets(work.threads)
    before = last_at(pieces.lane, pieces.start_ns, work.threads, thread, time - 1)
    target = np.where(before >= 0, before + 1, offsets[thread])
    return np.where(target < offsets[thread + 1], target, -1).astype(np.int64)


def _streams(work: LaneEvents, base: int) -> Edges:
    """Each event after the last one before it in its stream that had ended when it began."""
    device = work.device
    at = np.arange(len(device))
    before = at - 1
    open_ = at[1:]
    overlapping = 0
    while len(open_):
        open_ = open_[before[open_] >= 0]
        same = device.lane[before[open_]] == device.lane[open_]
        before[open_[~same]] = -1
        open_ = open_[same]
        open_ = open_[device.end_ns[before[open_]] > device.start_ns[open_] + TOLERANCE_NS]
        overlapping = max(overlapping, len(open_))
        before[open_] -= 1
    work.counts["events_overlapping_in_their_stream"] = overlapping
    source = np.where(before >= 0, before + base, -1)
    return edges_of(source, at + base, EdgeKind.STREAM, Evidence.NESTING)
