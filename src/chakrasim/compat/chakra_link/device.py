"""The device trace as the reference linker sees it: classes, times in float microseconds, own times, marks, parents."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.compat.chakra_link.crash import crash
from chakrasim.compat.chakra_link.kernels import exclusive_durations
from chakrasim.trace.kineto.columns import (
    DUR_IS_FLOAT,
    REAL,
    TEXT,
    TID_IS_TEXT,
    TS_IS_FLOAT,
    Ints,
    KinetoTrace,
    RareColumn,
)

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: Calls that the reference linker knows to launch work.
LAUNCHES: Final = (
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cudaMemcpy",
    "cudaMemcpyAsync",
    "cudaMemcpyFromSymbol",
    "cudaMemcpyToSymbol",
    "cudaLaunchCooperativeKernel",
    "hipLaunchKernel",
    "hipExtLaunchKernel",
    "hipExtModuleLaunchKernel",
    "hipModuleLaunchKernel",
    "hipMemcpyWithStream",
    "hipMemcpyAsync",
)
#: A pause longer than this before an operator makes it the first of a group, microseconds.
THRESHOLD_US: Final = 1000
_EXACT: Final = 1 << 53


@dataclass(frozen=True, eq=False)
class DeviceSide:
    """The events of a device trace, ``n`` rows in file order, ``c`` CPU operators and ``g`` GPU operators by time.

    Attributes
    ----------
    trace: the columns.
    ts, duration: float64[n], microseconds as Python's json reads them.
    order: int64[n], all rows by time, equal times in file order.
    cpu, gpu: int64[c], int64[g], rows by time.
    thread: int64[n], number of the event's thread (tid), in order of first appearance in time.
    exclusive: float64[c], microseconds; exclusive_is_float bool[c].
    mark: int64[c], record-function id of the operator that this one's thread waited for, 0 where none.
    parent: int64[g], External id of the CPU operator that launched it; where ``has_parent`` (bool[g]).
    orphans: number of GPU operators without one.
    """

    trace: KinetoTrace
    ts: Floats
    duration: Floats
    order: Ints
    cpu: Ints
    gpu: Ints
    thread: Ints
    exclusive: Floats
    exclusive_is_float: Bools
    mark: Ints
    parent: Ints
    has_parent: Bools

    @property
    def orphans(self) -> int:
        """How many GPU operators are lost because nothing is known to have launched them."""
        return int(np.count_nonzero(~self.has_parent))


def read_device_side(trace: KinetoTrace) -> DeviceSide:
    """Sorts and classes the events, and computes what the reference linker derives from them alone.

    Raises InputError where the reference linker would stop.
    """
    ts = microseconds(trace.ts_ns, trace.rare_column("ts text"), trace)
    duration = microseconds(trace.dur_ns, trace.rare_column("dur text"), trace)
    order = np.argsort(ts, kind="stable")
    category, name = trace.category[order], trace.name[order]
    steps = names_with(trace, name[trace.where(category, "cpu_op", "user_annotation")], "ProfilerStep")
    cpu = order[trace.where(category, "cpu_op", "user_annotation") & ~np.isin(name, steps)]
    launch = order[trace.where(category, "cuda_runtime", "cuda_driver") & trace.where(name, *LAUNCHES)]
    gpu = order[trace.where(category, "kernel", "gpu_memcpy")]
    _check_arrows(trace)
    thread = _threads(trace, order)
    exclusive, exclusive_is_float = _exclusive(trace, ts, duration, cpu, thread)
    parent, has_parent = _parents(trace, ts, order, cpu, launch, gpu, thread)
    return DeviceSide(
        trace=trace,
        ts=ts,
        duration=duration,
        order=order,
        cpu=cpu,
        gpu=gpu,
        thread=thread,
        exclusive=exclusive,
        exclusive_is_float=exclusive_is_float,
        mark=_marks(trace, ts, duration, cpu, thread),
        parent=parent,
        has_parent=has_parent,
    )


def microseconds(ns: Ints, exact: RareColumn, trace: KinetoTrace) -> Floats:
    """float64[n]: the floats that Python's json reads for these times, ``exact`` holding longer texts."""
    whole, rest = np.divmod(ns, 1000)
    result = np.where(np.abs(ns) < _EXACT, ns / 1000.0, whole + rest / 1000.0)
    for row, kind, bits in zip(exact.rows.tolist(), exact.kind.tolist(), exact.bits.tolist(), strict=True):
        if kind == TEXT:
            result[row] = float(trace.strings[bits])
        elif kind == REAL:
            result[row] = np.int64(bits).view(np.float64)
    return result


