"""Programs of threads, streams and events, and what happens when they run; see `program_draws`.

A kernel begins when its launch has arrived, its stream is free and what its stream was told to wait for has ended, and
a gap of its own after that. All times are whole nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from linker.program_trace import FIRST, UNSEEN, Records, document


@dataclass(frozen=True)
class Kernel:
    """Work of the device; ``family``: compute, communication or memory (a copy); ``step``: of its launch, -1: none."""

    index: int
    name: str
    family: str
    stream: int
    length_ns: int
    latency_ns: int
    gap_ns: int
    step: int


@dataclass(frozen=True)
class Action:
    """What a thread does for ``ns``. ``what``: work, begin and end (of ``name``, a ``category``), launch (``kernel``),
    record and wait (``event``, ``stream``), device, stream and event (the host waits), hand (``other`` goes on from
    here at the earliest, ``ns`` later)."""

    what: str
    thread: int
    ns: int
    name: str = ""
    category: str = ""
    kernel: int = -1
    stream: int = -1
    event: int = -1
    other: int = -1


@dataclass(frozen=True)
class Times:
    """(start, end) in ns of each kernel and of each action; of a pair of begin and end, both have the begin's."""

    kernels: list[tuple[int, int]]
    actions: list[tuple[int, int]]


class Wait(NamedTuple):
    """Kernels of different streams, the one told to wait for the other; ``binding``: it began that late because of
    that, as recorded."""

    waiting: int
    awaited: int
    binding: bool


@dataclass(frozen=True)
class Program:
    """``actions`` in an order that keeps all dependencies."""

    kernels: list[Kernel]
    actions: list[Action]

    def simulate(self, scale: Callable[[Kernel], float] | None = None) -> Times:
        """When everything happens, with kernels' lengths times ``scale``."""
        return _Run(self, scale).times

    @cached_property
    def recorded(self) -> Times:
        """When everything happened."""
        return self.simulate()

    @cached_property
    def waits(self) -> list[Wait]:
        """Each wait between streams that some kernel was launched after."""
        return _Run(self, None).waits

    @cached_property
    def steps(self) -> list[int]:
        """Numbers of the profiler's steps; none: it knows no steps."""
        return [_step(one) for one in self.actions if one.category == "user_annotation" and one.what == "begin"]

    def span_us(self, times: Times, step: int = -1) -> float:
        """A step: from its begin on the host, or from the end of the step before where that is later, to the end of the
        last of what it did or launched. -1: everything that a trace shows."""
        if step < 0:
            shown = (time for time, one in zip(times.actions, self.actions, strict=True) if one.what not in UNSEEN)
            spans = [*times.kernels, *shown]
            return (max(end for _, end in spans) - min(start for start, _ in spans)) / 1e3
        over, span = 0, 0.0
        for number in self.steps[: self.steps.index(step) + 1]:
            start, end = next(
                time for time, one in zip(times.actions, self.actions, strict=True) if one.name == step_name(number)
            )
            last = max([end, *(times.kernels[one.index][1] for one in self.kernels if one.step == number)])
            span, over = max(last - max(start, over), 0) / 1e3, max(over, last)
        return span

    def follows(self) -> list[set[int]]:
        """For each kernel all that must have ended before it begins: by its stream, by waits, and by both in turn."""
        found: list[set[int]] = [set() for _ in self.kernels]
        last: dict[int, int] = {}
        direct: dict[int, list[int]] = {}
        for wait in self.waits:
            direct.setdefault(wait.waiting, []).append(wait.awaited)
        for one in self.kernels:
            for before in (*direct.get(one.index, []), *([last[one.stream]] if one.stream in last else [])):
                found[one.index] |= {before} | found[before]
            last[one.stream] = one.index
        return found

    def document(self, records: Records = "sync", hip: bool = False) -> dict[str, Any]:
        """The trace of the program as recorded. Kernel k has the correlation id `correlation(k)`."""
        return document(self, records, hip)

    def correlation(self, kernel: int) -> int:
        """The id of a kernel and its launch."""
        return self._launches[kernel] + FIRST

    @cached_property
    def _launches(self) -> list[int]:
        return [at for at, one in enumerate(self.actions) if one.what == "launch"]


class _Run:
    """One run. Of a stream: its last kernel, and the kernels that it was told to wait for since."""

    def __init__(self, program: Program, scale: Callable[[Kernel], float] | None) -> None:
        self.program, self.scale = program, scale
        self.ends: list[int] = []
        self.times = Times([], [])
        self.waits: list[Wait] = []
        self.clock: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.pending: dict[int, list[int]] = {}
        self.events: dict[int, list[int]] = {}
        opened: dict[int, list[int]] = {}
        for at, one in enumerate(program.actions):
            start = self.clock.get(one.thread, 0)
            self.clock[one.thread] = end = self._end(one, start)
            self.times.actions.append((start, end))
            if one.what == "begin":
                opened.setdefault(one.thread, []).append(at)
            elif one.what == "end":
                begin = opened[one.thread].pop()
                self.times.actions[begin] = self.times.actions[at] = (self.times.actions[begin][0], end)

    def _end(self, one: Action, start: int) -> int:
        until = start + one.ns
        if one.what == "launch":
            self._launch(self.program.kernels[one.kernel], start)
        elif one.what == "record":
            self.events[one.event] = self._given(one.stream)
        elif one.what == "wait":
            self.pending.setdefault(one.stream, []).extend(self.events[one.event])
        elif one.what == "hand":
            self.clock[one.other] = max(self.clock.get(one.other, 0), until)
            return start
        elif one.what in ("device", "stream", "event"):
            given = {"device": range(len(self.ends)), "stream": self._given(one.stream)}
            done = [self.ends[kernel] for kernel in given.get(one.what, self.events.get(one.event, []))]
            return max([until, *(end + one.ns // 2 for end in done)])
        return until

    def _given(self, stream: int) -> list[int]:
        """What must end before all that the stream was given has ended."""
        return [*([self.last[stream]] if stream in self.last else []), *self.pending.get(stream, [])]

    def _launch(self, kernel: Kernel, start: int) -> None:
        awaited = list(dict.fromkeys(self.pending.pop(kernel.stream, [])))
        before = self.last.get(kernel.stream, -1)
        alone = max(start + kernel.latency_ns, self.ends[before] if before >= 0 else 0)
        ready = max([alone, *(self.ends[one] for one in awaited)])
        for one in awaited:
            if self.program.kernels[one].stream != kernel.stream:
                self.waits.append(Wait(kernel.index, one, alone < ready == self.ends[one]))
        begin = ready + kernel.gap_ns
        length = round(kernel.length_ns * (1.0 if self.scale is None else self.scale(kernel)))
        self.ends.append(begin + length)
        self.times.kernels.append((begin, begin + length))
        self.last[kernel.stream] = kernel.index


def step_name(number: int) -> str:
    return f"ProfilerStep#{number}"


def _step(one: Action) -> int:
    return int(one.name.partition("#")[2])
