"""Collectives of the flow network as one activity each: all its links busy at one common rate.

A pipelined ring of n ranks sends the same bytes over each of its hops, so what limits it is one rate: bytes of the
collective per ns. A link that is crossed by several hops, or by one hop more than once, has a larger coefficient.
What passes before the pipeline is full, the latency of each step, is paid once, before the first byte.

Beside other flows each hop of each ring counts as one flow, whatever the collective's size is said to be: the weight
of an activity is the reciprocal of what each of its hops carries per byte of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.kinds import KINDS, OnLink, Root
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import Routes, Routing, find_routes
from chakrasim.simulator.lowering.channels import MOST_CHANNELS, rings_of
from chakrasim.text.amounts import plural, ranks_text

Ints = NDArray[np.int32]
Key = tuple[int, int, tuple[int, ...]]
"""Type, root (-1: none) and members of a collective."""


@dataclass(frozen=True, eq=False)
class Hops:
    """Messages of a collective that go on at one rate: from, to, and bytes per byte of the collective's size.

    They are those of ``rings`` rings (or chains) after one another. ``steps`` is how many hops a byte goes over, one
    after another, before the last byte is on its way.
    """

    source: Ints
    destination: Ints
    share: float
    steps: int
    rings: int = 1
    routes: Routes | None = None
    """Those of the hops, where they are not the network's own for these pairs."""

    def fill_ns(self, latency_ns: NDArray[np.float64]) -> float:
        """The latency of as many hops in a row as there are steps, of the ring and the start where that is most."""
        rings = latency_ns.reshape(self.rings, -1)
        turns, rest = divmod(self.steps, rings.shape[1])
        sums = np.concatenate([np.zeros((self.rings, 1)), np.cumsum(np.tile(rings, 2), axis=1)], axis=1)
        some = (sums[:, rest:] - sums[:, : sums.shape[1] - rest]).max(axis=1)
        return float((turns * rings.sum(axis=1) + some).max())


class Charges(NamedTuple):
    """What activities take: of each link per byte, ns before their first byte, and how they count beside others."""

    routes: Routes
    latency_ns: NDArray[np.float64]
    weight: NDArray[np.float64]


