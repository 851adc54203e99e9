"""Which rows of a Kineto trace are what, and which device work belongs to which runtime call."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.kernel_names import is_communication_kernel
from chakrasim.collectives.spelling import host_backend_of
from chakrasim.trace.kineto.columns import HAS_DUR, Ints, KinetoTrace

Mask = NDArray[np.bool_]

#: By category, in the spellings of all versions and vendors (cuda_runtime, Runtime, mtia_runtime, xpu_driver, ...).
_OPERATOR: Final = re.compile(r"cpu_op|operator", re.IGNORECASE)
_ANNOTATION: Final = re.compile(r"user_annotation", re.IGNORECASE)
_RUNTIME: Final = re.compile(r"(?:\w+_)?(?:runtime|driver)", re.IGNORECASE)
_WORK: Final = re.compile(r"(?:\w+_)?(?:kernel|memcpy|memset)|mtia_ccp_events", re.IGNORECASE)
_KERNEL: Final = re.compile(r"(?:\w+_)?kernel|mtia_ccp_events", re.IGNORECASE)
_SYNC: Final = re.compile(r"\w+_sync", re.IGNORECASE)
#: Kernel launches of any vendor and interface; a host function is no device work.
_LAUNCH: Final = re.compile(r"launch(?!hostfunc)", re.IGNORECASE)
#: Calls that return when the device has got somewhere.
_BLOCKING: Final = re.compile(r"synchronize$|memcpy(?:withstream)?$", re.IGNORECASE)
_STEP: Final = re.compile(r"ProfilerStep#?\s*([0-9]{1,18})")


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """Masks over the ``n`` rows of a trace, and the link from device work to its launch."""

    trace: KinetoTrace

    def _category(self, pattern: re.Pattern[str]) -> Mask:
        trace = self.trace
        return trace.strings.each(trace.category, lambda text: pattern.fullmatch(text) is not None) & self.timed

    def named(self, wanted: Callable[[str], Any]) -> Mask:
        """Rows whose name is one that is wanted."""
        return self.trace.strings.each(self.trace.name, wanted)

    @cached_property
    def timed(self) -> Mask:
        """Rows with a duration."""
        return self.trace.has(HAS_DUR)

    @cached_property
    def operators(self) -> Mask:
        """Operators of the host."""
        return self._category(_OPERATOR)

    @cached_property
    def annotations(self) -> Mask:
        """Annotations of the host."""
        return self._category(_ANNOTATION)

    @cached_property
    def calls(self) -> Mask:
        """Calls of a device's runtime or driver."""
        return self._category(_RUNTIME)

    @cached_property
    def work(self) -> Mask:
        """Kernels, copies and memory settings."""
        return self._category(_WORK)

    @cached_property
    def kernels(self) -> Mask:
        """Kernels alone."""
        return self._category(_KERNEL)

    @cached_property
    def sync_records(self) -> Mask:
        """Synchronisation records of the profiler."""
        return self._category(_SYNC)

    @cached_property
    def launches(self) -> Mask:
        """Calls that launch kernels, outside of captures of a graph."""
        return self.calls & self.named(_LAUNCH.search) & ~self._captured

    @cached_property
    def blocking(self) -> Mask:
        """Calls that wait for the device, by their names."""
        return self.calls & self.named(_BLOCKING.search)

    @cached_property
    def collectives(self) -> Mask:
        """Communication kernels, and collectives that the host carries out (``gloo:all_reduce``)."""
        on_host = self.annotations & self.named(host_backend_of)
        on_host &= self.trace.strings.each(self.trace.category, lambda text: not text.startswith("gpu_"))
        return self.kernels & self.named(is_communication_kernel) | on_host

    @cached_property
    def _captured(self) -> Mask:
        """Calls while their thread captures a graph: what they launch does not run."""
        trace = self.trace
        inside = np.zeros(len(trace), np.bool_)
        begins = self.calls & self.named(lambda text: "StreamBeginCapture" in text)
        ends = self.calls & self.named(lambda text: "StreamEndCapture" in text)
        for row in np.flatnonzero(begins).tolist():
            later = trace.ts_ns[ends & (trace.tid == trace.tid[row]) & (trace.ts_ns >= trace.ts_ns[row])]
            until = later.min() if len(later) else np.iinfo(np.int64).max
            between = (trace.ts_ns >= trace.ts_ns[row]) & (trace.ts_ns <= until)
            inside |= between & (trace.tid == trace.tid[row])
        return inside

    @cached_property
    def end_ns(self) -> Ints:
        """int64[n]: end of each row."""
        return self.trace.ts_ns + self.trace.dur_ns

    @cached_property
    def launch_of(self) -> Ints:
        """int64[n]: for device work the row of the call with the same correlation id (the first in file order); -1."""
        trace = self.trace
        found = np.full(len(trace), -1, np.int64)
        calls = np.flatnonzero(self.calls & (trace.correlation > 0))
        work = np.flatnonzero(self.work & (trace.correlation > 0))
        if len(calls) and len(work):
            order = calls[np.argsort(trace.correlation[calls], kind="stable")]
            keys = trace.correlation[order]
            place = np.searchsorted(keys, trace.correlation[work])
            place[place == len(keys)] = 0
            same = keys[place] == trace.correlation[work]
            found[work[same]] = order[place[same]]
        return found

    @cached_property
    def has_work(self) -> Mask:
        """bool[n]: calls to which device work belongs."""
        marked = np.zeros(len(self.trace), np.bool_)
        correlated = np.unique(self.trace.correlation[self.work & (self.trace.correlation > 0)])
        marked[self.calls] = np.isin(self.trace.correlation[self.calls], correlated)
        return marked

    @cached_property
    def steps(self) -> tuple[Ints, Ints]:
        """Rows of the profiler's steps by start, int64[s], and their numbers, int64[s]."""
        trace = self.trace
        rows = np.flatnonzero((self.annotations | self.operators) & self.named(_STEP.match))
        rows = rows[np.argsort(trace.ts_ns[rows], kind="stable")]
        numbers = [int(_STEP.match(trace.strings[int(trace.name[row])])[1]) for row in rows]  # type: ignore[index]
        return rows, np.array(numbers, np.int64)

    def step_of(self, times_ns: Ints) -> Ints:
        """int64: position of the step around each time; -1 outside of steps."""
        rows, _ = self.steps
        if not len(rows):
            return np.full(len(times_ns), -1, np.int64)
        place = np.searchsorted(self.trace.ts_ns[rows], times_ns, side="right") - 1
        inside = (place >= 0) & (times_ns < self.end_ns[rows][place])
        return np.where(inside, place, -1)


def busy_ns(starts_ns: Ints, ends_ns: Ints) -> int:
    """Length of the union of spans."""
    if not len(starts_ns):
        return 0
    order = np.argsort(starts_ns, kind="stable")
    start, end = starts_ns[order], np.maximum.accumulate(ends_ns[order])
    before = np.concatenate([start[:1], end[:-1]])
    return int(np.maximum(0, end - np.maximum(start, before)).sum())
