"""Timelines of whole jobs in Chrome's format: veScale's ndtimeline, and dPRO's of BytePS and Horovod.

ndtimeline (``LocalTimelineNDHandler``): category and name of an event are its metric (``forward-compute``,
``tp-allreduce``, ...), the process is the replica, the thread 10 times the rank and a lane. dPRO (its docs/format.md):
names ``FW.x``, ``BW.x``, ``UPDATE_x`` of the category ``operator``, ``Comm.x`` of others, the process ``host.rank``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.notes import Notes
from chakrasim.trace.kineto import columns as k
from chakrasim.trace.kineto.columns import Ints, KinetoTrace
from chakrasim.trace.kineto.only_work import enclosing

NDTIMELINE: Final = "veScale job timeline (ndtimeline)"
DPRO: Final = "dPRO job timeline (BytePS, Horovod)"
_METRICS: Final = frozenset(("forward-compute", "backward-compute"))
_LANES: Final = 10
KERNEL, SPAN = "kernel", "gpu_user_annotation"


def kind_of_timeline(trace: KinetoTrace) -> str:
    """NDTIMELINE, DPRO, or "" for traces of one process."""
    used = np.flatnonzero(np.bincount(trace.category, minlength=1)).tolist()
    categories = {trace.strings[index] for index in used if index}
    if _METRICS & categories and not categories & {"cpu_op", KERNEL}:
        return NDTIMELINE
    if "operator" not in categories:
        return ""
    names = np.unique(trace.name[trace.where(trace.category, "operator")]).tolist()
    return DPRO if any(trace.strings[name].startswith(("FW.", "BW.")) for name in names) else ""


def sorted_out(trace: KinetoTrace, kind: str, notes: Notes) -> KinetoTrace:
    """The trace with every timed event as work of a device for each rank, and a stream for each of its lanes.

    An event with others of its lane inside names these. Ranks of dPRO are numbered in the order of the file.
    """
    timed = (trace.phase == ord("X")) & trace.has(k.HAS_DUR) & trace.has(k.HAS_TS) & trace.has(k.HAS_CATEGORY)
    device, stream = np.full((2, len(trace)), -1, np.int64)
    if kind == NDTIMELINE:
        timed &= trace.tid >= 0
        device[timed], stream[timed] = np.divmod(trace.tid[timed], _LANES)
    else:
        device[timed], stream[timed] = _numbered(trace.pid[timed]), _numbered(trace.tid[timed])
    timed &= device <= np.iinfo(np.int32).max
    category = trace.category.copy()
    category[timed] = len(trace.strings)
    rows = np.flatnonzero(timed)
    around = enclosing(trace.ts_ns[rows], trace.dur_ns[rows], device[rows] * (1 << 20) + stream[rows])
    category[rows[around]] = len(trace.strings) + 1
    ranks = len(np.unique(device[timed]))
    notes.note(f"{trace.source}: a {kind} of {ranks} ranks: each is a device of one trace, its lanes are streams")
    return replace(
        trace, strings=trace.strings.and_more([KERNEL.encode(), SPAN.encode()]), category=category,
        device=np.where(timed, device, trace.device).astype(np.int32), stream=np.where(timed, stream, trace.stream),
        header={**trace.header, "format": kind},
    )  # fmt: skip


def _numbered(column: Ints) -> NDArray[np.intp]:
    """The place of each value among the different ones, in the order in which they come."""
    _, first, at = np.unique(column, return_index=True, return_inverse=True)
    place: NDArray[np.intp] = np.argsort(np.argsort(first))[at]
    return place
