"""What a captured step amounts to: FLOPs by kind, bytes, collectives, memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from chakrasim.collect.capturing.recorded.graph import Node
from chakrasim.operators.flops import FlopSource
from chakrasim.trace.kinds import NodeType
from chakrasim.trace.linked.columns import OPERATION_NAMES

_POINTS: Final = 500


@dataclass(frozen=True)
class Traffic:
    """Collectives (or messages) of one type in one role: how many, and the sum of their ``comm_size``."""

    type: str
    role: str
    count: int
    bytes: int


@dataclass(frozen=True)
class StepSummary:
    """One rank's step.

    Attributes
    ----------
    nodes: of the trace, and of these ``operators`` compute nodes.
    flops: by kind of work ("gemm", "attention", ...).
    matrix_flops: by operator, of those that PyTorch's FLOP registry counts ("pytorch") and of those that it lacks and
        chakrasim has a formula for ("formula").
    bytes_moved: read and written by all operators.
    compute_ns: their durations on the device profile, one after another; None without one.
    traffic: collectives and messages.
    peak_bytes, peak: of memory, and of that by category.
    timeline: live bytes over the step: at most some hundred points, each a node's number and the bytes live then.
    """

    nodes: int
    operators: int
    flops: dict[str, int]
    matrix_flops: dict[str, dict[str, int]]
    bytes_moved: int
    compute_ns: int | None
    traffic: tuple[Traffic, ...]
    peak_bytes: int
    peak: dict[str, int]
    timeline: dict[str, list[int]]

    @property
    def total_flops(self) -> int:
        """FLOPs of all kinds."""
        return sum(self.flops.values())

    def to_mapping(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "nodes": self.nodes,
            "operators": self.operators,
            "flops": self.flops,
            "total_flops": self.total_flops,
            "matrix_flops": self.matrix_flops,
            "bytes_moved": self.bytes_moved,
            "compute_ns": self.compute_ns,
            "collectives": [vars(entry) for entry in self.traffic],
            "memory": {"peak_bytes": self.peak_bytes, "by_category": self.peak, "timeline": self.timeline},
        }


def summarise(
    nodes: Sequence[Node], peak: Any, timeline: Mapping[str, Any], durations: Mapping[int, int] | None
) -> StepSummary:
    """The summary of a rank's graph; ``peak`` is a `MemoryPeak`."""
    flops: dict[str, int] = {}
    matrix: dict[FlopSource, Counter[str]] = defaultdict(Counter)
    traffic: dict[tuple[str, str], list[int]] = {}
    moved = operators = 0
    for node in nodes:
        if node.work is None:
            way = NodeType(node.access).name.lower().removesuffix("_node") if node.access else ""
            entry = traffic.setdefault((way or OPERATION_NAMES[node.type], node.role), [0, 0])
            entry[0] += 1
            entry[1] += node.size_bytes
            continue
        operators += 1
        moved += node.work.bytes_read + node.work.bytes_written
        matrix[node.work.flops_from][node.work.name] += node.work.flops
        if node.work.flops:
            kind = node.work.kind.name.lower()
            flops[kind] = flops.get(kind, 0) + node.work.flops
    return StepSummary(
        len(nodes),
        operators,
        dict(sorted(flops.items(), key=lambda item: -item[1])),
        {
            name: dict(sorted(matrix[source].items(), key=lambda item: (-item[1], item[0])))
            for name, source in (("pytorch", FlopSource.PYTORCH), ("formula", FlopSource.CONTRACTION))
        },
        moved,
        None if durations is None else sum(durations.values()),
        tuple(Traffic(kind, role, *entry) for (kind, role), entry in sorted(traffic.items())),
        peak.live_bytes,
        {name: size for name, size in peak.by_category.items() if size},
        _thinned(timeline),
    )


def _thinned(timeline: Mapping[str, Any]) -> dict[str, list[int]]:
    """At most `_POINTS` points: of each stretch the one with most live bytes."""
    live = np.asarray(timeline["live"])
    if len(live) <= _POINTS:
        chosen = np.arange(len(live))
    else:
        edges = np.linspace(0, len(live), _POINTS + 1).astype(np.int64)
        chosen = np.array([low + int(np.argmax(live[low:high])) for low, high in pairwise(edges.tolist())])
    return {name: np.asarray(column)[chosen].tolist() for name, column in timeline.items()}
