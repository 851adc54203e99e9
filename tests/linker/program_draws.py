"""Random programs of GPUs whose dependencies are known, run by plain Python and written as PyTorch writes its traces.

A program is what its host threads do, in an order in which it can be done (`program_run` runs it, `program_trace`
writes it); `compare` asks the package what it would do with other kernels, and the run for the truth.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from linker.program_run import Action, Kernel, Program, step_name
from linker.program_trace import Records

COMPUTE, COMM, COPY, SIDE = 7, 20, 24, 28
_BACKWARD, _COPYING = 1, 2
"""Threads beside the main one, 0."""
_WORK = ("ampere_sgemm_128x64_tn", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
         "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int)",
         "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float)")  # fmt: skip
_COLLECTIVES = {
    "AllReduce_Sum_f32_RING_LL": "c10d::allreduce_",
    "AllGather_RING_LL": "c10d::_allgather_base_",
    "ReduceScatter_Sum_bf16_RING_LL": "c10d::_reduce_scatter_base_",
}


def make_program(
    seed: int, *, steps: int | None = None, marked: bool | None = None, threads: int | None = None,
    host: float | None = None, kernel_us: float | None = None, only: tuple[str, ...] = (),
) -> Program:  # fmt: skip
    """A program, drawn where nothing is said: ``steps``, which the profiler knows if ``marked``; 1 or 2 ``threads``;
    the length of host work against the usual; the usual length of kernels; ``only`` some of `PATTERNS`."""
    draw = random.Random(seed)
    count = steps or draw.randint(1, 3)
    marks = draw.random() < 0.7 if marked is None else marked
    second = draw.choice((_BACKWARD, _COPYING)) if (threads or draw.choice((1, 1, 2))) == 2 else 0
    maker = _Maker(draw, host or draw.choice((0.2, 1, 1, 4)), kernel_us or draw.choice((10, 30, 100)), second)
    known = only or tuple(name for name in PATTERNS if draw.random() < 0.7) or ("compute",)
    for step in range(count):
        maker.step = step + 3 if marks else -1
        if marks:
            maker.begin(step_name(maker.step), "user_annotation")
        maker.whole_step([PATTERNS[name] for name in known])
        if marks:
            maker.end()
        maker.work(5)
    return Program(maker.kernels, maker.actions)


@dataclass
class _Maker:
    draw: random.Random
    host: float
    kernel_us: float
    second: int
    thread: int = 0
    step: int = -1
    events: int = 0
    kernels: list[Kernel] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    due: list[int] = field(default_factory=list)
    """Events that the compute stream has still to wait for."""
    opened: list[int] = field(default_factory=list)
    """How many begins each end ends."""

    def add(self, what: str, low_us: float, high_us: float, **more: Any) -> None:
        self.actions.append(Action(what, self.thread, self.ns(low_us, high_us), **more))

    def ns(self, low_us: float, high_us: float) -> int:
        return round(self.draw.uniform(low_us, high_us) * 1000)

    def work(self, usual_us: float) -> None:
        length = usual_us * self.host * self.draw.lognormvariate(0, 0.6)
        self.add("work", length, length)

    def begin(self, name: str, category: str = "cpu_op") -> None:
        names = [name]
        if self.thread == _BACKWARD:
            names.insert(0, f"autograd::engine::evaluate_function: {name.rpartition('::')[2].title()}Backward0")
        for one in names:
            self.add("begin", 0.2, 0.8, name=one, category=category)
        self.opened.append(len(names))

    def end(self) -> None:
        for _ in range(self.opened.pop()):
            self.add("end", 0.2, 0.8)

    def launch(self, stream: int, name: str, family: str, usual_us: float) -> None:
        length = round(1000 * max(1.0, usual_us * self.draw.lognormvariate(0, 0.6)))
        kernel = Kernel(
            len(self.kernels), name, family, stream, length, self.ns(2, 6), self.ns(0, 2), self.step
        )  # fmt: skip
        self.kernels.append(kernel)
        self.add("launch", 1.5, 4, kernel=kernel.index, stream=stream)

    def operator(self, stream: int = COMPUTE) -> None:
        self.begin(self.draw.choice(("aten::mm", "aten::add", "aten::native_layer_norm")))
        for _ in range(self.draw.randint(1, 3)):
            self.work(3)
            self.launch(stream, self.draw.choice(_WORK), "compute", self.kernel_us)
        self.work(2)
        self.end()

    def operators(self, least: int, most: int) -> None:
        for _ in range(self.draw.randint(least, most)):
            self.operator()
            self.work(2)

    def record(self, stream: int) -> int:
        self.events += 1
        self.add("record", 0.5, 1.5, stream=stream, event=self.events)
        return self.events

    def wait(self, stream: int, event: int) -> None:
        self.add("wait", 0.5, 1.5, stream=stream, event=event)

    def after(self, stream: int, other: int) -> None:
        """The stream waits for all that another was given."""
        event = self.record(other)
        if self.draw.random() < 0.4:
            self.work(1)
        self.wait(stream, event)

    def awaited(self, event: int, now: float) -> None:
        """The compute stream waits for the event: now by that chance, or some time later."""
        if self.draw.random() < now:
            self.wait(COMPUTE, event)
        else:
            self.due.append(event)

    def await_some(self, least: int = 0) -> None:
        for _ in range(self.draw.randint(min(least, len(self.due)), len(self.due))):
            self.wait(COMPUTE, self.due.pop(0))

    def hand(self, other: int) -> None:
        self.add("hand", 2, 6, other=other)

    def compute(self) -> None:
        self.operators(2, 6)

    def collective(self) -> None:
        """As torch's process group does it, with work.wait() at once or later."""
        name = self.draw.choice(tuple(_COLLECTIVES))
        self.begin(_COLLECTIVES[name])
        self.work(4)
        self.after(COMM, COMPUTE)
        self.work(2)
        self.launch(COMM, f"ncclDevKernel_{name}", "communication", 3 * self.kernel_us)
        event = self.record(COMM)
        self.work(2)
        self.end()
        self.awaited(event, 0.4)

    def buckets(self) -> None:
        """As DDP's backward: collectives between operators, all awaited at the end."""
        for _ in range(self.draw.randint(1, 4)):
            self.operators(1, 4)
            self.collective()
        self.await_some(len(self.due))

    def fork(self) -> None:
        """A side stream goes along for a while."""
        self.after(SIDE, COMPUTE)
        for _ in range(self.draw.randint(1, 3)):
            self.operator(SIDE)
        if self.draw.random() < 0.5:
            event = self.record(SIDE)
            self.operators(1, 3)
            self.awaited(event, 0.7)
        else:
            self.operators(0, 3)
            self.after(COMPUTE, SIDE)

    def copy_in(self) -> None:
        """The next batch is copied, beside other work or behind it, by a thread of its own at times."""
        if self.draw.random() < 0.5:
            self.after(COPY, COMPUTE)
        home, beside = self.thread, self.second == _COPYING
        if beside:
            self.hand(_COPYING)
            self.thread = _COPYING
        for _ in range(self.draw.randint(1, 2)):
            self.copy(COPY, "Memcpy HtoD (Pinned -> Device)")
        event = self.record(COPY)
        self.thread = home
        self.operators(0, 3)
        if beside:
            self.thread = _COPYING
            self.hand(home)
            self.thread = home
        self.awaited(event, 0.6)

    def copy(self, stream: int, name: str) -> None:
        self.begin("aten::copy_")
        self.work(3)
        self.launch(stream, name, "memory", 0.7 * self.kernel_us)
        self.end()

    def copy_out(self) -> None:
        """A number is looked at."""
        self.begin("aten::item")
        self.copy(COMPUTE, "Memcpy DtoH (Device -> Pinned)")
        self.add("stream", 1.5, 4, stream=COMPUTE)
        self.end()

    def look_back(self) -> None:
        """The host waits for an event that it recorded a while ago."""
        event = self.record(self.draw.choice((COMPUTE, COMPUTE, COMM)))
        self.operators(1, 4)
        self.add("event", 1.5, 4, event=event)

    def backward(self) -> None:
        """Another thread goes on while this one waits for it."""
        if self.second != _BACKWARD:
            return self.buckets()
        self.hand(_BACKWARD)
        self.thread = _BACKWARD
        self.buckets()
        self.hand(0)
        self.thread = 0

    def whole_step(self, patterns: list[Callable[[_Maker], None]]) -> None:
        self.operators(1, 3)
        for _ in range(self.draw.randint(3, 8)):
            self.draw.choice(patterns)(self)
            if self.due and self.draw.random() < 0.5:
                self.await_some(1)
                self.operators(1, 2)
        if self.draw.random() < 0.9:
            self.await_some(len(self.due))
        self.operators(1, 3)
        how = self.draw.random()
        if how < 0.6:
            self.add("device", 2, 5)
        elif how < 0.8:
            self.add("stream", 2, 5, stream=COMPUTE)


