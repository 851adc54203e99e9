"""Some rows of a Kineto trace: its work alone; what was open at a moment; what has others inside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.trace.kineto.columns import COLUMNS, HAS_CATEGORY, HAS_DUR, Ints, KinetoTrace, Mask, RareColumn

_MOST_STEPS = 64
"""So many events that have ended are passed over to find one that is open."""


def only_work(kineto: KinetoTrace) -> KinetoTrace:
    """The rows that ``read_kineto(keep="work")`` keeps."""
    kept = kineto.has(HAS_DUR) & kineto.has(HAS_CATEGORY)
    kept &= ~kineto.where(kineto.category, "python_function")
    if kept.all():
        return kineto
    columns: dict[str, Any] = {name: getattr(kineto, name)[kept] for name in COLUMNS}
    place = np.cumsum(kept, dtype=np.int32) - 1
    rare = {}
    for name, column in kineto.rare.items():
        some = kept[column.rows]
        if some.any():
            rare[name] = RareColumn(place[column.rows[some]], column.kind[some], column.bits[some])
    return replace(kineto, rare=rare, **columns)


def last_begun(
    kineto: KinetoTrace, rows: NDArray[np.intp], moments: NDArray[np.intp], by_thread: bool = False
) -> NDArray[np.intp]:
    """int[m]: of ``rows``, the one that is open at the begin of each of the rows ``moments`` on its thread, the last to
    begin if there are several; -1: none. ``by_thread``: whatever the process."""
    both = np.concatenate((rows, moments))
    asks = np.arange(len(both)) >= len(rows)
    time, thread = kineto.ts_ns[both], kineto.tid[both]
    process = np.zeros(len(both), np.int64) if by_thread else kineto.pid[both]
    end = np.where(asks, -1, time + kineto.dur_ns[both])
    order = np.lexsort((-end, asks, time, thread, process))
    place = np.where(asks[order], -1, np.arange(len(both)))
    last = np.maximum.accumulate(place)
    found = np.full(len(moments), -1, np.intp)
    open_ = np.flatnonzero(asks[order])
    at = last[open_]
    for _ in range(_MOST_STEPS):
        if not len(open_):
            break
        same = at >= 0
        same[same] = (process[order[at[same]]] == process[order[open_[same]]]) & (
            thread[order[at[same]]] == thread[order[open_[same]]]
        )
        open_, at = open_[same], at[same]
        holds = end[order[at]] >= time[order[open_]]
        found[order[open_[holds]] - len(rows)] = both[order[at[holds]]]
        open_, at = open_[~holds], at[~holds] - 1
        at = np.where(at >= 0, last[at], -1)
    return found


def enclosing(start: Ints, duration: Ints, line: Ints) -> Mask:
    """bool[n]: events of a line with others of it inside, such as loops and calls, whose time is that of the others."""
    found = np.zeros(len(line), np.bool_)
    some = np.flatnonzero(duration > 0)
    order = some[np.lexsort((-duration[some], start[some], line[some]))]
    begin, end = start[order], start[order] + duration[order]
    inside = (line[order][1:] == line[order][:-1]) & (begin[1:] < end[:-1]) & (end[1:] <= end[:-1])
    found[order[:-1][inside]] = True
    return found
