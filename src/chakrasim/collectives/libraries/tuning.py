"""The library's own estimate of how long each algorithm and protocol takes, by which it chooses (nccl-model.md, 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import NoReturn

from chakrasim.collectives.kinds import KINDS_BY_NAME
from chakrasim.collectives.libraries.rccl import rccl_costs, rccl_factor
from chakrasim.collectives.libraries.search import Graph, Graphs, graphs
from chakrasim.collectives.libraries.settings import ALGORITHMS, DEFAULT, PROTOCOLS, Settings
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.tables import Table, nccl_table
from chakrasim.collectives.libraries.versions import Library
from chakrasim.errors import InputError

SERVED = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
"""The collectives that the library estimates; all others go pair by pair, without an estimate."""

_REDUCING = ("all_reduce", "reduce")
_PARTS = ("all_gather", "reduce_scatter")

Pair = tuple[str, str]


@dataclass(frozen=True)
class _Case:
    """What a cost depends on."""

    site: Site
    found: Graphs
    table: Table
    rules: tuple[int, ...]
    collective: str
    settings: Settings

    @property
    def nodes(self) -> int:
        return self.site.nodes

    @property
    def each(self) -> float:
        """Ranks of a node."""
        return self.site.nranks / self.site.nodes

    @property
    def generation(self) -> int:
        if self.rules < (2, 18):
            return int(self.site.capability == 80)
        return sum(self.site.capability >= least for least in (80, 90, 100))

    @property
    def column(self) -> int:
        return min(self.nodes, 3) - 1

    @property
    def whole(self) -> bool:
        return self.collective == "all_reduce"

    @property
    def steps(self) -> int:
        ranks = self.site.nranks
        if self.whole:
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
def costs(
    site: Site, library: Library, collective: str, settings: Settings = DEFAULT
) -> Mapping[Pair, tuple[float, float]]:
    """Latency in us and bandwidth in GB/s of everything that may be chosen.

    Raises
    ------
    InputError: for a collective that the library does not estimate, and where the settings leave nothing to choose.
    """
    if collective not in SERVED:
        why = "goes pair by pair" if collective in KINDS_BY_NAME else "is not known"
        raise InputError(
            f"the library estimates no times of this collective, which {why}",
            place="collective",
            found=repr(collective),
            expected="one of " + ", ".join(SERVED),
        )
    case = _case(site, library, collective, settings)
    if case.site.nranks == 1:
        return {("ring", "Simple"): (0.0, inf)}
    known = rccl_costs(case.found, collective) if library.name == "rccl" else _nccl_costs(case)
    algorithms, protocols = settings.allowed(collective)
    fit = {
        pair: cost
        for pair, cost in known.items()
        if (_usual(case, library, pair[1]) if protocols is None else pair[1] in protocols)
    }
    chosen = {pair: cost for pair, cost in fit.items() if pair[0] in algorithms}
    if not chosen and library.rules < (2, 24) and (library.rules >= (2, 19) or collective != "all_reduce"):
        # Older libraries took rings where nothing else was left.
        chosen = {pair: cost for pair, cost in fit.items() if pair[0] == "ring"}
    if not chosen:
        _nothing_left(collective, known, algorithms, protocols)
    return chosen


def timings(
    site: Site, library: Library, collective: str, size_bytes: int, settings: Settings = DEFAULT
) -> dict[Pair, float]:
    """What the library expects each algorithm and protocol to take, in us.

    ``size_bytes`` is that of the larger buffer of a rank, as in the size column of nccl-tests.
    """
    known = costs(site, library, collective, settings)
    case = _case(site, library, collective, settings)
    if library.name == "rccl":
        return {
            pair: latency + size_bytes / (1000 * bandwidth * rccl_factor(case.found, pair, size_bytes))
            for pair, (latency, bandwidth) in known.items()
        }
    return {pair: _time(case, pair, cost, size_bytes) for pair, cost in known.items()}


@lru_cache(maxsize=16384)
def _case(site: Site, library: Library, collective: str, settings: Settings) -> _Case:
    found = graphs(site, library, settings)
    return _Case(found.site, found, nccl_table(library.table), library.rules, collective, settings)


def _nothing_left(
    collective: str, known: Mapping[Pair, object], algorithms: tuple[str, ...], protocols: tuple[str, ...] | None
) -> NoReturn:
    raise InputError(
        f"what was set leaves the library nothing to choose for {collective}",
        file="environment",
        place="NCCL_ALGO, NCCL_PROTO",
        found=f"{', '.join(algorithms) or 'no algorithm'} with {', '.join(protocols or ()) or 'any protocol'}",
        expected="one of " + ", ".join(f"{algorithm} with {protocol}" for algorithm, protocol in known),
    )


def _usual(case: _Case, library: Library, protocol: str) -> bool:
    """Whether a protocol is used unless it is asked for: LL128 needs stores of 128 bytes that arrive whole, which
    NVLink and near ports give, and generations of GPUs that the library knows."""
    if protocol != "LL128":
        return True
    site, rules = case.site, case.rules
    if library.name == "rccl":
        return site.model.startswith("gfx90a") and site.ranks_per_node == 16
    if site.nranks > site.nodes and not case.found.node.links:
        return False
    if site.nodes > 1 and (site.reach == "cpu" or (site.reach == "c2c" and rules < (2, 27))):
        return False
    if rules >= (2, 27):
        return site.capability >= 70
    newer = ((70, (2, 8)), (80, (2, 8)), (90, (2, 17)), (100, (2, 25)), (120, (2, 25)))
    return any(site.capability == capability and rules >= since for capability, since in newer)


def _time(case: _Case, pair: Pair, cost: tuple[float, float], size_bytes: int) -> float:
    algorithm, protocol = pair
    latency, bandwidth = cost
    power = (size_bytes >> 6).bit_length() - 1
    power = max(power, 0) if case.rules < (2, 22) else power
    if case.whole:
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


def _nccl_costs(case: _Case) -> dict[Pair, tuple[float, float]]:
    known = {}
    for algorithm in serving(case.collective, case.rules):
        for index, protocol in enumerate(PROTOCOLS):
            bandwidth = _bandwidth(case, algorithm, index)
            if bandwidth > 0:
                known[algorithm, protocol] = (_latency(case, algorithm, index), bandwidth)
    return known


def _bandwidth(case: _Case, algorithm: str, protocol: int) -> float:
    """Bytes of the whole buffer per ns; 0 for what cannot be."""
    ring = case.found.ring
    if algorithm == "ring":
        return _ring_bus(case, ring, protocol) * case.site.nranks / case.steps
    if algorithm == "tree":
        return _tree_bus(case, case.found.tree, protocol) / 2
    if protocol != 2:
        return 0.0
    if algorithm in ("nvls", "nvlstree"):
        return _nvls(case, algorithm)
    if algorithm == "pat":
        wanted = case.settings.pat == 1 or (case.settings.pat == 2 and case.nodes == case.site.nranks)
        return _bus(case, ring) * (0.85 if case.rules < (2, 24) else 0.75) if wanted else 0.0
    return _collnet(case, algorithm)


def _bus(case: _Case, graph: Graph) -> float:
    bus = graph.channels * (graph.intra if case.nodes <= 2 else graph.inter)
    return min(bus, 235.0) if case.rules < (2, 18) and case.site.capability == 80 else bus


def _ring_bus(case: _Case, ring: Graph, protocol: int) -> float:
    bus = _bus(case, ring)
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
    bus = min(0.92 * _bus(case, tree), tree.channels * case.table.tree[case.generation][case.column])
    if protocol == 0:
        bus = min(bus / 3.8, _ll_most(case))
    if protocol == 1:
        between = 0.915 if case.rules < (2, 9) else 120 / 128
        share = 7 / 9 if case.nodes == 1 else between
        bus = min(bus * share, tree.channels * case.table.tree_ll128[case.generation][case.column])
    return 0.85 * bus if tree.plain and case.rules >= (2, 18) else bus


def _nvls(case: _Case, algorithm: str) -> float:
    graph, tree = case.found.nvls, algorithm == "nvlstree"
    in_network = case.nodes > 1 and not tree
    if graph is None or (case.nodes == 1 and tree) or (in_network and not _heads_do(case)):
        return 0.0
    if case.rules >= (2, 28):
        return _nvls_by_efficiency(case, graph, tree)
    intra, inter, bus = graph.intra, graph.inter, 0.0
    if tree and case.rules < (2, 19):
        return _bus(case, graph) * 0.7 * case.nodes / (2 * (case.nodes - 1))
    if tree:
        bus = graph.channels * min(intra, inter if case.nodes <= 2 else inter / 2)
    elif case.rules < (2, 19):
        bus = _bus(case, graph)
    elif case.whole or case.rules < (2, 21):
        bus = graph.channels * min(intra, inter)
    else:
        bus = graph.channels * min(intra * (case.each - 1) / case.each, 0.9 * inter)
    return bus * (5 / 6 if case.whole or case.rules < (2, 23) else 1)


def _nvls_by_efficiency(case: _Case, graph: Graph, tree: bool) -> float:
    channels = graph.channels
    if channels < 2:
        return 0.0
    intra = graph.intra * case.table.nvls_efficiency[case.generation] * (channels - 1) / channels
    intra *= 2 if case.whole else (case.each - 1) / case.each
    inter = graph.inter * (2 if tree and case.nodes <= 2 else 1)
    most = case.table.nvlstree[case.generation][case.column] if tree else inf
    bus = channels * min(intra, inter, most)
    return bus * case.site.nranks / case.steps if case.whole else bus


def _heads_do(case: _Case) -> bool:
    """Reductions in the network are on, and gathers have a head for each GPU."""
    graph = case.found.collnet
    return graph is not None and (case.whole or case.site.ranks_per_node <= graph.channels)


def _collnet(case: _Case, algorithm: str) -> float:
    graph = case.found.collnet
    if graph is None or not _heads_do(case):
        return 0.0
    if algorithm == "collnetchain":
        return case.found.ring.channels * graph.inter / 2
    if case.site.inside != "nvswitch" or case.site.ranks_per_node > 8:
        return 0.0
    if not case.whole:
        return case.each * min(graph.intra, 0.9 * graph.inter)
    factor = case.each / graph.channels
    bus = graph.total / (factor - (factor - 1) / 2)
    return bus * (0.85 if case.site.capability >= 90 else 1) / 2


def _latency(case: _Case, algorithm: str, protocol: int) -> float:
    """In us."""
    inside = case.table.hop["nvlink" if case.found.node.links else "pci"]
    base = case.table.base[algorithm][protocol] if algorithm in case.table.base else 0.0
    intra = inside[algorithm][protocol] if algorithm in inside else 0.0
    inter = _between(case, algorithm, protocol)
    if algorithm == "tree" and case.site.cpu == "power" and not case.found.node.links and protocol == 2:
        intra = inside["ring"][protocol]
    if protocol == 0 and case.nodes > 1 and case.rules < (2, 18):
        intra *= 1.8
    far, others = case.nodes.bit_length() - 1, case.site.nranks // case.nodes - 1
    if algorithm == "ring":
        return base + _ring_hops(case, protocol, intra, inter)
    if algorithm == "tree":
        return base + 2 * (others * intra + far * inter)
    if algorithm == "pat":
        return 8 + far * inter / 3.5 + 2.8 * case.site.nranks
    if algorithm == "collnetchain":
        return base + 2 * others * intra + inter
    if algorithm == "collnetdirect":
        return base + 2 * (min(1, others) * intra + 0.4 * others) + inter
    if case.rules < (2, 19):
        network = case.table.hop["net"][algorithm][protocol]
        return base + (network * (case.nodes > 1) if algorithm == "nvls" else 2 * (case.nodes - 1) * network)
    return intra + (inter * (case.nodes > 1) if algorithm == "nvls" else base + 2 * far * inter)


def _between(case: _Case, algorithm: str, protocol: int) -> float:
    row = "tree" if algorithm == "pat" or (case.each == 1 and case.rules >= (2, 23)) else algorithm
    hop, stated = case.table.hop["net"][row][protocol], case.found.stated_us
    if case.rules < (2, 18):
        return stated or hop if case.rules >= (2, 12) else hop
    return hop + stated * (2 if protocol == 2 else 1)


def _ring_hops(case: _Case, protocol: int, intra: float, inter: float) -> float:
    steps, nodes = case.steps, case.nodes
    if case.collective not in ("all_reduce", *_PARTS):
        where = case.table.hop["net" if nodes > 1 else "nvlink" if case.found.node.links else "pci"]
        if case.found.node.same_channels:
            return where["ring"][protocol]
        return steps * where["tree" if protocol == 2 else "ring"][protocol]
    if nodes == 1:
        return steps * intra
    if case.rules >= (2, 18):
        overhead = 2.0 if case.site.cpu == "amd" else 1.0
        if case.settings.net_overhead_ns >= 0:
            overhead = case.settings.net_overhead_ns / 1000
        intra = max(intra, overhead * (3 if protocol == 2 else 1))
    between = nodes - 1
    if case.whole:
        between = 2 * nodes if (2, 12) <= case.rules < (2, 23) else 2 * between
    return (steps - between) * intra + between * inter
