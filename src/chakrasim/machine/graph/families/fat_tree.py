"""The k-ary fat tree: pods of edge and aggregation switches below cores, all cables alike."""

from __future__ import annotations

from chakrasim.config.kinds import whole
from chakrasim.config.table import Derived, Key
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.families.family import Family, bandwidth, latency


def hosts_of(k: int, tiers: int) -> int:
    return k * k * k // 4 if tiers == 3 else k * k // 2


def smallest(ports: int, tiers: int) -> int:
    """The least even k whose tree has room for so many hosts."""
    k = 2
    while hosts_of(k, tiers) < ports:
        k += 2
    return k


def build(graph: GraphBuilder, k: int, tiers: int, bandwidth: float, latency: float) -> None:
    """Host h stands below edge h div (k/2). With three tiers, edges and aggregations of a pod of k/2 each are all
    joined, and aggregation a of every pod joins cores a k/2 to a k/2 + k/2 - 1; with two, every edge joins every
    spine."""
    k = k or smallest(len(graph.ports), tiers)
    half = k // 2
    if k % 2:
        raise ValueError(f"a fat tree has switches of an even number of ports, not of k = {k}")
    edges = graph.add_switches("edge", k * half if tiers == 3 else k)
    middle = graph.add_switches("agg", k * half) if tiers == 3 else graph.add_switches("spine", half)
    cores = graph.add_switches("core", half * half) if tiers == 3 else range(0)
    graph.hang(edges, half, bandwidth, latency)
    for e in range(len(edges)):
        first = e // half * half if tiers == 3 else 0
        for a in range(half):
            graph.cable(edges[e], middle[first + a], bandwidth, latency)
    for a in range(len(middle) if tiers == 3 else 0):
        for c in range(half):
            graph.cable(middle[a], cores[a % half * half + c], bandwidth, latency)


FAT_TREE = Family("fat-tree", build, (
    Key("tiers", whole(2, 3), 3, "three: edges, aggregations, cores; two: edges and spines"),
    Key("k", whole(2, 4096), Derived(lambda values: 0, "the least that holds the ports"), "ports of a switch, even: "
        "k^3/4 hosts with three tiers, k^2/2 with two"),
    bandwidth(),
    latency(),
), "k-ary fat tree", lambda values: hosts_of(values["k"], values["tiers"]))  # fmt: skip
