"""Flows that stop on the way: dimension by dimension, or at a place in their own island (PXN)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.machine.graph.graph import NO_ISLAND, NetworkGraph
from chakrasim.machine.graph.routing.routes import Ints, Longs, Routes
from chakrasim.machine.graph.routing.rule import Routing
from chakrasim.trace.chakra.graph import offsets_of


class Legs(NamedTuple):
    """The legs of flows, flow by flow: int64[f + 1], and int32[n] where each begins and ends."""

    first: Longs
    source: Ints
    destination: Ints

    @property
    def flow(self) -> Longs:
        """int64[n]: whose leg it is."""
        return np.repeat(np.arange(self.first.size - 1), np.diff(self.first))


def legs_of(graph: NetworkGraph, routing: Routing, source: Ints, destination: Ints) -> Legs | None:
    """How flows are cut, None where none are."""
    if routing.rule == "dimension-order":
        return through(_corners(graph, source, destination))
    if routing.pxn:
        return through(np.stack([source, mates(graph, source, destination), destination]))
    return None


def through(stops: NDArray[np.int32]) -> Legs:
    """Legs between successive ``stops`` [s, f] that differ; a flow from a vertex to itself keeps one."""
    moves = stops[1:] != stops[:-1]
    moves[-1] |= ~moves.any(axis=0)
    first = offsets_of(moves.sum(axis=0))
    keep = moves.T
    return Legs(first, np.ascontiguousarray(stops[:-1].T[keep]), np.ascontiguousarray(stops[1:].T[keep]))


def _corners(graph: NetworkGraph, source: Ints, destination: Ints) -> NDArray[np.int32]:
    """int32[d + 1, f]: where a flow stands after each dimension, the innermost first."""
    for ends in (source, destination):
        if ends.size and int(ends.max()) >= graph.ranks:
            raise InputError(
                "dimension order leads from rank to rank", file="flows", found=graph.names[int(ends.max())]
            )
    stops = [source]
    stride = 1
    for size in graph.logical:
        ahead = destination // stride % size - stops[-1] // stride % size
        stops.append((stops[-1] + ahead * stride).astype(np.int32))
        stride *= size
    return np.stack(stops)


def forward_links(graph: NetworkGraph) -> NDArray[np.bool_]:
    """bool[l]: links from a rank to the next in one dimension of the logical shape, the last one's next the first.
    Of two, both are the next: the links are those that their cables begin with."""
    ends = (graph.source < graph.ranks) & (graph.target < graph.ranks)
    forward = np.zeros(graph.links, np.bool_)
    changed = np.zeros(graph.links, np.int32)
    begins = np.zeros(graph.links, np.bool_)
    begins[np.unique(graph.cable, return_index=True)[1]] = True
    stride = 1
    for size in graph.logical:
        ahead = (graph.target // stride % size - graph.source // stride % size) % size
        changed += ahead != 0
        forward |= (ahead == 1) & ((size > 2) | begins)
        stride *= size
    found: NDArray[np.bool_] = ends & forward & (changed == 1)
    return found


def mates(graph: NetworkGraph, source: Ints, destination: Ints) -> Ints:
    """int32[f]: for messages to another island, the rank in the source's island that has the destination's place in
    its own; the source itself for others, and where there is no such rank."""
    island = graph.island[: graph.ranks]
    order = np.argsort(island, kind="stable")
    size = np.bincount(island[island >= 0], minlength=int(island.max(initial=0)) + 1)
    first = offsets_of(size) + np.count_nonzero(island == NO_ISLAND)
    place = np.zeros(graph.vertices, np.int64)
    place[order] = np.arange(graph.ranks) - first[island[order]]
    here, there = graph.island[source], graph.island[destination]
    crosses = (here != there) & (here >= 0) & (there >= 0) & (source < graph.ranks) & (destination < graph.ranks)
    crosses &= place[destination] < size[np.where(crosses, here, 0)]
    found = source.copy()
    found[crosses] = order[first[here[crosses]] + place[destination[crosses]]]
    return found


def join(legs: Legs, routes: Routes) -> Routes:
    """The routes of whole flows, from those of their legs; a flow of which a leg has no route has none."""
    missing = np.unique(legs.flow[routes.missing])
    first = routes.first[legs.first]
    if missing.size == 0:
        return Routes(first, routes.link, routes.coefficient)
    keep = np.ones(legs.first.size - 1, np.bool_)
    keep[missing] = False
    lengths = np.diff(first)
    there = np.repeat(keep, lengths)
    return Routes(offsets_of(np.where(keep, lengths, 0)), routes.link[there], routes.coefficient[there], missing)


def circling(graph: NetworkGraph, routes: Routes, source: Ints) -> Longs:
    """Flows that come to a vertex twice."""
    seen = np.concatenate(
        [routes.flow * graph.vertices + graph.target[routes.link], np.arange(routes.flows) * graph.vertices + source]
    )
    values, counts = np.unique(seen, return_counts=True)
    return np.unique(values[counts > 1] // graph.vertices)


def patched(routes: Routes, flows: Longs, by: Routes) -> Routes:
    """The routes with those of some ``flows``, in ascending order, replaced."""
    lengths = np.diff(routes.first)
    lengths[flows] = np.diff(by.first)
    first = offsets_of(lengths)
    replaced = np.zeros(routes.flows, np.bool_)
    replaced[flows] = True
    new = np.repeat(replaced, lengths)
    old = np.repeat(~replaced, np.diff(routes.first))
    link, coefficient = np.empty(first[-1], np.int32), np.empty(first[-1])
    link[new], coefficient[new] = by.link, by.coefficient
    link[~new], coefficient[~new] = routes.link[old], routes.coefficient[old]
    missing = np.union1d(routes.missing[~replaced[routes.missing]], flows[by.missing])
    return Routes(first, link, coefficient, missing)
