"""Collectives as a library runs them: the course of each, and what its algorithm sends over which links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise, product
from math import lcm
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives import Collective
from chakrasim.collectives.kinds import KINDS, OnLink
from chakrasim.collectives.libraries.course import Course, course_of
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.terms import GROWN
from chakrasim.errors import InputError
from chakrasim.machine import Machine
from chakrasim.machine.graph.graph import NO_ISLAND, NetworkGraph
from chakrasim.machine.graph.link_lanes import LinkLanes
from chakrasim.machine.graph.routing import ChannelRings, Routing, channel_rings, find_routes
from chakrasim.machine.graph.routing.circuits import find_circuits
from chakrasim.machine.site import Sites
from chakrasim.simulator.lowering.channels import MOST_CHANNELS, channels_of
from chakrasim.simulator.lowering.patterns import (
    Hops,
    binomial_hops,
    both_ways,
    direct_hops,
    in_switch,
    joined,
    on_rings,
    switch_hops,
    tree_hops,
)

Ints = NDArray[np.int32]
Down = NDArray[np.bool_] | None
BARRIER_BYTES: Final = 4
"""PyTorch's barrier is an all-reduce of one number."""


class Courses:
    """The courses of one machine's collectives, or, without intervals, of its ``lanes``; equal ones found once."""

    def __init__(self, machine: Machine, lanes: LinkLanes | None = None) -> None:
        if machine.library is None:
            raise InputError("no library runs the machine's collectives", file=machine.name or "Machine")
        self.graph, self.library, self._settings = machine.graph, machine.library, machine.settings
        self._calibrated, self._interval = machine.calibrated, lanes is None
        self.sites = Sites(self.graph, machine.make, machine.library, lanes=lanes)
        self._of, self._sites = lru_cache(maxsize=None)(self._found), lru_cache(maxsize=None)(self.sites.each)

    def of(self, kind: int, size_bytes: int, members: Sequence[int]) -> Course:
        """The course of a collective of ``comm_size`` ``size_bytes`` of a group."""
        courses, which = self.each(kind, size_bytes, members)
        return courses[int(which[0])]

    def each(self, kind: int, size_bytes: int, members: Sequence[int]) -> tuple[list[Course], NDArray[np.intp]]:
        """The courses of the lanes, equal ones mostly once, and intp[lanes]: which of them in each."""
        return self._of(int(kind), size_bytes, tuple(members))

    def _found(self, kind: int, size_bytes: int, members: tuple[int, ...]) -> tuple[list[Course], NDArray[np.intp]]:
        sites, which = self._sites(members)
        return [self._course(kind, size_bytes, members, site) for site in sites], which

    def _course(self, kind: int, size_bytes: int, members: tuple[int, ...], site: Site) -> Course:
        meaning, whole = KINDS[kind], whole_bytes(kind, size_bytes, len(members))
        name = {Collective.BARRIER: "all_reduce", Collective.REDUCE_SCATTER_BLOCK: "reduce_scatter"}.get(
            Collective(kind), meaning.name
        )
        own = self._calibrated
        constants = None if own is None else own.of_collective(name, site)
        return course_of(site, self.library, name, whole, self._settings, constants, interval=self._interval)


def whole_bytes(kind: int, size_bytes: int, members: int) -> int:
    """The size of a collective as nccl-tests has it."""
    return BARRIER_BYTES if kind == Collective.BARRIER else max(KINDS[kind].whole_bytes(size_bytes, members), 1)


class Pattern(NamedTuple):
    """What tells apart the links that collectives of a group take: the algorithm, of how many of its channels the ways
    differ, and bytes on a wire per byte of data."""

    algorithm: str
    channels: int
    wire: float


SYMMETRIC: Final = frozenset(
    ("AGxLL_R", "AGxLLMC_R", "RSxLD_AGxST", "RSxLDMC_AGxSTMC", "LL", "LLMC", "ST", "LD", "STMC", "LDMC")
)
"""Kernels on symmetric memory."""


def pattern_of(course: Course, kind: int, members: tuple[int, ...], graph: NetworkGraph) -> Pattern:
    """The pattern of a collective of a group."""
    choice = course.choice
    wire = GROWN.get(choice.protocol, 1.0)
    if KINDS[kind].of_pairs:
        return Pattern("p2p", 0, wire)
    if choice.algorithm == "symmetric":
        return Pattern(choice.protocol, 0, 2.0 if "LL" in choice.protocol else 1.0)
    if choice.algorithm not in ("ring", "tree"):
        return Pattern(choice.algorithm, 0, wire)
    rings = _rings_of(graph, np.array(members, np.int32))
    islands, sizes = np.unique(graph.island[list(members)], return_counts=True)
    heads = 1 if islands[0] == NO_ISLAND else min(int(sizes.min()), MOST_CHANNELS)
    most = rings if choice.algorithm == "ring" else 2 * max(rings, heads)
    return Pattern(choice.algorithm, min(choice.channels, most), wire)


def _rings_of(graph: NetworkGraph, members: Ints) -> int:
    """How many rings differ: over nodes whose GPUs are cabled to each other, each NIC with each of the circuits."""
    rings, islands = channels_of(graph, members), graph.island[members]
    if islands[0] == NO_ISLAND or (islands == islands[0]).all():
        return rings
    return lcm(rings, len(find_circuits(graph, members[islands == islands[0]], rings)) or 1)


