"""A program that ran, as PyTorch writes its traces, with more or less of what proves its dependencies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from linker.program_run import Action, Program

#: What a trace shows of waits: calls and records of synchronisation; calls; calls that wait, but none that record
#: events (as ROCm and older profilers write them); none. Calls by which the host waits are always there.
Records = Literal["sync", "calls", "waits", "none"]
BASE_NS = 3_743_411_222_000_000
_PID, _MAIN = 100, 100
FIRST = 1000
"""Correlation id of the first action."""
#: What threads do that no trace shows.
UNSEEN = ("work", "hand")
_CALLS = {"record": "EventRecord", "wait": "StreamWaitEvent", "device": "DeviceSynchronize",
          "stream": "StreamSynchronize", "event": "EventSynchronize"}  # fmt: skip
_SYNCS = {"wait": "Stream Wait Event", "device": "Context Sync", "stream": "Stream Sync", "event": "Event Sync"}


def document(program: Program, records: Records, hip: bool) -> dict[str, Any]:
    """The trace as it is before it becomes JSON."""
    return _Writer(program, records, hip).document()


class _Writer:
    def __init__(self, program: Program, records: Records, hip: bool) -> None:
        self.program, self.records, self.hip = program, records, hip
        self.recorded = {one.event: (at, one.stream) for at, one in enumerate(program.actions) if one.what == "record"}
        self.events: list[dict[str, Any]] = []

    def document(self) -> dict[str, Any]:
        inside: dict[int, list[int]] = {}
        for at, one in enumerate(self.program.actions):
            around = inside.setdefault(one.thread, [])
            if one.what == "begin":
                ids = {"External id": at + 1, "Record function id": at + 1}
                self._add(one.category, one.name, self.program.recorded.actions[at], _PID, _MAIN + one.thread, **ids)
                around.append(at + 1)
            elif one.what == "end":
                around.pop()
            elif one.what not in UNSEEN:
                self._call(at, one, {"External id": around[-1]} if around else {})
        name = "AMD Instinct MI300X" if self.hip else "NVIDIA H100"
        return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": name}], "traceEvents": self.events}

    def _add(self, category: str, name: str, time: tuple[int, int], pid: int, tid: int, **args: Any) -> None:
        start, end = time
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid,
                            "ts": (BASE_NS + start) / 1000, "dur": (end - start) / 1000, "args": args})  # fmt: skip

    def _call(self, at: int, one: Action, ids: dict[str, int]) -> None:
        shown = {"none": (), "waits": ("wait",)}.get(self.records, ("record", "wait"))
        if one.what in ("record", "wait") and one.what not in shown:
            return
        time, correlation = self.program.recorded.actions[at], {"correlation": at + FIRST}
        name = ("hip" if self.hip else "cuda") + (_CALLS[one.what] if one.what in _CALLS else self._launcher(one))
        self._add("cuda_runtime", name, time, _PID, _MAIN + one.thread, **ids, **correlation)
        where = {"device": 0, "stream": one.stream}
        if one.what == "launch":
            kernel = self.program.kernels[one.kernel]
            generic = self.hip and kernel.family == "communication"
            shown_name = "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)" if generic else kernel.name
            category = "gpu_memcpy" if kernel.family == "memory" else "kernel"
            ran = self.program.recorded.kernels[one.kernel]
            self._add(category, shown_name, ran, 0, one.stream, **ids, **where, **correlation)
        elif self.records == "sync" and one.what in _SYNCS:
            what = _SYNCS[one.what]
            if one.what in ("wait", "event"):
                source, stream = self.recorded[one.event]
                where |= {"wait_on_stream": stream, "wait_on_cuda_event_record_corr_id": source + FIRST,
                          "wait_on_cuda_event_id": one.event}  # fmt: skip
            self._add("cuda_sync", what, time, 0, one.stream, cuda_sync_kind=what, **ids, **where, **correlation)

    def _launcher(self, one: Action) -> str:
        family = self.program.kernels[one.kernel].family
        if family == "memory":
            return "MemcpyAsync"
        special = "ExtLaunchKernel" if self.hip else "LaunchKernelExC"
        return special if family == "communication" else "LaunchKernel"
