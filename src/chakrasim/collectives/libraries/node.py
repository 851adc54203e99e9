"""One node as a library sees it: links with bandwidths that it assumes, and how many channels they have room for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from math import ceil, floor, inf
from typing import Final

from chakrasim.collectives.libraries.settings import Settings
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.tables import nccl_table
from chakrasim.collectives.libraries.versions import Library

_PCIE: Final = {60: 12.0, 80: 24.0, 90: 48.0, 103: 96.0}
"""Bandwidth of a slot that is assumed, by the least compute capability that has it."""

_BETWEEN_SOCKETS: Final = {"intel": 10.0, "amd": 16.0, "arm": 6.0, "power": 32.0, "unknown": 16.0}

_XGMI: Final = {"gfx94": (64.0, 48.0), "gfx95": (76.8, 48.0), "gfx90": (50.0, 36.0), "": (46.0, 24.0)}
"""Bandwidth of a link of AMD's GPUs, of the wire and as assumed, by how the name of the GPU begins."""

_CUBE: Final = ((1, 1, 2, 2, 0, 0, 0), (2, 1, 0, 2, 0, 0), (2, 0, 0, 1, 0), (0, 0, 0, 1), (1, 1, 2), (2, 1), (2,))
"""Links between the GPUs of a hybrid cube mesh: of each to those after it."""

_MANY: Final = 1 << 30


@dataclass(frozen=True)
class Node:
    """A node of a group.

    Attributes
    ----------
    gpus: of the group.
    capability: of the GPUs.
    kind: how they are joined: ``switch``, ``mesh``, ``cube`` or ``pcie``.
    total: bandwidth of all links of a GPU to others of the group, in GB/s.
    pair: bandwidth between two GPUs that have links.
    pcie: bandwidth of a slot.
    nics, nic: ports, and what each carries as far as a GPU; none where there is one node.
    between_sockets: bandwidth between the sockets, if the group is on two.
    crosses: a ring may leave by another port than it came by.
    """

    gpus: int
    capability: int
    kind: str
    total: float
    pair: float
    pcie: float
    nics: int
    nic: float
    between_sockets: float
    crosses: bool

    @property
    def links(self) -> bool:
        """NVLink or XGMI joins the GPUs."""
        return self.kind != "pcie"

    @property
    def fastest(self) -> float:
        """The most that one channel could carry."""
        if self.nics:
            return self.nic
        return self.pair if self.gpus > 1 else inf

    @property
    def same_channels(self) -> bool:
        """All rings go through the GPUs in one order, which they need not where each port has GPUs of its own."""
        return self.kind in ("switch", "pcie") and self.nics < 2

    @property
    def heads(self) -> int:
        """GPUs that can be heads of channels in the switch."""
        if not (self.kind == "switch" and self.capability >= 90 and self.gpus > 1):
            return 0
        return min(self.gpus, self.nics or self.gpus)

    def rings(self, intra: float, inter: float) -> int:
        """Rings that there is room for."""
        if self.nics:
            # A ring that leaves by its own port has to come back to the GPU beside it.
            hops = self.gpus - 1 if self.crosses and self.nics > 1 else self.gpus
            return min(self._out(inter), self._paths(intra, hops if self.gpus > 1 else 0))
        return self._paths(intra, self.gpus) if self.gpus > 1 else 0

    def trees(self, plain: bool) -> Callable[[float, float], int]:
        """Chains of GPUs that there is room for; between nodes the first GPU (if not ``plain``, the first two) send."""

        def room(intra: float, inter: float) -> int:
            extra = inter / 2 if self.nics and not plain and self.nics >= self.gpus else 0.0
            inside = self._chains(intra, extra)
            return min(self._out(inter), inside) if self.nics else inside

        return room

    @property
    def only_plain(self) -> bool:
        """Each port is beside one GPU only, so that no second one can send through it."""
        return self.gpus == 1 or (self.capability >= 90 and self.nics >= self.gpus)

    def _out(self, speed: float) -> int:
        return min(self.nics * _times(self.nic, speed), self.gpus * _times(self.pcie, speed))

    def _paths(self, speed: float, hops: int) -> int:
        """Paths of so many hops that go through all GPUs."""
        if hops == 0:
            return _MANY
        if self.kind == "pcie":
            return _times(min(self.pcie, self.between_sockets), speed)
        if self.kind == "switch":
            return floor(self.gpus * self.total / (hops * speed) + 1e-9)
        if self.kind == "cube":
            # Where links alone do not close a ring, it goes over PCIe.
            return _cube_rings(self.gpus, _times(self.pair, speed)) or _times(self.pcie, speed)
        return _mesh_paths(self.gpus, _times(self.pair, speed), hops)

    def _chains(self, speed: float, extra: float) -> int:
        if self.gpus == 1:
            return _MANY
        if self.kind == "switch":
            return floor(self.gpus * self.total / ((self.gpus - 1) * speed + extra) + 1e-9)
        return self._paths(speed, self.gpus - 1)


