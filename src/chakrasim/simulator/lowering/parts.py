"""The parts of all-to-alls, of which each rank knows its own, put together by the order in which a group calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives import Collective
from chakrasim.simulator.context import Context
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.communication import CollectiveUse
from chakrasim.simulator.lowering.graph import Graph
from chakrasim.simulator.lowering.matrices import Matrix
from chakrasim.text.amounts import plural

Ints = NDArray[np.int64]


def put_together(graphs: Sequence[Graph], graph_of: Ints, context: Context) -> tuple[list[Graph], tuple[Matrix, ...]]:
    """The graphs with the same uses on all members of an all-to-all whose parts differ, and who has what for whom.

    The first all-to-all that a member's trace has of a group belongs to the first of every other member, and so on; who
    tells no parts has equal ones. Raises InputError where members call unequally often, or parts are not one for each.
    """
    made, matrices = list(graphs), list[Matrix]()
    for group in sorted({use.group for graph in graphs for use in graph.uses if use.parts}):
        members = context.groups.get(group) or tuple(range(context.ranks))
        which = graph_of[list(members)]
        calls = {g: _calls(graphs[g], group) for g in np.unique(which).tolist()}
        _check_calls(graphs, which.tolist(), calls, members, context, group)
        rows = {g: [_row(graphs[g], int(node), len(members)) for node in nodes] for g, nodes in calls.items()}
        known: dict[tuple[tuple[int, ...], ...], CollectiveUse] = {}
        uses: dict[int, list[CollectiveUse]] = {g: [] for g in calls}
        for k in range(len(calls[int(which[0])])):
            key = tuple(rows[g][k] for g in which.tolist())
            if key not in known:
                use = graphs[which[0]].uses[int(graphs[which[0]].a[calls[int(which[0])][k]])]
                known[key] = _together(use, key, matrices)
            for g in calls:
                uses[g].append(known[key])
        for g, nodes in calls.items():
            made[g] = _with_uses(made[g], nodes, uses[g])
    return made, tuple(matrices)


def warn_of_parts(graphs: Sequence[Graph], context: Context) -> None:
    """Say that a network of ASTRA-sim's takes parts as equal."""
    count = len({use for graph in graphs for use in graph.uses if use.parts})
    if count:
        context.notes.warn(
            f"{plural(count, 'all-to-all')} of unequal parts: the {context.network_model} network takes the parts of "
            "each rank as equal; use network model flow"
        )


def _calls(graph: Graph, group: int) -> Ints:
    """The nodes that ask for all-to-alls of a group, in the order of their ids."""
    own = [use.type == Collective.ALL_TO_ALL and use.group == group for use in graph.uses]
    return np.flatnonzero((graph.kind == at.RUN_COLLECTIVE) & np.isin(graph.a, np.flatnonzero(own)))


def _check_calls(
    graphs: Sequence[Graph],
    which: Sequence[int],
    calls: dict[int, Ints],
    members: Sequence[int],
    context: Context,
    group: int,
) -> None:
    first = which[0]
    for rank, g in zip(members, which, strict=True):
        if len(calls[g]) == len(calls[first]):
            continue
        longer, node = (g, calls[g]) if len(calls[g]) > len(calls[first]) else (first, calls[first])
        graphs[longer].refuse(
            int(node[-1]),
            f"the members of {context.group_text(group)} do not run as many all-to-alls: rank {members[0]} runs "
            f"{len(calls[first])}, rank {rank} {len(calls[g])}",
            expected="as many on all members, since their parts differ",
            remedy="a rank's trace is missing operations, or belongs to another run",
        )


def _row(graph: Graph, node: int, members: int) -> tuple[int, ...]:
    """What a rank has for each member."""
    use = graph.uses[int(graph.a[node])]
    if not use.parts:
        return (-(-use.size_bytes // members),) * members
    if len(use.parts) != members:
        graph.refuse(
            node, "the parts are not one for each member", found=f"{len(use.parts)} parts", expected=str(members)
        )
    return use.parts


def _together(use: CollectiveUse, key: tuple[tuple[int, ...], ...], matrices: list[Matrix]) -> CollectiveUse:
    """What all members ask for."""
    matrix = Matrix(len(matrices), np.array(key, np.int64))
    if matrix.even >= 0:
        return replace(use, size_bytes=matrix.even, parts=())
    matrices.append(matrix)
    return replace(use, size_bytes=matrix.size_bytes, parts=(), matrix=matrix.number)


def _with_uses(graph: Graph, nodes: Ints, wanted: Sequence[CollectiveUse]) -> Graph:
    """The graph with other uses of these nodes."""
    index = {use: u for u, use in enumerate(graph.uses)}
    a = graph.a.copy()
    for node, use in zip(nodes.tolist(), wanted, strict=True):
        a[node] = index.setdefault(use, len(index))
    return replace(graph, a=a, uses=tuple(index), shared=None)