PATTERNS: dict[str, Callable[[_Maker], None]] = {
    one.__name__: one
    for one in (_Maker.compute, _Maker.collective, _Maker.buckets, _Maker.fork, _Maker.copy_in, _Maker.copy_out,
                _Maker.look_back, _Maker.backward)
}  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """Of each step what is said and what is true, in us; waits between streams that were found, with whether a record
    proves them."""

    steps: list[dict[str, float]]
    found: dict[tuple[int, int], bool]

    @property
    def error(self) -> float:
        """The largest relative error of a step with the change."""
        return max(abs(one["after_us"] - one["true_after_us"]) / one["true_after_us"] for one in self.steps)


def compare(program: Program, records: Records, change: str, hip: bool = False) -> Comparison:
    """The package's answer for a ``change`` such as "communication=0.5" (a family of kernels) beside the truth."""
    family, _, factor = change.partition("=")
    changed = program.simulate(lambda kernel: float(factor) if kernel.family == family else 1.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "device.json"
        path.write_text(json.dumps(program.document(records, hip)))
        steps, found = what_if(path, change)
    for one in steps:
        one["true_before_us"] = program.span_us(program.recorded, int(one["step"]))
        one["true_after_us"] = program.span_us(changed, int(one["step"]))
    kernel = {program.correlation(one.index): one.index for one in program.kernels}
    return Comparison(steps, {(kernel[one], kernel[other]): proven for (one, other), proven in found.items()})


def what_if(path: Path, change: str) -> tuple[list[dict[str, float]], dict[tuple[int, int], bool]]:
    """The one place that asks the package: its steps (step, before_us, after_us, delay_only_share), and the waits
    between streams that it knows as correlation ids (waiting, awaited), with whether a record proves them."""
    from chakrasim.linker.api import link
    from chakrasim.scenarios.asked import asked_of
    from chakrasim.scenarios.recorded import ask_recorded
    from chakrasim.trace.linked.columns import EdgeKind, Evidence

    linked = link(None, path)
    own = linked.edge_kind == EdgeKind.EVENT_WAIT
    waiting, awaited = (linked.correlation[rows[own]].tolist() for rows in (linked.edge_target, linked.edge_source))
    proven = (linked.edge_evidence[own] == Evidence.SYNC_RECORD).tolist()
    answer = ask_recorded(linked, [asked_of(change)]).to_dict()
    return answer["steps"], dict(zip(zip(waiting, awaited, strict=True), proven, strict=True))