class Activities:
    """The activities of a run, equal ones once, in the order in which they are first asked for."""

    def __init__(self, graph: NetworkGraph, routing: Routing, channels: int = 0) -> None:
        self._graph, self._routing, self._rings = graph, routing, channels
        self._numbers: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._sends: dict[int, tuple[Ints, float]] = {}
        self._crossers: dict[int, tuple[Ints, Ints, NDArray[np.int16], NDArray[np.int16]]] = {}

    def empty(self) -> Activities:
        """None yet, on the same graph."""
        return Activities(self._graph, self._routing, self._rings)

    def number_of(self, kind: int, root: int, members: Sequence[int]) -> int:
        """The number of the activity that a collective of a `CollectiveType` is."""
        key = (int(kind), root if KINDS[kind].rooted else -1, tuple(members))
        number = self._numbers.setdefault(key, len(self._keys))
        if number == len(self._keys):
            self._keys.append(key)
        return number

    def __len__(self) -> int:
        return len(self._keys)

    def name_of(self, number: int) -> str:
        """What an activity is, and of which ranks."""
        kind, _, members = self._keys[number]
        return f"{KINDS[kind].key} of {ranks_text(sorted(members))}"

    def a_member_of(self, number: int) -> int:
        """One of the ranks of an activity."""
        return self._keys[number][2][0]

    def cut_pair(self, number: int, down: NDArray[np.bool_]) -> tuple[int, int] | None:
        """Two ranks of an activity between which there is no way while links are down; None if there are no such."""
        hops = self._hops(number, down)
        found = hops.routes or find_routes(
            self._graph, hops.source, hops.destination, None, self._routing, down, refuse=False
        )
        hop = found.missing[:1].tolist()
        return (int(hops.source[hop[0]]), int(hops.destination[hop[0]])) if hop else None

    def bytes_sent(self, number: int, size_bytes: float, sent: NDArray[np.float64]) -> None:
        """Add to ``sent`` (float64[ranks]) what each rank sends for so many bytes of an activity."""
        source, share = self._sends[number]
        np.add.at(sent, source, share * size_bytes)

    def flows_over(self, number: int, link: int) -> str:
        """Which flows of an activity cross a link: ``2 flows of channel 3``; "" for one that has lost its way there."""
        links, counts, low, high = self._crossers[number]
        at = int(np.searchsorted(links, link))
        if at == links.size or links[at] != link:
            return ""
        flows = plural(int(counts[at]), "flow")
        if not low.size:
            return flows
        return f"{flows} of " + (f"channel {low[at]}" if low[at] == high[at] else f"channels {low[at]} to {high[at]}")

    def _note_crossers(self, number: int, hops: Hops, routes: Routes, links: Ints, which: NDArray[np.intp]) -> None:
        """Note how many hops cross each link, and of which channels where there are several."""
        low, high = (np.full(links.size if hops.rings > 1 else 0, value, np.int16) for value in (MOST_CHANNELS, -1))
        if hops.rings > 1:
            hop = np.repeat(np.arange(hops.source.size), np.diff(routes.first))
            channel = (hop * hops.rings // hops.source.size).astype(np.int16)
            np.minimum.at(low, which, channel)
            np.maximum.at(high, which, channel)
        self._crossers[number] = links, np.bincount(which, minlength=links.size).astype(np.int32), low, high

    def _hops(self, number: int, down: NDArray[np.bool_] | None) -> Hops:
        """The messages of an activity; rings over several islands are one for each of their NICs."""
        kind, root, members = self._keys[number]
        if KINDS[kind].of_pairs:
            return direct_hops(kind, root, members)
        ring = np.array(members, np.int32)
        rings = rings_of(self._graph, ring, self._rings, self._routing, down)
        return (
            on_rings(kind, root, ring[None, :]) if rings is None else on_rings(kind, root, rings.orders, rings.routes)
        )

    def charges(self, numbers: Sequence[int], down: NDArray[np.bool_] | None) -> Charges:
        """What activities take while links (bool[l]) are down. Those with a hop that has no way are in
        `Routes.missing`, or refused where no link is down."""
        hops = [self._hops(number, down) for number in numbers]
        plain = [one for one in hops if one.routes is None]
        sources = np.concatenate([np.zeros(0, np.int32), *(one.source for one in plain)])
        targets = np.concatenate([np.zeros(0, np.int32), *(one.destination for one in plain)])
        found = find_routes(self._graph, sources, targets, None, self._routing, down, refuse=down is None)
        first, links, coefficients, latencies, cut, at = [0], [], [], [], [], 0
        for i, (number, one) in enumerate(zip(numbers, hops, strict=True)):
            routes = one.routes
            if routes is None:
                routes, at = found.take(np.arange(at, at + one.source.size)), at + one.source.size
            used, which = np.unique(self._graph.medium[routes.link], return_inverse=True)
            links.append(used.astype(np.int32))
            coefficients.append(np.bincount(which, routes.coefficient, used.size) * one.share)
            latencies.append(one.fill_ns(routes.latency_ns(self._graph)))
            cut += [i] * bool(routes.missing.size)
            first.append(first[-1] + used.size)
            self._sends[number] = one.source, one.share
            self._note_crossers(number, one, routes, links[-1], which)
        columns = np.concatenate([np.zeros(0, np.int32), *links]), np.concatenate([np.zeros(0), *coefficients])
        weight = np.array([1 / one.share for one in hops], np.float64)
        routes = Routes(np.array(first, np.int64), *columns, np.array(cut, np.int64))
        return Charges(routes, np.array(latencies, np.float64), weight)


def direct_hops(kind: int, root: int, members: tuple[int, ...]) -> Hops:
    """The messages of a collective in which all go directly: to all, to the root, or from it."""
    ranks, n = np.array(members, np.int32), len(members)
    meaning = KINDS[kind]
    if not meaning.rooted:
        source, target = np.divmod(np.flatnonzero(~np.eye(n, dtype=np.bool_)), n)
        return Hops(ranks[source], ranks[target], 1 / n, 1)
    hub = root if root >= 0 else members[0]
    source, target = ranks[ranks != hub], np.full(n - 1, hub, np.int32)
    if meaning.root is Root.GIVES:
        source, target = target, source
    return Hops(source, target, meaning.whole_bytes(1, n) / n, 1)


def on_rings(kind: int, root: int, orders: Ints, routes: Routes | None = None) -> Hops:
    """The messages of a collective on rings (int32[rings, n]), each with an equal part of it.

    From a root, or to it, they are chains: the ring without the hop into the root, or out of it. ``routes`` are those
    of all hops.
    """
    rings, n = orders.shape
    meaning = KINDS[kind]
    source, target = orders.ravel(), np.roll(orders, -1, axis=1).ravel()
    if meaning.rooted:
        hub = root if root >= 0 else int(orders[0, 0])
        kept = np.flatnonzero((source if meaning.root is Root.GETS else target) != hub)
        source, target = source[kept], target[kept]
        routes = None if routes is None else routes.take(kept)
    turns = 2 if meaning.on_link is OnLink.TWICE else 1
    share = meaning.bus_factor(n) * meaning.whole_bytes(1, n) / rings
    return Hops(source, target, share, turns * (n - 1), rings, routes)
