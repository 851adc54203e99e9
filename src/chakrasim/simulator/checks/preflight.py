"""What can be told before the clock starts: ranks that name each other wrongly, groups that do not agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.kinds import KINDS
from chakrasim.collectives.schedule import WITHOUT_REFERENCE
from chakrasim.errors import InputError
from chakrasim.simulator.context import Context
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.communication import CollectiveUse
from chakrasim.simulator.lowering.graph import Graph
from chakrasim.simulator.lowering.plans import Plan
from chakrasim.simulator.lowering.sharing import Kinds
from chakrasim.simulator.outcome.stall import describe, named_ranks

Ints = NDArray[np.int64]
IDLE = "<idle>"
"""Source of the trace of ranks that no job runs on."""


def check_ranks(
    context: Context,
    graphs: Sequence[Graph],
    graph_of: Ints,
    plans: Sequence[Sequence[Plan]],
    calls: Sequence[Ints],
    kinds: Kinds,
) -> None:
    """Raise InputError for what no run could make sense of; ``calls[g][u]``: how many nodes of graph g ask for its u-th
    collective."""
    ranks_of = np.split(np.argsort(graph_of, kind="stable"), np.cumsum(np.bincount(graph_of, minlength=len(graphs))))
    suspects = _suspects(graphs, graph_of, context)
    for g, graph in enumerate(graphs):
        if not len(graph) and graph.trace.source != IDLE:
            context.notes.warn(f"{graph.trace.source}: the trace has no nodes: its ranks finish at once")
        if graph.own_rank:
            _check_own_rank(graph, ranks_of[g])
        if g in suspects:
            _check_self_messages(graph, ranks_of[g], context)
            _check_membership(graph, ranks_of[g], context)
    _check_groups_agree(context, graphs, graph_of, plans, calls, kinds)


def _suspects(graphs: Sequence[Graph], graph_of: Ints, context: Context) -> set[int]:
    """Graphs that may name a peer among their own ranks, or a group of which one of these is no member."""
    peers = np.concatenate([graph.peers for graph in graphs])
    names = np.repeat(np.arange(len(graphs)), [len(graph.peers) for graph in graphs])
    found = set(names[graph_of[peers] == names].tolist())
    named = Named(graphs, graph_of)
    listed = [context.groups.get(group, ()) for group in named.groups]
    which = np.repeat(np.arange(len(listed)), [len(ranks) for ranks in listed])
    members = np.array([rank for ranks in listed for rank in ranks], np.int64) * len(listed) + which
    at_all = np.array([group == 0 for group in named.groups], np.bool_)
    inside = at_all[named.group] | np.isin(named.rank * len(listed) + named.group, members)
    return found | set(graph_of[named.rank[~inside]].tolist())


class Named:
    """Every rank with every group that its graph names: ``rank`` and ``group`` int64[pairs], of which the latter counts
    ``groups`` in ascending order; ``local`` is its place among the groups of the graph."""

    def __init__(self, graphs: Sequence[Graph], graph_of: Ints) -> None:
        count = np.array([len(graph.groups) for graph in graphs], np.int64)
        flat = np.array([group for graph in graphs for group in graph.groups], np.int64)
        groups, number = np.unique(flat, return_inverse=True)
        first = np.cumsum(count) - count
        own = count[graph_of]
        self.groups: list[int] = groups.tolist()
        self.rank = np.repeat(np.arange(len(graph_of)), own)
        self.local = np.arange(len(self.rank)) - np.repeat(np.cumsum(own) - own, own)
        self.group = number.reshape(-1)[np.repeat(first[graph_of], own) + self.local]


def warn_of_slow_memory(context: Context, plans: Sequence[Sequence[Plan]]) -> None:
    """Warn where a collective's reductions are charged to a memory that is slower than a link: no accelerator is so."""
    links = context.network.bytes_per_ns if context.graph is None else context.graph.capacity
    memory, link = context.system.local_mem_bw / 1e9, float(max(links, default=0.0))
    reducing = [plan for own in plans for plan in own if KINDS[plan.use.type].reduces]
    if not 0 < memory < link:
        return
    if any(plan.activity >= 0 for plan in reducing):
        context.notes.warn(
            f"a memory of {memory:,.6g} GB/s, slower than a link of {link:,.6g} GB/s, has no effect: collectives as "
            "one activity charge no reductions; take --messages for a run that does, or give the bandwidth of the "
            "accelerator's memory (memory.bandwidth, local-mem-bw)"
        )
    if any(plan.chunks and plan.activity < 0 for plan in reducing):
        context.notes.warn(
            f"reductions are charged to a memory of {memory:,.6g} GB/s, slower than a link of {link:,.6g} GB/s: they "
            f"take {3 * link / memory:,.3g} times as long as what they reduce takes to arrive; a placeholder? Give the "
            "bandwidth of the accelerator's memory (memory.bandwidth, local-mem-bw)"
        )


