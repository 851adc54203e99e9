"""Small runs whose figures are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import chakrasim
from chakrasim import SimulationResult
from chakrasim.trace import Trace, TraceBuilder

SYSTEM: dict[str, Any] = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 2,
    "all-reduce-implementation": ["ring"],
    "all-gather-implementation": ["ring"],
    "reduce-scatter-implementation": ["ring"],
    "all-to-all-implementation": ["ring"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 100,
}


def compute(number: int, micros: int, deps: Sequence[int] = (), **attrs: Any) -> dict[str, Any]:
    """A GPU computation."""
    return {
        "id": number,
        "name": f"comp{number}",
        "type": 4,
        "data_deps": deps,
        "duration_micros": micros,
        "attrs": {"is_cpu_op": False, **attrs},
    }


def all_reduce(number: int, size: int, deps: Sequence[int] = ()) -> dict[str, Any]:
    """An all-reduce over all ranks."""
    attrs = {"is_cpu_op": False, "comm_type": 0, "comm_size": size}
    return {"id": number, "name": f"ar{number}", "type": 7, "data_deps": deps, "attrs": attrs}


def trace(nodes: Sequence[dict[str, Any]]) -> Trace:
    builder = TraceBuilder()
    for node in nodes:
        rest = {key: value for key, value in node.items() if key != "id"}
        builder.add(node["id"], **rest)
    return builder.build()


STEP = [compute(1, 20), all_reduce(2, 1 << 20, [1]), compute(3, 30, [1]), compute(4, 5, [2, 3])]
"""20 us of compute, then 30 us beside an all-reduce, then 5 us: on four NPUs in a ring of 50 GiB/s, 84,012 ns."""

Run = Callable[..., SimulationResult]


@pytest.fixture(scope="session")
def run() -> Run:
    """Simulate lists of nodes: one for all ``ranks``, or one per rank, on a ring of 50 GiB/s and 500 ns."""

    def simulate(*nodes: Any, ranks: int | None = None, extra: dict[str, Any] | None = None, **options: Any) -> Any:
        traces = [trace(each) for each in nodes]
        count = ranks or len(traces)
        network = {"topology": ["Ring"], "npus_count": [count], "bandwidth": [50.0], "latency": [500.0]}
        workload = traces[0] if ranks else traces
        return chakrasim.simulate(workload, system={**SYSTEM, **(extra or {})}, network=network, ranks=ranks, **options)

    return simulate


@pytest.fixture(scope="session")
def step(run: Run) -> SimulationResult:
    """``STEP`` on four ranks, congestion-aware."""
    return run(STEP, ranks=4, congestion="aware")
