"""Which call launched which kernel, copy or set: by correlation, against any call of a runtime or driver."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.linker.evidence.nesting import Nesting, last_at
from chakrasim.linker.rows.columns import look_up
from chakrasim.trace.kineto.columns import Indices, Ints
from chakrasim.trace.linked.columns import RowKind


@dataclass(frozen=True, eq=False)
class Launches:
    """Of each event of ``LaneEvents.device``: ``call`` int32[d] position in ``LaneEvents.host`` of the call that
    launched it, -1: none; ``asked`` int32[d] of the call by which the program asked for it: the same, or what put the
    task that launched it into a queue; ``operator`` int32[d] of the innermost operator around that, -1: none;
    ``time_ns`` int64[d] when the call began, or where there is none, the event's own start."""

    call: Indices
    asked: Indices
    operator: Indices
    time_ns: Ints


@dataclass(frozen=True, eq=False)
class CallIndex:
    """Calls of the host by correlation id: ``key`` int64[k] ascending, ``call`` positions in ``LaneEvents.host``."""

    key: Ints
    call: NDArray[np.intp]

    def find(self, correlation: Ints) -> Indices:
        """int32: the first call with each id; -1 where there is none or the id is unknown (0 or less)."""
        return np.where(correlation > 0, look_up(self.key, self.call, correlation), -1).astype(np.int32)


def index_calls(work: LaneEvents) -> CallIndex:
    """The host's calls by correlation, equal ones by start."""
    correlation = work.kineto.correlation[work.host.event]
    calls = np.flatnonzero((correlation > 0) & (work.host.kind == RowKind.RUNTIME))
    order = np.lexsort((work.host.start_ns[calls], correlation[calls]))
    return CallIndex(correlation[calls[order]], calls[order])


def find_launches(work: LaneEvents, nesting: Nesting, calls: CallIndex, asker: Indices) -> Launches:
    """Join the device's events to their launches; ``asker`` as in `Tasks`.

    Where several calls carry an id, the one that began last before the kernel did; if none did, the first.
    """
    device = work.device
    correlation = work.kineto.correlation[device.event]
    call = calls.find(correlation)
    low = np.searchsorted(calls.key, correlation, side="left")
    many = np.flatnonzero((np.searchsorted(calls.key, correlation, side="right") - low > 1) & (call >= 0))
    if len(many):
        keys, lane = np.unique(calls.key, return_inverse=True)
        starts = work.host.start_ns[calls.call]
        here = np.searchsorted(keys, correlation[many])
        at = last_at(lane.astype(np.int32), starts, len(keys), here, device.start_ns[many])
        call[many] = calls.call[np.where(at >= 0, at, low[many])]
    known = call >= 0
    time = np.where(known, work.host.start_ns[call], device.start_ns) if len(work.host) else device.start_ns
    length = device.end_ns - device.start_ns
    work.counts.update(
        device_rows=len(device),
        device_ns=int(length.sum()),
        unlinked_device_rows=int((~known).sum()),
        unlinked_device_ns=int(length[~known].sum()),
        kernels_before_launch=int((device.start_ns < time).sum()),
        kernels_long_before_launch=int((device.start_ns < time - 1000).sum()),
        launches_with_equal_correlation=len(many),
        calls_with_several_kernels=_repeated(call[known]),
    )
    operator = _operators(work, nesting)
    asked = np.where(known & (asker[call] >= 0), asker[call], call) if len(asker) else call
    around = np.where(known, operator[asked], -1).astype(np.int32) if len(operator) else call
    return Launches(call, asked, around, time)


def _repeated(call: Indices) -> int:
    return int((np.unique(call, return_counts=True)[1] > 1).sum())


def _operators(work: LaneEvents, nesting: Nesting) -> Indices:
    """int32[h]: the innermost operator around each event of the host; an operator's own position for itself."""
    kind = work.host.kind
    found = np.arange(len(kind), dtype=np.int32)
    open_ = np.flatnonzero(kind == RowKind.RUNTIME)
    while len(open_):
        found[open_] = nesting.parent[found[open_]]
        open_ = open_[found[open_] >= 0]
        open_ = open_[kind[found[open_]] == RowKind.RUNTIME]
    return found
