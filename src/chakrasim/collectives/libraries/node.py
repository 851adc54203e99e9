"""One node as a library sees it: links with the bandwidths that it assumes, and how many channels they have room for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import floor, inf
from typing import Final

from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.tables import nccl_table
from chakrasim.collectives.libraries.versions import Library

_PCIE: Final = {60: 12.0, 70: 12.0, 80: 24.0, 90: 48.0, 103: 96.0}
"""Bandwidth of a slot that is assumed, by the least compute capability that has it."""

_BETWEEN_SOCKETS: Final = {"intel": 10.0, "amd": 16.0, "arm": 6.0, "power": 32.0, "unknown": 16.0}


@dataclass(frozen=True)
class Node:
    """A node of a group.

    Attributes
    ----------
    gpus: of the group.
    capability: of the GPUs.
    links: NVLink or XGMI; else the GPUs are joined by PCIe.
    switch: links lead to a switch; else each pair of the board's GPUs has links of its own.
    total: bandwidth of all links of a GPU to others of the group, in GB/s.
    pair: bandwidth between two GPUs.
    pcie: bandwidth of a slot.
    nics, nic: ports, and what each carries as far as a GPU; none where there is one node.
    cross: bandwidth between sockets, if the group is on two.
    """

    gpus: int
    capability: int
    links: bool
    switch: bool
    total: float
    pair: float
    pcie: float
    nics: int
    nic: float
    cross: float

    @property
    def fastest(self) -> float:
        """The most that one channel could carry."""
        if self.nics:
            return self.nic
        return self.pair if self.gpus > 1 else inf

    @property
    def fastest_out(self) -> float:
        """The most that one channel could carry to other nodes; without limit where there are none."""
        return self.nic if self.nics else inf

    @property
    def heads(self) -> int:
        """GPUs that can be heads of channels in the switch."""
        if not (self.switch and self.capability >= 90 and self.gpus > 1):
            return 0
        return min(self.gpus, self.nics) if self.nics else self.gpus

    def rings(self, intra: float, inter: float) -> int:
        """Rings that there is room for. Between nodes they leave by another port than they came by, if that helps."""
        if self.nics:
            return min(self._out(inter), self._paths(intra, self.gpus if self.nics == 1 else self.gpus - 1))
        if self.gpus == 1:
            return 0
        return self._paths(intra, self.gpus)

    def trees(self, plain: bool) -> Callable[[float, float], int]:
        """Chains of GPUs that there is room for; between nodes the first GPU (if not ``plain``, the first two) send."""

        def room(intra: float, inter: float) -> int:
            inside = self._chains(intra, 0.0 if plain or not self.nics else inter / 2)
            return min(self._out(inter), inside) if self.nics else inside

        return room

    def _out(self, speed: float) -> int:
        return self.nics * floor(self.nic / speed + 1e-9)

    def _paths(self, speed: float, hops: int) -> int:
        """Paths of so many hops that go through all GPUs."""
        if hops == 0:
            return 1 << 30
        if not self.links:
            return floor(min(self.pcie, self.cross) / speed + 1e-9)
        if self.switch:
            return floor(self.gpus * self.total / (hops * speed) + 1e-9)
        return _mesh_paths(self.gpus, floor(self.pair / speed + 1e-9), hops)

    def _chains(self, speed: float, extra: float) -> int:
        hops = self.gpus - 1
        if hops == 0:
            return 1 << 30
        if self.links and self.switch:
            return floor(self.gpus * self.total / (hops * speed + extra) + 1e-9)
        return self._paths(speed, hops)


def _mesh_paths(gpus: int, times: int, hops: int) -> int:
    """Paths through all GPUs of a full mesh that can use each link of a direction so many times.

    Four (and six) GPUs have no set of directed rings that uses each link once.
    """
    if hops < gpus:
        return times * gpus
    if gpus in (4, 6) and times % 2:
        return (times - 1) * (gpus - 1) + gpus - 2
    return times * (gpus - 1)


def node_of(site: Site, library: Library) -> Node:
    """A node of ``site`` as ``library`` sees it."""
    links = site.inside != "pcie"
    switch = site.inside == "nvswitch"
    pcie = max((bandwidth for least, bandwidth in _PCIE.items() if least <= max(site.capability, 60)), default=12.0)
    total = assumed_links(site, library) if links else pcie
    pair = total if switch or not links else total / max(site.board - 1, 1)
    if links and not switch:
        total = pair * (site.ranks_per_node - 1)
    several = site.nodes > 1
    nics, nic = ports(site)
    return Node(
        site.ranks_per_node,
        site.capability,
        links,
        switch,
        total if site.ranks_per_node > 1 or not links else inf,
        pair,
        pcie,
        nics if several else 0,
        min(nic, pcie) if several else 0.0,
        _BETWEEN_SOCKETS[site.cpu] if 2 * site.ranks_per_node > site.board > 2 else inf,
    )


def ports(site: Site) -> tuple[int, float]:
    """The ports that the library sees: those of EFA that belong to one GPU come as one."""
    if site.network == "efa" and site.nics_per_node > site.board:
        return site.board, site.nics_per_node * site.nic_GBps / site.board
    return site.nics_per_node, site.nic_GBps


def assumed_links(site: Site, library: Library) -> float:
    """What the library takes all links of a GPU to carry in a direction, in GB/s."""
    table = nccl_table(library.table)
    wire = 50.0 if site.capability >= 100 else 25.0
    known = {int(key): bandwidth for key, bandwidth in table.nvlink.items() if int(key) != 86}
    if site.capability in (86, 89) and "86" in table.nvlink:
        each = table.nvlink["86"]
        wire = 14.0625
    else:
        each = known[max((key for key in known if key <= site.capability), default=min(known))]
    if site.capability >= 100 and max(known) < 100:
        # Built before these GPUs: it counts their links as twice as many of the kind before.
        wire = 25.0
    return round(site.inside_GBps / wire) * each
