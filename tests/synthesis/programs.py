"""A training step that no part of the package knows: layers, tensor and data parallelism, as shared or own traces."""

from __future__ import annotations

import random

import numpy as np

from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.job import Job
from chakrasim.trace.kinds import CollectiveType, NodeType

Parameters = dict[str, int | float | bool | str]


def draw(seed: int) -> Parameters:
    """Parameters of a job."""
    one = random.Random(seed)
    return {
        "dp": one.choice([1, 2, 4]),
        "tp": one.choice([1, 2]),
        "layers": one.randint(1, 6),
        "width": one.choice([256, 512, 768, 1024]),
        "tokens": one.choice([128, 256, 384, 640]),
        "style": one.choice(["plain", "gated"]),
    }


def job(own: Parameters) -> Job:
    """The job of these parameters."""
    dp, tp = int(own["dp"]), int(own["tp"])
    groups = {"dp": tuple(tuple(range(i, dp * tp, tp)) for i in range(tp)),
              "tp": tuple(tuple(range(i * tp, i * tp + tp)) for i in range(dp))}  # fmt: skip
    used = {role: listed for role, listed in groups.items() if len(listed[0]) > 1}
    return Job((_trace(own),), np.zeros(dp * tp, np.int64), used, own)


def _trace(own: Parameters) -> Trace:
    dp, tp, layers, width, tokens = (int(own[name]) for name in ("dp", "tp", "layers", "width", "tokens"))
    made = TraceBuilder()
    at, last = 0, []

    def node(name: str, type_: NodeType, waits: list[int], attrs: dict[str, object]) -> int:
        nonlocal at
        made.add(id=at, name=name, type=type_, data_deps=waits, attrs=attrs)
        at += 1
        return at - 1

    def multiply(name: str, wide: int) -> None:
        nonlocal last
        size = {"num_ops": 2 * tokens * width * wide // tp, "tensor_size": 2 * (tokens * width + width * wide // tp)}
        last = [node(name, NodeType.COMP_NODE, last, size)]

    def talk(name: str, kind: CollectiveType, role: str, size: int, waits: list[int]) -> int:
        attrs = {"comm_type": int(kind), "comm_size": size, "pg_name": role}
        return node(name, NodeType.COMM_COLL_NODE, waits, attrs)

    reduced = []
    for layer in range(layers):
        if own["style"] == "gated":
            multiply(f"block {layer} gate", 2 * width)
        multiply(f"block {layer} forward", 4 * width)
        if tp > 1:
            last = [talk(f"block {layer} sum", CollectiveType.ALL_REDUCE, "tp", 2 * tokens * width, last)]
    for layer in reversed(range(layers)):
        multiply(f"block {layer} backward", 8 * width)
        if dp > 1:
            reduced.append(
                talk(f"block {layer} gradients", CollectiveType.ALL_REDUCE, "dp", 16 * width * width // tp, last)
            )
    count = layers * 4 * width * width // tp + width
    node("step", NodeType.COMP_NODE, last + reduced[-1:], {"num_ops": 12 * count, "tensor_size": 16 * count})
    return made.build()
