"""RCCL's estimates: a model of the machine, with factors by size (nccl-model.md, 9).

MSCCL and its successor, which take over for small sizes on some machines, are not in it.
"""

from __future__ import annotations

from chakrasim.collectives.libraries.search import Graphs
from chakrasim.collectives.libraries.settings import PROTOCOLS
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.tables import Model, rccl_tables

_KNOWN_GBps = 161.4
"""Bandwidth that the library was told for nodes of sixteen MI250 dies, whatever it finds."""

_PARTS = ("all_gather", "reduce_scatter")


def model_of(site: Site) -> int:
    """The number of the model that speaks for a machine: by the GPU, and how many a node has."""
    if site.model.startswith(("gfx94", "gfx95")):
        return 5
    if site.model.startswith("gfx90a"):
        return 4 if site.board == 16 else 3
    return 2 if site.model.startswith("gfx908") else 1 if site.model.startswith("gfx906") else 0


def _model(site: Site) -> Model:
    return rccl_tables().models[model_of(site)]


def rccl_costs(found: Graphs, collective: str) -> dict[tuple[str, str], tuple[float, float]]:
    """Latency in us and bandwidth in GB/s, before factors by size."""
    site = found.site
    algorithms = ("tree", "ring") if collective == "all_reduce" else ("ring",)
    known = {}
    for algorithm in algorithms:
        for index, protocol in enumerate(PROTOCOLS):
            bandwidth = _bandwidth(found, collective, algorithm, index)
            if algorithm == "tree" and index == 2 and site.nodes == 1 and site.model.startswith("gfx94"):
                continue
            if bandwidth > 0:
                known[algorithm, protocol] = (_latency(found, collective, algorithm, index), bandwidth)
    return known


def rccl_factor(found: Graphs, pair: tuple[str, str], size_bytes: int) -> float:
    """What the bandwidth is multiplied by at a size: of trees always, of rings between nodes."""
    algorithm, protocol = pair
    if algorithm == "ring" and found.site.nodes == 1:
        return 1.0
    model = _model(found.site)
    curve = (model.tree if algorithm == "tree" else model.ring)[protocol]
    return curve[min(max((size_bytes >> 6).bit_length() - 1, 0), len(curve) - 1)]


def _steps(site: Site, collective: str) -> int:
    ranks = site.nranks
    return 2 * (ranks - 1) if collective == "all_reduce" else ranks - 1 if collective in _PARTS else ranks


def _bandwidth(found: Graphs, collective: str, algorithm: str, protocol: int) -> float:
    site, graph = found.site, found.tree if algorithm == "tree" else found.ring
    bus = graph.channels * (graph.intra if site.nodes <= 2 else graph.inter)
    if model_of(site) == 4:
        bus = _KNOWN_GBps
    bus *= _model(site).ratio[0 if site.nodes <= 2 else 1][algorithm][protocol]
    alone = site.nodes == 1 and site.model.startswith("gfx94")
    if protocol == 0 and alone and collective in ("broadcast", "reduce"):
        bus *= 1.65
    return bus / 2 if algorithm == "tree" else bus * site.nranks / _steps(site, collective)


def _latency(found: Graphs, collective: str, algorithm: str, protocol: int) -> float:
    site, hops = found.site, _model(found.site).hop
    base = rccl_tables().base[algorithm][protocol]
    inside = hops["nvlink" if found.node.links else "pci"]
    intra, inter = inside[algorithm][protocol], hops["net"][algorithm][protocol]
    nodes, steps = site.nodes, _steps(site, collective)
    if algorithm == "tree":
        return base + 2 * ((site.nranks // nodes - 1) * intra + (nodes.bit_length() - 1) * inter)
    if collective not in ("all_reduce", *_PARTS):
        where = hops["net"] if nodes > 1 else inside
        if found.node.same_channels:
            return base + where["ring"][protocol]
        return base + steps * where["tree" if protocol == 2 else "ring"][protocol]
    if nodes == 1:
        return base + steps * intra
    overhead = (2.0 if site.cpu == "amd" else 1.0) * (3 if protocol == 2 else 1)
    between = 2 * nodes if collective == "all_reduce" else nodes - 1
    return base + (steps - between) * max(intra, overhead) + between * inter
