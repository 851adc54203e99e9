"""What the algorithms of collectives send over which links: messages that go on at one rate, and bytes of switches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.kinds import KINDS, OnLink, Root, Whole
from chakrasim.machine.graph.routing import Routes

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]
Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Hops:
    """Messages of a collective that go on at one rate: from, to, and bytes per byte of the collective's size.

    They are those of ``rings`` rings (or chains) after one another. ``steps`` is how many hops a byte goes over, one
    after another, before the last byte is on its way.
    """

    source: Ints
    destination: Ints
    share: float | Floats
    """Of all hops, or of each."""
    steps: int = 1
    rings: int = 1
    routes: Routes | None = None
    """Those of the hops, where they are not the network's own for these pairs."""
    links: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    """Links that are taken beside the hops: ways to switches that add up and hand out."""
    coefficients: Floats = field(default_factory=lambda: np.zeros(0))
    """Bytes over each of them per byte of the collective's size."""
    unit: float = 0.0
    """Bytes of what counts as one flow beside others, per byte of the size; 0: of a hop."""

    @property
    def share_unit(self) -> float:
        """The share of all hops, 1 where they differ."""
        return 1.0 if isinstance(self.share, np.ndarray) else self.share

    @property
    def weight(self) -> float:
        """How the activity counts beside others: each of its hops as one flow."""
        return 1.0 / (self.unit or float(np.max(self.share)))

    def scaled(self, factor: float) -> Hops:
        """The same with so many bytes for one; it counts as before beside others."""
        if factor == 1.0:
            return self
        unit = 1.0 / self.weight
        return replace(self, share=self.share * factor, coefficients=self.coefficients * factor, unit=unit)

    def shares(self) -> Floats:
        """float64[hops]: bytes of each hop per byte of the collective's size."""
        return np.broadcast_to(np.asarray(self.share, np.float64), self.source.shape)

    def fill_ns(self, latency_ns: Floats) -> float:
        """The latency of as many hops in a row as there are steps, of the ring and the start where that is most."""
        rings = latency_ns.reshape(self.rings, -1)
        turns, rest = divmod(self.steps, rings.shape[1])
        sums = np.concatenate([np.zeros((self.rings, 1)), np.cumsum(np.tile(rings, 2), axis=1)], axis=1)
        some = (sums[:, rest:] - sums[:, : sums.shape[1] - rest]).max(axis=1)
        return float((turns * rings.sum(axis=1) + some).max())


def direct_hops(kind: int, root: int, members: tuple[int, ...]) -> Hops:
    """The messages of a collective in which all go directly: to all, to the root, or from it."""
    ranks, n = np.array(members, np.int32), len(members)
    meaning = KINDS[kind]
    if not meaning.rooted:
        source, target = np.divmod(np.flatnonzero(~np.eye(n, dtype=np.bool_)), n)
        return Hops(ranks[source], ranks[target], 1 / n)
    hub = root if root >= 0 else members[0]
    source, target = ranks[ranks != hub], np.full(n - 1, hub, np.int32)
    if meaning.root is Root.GIVES:
        source, target = target, source
    return Hops(source, target, meaning.whole_bytes(1, n) / n)


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


def both_ways(pairs: Sequence[Pair], share: float) -> Hops:
    """The same bytes over each pair, there and back."""
    ends = np.array(pairs, np.int32).reshape(-1, 2)
    return Hops(np.concatenate([ends[:, 0], ends[:, 1]]), np.concatenate([ends[:, 1], ends[:, 0]]), share)


def tree_pairs(nodes: int, second: bool) -> list[Pair]:
    """Child and parent of each node but the root, of the first of two binary trees over nodes or of the second: its
    mirror image, or, of an odd number, the first one moved on by one (nccl-model.md, 4)."""

    def place(node: int) -> int:
        if not second:
            return node
        return (node + 1) % nodes if nodes % 2 else nodes - 1 - node

    return [(place(node), place(_parent(node, nodes))) for node in range(1, nodes)]


def _parent(node: int, nodes: int) -> int:
    bit = node & -node
    above = (node ^ bit) | bit << 1
    return node ^ bit if above >= nodes else above


def tree_hops(chains: Sequence[Sequence[Sequence[int]]], trees: int) -> Hops:
    """An all-reduce on trees: ``chains[head][node]`` are the ranks of a node in order, of whom the first talks to other
    nodes. Up to the root and down again all of it goes over each hop, in equal parts for each head and tree. Hops are
    those up, of one tree after another, then those down."""
    pairs = []
    for nodes in chains:
        inside = [(b, a) for chain in nodes for a, b in pairwise(chain)]
        for tree in range(trees):
            ups = tree_pairs(len(nodes), tree == 1)
            pairs += [*inside, *((nodes[child][0], nodes[parent][0]) for child, parent in ups)]
    return both_ways(pairs, 1 / (len(chains) * trees))


def in_switch(kind: int, ups: Sequence[Ints], downs: Sequence[Ints]) -> Hops:
    """What crosses the links where a switch adds up what ranks have and hands it out to all.

    Each rank reads its part of the sum, for which all give that part, and writes it for all to get (nccl-model.md, 4,
    NVLS).
    """
    n, whole = len(ups), KINDS[kind].whole_bytes(1, len(ups))
    gives = whole if KINDS[kind].whole is not Whole.OUTPUT else 0
    gets = whole if KINDS[kind].whole is not Whole.INPUT else 0
    return switch_hops(ups, downs, gives + (whole / n if gets else 0), gets + (whole / n if gives else 0), whole / n)


def switch_hops(ups: Sequence[Ints], downs: Sequence[Ints], up: float, down: float, unit: float) -> Hops:
    """So many bytes from each rank to its switches and from them, in equal parts: by rank the links to switches and
    from them; ``unit`` is what counts as one flow."""
    shares = [np.full(one.size, each / max(one.size, 1)) for side, each in ((ups, up), (downs, down)) for one in side]
    none = np.zeros(0, np.int32)
    return Hops(none, none, unit, links=np.concatenate([*ups, *downs]), coefficients=np.concatenate(shares), unit=unit)


def binomial_hops(members: Sequence[int], whole: float) -> Hops:
    """An all-gather or reduce-scatter in which each rank's part goes down a binomial tree of its own, far hops first:
    over a distance of 2^k go the parts whose place has k as its lowest bit (nccl-model.md, 4, PAT)."""
    ranks, n = np.array(members, np.int32), len(members)
    parts = np.arange(1, n)
    distances, counts = np.unique(parts & -parts, return_counts=True)
    source = np.tile(ranks, distances.size)
    target = np.concatenate([np.roll(ranks, -int(distance)) for distance in distances])
    return Hops(source, target, np.repeat(counts * (whole / n), n), unit=whole / n)


def joined(*parts: Hops) -> Hops:
    """All of these at once."""
    return Hops(
        np.concatenate([part.source for part in parts]),
        np.concatenate([part.destination for part in parts]),
        np.concatenate([part.shares() for part in parts]),
        links=np.concatenate([part.links for part in parts]),
        coefficients=np.concatenate([part.coefficients for part in parts]),
        unit=min(1.0 / part.weight for part in parts),
    )
