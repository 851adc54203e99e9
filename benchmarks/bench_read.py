"""Reading speed: this package against a Python loop over the official protobuf classes that collects the same columns.

Run: ``python benchmarks/bench_read.py [NODES]``. Prints times (best of five), their ratio, and the growth of resident
memory per byte of the uncompressed file, measured in a process of its own (Linux). Needs ``protobuf``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "trace"))

import official

import chakrasim.trace as ct

_MEMORY = """
import sys
from pathlib import Path
import chakrasim.trace as ct
def resident(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(key)).split()[1]) * 1024
ct.read_trace(sys.argv[2])
before = resident("VmRSS")
trace = ct.read_trace(sys.argv[1])
print(resident("VmHWM") - before, resident("VmRSS") - before)
"""


def sample(nodes: int) -> ct.Trace:
    """A trace like a converter's: names that repeat little, five attributes a node."""
    builder = ct.TraceBuilder(metadata={"schema": "benchmark"})
    for at in range(nodes):
        builder.add(
            at,
            f"layer{at % 97}.op{at}",
            7 if at % 5 == 0 else 4,
            data_deps=[at - 1] if at else [],
            ctrl_deps=[at // 2] if at else [],
            duration_micros=at % 1000,
            attrs={
                "is_cpu_op": at % 2 == 0,
                "num_ops": at * 1000,
                "tensor_size": {"uint64_val": at * 64},
                "comm_size": at * 8,
                "pg_name": str(at % 8),
            },
        )
    return builder.build()


def official_columns(data: bytes) -> dict[str, list[Any]]:
    """The columns of `ct.Trace`, by the official classes."""
    names = ("ids", "types", "names", "start", "duration", "ctrl", "data", "io", "attr_name", "attr_kind", "attr_value")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    columns["ends"] = []
    for body in official.bodies(data)[1:]:
        node = official.Node.FromString(body)
        columns["ids"].append(node.id)
        columns["types"].append(node.type)
        columns["names"].append(node.name)
        columns["start"].append(node.start_time_micros)
        columns["duration"].append(node.duration_micros)
        columns["ctrl"].extend(node.ctrl_deps)
        columns["data"].extend(node.data_deps)
        columns["io"].append((node.inputs if node.HasField("inputs") else None, node.HasField("outputs")))
        for attr in node.attr:
            kind = attr.WhichOneof("value")
            columns["attr_name"].append(attr.name)
            columns["attr_kind"].append(kind)
            columns["attr_value"].append(getattr(attr, kind))
        columns["ends"].append((len(columns["ctrl"]), len(columns["data"]), len(columns["attr_name"])))
    return columns


def best(function: Callable[[], object], times: int) -> float:
    """The shortest of several runs, seconds."""
    spans = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        spans.append(time.perf_counter() - start)
    return min(spans)


def main() -> None:
    """Measure and print."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    data = ct.encode_trace(sample(nodes))
    small = ct.encode_trace(sample(3))
    ct.parse_trace(data)
    ours = best(lambda: ct.parse_trace(data), 5)
    theirs = best(lambda: official_columns(data), 2)
    print(f"file: {nodes} nodes, {len(data) / 1e6:.1f} MB")
    print(f"chakrasim {ours * 1e3:8.1f} ms  {len(data) / ours / 1e6:6.0f} MB/s")
    print(f"protobuf  {theirs * 1e3:8.1f} ms  {len(data) / theirs / 1e6:6.0f} MB/s")
    print(f"ratio     {theirs / ours:8.1f}")
    print(f"encoding  {best(lambda: ct.encode_trace(ct.parse_trace(data)), 3) * 1e3 - ours * 1e3:8.1f} ms")
    print(f"a file of {len(small)} bytes: {best(lambda: ct.parse_trace(small), 200) * 1e6:.0f} us")
    with tempfile.TemporaryDirectory() as folder:
        large, little = Path(folder) / "large.et", Path(folder) / "little.et"
        large.write_bytes(data)
        little.write_bytes(small)
        command = [sys.executable, "-c", _MEMORY, str(large), str(little)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        peak, kept = (int(part) / len(data) for part in text.split())
        print(f"resident memory per byte of file: {peak:.2f} at the peak, {kept:.2f} afterwards")


if __name__ == "__main__":
    main()
