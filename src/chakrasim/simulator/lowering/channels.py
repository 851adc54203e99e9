"""The rings of a collective's channels, and the ways of their hops where it goes message by message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chakrasim.machine.graph.graph import NO_ISLAND, NetworkGraph
from chakrasim.machine.graph.routing import ChannelRings, Routes, Routing, channel_rings
from chakrasim.machine.graph.routing.routes import concatenated
from chakrasim.simulator.kernels.layout import PAIR_BITS, WAY

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]
MOST_CHANNELS: Final = 32
"""As many as NCCL has."""


@dataclass(frozen=True, eq=False)
class Rings:
    """The rings over some ranks: int32[rings, ranks], and the number of the first one's way, 0 where hops take the way
    of any message."""

    orders: Ints
    first_way: int = 0


class OwnWays(NamedTuple):
    """Ways that messages of a collective take instead of those of any message between the same ranks.

    ``number`` is that of each one's way, of which a rank has each once; ``latency_ns`` and ``cap`` (bytes per ns) are
    None where links alone say them.
    """

    source: Ints
    target: Ints
    number: NDArray[np.int64]
    routes: Routes
    latency_ns: Floats | None = None
    cap: Floats | None = None


class WaysOfMessages(NamedTuple):
    """All of them: int64[h] keys (source << PAIR_BITS | WAY | number of the way), int64[h] pairs
    (source << PAIR_BITS | destination), routes, latencies, and the most bytes per ns (infinite: as links allow)."""

    keys: NDArray[np.int64]
    pairs: NDArray[np.int64]
    routes: Routes
    latency_ns: Floats
    cap: Floats


class Limits(NamedTuple):
    """By number of a way, the first 0 (any message's): float64[w] ns in all beside transmission (0: as links say), the
    most bytes per ns (infinite: as links allow), bytes on links for each byte, and bool[w]: one rank alone has it."""

    latency_ns: Floats
    cap: Floats
    wire: Floats
    single: NDArray[np.bool_]


class Channels:
    """The rings of a run's collectives, of equal ranks once; ``wanted`` of them, or as many as `channels_of` says; and
    all ways that messages have of their own."""

    def __init__(self, graph: NetworkGraph, routing: Routing, wanted: int = 0) -> None:
        self._graph, self._routing, self._wanted = graph, routing, wanted
        self._known: dict[tuple[int, ...], Rings] = {}
        self._own: list[OwnWays] = []
        self._ways = 0

    def empty(self) -> Channels:
        """None yet, on the same graph."""
        return Channels(self._graph, self._routing, self._wanted)

    def of(self, members: Sequence[int]) -> Rings:
        """The rings over ranks. Raises :class:`chakrasim.InputError` where a hop has no route."""
        key = tuple(members)
        if key not in self._known:
            self._known[key] = self._found(np.array(key, np.int32))
        return self._known[key]

    def _found(self, ring: Ints) -> Rings:
        found = rings_of(self._graph, ring, self._wanted, self._routing)
        if found is None:
            return Rings(ring[None, :])
        return Rings(found.orders, self.add_rings(found))

    def add_rings(self, rings: ChannelRings, latency_ns: float | None = None, cap: float | None = None) -> int:
        """Give the hops of rings ways of their own, a number for each ring; returns the first."""
        count, n = rings.orders.shape
        number = np.repeat(np.arange(count, dtype=np.int64), n)
        target = np.roll(rings.orders, -1, axis=1).ravel()
        latencies, caps = (None if value is None else np.full(number.size, value) for value in (latency_ns, cap))
        return self.add(OwnWays(rings.orders.ravel(), target, number, rings.routes, latencies, caps))

    def add(self, ways: OwnWays) -> int:
        """Take ways whose numbers count from 0; returns what is to be added to them."""
        first = self._ways + 1
        self._own.append(ways._replace(number=ways.number + first))
        self._ways += int(ways.number.max(initial=-1)) + 1
        return first

    def __bool__(self) -> bool:
        """Whether any hop has a way of its own."""
        return bool(self._own)

    def ways(self) -> WaysOfMessages:
        """All ways that messages have of their own."""
        source = np.concatenate([own.source for own in self._own]).astype(np.int64) << PAIR_BITS
        target = np.concatenate([own.target for own in self._own])
        number = np.concatenate([own.number for own in self._own])
        latency = [
            own.routes.latency_ns(self._graph) if own.latency_ns is None else own.latency_ns for own in self._own
        ]
        caps = [np.full(own.number.size, np.inf) if own.cap is None else own.cap for own in self._own]
        routes = concatenated(*(own.routes for own in self._own))
        return WaysOfMessages(
            source | WAY | number, source | target, routes, np.concatenate(latency), np.concatenate(caps)
        )

    def limits(self) -> Limits:
        """What ways of one number have in common, whatever links they take."""
        ways = self._ways + 1
        found = Limits(np.zeros(ways), np.full(ways, np.inf), np.ones(ways), np.zeros(ways, np.bool_))
        for own in self._own:
            found.single[own.number] = np.bincount(own.number, minlength=ways)[own.number] == 1
            crossing = np.diff(own.routes.first) > 0
            found.wire[own.number[crossing]] = own.routes.coefficient[own.routes.first[:-1][crossing]]
            if own.latency_ns is not None:
                found.latency_ns[own.number] = own.latency_ns
            if own.cap is not None:
                found.cap[own.number] = own.cap
        return found

    @property
    def own(self) -> Sequence[OwnWays]:
        """All ways, as they were added; their numbers count from 1."""
        return self._own


def rings_of(
    graph: NetworkGraph, ring: Ints, wanted: int, routing: Routing, down: NDArray[np.bool_] | None = None
) -> ChannelRings | None:
    """The rings over some ranks, ``wanted`` or, for 0, as many as `channels_of` says, while links (bool[l]) are down;
    None for one alone, whose hops take the ways of any message."""
    channels = wanted or channels_of(graph, ring)
    return None if channels == 1 else channel_rings(graph, ring, channels, routing, down, refuse=down is None)


def channels_of(graph: NetworkGraph, members: Ints) -> int:
    """How many rings run side by side: one for each rank that every island has, since each has a NIC of its own, or,
    inside an island without a switch, one for each cable of a rank; at most MOST_CHANNELS."""
    islands, sizes = np.unique(graph.island[members], return_counts=True)
    if islands[0] == NO_ISLAND:
        return 1
    if islands.size > 1:
        return min(int(sizes.min()), MOST_CHANNELS)
    first, links = graph.leaving
    leaving = links[first[members[0]] : first[members[0] + 1]]
    return min(max(int(np.isin(graph.target[leaving], members).sum()), 1), MOST_CHANNELS)
