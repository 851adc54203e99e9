"""Programs of threads, streams and events whose dependencies are known, run by a simulator of their own.

Independent of the package: a program is run as the hardware would (a kernel begins when its launch has arrived, its
stream is free and what the stream was told to wait for has ended, each with a latency of its own), written as the
profiler would, with more or less of what proves its dependencies, and run again with other durations for the truth.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

BEGIN_NS = 1_000_000_000
#: What a trace shows of waits between streams.
RECORDS, EVENTS, CALLS, TIMES, DEVICE = "records", "events", "calls", "times", "device"
WITHOUT_SOURCE = "records that do not say for what"
SHOWN = (RECORDS, WITHOUT_SOURCE, EVENTS, CALLS, TIMES, DEVICE)
#: How programs use streams.
STYLES = ("ddp", "fsdp", "fork", "prefetch", "random", "threads")
COLLECTIVES = ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(a)", "ncclDevKernel_AllGather_RING_LL(b)",
               "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(c)")  # fmt: skip
KERNELS = ("ampere_sgemm_128x64_tn", "void at::native::elementwise_kernel<4>", "void layer_norm_kernel<float>",
           "flash_fwd_kernel", "sm90_xmma_gemm_bf16")  # fmt: skip
COPY = "Memcpy HtoD (Pinned -> Device)"
_CUDA = {"launch": "cudaLaunchKernel", "record": "cudaEventRecord", "wait": "cudaStreamWaitEvent",
         "device": "cudaDeviceSynchronize", "stream": "cudaStreamSynchronize", "event": "cudaEventSynchronize",
         "copy": "cudaMemcpyAsync"}  # fmt: skip
_HIP = {key: "hip" + name[4:] for key, name in _CUDA.items()}


@dataclass
class Call:
    """One thing that a thread does. ``what``: op, launch, record, wait, device, stream, event, begin or end (of a
    step), join (wait for another thread to have come so far)."""

    what: str
    host_us: float
    stream: int = 0
    name: str = ""
    device_us: float = 0.0
    event: int = -1
    latency_us: tuple[float, float, float] = (0.0, 0.0, 0.0)
    number: int = -1
    other: tuple[int, int] = (-1, -1)


@dataclass
class Program:
    """The calls of each thread, and how its trace is spelled."""

    threads: list[list[Call]]
    hip: bool = False
    stream_numbers: tuple[int, ...] = (7, 20, 24, 28)
    waits: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Run:
    """What happened: (start, end) of each call by its number, of each kernel by its launch's number; the waits as pairs
    of kernels, and those that made the later one wait; the length of each step, or of the whole."""

    calls: dict[int, tuple[float, float]]
    kernels: dict[int, tuple[float, float]]
    edges: set[tuple[int, int]]
    binding: set[tuple[int, int]]
    steps: list[tuple[int, float, float]]

    @property
    def lengths(self) -> list[float]:
        """Of each step, or of everything."""
        if self.steps:
            return [end - begin for _, begin, end in self.steps]
        spans = [*self.calls.values(), *self.kernels.values()]
        return [max(end for _, end in spans) - min(begin for begin, _ in spans)]


def run(program: Program, changed: Callable[[str], float] = lambda name: 1.0, host: float = 1.0) -> Run:
    """Run it, with durations of kernels times what ``changed`` says of their names."""
    out = Run({}, {}, set(), set(), [])
    clock = [0.0 for _ in program.threads]
    at = [0 for _ in program.threads]
    streams: dict[int, tuple[float, int]] = {}
    pending: dict[int, list[tuple[float, int]]] = {}
    events: dict[int, tuple[float, int, list[tuple[float, int]]]] = {}
    passed: dict[tuple[int, int], float] = {}
    begun: dict[int, float] = {}
    while True:
        ready = [t for t, calls in enumerate(program.threads) if at[t] < len(calls)
                 and (calls[at[t]].what != "join" or calls[at[t]].other in passed)]  # fmt: skip
        if not ready:
            break
        thread = min(ready, key=lambda t: clock[t])
        call = program.threads[thread][at[thread]]
        start = clock[thread]
        end = start + call.host_us * host
        if call.what == "join":
            end = max(start, passed[call.other] + 4.0)
        elif call.what == "launch":
            launch, gap, wait = call.latency_us
            free, before = streams.get(call.stream, (-1e9, -1))
            waited = pending.pop(call.stream, [])
            could = max(start + launch, free + gap)
            begin = max([could, *(ended + wait for ended, _ in waited)])
            for ended, source in waited:
                if source >= 0 and source != before:
                    out.edges.add((source, call.number))
                    if ended + wait == begin > could:
                        out.binding.add((source, call.number))
            done = begin + call.device_us * changed(call.name)
            streams[call.stream] = (done, call.number)
            out.kernels[call.number] = (begin, done)
        elif call.what == "record":
            free, last = streams.get(call.stream, (-1e9, -1))
            events[call.event] = (free, last, list(pending.get(call.stream, [])))
        elif call.what == "wait":
            free, last, more = events[call.event]
            pending.setdefault(call.stream, []).extend([(free, last), *more])
        elif call.what in ("device", "stream", "event"):
            if call.what == "device":
                until = max((done for done, _ in streams.values()), default=-1e9)
            elif call.what == "stream":
                until = streams.get(call.stream, (-1e9, -1))[0]
            else:
                until = events[call.event][0]
            end = max(end, until + call.latency_us[0])
        elif call.what == "begin":
            begun[call.event] = start
        elif call.what == "end":
            out.steps.append((call.event, begun[call.event], start))
        if call.what not in ("join", "begin", "end"):
            out.calls[call.number] = (start, end)
        clock[thread] = end
        passed[(thread, at[thread])] = end
        at[thread] += 1
    return out


class Maker:
    """Draws programs."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.count = self.events = 0
        self.calls: list[Call] = []
        self.base = float(self.draw.uniform(3, 8)), float(self.draw.uniform(0.8, 1.6)), float(self.draw.uniform(1, 3))
        self.jitter = float(self.draw.uniform(0.02, 0.25))
        self.busy = float(self.draw.choice([0.4, 1.0, 1.0, 3.0]))

    def add(self, what: str, host_us: float, **more: Any) -> Call:
        self.count += 1
        call = Call(what, round(host_us, 3), number=self.count, **more)
        self.calls.append(call)
        return call

    def spread(self, mean: float, sigma: float) -> float:
        return round(float(mean * self.draw.lognormal(0, sigma)), 3)

    def op(self, mean: float = 4.0) -> None:
        self.add("op", self.spread(mean, 0.5), name=str(self.draw.choice(["aten::mm", "aten::add", "aten::copy_"])))

    def launch(self, stream: int, name: str, mean: float) -> None:
        latency = tuple(self.spread(base, self.jitter) for base in self.base)
        self.add("launch", min(self.spread(2.5, 0.3), latency[0] - 0.5), stream=stream, name=name,
                 device_us=self.spread(mean, 0.5), latency_us=latency)  # fmt: skip

    def compute(self, stream: int = 0, count: int = 1) -> None:
        for _ in range(count):
            if self.draw.random() < 0.7:
                self.op()
            self.launch(stream, str(self.draw.choice(KERNELS)), 25 * self.busy)

    def collective(self, stream: int) -> None:
        self.launch(stream, str(self.draw.choice(COLLECTIVES)), 120 * self.busy)

    def record(self, stream: int) -> int:
        self.events += 1
        self.add("record", self.spread(0.8, 0.2), stream=stream, event=self.events)
        return self.events

    def wait(self, stream: int, event: int) -> None:
        self.add("wait", self.spread(0.8, 0.2), stream=stream, event=event)

    def after(self, stream: int, other: int) -> None:
        """The stream waits for all that another was given."""
        event = self.record(other)
        if self.draw.random() < 0.3:
            self.op(1.5)
        self.wait(stream, event)

    def sync(self, what: str, **more: Any) -> None:
        self.add(what, self.spread(2.0, 0.2), latency_us=(self.spread(4.0, 0.2), 0.0, 0.0), **more)

    def step(self, style: str, streams: int) -> None:
        getattr(self, "_" + style)(streams)

    def _ddp(self, streams: int) -> None:
        self.compute(count=int(self.draw.integers(5, 25)))
        done = []
        for _ in range(int(self.draw.integers(1, 5))):
            self.compute(count=int(self.draw.integers(2, 10)))
            self.after(1, 0)
            self.collective(1)
            done.append(self.record(1))
        for event in done:
            self.wait(0, event)
        self.compute(count=int(self.draw.integers(1, 6)))

    def _fsdp(self, streams: int) -> None:
        gathered: list[int] = []
        layers = int(self.draw.integers(2, 6))
        for layer in range(layers + 1):
            if layer < layers:
                self.after(1, 0)
                self.collective(1)
                gathered.append(self.record(1))
            if layer:
                self.wait(0, gathered[layer - 1])
                self.compute(count=int(self.draw.integers(2, 8)))
                if streams > 2 and self.draw.random() < 0.6:
                    self.after(2, 0)
                    self.collective(2)
        if streams > 2:
            self.after(0, 2)
        self.compute(count=2)

    def _fork(self, streams: int) -> None:
        for _ in range(int(self.draw.integers(2, 6))):
            self.compute(count=int(self.draw.integers(1, 6)))
            side = int(self.draw.integers(1, streams))
            self.after(side, 0)
            for _ in range(int(self.draw.integers(1, 4))):
                self.compute(side)
            self.compute(count=int(self.draw.integers(0, 5)))
            if side != 1 and self.draw.random() < 0.5:
                self.after(1, side)
                self.collective(1)
                side = 1
            self.after(0, side)
        self.compute()

    def _prefetch(self, streams: int) -> None:
        side = streams - 1
        for _ in range(int(self.draw.integers(2, 5))):
            self.launch(side, COPY, 80 * self.busy)
            ready = self.record(side)
            self.compute(count=int(self.draw.integers(2, 8)))
            self.wait(0, ready)
            self.compute(count=int(self.draw.integers(2, 8)))
            self.after(side, 0)
            if self.draw.random() < 0.4:
                self.sync("event", event=self.record(0))
        self.after(1, 0)
        self.collective(1)
        self.after(0, 1)
        self.compute(count=3)

    def _random(self, streams: int) -> None:
        events: list[tuple[int, int]] = []
        for _ in range(int(self.draw.integers(30, 90))):
            what, stream = self.draw.random(), int(self.draw.integers(0, streams))
            if what < 0.65:
                self.collective(stream) if stream == 1 else self.compute(stream)
            elif what < 0.8:
                events.append((stream, self.record(stream)))
            elif what < 0.95 and events:
                of, event = events[int(self.draw.integers(max(len(events) - 3, 0), len(events)))]
                if of != stream:
                    self.wait(stream, event)
            elif what < 0.97:
                self.sync("stream", stream=stream)

    def _threads(self, streams: int) -> None:
        self._ddp(streams)


