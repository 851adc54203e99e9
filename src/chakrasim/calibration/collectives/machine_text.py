"""The machine file of a calibration: the machine as it was described, and the constants that were fitted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import Any, Final

from chakrasim.calibration.collectives.calibrate import FittedGroup
from chakrasim.calibration.collectives.describe import environment_of_curve
from chakrasim.calibration.collectives.design import Described
from chakrasim.collectives.libraries.site import Site
from chakrasim.machine.constants_keys import constants_entries
from chakrasim.machine.site import Make

NVLINK_LATENCY: Final = "300 ns"
"""Of a cable to a switch; from GPU to GPU it is twice as much. Calibrated times have their own."""
_DIRECT_LATENCY: Final = "600 ns"
_CABLE_LATENCY: Final = "500 ns"
_PCIE_GBPS: Final = {60: 15.754, 70: 15.754, 75: 15.754, 80: 31.508, 86: 31.508, 89: 31.508, 90: 63.015}
_MEMORY_GBPS: Final = {
    60: 732, 70: 900, 75: 320, 80: 2039, 86: 768, 89: 864, 90: 3350, 100: 8000, 103: 8000,
    "gfx908": 1229, "gfx90a": 3277, "gfx942": 5300, "gfx950": 8000,
}  # fmt: skip
"""Of a GPU's own memory, by compute capability or model: data sheets of each generation's usual product."""


def machine_entries(group: FittedGroup) -> dict[str, Any]:
    """The machine file of a group: as many nodes as were measured, each whole."""
    site = whole_site(group.curves)
    ranks, environment = site.nodes * site.board, environment_of(group.curves)
    return {
        "format": 1,
        "name": f"{group.machine}-{ranks}",
        "source": _source(group, site),
        "network": _network(site, ranks),
        "memory": {"bandwidth": f"{_of_generation(_MEMORY_GBPS, site):g} GB/s"},
        "collectives": {
            "library": _library(group),
            **({"environment": environment} if environment else {}),
            "site": _make(site).entries(),
            "constants": constants_entries(group.calibrated),
        },
    }


def machine_text(group: FittedGroup) -> str:
    """The same as the text of a file."""
    import yaml

    entries = machine_entries(group)
    source = "\n".join(f"  {line}" for line in wrap(str(entries.pop("source")), 116))
    collectives = entries.pop("collectives")
    constants = collectives.pop("constants")
    called = yaml.safe_dump({"name": entries.pop("name")}, width=1000)
    del entries["format"]

    def dumped(part: Mapping[str, Any]) -> str:
        return yaml.safe_dump(part, sort_keys=False, width=118, default_flow_style=None, allow_unicode=True)

    below = "".join(f"    {line}\n" for line in dumped(constants).splitlines())
    return (
        f"format: 1\n{called}source: >\n{source}\n\n{dumped(entries)}"
        + dumped({"collectives": collectives})
        + f"  constants:\n{below}"
    )


def whole_site(curves: Sequence[Described]) -> Site:
    """What the library sees of all GPUs of as many nodes as were measured."""
    largest = max((one.site for one in curves), key=lambda site: (site.nodes, site.board))
    nodes = largest.nodes
    if nodes > largest.domain_nodes:
        nodes = -(-nodes // largest.domain_nodes) * largest.domain_nodes
    return replace(largest, nodes=nodes, ranks_per_node=largest.board, ranks=0)


def environment_of(curves: Sequence[Described]) -> dict[str, str]:
    """The variables that all curves had set."""
    first, *others = (environment_of_curve(one.curve) for one in curves)
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def _library(group: FittedGroup) -> str:
    """As a file names it: of a version that is not known, the name alone."""
    library = group.curves[0].library
    return f"{library.name}-{library.asked.partition('-')[2]}" if "-" in library.asked else library.name


def _source(group: FittedGroup, site: Site) -> str:
    told = ", ".join(f"{error:.1f} % {name}" for name, error in group.calibrated.errors.items())
    error = f" Mean absolute error of sizes held out: {told}." if told else ""
    wires = f"{site.inside} of {site.inside_GBps:g} GB/s a GPU"
    if site.nodes > site.domain_nodes:
        wires += f", {site.nics_per_node} ports of {8 * site.nic_GBps:g} Gb/s a node ({site.network})"
    return (
        f"Written by chakrasim calibrate collectives from the description of {group.machine}: {wires}; one switch "
        f"joins all ports; latencies of cables, PCIe and memory are those of the generation's usual products. "
        f"Constants fitted to {group.calibrated.constants.source}.{error}"
    )


def _make(site: Site) -> Make:
    return Make(
        vendor=site.vendor,
        capability=site.capability,
        model=site.model,
        network=site.network if site.network != "none" else "unknown",
        cpu=site.cpu,
        inside=site.inside,
        node_gpus=site.board if site.domain_nodes > 1 else 0,
    )


def _network(site: Site, ranks: int) -> dict[str, Any]:
    island = site.board * min(site.domain_nodes, site.nodes)
    parts: list[dict[str, Any]] = [_inside(site, island)] if island > 1 else []
    logical = [island]
    if ranks > island:
        parts += _between(site, island)
        logical.append(ranks // island)
    graph = {
        "ranks": ranks,
        "islands": {"gpus": island},
        "parts": parts,
        "routing": {"rule": "ecmp", "seed": 1, "nvswitch-first": True},
    }
    return {"graph": graph, "logical": logical, "network-model": "flow"}


def _inside(site: Site, island: int) -> dict[str, Any]:
    if site.inside == "cube-mesh" and island == 8:
        return {"cube-mesh": {"bandwidth": f"{site.inside_GBps / 6:.12g} GB/s", "latency": _DIRECT_LATENCY}}
    if site.inside in ("direct", "xgmi", "cube-mesh"):
        return {"full-mesh": {"bandwidth": f"{site.inside_GBps / (island - 1):.12g} GB/s", "latency": _DIRECT_LATENCY}}
    return {"nvswitch": {"bandwidth": f"{site.inside_GBps:.12g} GB/s", "latency": NVLINK_LATENCY}}


def _between(site: Site, island: int) -> list[dict[str, Any]]:
    """The ports of islands, and the switch that joins them. Each port hangs on one GPU, or on some."""
    ports, rate = site.nics_per_node * min(site.domain_nodes, site.nodes), site.nic_GBps
    if max(ports, island) % min(ports, island):
        ports, rate = island, rate * ports / island
    pcie = max(_of_generation(_PCIE_GBPS, site, 63.015), rate)
    nics = {"per-island": ports, "pcie": f"{pcie:.12g} GB/s", "latency": _CABLE_LATENCY}
    return [{"nics": nics}, {"one-switch": {"bandwidth": f"{rate:.12g} GB/s", "latency": _CABLE_LATENCY}}]


def _of_generation(table: Mapping[Any, float], site: Site, default: float = 2000.0) -> float:
    return table.get(site.model or site.capability, table.get(site.capability, default))


def file_names(groups: Sequence[FittedGroup], path: str) -> list[str]:
    """A file for each group: ``path`` for the first, beside it NAME.MACHINE.LIBRARY.yaml for the others."""
    stem = path.removesuffix(".yaml").removesuffix(".yml")
    found: list[str] = [path]
    for group in groups[1:]:
        words = (group.machine, group.library, *re.findall(r"[A-Za-z0-9]+", group.environment)[:4])
        name = "-".join(re.sub(r"[^A-Za-z0-9_.+-]+", "-", word) for word in words[2:])
        base = ".".join([stem, *(re.sub(r"[^A-Za-z0-9_.+-]+", "-", word) for word in words[:2])])
        full, number = f"{base}.{name}.yaml" if name else f"{base}.yaml", 1
        while full in found:
            number += 1
            full = f"{base}.{number}.yaml"
        found.append(full)
    return found