def _times(bandwidth: float, speed: float) -> int:
    return _MANY if bandwidth == inf else floor(bandwidth / speed + 1e-9)


def _mesh_paths(gpus: int, times: int, hops: int) -> int:
    """Paths through all GPUs of a full mesh that can use each link of a direction so many times.

    Four (and six) GPUs have no set of directed rings that uses each link once.
    """
    if hops < gpus:
        return times * gpus
    if gpus in (4, 6) and times % 2:
        return (times - 1) * (gpus - 1) + gpus - 2
    return times * (gpus - 1)


@lru_cache(maxsize=64)
def _cube_rings(gpus: int, times: int) -> int:
    """Rings through the first GPUs of a cube mesh whose single links can be used so many times a direction."""
    room = {}
    for one, row in enumerate(_CUBE):
        for offset, count in enumerate(row, 1):
            if one + offset < gpus:
                room[one, one + offset] = count * times
    if gpus == 2:
        return room[0, 1]
    orders = [(0, *order) for order in permutations(range(1, gpus)) if order[0] < order[-1]]
    rings = [[(min(pair), max(pair)) for pair in zip(order, (*order[1:], 0), strict=True)] for order in orders]
    # A ring and its reverse use both directions alike.
    return 2 * _packed([ring for ring in rings if all(room.get(pair) for pair in ring)], room, gpus * times)


def _packed(rings: list[list[tuple[int, int]]], room: dict[tuple[int, int], int], most: int) -> int:
    best = 0
    for index, ring in enumerate(rings):
        if any(room[pair] < 1 for pair in ring):
            continue
        left = room | {pair: room[pair] - 1 for pair in ring}
        best = max(best, 1 + _packed(rings[index:], left, most - 1))
        if best >= min(most, sum(room.values()) // len(ring)):
            break
    return best


def node_of(site: Site, library: Library, settings: Settings) -> Node:
    """A node of ``site`` as ``library`` sees it."""
    kind = {"nvswitch": "switch", "cube-mesh": "cube", "pcie": "pcie"}.get(site.inside, "mesh")
    pcie = max((bandwidth for least, bandwidth in _PCIE.items() if least <= max(site.capability, 60)), default=12.0)
    pcie = 48.0 if site.vendor == "amd" else pcie
    total = pcie if kind == "pcie" else assumed_links(site, library)
    pair = total
    if kind == "mesh":
        pair = total / max(site.board - 1, 1)
        total = pair * (site.ranks_per_node - 1)
    if kind == "cube":
        pair = total / 6
    several = site.nodes > 1
    nics, nic = ports(site)
    on_two_sockets = 2 * site.ranks_per_node > site.board > 2
    return Node(
        site.ranks_per_node,
        site.capability,
        kind,
        total if site.ranks_per_node > 1 or kind == "pcie" else assumed_links(site, library),
        pair,
        pcie,
        nics if several else 0,
        min(nic, pcie) if several else 0.0,
        _BETWEEN_SOCKETS[site.cpu] if on_two_sockets else inf,
        settings.cross_nic != 0,
    )


def ports(site: Site) -> tuple[int, float]:
    """The ports that the group uses: those beside its GPUs. Ports of EFA that belong to one GPU come as one."""
    count, each = site.nics_per_node, site.nic_GBps
    if site.network == "efa" and count > site.board:
        count, each = site.board, count * each / site.board
    return ceil(count * site.ranks_per_node / site.board), each


def link_of(site: Site, library: Library) -> tuple[float, float]:
    """A link of NVLink or XGMI: what the wire carries in a direction, and what the library takes it to carry."""
    if site.vendor == "amd":
        return next(known for begins, known in _XGMI.items() if site.model.startswith(begins))
    known = {int(key): bandwidth for key, bandwidth in nccl_table(library.table).nvlink.items()}
    if site.capability in (86, 89):
        return 14.0625, known[86]
    newest = max(key for key in known if key <= max(site.capability, 60) and key != 86)
    # Libraries older than the GPU count its fast links as twice as many of the kind before.
    return 50.0 if newest >= 100 else 25.0, known[newest]


def assumed_links(site: Site, library: Library) -> float:
    """What the library takes all links of a GPU to carry in a direction, in GB/s."""
    wire, each = link_of(site, library)
    return max(round(site.inside_GBps / wire), 1) * each
