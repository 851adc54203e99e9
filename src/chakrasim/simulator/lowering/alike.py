"""Graphs that do the same in other groups and with other peers: what holds for one of a kind is worked out once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.simulator.lowering.graph import Graph
from chakrasim.simulator.lowering.plans import Plan

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Kinds:
    """``of_graph`` int64[graphs] is the kind of each graph, ``first`` the first graph of each kind.

    Graphs of a kind share their columns, and their collectives differ in the group only: in type, size, chunks and
    schedules they are equal, use by use.
    """

    of_graph: Ints
    first: list[int]


def kinds_of(graphs: Sequence[Graph], plans: Sequence[Sequence[Plan]]) -> Kinds:
    """Which graphs are alike; ``plans[g][u]`` is graph g's plan for its u-th collective."""
    of_plan = {id(plan): plan for own in plans for plan in own}
    courses: dict[Hashable, int] = {}
    number = {key: courses.setdefault(_course(plan), len(courses)) for key, plan in of_plan.items()}
    kinds: dict[Hashable, int] = {}
    first: list[int] = []
    of_graph = np.empty(len(graphs), np.int64)
    for g, (graph, own) in enumerate(zip(graphs, plans, strict=True)):
        of_graph[g] = kind = kinds.setdefault((id(graph.columns), *(number[id(plan)] for plan in own)), len(kinds))
        if kind == len(first):
            first.append(g)
    return Kinds(of_graph, first)


def _course(plan: Plan) -> Hashable:
    """What plans have in common that differ in their group only."""
    if plan.programs or plan.activity >= 0 or plan.rings:
        return id(plan)
    phases = tuple(
        (phase.collective, phase.algorithm, phase.dim, phase.members.count, phase.data_bytes, *map(id, phase.schedules))
        for phase in plan.phases
    )
    return int(plan.use.type), plan.use.size_bytes, plan.chunks, plan.group == 0, phases
