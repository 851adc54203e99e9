"""Which events of a device trace are work, on which thread or stream, and which only name or prove something."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.spelling import host_backend_of
from chakrasim.errors import InputError
from chakrasim.linker.memory import LARGE, narrow
from chakrasim.linker.rows.columns import constant
from chakrasim.trace.kineto import columns as k
from chakrasim.trace.kineto.columns import Indices, Ints, KinetoTrace
from chakrasim.trace.linked.columns import Lane, RowKind

#: What a category is, by its text in lower case. Categories that end so are calls of some device's runtime.
_OPERATORS = frozenset(("cpu_op", "operator"))
_CALL_ENDINGS = ("_runtime", "_driver")
_KERNELS = frozenset(("kernel", "concurrent_kernel", "mtia_ccp_events", "hpu_op"))
_COPIES = frozenset(("gpu_memcpy", "memcpy"))
_SETS = frozenset(("gpu_memset", "memset"))
_SYNCS = frozenset(("cuda_sync", "xpu_sync"))
_STEP = re.compile(r"ProfilerStep#([0-9]{1,9})")
_IGNORED, _ANNOTATION, _SYNC = 255, 254, 253

#: Times beyond this (73 years from 0 in either direction would be 2.3e18) are damage, and sums of them would overflow.
_LIMIT_NS = 1 << 61
_PHASES = (0, ord("X"))
#: Arguments that linking makes no use of.
_UNUSED = frozenset(("Ev Idx", "Python id", "Python parent id", "bytes", "memory bandwidth (GB/s)"))


def _role(category: str) -> int:
    text = category.lower()
    if text in _OPERATORS:
        return RowKind.OPERATOR
    if text == "runtime" or text.endswith(_CALL_ENDINGS):
        return RowKind.RUNTIME
    if text in _KERNELS:
        return RowKind.KERNEL
    if text in _COPIES:
        return RowKind.MEMCPY
    if text in _SETS:
        return RowKind.MEMSET
    if text == "user_annotation":
        return _ANNOTATION
    return _SYNC if text in _SYNCS else _IGNORED


@dataclass(eq=False)
class Spans:
    """Events of one sort, ``k`` of them, by lane, then start, then the longer first, then as in the file.

    ``event`` int32[k] rows of the trace; ``lane`` int32[k]; ``start_ns``, ``end_ns`` int64[k]; ``kind`` uint8[k].
    """

    event: Indices
    lane: Indices
    start_ns: Ints
    end_ns: Ints
    kind: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.event)

    def forget_times(self) -> None:
        """Free the lanes and times, which the rows have by now."""
        self.lane, self.start_ns, self.end_ns = np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class StepSpans:
    """The profiler's steps by start: ``number``, ``start_ns``, ``end_ns`` int64[k]; they do not overlap."""

    number: Ints
    start_ns: Ints
    end_ns: Ints

    def of(self, time_ns: Ints) -> Indices:
        """int32 of the same length: the step in which each time lies, -1 for none; borders belong to the later one."""
        if not len(self.number):
            return np.full(len(time_ns), -1, np.int32)
        at = np.searchsorted(self.start_ns, time_ns, side="right") - 1
        inside = (at >= 0) & (time_ns < self.end_ns[at])
        return np.where(inside, self.number[at], -1).astype(np.int32)


@dataclass(frozen=True, eq=False)
class LaneEvents:
    """The events of a device trace, sorted out.

    ``host`` runs on threads, ``device`` on streams, ``annotations`` name spans of threads. ``syncs`` int32[s] are the
    rows of synchronisation records. ``lanes``: threads first, ``threads`` of them, then streams. ``main`` is the
    thread that the program's own code runs on (-1: there is none). ``step_numbers``: N of ``ProfilerStep#N`` by string
    index of the name.
    """

    kineto: KinetoTrace
    host: Spans
    device: Spans
    annotations: Spans
    syncs: Indices
    lanes: tuple[Lane, ...]
    threads: int
    main: int
    steps: StepSpans
    step_numbers: Ints
    counts: dict[str, int]

    @cached_property
    def stream_of(self) -> dict[tuple[int, int], int]:
        """The lane of each (device, stream)."""
        return {(lane.device, lane.stream): index for index, lane in enumerate(self.lanes) if lane.device >= 0}


