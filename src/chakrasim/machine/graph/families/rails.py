"""Rail-optimised Clos networks (SimAI's templates): a leaf for each place in the island; and DCN+, without rails."""

from __future__ import annotations

from itertools import product

from chakrasim.config.kinds import choice, switch, whole
from chakrasim.config.table import Derived, Key
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.families.family import COUNT, Family, bandwidth, latency

TEMPLATES: dict[str, tuple[int, int, bool, bool, bool]] = {
    "spectrum-x": (64, 64, True, False, False),
    "hpn": (128, 120, True, True, False),
    "hpn-dual-plane": (128, 120, True, True, True),
    "dcn+": (64, 8, False, False, False),
    "dcn+-dual": (128, 8, False, True, False),
}
"""SimAI's gen_Topo_Template.py: NICs of a leaf, spines, rails or not, two leaves a NIC or one, two planes or one."""


def build(
    graph: GraphBuilder, template: str, leaf_gpus: int, spines: int, by_rail: bool, dual_tor: bool, dual_plane: bool,
    nic: float, latency: float, uplink: float, uplink_latency: float,
) -> None:  # fmt: skip
    """With g ports in an island and n on a leaf, port i of rail r (its place in the island) hangs on leaf
    (i div g n) g + r; without rails on leaf i div n. A second set of leaves takes half of each NIC's bandwidth; with
    two planes it joins the second half of the spines, the first set the first."""
    ports, sizes = graph.ports, {len(i) for i in graph.ports_by_island() if graph.island_of(i[0]) >= 0}
    if (by_rail and len(sizes) != 1) or dual_plane > dual_tor or spines % (1 + dual_plane):
        raise ValueError("rails need islands of one size, two planes dual-tor and an even number of spines")
    rails = max(sizes) if by_rail else 1
    per_set = -(-len(ports) // (rails * leaf_gpus)) * rails
    if not spines and per_set > rails:
        raise ValueError(f"without spines a leaf holds its whole rail, {len(ports) // rails} ports, not {leaf_gpus}")
    sets = [graph.add_switches("leaf", per_set) for _ in range(2 if dual_tor else 1)]
    tops = graph.add_switches("spine", spines)
    for (i, port), leaves in product(enumerate(ports), sets):
        graph.cable(port, leaves[i // (rails * leaf_gpus) * rails + i % rails], nic / len(sets), latency)
    for number, leaves in enumerate(sets):
        plane = tops[number * spines // 2 : (number + 1) * spines // 2] if dual_plane else tops
        for leaf, spine in product(leaves, plane):
            graph.cable(leaf, spine, uplink, uplink_latency)


def _of(index: int, shown: str) -> Derived:
    return Derived(lambda values: TEMPLATES[values["template"]][index], shown)


RAILS = Family("rails", build, (
    Key("template", choice(TEMPLATES), "spectrum-x", "one of SimAI's; it gives the next five"),
    Key("leaf-gpus", COUNT, _of(0, "64; dual ToR 128"), "ports on a leaf"),
    Key("spines", whole(0), _of(1, "64, 120, 120, 8, 8"), "each joined to every leaf of its plane"),
    Key("by-rail", switch, _of(2, "not with dcn+"), "a leaf takes one place of every island, not consecutive ports"),
    Key("dual-tor", switch, _of(3, "hpn and dcn+-dual"), "two leaves for each port, with half of the bandwidth each"),
    Key("dual-plane", switch, _of(4, "hpn-dual-plane"), "each of the two leaves in a plane of its own"),
    bandwidth("of a NIC; over both of its leaves with dual-tor", 50.0, "nic"), latency("of a NIC's cable"),
    bandwidth("of a cable between leaf and spine", 50.0, "uplink"),
    latency("of it", Derived(lambda values: values["latency"], "that of the NICs"), "uplink-latency"),
), "rail-optimised Clos, single or dual ToR and plane")  # fmt: skip
