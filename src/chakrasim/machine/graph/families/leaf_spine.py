"""Leaves and spines: every leaf joins every spine, oversubscribed or not."""

from __future__ import annotations

from chakrasim.config.kinds import number
from chakrasim.config.table import Derived, Key
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.families.family import COUNT, Family, bandwidth, latency


def build(
    graph: GraphBuilder, hosts_per_leaf: int, spines: int, cables: int, bandwidth: float, latency: float,
    oversubscription: float, uplink: float | None, uplink_latency: float,
) -> None:  # fmt: skip
    """Leaf l takes ports l n to l n + n - 1, in order. Oversubscription is n x host bandwidth / (spines x cables x
    uplink bandwidth); it sets the uplink's bandwidth where that is not given."""
    leaves = graph.add_switches("leaf", -(-len(graph.ports) // hosts_per_leaf))
    tops = graph.add_switches("spine", spines)
    if uplink is None:
        uplink = hosts_per_leaf * bandwidth / (spines * cables * oversubscription)
    graph.hang(leaves, hosts_per_leaf, bandwidth, latency)
    for leaf in leaves:
        for spine in tops:
            graph.cable(leaf, spine, uplink, uplink_latency, count=cables)


LEAF_SPINE = Family("leaf-spine", build, (
    Key("hosts-per-leaf", COUNT, 32, "ports on a leaf, taken in order"),
    Key("spines", COUNT, 1, "each joined to every leaf"),
    Key("cables", COUNT, 1, "between a leaf and a spine"),
    bandwidth("between a host and its leaf"),
    latency("between a host and its leaf, one way"),
    Key("oversubscription", number(1e-3, 1e3, "a factor from 0.001 to 1,000", "number > 0"), 1.0,
        "hosts of a leaf x their bandwidth / bandwidth of its uplinks; without effect where `uplink` is given"),
    bandwidth("of each uplink cable", None, "uplink"),
    latency("between leaf and spine, one way",
            Derived(lambda values: values["latency"], "that of the hosts"), "uplink-latency"),
), "leaves and spines, with oversubscription and parallel cables")  # fmt: skip
