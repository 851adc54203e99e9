"""NCCL's own estimate of how long each algorithm and protocol takes, by which it chooses (nccl-model.md, 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf

from chakrasim.collectives.libraries.search import Graph, Graphs, graphs
from chakrasim.collectives.libraries.settings import DEFAULT, Settings
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.tables import PROTOCOLS, Table, nccl_table
from chakrasim.collectives.libraries.versions import Library

ALGORITHMS = ("tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat")
"""In the library's order: of equal estimates the first wins."""

_REDUCING = ("all_reduce", "reduce")
_PARTS = ("all_gather", "reduce_scatter")

Pair = tuple[str, str]


@dataclass(frozen=True)
class Cost:
    """A latency in us and a bandwidth in GB/s."""

    latency: float
    bandwidth: float


@dataclass(frozen=True)
class _Case:
    """What a cost depends on."""

    site: Site
    found: Graphs
    table: Table
    rules: tuple[int, ...]
    collective: str

    @property
    def nodes(self) -> int:
        return self.site.nodes

    @property
    def each(self) -> float:
        """Ranks of a node."""
        return self.site.nranks / self.site.nodes

    @property
    def generation(self) -> int:
        newest = 100 if self.rules >= (2, 25) else 90
        capability = min(self.site.capability, newest)
        return sum(capability >= least for least in (80, 90, 100))

    @property
    def column(self) -> int:
        return min(self.nodes, 3) - 1

    @property
    def steps(self) -> int:
        ranks = self.site.nranks
        if self.collective == "all_reduce":
            return 2 * (ranks - 1)
        return ranks - 1 if self.collective in _PARTS else ranks


def serving(collective: str, rules: tuple[int, ...]) -> tuple[str, ...]:
    """The algorithms that a version has for a collective."""
    if collective == "all_reduce":
        return tuple(name for name in ALGORITHMS if name != "pat" and (rules >= (2, 17) or not name.startswith("nvls")))
    if collective in _PARTS:
        newer = (("nvls", (2, 19)), ("collnetdirect", (2, 20)), ("pat", (2, 23)))
        has = {"ring"} | {name for name, since in newer if rules >= since}
        return tuple(name for name in ALGORITHMS if name in has)
    return ("ring",)


@lru_cache(maxsize=16384)
def costs(site: Site, library: Library, collective: str, settings: Settings = DEFAULT) -> Mapping[Pair, Cost]:
    """Latency and bandwidth of what may be chosen."""
    found = graphs(site, library, settings)
    case = _Case(found.site, found, nccl_table(library.table), library.rules, collective)
    known = {}
    for algorithm in serving(collective, library.rules):
        for index, protocol in enumerate(PROTOCOLS):
            bandwidth = _bandwidth(case, algorithm, index)
            if bandwidth > 0 and (protocol != "LL128" or _ll128(case)):
                known[algorithm, protocol] = Cost(_latency(case, algorithm, index), bandwidth)
    return known


def timings(
    site: Site, library: Library, collective: str, size_bytes: int, settings: Settings = DEFAULT
) -> dict[Pair, float]:
    """What the library expects each algorithm and protocol to take, in us.

    ``size_bytes`` is that of the larger buffer of a rank, as in the size column of nccl-tests.
    """
    found = graphs(site, library, settings)
    case = _Case(found.site, found, nccl_table(library.table), library.rules, collective)
    return {
        pair: _time(case, pair, cost, size_bytes) for pair, cost in costs(site, library, collective, settings).items()
    }


def _time(case: _Case, pair: Pair, cost: Cost, size_bytes: int) -> float:
    algorithm, protocol = pair
    latency, bandwidth = cost.latency, cost.bandwidth
    power = (size_bytes >> 6).bit_length() - 1
    if case.collective == "all_reduce":
        corrected = algorithm == "tree" and power < 23
        if algorithm == "nvlstree" and case.rules >= (2, 29) and case.site.capability >= 100:
            corrected = case.site.cpu in ("intel", "amd") and power < 24
        if corrected and power >= 0:
            bandwidth *= case.table.correction[protocol][power]
        if pair == ("ring", "Simple") and case.nodes > 1 and _on_plateau(case, size_bytes):
            latency *= 1.9 if case.site.capability < 80 or case.rules < (2, 18) else 1.4
    return latency + size_bytes / (1000 * bandwidth)


def _on_plateau(case: _Case, size_bytes: int) -> bool:
    if case.rules < (2, 18):
        return size_bytes >= case.site.nranks * 4096
    return size_bytes // (case.found.channels * case.site.nranks) >= 64


def _ll128(case: _Case) -> bool:
    """LL128 needs stores of 128 bytes that arrive whole, which NVLink and near ports give."""
    site = case.site
    if site.nranks > site.nodes and not case.found.node.links:
        return False
    if site.nodes > 1 and not case.found.near:
        return False
    if case.rules < (2, 18):
        return site.capability in (70, 80)
    return site.capability >= 70


def _bandwidth(case: _Case, algorithm: str, protocol: int) -> float:
    """Bytes of the whole buffer per ns; 0 for what cannot be."""
    if algorithm == "ring":
        ring = case.found.ring
        return _ring_bus(case, ring, protocol) * case.site.nranks / case.steps
    if algorithm == "tree":
        return _tree_bus(case, case.found.tree, protocol) / 2
    if protocol != 2:
        return 0.0
    if algorithm in ("nvls", "nvlstree"):
        return _nvls(case, algorithm)
    if algorithm == "pat" and case.nodes == case.site.nranks:
        return case.found.ring.channels * _per_channel(case, case.found.ring) * (0.85 if case.rules < (2, 24) else 0.75)
    return 0.0