def sort_out(kineto: KinetoTrace) -> LaneEvents:
    """Tell work from names and evidence, and put it on lanes. Raises InputError if there is no work."""
    counts: dict[str, int] = {}
    role = _roles(kineto, counts)
    on_host = np.flatnonzero((role == RowKind.OPERATOR) | (role == RowKind.RUNTIME) | (role == RowKind.HOST_COLLECTIVE))
    on_device = np.flatnonzero((role == RowKind.KERNEL) | (role == RowKind.MEMCPY) | (role == RowKind.MEMSET))
    if not len(on_host) and not len(on_device):
        raise InputError(
            "there is no work in this trace",
            file=kineto.source,
            found=f"{kineto.event_count} events, none of an operator, a runtime call or a kernel with its times",
            expected="events of the categories cpu_op, cuda_runtime, kernel, ...",
            remedy="record with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]); a "
            "schedule becomes active after skip_first + wait + warmup steps only",
        )
    named = np.flatnonzero(role == _ANNOTATION)
    step_numbers = _step_numbers(kineto, named)
    step_number = step_numbers[kineto.name[named]]
    thread, threads, main = _threads(kineto, on_host, named, step_number)
    stream, streams = _streams(kineto, on_device, len(threads))
    host = _spans(kineto, on_host, thread[: len(on_host)], role)
    annotations = _spans(kineto, named, thread[len(on_host) :], role)
    device = _spans(kineto, on_device, stream, role, by_correlation=True)
    return LaneEvents(
        kineto=_slim(kineto),
        host=host,
        device=device,
        annotations=annotations,
        syncs=np.flatnonzero(role == _SYNC).astype(np.int32),
        lanes=(*threads, *streams),
        threads=len(threads),
        main=main,
        steps=_steps(kineto, named, step_number, counts),
        step_numbers=step_numbers,
        counts=counts,
    )


def _slim(kineto: KinetoTrace) -> KinetoTrace:
    """The trace without columns that nobody needs any more, and with small numbers in small columns."""
    if len(kineto) < LARGE:
        return kineto
    columns = {name: narrow(getattr(kineto, name)) for name in ("pid", "tid", "stream", "correlation", "external_id")}
    columns["rf_id"] = narrow(kineto.rf_id) if (kineto.rf_id >= 0).any() else constant(-1, len(kineto), np.int32)
    columns |= {"index": np.zeros(0, np.int32), "phase": np.zeros(0, np.uint8), "flags": np.zeros(0, np.uint16)}
    rare = {name: column for name, column in kineto.rare.items() if name not in _UNUSED}
    return replace(kineto, rare=rare, **columns)


def _roles(kineto: KinetoTrace, counts: dict[str, int]) -> NDArray[np.uint8]:
    role = kineto.strings.each(kineto.category, _role, np.uint8)
    role[~np.isin(kineto.phase, _PHASES)] = _IGNORED
    annotated = np.flatnonzero(role == _ANNOTATION)
    carried_out = kineto.strings.each(kineto.name[annotated], host_backend_of)
    role[annotated[carried_out]] = RowKind.HOST_COLLECTIVE
    meant = role != _IGNORED
    timeless = meant & ((kineto.flags & (k.HAS_TS | k.HAS_DUR)) != (k.HAS_TS | k.HAS_DUR))
    absurd = meant & ((np.abs(kineto.ts_ns) > _LIMIT_NS) | (kineto.dur_ns > _LIMIT_NS))
    negative = meant & (kineto.dur_ns < 0)
    for name, which in (("events_without_times", timeless), ("events_with_absurd_times", absurd & ~timeless)):
        role[which] = _IGNORED
        counts[name] = int(which.sum())
    counts["negative_durations"] = int((negative & ~timeless & ~absurd).sum())
    return role


