"""Channels: rings over ranks that enter and leave each island by their own NIC (graph-networks.md, 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chakrasim.errors import InputError
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing.circuits import find_circuits
from chakrasim.machine.graph.routing.find import find_routes
from chakrasim.machine.graph.routing.legs import join, patched, through
from chakrasim.machine.graph.routing.routes import Ints, Routes
from chakrasim.machine.graph.routing.rule import Routing
from chakrasim.trace.chakra.graph import offsets_of


@dataclass(frozen=True, eq=False)
class ChannelRings:
    """Rings, one a channel.

    Attributes
    ----------
    orders:
        int32[c, n]: the ranks in the order of each channel's ring.
    routes:
        Route c n + k leads from ``orders[c, k]`` to the next rank of the ring, the first behind the last.
    """

    orders: Ints
    routes: Routes


def channel_rings(
    graph: NetworkGraph,
    ranks: ArrayLike,
    channels: int,
    routing: Routing | None = None,
    dead: NDArray[np.bool_] | None = None,
    *,
    refuse: bool = True,
) -> ChannelRings:
    """The rings of ``channels`` channels over ``ranks``, and the routes of their hops; the label is the channel.

    Islands follow one another as they do in ``ranks``. Channel c begins in each island at member c (modulo its size)
    and goes round; its last hop leaves by that same member, to which the last rank hands on inside the island. So a
    channel crosses the network between NICs of one place, its rail. Where the members of an island are cabled to one
    another without a switch, channels go round over cables of their own as far as there are any (`find_circuits`).
    Raises :class:`chakrasim.InputError` where a hop has no route, unless ``refuse`` is False: then `Routes.missing` has
    those hops.
    """
    members = np.asarray(ranks, np.int32)
    if (
        members.size == 0
        or np.unique(members).size < members.size
        or not 0 <= members.min() <= members.max() < graph.ranks
    ):
        raise InputError("a ring needs ranks, each once, and a channel", file="ring", found=members.tolist()[:20])
    islands = _by_island(graph, members)
    circuits = [find_circuits(graph, island, channels, dead) for island in islands]
    orders = np.empty((channels, members.size), np.int32)
    gates = np.empty((channels, members.size), np.int32)
    for channel in range(channels):
        parts = [_turned(island, known, channel) for island, known in zip(islands, circuits, strict=True)]
        orders[channel] = np.concatenate(parts)
        gates[channel] = np.concatenate([np.full(part.size, part[0]) for part in parts])
    source, destination = orders.ravel(), np.roll(orders, -1, axis=1).ravel()
    gate, label = gates.ravel(), np.repeat(np.arange(channels, dtype=np.int64), members.size)
    leaves = gate != np.roll(gates, -1, axis=1).ravel()
    legs = through(np.stack([source, np.where(leaves, gate, source).astype(np.int32), destination]))
    found = find_routes(graph, legs.source, legs.destination, label[legs.flow], routing, dead, refuse=refuse)
    routes = join(legs, found)
    return ChannelRings(orders, _on_own_cables(graph, routes, source, destination, circuits, dead))


def _by_island(graph: NetworkGraph, members: Ints) -> list[Ints]:
    """The ranks of each island, in order; those in none by themselves."""
    groups: dict[int, list[int]] = {}
    for rank in members.tolist():
        island = int(graph.island[rank])
        groups.setdefault(island if island >= 0 else -1 - rank, []).append(rank)
    return [np.array(group, np.int32) for group in groups.values()]


def _turned(island: Ints, circuits: list[list[int]], channel: int) -> Ints:
    """An island's members in a channel's order."""
    start = island[channel % island.size]
    order = np.array(circuits[channel % len(circuits)], np.int32) if circuits else island
    return np.roll(order, -int(np.flatnonzero(order == start)[0]))


def _on_own_cables(
    graph: NetworkGraph,
    routes: Routes,
    source: Ints,
    destination: Ints,
    circuits: list[list[list[int]]],
    dead: NDArray[np.bool_] | None,
) -> Routes:
    """Hops over a cable between members, each over the next of the parallel ones: circuits count on that."""
    if not any(circuits):
        return routes
    inside = {rank for known in circuits for rank in (known[0] if known else ())}
    used: dict[tuple[int, int], int] = {}
    hops, links = [], []
    single = np.flatnonzero(np.diff(routes.first) == 1)
    for hop in single.tolist():
        pair = int(source[hop]), int(destination[hop])
        if pair[0] in inside and pair[1] in inside:
            leaving = graph.leaving[1][graph.leaving[0][pair[0]] : graph.leaving[0][pair[0] + 1]]
            direct = leaving[(graph.target[leaving] == pair[1]) & (True if dead is None else ~dead[leaving])]
            links.append(int(direct[used.get(pair, 0) % direct.size]))
            used[pair] = used.get(pair, 0) + 1
            hops.append(hop)
    chosen = np.array(links, np.int32)
    own = Routes(offsets_of(np.ones(chosen.size, np.int64)), chosen, np.ones(chosen.size))
    return patched(routes, np.array(hops, np.int64), own)
