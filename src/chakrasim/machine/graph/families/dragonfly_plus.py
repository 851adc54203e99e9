"""Dragonfly+: groups that are two-level fat trees, joined by cables between their spines."""

from __future__ import annotations

from itertools import product

from chakrasim.config.table import REQUIRED, Key
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.families.family import COUNT, Family, times
from chakrasim.machine.graph.families.global_links import global_keys, join_groups


def build(
    graph: GraphBuilder, hosts: int, leaves: int, spines: int, global_links: int, groups: int, cables: int,
    arrangement: str, bandwidth: float, latency: float, local_bandwidth: float, local_latency: float,
    global_bandwidth: float, global_latency: float,
) -> None:  # fmt: skip
    """Leaf l of group G is number G L + l, with the ports from p (G L + l) on; every leaf joins all spines of its
    group."""
    lower = graph.add_switches("leaf", leaves * groups)
    upper = graph.add_switches("spine", spines * groups)
    graph.hang(lower, hosts, bandwidth, latency)
    for g in range(groups):
        own = lower[g * leaves : (g + 1) * leaves], upper[g * spines : (g + 1) * spines]
        for leaf, spine in product(*own):
            graph.cable(leaf, spine, local_bandwidth, local_latency)
    join_groups(graph, upper, groups, global_links, cables, arrangement, global_bandwidth, global_latency)


DRAGONFLY_PLUS = Family("dragonfly+", build, (
    Key("hosts", COUNT, REQUIRED, "p: of a leaf"),
    Key("leaves", COUNT, REQUIRED, "L: of a group"),
    Key("spines", COUNT, REQUIRED, "S: of a group, each joined to all its leaves; global links are theirs"),
    *global_keys("spines"),
), "groups of leaves and spines, joined by cables between spines", times("hosts", "leaves", "groups"))  # fmt: skip
