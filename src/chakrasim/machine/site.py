"""What a communication library sees of a machine: the graph's own figures, and what no graph tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.libraries.site import CPUS, INSIDE, NETWORKS, VENDORS, Site
from chakrasim.collectives.libraries.versions import Library, library_of
from chakrasim.config.kinds import choice, text, whole
from chakrasim.config.table import Key, Table, mapping
from chakrasim.errors import InputError
from chakrasim.machine.graph.graph import NIC, NO_ISLAND, NVSWITCH, PCIE, NetworkGraph
from chakrasim.machine.graph.link_lanes import LinkLanes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_LIBRARY_OF: Final = {"nvidia": "nccl", "amd": "rccl"}


@dataclass(frozen=True)
class Make:
    """Who made the parts of a machine, as far as its graph does not tell.

    Attributes
    ----------
    vendor, capability, model, network, cpu, inside: as of `Site`; "" and 0 where that is not known.
    node_gpus: GPUs of a node, where several nodes are one island; 0: islands are nodes.
    """

    vendor: str = ""
    capability: int = 0
    model: str = ""
    network: str = "unknown"
    cpu: str = "unknown"
    inside: str = ""
    node_gpus: int = 0

    def entries(self) -> dict[str, object]:
        """What is known, as a machine file writes it."""
        return {key.name: value for key in MAKE if (value := getattr(self, key.python_name)) != key.default}

    @property
    def library(self) -> str:
        """The name of the vendor's library, "" of an unknown vendor."""
        return _LIBRARY_OF.get(self.vendor, "")


MAKE: Final[Table] = (
    Key("vendor", choice(VENDORS), "", "of the GPUs", shown="unknown"),
    Key("capability", whole(0, 999), 0, "CUDA's compute capability of the GPUs, such as 90", shown="unknown"),
    Key("model", text, "", "name of the GPU where the capability does not tell it, such as gfx942", shown="none"),
    Key("network", choice(NETWORKS), "unknown", "between nodes"),
    Key("cpu", choice(CPUS), "unknown", "who made the CPUs"),
    Key("inside", choice(INSIDE), "", "what joins the GPUs of a node", shown="as the graph says"),
    Key("node-gpus", whole(1), 0, "GPUs of a node, where several nodes are one island, as in a rack that NVLink joins",
        shown="all of the island"),
)  # fmt: skip


MADE: Final = mapping(MAKE, lambda section, values: Make(**values))


def named_library(name: str) -> Library | None:
    """The library of that name, None for "none". Raises InputError for another."""
    return None if name.strip().lower() == "none" else library_of(name)