def names_with(trace: KinetoTrace, names: NDArray[np.int32], part: str) -> NDArray[np.int32]:
    """The string indices among ``names`` whose text contains ``part``."""
    raw = part.encode()
    used = np.unique(names)
    return used[np.array([raw in trace.strings.raw(index) for index in used.tolist()], np.bool_)]


def _check_arrows(trace: KinetoTrace) -> None:
    """The reference linker looks at the flow arrows of launches only to stop at unusual ones."""
    arrows = np.flatnonzero(trace.where(trace.category, "ac2g"))
    wrong = ~np.isin(trace.phase[arrows], (ord("s"), ord("f")))
    nameless = ~np.isin(arrows, trace.rare_column("id").rows)
    faults = np.flatnonzero(wrong | nameless)
    if len(faults):
        row = int(arrows[faults[0]])
        kind, text = ("AssertionError", "a phase other than s or f") if wrong[faults[0]] else ("KeyError", "no id")
        raise crash(f"an ac2g event has {text}", kind, file=trace.source, place=_place(trace, row))


def _threads(trace: KinetoTrace, order: Ints) -> Ints:
    """int64[n]: number of each event's tid, counted in order of first appearance; text is never equal to a number."""
    keys = np.stack((trace.tid, trace.has(TID_IS_TEXT).astype(np.int64)))[:, order]
    _, first, inverse = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    thread = np.empty(len(order), np.int64)
    thread[order] = rank[inverse.reshape(-1)]
    return thread


def _exclusive(trace: KinetoTrace, ts: Floats, duration: Floats, cpu: Ints, thread: Ints) -> tuple[Floats, Bools]:
    owner = thread[cpu]
    by_thread = np.lexsort((duration[cpu], ts[cpu], owner))
    rows = cpu[by_thread]
    group = np.append(np.flatnonzero(np.diff(owner[by_thread], prepend=-1)), len(rows)).astype(np.int64)
    start, length = ts[rows], duration[rows]
    ts_float, dur_float = trace.has(TS_IS_FLOAT)[rows], trace.has(DUR_IS_FLOAT)[rows]
    kinds = ts_float * 1 + (ts_float | dur_float) * 2 + dur_float * 4
    result, is_float = np.empty(len(rows)), np.empty(len(rows), np.int64)
    scratch = np.empty((2, len(rows)), np.int64)
    fault = exclusive_durations(start, start + length, length, kinds, group, scratch[0], scratch[1], result, is_float)
    if fault >= 0:
        raise crash(
            "the exclusive duration of an operator is negative",
            "ValueError",
            file=trace.source,
            place=_place(trace, int(rows[fault])),
            found=f"{float(result[fault])} us",
        )
    exclusive, exclusive_is_float = np.empty(len(rows)), np.empty(len(rows), np.bool_)
    exclusive[by_thread] = result
    exclusive_is_float[by_thread] = is_float
    return exclusive, exclusive_is_float


