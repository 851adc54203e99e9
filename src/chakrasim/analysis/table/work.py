"""What devices did in a trace: kernels, copies and waits, with their launches, classes and profiler steps.

Time is int64 nanoseconds as recorded. A row is device work because of its category, not because of its stream:
AMD numbers streams from 0, and runtime calls may name a stream too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.analysis.table.kernel_classes import (
    COMMUNICATION,
    COMPUTE,
    COPY_CATEGORIES,
    KERNEL_CATEGORIES,
    MEMORY,
    SYNC_CATEGORIES,
    WAIT,
    Classes,
    class_of_name,
)
from chakrasim.analysis.table.nesting import innermost
from chakrasim.analysis.table.result import texts
from chakrasim.collectives.kernel_names import is_fused_kernel, qualified_name
from chakrasim.linker.rows.columns import look_up
from chakrasim.totals import LARGEST
from chakrasim.trace.kineto.columns import HAS_CATEGORY, HAS_DUR, HAS_TS, TEXT, Ints, KinetoTrace, Mask

_STEP = re.compile(r"ProfilerStep\s*#\s*(\d{1,18})")
#: Categories that are neither work of the host nor of a device: the profiler's own span, the projection of
#: annotations onto streams.
_SPANS: Final = ("Trace", "gpu_user_annotation", "overhead", "ac2g", "fwdbwd")
_LAUNCHES = re.compile(r"launch|memcpy.*async|memset.*async|memcpywithstream|job_prep_and_submit", re.IGNORECASE)
_NO_LAUNCH = re.compile(r"hostfunc", re.IGNORECASE)
#: Kernels that a note names.
_MOST_NAMES: Final = 3


@dataclass(frozen=True, eq=False)
class StepWork:
    """Profiler steps of the host, ascending: ``number``, ``start_ns``, ``end_ns`` int64[k].

    ``kernels``: device work launched in the step. ``lost``: calls that launch work, without that work in the trace.
    ``unlike``: the step launched another number of pieces than the median step. ``partial``: work is missing, so
    averages leave the step out.
    """

    number: Ints
    start_ns: Ints
    end_ns: Ints
    kernels: Ints
    lost: Ints
    unlike: Mask
    partial: Mask

    def __len__(self) -> int:
        return len(self.number)

    def holding(self, times_ns: Ints) -> Ints:
        """int64[]: the position of the step that holds each time, -1 outside all."""
        if not len(self):
            return np.full(len(times_ns), -1, np.int64)
        at = np.searchsorted(self.start_ns, times_ns, "right") - 1
        return np.where((at >= 0) & (times_ns < self.end_ns[np.maximum(at, 0)]), at, -1)


@dataclass(frozen=True, eq=False)
class DeviceWork:
    """The device work of one rank: ``n`` rows, ascending by start (ties in file order).

    Attributes
    ----------
    row: int64[n], row in ``kineto``.
    start_ns, end_ns: int64[n].
    device, stream: int64[n], -1 where the trace does not say.
    kind: uint8[n], COMPUTE and its neighbours.
    launch: int64[n], row of the runtime call with the same correlation, -1 where there is none.
    step: int64[n], position in ``steps`` of the step in which the work was launched, -1: in none.
    window_ns: first start and last end of everything that the trace recorded, host and device.
    steps: the profiler steps.
    counts: what was guessed or looks wrong, by a short name.
    """

    rank: int
    kineto: KinetoTrace
    row: Ints
    start_ns: Ints
    end_ns: Ints
    device: Ints
    stream: Ints
    kind: Classes
    launch: Ints
    step: Ints
    window_ns: tuple[int, int]
    steps: StepWork
    counts: dict[str, int]

    def __len__(self) -> int:
        return len(self.row)

    @property
    def busy(self) -> Mask:
        """bool[n]: work, not waiting."""
        return np.not_equal(self.kind, WAIT)

    def names(self, rows: Ints) -> tuple[str, ...]:
        """The names of events, "" for row -1."""
        return texts(self.kineto.strings, np.where(rows >= 0, self.kineto.name[rows], -1))

    @property
    def notes(self) -> tuple[str, ...]:
        """The counts as sentences."""
        return tuple(f"rank {self.rank}: {count:,} {what}" for what, count in self.counts.items() if count)


def device_work(kineto: KinetoTrace, rank: int = 0) -> DeviceWork:
    """The device work of a trace."""
    timed = kineto.has(HAS_DUR) & kineto.has(HAS_TS) & kineto.has(HAS_CATEGORY)
    sync = timed & kineto.where(kineto.category, *SYNC_CATEGORIES)
    copies = timed & kineto.where(kineto.category, *COPY_CATEGORIES)
    kernels = timed & kineto.where(kineto.category, *KERNEL_CATEGORIES)
    # A span of MTIA without a stream, or without a launch, is a part of what the launched row already covers.
    ours = sync | copies | kernels
    row = np.flatnonzero(ours)
    row = row[np.argsort(kineto.ts_ns[row], kind="stable")]
    start = kineto.ts_ns[row]
    length = kineto.dur_ns[row]
    kind = kineto.strings.each(kineto.name[row], class_of_name, np.uint8)
    kind[copies[row]] = MEMORY
    kind[sync[row]] = WAIT
    launch = launching_rows(kineto, row)
    kind[_is_communication(kineto, row, launch, kind)] = COMMUNICATION
    steps = _steps(kineto, timed, row, kind, launch)
    step = np.full(len(row), -1, np.int64)
    linked = launch >= 0
    step[linked] = steps.holding(kineto.ts_ns[launch[linked]])
    counts = {
        "events of a device with a negative duration (taken as 0)": int((length < 0).sum()),
        "kernels and copies without a launching call": int(((launch < 0) & (kind != WAIT)).sum()),
        **_fused(kineto, row[kind == COMPUTE]),
    }
    window = _window(kineto, timed & ~kineto.where(kineto.category, *_SPANS))
    end = start + np.maximum(length, 0)
    return DeviceWork(
        rank,
        kineto,
        row,
        start,
        end,
        _devices(kineto, row),
        kineto.stream[row],
        kind,
        launch,
        step,
        window,
        steps,
        counts,
    )


def runtime_rows(kineto: KinetoTrace) -> Mask:
    """bool[events]: calls of a runtime or driver (of any maker)."""
    endings = ("_runtime", "_driver", "Runtime", "runtime")
    calls = kineto.strings.each(kineto.category, lambda category: category.endswith(endings))
    return calls & kineto.has(HAS_TS) & kineto.has(HAS_DUR)


def launching_rows(kineto: KinetoTrace, row: Ints) -> Ints:
    """int64[k]: for each device row the runtime call of its correlation, whatever the call's name; -1: none.

    Correlations 0 and -1 mean "unknown". Of several calls with one correlation the first that began counts (a runtime
    call encloses the driver call it makes).
    """
    calls = np.flatnonzero(runtime_rows(kineto) & (kineto.correlation > 0))
    calls = calls[np.lexsort((kineto.ts_ns[calls], kineto.correlation[calls]))]
    return look_up(kineto.correlation[calls], calls, kineto.correlation[row])


def _devices(kineto: KinetoTrace, row: Ints) -> Ints:
    """int64[k]: the device of each row; one that does not say takes that of others in its process, or the only one."""
    device = kineto.device[row].astype(np.int64)
    silent = device < 0
    if silent.any() and not silent.all():
        known, first = np.unique(kineto.pid[row[~silent]], return_index=True)
        at = np.minimum(np.searchsorted(known, kineto.pid[row]), len(known) - 1)
        same = silent & (known[at] == kineto.pid[row])
        device[same] = device[~silent][first[at[same]]]
        distinct = np.unique(device[~silent])
        if len(distinct) == 1:
            device[device < 0] = distinct[0]
    return device


def _is_communication(kineto: KinetoTrace, row: Ints, launch: Ints, kind: Classes) -> Mask:
    """bool[k]: kernels that a communication record claims: by their own arguments, or because the innermost operator
    around their launch is ``record_param_comms`` or a collective's own annotation."""
    kernel = kind == COMPUTE
    named = np.zeros(len(kineto), np.bool_)
    column = kineto.rare_column("Collective name")
    named[column.rows[(column.kind == TEXT) & (column.bits != 0)]] = True
    claimed: Mask = kernel & named[row]
    record = kineto.find("record_param_comms")
    ask = np.flatnonzero(kernel & ~claimed & (launch >= 0)) if record >= 0 else np.zeros(0, np.int64)
    if len(ask):
        operators = np.flatnonzero(kineto.where(kineto.category, "cpu_op") & kineto.has(HAS_DUR) & kineto.has(HAS_TS))
        holder = innermost(kineto, operators, launch[ask])
        inside = holder >= 0
        claimed[ask[inside]] = kineto.name[holder[inside]] == record
    return claimed


