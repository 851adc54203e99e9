"""A pipelined training step of ranks that share traces: tensor parallel x sharded data parallel x pipeline, 1F1B."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrasim import Job, TraceBuilder
from chakrasim.trace import CollectiveType, NodeType

ACTIVATION = 64 << 20
WEIGHTS = 192 << 20
"""Bytes: a micro-batch's activations, a layer's parameters on one rank of the tensor parallel group."""


class Stage:
    """One stage's nodes: a chain on each stream, and dependencies between them."""

    def __init__(self, stage: int, stages: int, layers: int, kernels: int, sharded: int) -> None:
        self.builder = TraceBuilder()
        self.stage, self.stages, self.layers, self.kernels, self.sharded = stage, stages, layers, kernels, sharded
        self.last: dict[str, int] = {}

    def add(self, stream: str, kind: int, deps: Sequence[int], **attrs: object) -> list[int]:
        number = len(self.builder)
        before = {*deps, *([self.last[stream]] if stream in self.last else [])}
        full = {"is_cpu_op": False, "stream_rule": stream, **attrs}
        self.builder.add(number, stream, kind, data_deps=sorted(before), attrs=full)
        self.last[stream] = number
        return [number]

    def collective(self, role: str, kind: int, size: int, deps: Sequence[int]) -> list[int]:
        return self.add(role, NodeType.COMM_COLL_NODE, deps, comm_type=int(kind), comm_size=size, pg_name=role)

    def message(self, kind: int, peer: int, tag: int, deps: Sequence[int]) -> list[int]:
        name = "receive" if kind == NodeType.COMM_RECV_NODE else "send"
        attrs = {"pg_name": "pp", "comm_peer": peer, "comm_size": ACTIVATION // 8, "comm_tag": tag}
        return self.add(name, kind, deps, **attrs)

    def micro_batch(self, number: int, forward: bool) -> None:
        before, after = (self.stage - 1, self.stage + 1) if forward else (self.stage + 1, self.stage - 1)
        tag = 2 * number + forward
        at: list[int] = []
        if 0 <= before < self.stages:
            at = self.message(NodeType.COMM_RECV_NODE, before, tag, ())
        for _ in range(self.layers):
            at += self.collective("fsdp", CollectiveType.ALL_GATHER, WEIGHTS // self.sharded, ())
            for kernel in range(self.kernels * (1 if forward else 2)):
                at = self.add("compute", NodeType.COMP_NODE, at, num_ops=2**34 + kernel, tensor_size=2**23)
                if kernel % 10 == 0:
                    at = self.collective("tp", CollectiveType.REDUCE_SCATTER, ACTIVATION, at)
            if not forward:
                self.collective("fsdp", CollectiveType.REDUCE_SCATTER, WEIGHTS, at)
        if 0 <= after < self.stages:
            self.message(NodeType.COMM_SEND_NODE, after, tag, at)


def synthetic_job(
    tp: int = 8, dp: int = 16, pp: int = 8, micro_batches: int = 8, layers: int = 19, kernels: int = 40
) -> Job:
    """A job of ``tp * dp * pp`` ranks with one trace for each of the ``pp`` stages (some 20,000 nodes by default)."""
    traces = []
    for number in range(pp):
        stage = Stage(number, pp, layers, kernels, dp)
        ahead = min(micro_batches, pp - 1 - number)
        order = [(batch, True) for batch in range(ahead)]
        for batch in range(micro_batches):
            order += [(batch + ahead, True)] if batch + ahead < micro_batches else []
            order.append((batch, False))
        for batch, forward in order:
            stage.micro_batch(batch, forward)
        traces.append(stage.builder.build())
    ranks = np.arange(tp * dp * pp).reshape(pp, dp, tp)
    groups = {
        "tp": ranks.reshape(-1, tp),
        "fsdp": ranks.transpose(0, 2, 1).reshape(-1, dp),
        "pp": ranks.transpose(1, 2, 0).reshape(-1, pp),
    }
    tuples = {role: tuple(tuple(row) for row in rows.tolist()) for role, rows in groups.items()}
    return Job(tuple(traces), np.arange(tp * dp * pp) // (tp * dp), tuples)
