"""Random networks with parallel and unequal links, and what makes two graphs equal."""

from __future__ import annotations

import random

import numpy as np

from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.graph import KINDS, NO_ISLAND, RANK, NetworkGraph

COLUMNS = ("kind", "transit", "island", "source", "target", "capacity", "latency", "cable", "medium")
NAMES = (
    *("leaf-{}", "s p/{}", "true{}", "\u00e4 \u4e2d {}", 'q"{}', "a&b<{}>", "#{}", "- {}", "{}: x", "[{}", "'{}'"),
    "\U0001f600{}",
)
RATES = (50.0, 25.0, 12.5, 360.0, 0.1, 1 / 3, 1e-5, 123456.789, 5.375, 1e15)
TIMES = (0.0, 500.0, 0.025, 1e3, 1 / 3, 1.2e6, 7e-4)


def differences(one: NetworkGraph, other: NetworkGraph) -> list[str]:
    """The columns in which two graphs differ."""
    found = [name for name in COLUMNS if not np.array_equal(getattr(one, name), getattr(other, name))]
    found += [name for name in ("names", "logical") if getattr(one, name) != getattr(other, name)]
    return found


def _rate(draw: random.Random) -> float:
    return draw.choice(RATES) if draw.random() < 0.6 else 10 ** draw.uniform(-4, 6)


def _time(draw: random.Random) -> float:
    return draw.choice(TIMES) if draw.random() < 0.6 else draw.uniform(0, 5000)


def _shape(draw: random.Random, ranks: int) -> tuple[int, ...]:
    sizes = [size for size in range(1, ranks + 1) if ranks % size == 0]
    first = draw.choice(sizes)
    return (first, ranks // first) if draw.random() < 0.5 else (ranks,)


def random_graph(seed: int) -> NetworkGraph:
    """Anything that a graph may be."""
    draw = random.Random(seed)
    builder = GraphBuilder("net")
    ranks = draw.randint(1, 9)
    for rank in range(ranks):
        island = draw.choice((NO_ISLAND, rank // 2, rank // 3))
        builder.vertex(str(rank), RANK, island, draw.random() < 0.2)
    for number in range(draw.randint(1, 6)):
        island = draw.choice((NO_ISLAND, 0, 1))
        kind = draw.randrange(1, len(KINDS))
        builder.vertex(draw.choice(NAMES).format(number), kind, island, draw.random() < 0.9)
    ends = [(rank, draw.randrange(ranks, builder.vertices)) for rank in range(ranks)]
    ends += [tuple(draw.sample(range(builder.vertices), 2)) for _ in range(draw.randint(0, 12))]
    for a, b in ends:
        back = (_rate(draw), _time(draw)) if draw.random() < 0.2 else None
        count = draw.choice((1, 1, 2, 3))
        builder.cable(a, b, _rate(draw), _time(draw), count=count, back=back)
        if draw.random() < 0.2:
            builder.cable(b, a, _rate(draw), _time(draw), shared=True)
        if draw.random() < 0.2:
            builder.link(a, b, _rate(draw), _time(draw))
    graph = builder.build(_shape(draw, ranks))
    return _renumbered(graph, draw) if draw.random() < 0.3 else graph


def _renumbered(graph: NetworkGraph, draw: random.Random) -> NetworkGraph:
    """The same links in another order, some with a medium in common."""
    from dataclasses import replace

    order = np.array(draw.sample(range(graph.links), graph.links))
    columns = {name: getattr(graph, name)[order] for name in ("source", "target", "latency", "cable")}
    capacity, medium = graph.capacity[order], np.arange(graph.links, dtype=np.int32)
    for link in range(1, graph.links):
        if draw.random() < 0.3:
            medium[link] = medium[draw.randrange(link)]
            capacity[link] = capacity[medium[link]]
    return replace(graph, **columns, capacity=capacity, medium=medium)


def random_cables(seed: int, servers: bool = False) -> NetworkGraph:
    """What ns-3's form holds: cables, equal both ways; with ``servers`` what SimAI's holds."""
    draw = random.Random(seed)
    builder = GraphBuilder("net")
    size, count = draw.randint(1, 4), draw.randint(1, 4)
    ranks = size * count
    builder.add_ranks(ranks, size if servers else None)
    nvswitches = count if servers else 0
    for number in range(nvswitches):
        builder.vertex(str(ranks + number), KINDS.index("nvswitch"), number)
    others = draw.randint(1, 6)
    for number in range(others):
        builder.vertex(str(ranks + nvswitches + number))
    for rank in range(ranks):
        if servers:
            builder.cable(rank, ranks + rank // size, _rate(draw), _time(draw), count=draw.choice((1, 2)))
        builder.cable(rank, builder.vertices - 1 - draw.randrange(others), _rate(draw), _time(draw))
    for _ in range(draw.randint(0, 12)):
        a, b = draw.sample(range(ranks, builder.vertices), 2) if builder.vertices - ranks > 1 else (0, ranks)
        builder.cable(a, b, _rate(draw), _time(draw), count=draw.choice((1, 2, 3)))
    return builder.build()
