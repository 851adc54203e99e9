"""Jobs to hide: generated ones, and a recorded one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np

from chakrasim.converter.folder.trace_folder import trace_directory
from chakrasim.demo import TRACES
from chakrasim.generator import transformer_job
from chakrasim.trace import NodeType, TraceBuilder
from chakrasim.trace.chakra.encode import encode_trace
from chakrasim.trace.job.job import Job


def dense(
    layers: int = 2, hidden: int = 256, tp: int = 2, pp: int = 1, dp: int = 2, buckets: bool = True, **more: Any
) -> Job:
    """A generated training step."""
    model = {"layers": layers, "hidden": hidden, "heads": 4, "vocabulary": 1024, "sequence": 256, **more}
    batch = {"micro_batches": 2, "micro_batch": 1}
    spec = {"model": model, "parallel": {"tp": tp, "pp": pp, "dp": dp}, "batch": batch}
    return transformer_job(spec | {"overlap": {"dp": buckets}})


def recorded(folder: Path) -> str:
    """The demo's run, linked and converted; the prefix."""
    return trace_directory(TRACES, folder / "recorded", jobs=1).prefix


def bytes_of(jobs: tuple[Job, ...] | list[Job]) -> bytes:
    """All that files of the jobs would hold, and what their ranks files say."""
    said = b"".join(repr((dict(job.process_groups), dict(job.parameters))).encode() for job in jobs)
    return said + b"".join(encode_trace(trace) for job in jobs for trace in job.traces)


def makespans(job: Job) -> list[int]:
    """Of each rank, on a board."""
    from chakrasim.simulator.api import simulate

    return [int(one) for one in simulate(job, machine="h100", gpus=job.ranks).finish_ns]


CANARY_OPS, CANARY_BYTES = 987_654_321, 123_456_789


def small(number: int, canary: bool = False, last: str = "") -> Job:
    """One of many jobs: layers of a product and a sum over all ranks, whose sizes follow from width and tokens. The one
    with a canary has an operator that no other has, and sizes that no law gives. ``last`` is one more operator."""
    own = random.Random(number)
    width, tokens, layers, ranks = (
        own.randrange(64, 4096),
        64 * own.randrange(1, 64),
        own.choice((2, 3)),
        own.choice((2, 4)),
    )
    made = TraceBuilder(metadata={"producer": "me"})
    for layer in range(layers):
        odd = canary and layer == 1
        ops = CANARY_OPS if odd else 2 * tokens * width * width
        size = CANARY_BYTES if odd else 2 * width * (width + tokens)
        name = "my_secret_fused_op" if odd else f"layer {layer} product"
        waits = [2 * layer - 1] if layer else []
        made.add(
            2 * layer, name, NodeType.COMP_NODE, waits, attrs={"num_ops": ops, "tensor_size": size, "op_kind": "gemm"}
        )
        attrs = {"comm_type": 0, "comm_size": 2 * tokens * width, "pg_name": "tp"}
        made.add(2 * layer + 1, f"layer {layer} sum", NodeType.COMM_COLL_NODE, [2 * layer], attrs=attrs)
    if last:
        made.add(2 * layers, last, NodeType.COMP_NODE, [2 * layers - 1], attrs={"num_ops": 64 * width})
    parameters = {"width": width, "tokens": tokens, "layers": layers, "ranks": ranks}
    return Job((made.build(),), np.zeros(ranks, np.int64), {"tp": (tuple(range(ranks)),)}, parameters)
