"""Where the time of one rank goes: kinds of computation, tensor-parallel communication, the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.generator.layers.condense import PARTS as COMPUTE_PARTS
from chakrasim.trace import NodeType

if TYPE_CHECKING:
    from chakrasim.simulator.outcome.result import SimulationResult

Ints = NDArray[np.int64]
Breakdown = Mapping[str, float]

PARTS: Final = (*COMPUTE_PARTS, "tensor_parallel", "pipeline")
"""Those of condensed nodes; tensor_parallel: its collectives where nothing computes; pipeline: the rest, that is
waiting for other stages and for messages."""


def breakdown(result: SimulationResult, rank: int) -> Breakdown:
    """The `PARTS` of one rank in seconds; they sum to the makespan."""
    record = result.records[int(result.classes[rank])]
    trace, order = record.graph.trace, record.graph.order
    ran = record.start_ns >= 0
    start, end, nodes = record.start_ns[ran], record.end_ns[ran], order[ran]
    types = trace.types[nodes]
    computes = types == NodeType.COMP_NODE
    stated = (*COMPUTE_PARTS, "exposed_tp")
    parts = {name: int(trace.attr(f"{name}_ns").integers()[nodes[computes]].sum()) for name in stated}
    # Nodes take whole microseconds, their parts add up to the nanosecond.
    parts["other_compute"] += int((end - start)[computes].sum()) - sum(parts.values())
    tensor = types == NodeType.COMM_COLL_NODE
    tensor[tensor] = trace.attr("pg_name").texts(nodes[tensor]) == "tp"
    parts["tensor_parallel"] = parts.pop("exposed_tp") + _exposed(
        start[computes], end[computes], start[tensor], end[tensor]
    )
    parts["pipeline"] = result.makespan_ns - sum(parts.values())
    return {name: parts[name] / 1e9 for name in PARTS}


def _exposed(busy_from: Ints, busy_to: Ints, start: Ints, end: Ints) -> int:
    """How much of the intervals from ``start`` to ``end``, none of which overlap, is outside the busy ones."""
    if not len(start) or not len(busy_from):
        return int((end - start).sum())
    order = np.argsort(busy_from, kind="stable")
    first, last = busy_from[order], busy_to[order]
    before = np.cumsum(last - first) - (last - first)
    inside = np.zeros(len(start), np.int64)
    for edge, sign in ((end, 1), (start, -1)):
        at = np.searchsorted(first, edge, side="right") - 1
        done = np.where(at >= 0, before[at] + np.minimum(edge, last[at]) - first[at], 0)
        inside += sign * done
    return int((end - start - inside).sum())
