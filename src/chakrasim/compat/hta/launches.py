"""HTA's launch statistics and aten operators' kernels (1.3.9, 1.3.10), figure for figure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.analysis.table.result import stack
from chakrasim.compat.hta.ranks import MTIA_LAUNCH, HtaRank, rounded, table_of
from chakrasim.compat.hta.result import HtaResult
from chakrasim.compat.hta.streams import join
from chakrasim.compat.hta.table import HtaFailure

_KERNELS: Final = ("cudaLaunchKernel", "cudaLaunchKernelExC")
_COPIES: Final = ("cudaMemsetAsync", "cudaMemcpyAsync")
_LAUNCH_NAME = re.compile(r"cuda.*LaunchKernel|cuLaunchKernel|runFunction")


def hta_launch_stats(ranks: Sequence[HtaRank], memory: bool = True) -> HtaResult:
    """Host and device time and delay of every launch by correlation; the pinned version's delay has the wrong sign."""
    parts = []
    for one in ranks:
        table = one.table
        names = (*_KERNELS, *((MTIA_LAUNCH,) if table.version == "new" else ()), *(_COPIES if memory else ()))
        wanted = np.isin(table.correlation, table.correlation[table.named(*names)])
        host, device = np.flatnonzero(wanted & (table.stream == -1)), np.flatnonzero(wanted & (table.stream != -1))
        left, right = join(table.correlation[host], table.correlation[device])
        call, work = host[left], device[right]
        took = table.dur[call]
        ahead = table.ts[work] - table.ts[call]
        delay = np.maximum(ahead - took, 0) if table.version == "new" else ahead + took
        parts.append((np.full(len(call), one.rank), table.correlation[call], took, table.dur[work], delay))
    names = ("rank", "correlation", "cpu_duration", "gpu_duration", "launch_delay")
    types = (np.int64, np.int64, None, None, None)
    return HtaResult(
        "launch", {name: stack([p[i] for p in parts], t) for i, (name, t) in enumerate(zip(names, types, strict=True))}
    )


def hta_launch_counts(stats: HtaResult, runtime_cutoff: int = 50, launch_delay_cutoff: int = 100) -> HtaResult:
    """By rank: launches, sums, and what HTA draws: short kernels, long calls, long delays."""
    data = stats.data
    rows = []
    for rank in np.unique(data["rank"]).tolist():
        mine = data["rank"] == rank
        host, device, delay = (data[name][mine] for name in ("cpu_duration", "gpu_duration", "launch_delay"))
        short = int(((host <= runtime_cutoff) & (device < host)).sum())
        outliers = int((host > runtime_cutoff).sum()), int((delay > launch_delay_cutoff).sum())
        sums = (float(column.sum()) for column in (data["correlation"][mine], host, device, delay))
        rows.append((rank, int(mine.sum()), *sums, short, *outliers))
    columns = (
        "rank",
        "n",
        "correlation",
        "cpu_duration",
        "gpu_duration",
        "launch_delay",
        "short",
        "runtime_outliers",
        "delay_outliers",
    )
    return table_of("launch_counts", columns, rows)


def hta_aten_operators(ranks: Sequence[HtaRank]) -> HtaResult:
    """The kernels of each aten operator: the one that started last around the launch, on whatever thread.

    Raises HtaFailure where a launch inside an operator has no kernel, or several.
    """
    rows: list[tuple[Any, ...]] = []
    for one in ranks:
        rows += [(one.rank, *row) for row in _operators_of(one)]
    columns = (
        "rank",
        "aten_op_name",
        "kernel_sequence",
        "occurrence_count",
        "avg_aten_op_launch_delay",
        "avg_runtime_delay",
    )
    return table_of("aten_op_kernels", columns, rows, ("aten_op_name", "kernel_sequence"))


def _operators_of(one: HtaRank) -> list[tuple[Any, ...]]:
    table = one.table
    names = one.names(np.arange(len(table)))
    operators = np.array([i for i, name in enumerate(names) if name.startswith("aten::")], np.int64)
    calls = np.array([i for i, name in enumerate(names) if _LAUNCH_NAME.match(name)], np.int64)
    holder = latest_around(*one.spans(operators), *one.spans(calls))
    calls, holder = calls[holder >= 0], operators[holder[holder >= 0]]
    if not len(calls):
        raise HtaFailure("KeyError", f"rank {one.rank} has no launches inside aten operators")
    left, right = join(table.row_index[calls], table.index_correlation[one.device])
    if len(left) != len(calls) or len(np.unique(left)) != len(calls):
        raise HtaFailure("ValueError", f"rank {one.rank}: a launch inside an operator has no kernel, or several")
    kernel = one.device[right]
    found: dict[tuple[int, str, Any], list[int]] = {}
    for i, (tid, op) in enumerate(zip(table.tid[holder].tolist(), holder.tolist(), strict=True)):
        found.setdefault((tid, names[op], table.ts[op].item()), []).append(i)
    groups: dict[tuple[str, str], list[tuple[Any, Any]]] = {}
    for (_, name, start), members in sorted(found.items()):
        sequence = " -> ".join(names[kernel[i]] for i in members)
        first = members[0]
        delays = table.ts[calls[first]].item() - start, (table.ts[kernel[first]] - table.ts[calls[first]]).item()
        groups.setdefault((name, sequence), []).append(delays)
    rows = [
        (*key, len(delays), *rounded(np.mean(delays, axis=0), 3).tolist()) for key, delays in sorted(groups.items())
    ]
    rows.sort(key=lambda row: -row[2])
    return rows


def latest_around(
    start: NDArray[Any], end: NDArray[Any], call_start: NDArray[Any], call_end: NDArray[Any]
) -> NDArray[np.int64]:
    """For each call the interval around it that started last (the first in file order of several), -1: none.

    Intervals need not nest: maxima of the ends over blocks of 2^k are searched from the largest block down.
    """
    count = len(start)
    result = np.full(len(call_start), -1, np.int64)
    if not count or not len(call_start):
        return result
    order = np.lexsort((-np.arange(count), start))
    levels = [end[order]]
    while (1 << len(levels)) <= count:
        below, step = levels[-1], 1 << (len(levels) - 1)
        levels.append(np.maximum(below[step:], below[:-step]))  # [i]: the 2^k ends from i on
    place = np.searchsorted(start[order], call_start, "right")  # candidates are before this position
    for k in range(len(levels) - 1, -1, -1):
        size = 1 << k
        low = place - size
        can = low >= 0
        skip = np.zeros(len(place), np.bool_)
        skip[can] = levels[k][low[can]] < call_end[can]
        place = np.where(skip, low, place)
    hit = place > 0
    result[hit] = order[place[hit] - 1]
    covered = np.zeros(len(place), np.bool_)
    covered[hit] = end[result[hit]] >= call_end[hit]
    return np.where(covered, result, -1)
