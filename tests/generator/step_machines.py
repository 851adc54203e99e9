"""Machines for generated steps, and what a trace says when its columns are added up."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.trace import CollectiveType, NodeType, Trace
from chakrasim.trace.job.job import Job

SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 0,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 1,
    **{f"{kind}-implementation": ["ring"] for kind in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")},
    "collective-optimization": "localBWAware",
    "roofline-enabled": 1,
    "peak-perf": 100,
    "local-mem-bw": 1_000_000,
}
"""100 TFLOP/s; bytes cost nothing to speak of."""


def simulate(
    job: Job, *, gb_per_s: float = 1e9, latency_ns: float = 0, topology: str = "Switch", **options: Any
) -> SimulationResult:
    """Run a job; communication costs nothing unless it is said."""
    import chakrasim

    network = {
        "topology": [topology],
        "npus_count": [job.ranks],
        "bandwidth": [gb_per_s],
        "latency": [latency_ns],
    }
    return chakrasim.simulate(job, network=network, system=SYSTEM, **options)


def matrix_operations(job: Job) -> int:
    """num_ops of GEMMs and attention, over all ranks."""
    total = 0
    for trace, ranks in zip(job.traces, np.bincount(job.trace_of_rank).tolist(), strict=True):
        kinds = kinds_of(trace)
        total += ranks * int(trace.attr("num_ops").integers()[np.isin(kinds, ("gemm", "attention"))].sum())
    return total


def kinds_of(trace: Trace) -> np.ndarray[Any, np.dtype[np.str_]]:
    """str[n]: op_kind, "" where there is none."""
    column = trace.attr("op_kind")
    names = {bits: trace.strings[bits] for bits in np.unique(column.bits).astype(np.int64).tolist()}
    return np.array([names[bits] for bits in column.bits.astype(np.int64).tolist()])


def communication(trace: Trace, where: str = "") -> Counter[tuple[str, str]]:
    """By (what, role): bytes of one rank; of nodes whose name begins with ``where``."""
    found: Counter[tuple[str, str]] = Counter()
    sizes, kinds, roles = (trace.attr(name) for name in ("comm_size", "comm_type", "pg_name"))
    values, types = sizes.integers(), kinds.integers()
    for node in np.flatnonzero(trace.types >= int(NodeType.COMM_SEND_NODE)).tolist():
        if trace.name(node).startswith(where):
            kind = NodeType(int(trace.types[node]))
            what = CollectiveType(int(types[node])).name if kind == NodeType.COMM_COLL_NODE else kind.name
            found[what.lower(), roles.string(node)] += int(values[node])
    return found
