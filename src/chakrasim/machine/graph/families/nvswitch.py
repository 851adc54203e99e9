"""Switches inside islands: every rank of an island on each of them."""

from __future__ import annotations

from chakrasim.config.table import Key
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.families.family import COUNT, Family, bandwidth, latency
from chakrasim.machine.graph.graph import NVSWITCH


def build(graph: GraphBuilder, bandwidth: float, latency: float, switches: int) -> None:
    for ranks in graph.ranks_by_island():
        middles = graph.add_switches("nvswitch", switches, NVSWITCH, graph.island_of(ranks[0]))
        for rank in ranks:
            for middle in middles:
                graph.cable(rank, middle, bandwidth, latency)


NVSWITCH_ISLANDS = Family("nvswitch", build, (
    bandwidth("of a rank's port, each direction; with several switches, of the port on each"),
    latency("between rank and switch, one way"),
    Key("switches", COUNT, 1, "in an island; one stands for all where no single chip is a bottleneck"),
), "a switch in every island")  # fmt: skip
