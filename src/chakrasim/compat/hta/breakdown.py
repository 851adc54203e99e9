"""HTA's temporal breakdown, kernel breakdown, overlap, annotations (1.3.1 to 1.3.5), figure for figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.analysis.table.kernel_classes import COMMUNICATION, COMPUTE, MEMORY
from chakrasim.analysis.table.statistics import group_keys, group_statistics
from chakrasim.compat.hta.ranks import HtaRank, pandas_order, rounded, table_of
from chakrasim.compat.hta.result import HtaResult
from chakrasim.compat.hta.table import DEVICE_NAMES, HtaFailure
from chakrasim.trace.intervals import Union, merge, states

_KINDS: Final = {COMPUTE: "COMPUTATION", COMMUNICATION: "COMMUNICATION", MEMORY: "MEMORY"}
_FIGURES: Final = ("sum (us)", "max (us)", "min (us)", "stddev", "mean (us)")
#: HTA's defaults: how many annotations it names at most, and how far the sums of what it names reach.
_MOST_ANNOTATIONS: Final = 1000
_SHARE_NAMED: Final = 0.8


def hta_temporal(ranks: Sequence[HtaRank]) -> HtaResult:
    """Idle, compute and other time between the first and the last device row. Raises HtaFailure."""
    rows = []
    for one in ranks:
        busy = merge(*one.spans(one.device))
        if not len(busy):
            raise HtaFailure("IndexError", f"rank {one.rank} has no device rows")
        whole = busy.end[-1] - busy.start[0]
        idle = whole - _length(busy)
        compute = _length(merge(*one.spans(one.of_kind(COMPUTE))))
        other = whole - compute - idle
        if idle > whole or compute > whole or other < 0:
            raise HtaFailure("AssertionError", f"the parts of rank {one.rank} do not add up")
        rows.append((one.rank, *(float(part) for part in (idle, compute, other, whole))))
    columns = ("rank", "idle_time(us)", "compute_time(us)", "non_compute_time(us)", "kernel_time(us)")
    found = table_of("temporal", columns, rows)
    whole = found.data["kernel_time(us)"]
    for name in ("idle_time", "compute_time", "non_compute_time"):
        with np.errstate(divide="ignore", invalid="ignore"):
            found.data[f"{name}_pctg"] = rounded(100 * (found.data[f"{name}(us)"] / whole), 2)
    return found


def _length(union: Union) -> Any:
    return (union.end - union.start).sum() if len(union) else 0


def hta_overlap(ranks: Sequence[HtaRank]) -> HtaResult:
    """Overlap of communication with computation, in percent of communication; None where there is none."""
    rows = []
    for one in ranks:
        comm, compute = (merge(*one.spans(one.of_kind(kind))) for kind in (COMMUNICATION, COMPUTE))
        time, state = states([comm, compute])
        both = np.diff(time)[state[:-1] == 3].sum() if len(time) else 0
        whole = _length(comm)
        rows.append((one.rank, 100 * (both / whole) if whole else np.nan))
    found = table_of("overlap", ("rank", "comp_comm_overlap_pctg"), rows)
    found.data["comp_comm_overlap_pctg"] = rounded(found.data["comp_comm_overlap_pctg"], 2)
    return found


def hta_kernel_types(ranks: Sequence[HtaRank]) -> HtaResult:
    """Time in each combination of classes over all ranks."""
    spent: dict[str, Any] = {}
    for one in ranks:
        time, state = states([merge(*one.spans(one.of_kind(kind))) for kind in _KINDS])
        for running in np.unique(state[state > 0]).tolist():
            name = " overlapping ".join(kind for bit, kind in enumerate(_KINDS.values()) if running >> bit & 1)
            here = np.flatnonzero(state[:-1] == running)
            spent[name] = spent.get(name, 0) + int((time[here + 1] - time[here]).sum())
    rows = sorted(sorted(spent.items()), key=lambda item: -item[1])
    found = table_of("kernel_type", ("kernel_type", "sum"), rows, ("kernel_type",))
    total = sum(spent.values())
    share = [time / total * 100 if total else np.nan for _, time in rows]
    found.data["percentage"] = rounded(share, 1)
    return found


def hta_kernels(ranks: Sequence[HtaRank], num_kernels: int = 10) -> HtaResult:
    """The kernels by name; of more than ``num_kernels`` in a class of a rank, statistics are those of sums."""
    rows: list[tuple[Any, ...]] = []
    for one in ranks:
        for kind, name in _KINDS.items():
            rows += [(*row, name, one.rank) for row in _by_name(one, one.of_kind(kind), num_kernels)]
    rows.sort(key=lambda row: (row[6], row[0], row[7]))
    return table_of("kernel", ("name", *_FIGURES, "kernel_type", "rank"), rows, ("name", "kernel_type"))


def hta_annotations(ranks: Sequence[HtaRank], device: bool = True) -> HtaResult | None:
    """Annotations by name; None where no rank has any."""
    category = "gpu_user_annotation" if device else "user_annotation"
    if not any(one.table.has_symbol(category) for one in ranks):
        return None
    rows: list[tuple[Any, ...]] = []
    for one in ranks:
        at = np.flatnonzero(one.table.in_category(category))
        rows += [(*row, one.rank) for row in _by_name(one, at, _MOST_ANNOTATIONS)]
    rows.sort(key=lambda row: (row[6], row[0]))
    name = "gpu_annotations" if device else "cpu_annotations"
    return table_of(name, ("name", *_FIGURES, "rank"), rows, ("name",))


def _by_name(one: HtaRank, at: NDArray[np.int64], most: int) -> list[tuple[Any, ...]]:
    """Name, sum, max, min, deviation and mean; the rest of more than ``most`` names as "others"."""
    names = one.names(at)
    distinct = sorted(set(names))
    code = {name: i for i, name in enumerate(distinct)}
    group = np.array([code[name] for name in names], np.int64)
    found = group_statistics(one.table.dur[at], group, len(distinct))
    order = pandas_order(found.total, ascending=False)
    labels = [distinct[i] for i in order.tolist()]
    sums = found.total[order]
    if len(labels) > most:
        reach = np.cumsum(sums)
        limit = np.quantile(reach, _SHARE_NAMED)
        for i in range(len(labels)):
            if reach[i] > limit or i >= most:
                labels[i] = "others"
        distinct = sorted(set(labels))
        code = {name: i for i, name in enumerate(distinct)}
        found = group_statistics(sums, np.array([code[name] for name in labels], np.int64), len(distinct))
        order, labels = np.arange(len(distinct)), distinct
    deviation = np.nan_to_num(found.std)
    columns = [
        column[order].astype(np.float64).tolist()
        for column in (found.total, found.most, found.least, deviation, found.mean)
    ]
    return list(zip(labels, *columns, strict=True))


def hta_labelled_kernels(ranks: Sequence[HtaRank]) -> HtaResult | None:
    """Device rows with the shortest annotation of their lane that they overlap; None where no rank has any.

    HTA writes labels by interval, so rows of equal times on any lane get one label; rows of no length stay without.
    """
    if not any(one.table.has_symbol("gpu_user_annotation") for one in ranks):
        return None
    rows: list[tuple[Any, ...]] = []
    for one in ranks:
        table = one.table
        at = np.flatnonzero(((table.stream >= 0) & (table.correlation >= 0)) | table.named(*DEVICE_NAMES))
        label = _labels(one, at)
        names, labels = one.names(at), one.names(np.maximum(label, 0))
        for i, row in enumerate(at.tolist()):
            text = labels[i] if label[i] >= 0 else ""
            rows.append((one.rank, int(table.row_index[row]), names[i], text))
    return table_of("gpu_kernels_with_user_annotations", ("rank", "index", "name", "user_annotation"), rows,
                    ("name", "user_annotation"))  # fmt: skip


def _labels(one: HtaRank, at: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row of the annotation of each row in ``at``, -1: none."""
    table = one.table
    marks = np.flatnonzero(table.in_category("gpu_user_annotation"))
    marks = marks[pandas_order(table.dur[marks], ascending=False)]
    start, end = one.spans(at)
    interval, first = group_keys(start, end)
    label = np.full(len(first), -1, np.int64)
    lanes, _ = group_keys(table.pid[np.concatenate([at, marks])], table.tid[np.concatenate([at, marks])])
    order = np.lexsort((start, lanes[: len(at)]))
    by_lane = lanes[: len(at)][order]
    longest = (end - start).max(initial=0)
    for mark, lane in zip(marks.tolist(), lanes[len(at) :].tolist(), strict=True):
        low, high = table.ts[mark], table.ts[mark] + table.dur[mark]
        begin, stop = np.searchsorted(by_lane, lane, "left"), np.searchsorted(by_lane, lane, "right")
        mine = order[begin:stop]
        near = mine[np.searchsorted(start[mine], low - longest, "left") : np.searchsorted(start[mine], high, "left")]
        near = near[(end[near] > low) & (end[near] > start[near])]
        label[interval[near]] = mark
    return label[interval]
