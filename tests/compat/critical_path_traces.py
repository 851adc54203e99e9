"""Random Kineto traces for critical paths: few events, rich in ties, waits and things that do not fit."""

from __future__ import annotations

from random import Random
from typing import Any

Event = dict[str, Any]
BASE_US = 10**12
LAUNCHES = [
    *["cudaLaunchKernel"] * 4,
    *("cudaMemcpyAsync", "cudaMemsetAsync", "cuLaunchKernel", "cudaLaunchKernelExC", "cudaGraphLaunch"),
    *("cuLaunchKernelEx", "hipLaunchKernel"),
]
OPERATORS = ["aten::mm", "aten::add", "autograd::engine", "forward_op", "data_load"]
KERNELS = [
    "k1",
    "ncclDevKernel_AllReduce",
    "void ncclKernel_x<int>(a)",
    "Memcpy DtoH (Device -> Host)",
    "void k<a b>(int)",
]


class TraceMaker:
    """One trace; ``document`` is what a file would hold."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.clean = random.random() < 0.6
        self.fractions = not self.clean and random.random() < 0.5
        self.streams = random.choice([[7], [7, 20], [7, 20, 23], [0, 7]])
        self.devices = random.choice([[0], [0], [0, 1]])
        self.events: list[Event] = []
        self.correlation = 0
        self.busy: dict[tuple[int, int], int] = {}
        self.recorded: dict[int, tuple[int, int]] = {}
        steps = random.choice([0, 1, 1, 2, 3])
        at = 0
        for step in range(max(steps, 1)):
            span = max(self._thread(at, number + 1) for number in range(random.choice([1, 1, 2, 3]))) - at
            span = max(span, 60)
            if steps:
                self._add(f"ProfilerStep#{step + 10}", "user_annotation", at, span + random.choice([0, 1, 5]), 100, 1)
                if random.random() < 0.3:
                    self._add(f"ProfilerStep#{step + 10}", "gpu_user_annotation", at + 5, span, 0, 7)
            at += span + random.choice([0, 1, 10])
        if random.random() < 0.6:
            random.shuffle(self.events)
        self.document = {"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": self.events}

    def _add(self, name: str, category: str, ts: int, dur: int, pid: int, tid: int, **args: Any) -> Event:
        fraction = [round(self.random.random(), 3) if self.fractions else 0 for _ in range(2)]
        event = {"ph": "X", "name": name, "cat": category, "ts": BASE_US + ts + fraction[0], "dur": dur + fraction[1]}
        self.events.append(event | {"pid": pid, "tid": tid, "args": args})
        return self.events[-1]

    def _thread(self, at: int, tid: int) -> int:
        random = self.random
        for _ in range(random.randrange(1, 6)):
            at += random.choice([0, 0, 1, 2, 5, 20])
            if random.random() < 0.15:
                name = random.choice(["fwd forward", "autograd::x", "user"])
                self._add(name, "user_annotation", at, random.randrange(1, 40), 100, tid)
            opened = []
            for _ in range(random.randrange(3)):
                category = random.choice(["cpu_op"] * 6 + ["python_function"])
                dur = random.choice([0, 5, 10, 20, 30, 60])
                opened.append((self._add(random.choice(OPERATORS), category, at, dur, 100, tid), at))
                at += random.choice([0, 1, 2])
            for _ in range(random.randrange(3)):
                at = self._call(at, tid)
            if self.clean:
                for depth, (event, begin) in enumerate(reversed(opened)):
                    event["dur"] = at - begin + depth + 1
                at += len(opened)
        return at

    def _call(self, at: int, tid: int) -> int:
        random = self.random
        self.correlation += 1
        lane = random.choice(self.devices), random.choice(self.streams)
        choice = random.random()
        if choice < 0.6:
            return self._launch(at, tid, lane)
        if choice < 0.7:
            name = random.choice(["cudaEventRecord"] * 5 + ["cudaEventRecordWithFlags"])
            self._add(name, "cuda_runtime", at, random.choice([0, 1, 2]), 100, tid, correlation=self.correlation)
            self.recorded[self.correlation] = lane
            return at + random.choice([2, 3])
        if choice < 0.85 and self.recorded:
            return self._wait(at, tid, lane)
        return self._synchronise(at, tid, lane)

    def _launch(self, at: int, tid: int, lane: tuple[int, int]) -> int:
        random = self.random
        dur = random.choice([0, 1, 3, 8, 20, 50])
        ids = {"correlation": self.correlation, "External id": random.choice([self.correlation, 5])}
        category = random.choice(["cuda_runtime"] * 5 + ["cuda_driver"])
        self._add(random.choice(LAUNCHES), category, at, dur, 100, tid, **ids)
        if random.random() < 0.97:
            free = self.busy.get(lane, 0) if random.random() < 0.9 else 0
            if self.clean:
                free = max(self.busy.get((device, lane[1]), 0) for device in self.devices)
            begin = max(free, at + random.choice([0, 0, 1, 5, 30])) + (1600 if random.random() < 0.05 else 0)
            length = random.choice([0, 1, 5, 30, 100])
            category = random.choice(["kernel"] * 4 + ["gpu_memcpy", "gpu_memset"])
            self._add(random.choice(KERNELS), category, begin, length, *lane, stream=lane[1], device=lane[0], **ids)
            self.busy[lane] = begin + length + random.choice([0, 0, 1, 2])
        return at + random.choice([dur, dur + 1] if self.clean else [dur, dur, dur + 1, dur // 2])

    def _wait(self, at: int, tid: int, lane: tuple[int, int]) -> int:
        random = self.random
        record = random.choice(list(self.recorded))
        device, stream = self.recorded[record]
        waits = {"wait_on_stream": stream, "wait_on_cuda_event_record_corr_id": record, "device": device}
        waits["correlation"] = self.correlation
        if random.random() < 0.5:
            dur = random.choice([1, 2])
            self._add("cudaStreamWaitEvent", "cuda_runtime", at, dur, 100, tid, correlation=self.correlation)
            if random.random() < 0.9:
                begin = max(at, self.busy.get(lane, 0))
                length = random.choice([0, 1])
                self._add("Stream Wait Event", "cuda_sync", begin, length, device, lane[1], stream=lane[1], **waits)
            return at + dur
        dur = random.choice([1, 20, 60])
        name = random.choice(["cudaEventSynchronize", "cudaEventQuery"])
        self._add(name, "cuda_runtime", at, dur, 100, tid, correlation=self.correlation)
        self._add("Event Sync", "cuda_sync", at, dur, device, -1, stream=-1, **waits)
        return at + dur

    def _synchronise(self, at: int, tid: int, lane: tuple[int, int]) -> int:
        random = self.random
        dur = random.choice([1, 30, 80, 150])
        whole = random.random() < 0.5
        ids = {"correlation": self.correlation}
        name = "cudaDeviceSynchronize" if whole else "cudaStreamSynchronize"
        self._add(name, "cuda_runtime", at, dur, 100, tid, **ids)
        if random.random() < 0.9:
            record, stream = ("Context Sync", -1) if whole else ("Stream Sync", lane[1])
            self._add(record, "cuda_sync", at + random.choice([0, 1]), dur, lane[0], stream, stream=stream, **ids)
        return at + dur


def random_question(random: Random) -> tuple[str, Any, bool]:
    """An annotation, an instance, and whether to link all launches."""
    annotation = random.choice(["ProfilerStep", "ProfilerStep", "", "forward"])
    return annotation, random.choice([0, 0, None, 1, -1, (0, 1)]), random.random() < 0.3
