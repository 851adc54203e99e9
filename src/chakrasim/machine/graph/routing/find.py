"""Routes of many flows at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chakrasim.errors import InputError
from chakrasim.machine.graph.graph import NVSWITCH, NetworkGraph
from chakrasim.machine.graph.routing.given import given_routes, read_tables
from chakrasim.machine.graph.routing.kernels.maze import BY_DESTINATION, BY_SOURCE, HASHED, Maze, make_maze
from chakrasim.machine.graph.routing.legs import circling, forward_links, join, legs_of, patched
from chakrasim.machine.graph.routing.levels import layers
from chakrasim.machine.graph.routing.no_route import refuse_missing
from chakrasim.machine.graph.routing.routes import Ints, Longs, Routes
from chakrasim.machine.graph.routing.rule import Routing
from chakrasim.machine.graph.routing.searches import as_flows, divided, one_way
from chakrasim.machine.graph.routing.ways import Ways, all_started, ways_of

_CHOICE = {"d-mod-k": BY_DESTINATION, "s-mod-k": BY_SOURCE}


def find_routes(
    graph: NetworkGraph,
    source: ArrayLike,
    destination: ArrayLike,
    label: ArrayLike | None = None,
    routing: Routing | None = None,
    dead: NDArray[np.bool_] | None = None,
    *,
    refuse: bool = True,
) -> Routes:
    """The links that each flow crosses. Adaptive flows start at one instant, in the order of their numbers, on an empty
    network (`find_ways` is for others).

    Parameters
    ----------
    source, destination:
        int32[f]: numbers of vertices, mostly ranks.
    label:
        int64[f]: the flow's channel or message number, which the hash takes in; 0 if not given.
    dead:
        bool[l]: links that are down. Choices that had none of them among their candidates stay as they are.
    refuse:
        Raise for flows without a route; else `Routes.missing` has them.

    Raises :class:`chakrasim.InputError` for numbers that are no vertices, for a rule that does not fit the graph, and
    for flows without a route, with both ends and the parts that the graph falls into.
    """
    routing = routing or Routing()
    begin, end, labels = checked_flows(graph, source, destination, label)
    maze = maze_of(graph, routing, dead)
    legs = legs_of(graph, routing, begin, end)
    if routing.rule == "given":
        tables = read_tables(graph, routing.paths, routing.next_links)
        routes = given_routes(graph, tables, routing.seed, maze.salt, (begin, end, labels), dead)
    elif routing.rule == "adaptive":
        routes = all_started(graph, maze, routing, begin, end, labels)
    elif legs is None:
        routes = _plain(maze, routing, begin, end, labels)
    else:
        routes = join(legs, _plain(maze, routing, legs.source, legs.destination, labels[legs.flow]))
        again = routes.missing
        if dead is not None and dead.any() and routing.rule != "spray":
            again = np.union1d(again, circling(graph, routes, begin))
        if again.size:  # links that are down keep them from their stops: they take a shortest way
            routes = patched(routes, again, _plain(maze, routing, begin[again], end[again], labels[again]))
    if refuse and routes.missing.size:
        refuse_missing(graph, begin, end, routes.missing, dead, routing.rule)
    return routes


def find_ways(
    graph: NetworkGraph,
    source: ArrayLike,
    destination: ArrayLike,
    label: ArrayLike | None = None,
    routing: Routing | None = None,
    dead: NDArray[np.bool_] | None = None,
    *,
    refuse: bool = True,
) -> Ways:
    """The ways among which adaptive flows choose when they start (`pick.least_loaded`); parameters and errors as of
    `find_routes`."""
    routing = routing or Routing("adaptive")
    begin, end, labels = checked_flows(graph, source, destination, label)
    ways = ways_of(graph, maze_of(graph, routing, dead), routing, begin, end, labels)
    if refuse and ways.missing.size:
        refuse_missing(graph, begin, end, ways.missing, dead, routing.rule)
    return ways


def maze_of(graph: NetworkGraph, routing: Routing, dead: NDArray[np.bool_] | None) -> Maze:
    """The graph as the kernels see it under a rule."""
    preferred = np.zeros(graph.links, np.bool_)
    if routing.rule == "dimension-order":
        preferred = forward_links(graph)
    elif routing.nvswitch_first:
        preferred = graph.kind[graph.target] == NVSWITCH
    return make_maze(graph, routing, dead, preferred, layers(graph, routing.rule) if routing.rule in _CHOICE else None)


def checked_flows(
    graph: NetworkGraph, source: ArrayLike, destination: ArrayLike, label: ArrayLike | None
) -> tuple[Ints, Ints, Longs]:
    """Sources, destinations and labels as arrays of one length."""
    ends = [_vertices(graph, values, what) for values, what in ((source, "source"), (destination, "destination"))]
    labels = np.zeros(ends[0].size, np.int64) if label is None else np.asarray(label, np.int64)
    if not ends[0].size == ends[1].size == labels.size:
        sizes = f"{ends[0].size}, {ends[1].size} and {labels.size}"
        raise InputError("sources, destinations and labels differ in number", file="flows", found=sizes)
    return ends[0], ends[1], labels


def _vertices(graph: NetworkGraph, values: ArrayLike, what: str) -> Ints:
    found = np.asarray(values)
    if found.size and not (found.min() >= 0 and found.max() < graph.vertices):
        wrong = found[(found < 0) | (found >= graph.vertices)][0]
        raise InputError(
            f"a flow's {what} is no vertex", file="flows", found=wrong, expected=f"0 to {graph.vertices - 1}"
        )
    return found.astype(np.int32)


def _plain(maze: Maze, routing: Routing, source: Ints, destination: Ints, label: Longs) -> Routes:
    flows = as_flows(routing, source, destination, label)
    if routing.rule == "spray":
        return divided(maze, routing, flows)
    return one_way(maze, routing, flows, _CHOICE.get(routing.rule, HASHED))