class Sites:
    """What a library sees of the groups of one machine's ranks, or of several machines', lanes of its links."""

    def __init__(
        self, graph: NetworkGraph, make: Make, library: Library, place: str = "collectives.site",
        lanes: LinkLanes | None = None,
    ) -> None:  # fmt: skip
        self._graph, self._make, self._lanes = graph, make, lanes
        self._ports = lru_cache(maxsize=None)(self._ports_of)
        if not make.vendor or (make.vendor == "nvidia" and not make.capability):
            raise InputError(
                f"what {library.name} sees of the machine is not known: its GPUs",
                file=graph.name or "machine",
                place=f"$.{place}",
                expected="the vendor of the GPUs, and of NVIDIA's the compute capability",
                remedy="say it in the machine file: collectives: {site: {vendor: nvidia, capability: 90}}",
            )
        if make.library != library.name:
            raise InputError(
                f"{library.name} does not run on GPUs of {make.vendor}",
                file=graph.name or "machine",
                found=library.asked,
                expected=make.library,
            )

    def of(self, members: Sequence[int]) -> Site:
        """What the library sees of a group of ranks; of several machines on the first."""
        sites, which = self.each(members)
        return sites[int(which[0])]

    def each(self, members: Sequence[int]) -> tuple[list[Site], NDArray[np.intp]]:
        """What it sees on the machines, each once, and intp[lanes]: which of them on each. Ports of a group that has
        one node, which do nothing, are those of the first machine."""
        own = np.asarray(members, np.int64)
        nodes, first, counts = np.unique(self._node[own], return_index=True, return_counts=True)
        several, speeds = zip(*map(self._ports, nodes.tolist()), strict=True)
        ports, speed = np.min(several, axis=0), np.min(speeds, axis=0)
        if nodes.size == 1:
            speed = np.where(ports == ports[0], speed[0], speed)
        inside = np.min([self._speed_inside(rank) for rank in own[first].tolist()], axis=0)
        seen, which = np.unique(np.stack([inside, ports, speed], axis=1), axis=0, return_inverse=True)
        site = Site(
            vendor=self._make.vendor,
            capability=self._make.capability,
            nodes=nodes.size,
            ranks_per_node=int(counts.min()),
            inside=self._make.inside or self._inside(int(own[0])),
            inside_GBps=float(inside[0]),
            nics_per_node=int(ports[0]),
            nic_GBps=float(speed[0]),
            network=self._make.network if ports[0] else "none",
            cpu=self._make.cpu,
            gpus_per_node=int(np.bincount(self._node)[nodes].max()),
            ranks=own.size,
            domain_nodes=self._hosts,
            model=self._make.model,
        )
        if len(seen) == 1:
            return [site], which.reshape(-1)
        network = [self._make.network if count else "none" for count in seen[:, 1].tolist()]
        figures = zip(seen.tolist(), network, strict=True)
        return [
            replace(site, inside_GBps=near, nics_per_node=int(count), nic_GBps=far, network=name)
            for (near, count, far), name in figures
        ], which.reshape(-1)

    def domains(self, members: Sequence[int]) -> list[list[int]]:
        """The members of a group by the islands, or nodes, that they stand in, in the order in which these come."""
        found: dict[int, list[int]] = {}
        for rank in members:
            island = int(self._graph.island[rank])
            found.setdefault(island if island != NO_ISLAND else -1 - int(self._node[rank]), []).append(rank)
        return list(found.values())

    def switch_links(self, rank: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The links from a rank to the switches that join the GPUs of its island, and those from them to it."""
        graph, out = self._graph, self._out(rank)
        ups = out[self._joined(rank) & (graph.target[out] >= graph.ranks)]
        first, entering = graph.entering
        back = entering[first[rank] : first[rank + 1]]
        downs = back[np.isin(graph.source[back], graph.target[ups])]
        return graph.medium[ups], graph.medium[downs]

    @cached_property
    def _node(self) -> Ints:
        """int64[ranks]: the node of each rank."""
        graph, each = self._graph, self._make.node_gpus
        ranks = np.arange(graph.ranks)
        island = graph.island[: graph.ranks].astype(np.int64)
        if (island == NO_ISLAND).any():
            if each:
                return ranks // each
            return np.zeros(graph.ranks, np.int64) if self._joined(0).any() else ranks
        if not each:
            return island
        order = np.argsort(island, kind="stable")
        first = np.searchsorted(island[order], island)
        within = np.empty(graph.ranks, np.int64)
        within[order] = ranks
        return island * graph.ranks + (within - first) // each

    @property
    def _hosts(self) -> int:
        """Nodes of an island."""
        island = self._graph.island[: self._graph.ranks]
        if not self._make.node_gpus or (island == NO_ISLAND).any():
            return 1
        return max(-(-int(np.bincount(island).max()) // self._make.node_gpus), 1)

    def _joined(self, rank: int) -> NDArray[np.bool_]:
        """bool[links of the rank]: those that lead to other GPUs of the island without NICs."""
        graph, out = self._graph, self._out(rank)
        ends = graph.target[out]
        near = (graph.island[ends] == graph.island[rank]) & (graph.island[rank] != NO_ISLAND)
        at_ranks = (ends < graph.ranks) & (near | (graph.island[rank] == NO_ISLAND))
        joins: NDArray[np.bool_] = (graph.kind[ends] == NVSWITCH) | (near & ~np.isin(graph.kind[ends], (NIC, PCIE)))
        found: NDArray[np.bool_] = at_ranks | joins
        return found

    def _out(self, vertex: int) -> NDArray[np.int32]:
        first, links = self._graph.leaving
        return links[first[vertex] : first[vertex + 1]]

    def _inside(self, rank: int) -> str:
        """How the GPUs of a node are joined."""
        joined = self._out(rank)[self._joined(rank)]
        if not joined.size:
            return "pcie"
        if self._make.vendor == "amd":
            return "xgmi"
        ends = self._graph.target[joined]
        if (ends >= self._graph.ranks).any():
            return "nvswitch"
        others = np.flatnonzero(self._node == self._node[rank]).size - 1
        return "direct" if np.unique(ends).size == others else "cube-mesh"

    def _speeds(self, links: NDArray[Any]) -> Floats:
        """float64[lanes]: the sum of the capacities of links."""
        lanes = self._lanes
        own = self._graph.capacity[None, links] if lanes is None else lanes.capacity[:, lanes.kind[links]]
        return np.asarray(np.ascontiguousarray(own).sum(axis=1))

    def _speed_inside(self, rank: int) -> Floats:
        out = self._out(rank)
        joined = self._joined(rank)
        return self._speeds(out[joined] if joined.any() else out)

    def _ports_of(self, node: int) -> tuple[Ints, Floats]:
        """The network's ports of a node, and what each carries: its NICs, or what leads from its ranks to others."""
        graph, ranks = self._graph, np.flatnonzero(self._node == node)
        island = int(graph.island[ranks[0]])
        nics = np.flatnonzero((graph.kind == NIC) & (graph.island == island)) if island != NO_ISLAND else ()
        if not len(nics):
            reached = np.concatenate([graph.target[self._out(int(rank))] for rank in ranks])
            nics = np.unique(reached[graph.kind[reached] == NIC])
        if len(nics):
            slowest = np.min([self._leaving(int(nic), island) for nic in nics], axis=0)
            return np.full(slowest.shape, max(len(nics) // self._hosts, 1)), slowest
        slowest = np.min([self._speeds(self._out(int(rank))[~self._joined(int(rank))]) for rank in ranks], axis=0)
        return np.where(slowest > 0, len(ranks), 0), slowest

    def _leaving(self, nic: int, island: int) -> Floats:
        """What leads from a NIC out of its node."""
        graph, out = self._graph, self._out(nic)
        ends = graph.target[out]
        away = (ends >= graph.ranks) & (graph.kind[ends] != PCIE)
        return self._speeds(out[away])
