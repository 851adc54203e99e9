"""Rail-only networks: a leaf for each place in the island and no spines; other rails are reached inside islands."""

from __future__ import annotations

from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.families import rails
from chakrasim.machine.graph.families.family import Family, bandwidth, latency


def build(graph: GraphBuilder, nic: float, latency: float) -> None:
    graph.let_through()  # a message to another rail passes a rank of its island
    whole = len(graph.ports)
    rails.build(graph, "", whole, 0, True, False, False, nic, latency, 0.0, 0.0)


RAIL_ONLY = Family("rail-only", build, (
    bandwidth("of a NIC", 50.0, "nic"),
    latency("of a NIC's cable"),
), "a leaf for each rail and no spines; ranks pass on what goes to other rails")  # fmt: skip