def made(seed: int, style: str | None = None) -> Program:
    """A program."""
    maker = Maker(seed)
    style = style or str(maker.draw.choice(STYLES))
    streams = int(maker.draw.integers(2, 5))
    steps = int(maker.draw.integers(1, 4))
    marked = bool(maker.draw.random() < 0.6)
    for step in range(steps):
        if marked:
            maker.add("begin", 0.0, event=step + 5)
        maker.op(10)
        maker.step(style, streams)
        maker.sync("device") if marked or maker.draw.random() < 0.7 else maker.sync("stream", stream=0)
        maker.op(6)
        if marked:
            maker.add("end", 0.0, event=step + 5)
    threads = _split(maker) if style == "threads" else [maker.calls]
    return Program(threads, hip=bool(maker.draw.random() < 0.4))


def _split(maker: Maker) -> list[list[Call]]:
    """Every other stretch of calls on a second thread, which the first waits for."""
    threads: list[list[Call]] = [[], []]
    cuts = []
    for index, call in enumerate(maker.calls):
        if call.what in ("begin", "device", "stream"):
            cuts.append(index)
    bounds = [0, *cuts, len(maker.calls)]
    for low, high in itertools.pairwise(bounds):
        part = maker.calls[low:high]
        if len(part) > 12 and maker.draw.random() < 0.8:
            first = len(part) // 2
            threads[0] += part[:first]
            threads[1] += [Call("join", 0.0, other=(0, len(threads[0]) - 1)), *part[first:]]
            threads[0].append(Call("join", 0.0, other=(1, len(threads[1]) - 1)))
        else:
            threads[0] += part
    return threads if threads[1] else threads[:1]


