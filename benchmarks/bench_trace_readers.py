"""Reading Kineto and host traces: events and megabytes a second, and memory, against the standard library's parser.

Run: ``python benchmarks/bench_trace_readers.py [KINETO [MEGABYTES [HOST]]]``. KINETO, a real trace (a made one, if none
is named), is repeated to so many megabytes (200). Each measurement is of a process of its own, with warm caches: the
reading itself (best of three), and the growth of resident memory per byte of the file (Linux).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from synthetic_kineto import write_repeated

_READ = """
import json, sys, time
from chakrasim.trace import read_host, read_kineto
def resident(key):
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith(key)).split()[1]) * 1024
what, path, small = sys.argv[1:]
read = {
    "all": read_kineto,
    "work": lambda path: read_kineto(path, keep="work"),
    "host": read_host,
    "json": lambda path: json.load(open(path, "rb")),
}[what]
read(small)
before, spans = resident("VmRSS"), []
for _ in range(1 if what == "json" else 3):
    start = time.perf_counter()
    trace = read(path)
    spans.append(time.perf_counter() - start)
    if len(spans) == 1:
        peak, kept = resident("VmHWM") - before, resident("VmRSS") - before
    rows = len(trace.get("traceEvents", trace.get("nodes", ()))) if what == "json" else len(trace)
    del trace
print(json.dumps([min(spans), peak, kept, rows]))
"""


def _made(folder: Path) -> Path:
    """A trace of operators, launches, kernels and arrows, as a profiler writes them."""
    events: list[dict[str, object]] = []
    for at in range(2000):
        start = 1_700_000_000_000_000.25 + 20 * at
        args: dict[str, object] = {"External id": at + 1, "Record function id": at + 1, "Ev Idx": at}
        args |= {"Input Dims": [[at % 64, 128], []], "Input type": ["float", "Scalar"], "Sequence number": at // 3}
        operator = {"ph": "X", "cat": "cpu_op", "name": f"aten::op{at % 150}", "pid": 4000, "tid": 4000, "ts": start}
        events.append({**operator, "dur": 12.125, "args": args})
        args = {"External id": at + 1, "cbid": 211, "correlation": at + 1}
        launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4000, "tid": 4000}
        events.append({**launch, "ts": start + 3, "dur": 4.5, "args": args})
        args = {"External id": at + 1, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": at + 1}
        args |= {"registers per thread": 32, "shared memory": 0, "blocks per SM": 0.148148, "grid": [16, 1, 1]}
        kernel = {"ph": "X", "cat": "kernel", "name": f"void at::kernel{at % 90}<float, 4>(int)", "pid": 0, "tid": 7}
        events.append({**kernel, "ts": start + 9, "dur": 8.0, "args": args})
        arrow = {"id": at + 1, "pid": 4000, "tid": 4000, "ts": start + 3, "cat": "ac2g", "name": "ac2g"}
        events += [{"ph": "s", **arrow}, {"ph": "f", **arrow, "bp": "e"}]
    path = folder / "made.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def _measure(what: str, path: Path, small: Path) -> None:
    command = [sys.executable, "-c", _READ, what, str(path), str(small)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds, peak, kept, rows = json.loads(text)
    size = os.path.getsize(path)
    print(
        f"{what:5} {seconds * 1e3:9.1f} ms {rows / seconds / 1e6:7.2f} M rows/s {size / seconds / 1e6:6.0f} MB/s; "
        f"memory per byte of file: {peak / size:.2f} at the peak, {kept / size:.2f} kept; {rows} rows"
    )


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = Path(sys.argv[1]) if len(sys.argv) > 1 else _made(folder)
        megabytes = float(sys.argv[2]) if len(sys.argv) > 2 else 200
        large, small = folder / "large.json", folder / "small.json"
        events = write_repeated(source, large, megabytes)
        write_repeated(_made(folder), small, 0)
        print(f"Kineto: {events} events, {os.path.getsize(large) / 1e6:.0f} MB")
        for what in ("work", "all", "json"):
            _measure(what, large, small)
        if len(sys.argv) > 3:
            print(f"host: {sys.argv[3]}")
            _measure("host", Path(sys.argv[3]), Path(sys.argv[3]))


if __name__ == "__main__":
    main()
