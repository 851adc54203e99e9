"""Small graphs that several tests take."""

from __future__ import annotations

from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.graph import NetworkGraph


def spines(count: int = 2, latency: float = 0.0) -> NetworkGraph:
    """Ranks 0 and 1 on leaf0, 2 and 3 on leaf1, all links 50 bytes per ns."""
    graph = GraphBuilder()
    graph.add_ranks(4)
    leaves = [graph.vertex("leaf0"), graph.vertex("leaf1")]
    for rank in range(4):
        graph.cable(rank, leaves[rank // 2], 50.0, latency)
    for spine in graph.add_switches("spine", count):
        for leaf in leaves:
            graph.cable(leaf, spine, 50.0, latency)
    return graph.build()
