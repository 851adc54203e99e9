"""What can be told before the clock starts: ranks that name each other wrongly, groups that do not agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
from chakrasim.simulator.outcome.stall import describe, named_ranks

Ints = NDArray[np.int64]
IDLE = "<idle>"
"""Source of the trace of ranks that no job runs on."""


def check_ranks(
    context: Context, graphs: Sequence[Graph], graph_of: Ints, plans: Sequence[Sequence[Plan]], calls: Sequence[Ints]
) -> None:
    """Raise InputError for what no run could make sense of; ``calls[g][u]``: how many nodes of graph g ask for its u-th
    collective."""
    members = {group: frozenset(context.groups[group]) for graph in graphs for group in graph.groups if group != 0}
    by_graph = np.argsort(graph_of, kind="stable")
    limits = np.searchsorted(graph_of[by_graph], np.arange(len(graphs) + 1)).tolist()
    for g, graph in enumerate(graphs):
        if not len(graph) and graph.trace.source != IDLE:
            context.notes.warn(f"{graph.trace.source}: the trace has no nodes: its ranks finish at once")
        ranks = by_graph[limits[g] : limits[g + 1]]
        _check_own_rank(graph, ranks)
        _check_self_messages(graph, ranks, context)
        _check_membership(graph, ranks, members, context)
    _check_groups_agree(context, graphs, graph_of, plans, calls)


def warn_of_slow_memory(context: Context, plans: Sequence[Sequence[Plan]]) -> None:
    """Warn where a collective's reductions are charged to a memory that is slower than a link: no accelerator is so."""
    links = context.network.bytes_per_ns if context.graph is None else context.graph.capacity
    memory, link = context.system.local_mem_bw / 1e9, float(max(links))
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


def _check_membership(graph: Graph, ranks: Ints, members: Mapping[int, frozenset[int]], context: Context) -> None:
    for group in graph.groups:
        if group == 0:
            continue
        outside = [rank for rank in ranks.tolist() if rank not in members[group]]
        if outside:
            use = next(i for i, use in enumerate(graph.uses) if use.group == group)
            graph.refuse(
                graph.first_call(use),
                f"rank {outside[0]} runs a collective of {context.group_text(group)}, of which it is not a member",
                expected=f"members {list(context.groups[group])[:8]}",
            )


def _check_groups_agree(
    context: Context, graphs: Sequence[Graph], graph_of: Ints, plans: Sequence[Sequence[Plan]], calls: Sequence[Ints]
) -> None:
    """All members of a group run the same multiset of collectives: else some would wait for ever."""
    tallies = [_tally(own, count) for own, count in zip(plans, calls, strict=True)]
    distinct = {id(plan): plan for own in plans for plan in own if plan.chunks}
    dims_of: dict[int, list[frozenset[int]]] = {}
    for plan in distinct.values():
        dims_of.setdefault(plan.group, []).append(_dims(plan, context))
    for group in sorted({group for graph in graphs for group in graph.groups}):
        members = np.arange(context.ranks) if group == 0 else np.array(context.groups[group])
        dims = dims_of.get(group, [])
        for share in _shares(members, dims, context):
            _check_share(group, share, tallies, graphs, graph_of, context)


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
    tallies: Sequence[dict[int, _Tally]],
    graphs: Sequence[Graph],
    graph_of: Ints,
    context: Context,
) -> None:
    by_graph, first = np.unique(graph_of[members], return_index=True)
    reference = int(by_graph[np.argmin(first)])
    expected = tallies[reference].get(group, _Tally())
    name = "the group of all ranks" if group == 0 else context.group_text(group)
    for g in by_graph.tolist():
        found = tallies[g].get(group, _Tally())
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