class Ways:
    """What algorithms send over which links of a machine while some are down."""

    def __init__(self, sites: Sites, graph: NetworkGraph, routing: Routing, down: Down) -> None:
        self._sites, self._graph, self._routing, self._down = sites, graph, routing, down

    def hops(
        self, pattern: Pattern, kind: int, root: int, members: tuple[int, ...], direct: Hops | None = None
    ) -> Hops:
        """The messages of a collective, and what it takes of the links of switches; ``direct`` are the messages of one
        of pairs."""
        hops = self._plain(pattern, kind, root, members) if direct is None else self._by_rails(direct, members)
        return hops.scaled(pattern.wire)

    def _plain(self, pattern: Pattern, kind: int, root: int, members: tuple[int, ...]) -> Hops:
        algorithm, domains = pattern.algorithm, self._sites.domains(members)
        if algorithm == "ring":
            rings = self._rings(members, pattern.channels)
            return on_rings(kind, root, rings.orders, rings.routes)
        if algorithm == "tree":
            return self._trees(members, domains, pattern.channels)
        if algorithm == "nvls":
            return self._switched(kind, domains[0])
        if algorithm == "nvlstree":
            heads = [[[domain[head]] for domain in domains] for head in range(_heads(domains))]
            return joined(tree_hops(heads, 2), *(self._switched(kind, domain) for domain in domains))
        if algorithm == "pat":
            return binomial_hops(members, KINDS[kind].whole_bytes(1, len(members)))
        if algorithm in SYMMETRIC:
            return self._symmetric(algorithm, kind, members)
        if algorithm in ("collnetdirect", "collnetchain"):
            return self._collnet(kind, domains, chain=algorithm == "collnetchain")
        raise InputError(f"the algorithm {algorithm} is not simulated", expected="ring, tree, nvls, nvlstree, pat")

    def _by_rails(self, hops: Hops, members: tuple[int, ...]) -> Hops:
        """Messages of pairs, which reach another rail by NVLink to the GPU with its NIC first (PXN)."""
        if self._routing.rule in ("given", "adaptive") or len(self._sites.domains(members)) == 1:
            return hops
        routing = replace(self._routing, pxn=True)
        refuse = self._down is None
        routes = find_routes(self._graph, hops.source, hops.destination, None, routing, self._down, refuse=refuse)
        return replace(hops, routes=routes)

    def _rings(self, members: tuple[int, ...], channels: int) -> ChannelRings:
        refuse = self._down is None
        return channel_rings(self._graph, members, channels, self._routing, self._down, refuse=refuse)

    def _trees(self, members: tuple[int, ...], domains: list[list[int]], channels: int) -> Hops:
        """Chains in nodes as rings go through them, each of which begins at another rank."""
        trees = min(channels, 2)
        orders = self._rings(members, channels // trees).orders.tolist()
        ends = np.cumsum([0, *map(len, domains)]).tolist()
        return tree_hops([[order[a:b] for a, b in pairwise(ends)] for order in orders], trees)

    def _switched(self, kind: int, domain: list[int]) -> Hops:
        """Sums in the switch of a node."""
        return in_switch(kind, *self._links_to_switches(domain))

    def _links_to_switches(self, ranks: Sequence[int]) -> tuple[list[Ints], list[Ints]]:
        ups, downs = zip(*map(self._sites.switch_links, ranks), strict=True)
        if not all(one.size for one in ups):
            raise InputError(
                "sums in a switch need a switch that joins the GPUs of a node",
                file=self._graph.name or "machine",
                remedy="set NCCL_NVLS_ENABLE: 0 in collectives.environment",
            )
        return list(ups), list(downs)

    def _symmetric(self, kernel: str, kind: int, members: tuple[int, ...]) -> Hops:
        """Kernels on symmetric memory: ranks read or write each other's, or one address of all by the switch (MC)."""
        n, meaning = len(members), KINDS[kind]
        if kernel == "AGxLLMC_R":
            ups, downs = self._links_to_switches(members)
            return switch_hops(ups, downs, 1.0, float(n), 1.0)
        if "MC" in kernel:
            return self._switched(kind, list(members))
        turns = 1.0 if kernel == "AGxLL_R" else (2 if meaning.on_link is OnLink.TWICE else 1) / n
        return replace(direct_hops(Collective.ALL_TO_ALL, -1, members), share=turns * meaning.whole_bytes(1, n))

    def _collnet(self, kind: int, domains: list[list[int]], *, chain: bool) -> Hops:
        """Sums in the switches of the network: what they add up or hand out crosses each link once."""
        if KINDS[kind].on_link is not OnLink.TWICE:
            raise InputError("only all-reduces are simulated with sums in switches of the network",
                             remedy="leave CollNet out of NCCL_ALGO")  # fmt: skip
        heads = _heads(domains)
        share = KINDS[kind].whole_bytes(1, sum(map(len, domains))) / heads
        links = [self._union([domain[head] for domain in domains]) for head in range(heads)]
        taken = np.concatenate([np.zeros(0, np.int32), *links])
        network = Hops(taken[:0], taken[:0], share, links=taken, coefficients=np.full(taken.size, share))
        if chain:
            turned = [domain[h:] + domain[:h] for domain in domains for h in range(heads)]
            inside = [hop for ranks in turned for hop in pairwise(ranks)]
        else:
            inside = [(a, b) for domain in domains for a, b in product(domain, domain[:heads]) if a != b]
        return joined(both_ways(inside, share), network)

    def _union(self, ranks: list[int]) -> Ints:
        """The links of the ways from the first rank to the others and back, each once."""
        hub = [ranks[0]] * (len(ranks) - 1)
        sources, targets = [*ranks[1:], *hub], [*hub, *ranks[1:]]
        found = find_routes(self._graph, sources, targets, None, self._routing, self._down)
        return np.unique(self._graph.medium[found.link]).astype(np.int32)


def _heads(domains: list[list[int]]) -> int:
    return min(map(len, domains))
