"""A cable from every rank of an island to every other one."""

from __future__ import annotations

from itertools import combinations

from chakrasim.config.table import Key
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.families.family import COUNT, Family, bandwidth, latency


def build(graph: GraphBuilder, bandwidth: float, latency: float, cables: int) -> None:
    for ranks in graph.ranks_by_island():
        for a, b in combinations(ranks, 2):
            graph.cable(a, b, bandwidth, latency, count=cables)


FULL_MESH = Family("full-mesh", build, (
    bandwidth("of each cable and direction"),
    latency(),
    Key("cables", COUNT, 1, "between two ranks"),
), "a cable between any two ranks of each island")  # fmt: skip
