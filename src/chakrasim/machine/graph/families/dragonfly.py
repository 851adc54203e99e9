"""The dragonfly p, a, h, g: groups of routers that are all joined, and cables from group to group."""

from __future__ import annotations

from itertools import combinations

from chakrasim.config.table import REQUIRED, Key
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.families.family import COUNT, Family, times
from chakrasim.machine.graph.families.global_links import global_keys, join_groups


def build(
    graph: GraphBuilder, hosts: int, routers: int, global_links: int, groups: int, cables: int, arrangement: str,
    bandwidth: float, latency: float, local_bandwidth: float, local_latency: float, global_bandwidth: float,
    global_latency: float,
) -> None:  # fmt: skip
    """Router r of group G is number G a + r, with the ports from p (G a + r) on."""
    numbers = graph.add_switches("router", routers * groups)
    graph.hang(numbers, hosts, bandwidth, latency)
    for first in range(0, len(numbers), routers):
        for a, b in combinations(numbers[first : first + routers], 2):
            graph.cable(a, b, local_bandwidth, local_latency)
    join_groups(graph, numbers, groups, global_links, cables, arrangement, global_bandwidth, global_latency)


DRAGONFLY = Family("dragonfly", build, (
    Key("hosts", COUNT, REQUIRED, "p: of a router"),
    Key("routers", COUNT, REQUIRED, "a: of a group, all joined"),
    *global_keys("routers"),
), "groups of routers, joined by cables; balanced: a = 2 p = 2 h, g = a h + 1",
times("hosts", "routers", "groups"))  # fmt: skip