def _per_channel(case: _Case, graph: Graph) -> float:
    return graph.intra if case.nodes <= 2 else graph.inter


def _ring_bus(case: _Case, ring: Graph, protocol: int) -> float:
    bus = ring.channels * _per_channel(case, ring)
    if case.rules < (2, 18) and case.site.capability == 80:
        bus = min(bus, 235.0)
    if protocol == 0:
        return min(_ll_most(case), bus * _ll_share(case))
    if protocol == 1:
        share = 0.7 if case.each < 2 and case.rules < (2, 23) else 0.92
        most = case.table.ring_ll128_of.get(case.collective, case.table.ring_ll128[case.generation][case.column])
        return min(bus * share, ring.channels * most)
    return bus


def _ll_share(case: _Case) -> float:
    if case.rules >= (2, 21):
        return 1 / 2
    return 1 / 4 if case.nodes > 1 or case.collective in _REDUCING else 1 / 3


def _ll_most(case: _Case) -> float:
    # Across nodes it is the CPU that counts, not the GPU.
    row = case.generation if case.nodes == 1 else int(case.site.cpu == "amd")
    return case.table.ll[row][case.column]


def _tree_bus(case: _Case, tree: Graph, protocol: int) -> float:
    bus = tree.channels * _per_channel(case, tree)
    if case.rules < (2, 18) and case.site.capability == 80:
        bus = min(bus, 235.0)
    bus = min(0.92 * bus, tree.channels * case.table.tree[case.generation][case.column])
    if protocol == 0:
        bus = min(bus / 3.8, _ll_most(case))
    if protocol == 1:
        between = 0.915 if case.rules < (2, 9) else 120 / 128
        share = 7 / 9 if case.nodes == 1 else between
        bus = min(bus * share, tree.channels * case.table.tree_ll128[case.generation][case.column])
    return 0.85 * bus if tree.plain and case.rules >= (2, 18) else bus


def _nvls(case: _Case, algorithm: str) -> float:
    graph, tree = case.found.nvls, algorithm == "nvlstree"
    if graph is None or (case.nodes == 1) is tree or (case.nodes > 1 and not tree):
        return 0.0
    ranks, each, whole = case.site.nranks, case.each, case.collective == "all_reduce"
    intra, inter, channels = graph.intra, graph.inter, graph.channels
    if case.rules >= (2, 28):
        if channels < 2:
            return 0.0
        intra *= case.table.nvls_efficiency[case.generation] * (channels - 1) / channels
        intra *= 2 if whole else (each - 1) / each
        inter *= 2 if tree and case.nodes <= 2 else 1
        most = case.table.nvlstree[case.generation][case.column] if tree else inf
        bus = channels * min(intra, inter, most)
        return bus * ranks / case.steps if whole else bus
    if tree:
        if case.rules < (2, 19):
            per = _per_channel(case, graph)
            return channels * per * 0.7 * case.nodes / (2 * (case.nodes - 1))
        return channels * min(intra, inter if case.nodes <= 2 else inter / 2) * 5 / 6
    if whole or case.rules < (2, 21):
        per = min(intra, inter) if case.rules >= (2, 19) else _per_channel(case, graph)
    else:
        per = min(intra * (each - 1) / each, 0.9 * inter)
    return channels * per * (5 / 6 if whole or case.rules < (2, 23) else 1)


def _latency(case: _Case, algorithm: str, protocol: int) -> float:
    """In us."""
    hops = case.table.hop
    inside = hops["nvlink" if case.found.node.links else "pci"]
    base = case.table.base[algorithm][protocol]
    intra, inter = inside[algorithm][protocol], _between(case, algorithm, protocol)
    if algorithm == "tree" and case.site.cpu == "power" and not case.found.node.links and protocol == 2:
        intra = inside["ring"][protocol]
    if protocol == 0 and case.nodes > 1 and case.rules < (2, 18):
        intra *= 1.8
    far = case.nodes.bit_length() - 1
    if algorithm == "ring":
        return base + _ring_hops(case, protocol, intra, inter)
    if algorithm == "tree":
        return base + 2 * ((int(case.each) - 1) * intra + far * inter)
    if algorithm == "pat":
        return 8 + far * inter / 3.5 + 2.8 * case.site.nranks
    if case.rules < (2, 19):
        network = hops["net"][algorithm][protocol]
        return base + (0.0 if algorithm == "nvls" else 2 * (case.nodes - 1) * network)
    return base + intra + (0.0 if algorithm == "nvls" else 2 * far * inter)


def _between(case: _Case, algorithm: str, protocol: int) -> float:
    row = "tree" if case.each == 1 and case.rules >= (2, 23) else algorithm
    stated = case.found.stated_us
    if case.rules < (2, 18):
        return stated or case.table.hop["net"][row][protocol]
    return case.table.hop["net"][row][protocol] + stated * (2 if protocol == 2 else 1)


def _ring_hops(case: _Case, protocol: int, intra: float, inter: float) -> float:
    steps, nodes = case.steps, case.nodes
    if case.collective not in ("all_reduce", *_PARTS):
        hop = case.table.hop["net"]["ring"][protocol] if nodes > 1 else intra
        return hop
    if nodes == 1:
        return steps * intra
    if case.rules >= (2, 18):
        overhead = 2.0 if case.site.cpu == "amd" else 1.0
        intra = max(intra, overhead * (3 if protocol == 2 else 1))
    between = nodes - 1
    if case.collective == "all_reduce":
        between = 2 * nodes if (2, 9) <= case.rules < (2, 23) else 2 * between
    return (steps - between) * intra + between * inter