def _fused(kineto: KinetoTrace, row: Ints) -> dict[str, int]:
    """How many kernels compute and communicate in one, by a text that names some of them."""
    found: dict[str, int] = {}
    for index, count in zip(*np.unique(kineto.name[row], return_counts=True), strict=True):
        name = kineto.strings[int(index)]
        if is_fused_kernel(name):
            found[qualified_name(name)] = found.get(qualified_name(name), 0) + int(count)
    if not found:
        return {}
    names = ", ".join(list(found)[:_MOST_NAMES]) + (", ..." if len(found) > _MOST_NAMES else "")
    return {f"kernels compute and communicate in one and are taken as compute: {names}": sum(found.values())}


def _window(kineto: KinetoTrace, recorded: Mask) -> tuple[int, int]:
    if not recorded.any():
        return 0, 0
    start = kineto.ts_ns[recorded]
    return int(start.min()), int((start + np.maximum(kineto.dur_ns[recorded], 0)).max())


def _steps(kineto: KinetoTrace, timed: Mask, row: Ints, kind: Classes, launch: Ints) -> StepWork:
    number, start, end = _step_intervals(kineto, timed)
    bare = StepWork(
        number, start, end, *(np.zeros(len(number), np.int64),) * 2, *(np.zeros(len(number), np.bool_),) * 2
    )
    if not len(number):
        return bare
    pieces = (launch >= 0) & (kind != WAIT)
    where = bare.holding(kineto.ts_ns[launch[pieces]])
    kernels = np.bincount(where[where >= 0], minlength=len(number)).astype(np.int64)
    lost_rows = _calls_without_work(kineto, row)
    where = bare.holding(kineto.ts_ns[lost_rows])
    lost = np.bincount(where[where >= 0], minlength=len(number)).astype(np.int64)
    median = float(np.median(kernels[kernels > 0])) if kernels.any() else 0.0
    # Some calls never have work in the trace (a copy of no bytes), in every step: only fewer pieces tell of a loss.
    partial = (kernels == 0) | ((lost > 0) & (kernels < median))
    unlike = kernels != median
    return StepWork(number, start, end, kernels, lost, unlike, partial)


