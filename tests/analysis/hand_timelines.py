"""Kineto traces made by hand, with times in nanoseconds from the trace's beginning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from chakrasim.analysis.table.traces import RankTrace, open_traces

BASE_NS = 1_700_000_000_000_000_000


class Timeline:
    """Events of one process: thread 1 of process 100, streams of device 0 unless said otherwise."""

    def __init__(self, rank: int | None = 0, base_ns: int = BASE_NS) -> None:
        self.rank = rank
        self.base_ns = base_ns
        self.events: list[dict[str, Any]] = []
        self.correlation = 0

    def add(self, category: str, name: str, start: int, length: int, pid: int = 100, tid: int = 1, **args: Any) -> int:
        """Add an event; its index."""
        times = {"ts": _Raw(self.base_ns + start), "dur": _Raw(length)}
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, **times, "args": args})
        return len(self.events) - 1

    def op(self, name: str, start: int, length: int, tid: int = 1, **args: Any) -> int:
        """An operator."""
        return self.add("cpu_op", name, start, length, tid=tid, **args)

    def step(self, number: int, start: int, length: int) -> int:
        """A profiler step."""
        return self.add("user_annotation", f"ProfilerStep#{number}", start, length)

    def kernel(
        self,
        name: str,
        start: int,
        length: int,
        *,
        stream: int = 7,
        device: int = 0,
        launch: tuple[int, int] | None = None,
        call: str = "cudaLaunchKernel",
        category: str = "kernel",
        correlation: int | None = None,
        tid: int = 1,
        **args: Any,
    ) -> int:
        """A piece of device work, launched by ``call`` at ``launch`` (start, length) if that is given."""
        if correlation is None:
            self.correlation += 1
            correlation = self.correlation
        if launch is not None:
            self.add("cuda_runtime", call, *launch, tid=tid, correlation=correlation)
        where = {"device": device, "stream": stream, "correlation": correlation}
        return self.add(category, name, start, length, pid=device, tid=stream, **where, **args)

    def sync(self, name: str, start: int, length: int, *, stream: int = -1, device: int = 0) -> int:
        """A synchronisation record."""
        self.correlation += 1
        where = {"device": device, "stream": stream, "correlation": self.correlation}
        return self.add("cuda_sync", name, start, length, pid=device, tid=max(stream, 0), **where)

    def write(self, path: Path) -> Path:
        """Write the trace; its path."""
        info = {} if self.rank is None else {"distributedInfo": {"backend": "nccl", "rank": self.rank, "world_size": 8}}
        text = json.dumps(info | {"schemaVersion": 1, "traceEvents": self.events}, cls=_Encoder)
        for event in self.events:
            for key in ("ts", "dur"):
                text = text.replace(f'"{event[key]}"', event[key].decimal)
        path.write_text(text)
        return path

    def open(self, folder: Path) -> list[RankTrace]:
        """The trace as the analyses take it."""
        return open_traces(self.write(folder / f"rank-{self.rank}.json"))


class _Raw:
    """A time that JSON gets as an exact decimal."""

    def __init__(self, ns: int) -> None:
        sign = "-" if ns < 0 else ""
        self.decimal = f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}" if ns % 1000 else f"{ns // 1000}"
        self.mark = f"@{ns}@"

    def __str__(self) -> str:
        return self.mark


class _Encoder(json.JSONEncoder):
    def default(self, o: Any) -> Any:
        return str(o) if isinstance(o, _Raw) else super().default(o)
