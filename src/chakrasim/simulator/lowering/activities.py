"""Collectives of the flow network as one activity each: all its links busy at one common rate.

A pipelined ring of n ranks sends the same bytes over each of its hops, so what limits it is one rate: bytes of the
collective per ns. A link that is crossed by several hops, or by one hop more than once, has a larger coefficient.
What passes before the pipeline is full, the latency of each step, is paid once, before the first byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives import Collective
from chakrasim.collectives.kinds import KINDS, Root
from chakrasim.machine.graph.graph import NO_ISLAND, NetworkGraph
from chakrasim.machine.graph.routing import Routes, Routing, channel_rings, find_routes
from chakrasim.text.amounts import ranks_text

Ints = NDArray[np.int32]
MOST_CHANNELS = 32
"""As many as NCCL has."""
Key = tuple[int, int, tuple[int, ...]]
"""Type, root (-1: none) and members of a collective."""


@dataclass(frozen=True, eq=False)
class Hops:
    """Messages of a collective that go on at one rate: from, to, and bytes per byte of the collective's size.

    ``steps`` is how many of them follow one another before the last byte is on its way.
    """

    source: Ints
    destination: Ints
    share: float
    steps: int
    routes: Routes | None = None
    """Those of the hops, where they are not the network's own for these pairs."""


class Activities:
    """The activities of a run, equal ones once, in the order in which they are first asked for."""

    def __init__(self, graph: NetworkGraph, routing: Routing, channels: int = 0) -> None:
        self._graph, self._routing, self._rings = graph, routing, channels
        self._numbers: dict[Key, int] = {}

    def empty(self) -> Activities:
        """None yet, on the same graph."""
        return Activities(self._graph, self._routing, self._rings)

    def number_of(self, kind: int, root: int, members: Sequence[int]) -> int:
        """The number of the activity that a collective of a `CollectiveType` is."""
        key = (int(kind), root if KINDS[kind].rooted else -1, tuple(members))
        return self._numbers.setdefault(key, len(self._numbers))

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def names(self) -> list[str]:
        """By number: what each activity is, and of which ranks."""
        return [f"{KINDS[kind].key} of {ranks_text(sorted(members))}" for kind, _, members in self._numbers]

    def a_member_of(self, number: int) -> int:
        """One of the ranks of an activity."""
        return list(self._numbers)[number][2][0]

    def cut_pair(self, number: int, down: NDArray[np.bool_]) -> tuple[int, int] | None:
        """Two ranks of an activity between which there is no way while links are down; None if there are no such."""
        hops = hops_of(*list(self._numbers)[number])
        found = find_routes(self._graph, hops.source, hops.destination, None, self._routing, down, refuse=False)
        hop = found.missing[:1].tolist()
        return (int(hops.source[hop[0]]), int(hops.destination[hop[0]])) if hop else None

    def bytes_sent(self, number: int, size_bytes: float, sent: NDArray[np.float64]) -> None:
        """Add to ``sent`` (float64[ranks]) what each rank sends for so many bytes of an activity."""
        hops = hops_of(*list(self._numbers)[number])
        np.add.at(sent, hops.source, hops.share * size_bytes)

    def _hops(self, key: Key, down: NDArray[np.bool_] | None) -> Hops:
        """The messages of an activity; a ring over several islands is one for each of their NICs."""
        kind, root, members = key
        hops = hops_of(kind, root, members)
        if kind == Collective.ALL_TO_ALL or KINDS[kind].rooted:
            return hops
        channels = self._rings or channels_of(self._graph, hops.source)
        if channels == 1:
            return hops
        rings = channel_rings(self._graph, members, channels, self._routing, down, refuse=down is None)
        ends = rings.orders.ravel(), np.roll(rings.orders, -1, axis=1).ravel()
        return Hops(*ends, hops.share / channels, hops.steps, rings.routes)

    def routes(self, numbers: Sequence[int], down: NDArray[np.bool_] | None) -> tuple[Routes, NDArray[np.float64]]:
        """What activities take of each link, per byte, while links (bool[l]) are down, and the ns before the first
        byte: float64[numbers]. Those with a hop that has no way are in `Routes.missing`, or refused where none is down.
        """
        keys = list(self._numbers)
        hops = [self._hops(keys[number], down) for number in numbers]
        plain = [one for one in hops if one.routes is None]
        sources = np.concatenate([np.zeros(0, np.int32), *(one.source for one in plain)])
        targets = np.concatenate([np.zeros(0, np.int32), *(one.destination for one in plain)])
        plainly = find_routes(self._graph, sources, targets, None, self._routing, down, refuse=down is None)
        first, links, coefficients, latencies, cut, at = [0], [], [], [], [], 0
        for i, one in enumerate(hops):
            routes = one.routes
            if routes is None:
                routes, at = plainly.take(np.arange(at, at + one.source.size)), at + one.source.size
            used, which = np.unique(self._graph.medium[routes.link], return_inverse=True)
            links.append(used.astype(np.int32))
            coefficients.append(np.bincount(which, routes.coefficient, used.size) * one.share)
            latencies.append(one.steps * float(routes.latency_ns(self._graph).max(initial=0.0)))
            cut += [i] * bool(routes.missing.size)
            first.append(first[-1] + used.size)
        columns = np.concatenate([np.zeros(0, np.int32), *links]), np.concatenate([np.zeros(0), *coefficients])
        found = Routes(np.array(first, np.int64), *columns, np.array(cut, np.int64))
        return found, np.array(latencies, np.float64)


def channels_of(graph: NetworkGraph, members: Ints) -> int:
    """How many rings run side by side: one for each rank that every island has, since each has a NIC of its own, or,
    inside an island without a switch, one for each cable of a rank; at most MOST_CHANNELS."""
    islands, sizes = np.unique(graph.island[members], return_counts=True)
    if islands[0] == NO_ISLAND:
        return 1
    if islands.size > 1:
        return min(int(sizes.min()), MOST_CHANNELS)
    inside = (graph.source == members[0]) & np.isin(graph.target, members)
    return min(max(int(inside.sum()), 1), MOST_CHANNELS)


def hops_of(kind: int, root: int, members: tuple[int, ...]) -> Hops:
    """The messages of a collective: a ring, a chain from or to the root, or all that go directly.

    Raises ValueError for a root that is no member.
    """
    ranks, n = np.array(members, np.int32), len(members)
    meaning = KINDS[kind]
    if kind == Collective.ALL_TO_ALL:
        source, target = np.divmod(np.flatnonzero(~np.eye(n, dtype=np.bool_)), n)
        return Hops(ranks[source], ranks[target], 1 / n, 1)
    if meaning.rooted:
        turned = np.roll(ranks, -members.index(max(root, 0) if root >= 0 else members[0]))
        if kind in (Collective.GATHER, Collective.SCATTER):
            others, hub = turned[1:], np.full(n - 1, turned[0], np.int32)
            source, target = (others, hub) if meaning.root is Root.GETS else (hub, others)
            return Hops(source, target, 1.0 if meaning.size_is_part else 1 / n, 1)
        source, target = turned[:-1], turned[1:]
        if meaning.root is Root.GETS:
            source, target = target, source
        return Hops(source, target, 1.0, n - 1)
    share = meaning.bus_factor(n) * meaning.whole_bytes(1, n)
    return Hops(ranks, np.roll(ranks, -1), share, round(meaning.bus_factor(n) * n))