def _step_intervals(kineto: KinetoTrace, timed: Mask) -> tuple[Ints, Ints, Ints]:
    """Number, start and end of the host's steps, ascending by start; a step recorded twice counts once."""
    numbers: dict[int, int] = {}
    for index in np.unique(kineto.name).tolist():
        match = _STEP.match(kineto.strings[index])
        if match is not None:
            numbers[index] = int(match[1])
    marked = timed & np.isin(kineto.name, list(numbers)) & ~kineto.where(kineto.category, *_SPANS)
    spans: dict[int, tuple[int, int]] = {}
    for at in np.flatnonzero(marked).tolist():
        number = numbers[int(kineto.name[at])]
        start = int(kineto.ts_ns[at])
        end = min(start + max(int(kineto.dur_ns[at]), 0), LARGEST)
        low, high = spans.get(number, (start, end))
        spans[number] = (min(low, start), max(high, end))
    ordered = sorted((low, high, number) for number, (low, high) in spans.items())
    columns = np.array(ordered, np.int64).reshape(-1, 3)
    return columns[:, 2], columns[:, 0], columns[:, 1]


def _calls_without_work(kineto: KinetoTrace, row: Ints) -> Ints:
    """Rows of calls that launch work, by what the trace shows of their name, whose work it does not hold."""
    calls = np.flatnonzero(runtime_rows(kineto) & (kineto.correlation > 0))
    names = kineto.name[calls]
    launch = kineto.strings.each(names, lambda name: _LAUNCHES.search(name) and not _NO_LAUNCH.search(name))
    found: Ints = calls[launch & ~np.isin(kineto.correlation[calls], kineto.correlation[row])]
    return found
