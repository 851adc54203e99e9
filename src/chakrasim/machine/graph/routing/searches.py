"""The kernels of routing run over batches of destinations, with room that grows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chakrasim.machine.graph.routing.kernels.ends import Ends, Flows, batches, find_classes
from chakrasim.machine.graph.routing.kernels.fan import list_all, make_fan, spread_all
from chakrasim.machine.graph.routing.kernels.maze import Maze
from chakrasim.machine.graph.routing.kernels.mixer import keys_of
from chakrasim.machine.graph.routing.kernels.nexts import Nexts, make_nexts
from chakrasim.machine.graph.routing.kernels.search import UNREACHED, Search, make_search, search_all
from chakrasim.machine.graph.routing.kernels.trunk import make_trunk
from chakrasim.machine.graph.routing.kernels.walk import Found, gather, walk_all
from chakrasim.machine.graph.routing.routes import Floats, Ints, Longs, Routes
from chakrasim.machine.graph.routing.rule import Routing
from chakrasim.trace.chakra.graph import offsets_of

Step = Callable[[Ends, Flows, Search, Nexts, Found, int, int], tuple[int, int]]
"""A kernel on a batch, from a position on and with so many crossings written; as `walk_all`."""


def one_way(maze: Maze, routing: Routing, flows: Flows, rule: int) -> Routes:
    """Routes with one link at every vertex, chosen as ``rule`` (`maze.py`) says."""

    def step(
        ends: Ends, batch: Flows, search: Search, nexts: Nexts, found: Found, at: int, used: int
    ) -> tuple[int, int]:
        return walk_all(maze, ends, batch, search, nexts, found, rule, at, used)

    return _in_order(_over_batches(maze, routing, flows, flows.source.size, step, False))


def divided(maze: Maze, routing: Routing, flows: Flows) -> Routes:
    """Routes that divide equally among the next links at every vertex."""
    fan = make_fan(maze.core.size)

    def step(
        ends: Ends, batch: Flows, search: Search, nexts: Nexts, found: Found, at: int, used: int
    ) -> tuple[int, int]:
        return spread_all(maze, ends, batch, search, nexts, found, fan, at, used)

    return _in_order(_over_batches(maze, routing, flows, flows.source.size, step, True))


def all_ways(maze: Maze, routing: Routing, flows: Flows, limit: int) -> tuple[Longs, Routes]:
    """int64[f + 1] and the shortest ways of each flow, at most ``limit``, each a route of its own."""
    fan = make_fan(maze.core.size)
    way_first = np.zeros(flows.source.size + 1, np.int64)
    count_only = True

    def step(
        ends: Ends, batch: Flows, search: Search, nexts: Nexts, found: Found, at: int, used: int
    ) -> tuple[int, int]:
        return list_all(maze, ends, batch, search, nexts, found, fan, way_first, limit, count_only, at, used)

    _over_batches(maze, routing, flows, 0, step, False)
    count_only = False
    way_first = np.cumsum(way_first)
    found = _over_batches(maze, routing, flows, int(way_first[-1]), step, False)
    return way_first, _in_order(found)


def as_flows(routing: Routing, source: Ints, destination: Ints, label: Longs) -> Flows:
    """Flows with their parts of the hash."""
    return Flows(source, destination, keys_of(routing.seed, source, destination, label), np.zeros(0, np.int64))


def _over_batches(maze: Maze, routing: Routing, flows: Flows, routes: int, step: Step, divided: bool) -> Found:
    by_hops = routing.metric == "hops"
    room = 8 * routes + 64
    coefficient: Floats = np.empty(room if divided else 0)
    found = Found(np.zeros(routes, np.int64), np.zeros(routes, np.int32), np.empty(room, np.int32), coefficient)
    nexts, trunk = make_nexts(maze), make_trunk(maze)
    used = 0
    with np.errstate(over="ignore"):  # uncompiled, the hash warns where a product wraps
        for ends, order in batches(maze, find_classes(maze, flows.destination), flows.destination):
            batch = flows._replace(order=order)
            search = make_search(trunk, ends.row_vertex.size, by_hops)
            search_all(maze, trunk, ends, batch, search, by_hops)
            nexts.near[:] = UNREACHED
            at, used = step(ends, batch, search, nexts, found, 0, used)
            while at < order.size:
                wider = np.resize(found.coefficient, 2 * found.coefficient.size)
                found = found._replace(link=np.resize(found.link, 2 * found.link.size), coefficient=wider)
                nexts.near[:] = UNREACHED
                at, used = step(ends, batch, search, nexts, found, at, used)
    return found


def _in_order(found: Found) -> Routes:
    """What was found, flow by flow."""
    first = offsets_of(np.maximum(found.length, 0))
    link = np.empty(first[-1], np.int32)
    coefficient: Floats = np.ones(first[-1])
    gather(found, first, link, coefficient)
    return Routes(first, link, coefficient, np.flatnonzero(found.length < 0))
