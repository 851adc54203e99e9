"""Graphs that ranks share: a trace is lowered once, and what differs by rank stands in small tables beside it.

Graphs that do the same in other groups and with other peers are of one kind, for all of which things are worked out
once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from chakrasim.simulator.context import Context
from chakrasim.simulator.lowering.communication import CollectiveUse
from chakrasim.simulator.lowering.graph import Graph, lower_graph
from chakrasim.simulator.lowering.plans import Plan
from chakrasim.trace import Trace

Ints = NDArray[np.int64]
T = TypeVar("T")


def lower_traces(
    traces: Sequence[Trace], trace_of: Ints, of_role: Sequence[Ints], context: Context
) -> tuple[list[Graph], Ints]:
    """The distinct graphs, and by rank which of them it runs.

    ``of_role[i]`` is int64[ranks]: the number of the group of role i in which each rank is. Raises InputError.
    """
    graphs: list[Graph] = []
    graph_of = np.zeros(len(trace_of), np.int64)
    for index, trace in enumerate(traces):
        ranks = np.flatnonzero(trace_of == index)
        for factor, slow in _by_speed(ranks, context):
            shared = lower_graph(trace, replace(context, compute_scale=context.compute_scale * factor))
            for graph, own in _bound(shared, slow, of_role, context):
                graph_of[own] = len(graphs)
                graphs.append(graph)
    return graphs, graph_of


def _by_speed(ranks: Ints, context: Context) -> Iterator[tuple[float, Ints]]:
    """Ranks whose compute nodes take equally long, with the factor of their times."""
    factors = (
        np.array([context.slow.get(rank, 1.0) for rank in ranks.tolist()]) if context.slow else np.ones(len(ranks))
    )
    for factor in np.unique(factors).tolist():
        yield factor, ranks[factors == factor]


def _bound(shared: Graph, ranks: Ints, of_role: Sequence[Ints], context: Context) -> Iterator[tuple[Graph, Ints]]:
    """A graph for each set of ranks that mean the same groups by its roles."""
    roles = sorted({number for number in (*shared.groups, *shared.peer_roles.tolist()) if number < 0})
    if not roles:
        yield shared, ranks
        return
    numbers = np.stack([of_role[-1 - role][ranks] for role in roles], axis=1)
    rows, which = np.unique(numbers, axis=0, return_inverse=True)
    peers = _peers(shared, roles, rows, context)
    known: dict[tuple[int, int], CollectiveUse] = {}
    by_row = np.argsort(which.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(which.reshape(-1), minlength=len(rows)))
    no_roles = np.zeros(len(shared.peers), np.int64)
    for i, (row, own) in enumerate(zip(rows.tolist(), np.split(ranks[by_row], ends[:-1]), strict=True)):
        number_of = dict(zip(roles, row, strict=True))
        graph = copy(shared)  # `replace` would take most of the time of a large job
        graph.__dict__.update(
            shared=shared,
            uses=_uses(shared, number_of, known, context),
            groups=tuple(number_of.get(group, group) for group in shared.groups),
            peers=peers[i],
            peer_roles=no_roles,
        )
        yield graph, own


def _uses(
    shared: Graph, number_of: dict[int, int], known: dict[tuple[int, int], CollectiveUse], context: Context
) -> tuple[CollectiveUse, ...]:
    """The collectives, of groups in place of roles."""
    uses = []
    for u, use in enumerate(shared.uses):
        group = number_of.get(use.group, use.group)
        if (u, group) not in known:
            root = context.groups[group][use.root] if use.group < 0 <= use.root else use.root
            known[u, group] = replace(use, group=group, root=root)
        uses.append(known[u, group])
    return tuple(uses)


def _peers(shared: Graph, roles: Sequence[int], rows: Ints, context: Context) -> Ints:
    """int64[rows, peers]: ranks in place of positions, where the roles mean the groups of a row."""
    peers = np.repeat(shared.peers[None, :], len(rows), axis=0)
    for i, (position, role) in enumerate(zip(shared.peers.tolist(), shared.peer_roles.tolist(), strict=True)):
        if role < 0:
            peers[:, i] = [context.groups[group][position] for group in rows[:, roles.index(role)].tolist()]
    return peers


def by_columns(graphs: Sequence[Graph], make: Callable[[Graph], T]) -> list[T]:
    """``make`` of every graph, which looks at columns only: done once for those that share them."""
    made: dict[Hashable, T] = {}
    return [made[key] if (key := id(g.columns)) in made else made.setdefault(key, make(g.columns)) for g in graphs]


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
