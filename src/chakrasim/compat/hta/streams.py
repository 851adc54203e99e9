"""HTA's idle causes, queue lengths and memory bandwidth (1.3.6 to 1.3.8), figure for figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.analysis.table.kernel_classes import MEMORY
from chakrasim.analysis.table.result import stack
from chakrasim.analysis.table.statistics import group_keys, group_statistics, in_order_of_appearance
from chakrasim.compat.hta.ranks import HtaRank, describe, pandas_order, rounded, table_of
from chakrasim.compat.hta.result import HtaResult
from chakrasim.compat.hta.table import HtaFailure

_WORK: Final = ("kernel", "Kernel", "gpu_memset", "Memset", "gpu_memcpy", "Memcpy", "mtia_ccp_events")
_CAUSES: Final = ("host_wait", "kernel_wait", "other")


def hta_idle(ranks: Sequence[HtaRank], kernel_delay_us: int = 30) -> tuple[HtaResult, HtaResult]:
    """Idle time by stream and cause, and statistics of the gaps. Streams in the order of appearance.

    A gap is the time since the end of the previous row of the stream, which may be negative. Raises HtaFailure.
    """
    parts = [_gaps(one, kernel_delay_us) for one in ranks]
    keys = [stack([part[i] for part in parts]) for i in range(4)]  # rank, place of the stream, cause, stream
    gap = np.concatenate([np.zeros(0), *(part[4] for part in parts)])
    group, first = group_keys(*keys[:3])
    counted = ~np.isnan(gap)
    found = group_statistics(gap[counted], group[counted], len(first))
    streams, _ = group_keys(keys[0][first], keys[1][first])
    total = np.bincount(streams, found.total)[streams] if len(first) else np.zeros(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = rounded(found.total / total, 2)
    rank, stream = keys[0][first], keys[3][first]
    cause = tuple(_CAUSES[code] for code in keys[2][first].tolist())
    table = HtaResult("idle", {"rank": rank, "stream": stream, "idle_category": cause,
                               "idle_time": rounded(found.total, 2), "idle_time_ratio": ratio})  # fmt: skip
    figures = {name: rounded(column, 2) for name, column in describe("", found).items()}
    stats = HtaResult("idle_stats", {"idle_category": cause, "rank": rank, "stream": stream, **figures})
    return table, stats


def _gaps(one: HtaRank, kernel_delay_us: int) -> tuple[NDArray[Any], ...]:
    """Rank, place of the stream, cause, stream and gap (NaN for the first row) of every device row."""
    table = one.table
    at = one.device
    if table.version == "new":  # the pinned version takes synchronisation for work
        at = at[table.in_category(*_WORK)[at]]
    if not len(at):
        raise HtaFailure("ValueError", f"rank {one.rank} has no kernels: no objects to concatenate")
    place, heads = in_order_of_appearance(*group_keys(table.stream[at]))
    by_stream = np.argsort(place, kind="stable")
    stops = np.cumsum(np.bincount(place, minlength=len(heads)))[:-1]
    order = np.concatenate([part[pandas_order(table.ts[at[part]])] for part in np.split(by_stream, stops)])
    at, place = at[order], place[order]
    start, end = one.spans(at)
    opens = np.append(True, place[1:] != place[:-1])
    before = np.where(opens, np.nan, np.roll(end, 1).astype(np.float64))
    called = _time_of_index(one, table.index_correlation[at])
    gap = start - before
    host = called > before
    cause = np.where(host, 0, np.where(gap < kernel_delay_us, 1, 2))
    return np.full(len(at), one.rank), place, cause, table.stream[at], gap


def _time_of_index(one: HtaRank, index: NDArray[np.int64]) -> NDArray[np.float64]:
    """The ts of the row with each index, NaN where there is none (index 0, "not found", is a row like others)."""
    order = np.argsort(one.table.row_index, kind="stable")
    known = one.table.row_index[order]
    at = np.minimum(np.searchsorted(known, index), len(known) - 1)
    return np.where(known[at] == index, one.table.ts[order[at]].astype(np.float64), np.nan)


@dataclass(frozen=True, eq=False)
class HtaQueue:
    """The queue lengths of one rank: points by stream and time."""

    rank: int
    stream: NDArray[np.int64]
    ts: NDArray[Any]
    length: NDArray[np.int64]
    index: NDArray[np.int64]
    trace_us: Any


def hta_queue(one: HtaRank) -> HtaQueue | None:
    """The queue of each stream over time , None without launches.

    Raises HtaFailure where launches and kernels are not one to one.
    """
    table = one.table
    calls = one.launching
    device = one.device[np.isin(table.correlation[one.device], table.correlation[calls])]
    left, right = join(table.correlation[calls], table.correlation[device])
    lonely = len(calls) - len(np.unique(left))
    if len(left) + lonely != len(device):
        raise HtaFailure("AssertionError", f"rank {one.rank}: {len(left) + lonely} launches, {len(device)} kernels")
    if not len(device):
        return None
    at = np.concatenate([calls[left], device])
    stream = np.concatenate([table.stream[device[right]], table.stream[device]])
    step = np.concatenate([np.ones(len(left), np.int64), np.full(len(device), -1)])
    order = pandas_order(table.ts[at])
    order = order[np.argsort(stream[order], kind="stable")]
    at, stream = at[order], stream[order]
    length = np.cumsum(step[order])
    opens = np.append(True, stream[1:] != stream[:-1])
    before = np.append(0, length[:-1])[opens]
    length = length - np.repeat(before, np.diff(np.append(np.flatnonzero(opens), len(stream))))
    whole = table.ts.max() - table.ts.min()
    return HtaQueue(one.rank, stream, table.ts[at], length, table.row_index[at], whole)


def join(left: NDArray[np.int64], right: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of equal values: every pair, in the order of ``left``, then of ``right``."""
    order = np.argsort(right, kind="stable")
    low, high = (np.searchsorted(right[order], left, side) for side in ("left", "right"))
    count = high - low
    if count.sum() > 50_000_000:
        raise HtaFailure("MemoryError", f"a join of {int(count.sum()):,} rows")
    a = np.repeat(np.arange(len(left)), count)
    place = np.arange(len(a)) - np.repeat(np.cumsum(count) - count, count)
    return a, order[np.repeat(low, count) + place]


