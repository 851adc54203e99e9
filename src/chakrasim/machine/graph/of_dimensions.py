"""The graph of a product of dimensions: rings, switches, full meshes, and whatever topology else is registered."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.graph import NO_ISLAND, NetworkGraph
from chakrasim.machine.topologies import BUILT_IN, Topology

Ends = tuple[int, int]
"""The places where a link begins and ends: members, or switches from the number of members on."""


def graph_of_dimensions(
    kinds: Sequence[Topology], counts: Sequence[int], bytes_per_ns: Sequence[float], latency_ns: Sequence[float]
) -> NetworkGraph:
    """One network of its kind along each line of the grid, in each dimension; the first dimension varies fastest.

    Every link that some route takes is one link of the graph; two that lead the opposite way between the same places
    are a cable. Ranks let messages of others pass where there is more than one dimension, or no switch and no full
    mesh. Members along the first of several dimensions stand in one island, with their switches.
    """
    graph = GraphBuilder(" x ".join(f"{kind.name} {count}" for kind, count in zip(kinds, counts, strict=True)))
    links = [list(_links(kind, count)) for kind, count in zip(kinds, counts, strict=True)]
    passed = len(kinds) > 1 or _passes_members(links[0], counts[0])
    graph.add_ranks(math.prod(counts), counts[0] if len(kinds) > 1 else None, transit=passed)
    for d, (ends, count) in enumerate(zip(links, counts, strict=True)):
        extra = max((max(pair) - count + 1 for pair in ends), default=0)
        cables, alone = _cables(ends)
        for first, stride in _lines(counts, d):
            island = graph.island_of(first) if d == 0 else NO_ISLAND
            switches = graph.add_switches(f"dim{d}-switch", extra, island=island)
            places = [first + stride * i for i in range(count)] + list(switches)
            for a, b in cables:
                graph.cable(places[a], places[b], bytes_per_ns[d], latency_ns[d])
            for a, b in alone:
                graph.link(places[a], places[b], bytes_per_ns[d], latency_ns[d])
    return graph.build(counts)


def _lines(counts: Sequence[int], d: int) -> Iterator[tuple[int, int]]:
    """First rank and stride of each line of the grid along dimension d."""
    stride = math.prod(counts[:d])
    for outer, inner in product(range(math.prod(counts[d + 1 :])), range(stride)):
        yield outer * stride * counts[d] + inner, stride


def _links(kind: Topology, members: int) -> Iterator[Ends]:
    """The links that routes take, each once, by owner and port."""
    if kind in BUILT_IN:
        # Of two ports that lead from a member to the same place, routes take the lower: a ring of two is one cable.
        seen = set()
        for owner in range(members):
            for port in range(kind.ports(members)):
                a, b = kind.ends(owner, port, members)
                if a != b and (owner, a, b) not in seen:
                    seen.add((owner, a, b))
                    yield a, b
        return
    taken = set()
    for goal in range(members):
        met = {goal}
        for start in range(members):
            here = start
            while here not in met:
                met.add(here)
                owner, port = kind.route(here, goal, members)
                taken.add((owner, port))
                here = kind.ends(owner, port, members)[1]
    for owner, port in sorted(taken):
        yield kind.ends(owner, port, members)


def _cables(links: Sequence[Ends]) -> tuple[list[Ends], list[Ends]]:
    """Pairs of links that lead the opposite way, and the links that have no such."""
    waiting: dict[Ends, int] = {}
    cables = []
    for a, b in links:
        if waiting.get((b, a)):
            waiting[b, a] -= 1
            cables.append((b, a))
        else:
            waiting[a, b] = waiting.get((a, b), 0) + 1
    return cables, [ends for ends, count in waiting.items() for _ in range(count)]


def _passes_members(links: Sequence[Ends], members: int) -> bool:
    """Whether members are joined to one another, but not each to all."""
    direct = {(a, b) for a, b in links if max(a, b) < members}
    return 0 < len(direct) < members * (members - 1)
