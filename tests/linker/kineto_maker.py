"""Small Kineto traces from a terse description. Times are microseconds after a fixed moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from chakrasim.trace.kineto.columns import KinetoTrace
from chakrasim.trace.kineto.read import read_kineto

#: Added to all times that are numbers: a realistic moment, in microseconds.
BASE = 1_700_000_000_000_000


class KinetoMaker:
    """Collects events; every method returns ``self``, so that calls can be chained.

    A time given as text is written as it is.
    """

    def __init__(self, folder: Path, pid: int = 100, **header: Any) -> None:
        self.folder, self.pid, self.header = folder, pid, header
        self.events: list[dict[str, Any]] = []

    def event(
        self, category: str, name: str, ts: float | str, dur: float | str, pid: Any, tid: Any, **args: Any
    ) -> KinetoMaker:
        """Any complete event; keyword arguments become its ``args`` (``_`` for a space)."""
        numbers = {key: value if isinstance(value, str) else _text(value, key) for key, value in
                   (("ts", ts), ("dur", dur))}  # fmt: skip
        self.events.append(
            {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "args": args}
            | {key: f"@{value}@" for key, value in numbers.items()}
        )
        return self

    def op(self, name: str, ts: float | str, dur: float | str, tid: int = 1, **args: Any) -> KinetoMaker:
        """An operator of the host."""
        return self.event("cpu_op", name, ts, dur, self.pid, tid, **args)

    def call(
        self, name: str, ts: float, dur: float, correlation: int, tid: int = 1, category: str = "cuda_runtime",
        **args: Any,
    ) -> KinetoMaker:  # fmt: skip
        """A call of the runtime."""
        return self.event(category, name, ts, dur, self.pid, tid, correlation=correlation, **args)

    def kernel(
        self, name: str, ts: float, dur: float, correlation: int | None, stream: Any = 7, device: int = 0,
        category: str = "kernel", **args: Any,
    ) -> KinetoMaker:  # fmt: skip
        """Work of the device."""
        known = {} if correlation is None else {"correlation": correlation}
        return self.event(category, name, ts, dur, device, stream, device=device, stream=stream, **known, **args)

    def copy(self, name: str, ts: float, dur: float, correlation: int, stream: int = 7) -> KinetoMaker:
        """A copy by the device."""
        return self.kernel(name, ts, dur, correlation, stream, category="gpu_memcpy")

    def launch(
        self, name: str, at: float, ts: float, dur: float, correlation: int, stream: int = 7, tid: int = 1,
        device: int = 0, call: str = "cudaLaunchKernel",
    ) -> KinetoMaker:  # fmt: skip
        """A kernel and its launch at ``at``, which takes 5 us."""
        self.call(call, at, 5, correlation, tid)
        return self.kernel(name, ts, dur, correlation, stream, device)

    def sync(
        self, what: str, ts: float, dur: float, correlation: int, stream: int = -1, device: int = 0,
        on_stream: int | None = None, record: int | None = None,
    ) -> KinetoMaker:  # fmt: skip
        """A synchronisation record."""
        args: dict[str, Any] = {"cuda_sync_kind": what, "correlation": correlation, "stream": stream, "device": device}
        if on_stream is not None:
            args["wait_on_stream"] = on_stream
        if record is not None:
            args["wait_on_cuda_event_record_corr_id"] = record
        return self.event("cuda_sync", what, ts, dur, device, stream, **args)

    def note(self, name: str, ts: float | str, dur: float | str, tid: int = 1) -> KinetoMaker:
        """A user annotation."""
        return self.event("user_annotation", name, ts, dur, self.pid, tid)

    def write(self, name: str = "device.json") -> Path:
        """The file."""
        text = json.dumps({"schemaVersion": 1, **self.header, "traceEvents": self.events})
        path = self.folder / name
        path.write_text(text.replace('"@', "").replace('@"', ""))
        return path

    def read(self) -> KinetoTrace:
        """The trace, as the linker reads it."""
        return read_kineto(self.write(), keep="work")


def _text(value: float, key: str) -> str:
    nanoseconds = round(value * 1000) + (BASE * 1000 if key == "ts" else 0)
    sign = "-" if nanoseconds < 0 else ""
    return f"{sign}{abs(nanoseconds) // 1000}.{abs(nanoseconds) % 1000:03d}"
