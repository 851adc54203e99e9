"""Small device traces, made event by event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from chakrasim.linker.api import link
from chakrasim.trace.linked.columns import LinkedTrace

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


class MadeTrace:
    """A Kineto trace of one rank; times in microseconds. ``clock`` is added to all of them."""

    def __init__(self, rank: int = 0, ranks: int = 2, clock: float = 0, host: str = "") -> None:
        self.rank, self.ranks, self.clock = rank, ranks, clock
        self.events: list[dict[str, Any]] = []
        self.header: dict[str, Any] = {"distributedInfo": {"rank": rank, "world_size": ranks, "backend": "nccl"}}
        if host:
            self.header["host_name"] = host
        self.next = 100

    def event(self, category: str, name: str, ts: float, dur: float, thread: int = 7, **args: Any) -> None:
        """A host event."""
        self._add(category, name, 1, thread, ts, dur, args)

    def operator(self, name: str, ts: float, dur: float, **args: Any) -> None:
        """An operator on thread 7."""
        self.event("cpu_op", name, ts, dur, **args)

    def record(self, name: str, ts: float, dur: float, elements: int = 250, **args: Any) -> None:
        """``record_param_comms`` of a collective of floats in the group "0" of all ranks."""
        said = {
            "Collective name": name,
            "In msg nelems": elements,
            "Out msg nelems": elements,
            "dtype": "Float",
            "Group size": self.ranks,
            "Process Group Name": "0",
            "Process Group Description": "default_pg",
            "Process Group Ranks": str(list(range(self.ranks))),
        }
        self.operator("record_param_comms", ts, dur, **(said | args))

    def kernel(
        self, ts: float, dur: float, launch: float | None, name: str = NCCL, stream: int = 20, **args: Any
    ) -> None:
        """A kernel, and its launch on thread 7 (None: lost)."""
        self.next += 1
        said = {"correlation": self.next, "External id": self.next, "device": 0, "stream": stream} | args
        if launch is not None:
            self.event("cuda_runtime", "cudaLaunchKernelExC", launch, 1, correlation=said["correlation"])
        self._add("kernel", name, 0, stream, ts, dur, said)

    def all_reduce(self, ts: float, dur: float, elements: int = 250, **args: Any) -> None:
        """A recorded all-reduce: launched 5 us before it starts."""
        self.record("allreduce", ts - 8, 6, elements, **args)
        self.kernel(ts, dur, ts - 5)

    def save(self, path: Path) -> Path:
        """Write the trace."""
        path.write_text(json.dumps({**self.header, "traceEvents": self.events}))
        return path

    def link(self, folder: Path, **files: Any) -> LinkedTrace:
        """The linked trace."""
        return link(device=self.save(folder / f"device.{self.rank}.json"), **files)

    def _add(self, cat: str, name: str, pid: int, tid: int, ts: float, dur: float, args: dict[str, Any]) -> None:
        event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "dur": dur, "args": args}
        self.events.append(event | {"ts": 1_000_000 + ts + self.clock})


def texts(linked: LinkedTrace, column: Any) -> list[str]:
    """The strings of a column of indices."""
    return [linked.strings[int(index)] for index in column]
