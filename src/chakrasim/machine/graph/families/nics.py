"""NICs as vertices: each has a cable to its rank (PCIe) and one to the fabric, so that both speeds count."""

from __future__ import annotations

from chakrasim.config.table import Derived, Key
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.families.family import COUNT, Family, bandwidth, latency
from chakrasim.machine.graph.graph import NIC, PCIE


def build(graph: GraphBuilder, per_island: int, pcie: float, latency: float, nic_pcie: float) -> None:
    """NICs of an island are numbered like its ranks. As many as ranks, or a multiple: each rank has its own. Fewer, a
    divisor: consecutive ranks and their NIC stand below one PCIe switch. What is built next attaches to the NICs."""
    ports: list[int] = []
    for ranks in graph.ranks_by_island():
        count, island = per_island or len(ranks), graph.island_of(ranks[0])
        if max(count, len(ranks)) % min(count, len(ranks)):
            raise ValueError(f"{count} NICs cannot be shared out among the {len(ranks)} ranks of an island")
        nics = graph.add_switches("nic", count, NIC, island)
        if count >= len(ranks):
            for n, nic in enumerate(nics):
                graph.cable(ranks[n // (count // len(ranks))], nic, pcie, latency)
        else:
            each = len(ranks) // count
            for n, nic in enumerate(nics):
                (bridge,) = graph.add_switches("pcie", 1, PCIE, island)
                for rank in ranks[n * each : (n + 1) * each]:
                    graph.cable(rank, bridge, pcie, latency)
                graph.cable(bridge, nic, nic_pcie, 0.0)
        ports += nics
    graph.ports = ports


NICS = Family("nics", build, (
    Key("per-island", COUNT, Derived(lambda values: 0, "one for each rank"), "NICs of an island: a divisor or a "
        "multiple of its ranks"),
    bandwidth("of the PCIe link of a rank, and of a NIC that a rank has by itself", name="pcie"),
    latency("of the PCIe link, one way"),
    bandwidth("between a PCIe switch and its NIC, where ranks share one",
              Derived(lambda values: values["pcie"], "that of a rank"), "nic-pcie"),
), "a NIC, or several, before the ranks; what comes behind attaches to them")  # fmt: skip
