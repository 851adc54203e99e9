"""HTA's frequent kernel sequences (1.3.11), figure for figure: its call graph over all threads, without its loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.analysis.table.nesting import brackets_of
from chakrasim.analysis.table.sequence_groups import equal_sequences
from chakrasim.analysis.table.statistics import group_keys
from chakrasim.compat.hta.ranks import HtaRank, pandas_order, table_of
from chakrasim.compat.hta.result import HtaResult
from chakrasim.compat.hta.table import HtaFailure

_Ints = NDArray[np.int64]
_COLUMNS = ("pattern", "count", "GPU kernel duration (us)", "CPU op duration (us)")


@dataclass(frozen=True, eq=False)
class _Thread:
    """One thread of the call graph: its operators in the order of entering. ``at``: positions in the table."""

    at: _Ints
    depth: _Ints
    parent: _Ints
    end_of_family: _Ints


def hta_sequences(one: HtaRank, operator: str, min_pattern_len: int = 3) -> HtaResult:
    """Sequences of kernels below the shallowest operators whose name contains ``operator``. Raises HtaFailure."""
    threads = _threads(one)
    depth = _depths(one, threads)
    kernels, launcher = _kernels(one)
    matching = np.flatnonzero(np.isin(one.table.name, one.table.symbols_with(operator)))
    if not len(matching) or not operator:
        return HtaResult("sequences", {})
    depth[kernels] = depth[launcher] + 1  # a kernel stands below its launch
    shallow = depth[matching].min()
    roots = matching[depth[matching] == shallow]
    patterns = _below(one, threads, roots, kernels, launcher, min_pattern_len)
    return patterns if len(patterns) else HtaResult("sequences", {})


def _threads(one: HtaRank) -> list[_Thread]:
    """The call stacks of threads that are none of a device, in HTA's order."""
    table = one.table
    group, first = group_keys(table.pid, table.tid)
    threads = []
    order = np.argsort(group, kind="stable")
    stops = np.cumsum(np.bincount(group, minlength=len(first)))
    for begin, stop in zip([0, *stops[:-1].tolist()], stops.tolist(), strict=True):
        at = order[begin:stop]
        if np.all(table.stream[at] > 0) or np.all(table.pid[at] == 0) or np.all(table.tid[at] == 0):
            continue
        at = at[table.stream[at] == -1]
        threads.append(_stack(one, at))
    return threads


def _stack(one: HtaRank, at: _Ints) -> _Thread:
    """The nesting of one thread's events by HTA's comparison of their edges."""
    table = one.table
    start, length = table.ts[at], table.dur[at]
    index = table.row_index[at]
    end = start + length
    zero = length == 0
    if np.intersect1d(np.concatenate([start[length < 0], end[length < 0]]), start[zero]).size:
        raise HtaFailure("ValueError", "Unexpected case: an event of negative duration beside one of none")
    count = len(at)
    time = np.concatenate([start, end])
    side = np.concatenate([np.zeros(count, np.int8), np.ones(count, np.int8)])
    opened = np.unique(start[~zero])
    beside_start = np.isin(time, opened)
    empty = np.concatenate([zero, zero])
    # Ends, then starts; events of no length after starts of their time, or before ends if nothing starts.
    phase = np.where(empty, np.where(beside_start, 3, 0), np.where(side == 1, 1, 2))
    both = np.concatenate([length, length])
    size = np.where(empty, side, np.where(side == 1, both, -both))
    number = np.concatenate([index, -index])
    owner = np.concatenate([np.arange(count), np.arange(count)])
    order = np.lexsort((number, size, phase, time))
    nested = brackets_of(side[order] == 0, owner[order])
    return _Thread(at[nested.entered], nested.depth, nested.parent, nested.end_of_family)