def write(program: Program, done: Run, path: Path, shown: str) -> Path:
    """The trace of a run, with what ``shown`` says of waits between streams."""
    names = _HIP if program.hip else _CUDA
    events: list[dict[str, Any]] = []

    def add(category: str, name: str, start: float, end: float, pid: int, tid: int, **args: Any) -> None:
        events.append({"ph": "X", "cat": category, "name": name, "ts": round(start + BEGIN_NS / 1e3, 3),
                       "dur": round(end - start, 3), "pid": pid, "tid": tid, "args": args})  # fmt: skip

    recorded: dict[int, Call] = {}
    for calls in program.threads:
        for call in calls:
            if call.what == "record":
                recorded[call.event] = call
    for thread, calls in enumerate(program.threads):
        for call in calls:
            if call.what in ("join", "begin", "end"):
                continue
            start, end = done.calls[call.number]
            number = program.stream_numbers[call.stream]
            if call.what == "launch":
                begin, finish = done.kernels[call.number]
                category = "gpu_memcpy" if call.name == COPY else "kernel"
                add(category, call.name, begin, finish, 0, number, device=0, stream=number, correlation=call.number)
            if shown == DEVICE:
                continue
            if call.what == "op":
                add("cpu_op", call.name, start, end, 50, 50 + thread)
            elif call.what in ("record", "wait"):
                if shown in (RECORDS, EVENTS) or (shown in (CALLS, WITHOUT_SOURCE) and call.what == "wait"):
                    add("cuda_runtime", names[call.what], start, end, 50, 50 + thread, correlation=call.number)
            else:
                what = "copy" if call.name == COPY else call.what
                add("cuda_runtime", names[what], start, end, 50, 50 + thread, correlation=call.number)
            if shown in (RECORDS, WITHOUT_SOURCE) and call.what in ("wait", "device", "stream", "event"):
                kind = {"wait": "Stream Wait Event", "device": "Context Sync", "stream": "Stream Sync",
                        "event": "Event Sync"}[call.what]  # fmt: skip
                said: dict[str, Any] = {"cuda_sync_kind": kind, "correlation": call.number, "device": 0,
                        "stream": number if call.what in ("wait", "stream") else -1}  # fmt: skip
                if shown == RECORDS and call.what in ("wait", "event"):
                    of = recorded[call.event]
                    said["wait_on_stream"] = program.stream_numbers[of.stream]
                    said["wait_on_cuda_event_record_corr_id"] = of.number
                add("cuda_sync", kind, start, end, 0, number, **said)
    if shown != DEVICE:
        for step, begin, end in done.steps:
            add("user_annotation", f"ProfilerStep#{step}", begin, end, 50, 50)
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": events}))
    return path
