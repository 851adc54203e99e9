"""The channels that a library finds on a machine: how many, how fast, for rings, trees and heads in NVLink switches.

The library searches paths through its graph of the node. Here nodes are regular, so that what it finds can be counted:
`Node.most` says how many channels of a speed there is room for, and `_search` goes through the library's list of speeds
in the library's order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from chakrasim.collectives.libraries.node import Node, node_of
from chakrasim.collectives.libraries.settings import DEFAULT, Settings
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.tables import nccl_table
from chakrasim.collectives.libraries.versions import Library

_WORTH = 0.49
"""A speed below this share of the one found is not tried."""

_Room = Callable[[float, float], int]


@dataclass(frozen=True)
class Graph:
    """What was found for one pattern: channels, and what each carries inside a node and between nodes, in GB/s.

    ``plain`` says of a tree that all its network traffic goes through one GPU.
    """

    channels: int
    intra: float
    inter: float
    plain: bool = False

    @property
    def total(self) -> float:
        """Bandwidth of all channels inside a node."""
        return self.channels * self.intra


@dataclass(frozen=True)
class Graphs:
    """What a library found for a group.

    Attributes
    ----------
    site: the group as the library sees it.
    ring, tree: as many channels each.
    nvls, collnet: nothing where there are none.
    channels: that collectives use: rings and trees are doubled.
    nvls_channels: that collectives in the switch use.
    """

    site: Site
    node: Node
    ring: Graph
    tree: Graph
    nvls: Graph | None
    collnet: Graph | None
    channels: int
    nvls_channels: int

    @property
    def near(self) -> bool:
        """The ports are below the same PCIe switches as the GPUs."""
        return self.site.near

    @property
    def stated_us(self) -> float:
        """The latency that the network's plugin states."""
        return 0.0


@lru_cache(maxsize=4096)
def graphs(site: Site, library: Library, settings: Settings = DEFAULT) -> Graphs:
    """What ``library`` finds for a group at ``site``."""
    rules = library.rules
    if rules >= (2, 20):
        site = site.merged()
    node = node_of(site, library)
    speeds = _speeds(site, library)
    most = 32 if rules >= (2, 25) else 16
    ring = _search_ring(node, speeds, most)
    tree = _search_tree(node, speeds, ring.channels, rules)
    channels = min(ring.channels, tree.channels)
    ring, tree = replace(ring, channels=channels), replace(tree, channels=channels)
    nvls = _search_nvls(node, speeds) if settings.nvls and rules >= (2, 17) else None
    return Graphs(
        site,
        node,
        ring,
        tree,
        nvls,
        None,
        _used(site, ring, rules, settings),
        _nvls_used(site, rules, settings) if nvls else 0,
    )


def _speeds(site: Site, library: Library) -> tuple[float, ...]:
    lists = nccl_table(library.table).speeds
    where = "inter" if site.nodes > 1 else "intra"
    for capability in (100, 90):
        if site.capability >= capability and f"{where}_{capability}" in lists:
            return lists[f"{where}_{capability}"]
    return lists[where]


def _search(
    room: _Room, speeds: tuple[float, ...], node: Node, least: int, most: int, *, total: float
) -> tuple[Graph | None, bool]:
    """The first pass: the fastest channels there is room for, and whether they are as many as there can be."""
    best: Graph | None = None
    first = next(
        (at for at, speed in enumerate(speeds) if speed <= node.fastest and speed * least <= total), len(speeds) - 1
    )
    for at in range(first, len(speeds)):
        speed = speeds[at]
        found = min(room(speed, speed), most)
        if found >= max(least, 1) and (best is None or found * speed > best.total):
            best = Graph(found, speed, speed)
            if found == most:
                break
        if best and best.channels * best.inter >= node.total:
            break
        if best and at + 1 < len(speeds) and speeds[at + 1] / best.inter <= _WORTH:
            break
    return best, best is not None and best.channels == most


def _doubled(graph: Graph, node: Node, most: int) -> Graph:
    """Fast channels are halved, so that more thread blocks share the work."""
    if graph.intra < 25 or (node.capability > 80 and graph.intra < 50 and graph.channels > 4):
        return graph
    channels = min(2 * graph.channels, most)
    parts = -(-channels // graph.channels)
    return replace(graph, channels=channels, intra=graph.intra / parts, inter=graph.inter / parts)


def _fallback(speeds: tuple[float, ...]) -> Graph:
    # What the library falls back to where it finds no path.
    return Graph(1, 0.1, 0.1)


def _search_ring(node: Node, speeds: tuple[float, ...], most: int) -> Graph:
    found, _ = _search(node.rings, speeds, node, 1, most, total=node.total)
    if found is None:
        return _fallback(speeds)
    ring = _doubled(found, node, most)
    for speed in reversed([speed for speed in speeds if speed > ring.inter]):
        if min(node.rings(speed, speed), most) >= ring.channels:
            ring = replace(ring, intra=speed, inter=speed)
    return ring


def _search_tree(node: Node, speeds: tuple[float, ...], channels: int, rules: tuple[int, ...]) -> Graph:
    total = node.total * (node.gpus / (node.gpus - 1) if node.gpus > 1 and rules >= (2, 18) else 1)
    for plain in (False, True):
        room = node.trees(plain)
        found, _ = _search(room, speeds, node, channels, channels, total=total)
        if found or node.capability < 90:
            break
    if found is None:
        return _fallback(speeds)
    tree = replace(_doubled(found, node, channels), plain=plain or node.gpus == 1)
    for speed in reversed([speed for speed in speeds if speed > tree.intra]):
        if tree.intra >= 2 * tree.inter or min(room(speed, tree.inter), channels) < tree.channels:
            break
        tree = replace(tree, intra=speed)
    return tree


def _search_nvls(node: Node, speeds: tuple[float, ...]) -> Graph | None:
    """Each GPU is the head of a channel, into which all GPUs put as much and the head twice as much."""
    heads = min(node.heads, 32)
    if heads < 1:
        return None
    found = next((speed for speed in speeds if speed <= node.fastest and (heads + 1) * speed <= node.total), 0.0)
    if not found:
        return None
    inter = found
    for speed in reversed([speed for speed in speeds if speed > found]):
        if inter >= 2 * found or speed > node.fastest_out:
            break
        inter = speed
    return Graph(heads, found, inter)


def _used(site: Site, ring: Graph, rules: tuple[int, ...], settings: Settings) -> int:
    limit = 64 if rules >= (2, 25) else 32
    channels = min(2 * ring.channels, limit)
    hopper = site.capability >= 90 if rules >= (2, 25) else site.capability == 90
    few = channels < 16 if rules >= (2, 20) else 2 * channels <= limit
    if hopper and rules >= (2, 18) and site.nodes > 1 and ring.intra > 45 and few:
        channels = 2 * channels
    channels = min(channels, settings.max_channels or limit)
    return min(max(channels, settings.min_channels), limit)


def _nvls_used(site: Site, rules: tuple[int, ...], settings: Settings) -> int:
    if settings.nvls_channels:
        return settings.nvls_channels
    channels = 16
    if site.capability >= 100 and rules >= (2, 27):
        channels = 32 if site.nodes > 1 else 24
        if rules >= (2, 30) and site.nodes > 1 and site.nic_GBps >= 96 and site.ranks_per_node <= 8:
            channels = 24
    return max(min(channels, settings.max_channels or channels), settings.min_channels)