def _depths(one: HtaRank, threads: list[_Thread]) -> _Ints:
    """The depth of each row in the call graph; -1 outside it. The backward thread hangs below the main one."""
    depth = np.full(len(one.table), -1, np.int64)
    for thread in threads:
        depth[thread.at] = thread.depth
    for thread, top, parent in _backward(one, threads):
        family = slice(top, int(thread.end_of_family[top]))
        depth[thread.at[family]] = thread.depth[family] + depth[parent] + 1
    return depth


def _backward(one: HtaRank, threads: list[_Thread]) -> list[tuple[_Thread, int, int]]:
    """Operators at the top of the backward thread, with the annotation (a row) of the main thread around them."""
    table = one.table
    labelled = []
    for thread in threads:
        names = {table.kineto.strings[symbol] for symbol in np.unique(table.name[thread.at]).tolist()}
        if any(name.startswith("ProfilerStep#") for name in names):
            labelled.append(("main", thread))
        elif any("autograd::" in name for name in names):
            labelled.append(("bwd", thread))
    if len(labelled) != 2:
        return []
    (_, backward), (_, main) = sorted(labelled, key=lambda pair: pair[0])
    found: list[tuple[_Thread, int, int]] = []
    for prefix in ("## backward ##", "ProfilerStep#"):
        texts = one.names(main.at)
        parents = [row for row, text in zip(main.at.tolist(), texts, strict=True) if text.startswith(prefix)]
        tops = np.flatnonzero(backward.depth == 0)
        start, end = one.spans(backward.at[tops])
        taken = np.zeros(len(tops), np.bool_)
        for row in parents:
            low, high = table.ts[row], table.ts[row] + table.dur[row]
            inside = ~taken & (start >= low) & (end <= high)
            taken |= inside
            found += [(backward, top, row) for top in tops[inside].tolist()]
        if parents:
            break
    return found


def _kernels(one: HtaRank) -> tuple[_Ints, _Ints]:
    """Kernels with a launching row, and that row: positions in the table."""
    table = one.table
    at = np.flatnonzero((table.stream > 0) & (table.index_correlation > 0))
    order = np.argsort(table.row_index, kind="stable")
    known = table.row_index[order]
    place = np.minimum(np.searchsorted(known, table.index_correlation[at]), max(len(known) - 1, 0))
    hit = known[place] == table.index_correlation[at]
    return at[hit], order[place[hit]]


def _below(
    one: HtaRank, threads: list[_Thread], roots: _Ints, kernels: _Ints, launcher: _Ints, least: int
) -> HtaResult:
    """The patterns of the kernels below each root."""
    table = one.table
    values: list[Any] = []
    labels: list[_Ints] = []
    rows: list[_Ints] = []
    for thread in threads:
        place = np.full(len(table), -1, np.int64)
        place[thread.at] = np.arange(len(thread.at))
        mine = place[launcher] >= 0
        here, kernel = place[launcher[mine]], kernels[mine]
        by_place = np.argsort(here, kind="stable")
        here, kernel = here[by_place], kernel[by_place]
        for root in place[roots][place[roots] >= 0].tolist():
            low, high = np.searchsorted(here, root, "left"), np.searchsorted(here, thread.end_of_family[root], "left")
            if high - low >= least:
                below = kernel[low:high]
                below = below[pandas_order(table.ts[below])]
                values.append(table.name[below].astype(np.int64))
                rows.append(below)
                labels.append(thread.at[root])
    if not labels:
        return HtaResult("sequences", {})
    root = np.array(labels, np.int64)
    offsets = np.append(0, np.cumsum([len(part) for part in values]))
    group, first = equal_sequences(np.concatenate(values), offsets, table.name[root].astype(np.int64))
    times = np.bincount(group)
    device = np.bincount(group, [table.dur[part].sum() for part in rows])
    host = np.bincount(group, table.dur[root])
    found = []
    for number, i in enumerate(first.tolist()):
        pattern = "|".join((*one.names(root[i : i + 1]), *one.names(rows[i])))
        found.append((pattern, int(times[number]), float(device[number]), float(host[number])))
    found.sort(key=lambda row: (-row[1], row[0]))
    return table_of("sequences", _COLUMNS, found, ("pattern",))
