"""Nodes grouped as people ask about them: by rank, kind of collective, class of operator, module, link."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.collectives.kinds import KINDS
from chakrasim.event_graph.graph import Floats, Indices, Ints
from chakrasim.explanation.nodes import Nodes
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.graph import Graph
from chakrasim.simulator.outcome.records import SimulatedJob
from chakrasim.trace import NodeType
from chakrasim.trace.work import KIND

LOCAL: Final = (at.RUN_DELAY, at.RUN_WORK, at.RUN_MEMORY)
"""What a rank does without others."""
MESSAGES: Final = "messages"
OTHER: Final = "other"
_PASS: Final = re.compile(r" ?\b(forward|backward|recompute)\b.*")


@dataclass(frozen=True, eq=False)
class Family:
    """``group`` int32[nodes], -1 for nodes outside; ``names`` of the groups; ``total_ns`` float64[groups]: how long
    their nodes take together, where a collective counts once, not once for each rank."""

    group: Indices
    names: tuple[str | int, ...]
    total_ns: Floats


def ranks(nodes: Nodes, duration: Floats) -> Family:
    """By rank, what it computes: what ``--slow`` makes longer; of a class of equal ranks what each of them does."""
    own = nodes.computes
    group = np.where(own, nodes.owner, -1).astype(np.int32)
    total = _totals(group, len(nodes.ranks), nodes, duration) / nodes.copies
    return Family(group, tuple(nodes.ranks.tolist()), total)


def kinds(nodes: Nodes, duration: Floats) -> Family:
    """By kind of collective; messages are one."""
    return _family(nodes, duration, _kind)


def op_classes(nodes: Nodes, duration: Floats) -> Family:
    """By class of operator, of what ranks do without others: what nodes say of themselves, else the type of node."""
    return _family(nodes, duration, _op_class)


def modules(nodes: Nodes, duration: Floats) -> Family:
    """By module, of all nodes: what stands before the colon in a node's name, forward and backward pass together."""
    return _family(nodes, duration, lambda graph, n: module_of(graph.trace.name(int(graph.order[n]))))


def links(nodes: Nodes, job: SimulatedJob, duration: Floats) -> Family:
    """By the dimensions of the network that collectives and messages take."""
    links_of = _Links(nodes, job)
    return _family(nodes, duration, links_of.name, by_owner=True)


def module_of(name: str) -> str:
    """The module that a node belongs to, by its name; "other" for names that say nothing of it."""
    before, colon, _ = name.partition(": ")
    return (_PASS.sub("", before).strip() or OTHER) if colon else OTHER


def kind_of(graph: Graph, node: int) -> str:
    """What a node is: a kind of collective, a message, or a class of operator."""
    return _kind(graph, node) or _op_class(graph, node) or OTHER


def _kind(graph: Graph, node: int) -> str:
    kind = int(graph.kind[node])
    if kind == at.RUN_COLLECTIVE:
        return KINDS[graph.uses[int(graph.a[node])].type].key
    if kind in (at.RUN_SEND, at.RUN_RECV):
        return MESSAGES
    type_ = int(graph.trace.types[graph.order[node]])
    if type_ == NodeType.COMM_COLL_NODE:
        number = int(graph.trace.attr("comm_type").integers(-1)[graph.order[node]])
        return next((meaning.key for collective, meaning in KINDS.items() if int(collective) == number), OTHER)
    return MESSAGES if type_ in (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE) else ""


def _op_class(graph: Graph, node: int) -> str:
    position = int(graph.order[node])
    if int(graph.kind[node]) not in LOCAL or int(graph.trace.types[position]) >= int(NodeType.COMM_SEND_NODE):
        return ""
    given = graph.trace.attr(KIND)
    if given.present[position]:
        return given.string(position)
    if int(graph.kind[node]) == at.RUN_MEMORY:
        return "memory"
    return "host" if int(graph.category[node]) == at.CAT_CPU else "compute"


class _Links:
    """Which dimensions of the network each node's bytes take."""

    def __init__(self, nodes: Nodes, job: SimulatedJob) -> None:
        self.nodes, self.job = nodes, job
        sizes = np.array(job.context.network.npus_count, np.int64)
        self.strides = np.concatenate([[1], np.cumprod(sizes)[:-1]])
        self.sizes = sizes

    def name(self, graph: Graph, node: int, owner: int) -> str:
        kind = int(graph.kind[node])
        if kind not in (at.RUN_COLLECTIVE, at.RUN_SEND, at.RUN_RECV):
            return ""
        if self.job.context.network_model in ("flow", "packet"):
            return "network"
        rank = int(self.nodes.ranks[owner])
        if kind == at.RUN_COLLECTIVE:
            plan = self.job.plans[int(self.job.graph_of[rank])][int(graph.a[node])]
            if not plan.group:
                return _dims({phase.dim for phase in plan.phases})
            others = np.array(self.job.context.groups.get(plan.group, (rank,)), np.int64)
        else:
            others = graph.peers[graph.a[node] : graph.a[node] + 1]
        apart = others[:, None] // self.strides % self.sizes != rank // self.strides % self.sizes
        return _dims(set(np.flatnonzero(apart.any(axis=0)).tolist()))


def _dims(dims: set[int]) -> str:
    return "dim " + "+".join(map(str, sorted(dims))) if dims else "no link"


def _family(nodes: Nodes, duration: Floats, name_of: Callable[..., str], *, by_owner: bool = False) -> Family:
    """Groups by name; nodes without one are outside. Ranks with the same columns share names."""
    numbers: dict[str, int] = {}
    known: dict[int, Ints] = {}
    group = np.full(len(nodes.kind), -1, np.int32)
    for owner, graph in enumerate(nodes.graphs):
        own = slice(int(nodes.first[owner]), int(nodes.first[owner + 1]))
        key = id(graph) if by_owner else id(graph.columns)
        if key not in known:
            extra = (owner,) if by_owner else ()
            names = [name_of(graph, n, *extra) for n in range(len(graph))]
            known[key] = np.array([numbers.setdefault(name, len(numbers)) if name else -1 for name in names], np.int64)
        group[own] = known[key][nodes.number[own]]
    return Family(group, tuple(numbers), _totals(group, len(numbers), nodes, duration))


def _totals(group: Indices, groups: int, nodes: Nodes, duration: Floats) -> Floats:
    """Time of each group's nodes over all ranks, a collective's once."""
    weight = nodes.copies[nodes.owner] / nodes.members
    inside = group >= 0
    return np.bincount(group[inside], (duration * weight)[inside], groups).astype(np.float64)