def _check_own_rank(graph: Graph, ranks: Ints) -> None:
    """A send's source and a receive's destination, where given, are the rank itself."""
    for number, named in graph.own_rank.items():
        wrong = ranks[ranks != named]
        if len(wrong):
            sending = graph.kind[number] == at.RUN_SEND
            graph.refuse(
                number,
                f"{'comm_src of a send' if sending else 'comm_dst of a receive'} is not the rank that runs it",
                found=f"rank {named} in the trace of rank {int(wrong[0])}",
                expected=f"{int(wrong[0])}",
            )


def _check_self_messages(graph: Graph, ranks: Ints, context: Context) -> None:
    """Only a congestion-aware switch of one dimension can carry a message from a rank to itself."""
    if context.carries_messages_to_itself:
        return
    own = set(ranks.tolist()) if graph.peers.size else set()
    selves = [i for i, peer in enumerate(graph.peers.tolist()) if peer in own]
    messages = (graph.kind == at.RUN_SEND) | (graph.kind == at.RUN_RECV)
    if selves and (wrong := messages & np.isin(graph.a, selves)).any():
        number = int(wrong.argmax())
        graph.refuse(
            number,
            "a rank sends a message to itself",
            found=f"peer {graph.peer(number)}",
            expected="another rank (only a congestion-aware one-dimensional Switch carries such messages)",
        )


def _check_membership(graph: Graph, ranks: Ints, context: Context) -> None:
    for group in graph.groups:
        if group == 0:
            continue
        outside = ranks[~np.isin(ranks, context.groups[group])].tolist()
        if outside:
            use = next(i for i, use in enumerate(graph.uses) if use.group == group)
            graph.refuse(
                graph.first_call(use),
                f"rank {outside[0]} runs a collective of {context.group_text(group)}, of which it is not a member",
                expected=f"members {list(context.groups[group])[:8]}",
            )


def _check_groups_agree(
    context: Context,
    graphs: Sequence[Graph],
    graph_of: Ints,
    plans: Sequence[Sequence[Plan]],
    calls: Sequence[Ints],
    kinds: Kinds,
) -> None:
    """All members of a group run the same multiset of collectives: else some would wait for ever."""
    tally_of = cache(lambda g: _tally(plans[g], calls[g]))
    for group in _unlike(context, graphs, graph_of, tally_of, kinds):
        members = np.arange(context.ranks) if group == 0 else np.array(context.groups[group])
        dims: list[frozenset[int]] = []
        if len(members) == context.ranks:
            of_group = {id(plan): plan for own in plans for plan in own if plan.chunks and plan.group == group}
            dims = [_dims(plan, context) for plan in of_group.values()]
        for share in _shares(members, dims, context):
            _check_share(group, share, tally_of, graphs, graph_of, context)


def _unlike(
    context: Context,
    graphs: Sequence[Graph],
    graph_of: Ints,
    tally_of: Callable[[int], dict[int, _Tally]],
    kinds: Kinds,
) -> list[int]:
    """The groups whose members do not all run the same, by what graphs of their kinds run: those to be looked at."""
    known: dict[Hashable, int] = {}
    most = max((len(graph.groups) for graph in graphs), default=0)
    runs = np.zeros((len(kinds.first), most), np.int64)
    for kind, g in enumerate(kinds.first):
        tallies = tally_of(g)
        for i, group in enumerate(graphs[g].groups):
            tally = tallies.get(group, _Tally())
            key = frozenset((s, n, tally.uses[s].size_bytes) for s, n in tally.calls.items())
            runs[kind, i] = known.setdefault(key, len(known))
    named = Named(graphs, graph_of)
    run = runs[kinds.of_graph[graph_of[named.rank]], named.local]
    count = len(named.groups)
    low, high = np.full(count, len(known)), np.full(count, -1)
    np.minimum.at(low, named.group, run)
    np.maximum.at(high, named.group, run)
    come = np.bincount(named.group, minlength=count)
    members = np.array([len(context.groups[g]) if g else context.ranks for g in named.groups], np.int64)
    return [group for group, unlike in zip(named.groups, (low != high) | (come != members), strict=True) if unlike]


Signature = tuple[object, ...]
"""What all members must do alike: the type, chunks and phases of a collective, or the algorithm of a custom one, or of
an activity members and root, and the size, unless it is that of parts, which may differ."""


