"""Local memory tracking: peak and trace, from tensors that nodes name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import chakrasim as cs
from chakrasim.report.timeline.memory import write_memory_traces

SYSTEM = {
    "scheduling-policy": "LIFO",
    "preferred-dataset-splits": 1,
    "collective-optimization": "localBWAware",
    "local-mem-bw": 100,
    "track-local-mem": 1,
}
NETWORK = {"topology": ["Switch"], "npus_count": [2], "bandwidth": [1.0], "latency": [1.0]}


def trace(*nodes: tuple[list[str], list[str]]) -> cs.Trace:
    """A chain of computations of 1 us each, with the tensors that they read and write."""
    builder = cs.TraceBuilder()
    for i, (inputs, outputs) in enumerate(nodes):
        attrs: dict[str, Any] = {"inputs": {"string_list": inputs}, "outputs": {"string_list": outputs}}
        builder.add(i, name=f"op{i}", type=4, duration_micros=1, data_deps=[i - 1] if i else [], attrs=attrs)
    return builder.build()


def run(*nodes: tuple[list[str], list[str]]) -> cs.SimulationResult:
    return cs.simulate(trace(*nodes), ranks=2, system=SYSTEM, network=NETWORK)


def test_peak_counts_tensors_from_first_write_to_last_read() -> None:
    result = run((["w", "100"], ["a", "10"]), (["a", "10"], ["b", "20"]), (["b", "20"], []))
    # w lives from 0 to 1000, a from 0 to 2000, b from 1000 to 3000: most at 0 (110), then 30 at 1000.
    assert result.peak_memory_bytes is not None
    assert result.peak_memory_bytes.tolist() == [110, 110]


def test_a_tensor_that_nobody_reads_stays() -> None:
    result = run(([], ["a", "10"]), ([], ["b", "20"]))
    assert result.peak_memory_bytes is not None
    assert result.peak_memory_bytes.tolist() == [30, 30]


def test_a_second_write_is_refused() -> None:
    with pytest.raises(cs.InputError, match="'a' is written twice"):
        run(([], ["a", "10"]), ([], ["a", "10"]))


def test_a_list_of_odd_length_is_refused() -> None:
    with pytest.raises(cs.InputError, match="does not list tensors"):
        run(([], ["a"]))


def test_nodes_without_lists_are_counted_and_left_out() -> None:
    builder = cs.TraceBuilder()
    builder.add(0, type=4, duration_micros=1)
    result = cs.simulate(builder.build(), ranks=2, system=SYSTEM, network=NETWORK, fold=False)
    assert result.peak_memory_bytes is not None
    assert result.peak_memory_bytes.tolist() == [0, 0]
    assert any("2 nodes name no tensors" in warning for warning in result.warnings)


def test_the_trace_file_shows_every_read_and_write(tmp_path: Path) -> None:
    result = run(([], ["a", str(2**20)]), (["a", str(2**20)], []))
    paths = write_memory_traces(result, str(tmp_path / "mem"))
    assert [Path(path).name for path in paths] == ["mem.0.json", "mem.1.json"]
    events = json.loads(Path(paths[1]).read_text())["traceEvents"]
    reads = [(e["ph"], e["ts"], e["pid"]) for e in events if e["cat"] == "tensorRead"]
    assert reads == [("B", 1.0, 1), ("E", 2.0, 1)]
    counter = [(e["ts"], e["args"]["Memory_MB"]) for e in events if e["ph"] == "C"]
    assert counter == [(0.0, 1.0), (2.0, 0.0)]
