"""Adaptive routing: the ways that a flow may take, and which of them it takes when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.jit import kernel, leaf
from chakrasim.machine.graph.graph import SWITCH, NetworkGraph
from chakrasim.machine.graph.routing.kernels.maze import HASHED, Maze
from chakrasim.machine.graph.routing.kernels.mixer import drawn
from chakrasim.machine.graph.routing.legs import circling, join, through
from chakrasim.machine.graph.routing.pick import least_loaded
from chakrasim.machine.graph.routing.routes import Floats, Ints, Longs, Routes, concatenated
from chakrasim.machine.graph.routing.rule import Routing
from chakrasim.machine.graph.routing.searches import all_ways, as_flows, one_way
from chakrasim.trace.chakra.graph import offsets_of

TOGETHER: Final = 2**16
"""Flows whose ways are held at a time."""
_least_loaded = leaf(least_loaded)


@dataclass(frozen=True, eq=False)
class Ways:
    """The ways open to flows, flow by flow.

    Attributes
    ----------
    first:
        int64[f + 1]: the ways of flow i are routes ``first[i]`` to ``first[i + 1]`` - 1 of ``routes``.
    routes:
        One route a way.
    detour:
        bool[w]: whether it leads through a switch that is on no shortest way; a flow's detours come last.
    tie:
        int64[f], 0 or more: of n ways that are equally good, the flow takes number ``tie mod n``.
    missing:
        int64[m]: flows without a way.
    """

    first: Longs
    routes: Routes
    detour: NDArray[np.bool_]
    tie: Longs
    missing: Longs


def ways_of(
    graph: NetworkGraph,
    maze: Maze,
    routing: Routing,
    source: Ints,
    destination: Ints,
    label: Longs,
) -> Ways:
    """Shortest ways, at most ``routing.ways`` a flow, and ``routing.detours`` (Valiant) beside them."""
    flows = as_flows(routing, source, destination, label)
    first, routes = all_ways(maze, routing, flows, routing.ways)
    detour = np.zeros(routes.flows, np.bool_)
    missing = np.flatnonzero(np.diff(first) == 0)
    if routing.detours:
        owner = np.repeat(np.arange(source.size), np.diff(first))
        more, others = _detours(graph, maze, routing, first, routes, (source, destination, label))
        order = np.argsort(np.concatenate([owner, more]), kind="stable")
        routes = concatenated(routes, others).take(order)
        detour = np.concatenate([detour, np.ones(more.size, np.bool_)])[order]
        first = first + offsets_of(np.bincount(more, minlength=source.size))
    return Ways(first, routes, detour, (flows.key >> np.uint64(1)).astype(np.int64), missing)


def _detours(
    graph: NetworkGraph,
    maze: Maze,
    routing: Routing,
    first: Longs,
    ways: Routes,
    flows: tuple[Ints, Ints, Longs],
) -> tuple[Longs, Routes]:
    """Ways through switches that the hash draws among those on which ranks hang, outside the groups of both ends: whose
    flow each is, and their routes. Those that come to a vertex twice are left out."""
    source, destination, label = flows
    pool = _gateways(graph)
    if pool.size == 0:
        return np.zeros(0, np.int64), ways.take(np.zeros(0, np.int64))
    is_gateway = np.isin(np.arange(graph.vertices), pool)
    group = np.where(graph.island >= 0, graph.island, graph.vertices + np.arange(graph.vertices))
    routed = np.flatnonzero(np.diff(first) > 0)
    near, far = _ends(graph, ways.take(first[routed]), is_gateway)
    kept = near >= 0
    routed, near, far = routed[kept], near[kept], far[kept]
    owners, middles = [], []
    for turn in range(routing.detours):
        at = drawn(routing.seed, source[routed], destination[routed], label[routed], turn, pool.size)
        for _ in range(pool.size):
            taken = (group[pool[at]] == group[near]) | (group[pool[at]] == group[far])
            if not taken.any():
                break
            at = np.where(taken, (at + 1) % pool.size, at)
        outside = (group[pool[at]] != group[near]) & (group[pool[at]] != group[far])
        owners.append(routed[outside])
        middles.append(pool[at[outside]])
    owner, middle = np.concatenate(owners), np.concatenate(middles).astype(np.int32)
    legs = through(np.stack([source[owner], middle, destination[owner]]))
    leg_flows = as_flows(routing, legs.source, legs.destination, label[owner][legs.flow])
    routes = join(legs, one_way(maze, routing, leg_flows, HASHED))
    good = np.ones(owner.size, np.bool_)
    good[routes.missing] = False
    good[circling(graph, routes, source[owner])] = False
    return owner[good], routes.take(np.flatnonzero(good))


def _gateways(graph: NetworkGraph) -> Ints:
    """Switches of the fabric with a link to something that is none: a rank, a NIC."""
    edge = (graph.kind[graph.source] == SWITCH) & (graph.kind[graph.target] != SWITCH)
    return np.unique(graph.source[edge])


def _ends(graph: NetworkGraph, routes: Routes, is_gateway: NDArray[np.bool_]) -> tuple[Longs, Longs]:
    """The first and the last gateway of each route, -1 where it has none."""
    flow, vertex = routes.flow, graph.target[routes.link]
    seen = is_gateway[vertex]
    near, far = np.full(routes.flows, -1, np.int64), np.full(routes.flows, -1, np.int64)
    far[flow[seen]] = vertex[seen]
    near[flow[seen][::-1]] = vertex[seen][::-1]
    return near, far


def all_started(
    graph: NetworkGraph, maze: Maze, routing: Routing, source: Ints, destination: Ints, label: Longs
) -> Routes:
    """The ways that flows take which start at one instant, in the order of their numbers, on an empty network."""
    on_link = np.zeros(graph.links, np.int64)
    parts = []
    for begin in range(0, max(source.size, 1), TOGETHER):
        part = slice(begin, begin + TOGETHER)
        ways = ways_of(graph, maze, routing, source[part], destination[part], label[part])
        parts.append(_started(graph, ways, routing.threshold, on_link))
    return concatenated(*parts)


def _started(graph: NetworkGraph, ways: Ways, threshold: float, on_link: Longs) -> Routes:
    """The ways that flows take beside those counted ``on_link``; they are counted there, too."""
    taken = np.zeros(ways.first.size - 1, np.int64)
    start_all(
        ways.first,
        ways.routes.first,
        ways.routes.link,
        ways.detour,
        ways.tie,
        threshold,
        graph.medium,
        graph.capacity,
        on_link,
        taken,
    )
    there = taken >= 0
    found = ways.routes.take(taken[there])
    lengths = np.zeros(taken.size, np.int64)
    lengths[there] = np.diff(found.first)
    return Routes(offsets_of(lengths), found.link, found.coefficient, ways.missing)


@kernel
def start_all(
    first: Longs,
    route_first: Longs,
    link: Ints,
    detour: NDArray[np.bool_],
    tie: Longs,
    threshold: float,
    medium: Ints,
    capacity: Floats,
    on_link: Longs,
    taken: Longs,
) -> None:
    """Fill ``taken`` [f], the way of each flow, -1 without any, and count flows ``on_link`` [l]."""
    for flow in range(taken.size):
        way = _least_loaded(flow, first, route_first, link, detour, tie, threshold, medium, capacity, on_link)
        taken[flow] = way
        if way >= 0:
            for i in range(route_first[way], route_first[way + 1]):
                on_link[medium[link[i]]] += 1
