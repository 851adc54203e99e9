"""Routes and base round trips (packet-network.md, 4.2 and 4.4): a breadth-first search from every host.

Neighbours are visited in a fixed order, hosts by ascending and then switches by descending number: it decides which
port stands first among several equal ways.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrasim.jit import kernel
from chakrasim.simulator.packet.state import MANY, Longs, Places
from chakrasim.simulator.packet.topology import Topology


@dataclass(frozen=True, eq=False)
class Ports:
    """The ports of all nodes, numbered from 1 node by node, each node's in the order of its links.

    Attributes
    ----------
    first
        int64[nodes + 1]: port ``first[node] + i`` is the node's i-th, from 1
    node, peer, link
        int64[ports + 1]: whose it is, the port at the other end, and the link; entry 0 is none
    """

    first: Longs
    node: Longs
    peer: Longs
    link: Longs


@dataclass(frozen=True, eq=False)
class Ways:
    """Ports towards hosts, and what the ways there are like.

    Attributes
    ----------
    hosts
        the number of columns: the highest host's number, and 1
    ways, choices
        as in `Net`
    round_trip_ns, delay_ns, bandwidth, hops
        int64[hosts, hosts]: by source and target: twice the delay and the first packet's transmission; the delay; the
        least rate; links. -1 and 0, 0, 0 where there is no way
    """

    hosts: int
    ways: Places
    choices: Places
    round_trip_ns: Longs
    delay_ns: Longs
    bandwidth: Longs
    hops: Longs

    def of(self, node: int, host: int) -> list[int]:
        """The ports through which a node sends to a host, in order."""
        way = int(self.ways[node * self.hosts + host])
        if way < MANY:
            return [way] if way else []
        at = way - MANY
        return [int(port) for port in self.choices[at + 1 : at + 1 + self.choices[at]]]

    def bdp(self) -> Longs:
        """int64[hosts, hosts]: the bytes that are under way on a pair's way at its full rate."""
        trips = np.maximum(self.round_trip_ns, 0)
        seconds, left = np.divmod(trips, 10**9)
        giga, rest = np.divmod(self.bandwidth, 10**9)
        return (seconds * self.bandwidth + left * giga + left * rest // 10**9) // 8


def ports_of(topology: Topology) -> Ports:
    """Number the ports: each end of a link has the next one of its node."""
    ends = np.array([(link.a, link.b) for link in topology.links], np.int64).reshape(-1, 2)
    order = np.argsort(ends.ravel(), kind="stable")
    node = np.zeros(order.size + 1, np.int64)
    node[1:] = ends.ravel()[order]
    at = np.empty(order.size, np.int64)
    at[order] = np.arange(1, order.size + 1)
    peer, link = np.zeros_like(node), np.zeros_like(node)
    peer[1:] = at[order ^ 1]
    link[1:] = order >> 1
    first = np.searchsorted(node[1:], np.arange(topology.nodes + 1))
    return Ports(first, node, peer, link)


Down = frozenset[int]
"""Numbers of links."""


def find_ways(
    topology: Topology,
    ports: Ports,
    payload: int,
    down: Down = frozenset(),
    *,
    parallel: bool = True,
    first: Down = frozenset(),
) -> Ways:
    """All routes, over the links that are not down.

    ``parallel``: each of several links between two nodes is a way of its own, else the last alone. ``first``: nodes
    that stand before all others; where some ways lead over such a one, the others are left out.
    """
    is_host = topology.is_host
    hosts = int(np.flatnonzero(is_host)[-1]) + 1
    neighbours, starts, back = _neighbours(topology, ports, is_host, down, parallel, first)
    preferred = np.isin(ports.node[ports.peer], list(first))
    rate = np.array([0, *(topology.links[link].rate for link in ports.link[1:])], np.int64)
    delay = np.array([0, *(topology.links[link].delay_ns for link in ports.link[1:])], np.int64)
    packet_ns = np.zeros_like(rate)
    packet_ns[1:] = payload * 8 * 10**9 // rate[1:]
    ways = np.zeros(topology.nodes * hosts, np.uint32)
    choices = np.zeros(1, np.uint32)
    shape = (hosts, hosts)
    trips, delays = np.full(shape, -1, np.int64), np.zeros(shape, np.int64)
    width, hops = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    entries = np.zeros((2, neighbours.size), np.int64)
    measures = np.zeros((5, topology.nodes), np.int64)
    links = (delay, packet_ns, rate)
    lists = []
    size = 1
    for host in np.flatnonzero(is_host).tolist():
        count = search(host, starts, neighbours, back, is_host, *links, entries, measures)
        node, port = entries[:, :count]
        if first:
            kept = preferred[port] | ~np.isin(node, node[preferred[port]])
            node, port = node[kept], port[kept]
        order = np.argsort(node, kind="stable")
        targets, begin, several = np.unique(node[order], return_index=True, return_counts=True)
        sorted_ports = port[order]
        single = several == 1
        ways[targets[single] * hosts + host] = sorted_ports[begin[single]]
        for target, start, many in zip(
            targets[~single].tolist(), begin[~single].tolist(), several[~single].tolist(), strict=True
        ):
            ways[target * hosts + host] = MANY + size
            lists.append(np.concatenate([[many], sorted_ports[start : start + many]]))
            size += many + 1
        distance = measures[0, :hosts]
        there = (distance > 0) & is_host[:hosts]
        trips[there, host] = (2 * measures[1, :hosts] + measures[2, :hosts])[there]
        delays[there, host] = measures[1, :hosts][there]
        width[there, host] = measures[3, :hosts][there]
        hops[there, host] = distance[there]
    if lists:
        choices = np.concatenate([[0], *lists]).astype(np.uint32)
    return Ways(hosts, ways, choices, trips, delays, width, hops)


def _neighbours(
    topology: Topology,
    ports: Ports,
    is_host: np.ndarray[tuple[int], np.dtype[np.bool_]],
    down: Down,
    parallel: bool,
    first: Down,
) -> tuple[Longs, Longs, Longs]:
    """The neighbours of each node in the order of visits, one for each link, and the port of each back to the node."""
    found: list[int] = []
    back: list[int] = []
    starts = [0]
    for node in range(topology.nodes):
        last: dict[int, list[int]] = {}
        for port in range(int(ports.first[node]) + 1, int(ports.first[node + 1]) + 1):
            if int(ports.link[port]) not in down:
                peer = int(ports.peer[port])
                other = int(ports.node[peer])
                last[other] = [*last.get(other, ()), peer] if parallel else [peer]
        hosts = sorted(other for other in last if is_host[other])
        switches = sorted((other for other in last if not is_host[other]), reverse=True)
        for other in sorted(hosts + switches, key=lambda one: one not in first):
            found += [other] * len(last[other])
            back += last[other]
        starts.append(len(found))
    return np.array(found, np.int64), np.array(starts, np.int64), np.array(back, np.int64)


@kernel
def search(
    host: int,
    starts: Longs,
    neighbours: Longs,
    back: Longs,
    is_host: np.ndarray[tuple[int], np.dtype[np.bool_]],
    delay: Longs,
    packet_ns: Longs,
    rate: Longs,
    entries: Longs,
    measures: Longs,
) -> int:
    """Fill ``entries`` with (node, its port towards the host) in the order in which they are found, and ``measures``
    with distance, delay, transmission, least rate of each node; returns the number of entries."""
    measures[0, :] = -1
    distance, queue = measures[0], measures[4]
    distance[host] = 0
    measures[1, host] = measures[2, host] = 0
    measures[3, host] = 1 << 62
    queue[0] = host
    taken, queued, count = 0, 1, 0
    while taken < queued:
        node = queue[taken]
        taken += 1
        for i in range(starts[node], starts[node + 1]):
            other, port = neighbours[i], back[i]
            if distance[other] < 0:
                distance[other] = distance[node] + 1
                measures[1, other] = measures[1, node] + delay[port]
                measures[2, other] = measures[2, node] + packet_ns[port]
                measures[3, other] = min(measures[3, node], rate[port])
                if not is_host[other]:
                    queue[queued] = other
                    queued += 1
            if distance[other] == distance[node] + 1:
                entries[0, count] = other
                entries[1, count] = port
                count += 1
    return count
