"""Where ranks meet when measured durations are replayed: who waits for whom in a collective or a message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.kinds import Root, numbers_of
from chakrasim.simulator.context import Context
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.graph import Graph
from chakrasim.simulator.lowering.measured import measured
from chakrasim.trace import NodeType

Ints = NDArray[np.int64]


def hold_meetings(
    graphs: Sequence[Graph], graph_of: Ints, context: Context
) -> tuple[list[Graph], Ints, tuple[int, ...]]:
    """Give every rank a graph of its own in which meetings are numbered from 0; last comes, for each meeting, how many
    ranks its others wait for. Raises InputError where communication has no transfer time at all.
    """
    own = [graphs[g] for g in graph_of.tolist()]
    _check_transfers(own, context)
    nodes = [np.flatnonzero(graph.kind == at.RUN_MEETING) for graph in own]
    rank = np.repeat(np.arange(len(own)), [len(numbers) for numbers in nodes])
    given = np.concatenate([graph.a[numbers] for graph, numbers in zip(own, nodes, strict=True)])
    distinct, meeting = np.unique(given, return_inverse=True)
    kind, root, ranks = (
        np.concatenate([_attribute(graph, numbers, name) for graph, numbers in zip(own, nodes, strict=True)])
        for name in ("comm_type", "root_rank", "meeting_ranks")
    )
    transfer = np.concatenate([graph.b[numbers] for graph, numbers in zip(own, nodes, strict=True)])
    role = _roles(rank, meeting, kind, root)
    role[transfer == 0] &= ~at.WAITS
    size = np.zeros(len(distinct), np.int64)
    np.maximum.at(size, meeting, ranks)
    counting = np.bincount(meeting[role & at.COUNTS > 0], minlength=len(distinct))
    following = np.bincount(meeting[role == at.WAITS], minlength=len(distinct)) > 0
    # A rank that never comes is waited for all the same.
    meetings = tuple(np.where(following, counting, np.maximum(counting, size)).tolist())
    made = []
    for r, (graph, numbers) in enumerate(zip(own, nodes, strict=True)):
        a, b, d = graph.a.copy(), graph.b.copy(), graph.d.copy()
        a[numbers], d[numbers] = meeting[rank == r], role[rank == r]
        hasty = numbers[d[numbers] & at.WAITS == 0]
        b[hasty] = measured(graph.trace, common_start=False).duration_ns[graph.order[hasty]]
        made.append(replace(graph, a=a, b=b, d=d, shared=None))
    return made, np.arange(len(own)), meetings


def _attribute(graph: Graph, numbers: Ints, name: str) -> Ints:
    return graph.trace.attr(name).integers(-1)[graph.order[numbers]]


def _roles(rank: Ints, meeting: Ints, kind: Ints, root: Ints) -> Ints:
    """Who waits for whom: all for the root, the root for all, or (also where the root is not there) all for all."""
    role = np.full(len(rank), at.COUNTS | at.WAITS, np.int64)
    is_root = rank == root
    has_root = np.isin(meeting, meeting[is_root])
    from_root = np.isin(kind, numbers_of(Root.GIVES)) & has_root
    role[from_root] = np.where(is_root[from_root], at.COUNTS, at.WAITS)
    role[np.isin(kind, numbers_of(Root.GETS)) & has_root & ~is_root] = at.COUNTS
    return role


def _check_transfers(graphs: Sequence[Graph], context: Context) -> None:
    """Count communication without a transfer time; none at all is an error."""
    meets = [graph.kind == at.RUN_MEETING for graph in graphs]
    lacking = [
        (graph, number)
        for graph, own in zip(graphs, meets, strict=True)
        for number in np.flatnonzero((graph.trace.types[graph.order] >= NodeType.COMM_SEND_NODE) & ~own).tolist()
    ]
    if lacking and not any(own.any() for own in meets):
        graph, number = lacking[0]
        graph.refuse(
            number,
            "no collective or message has a transfer time",
            expected="attributes transfer_ns and meeting, which comparing all ranks gives",
            remedy="convert all ranks together, from traces that record process groups (see chakrasim doctor DIR), or "
            "replay recorded durations",
        )
    context.counts["collectives and messages without a transfer time (their recorded duration is used)"] += len(lacking)