def _step_numbers(kineto: KinetoTrace, named: NDArray[np.intp]) -> Ints:
    """int64 for each text: N of ProfilerStep#N if an annotation is named so, -1 for others."""
    number = np.full(len(kineto.strings), -1, np.int64)
    for index in np.unique(kineto.name[named]):
        number[index] = step_named(kineto.strings[int(index)])
    return number


def step_named(name: str) -> int:
    """N of ProfilerStep#N, -1 for other names."""
    match = _STEP.fullmatch(name)
    return int(match[1]) if match else -1


def _threads(
    kineto: KinetoTrace, on_host: NDArray[np.intp], named: NDArray[np.intp], step_number: Ints
) -> tuple[Indices, list[Lane], int]:
    """The thread of each host event and annotation, the threads by first start, and the main one."""
    rows = np.concatenate((on_host, named))
    if not len(rows):
        return np.zeros(0, np.int32), [], -1
    pids, pid = np.unique(kineto.pid[rows], return_inverse=True)
    tids, tid = np.unique(kineto.tid[rows], return_inverse=True)
    pairs, lane = np.unique(pid * len(tids) + tid, return_inverse=True)
    first = np.full(len(pairs), np.iinfo(np.int64).max)
    np.minimum.at(first, lane, kineto.ts_ns[rows])
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    lanes = []
    for pair in pairs[order]:
        identity = kineto.text_of(int(tids[pair % len(tids)]))
        process = int(pids[pair // len(tids)])
        lanes.append(Lane(f"thread {identity}", process if process >= 0 else -1, identity))
    lane = rank[lane]
    stepping = lane[len(on_host) :][step_number >= 0]
    busiest = stepping if len(stepping) else lane[: len(on_host)] if len(on_host) else lane
    return lane, lanes, int(np.bincount(busiest).argmax())


def _streams(kineto: KinetoTrace, on_device: NDArray[np.intp], first: int) -> tuple[Indices, list[Lane]]:
    """The stream of each device event. Where arguments lack, pid is the device and tid the stream, as Kineto writes."""
    pid, tid = kineto.pid[on_device], kineto.tid[on_device]
    device = np.where(kineto.device[on_device] >= 0, kineto.device[on_device], np.maximum(pid, 0)).astype(np.int64)
    stream = np.where(kineto.stream[on_device] >= 0, kineto.stream[on_device], np.maximum(tid, 0))
    devices, d = np.unique(device, return_inverse=True)
    numbers, s = np.unique(stream, return_inverse=True)
    pairs, lane = np.unique(d * max(len(numbers), 1) + s, return_inverse=True)
    lanes = []
    for pair in pairs.tolist():
        a, b = int(devices[pair // len(numbers)]), int(numbers[pair % len(numbers)])
        lanes.append(Lane(f"device {a} stream {b}", -1, str(b), a, b))
    return (lane + first).astype(np.int32), lanes


def _spans(
    kineto: KinetoTrace, rows: NDArray[np.intp], lane: Indices, role: NDArray[np.uint8], by_correlation: bool = False
) -> Spans:
    start = kineto.ts_ns[rows]
    duration = np.maximum(kineto.dur_ns[rows], 0)
    if by_correlation:
        order = np.lexsort((kineto.correlation[rows], duration, start, lane))
    else:
        order = np.lexsort((-duration, start, lane))
    rows, start, duration = rows[order], start[order], duration[order]
    return Spans(rows.astype(np.int32), lane[order].astype(np.int32), start, start + duration, role[rows])


def _steps(kineto: KinetoTrace, named: NDArray[np.intp], step_number: Ints, counts: dict[str, int]) -> StepSpans:
    rows = named[step_number >= 0]
    number = step_number[step_number >= 0]
    start = kineto.ts_ns[rows]
    end = start + np.maximum(kineto.dur_ns[rows], 0)
    order = np.lexsort((end, start))
    number, start, end = number[order], start[order], end[order]
    cut = np.minimum(end[:-1], start[1:])
    counts["steps_cut_at_the_next"] = int((cut < end[:-1]).sum())
    end[:-1] = cut
    return StepSpans(number, start, end)