@dataclass(frozen=True)
class _Tally:
    """One graph's collectives of one group: how often each signature, and which collective stands for it."""

    calls: Counter[Signature] = field(default_factory=Counter)
    uses: dict[Signature, CollectiveUse] = field(default_factory=dict)


def _signature(plan: Plan) -> Signature:
    if plan.programs:
        return (plan.use.type, plan.programs[0].source)
    if plan.activity >= 0:
        return (plan.use.type, plan.activity, plan.use.size_bytes if KINDS[plan.use.type].in_place else None)
    return (plan.use.type, plan.chunks, *((phase.collective, phase.dim, phase.data_bytes) for phase in plan.phases))


def warn_of_rings(context: Context, plans: Sequence[Sequence[Plan]]) -> None:
    """Warn of the groups that were to get their dimensions and stay one ring; counted, too."""
    if not context.protocol.group_dimensions:
        return
    of_groups = (plan for own in plans for plan in own if plan.chunks and plan.use.type not in WITHOUT_REFERENCE)
    rings = list(dict.fromkeys(plan.group for plan in of_groups if not plan.by_dimension and not plan.programs))
    context.counts["process groups that stay one ring"] += len(rings)
    if rings:
        stay = f" and {len(rings) - 1} more stay" if len(rings) > 1 else " stays"
        context.notes.warn(
            f"{context.group_text(rings[0])}{stay} one ring (group_dimensions): no product of coordinates of the "
            "network's dimensions, or with an algorithm that takes all ranks at once or names too few dimensions"
        )


def calls_by_use(graph: Graph) -> Ints:
    """How many nodes of a graph ask for each of its collectives."""
    return np.bincount(graph.a[graph.kind == at.RUN_COLLECTIVE], minlength=len(graph.uses))


def _tally(plans: Sequence[Plan], calls: Ints) -> dict[int, _Tally]:
    """The tallies of a graph by group; collectives that are done at once wait for nobody."""
    tallies: dict[int, _Tally] = {}
    for plan, count in zip(plans, calls.tolist(), strict=True):
        if plan.chunks and count:
            tally = tallies.setdefault(plan.group, _Tally())
            tally.calls[_signature(plan)] += count
            tally.uses.setdefault(_signature(plan), plan.use)
    return tallies


def _dims(plan: Plan, context: Context) -> frozenset[int]:
    """Network dimensions that a collective of all ranks takes part in."""
    every = frozenset(range(len(context.network.npus_count)))
    if plan.programs or plan.activity >= 0 or any(phase.members.count == context.ranks for phase in plan.phases):
        return every
    return frozenset(phase.dim for phase in plan.phases)


def _shares(members: Ints, dims: Sequence[frozenset[int]], context: Context) -> list[Ints]:
    """The parts of a group that must agree: ranks that differ only in dimensions that take part."""
    if len(members) < context.ranks or not dims:
        return [members]
    stride = 1
    apart = np.zeros(len(members), np.int64)
    for d, count in enumerate(context.network.npus_count):
        if not any(d in one for one in dims):
            apart += members // stride % count * stride
        elif count > 1 and not all(d in one for one in dims):
            return []
        stride *= count
    return [members[apart == value] for value in np.unique(apart)]


def _check_share(
    group: int,
    members: Ints,
    tally_of: Callable[[int], dict[int, _Tally]],
    graphs: Sequence[Graph],
    graph_of: Ints,
    context: Context,
) -> None:
    by_graph, first = np.unique(graph_of[members], return_index=True)
    reference = int(by_graph[np.argmin(first)])
    expected = tally_of(reference).get(group, _Tally())
    name = "the group of all ranks" if group == 0 else context.group_text(group)
    for g in by_graph.tolist():
        found = tally_of(g).get(group, _Tally())
        if found.calls == expected.calls:
            sizes = {(expected.uses[s].size_bytes, use.size_bytes) for s, use in found.uses.items()}
            if any(one != other for one, other in sizes) and context.activities is None:
                context.notes.warn(f"members of {name} give different sizes to a collective that takes the same course")
            continue
        signature = next(iter((expected.calls - found.calls) or (found.calls - expected.calls)))
        use = expected.uses.get(signature) or found.uses[signature]
        one, other = members[graph_of[members] == reference], members[graph_of[members] == g]
        raise InputError(
            f"the members of {name} do not run the same collectives: {named_ranks(tuple(one.tolist()))} "
            f"run{'s' if len(one) == 1 else ''} {describe(use)} {expected.calls[signature]} times, "
            f"{named_ranks(tuple(other.tolist()))} {found.calls[signature]} times",
            file=graphs[g].trace.source,
            expected="the same types and sizes, equally often, on all members",
            remedy="a rank's trace is missing operations, or belongs to another run",
        )