def hta_queue_series(ranks: Sequence[HtaRank]) -> HtaResult:
    """The queue lengths of all ranks."""
    found = [queue for queue in map(hta_queue, ranks) if queue is not None]
    columns = {"rank": stack([np.full(len(q.ts), q.rank) for q in found])}
    for name, attribute in (("stream", "stream"), ("ts", "ts"), ("queue_length", "length"), ("index", "index")):
        columns[name] = stack([getattr(q, attribute) for q in found], None if name == "ts" else np.int64)
    return HtaResult("queue_length_time_series", columns)


def hta_queue_summary(ranks: Sequence[HtaRank]) -> HtaResult | None:
    """Statistics of the points (not of time) by stream; None without launches."""
    series = hta_queue_series(ranks).data
    if not len(series["rank"]):
        return None
    group, first = group_keys(series["rank"], series["stream"])
    found = describe("queue_length_", group_statistics(series["queue_length"], group, len(first)))
    return HtaResult(
        "queue_length_summary", {"rank": series["rank"][first], "stream": series["stream"][first], **found}
    )


def hta_blocked(ranks: Sequence[HtaRank], max_queue_length: int = 1024) -> HtaResult:
    """Time with a full queue; of a rank's streams only the last that is ever full, as HTA keeps it."""
    rows = []
    for queue in map(hta_queue, ranks):
        last = None
        for stream in np.unique(queue.stream).tolist() if queue is not None else ():
            assert queue is not None
            at = np.flatnonzero(queue.stream == stream)
            full = queue.length[at[:-1]] >= max_queue_length
            if full.any() or queue.length[at[-1]] >= max_queue_length:
                time = np.diff(queue.ts[at])[full].sum()
                last = (queue.rank, stream, float(time), time / queue.trace_us if queue.trace_us else np.nan)
        if last is not None:
            rows.append(last)
    columns = ("rank", "stream", "duration_at_max_queue_length", "relative_duration_at_max_queue_length")
    return table_of("blocked", columns, rows)


def hta_bandwidth_series(ranks: Sequence[HtaRank]) -> HtaResult:
    """The rate of each kind of copy over time, as the profiler noted it (GB/s)."""
    rows: list[tuple[Any, ...]] = []
    for one in ranks:
        at = one.of_kind(MEMORY)
        rate = one.table.kineto.rare_column("memory bandwidth (GB/s)").reals(len(one.table.kineto))[one.table.row[at]]
        start = one.table.ts[at]
        length = one.table.dur[at]
        ts = np.concatenate([start, start + np.where(length == 0, 1, length)])
        kind = np.array([_copy_type(name) for name in one.names(at)] * 2, np.str_)
        change, pid = np.concatenate([rate, -rate]), np.tile(one.table.pid[at], 2)
        order = pandas_order(ts)
        for name in sorted(set(kind.tolist())):
            mine = order[kind[order] == name]
            running = np.cumsum(change[mine])
            rows += zip(
                [one.rank] * len(mine),
                ts[mine].tolist(),
                pid[mine].tolist(),
                [name] * len(mine),
                running.tolist(),
                strict=True,
            )
    return table_of("memory_bw_time_series", ("rank", "ts", "pid", "name", "memory_bw_gbps"), rows, ("name",))


def _copy_type(name: str) -> str:
    if name.startswith("Memset"):
        return "Memset"
    return name[:11] if name.startswith("Memcpy") else "Memcpy Unknown"


def hta_bandwidth_summary(ranks: Sequence[HtaRank]) -> HtaResult | None:
    """Statistics of the positive points (not of time) by kind; None where no rank copies."""
    series = hta_bandwidth_series(ranks).data
    if not len(series["rank"]):
        return None
    positive = np.flatnonzero(series["memory_bw_gbps"] > 0)
    names = [series["name"][i] for i in positive.tolist()]
    distinct = sorted(set(names))
    code = np.array([distinct.index(name) for name in names], np.int64)
    rank = series["rank"][positive].astype(np.int64)
    group, first = group_keys(rank, code)
    found = describe("memory_bw_gbps_", group_statistics(series["memory_bw_gbps"][positive], group, len(first)))
    return HtaResult(
        "memory_bw_summary", {"rank": rank[first], "name": tuple(distinct[i] for i in code[first].tolist()), **found}
    )
