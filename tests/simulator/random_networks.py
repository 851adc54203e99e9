"""Random unequal graphs of links, and groups of their ranks."""

from __future__ import annotations

import random

from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.graph import NIC, NetworkGraph
from chakrasim.machine.graph.routing import Routing

SPEEDS = (3.0, 12.5, 25.0, 50.0, 450.0)
RULES = (
    Routing(),
    Routing("ecmp", seed=5),
    Routing("ecmp", seed=6, polarised=True),
    Routing("spray"),
    Routing(metric="latency"),
)


def random_network(seed: int) -> tuple[NetworkGraph, Routing]:
    """Unequal islands behind a fabric, a web of switches, or ranks on cables to one another, and how flows go there."""
    draw = random.Random(seed)
    graph = (_islands, _web, _without_switches)[seed % 3](draw)
    return graph, RULES[draw.randrange(len(RULES))]


def random_group(draw: random.Random, ranks: int, least: int = 2) -> list[int]:
    """Some of the ranks in any order."""
    return draw.sample(range(ranks), draw.randint(least, ranks))


def _cable(draw: random.Random, made: GraphBuilder, a: int, b: int, count: int = 1) -> None:
    """Parallel cables, each with a speed and a latency of its own; some are slower back, some share one medium."""
    for _ in range(count):
        speed, latency = draw.choice(SPEEDS), float(draw.randrange(0, 2000))
        kind = draw.random()
        back = (draw.choice(SPEEDS), latency + 7) if kind < 0.2 else None
        made.cable(a, b, speed, latency, back=back, shared=kind > 0.9)


def _islands(draw: random.Random) -> NetworkGraph:
    """Two to four islands of one to five ranks, some with NICs, on leaves and spines with parallel cables."""
    made = GraphBuilder()
    sizes = [draw.randint(1, 5) for _ in range(draw.randint(2, 4))]
    for island, size in enumerate(sizes):
        for _ in range(size):
            made.vertex(str(made.vertices), 0, island)
    spines = made.add_switches("spine", draw.randint(1, 3))
    first = 0
    for island, size in enumerate(sizes):
        inside = made.vertex(f"inside{island}")
        leaf = made.vertex(f"leaf{island}")
        for rank in range(first, first + size):
            _cable(draw, made, rank, inside)
            nic = made.vertex(f"nic{rank}", NIC, island)
            _cable(draw, made, rank, nic)
            _cable(draw, made, nic, leaf)
        for spine in spines:
            _cable(draw, made, leaf, spine, draw.randint(1, 3))
        first += size
    return made.build()


def _web(draw: random.Random) -> NetworkGraph:
    """Ranks at switches that a random tree and some more cables join."""
    made = GraphBuilder()
    ranks = made.add_ranks(draw.randint(3, 12))
    switches = made.add_switches("switch", draw.randint(1, 5))
    for rank in ranks:
        _cable(draw, made, rank, draw.choice(switches), draw.randint(1, 2))
    for at, switch in enumerate(switches[1:], 1):
        _cable(draw, made, switch, switches[draw.randrange(at)], draw.randint(1, 3))
    for _ in range(draw.randint(0, 3)):
        a, b = draw.choice(switches), draw.choice(switches)
        if a != b:
            _cable(draw, made, a, b)
    return made.build()


def _without_switches(draw: random.Random) -> NetworkGraph:
    """Ranks that let others' traffic pass: a ring with chords, doubled here and there."""
    made = GraphBuilder()
    count = draw.randint(3, 10)
    made.add_ranks(count, transit=True)
    order = draw.sample(range(count), count)
    for a, b in zip(order, order[1:] + order[:1], strict=True):
        _cable(draw, made, a, b, draw.randint(1, 2))
    for _ in range(draw.randint(0, 4)):
        a, b = draw.sample(range(count), 2)
        _cable(draw, made, a, b)
    return made.build()
