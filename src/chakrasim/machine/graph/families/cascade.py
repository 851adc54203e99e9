"""The Cascade dragonfly: a group is a grid of chassis and routers, joined along both (SimGrid's DRAGONFLY cluster)."""

from __future__ import annotations

from itertools import combinations

from chakrasim.config.table import REQUIRED, Key
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.families.family import COUNT, Family, bandwidth, latency, times


def build(
    graph: GraphBuilder, groups: int, blue: int, chassis: int, black: int, routers: int, green: int, hosts: int,
    bandwidth: float, latency: float,
) -> None:  # fmt: skip
    """Router s of chassis c of group G is number (G chassis + c) routers + s. Green cables join the routers of a
    chassis, black ones those of one slot, blue ones groups i < j: at router j of group i and router i of group j."""
    size = chassis * routers
    if groups > size:
        raise ValueError(f"{groups} groups need as many routers in each; there are {chassis} x {routers}")
    numbers = graph.add_switches("router", size * groups)
    graph.hang(numbers, hosts, bandwidth, latency)
    for first in range(0, len(numbers), size):
        group = numbers[first : first + size]
        for c in range(chassis):
            for a, b in combinations(group[c * routers : (c + 1) * routers], 2):
                graph.cable(a, b, bandwidth, latency, count=green)
        for slot in range(routers):
            for a, b in combinations(group[slot::routers], 2):
                graph.cable(a, b, bandwidth, latency, count=black)
    for i, j in combinations(range(groups), 2):
        graph.cable(numbers[i * size + j], numbers[j * size + i], bandwidth, latency, count=blue)


CASCADE = Family("cascade", build, (
    Key("groups", COUNT, REQUIRED, "all joined"),
    Key("blue", COUNT, 1, "cables between two groups"),
    Key("chassis", COUNT, REQUIRED, "of a group"),
    Key("black", COUNT, 1, "cables between two routers of one slot"),
    Key("routers", COUNT, REQUIRED, "of a chassis"),
    Key("green", COUNT, 1, "cables between two routers of a chassis"),
    Key("hosts", COUNT, REQUIRED, "of a router"),
    bandwidth(),
    latency(),
), "a dragonfly whose groups are grids of chassis and routers",
times("hosts", "routers", "chassis", "groups"))  # fmt: skip