def _marks(trace: KinetoTrace, ts: Floats, duration: Floats, cpu: Ints, thread: Ints) -> Ints:
    """int64[c]: see `DeviceSide.mark` (chakra-toolchain.md, 3.6)."""
    count = len(cpu)
    if not count:
        return np.zeros(0, np.int64)
    owner = _ranks(thread[cpu])
    by_thread = np.argsort(owner, kind="stable")
    rows, owners = cpu[by_thread], owner[by_thread]
    opens = np.ones(count, np.bool_)
    opens[1:] = (owners[1:] != owners[:-1]) | ((ts[rows[1:]] - ts[rows[:-1]]) - duration[rows[:-1]] > THRESHOLD_US)
    marks = np.zeros(count, np.int64)
    heads = np.flatnonzero(opens)
    candidate = _latest_elsewhere(ts[cpu], owner, by_thread[heads])
    rf_id = np.maximum(trace.rf_id[cpu], 0)
    known = candidate >= 0
    known[known] = ts[cpu[candidate[known]]] > 0
    found = np.where(known, rf_id[np.maximum(candidate, 0)], 0)
    marks[by_thread] = np.repeat(found, np.diff(np.append(heads, count)))
    return marks


def _ranks(thread: Ints) -> Ints:
    """Thread numbers again counted in order of first appearance, among these alone."""
    _, first, inverse = np.unique(thread, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def _latest_elsewhere(time: Floats, owner: Ints, wanted: Ints) -> Ints:
    """For each operator of ``wanted`` (positions in time order) the one of another thread that started last before it.

    Of equal starts the one of the thread of lowest number counts, then the first; -1 where there is none.
    """
    # In the order (time, thread) a run of one thread at one time can be passed in one step, either way.
    sort = np.lexsort((owner, time))
    owners, times = owner[sort], time[sort]
    count = len(sort)
    change = np.flatnonzero(owners[1:] != owners[:-1]) + 1
    before = np.searchsorted(change, np.arange(count), side="right")
    bounds = np.concatenate(([0], change, [count]))
    run_begin, run_end = bounds[before], bounds[before + 1]
    last = np.searchsorted(times, time[wanted], side="left") - 1
    own = (last >= 0) & (owners[np.maximum(last, 0)] == owner[wanted])
    last = np.where(own, run_begin[np.maximum(last, 0)] - 1, last)
    at = np.maximum(last, 0)
    first = np.searchsorted(times, times[at], side="left")
    first = np.where(owners[first] == owner[wanted], run_end[first], first)
    return np.where(last >= 0, sort[np.minimum(first, count - 1)], -1)


def _parents(
    trace: KinetoTrace, ts: Floats, order: Ints, cpu: Ints, launch: Ints, gpu: Ints, thread: Ints
) -> tuple[Ints, Bools]:
    """int64[g], bool[g]: see `DeviceSide.parent` (chakra-toolchain.md, 3.9 and 3.10)."""
    caller = _launchers(trace, launch, gpu)
    found = np.flatnonzero(caller >= 0)
    call = caller[found]
    rows = _with_annotations(trace, ts, order, cpu, thread)
    time, external, owner = rows
    position = np.searchsorted(time, ts[call], side="left")
    collective = np.isin(trace.name[gpu[found]], _nccl_names(trace, gpu[found]))
    coalesced = np.zeros(len(time), np.bool_)
    coalesced[owner[:, 1] >= 0] = trace.name[owner[owner[:, 1] >= 0, 1]] == trace.find("nccl:coalesced")
    parent = np.full(len(gpu), -1, np.int64)
    has_parent = np.zeros(len(gpu), np.bool_)
    for chosen, usable in ((~collective, np.arange(len(time))), (collective, np.flatnonzero(~coalesced))):
        if not chosen.any():
            continue
        limit = np.searchsorted(usable, position[chosen], side="left")
        tid, wanted = thread[call[chosen]], trace.external_id[gpu[found[chosen]]]
        at = _latest((owner[usable, 0], external[usable]), (tid, wanted), limit)
        any_of_thread = _latest((owner[usable, 0],), (tid,), limit)
        at = np.where(at >= 0, at, any_of_thread)
        has_parent[found[chosen]] = at >= 0
        parent[found[chosen]] = external[usable[np.maximum(at, 0)]]
    return parent, has_parent


def _launchers(trace: KinetoTrace, launch: Ints, gpu: Ints) -> Ints:
    """int64[g]: row of the call with the same correlation, -1 where none."""
    if not len(launch):
        return np.full(len(gpu), -1, np.int64)
    keys = trace.correlation[launch]
    sort = np.argsort(keys, kind="stable")
    twice = np.flatnonzero(keys[sort][1:] == keys[sort][:-1])
    if len(twice):
        row = int(launch[np.sort(sort[twice + 1])[0]])
        raise crash(
            "two launches have the same correlation id",
            "ValueError",
            file=trace.source,
            place=_place(trace, row),
            found=int(trace.correlation[row]),
        )
    wanted = trace.correlation[gpu]
    at = np.minimum(np.searchsorted(keys[sort], wanted), len(keys) - 1)
    return np.where(keys[sort][at] == wanted, launch[sort[at]], -1)


def _nccl_names(trace: KinetoTrace, gpu: Ints) -> NDArray[np.int32]:
    used = np.unique(trace.name[gpu])
    return used[np.array([b"nccl" in trace.strings.raw(index).lower() for index in used.tolist()], np.bool_)]


def _with_annotations(
    trace: KinetoTrace, ts: Floats, order: Ints, cpu: Ints, thread: Ints
) -> tuple[Floats, Ints, NDArray[np.int64]]:
    """The CPU operators and one made event for the process and for each thread, by time: (time, External id, [thread,
    row or -1]). The made events carry tid 0 and no External id."""
    count = len(cpu)
    zero = np.flatnonzero((trace.tid == 0) & ~trace.has(TID_IS_TEXT))
    thread_zero = int(thread[zero[0]]) if len(zero) else -2
    if not count and not len(order):
        return np.zeros(0), np.zeros(0, np.int64), np.zeros((0, 2), np.int64)
    threads = int(thread.max()) + 1
    starts = np.full(threads, np.inf)
    np.minimum.at(starts, thread, ts)
    first = np.full(threads, count, np.int64)
    np.minimum.at(first, thread[cpu], np.arange(count))
    # Position in the list of CPU operators before which each made event goes; the process is first of all.
    slots, made = [0], [float(ts[order[0]])]
    for number, (slot, start) in enumerate(zip(first.tolist(), starts.tolist(), strict=True)):
        place = bisect_right(slots, slot)
        if number == thread_zero:
            # A made event has tid 0 as well: it may be the one to go before.
            place = next((k for k in range(place) if made[k] >= start), place)
            slot = min(slot, slots[place]) if place < len(slots) else slot
        slots.insert(place, slot)
        made.insert(place, start)
    times = np.insert(ts[cpu], slots, made)
    external = np.insert(trace.external_id[cpu], slots, -1)
    owner = np.insert(np.stack((thread[cpu], cpu), axis=1), slots, [(thread_zero, -1)] * len(made), axis=0)
    sort = np.argsort(times, kind="stable")
    return times[sort], external[sort], owner[sort]


def _latest(columns: tuple[Ints, ...], wanted: tuple[Ints, ...], limit: Ints) -> Ints:
    """For each query the last position before ``limit`` where all columns have the wanted values, -1 where none."""
    size = len(columns[0])
    key = np.zeros(size + len(limit), np.int64)
    for column, values in zip(columns, wanted, strict=True):
        both = np.concatenate((column, values))
        _, code = np.unique(both, return_inverse=True)
        _, key = np.unique(key * (int(code.max(initial=0)) + 1) + code, return_inverse=True)
    place = key[:size] * (size + 1) + np.arange(size)
    sort = np.argsort(place)
    at = np.searchsorted(place[sort], key[size:] * (size + 1) + limit, side="left") - 1
    hit = sort[np.maximum(at, 0)] if size else np.zeros(len(limit), np.int64)
    good = (at >= 0) & (key[hit] == key[size:]) if size else np.zeros(len(limit), np.bool_)
    return np.where(good, hit, -1)


def _place(trace: KinetoTrace, row: int) -> str:
    return f"event {int(trace.index[row])} ({trace.strings[int(trace.name[row])]!r})"
