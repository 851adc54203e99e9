"""A graph of links as a network of packets: which vertices are hosts, which switches, and which ways packets take.

Ranks are hosts, all other vertices switches that store and forward. A rank that lets others' traffic pass (also for
PXN) is a host behind a switch of its own, which has the rank's cables; the link between the two is as fast as all of
these together and takes no time but that of a packet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.machine.graph.graph import NVSWITCH, NetworkGraph
from chakrasim.machine.graph.routing import Routing
from chakrasim.notes import Notes
from chakrasim.simulator.packet.buffers import headroom_of
from chakrasim.simulator.packet.faults import Faults
from chakrasim.simulator.packet.graph.ways import ports_of_links, ways_of_rule
from chakrasim.simulator.packet.network import Find, Network, network_of
from chakrasim.simulator.packet.settings import FASTEST, SLOWEST, Settings, settings_of
from chakrasim.simulator.packet.state import Longs
from chakrasim.simulator.packet.switches import RESERVE
from chakrasim.simulator.packet.topology import Link, Topology
from chakrasim.simulator.packet.ways import Ports, find_ways, ports_of
from chakrasim.text.amounts import plural

MEBIBYTE: Final = 1 << 20
SHIPPED_BUFFER: Final = 32
DEFAULTS: Final[Mapping[str, Any]] = {
    "CC_MODE": 12, "PACKET_PAYLOAD_SIZE": 4096, "HAS_WIN": 1, "GLOBAL_T": 0, "VAR_WIN": 1, "FAST_REACT": 1,
    "MULTI_RATE": 0, "MI_THRESH": 0, "U_TARGET": 0.95, "RATE_AI": "50Mb/s", "RATE_HAI": "100Mb/s",
    "EWMA_GAIN": 0.00390625, "ALPHA_RESUME_INTERVAL": 1, "RATE_DECREASE_INTERVAL": 4, "RP_TIMER": 900,
    "FAST_RECOVERY_TIMES": 1, "L2_ACK_INTERVAL": 1, "L2_CHUNK_SIZE": 4000, "HEADROOM_PACKETS": 2,
}  # fmt: skip
"""Of graphs, where nothing else is said: what ASTRA-sim ships with its ns-3 back end, but packets of 4,096 bytes."""
_SPEEDS: Final = (25, 40, 100, 200, 400, 2400)
_KMIN: Final = (100, 200, 400, 600, 800, 800)
_KMAX: Final = (400, 800, 1600, 2400, 3200, 3200)
_PMAX: Final = 0.2


@dataclass(frozen=True, eq=False)
class Nodes:
    """What stands for a graph's vertices and cables: ``topology``, whose links are the cables in order of their numbers
    and, behind them, those of ranks to switches of their own; ``switch`` is int64[v]: the node that has a vertex's
    cables."""

    topology: Topology
    switch: Longs


def network_of_graph(
    graph: NetworkGraph, routing: Routing, given: Mapping[str, Any], file: str, faults: Faults, notes: Notes
) -> Network:
    """The network of packets of a graph, by a routing that packets follow; ``given`` are keys of a configuration, from
    ``file``. Raises InputError."""
    nodes = nodes_of(graph, routing.pxn)
    settings = _settings(nodes.topology, given, file, faults, notes)
    ports = ports_of(nodes.topology)
    link_ports = ports_of_links(graph, nodes.topology, ports)
    find = _finder(graph, nodes, routing, settings, faults, ports, link_ports)
    seed = routing.seed - 1 or None
    network = network_of(nodes.topology, settings, faults, seed=seed, find=find, file=file)
    lost = int(np.count_nonzero(network.ways.hops == 0)) - network.ways.hosts
    if lost:
        notes.warn(f"{plural(lost, 'pair')} of ranks have no way to each other, for what they might send")
    return replace(network, link_ports=link_ports)


def nodes_of(graph: NetworkGraph, all_forward: bool) -> Nodes:
    """Nodes and links of a graph; ``all_forward``: any rank may pass others' packets on.

    Raises InputError for what no cable of packets is like.
    """
    first = _cables(graph)
    switch = np.arange(graph.vertices)
    forwarding = np.flatnonzero(graph.transit[: graph.ranks] | all_forward)
    switch[forwarding] = graph.vertices + np.arange(forwarding.size)
    links = [
        _link(graph, link, int(switch[graph.source[link]]), int(switch[graph.target[link]]), graph.capacity[link])
        for link in first.tolist()
    ]
    width = np.bincount(graph.source, graph.capacity, graph.vertices)
    for rank in forwarding.tolist():
        links.append(Link(rank, int(switch[rank]), min(round(8e9 * float(width[rank])), FASTEST), 0, 0.0))
    count = graph.vertices + forwarding.size
    return Nodes(Topology(count, tuple(range(graph.ranks, count)), tuple(links)), switch)


def _link(graph: NetworkGraph, link: int, a: int, b: int, capacity: float) -> Link:
    rate = round(8e9 * float(capacity))
    if not SLOWEST <= rate <= FASTEST:
        raise InputError(
            "a link's speed is out of range for packets", file=graph.name or "graph", place=graph.link_names[link],
            found=f"{rate:,} bit/s", expected=f"{SLOWEST:,} to {FASTEST:,} bit/s",
        )  # fmt: skip
    return Link(a, b, rate, round(float(graph.latency[link])), 0.0)


def _cables(graph: NetworkGraph) -> Longs:
    """The first link of each cable."""
    order = np.argsort(graph.cable, kind="stable")
    _, begin, count = np.unique(graph.cable[order], return_index=True, return_counts=True)
    if (count != 2).any():
        link = int(order[begin[np.flatnonzero(count != 2)[0]]])
        _refuse(graph, link, "a link has no way back, which acknowledgements and pauses need")
    first, back = order[begin].astype(np.int64), order[begin + 1]
    unequal = (graph.capacity[first] != graph.capacity[back]) | (graph.latency[first] != graph.latency[back])
    if unequal.any():
        _refuse(graph, int(first[unequal][0]), "the two ways of a cable differ")
    shared = graph.medium != np.arange(graph.links)
    if shared.any():
        _refuse(graph, int(np.flatnonzero(shared)[0]), "links share one capacity")
    if graph.planned:
        _refuse(graph, graph.planned[0][1], "a link changes at a known time, as of an optical switch")
    return first


def _refuse(graph: NetworkGraph, link: int, what: str) -> None:
    raise InputError(
        f"{what}: the packet network has no such link", file=graph.name or "graph", place=graph.link_names[link],
        remedy="use network model flow",
    )  # fmt: skip


def _settings(topology: Topology, given: Mapping[str, Any], file: str, faults: Faults, notes: Notes) -> Settings:
    """What is given, and for the rest `DEFAULTS`, thresholds by speed and buffers that hold the headrooms twice."""
    values = {**DEFAULTS, **given}
    rates = sorted({link.rate for link in topology.links})
    if not {"KMIN_MAP", "KMAX_MAP", "PMAX_MAP", "KMIN", "KMAX", "PMAX"} & set(given):
        values |= {"KMIN_MAP": _by_speed(rates, _KMIN), "KMAX_MAP": _by_speed(rates, _KMAX)}
        values["PMAX_MAP"] = dict.fromkeys(rates, _PMAX)
    settings = settings_of(values, file, notes, silent=faults.unknown_keys_pass)
    if "BUFFER_SIZE" in given:
        return settings
    return settings_of({**values, "BUFFER_SIZE": _buffer(topology, settings)}, file, Notes(), silent=True)


def _by_speed(rates: list[int], values: tuple[int, ...]) -> dict[int, float]:
    return {rate: float(np.interp(rate / 1e9, _SPEEDS, values)) for rate in rates}


def _buffer(topology: Topology, settings: Settings) -> int:
    """MiB: as shipped, or twice the headrooms of the switch that has most."""
    rooms = np.zeros(topology.nodes, np.int64)
    for link in topology.links:
        rooms[[link.a, link.b]] += headroom_of(link, settings) + RESERVE
    return max(SHIPPED_BUFFER, min(-(-2 * int(rooms.max(initial=0)) // MEBIBYTE), 2047))


def _finder(
    graph: NetworkGraph, nodes: Nodes, routing: Routing, settings: Settings, faults: Faults, ports: Ports, links: Longs
) -> Find:
    """What finds the ways: the search of packets, where that is what the graph's rule comes to, or the rule."""
    payload = settings.packet_payload_size
    if routing.rule in ("shortest", "ecmp") and routing.metric == "hops" and not routing.pxn:
        first = frozenset(nodes.switch[np.flatnonzero(graph.kind == NVSWITCH)].tolist())
        return partial(
            find_ways, nodes.topology, ports, payload, parallel=not faults.last_of_parallel_links,
            first=first if routing.nvswitch_first else frozenset(),
        )  # fmt: skip
    return partial(ways_of_rule, graph, routing, nodes.topology, nodes.switch, ports, links, payload)
