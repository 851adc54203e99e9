"""Small jobs whose ranks share traces: random ones, and a pipelined training step as captures make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
from cases import Node, collective, compute, trace_of

from chakrasim import Job
from chakrasim.trace.job.job import PEER

Groups = Mapping[str, tuple[tuple[int, ...], ...]]


def mesh_groups(shape: Mapping[str, int]) -> Groups:
    """The groups of a mesh of ranks whose first dimension counts fastest."""
    sizes = list(shape.values())
    ranks = np.arange(int(np.prod(sizes))).reshape(sizes[::-1])
    groups = {}
    for axis, role in enumerate(shape):
        rows = np.moveaxis(ranks, len(sizes) - 1 - axis, -1).reshape(-1, shape[role])
        groups[role] = tuple(tuple(row) for row in rows.tolist())
    return groups


def message(id: int, kind: int, role: str, peer: int, size: int, tag: int, deps: Sequence[int]) -> Node:
    attr: dict[str, Any] = {"is_cpu_op": False, PEER: peer, "comm_size": size, "comm_tag": tag}
    if role:
        attr["pg_name"] = role
    return {"id": id, "type": kind, "data_deps": list(deps), "attr": attr}


def training_job(tp: int, dp: int, pp: int, micro_batches: int = 2, everyone: bool = False) -> Job:
    """A step of ``pp`` stages: all forward, all backward, then the gradients; one trace a stage."""
    traces = tuple(trace_of(_stage(stage, pp, micro_batches, everyone), f"stage-{stage}") for stage in range(pp))
    return Job(traces, np.arange(tp * dp * pp) // (tp * dp), mesh_groups({"tp": tp, "dp": dp, "pp": pp}))


def _stage(stage: int, stages: int, micro_batches: int, everyone: bool) -> list[Node]:
    nodes: list[Node] = []

    def add(make: Any, *args: Any, **more: Any) -> None:
        deps = [len(nodes) - 1] if nodes else []
        nodes.append(make(len(nodes), *args, deps, **more))

    for forward in (True, False):
        before, after = (stage - 1, stage + 1) if forward else (stage + 1, stage - 1)
        for batch in range(micro_batches):
            tag = 2 * batch + forward
            if 0 <= before < stages:
                add(message, 6, "pp", before, 4096, tag)
            add(compute, 3 + stage)
            add(collective, 0, 1 << 16, group="tp")
            if 0 <= after < stages:
                add(message, 5, "pp", after, 4096, tag)
    add(collective, 7, 1 << 20, group="dp")
    if everyone:
        add(collective, 0, 64)
    return nodes


def random_job(random: Random) -> Job:
    """Ranks in a mesh, a trace for each coordinate of one of its dimensions (or one for all), chains of operations.

    Messages go round between the ranks of a dimension that the traces follow, so that nothing waits for ever.
    """
    shape = {role: random.choice((1, 2, 2, 3, 4)) for role in "abc"[: random.randint(1, 3)]}
    groups = dict(mesh_groups(shape))
    ranks = int(np.prod(list(shape.values())))
    by = random.choice((*shape, ""))
    which = np.zeros(ranks, np.int64)
    for members in groups.get(by, ()):
        which[list(members)] = np.arange(len(members))
    if random.random() < 0.3:
        role = random.choice(list(groups))
        groups[role] = tuple(tuple(random.sample(m, len(m))) if role != by else m for m in groups[role])
    steps = [_step(random, shape, by) for _ in range(random.randint(1, 5))]
    late = random.choice((0, 0, 1, 2))
    count = shape[by] if by else 1
    traces = tuple(trace_of(_program(steps, by, count, i, late), f"trace-{i}") for i in range(count))
    return Job(traces, which, groups)


def _step(random: Random, shape: Mapping[str, int], by: str) -> tuple[str, int, int, str]:
    kind = random.choice(("compute", "collective", "collective", "round", "everyone", "rooted"))
    role = random.choice([role for role in shape if role != by] or [""])
    if kind == "rooted":
        role = random.choice(list(shape))
        return kind, random.choice((1, 4, 5)), random.randrange(shape[role]), role
    return kind, random.choice((0, 2, 6, 7)), random.choice((0, 3, 64, 640, 4096)), role


def _program(steps: Sequence[tuple[str, int, int, str]], by: str, count: int, place: int, late: int) -> list[Node]:
    nodes: list[Node] = [compute(0, 1 + late * (place % 2))]
    for kind, type_, amount, role in steps:
        id, deps = len(nodes), [len(nodes) - 1]
        if kind == "compute":
            nodes.append(compute(id, 1 + amount % 3, deps))
        elif kind == "everyone" or (not role and kind == "collective"):
            nodes.append(collective(id, type_, amount, deps))
        elif kind == "rooted":
            nodes.append(collective(id, type_, 640, deps, group=role, root_rank=amount))
        elif kind == "collective":
            nodes.append(collective(id, type_, amount, deps, group=role))
        elif count > 1:
            nodes.append(message(id, 5, by, (place + 1) % count, 64 + amount, 7, deps))
            nodes.append(message(id + 1, 6, by, (place - 1) % count, 64 + amount, 7, deps))
            nodes.append(compute(id + 2, 1, [id, id + 1]))
    return nodes
