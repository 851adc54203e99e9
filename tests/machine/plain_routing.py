"""Routing once more, flow by flow in plain Python, and random graphs to try it on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from fractions import Fraction
from heapq import heappop, heappush

from hypothesis import strategies as st

from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.graph import NVSWITCH, NetworkGraph

MASK = 2**64 - 1


def mix(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def drawn(seed: int, vertex: int | None, source: int, destination: int, label: int) -> int:
    """The hash; without a vertex, the polarised one."""
    key = mix(seed)
    for part in (source, destination, label):
        key = mix(key + part & MASK)
    return mix(key + (0 if vertex is None else 0x9E3779B97F4A7C15 * (vertex + 1)) & MASK)


class Plain:
    """A graph and the distances to destinations, with what links cost by their numbers."""

    def __init__(self, graph: NetworkGraph, dead: Collection[int] = (), cost: dict[int, Fraction] | None = None):
        self.graph = graph
        self.links = [
            (link, a, b)
            for link, (a, b) in enumerate(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
            if link not in dead
        ]
        self.cost = {link: (Fraction(1), 1) if cost is None else (cost[link], 1) for link, _, _ in self.links}
        self.known: dict[int, dict[int, tuple[Fraction, int]]] = {}

    def passable(self, vertex: int, end: int) -> bool:
        return vertex == end or bool(self.graph.transit[vertex])

    def far(self, end: int) -> dict[int, tuple[Fraction, int]]:
        """Costs and numbers of links of the shortest ways to ``end``."""
        if end not in self.known:
            into = defaultdict(list)
            for link, a, b in self.links:
                into[b].append((link, a))
            best: dict[int, tuple[Fraction, int]] = {}
            heap = [(Fraction(0), 0, end)]
            while heap:
                cost, hops, vertex = heappop(heap)
                if vertex in best:
                    continue
                best[vertex] = (cost, hops)
                if self.passable(vertex, end):
                    for link, a in into[vertex]:
                        heappush(heap, (cost + self.cost[link][0], hops + 1, a))
            self.known[end] = best
        return self.known[end]

    def nexts(self, vertex: int, end: int) -> list[int]:
        """Links that begin a shortest way, by number."""
        far = self.far(end)
        return [
            link
            for link, a, b in self.links
            if a == vertex and b in far and self.passable(b, end)
            if (far[b][0] + self.cost[link][0], far[b][1] + 1) == far.get(vertex)
        ]

    def walk(self, source: int, end: int, pick: Callable[[int, list[int]], int]) -> list[int] | None:
        """The links of one flow; ``pick`` chooses one of the next links of a vertex."""
        route = []
        while source != end:
            options = self.nexts(source, end)
            if not options:
                return None
            route.append(pick(source, options))
            source = int(self.graph.target[route[-1]])
        return route

    def ecmp(self, source: int, end: int, label: int, seed: int, polarised: bool = False) -> list[int] | None:
        def pick(vertex: int, options: list[int]) -> int:
            return options[drawn(seed, None if polarised else vertex, source, end, label) % len(options)]

        return self.walk(source, end, pick)

    def spray(self, source: int, end: int) -> dict[int, Fraction] | None:
        """What part of a flow crosses each link."""
        if source == end:
            return {}
        far = self.far(end)
        if source not in far:
            return None
        there = defaultdict(Fraction, {source: Fraction(1)})
        parts = {}
        for vertex in sorted(far, key=far.__getitem__, reverse=True):
            if vertex == end or not there[vertex]:
                continue
            options = self.nexts(vertex, end)
            for link in options:
                parts[link] = there[vertex] / len(options)
                there[int(self.graph.target[link])] += parts[link]
        return parts


@st.composite
def graphs(draw: st.DrawFn, transit: bool | None = None) -> NetworkGraph:
    """Ranks and switches with parallel cables, one-way links, cables between ranks, ranks that forward."""
    ranks = draw(st.integers(2, 7))
    switches = draw(st.integers(1, 6))
    builder = GraphBuilder("random")
    for rank in range(ranks):
        passes = draw(st.booleans()) if transit is None else transit
        builder.vertex(str(rank), 0, rank // 3, passes)
    for i in range(switches):
        builder.vertex(f"s{i}", NVSWITCH if draw(st.integers(0, 3)) == 0 else 1)
    latency = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0])
    for rank in range(ranks):
        builder.cable(rank, ranks + draw(st.integers(0, switches - 1)), 50.0, draw(latency))
    vertex = st.integers(0, ranks + switches - 1)
    for _ in range(draw(st.integers(0, 14))):
        a, b = draw(vertex), draw(vertex)
        if a == b:
            continue
        if draw(st.integers(0, 5)) == 0:
            builder.link(a, b, 10.0, draw(latency))
        else:
            builder.cable(a, b, 25.0, draw(latency), count=draw(st.integers(1, 3)))
    return builder.build()


def xgft(children: tuple[int, ...], parents: tuple[int, ...], cables: tuple[int, ...]) -> NetworkGraph:
    """An extended generalised fat tree by its definition: labels compared, digit by digit."""
    height = len(children)
    builder = GraphBuilder("xgft")
    layers: list[list[tuple[int, ...]]] = []
    numbers: list[dict[tuple[int, ...], int]] = []
    for level in range(height + 1):
        radices = [parents[j] if j < level else children[j] for j in range(height)]
        labels: list[tuple[int, ...]] = [()]
        for radix in reversed(radices):
            labels = [(digit, *rest) for rest in labels for digit in range(radix)]
        layers.append(labels)
        if level == 0:
            added: Collection[int] = builder.add_ranks(len(labels))
        else:
            added = builder.add_switches(f"l{level}n", len(labels))
        numbers.append(dict(zip(labels, added, strict=True)))
    for level in range(height):
        for child in layers[level]:
            for digit in range(parents[level]):
                parent = (*child[:level], digit, *child[level + 1 :])
                builder.cable(numbers[level][child], numbers[level + 1][parent], 50.0, 0.0, count=cables[level])
    return builder.build()
