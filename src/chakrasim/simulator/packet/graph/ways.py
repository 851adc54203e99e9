"""Ways of packets by a rule of the graph's own: tables of next hops, put together from the routes of all pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import Routing, find_routes
from chakrasim.notes import Notes
from chakrasim.simulator.packet.state import MANY, Longs
from chakrasim.simulator.packet.topology import Topology
from chakrasim.simulator.packet.ways import Down, Ports, Ways

PAIRS_AT_ONCE: Final = 1 << 16
_NOT_FOLLOWED: Final = {
    "spray": "divides a flow packet by packet",
    "adaptive": "looks at loads",
    "s-mod-k": "asks where a packet comes from",
}


def followed(routing: Routing, notes: Notes) -> Routing:
    """The routing as far as packets follow it; a warning says what they take instead of the rest."""
    odd = [f"{routing.rule}, which {_NOT_FOLLOWED[routing.rule]}"] if routing.rule in _NOT_FOLLOWED else []
    odd += ["polarised hashes"] if routing.polarised else []
    if not odd:
        return routing
    notes.warn(
        f"the packet network does not know {', '.join(odd)}: of equally short ways, a hash of each flow chooses one"
    )
    rule = "ecmp" if routing.rule in _NOT_FOLLOWED else routing.rule
    return replace(routing, rule=rule, polarised=False)


def ways_of_rule(
    graph: NetworkGraph,
    routing: Routing,
    topology: Topology,
    switch: Longs,
    ports: Ports,
    links: Longs,
    payload: int,
    down: Down,
) -> Ways:
    """The ways that a rule gives; ``switch`` is int64[v]: the node that has a vertex's cables, ``links`` as of
    `ports_of_links`.

    Raises InputError where next hops depend on more than where a packet is and goes to.
    """
    cable = ports.link[links]
    dead = np.isin(cable, list(down)) if down else None
    node, host, link = _table(graph, routing, dead)
    own_node, own_host, own_port = _own(graph, switch, topology, ports)
    table = _columns(
        np.concatenate([switch[node], own_node]),
        np.concatenate([host, own_host]),
        np.concatenate([links[link], own_port]),
        topology.nodes,
        graph.ranks,
    )
    return _measured(*table, topology, ports, graph.ranks, payload)


def ports_of_links(graph: NetworkGraph, topology: Topology, ports: Ports) -> Longs:
    """int64[l]: the port through which each link of a graph is left; its cables are the topology's first links, in
    order of their numbers."""
    _, first, cable = np.unique(graph.cable, return_index=True, return_inverse=True)
    side = np.ones(graph.links, np.int64)
    side[first] = 0
    return _port_of(topology, ports)[2 * cable + side]


def _port_of(topology: Topology, ports: Ports) -> Longs:
    """int64[2 links]: the port at each end of each link."""
    a = np.array([link.a for link in topology.links], np.int64)
    link = ports.link[1:]
    found = np.zeros(2 * a.size, np.int64)
    found[2 * link + (ports.node[1:] != a[link])] = np.arange(1, ports.node.size)
    return found


def _table(graph: NetworkGraph, routing: Routing, dead: NDArray[np.bool_] | None) -> tuple[Longs, Longs, Longs]:
    """Vertices, ranks, and the links by which packets leave the ones for the others, each once."""
    ranks = np.arange(graph.ranks)
    several = routing.rule in ("shortest", "ecmp")
    rule = replace(routing, rule="spray") if several else routing
    step = max(1, PAIRS_AT_ONCE // graph.ranks)
    found = [np.zeros(0, np.int64)]
    for begin in range(0, graph.ranks, step):
        target = np.repeat(ranks[begin : begin + step], graph.ranks)
        source = np.resize(ranks, target.size)
        apart = source != target
        routes = find_routes(graph, source[apart], target[apart], None, rule, dead, refuse=False)
        found.append(np.unique(target[apart][routes.flow] * graph.links + routes.link))
    host, link = np.divmod(np.concatenate(found), graph.links)
    vertex = graph.source[link].astype(np.int64)
    if not several:
        _check_one_way(graph, routing, vertex, host)
    return vertex, host, link


def _check_one_way(graph: NetworkGraph, routing: Routing, vertex: Longs, host: Longs) -> None:
    places, count = np.unique(vertex * graph.ranks + host, return_counts=True)
    if (count > 1).any():
        at, to = divmod(int(places[np.flatnonzero(count > 1)[0]]), graph.ranks)
        raise InputError(
            f"by the rule {routing.rule}, flows to one rank leave a vertex by several links: packets are sent on by "
            "where they are and where they go alone",
            file=graph.name or "graph", place="routing", found=f"{graph.names[at]}, towards rank {graph.names[to]}",
            remedy="use the rule ecmp, or network model flow",
        )  # fmt: skip


def _own(graph: NetworkGraph, switch: Longs, topology: Topology, ports: Ports) -> tuple[Longs, Longs, Longs]:
    """The ways between ranks that forward and their own switches, whose links are the last."""
    forwarding = np.flatnonzero(switch[: graph.ranks] != np.arange(graph.ranks))
    link = len(topology.links) - forwarding.size + np.arange(forwarding.size)
    port_of = _port_of(topology, ports)
    others = np.tile(np.arange(graph.ranks), forwarding.size)
    leaving = np.repeat(forwarding, graph.ranks)
    apart = others != leaving
    return (
        np.concatenate([switch[forwarding], leaving[apart]]),
        np.concatenate([forwarding, others[apart]]),
        np.concatenate([port_of[2 * link + 1], np.repeat(port_of[2 * link], graph.ranks)[apart]]),
    )


def _columns(
    node: Longs, host: Longs, port: Longs, nodes: int, hosts: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """The tables `Ways.ways` and `Ways.choices`."""
    order = np.lexsort((port, node * hosts + host))
    place, port = (node * hosts + host)[order], port[order]
    places, begin, count = np.unique(place, return_index=True, return_counts=True)
    ways = np.zeros(nodes * hosts, np.uint32)
    ways[places] = port[begin]
    several = np.flatnonzero(count > 1)
    lists = [np.zeros(1, np.int64)]
    size = 1
    for i in several.tolist():
        ways[places[i]] = MANY + size
        lists.append(np.concatenate([count[i : i + 1], port[begin[i] : begin[i] + count[i]]]))
        size += int(count[i]) + 1
    return ways, np.concatenate(lists).astype(np.uint32)


def _measured(
    ways: NDArray[np.uint32], choices: NDArray[np.uint32], topology: Topology, ports: Ports, hosts: int, payload: int
) -> Ways:
    """With what the first way of each pair is like."""
    link = ports.link
    rate = np.array([entry.rate for entry in topology.links], np.int64)
    delay = np.array([entry.delay_ns for entry in topology.links], np.int64)
    packet_ns = payload * 8 * 10**9 // rate
    source, target = np.divmod(np.arange(hosts * hosts), hosts)
    here = source.copy()
    delays, packets, hops = (np.zeros(here.size, np.int64) for _ in range(3))
    width = np.full(here.size, 1 << 62)
    left = np.flatnonzero(source != target)
    for _ in range(topology.nodes):
        way = ways[here[left] * hosts + target[left]].astype(np.int64)
        several = way >= MANY
        way[several] = choices[way[several] - MANY + 1]
        left, way = left[way > 0], way[way > 0]
        crossed = link[way]
        delays[left] += delay[crossed]
        packets[left] += packet_ns[crossed]
        width[left] = np.minimum(width[left], rate[crossed])
        hops[left] += 1
        here[left] = ports.node[ports.peer[way]]
        left = left[here[left] != target[left]]
        if not left.size:
            break
    there = (here == target) & (source != target)
    shape = (hosts, hosts)
    return Ways(
        hosts,
        ways,
        choices,
        np.where(there, 2 * delays + packets, -1).reshape(shape),
        np.where(there, delays, 0).reshape(shape),
        np.where(there, width, 0).reshape(shape),
        np.where(there, hops, 0).reshape(shape),
    )
