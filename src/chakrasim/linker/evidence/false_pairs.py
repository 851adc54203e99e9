"""How many wrong pairs the reference linker would make of the same records, for comparison."""

from __future__ import annotations

import numpy as np

from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.linker.evidence.synchronisation import Waits
from chakrasim.trace.kineto.columns import Indices, Ints
from chakrasim.trace.linked.columns import RowKind


def count_false_pairs(work: LaneEvents, proven: Waits) -> None:
    """Count, as ``false_pairs_of_reference``, pairs (work of the device, host operator after the one that waited) that
    joining the two ends of each proven wait by External id yields beside the right one.

    In traces of old Kineto, calls and kernels carry their correlation as External id, which operators of other things
    bear by chance (trace-analysis.md, 1.4.14).
    """
    external = work.kineto.external_id
    call = external[work.host.event[proven.host.target]]
    source = external[work.device.event[proven.host.source]]
    use = (call >= 0) & (source >= 0) & (call != source)
    operators = work.host.kind == RowKind.OPERATOR
    ids, at = external[work.host.event[operators]], np.flatnonzero(operators)
    order = np.argsort(ids, kind="stable")
    ids, at = ids[order], at[order]
    low, high = np.searchsorted(ids, call[use], side="left"), np.searchsorted(ids, call[use], side="right")
    many = high - low
    operator = at[np.repeat(low, many) + np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)]
    waiting = np.repeat(proven.host.target[use], many)
    host = work.host
    around = (
        (host.lane[operator] == host.lane[waiting])
        & (host.start_ns[operator] <= host.start_ns[waiting])
        & (host.end_ns[operator] >= host.end_ns[waiting])
    )
    # The other end: of several events with its id, the reference takes the one that comes last.
    wrong_source = 0
    if use.any():
        last = _last_by_id(work, source[use])
        wrong_source = int((last != work.device.event[proven.host.source[use]]).sum())
    work.counts["false_pairs_of_reference"] = int((~around).sum()) + wrong_source


def _last_by_id(work: LaneEvents, ids: Ints) -> Indices:
    """The work of the device or host with each External id that starts last."""
    kineto = work.kineto
    rows = np.concatenate((work.host.event, work.device.event))
    rows = rows[np.lexsort((rows, kineto.ts_ns[rows], kineto.external_id[rows]))]
    at = np.searchsorted(kineto.external_id[rows], ids, side="right") - 1
    return rows[at]
