"""What can be told before the clock starts: ranks that name each other wrongly, groups that do not agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.simulator import layout as at
from chakrasim.simulator.context import COLLECTIVE_KEYS, Context
from chakrasim.simulator.graph import Graph
from chakrasim.simulator.plans import DEFAULT_INVOLVED_DIMS, Plan
from chakrasim.simulator.stall import ranks_text

Ints = NDArray[np.int64]


def check_ranks(context: Context, graphs: Sequence[Graph], graph_of: Ints, plans: Sequence[Sequence[Plan]]) -> None:
    """Raise InputError for what no run could make sense of."""
    for g, graph in enumerate(graphs):
        if not len(graph):
            context.warn(f"{graph.trace.source}: the trace has no nodes: its ranks finish at once")
        ranks = np.flatnonzero(graph_of == g)
        _check_own_rank(graph, ranks)
        _check_self_messages(graph, ranks, context)
        _check_membership(graph, ranks, context)
    _check_groups_agree(context, graphs, graph_of, plans)


def _check_own_rank(graph: Graph, ranks: Ints) -> None:
    """A send's source and a receive's destination, where given, are the rank itself."""
    for number, named in graph.own_rank.items():
        wrong = ranks[ranks != named]
        if len(wrong):
            sending = graph.kind[number] == at.RUN_SEND
            raise InputError(
                f"{'comm_src of a send' if sending else 'comm_dst of a receive'} is not the rank that runs it",
                file=graph.trace.source,
                place=graph.place(number),
                found=f"rank {named} in the trace of rank {int(wrong[0])}",
                expected=f"{int(wrong[0])}",
            )


def _check_self_messages(graph: Graph, ranks: Ints, context: Context) -> None:
    """Only a congestion-aware switch of one dimension can carry a message from a rank to itself."""
    if context.carries_messages_to_itself:
        return
    messages = (graph.kind == at.RUN_SEND) | (graph.kind == at.RUN_RECV)
    if not messages.any():
        return
    selves = np.flatnonzero(messages & np.isin(graph.a, ranks))
    if len(selves):
        number = int(selves[0])
        raise InputError(
            "a rank sends a message to itself",
            file=graph.trace.source,
            place=graph.place(number),
            found=f"peer {int(graph.a[number])}",
            expected="another rank (only a congestion-aware one-dimensional Switch carries such messages)",
        )


def _check_membership(graph: Graph, ranks: Ints, context: Context) -> None:
    for group in graph.groups:
        if group == 0:
            continue
        outside = ranks[~np.isin(ranks, context.groups[group])]
        if len(outside):
            use = next(i for i, use in enumerate(graph.uses) if use.group == group)
            number = int(np.flatnonzero((graph.kind == at.RUN_COLLECTIVE) & (graph.a == use))[:1].sum())
            raise InputError(
                f"rank {int(outside[0])} runs a collective of group {group}, of which it is not a member",
                file=graph.trace.source,
                place=graph.place(number),
                expected=f"members {list(context.groups[group])[:8]}",
            )


def _check_groups_agree(
    context: Context, graphs: Sequence[Graph], graph_of: Ints, plans: Sequence[Sequence[Plan]]
) -> None:
    """All members of a group run the same multiset of collectives: else some would wait for ever."""
    every = sorted({group for graph in graphs for group in graph.groups})
    tallies = [_tally(graph, own) for graph, own in zip(graphs, plans, strict=True)]
    for group in every:
        members = np.arange(context.ranks) if group == 0 else np.array(context.groups[group])
        for share in _shares(group, members, graphs, graph_of, context):
            _check_share(group, share, tallies, graphs, graph_of)


Tally = dict[int, Counter[tuple[int, int, tuple[bool, ...] | None]]]


def _tally(graph: Graph, plans: Sequence[Plan]) -> Tally:
    """By group: how often each (type, size, dimensions) is run; collectives done at once wait for nobody."""
    nodes = np.flatnonzero(graph.kind == at.RUN_COLLECTIVE)
    calls = np.bincount(graph.a[nodes], minlength=len(graph.uses))
    tally: Tally = {}
    for use, plan, count in zip(graph.uses, plans, calls.tolist(), strict=True):
        if plan.chunks and count:
            tally.setdefault(use.group, Counter())[(int(use.type), use.size_bytes, use.involved)] += count
    return tally


def _shares(group: int, members: Ints, graphs: Sequence[Graph], graph_of: Ints, context: Context) -> list[Ints]:
    """The parts of a group that must agree: under a mask, ranks that differ only in dimensions that take part."""
    masks = {use.involved for graph in graphs for use in graph.uses if use.group == group}
    if group != 0 or masks == {None}:
        return [members]
    stride = 1
    apart = np.zeros(len(members), np.int64)
    for d, count in enumerate(context.network.npus_count):
        if not any(_takes_part(mask, d) for mask in masks):
            apart += members // stride % count * stride
        elif not all(_takes_part(mask, d) for mask in masks):
            return []
        stride *= count
    return [members[apart == value] for value in np.unique(apart)]


def _takes_part(mask: tuple[bool, ...] | None, dim: int) -> bool:
    if mask is None:
        return dim < DEFAULT_INVOLVED_DIMS
    return dim < len(mask) and mask[dim]


def _check_share(group: int, members: Ints, tallies: Sequence[Tally], graphs: Sequence[Graph], graph_of: Ints) -> None:
    by_graph, first = np.unique(graph_of[members], return_index=True)
    reference = int(by_graph[np.argmin(first)])
    expected = tallies[reference].get(group, Counter())
    for g in by_graph.tolist():
        found = tallies[g].get(group, Counter())
        if found == expected:
            continue
        entry = next(iter((expected - found) or (found - expected)))
        name = "the group of all ranks" if group == 0 else f"group {group}"
        one, other = members[graph_of[members] == reference], members[graph_of[members] == g]
        what = f"{COLLECTIVE_KEYS[entry[0]]} of {entry[1]} bytes"
        raise InputError(
            f"the members of {name} do not run the same collectives: {ranks_text(tuple(one.tolist()))} "
            f"run{'s' if len(one) == 1 else ''} {what} {expected[entry]} times, "
            f"{ranks_text(tuple(other.tolist()))} {found[entry]} times",
            file=graphs[g].trace.source,
            expected="the same types and sizes, equally often, on all members",
            remedy="a rank's trace is missing operations, or belongs to another run",
        )
