"""One switch, with every port on it."""

from __future__ import annotations

from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.families.family import Family, bandwidth, latency


def build(graph: GraphBuilder, bandwidth: float, latency: float) -> None:
    graph.hang(graph.add_switches("switch", 1), len(graph.ports), bandwidth, latency)


STAR = Family("one-switch", build, (bandwidth(), latency()), "one switch for all ports")
