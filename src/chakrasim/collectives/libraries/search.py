"""The channels that a library finds on a machine: how many, how fast, for rings, trees and heads in switches.

The library searches paths through its graph of a node. Here nodes are regular, so that what it finds can be counted:
a `Node` says how many channels of a speed there is room for, and this goes through the library's list of speeds in the
library's order (nccl-model.md, 2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from chakrasim.collectives.libraries.node import Node, node_of
from chakrasim.collectives.libraries.settings import DEFAULT, Settings
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.tables import nccl_table, rccl_tables
from chakrasim.collectives.libraries.versions import Library

_WORTH = 0.49
"""A speed below this share of the one found is not tried."""

_STATED_US = {"efa": 75.0}
"""Latencies that plugins of networks state; those built in state none."""

_Room = Callable[[float, float], int]


@dataclass(frozen=True)
class Graph:
    """What was found for one pattern: channels, and what each carries inside a node and between nodes, in GB/s.

    ``plain`` says of a tree that all its network traffic goes through one GPU of a node.
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
    node: a node of it.
    ring, tree: as many channels each.
    nvls, collnet: channels with heads in the switch, and in the network; nothing where there are none.
    channels: that collectives use: rings and trees are doubled.
    nvls_channels: that reductions in the switch use.
    stated_us: latency that the network's plugin states.
    """

    site: Site
    node: Node
    ring: Graph
    tree: Graph
    nvls: Graph | None
    collnet: Graph | None
    channels: int
    nvls_channels: int
    stated_us: float


@lru_cache(maxsize=4096)
def graphs(site: Site, library: Library, settings: Settings = DEFAULT) -> Graphs:
    """What ``library`` finds for a group at ``site``."""
    rules = library.rules
    site = site.merged() if rules >= (2, 20) else site
    node = node_of(site, library, settings)
    limit = 64 if rules >= (2, 25) else 32
    if library.name == "rccl":
        ring, tree, channels = _of_rccl(node, settings)
        nvls = collnet = None
    else:
        speeds = _speeds(site, library)
        ring = _search_ring(node, speeds, limit // 2)
        tree = _search_tree(node, speeds, ring.channels, rules)
        ring, tree = _as_many(ring, tree)
        nvls = _search_nvls(node, speeds, library) if settings.nvls else None
        collnet = _search_collnet(node, speeds) if settings.collnet and node.nics else None
        channels = _used(site, ring, rules, settings, limit)
    stated = _STATED_US.get(site.network, 0.0) if site.nodes > 1 else 0.0
    nvls_channels = _nvls_used(site, rules, settings) if nvls else 0
    return Graphs(site, node, ring, tree, nvls, collnet, channels, nvls_channels, stated)


def _speeds(site: Site, library: Library) -> tuple[float, ...]:
    lists = nccl_table(library.table).speeds
    where = "inter" if site.nodes > 1 else "intra"
    for capability in (100, 90):
        if site.capability >= capability and f"{where}_{capability}" in lists:
            return lists[f"{where}_{capability}"]
    return lists[where]


def _search(
    room: _Room, speeds: tuple[float, ...], node: Node, least: int, most: int, total_GBps: float
) -> Graph | None:
    """The first pass: the most bandwidth of channels that there is room for, from fast ones to slow ones."""
    best: Graph | None = None
    last = len(speeds) - 1
    fits = (at for at, speed in enumerate(speeds) if speed <= node.fastest and speed * least <= total_GBps)
    for at in range(next(fits, last), len(speeds)):
        speed = speeds[at]
        found = min(room(speed, speed), most)
        if found >= max(least, 1) and (best is None or found * speed > best.total):
            best = Graph(found, speed, speed)
        if best and (best.channels == most or best.channels * best.inter >= node.total):
            break
        if best and at < last and speeds[at + 1] / best.inter <= _WORTH:
            break
    return best


def _doubled(graph: Graph, node: Node, most: int) -> Graph:
    """Fast channels are halved, so that more thread blocks share the work."""
    if graph.intra < 25 or (node.capability > 80 and graph.intra < 50 and graph.channels > 4):
        return graph
    channels = min(2 * graph.channels, most)
    parts = -(-channels // graph.channels)
    return replace(graph, channels=channels, intra=graph.intra / parts, inter=graph.inter / parts)


def _fallback() -> Graph:
    """What the library takes where it finds no path."""
    return Graph(1, 0.1, 0.1)


def _faster(speeds: tuple[float, ...], speed: float) -> list[float]:
    """Those above a speed, the slowest first."""
    return [other for other in reversed(speeds) if other > speed]


def _search_ring(node: Node, speeds: tuple[float, ...], most: int) -> Graph:
    found = _search(node.rings, speeds, node, 1, most, node.total)
    if found is None:
        return _fallback()
    ring = _doubled(found, node, most)
    for speed in _faster(speeds, ring.inter):
        if min(node.rings(speed, speed), most) >= ring.channels:
            ring = replace(ring, intra=speed, inter=speed)
    return ring


def _search_tree(node: Node, speeds: tuple[float, ...], channels: int, rules: tuple[int, ...]) -> Graph:
    """Trees have as many channels as rings; the speed inside a node is then raised as far as it goes."""
    total = node.total * (node.gpus / (node.gpus - 1) if node.gpus > 1 and rules >= (2, 18) else 1)
    room = node.trees(node.only_plain)
    found = _search(room, speeds, node, channels, channels, total)
    if found is None:
        return _fallback()
    tree = replace(_doubled(found, node, channels), plain=node.only_plain)
    for speed in _faster(speeds, tree.intra):
        if tree.intra >= 2 * tree.inter or room(speed, tree.inter) < tree.channels:
            break
        tree = replace(tree, intra=speed)
    return tree


def _as_many(ring: Graph, tree: Graph) -> tuple[Graph, Graph]:
    channels = min(ring.channels, tree.channels)
    return replace(ring, channels=channels), replace(tree, channels=channels)


def _search_nvls(node: Node, speeds: tuple[float, ...], library: Library) -> Graph | None:
    """Each GPU is the head of a channel, into which all GPUs put as much and the head twice as much."""
    if library.rules < (2, 17):
        return None
    heads = min(node.heads, 32 if library.rules >= (2, 21) else 8)
    fits = (speed for speed in speeds if speed <= node.fastest and (heads + 1) * speed <= node.total)
    found = next(fits, 0.0) if heads else 0.0
    if not found:
        return None
    inter = found
    for speed in _faster(speeds, found):
        if inter >= 2 * found or (node.nics and speed > node.nic):
            break
        inter = speed
    return Graph(heads, found, inter)


def _search_collnet(node: Node, speeds: tuple[float, ...]) -> Graph | None:
    """A head a port, at most eight."""
    heads = min(node.gpus, node.nics, 8)
    found = next((speed for speed in speeds if speed <= node.nic), 0.0)
    if not found or not heads:
        return None
    faster = [speed for speed in _faster(speeds, found) if speed <= min(2 * found, node.total / heads)]
    return Graph(heads, max(faster, default=found), found)


def _used(site: Site, ring: Graph, rules: tuple[int, ...], settings: Settings, limit: int) -> int:
    channels = min(2 * ring.channels, limit)
    hopper = site.capability >= 90 if rules >= (2, 25) else site.capability == 90
    few = channels < 16 if rules >= (2, 20) else 2 * channels <= limit
    if hopper and few and rules >= (2, 18) and site.nodes > 1 and ring.intra > 45:
        channels *= 2
    return _within(channels, settings, limit)


def _within(channels: int, settings: Settings, limit: int) -> int:
    channels = min(channels, settings.max_channels or limit)
    return min(max(channels, settings.min_channels), limit)


def _nvls_used(site: Site, rules: tuple[int, ...], settings: Settings) -> int:
    channels = 16
    several = site.nodes > 1
    if site.capability >= 100 and rules >= (2, 25):
        channels = 32 if several or rules < (2, 27) else 24
        more_than_two = site.nodes > 2 and site.nic_GBps >= 48
        if rules >= (2, 30) and more_than_two and (site.nic_GBps < 96 or site.ranks_per_node <= 8):
            channels = 24
    return _within(settings.nvls_channels or channels, settings, 64)


def _of_rccl(node: Node, settings: Settings) -> tuple[Graph, Graph, int]:
    """RCCL has rings for well-known boards; on others it searches as NCCL did.

    A full mesh of eight GPUs has 28 rings, doubled to 56, in one node, and 64 rings between nodes. Two and four of its
    GPUs use more channels than the search finds.
    """
    if node.kind == "mesh" and node.gpus == 8:
        count = 64 if node.nics else 28
        ring = Graph(count, node.total / count, node.total / count)
        return ring, ring, _within(64 if node.nics else 56, settings, 128)
    speeds = rccl_tables().speeds
    ring = _search_ring(node, speeds, 32)
    ring, tree = _as_many(ring, _search_tree(node, speeds, ring.channels, (2, 20)))
    times = {2: 16, 4: 4}.get(node.gpus, 2) if node.kind == "mesh" else 2
    return ring, tree, _within(max(2, times) * ring.channels, settings, 128)
