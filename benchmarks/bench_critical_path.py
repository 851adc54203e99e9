"""Speed and memory of the critical path as HTA computes it, of a whole trace.

Run: ``python benchmarks/bench_critical_path.py [EVENTS]`` (default 1.7 million). Prints, for both versions, seconds
(best of three), graph nodes a second, and the growth of resident memory per graph node, measured in a process of its
own (Linux). For comparison: HTA took 91 s and 2 kB a node on a trace of this size.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from chakrasim.compat.hta_critical_path.path import critical_path
from chakrasim.trace.kineto.columns import KinetoTrace, RareColumn
from chakrasim.trace.kineto.read import read_kineto

_MEMORY = """
import sys
sys.path.insert(0, sys.argv[1])
from bench_critical_path import repeated, sample
from chakrasim.compat.hta_critical_path.path import critical_path
def resident(key):
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith(key)).split()[1]) * 1024
part = sample()
critical_path(part, version=sys.argv[3], annotation="", instance=None)
trace = repeated(part, int(sys.argv[2]))
before = resident("VmRSS")
path = critical_path(trace, version=sys.argv[3], annotation="", instance=None)
print(max(resident("VmHWM") - before, 0) / path.graph_nodes)
"""


def sample(launches: int = 2000) -> KinetoTrace:
    """Operators in three levels, a launch in each third one, its kernel, and a synchronisation now and then."""
    events: list[dict[str, Any]] = []
    base = 10**12
    free = 0

    def add(name: str, category: str, ts: int, dur: int, pid: int, tid: int, **args: int) -> None:
        shape = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid}
        events.append(shape | {"ts": base + ts, "dur": dur, "args": args})

    for number in range(launches):
        at = number * 60
        add("aten::linear", "cpu_op", at, 50, 1, 1)
        add("aten::matmul", "cpu_op", at + 2, 44, 1, 1)
        add("aten::mm", "cpu_op", at + 4, 40, 1, 1)
        add("cudaLaunchKernel", "cuda_runtime", at + 10, 6, 1, 1, correlation=number + 1)
        begin = max(free, at + 18)
        add("gemm", "kernel", begin, 20 + number % 50, 0, 7, correlation=number + 1, stream=7, device=0)
        free = begin + 20 + number % 50
        if number % 100 == 99:
            wait = {"correlation": launches + number}
            add("cudaStreamSynchronize", "cuda_runtime", at + 20, 8, 1, 1, **wait)
            add("Stream Sync", "cuda_sync", at + 20, 8, 0, 7, stream=7, device=0, **wait)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_text(json.dumps({"traceEvents": events}))
        return read_kineto(path)


def repeated(trace: KinetoTrace, times: int) -> KinetoTrace:
    """The trace ``times`` times, one after the other."""
    count = len(trace)
    copy = np.repeat(np.arange(times), count)
    span = int((trace.ts_ns + trace.dur_ns).max() - trace.ts_ns.min()) + 1000
    columns: dict[str, Any] = {}
    for field in fields(KinetoTrace):
        value = getattr(trace, field.name)
        if isinstance(value, np.ndarray):
            columns[field.name] = np.tile(value, times)
    columns["index"] = np.arange(count * times, dtype=np.int32)
    columns["ts_ns"] = columns["ts_ns"] + copy * (span // 1000 * 1000)
    known = columns["correlation"] >= 0
    columns["correlation"] = np.where(known, columns["correlation"] + copy * (int(trace.correlation.max()) + 1), -1)
    rare = {
        name: RareColumn(
            (np.tile(column.rows, times) + np.repeat(np.arange(times), len(column.rows)) * count).astype(np.int32),
            np.tile(column.kind, times),
            np.tile(column.bits, times),
        )
        for name, column in trace.rare.items()
    }
    return replace(trace, **columns, rare=rare, event_count=count * times)


def main() -> None:
    """Measure and print."""
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_700_000
    part = sample()
    times = max(1, events // len(part))
    trace = repeated(part, times)
    for version in ("new", "pinned"):
        critical_path(part, version=version, annotation="", instance=None)  # compiles
        best = float("inf")
        for _ in range(3):
            began = time.perf_counter()
            path = critical_path(trace, version=version, annotation="", instance=None)
            best = min(best, time.perf_counter() - began)
        arguments = [sys.executable, "-c", _MEMORY, str(Path(__file__).parent), str(times), version]
        bytes_per_node = float(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)
        print(
            f"{version}: {len(trace)} events, {path.graph_nodes} nodes, {len(path.path_nodes)} on the path: "
            f"{best:.2f} s, {path.graph_nodes / best / 1e6:.2f} M nodes/s, {bytes_per_node:.0f} bytes a node"
        )


if __name__ == "__main__":
    main()
