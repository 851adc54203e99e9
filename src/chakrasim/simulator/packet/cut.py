"""A link that goes down for good (packet-network.md, 12): routes anew, packets lost, queue pairs moved."""

from __future__ import annotations

from dataclasses import replace

from chakrasim.errors import InputError
from chakrasim.jit import kernel
from chakrasim.simulator.packet import state as at
from chakrasim.simulator.packet.build import Network
from chakrasim.simulator.packet.clock import free, push, take
from chakrasim.simulator.packet.nic import serve_host
from chakrasim.simulator.packet.pairs import code_of
from chakrasim.simulator.packet.routes import queue_pair_ports
from chakrasim.simulator.packet.state import Net
from chakrasim.simulator.packet.switches import forget
from chakrasim.simulator.packet.ways import find_ways


@kernel
def schedule(n: Net, kind: int, time: int) -> None:
    """Have an item of a kind come at a time."""
    item = take(n)
    n.items[item].kind = kind
    push(n, item, time)


def plan_cut(net: Net, network: Network) -> None:
    """Schedule the end of the link that the settings say. Raises InputError if there is none."""
    down = network.settings.link_down
    if down is None:
        return
    if _link(network) is None:
        raise InputError(
            "there is no such link", place="LINK_DOWN", found=f"{down.a} {down.b}", expected="the two ends of a link"
        )
    schedule(net, at.CUT, down.at_ns)


def _link(network: Network) -> int | None:
    down = network.settings.link_down
    ends = {down.a, down.b} if down else set()
    found = [at for at, link in enumerate(network.topology.links) if {link.a, link.b} == ends]
    return found[-1] if found else None


def cut_link(net: Net, network: Network) -> tuple[Net, Network]:
    """Take the link down now."""
    link = _link(network)
    assert link is not None
    ways = find_ways(network.topology, network.ports, network.settings.packet_payload_size, frozenset([link]))
    net = net._replace(ways=ways.ways, choices=ways.choices)
    for port in range(1, network.ports.node.size):
        if int(network.ports.link[port]) == link:
            drop_queues(net, port)
    move_pairs(net)
    return net, replace(network, ways=ways)


@kernel
def drop_queues(n: Net, port: int) -> None:
    """Stop a port and drop what waits there."""
    p = n.ports[port]
    p.busy |= 2
    for priority in range(8):
        queue = n.queues[8 * port + priority]
        while queue.head != 0:
            item = queue.head
            queue.head = n.items[item].next
            if p.host == 0 and priority > 0 and n.g[at.BYTES_STAY] == 0:
                forget(n, port, priority, item)
            n.g[at.LOST] += 1
            free(n, item)
    p.filled = 0
    p.queued = 0


@kernel
def move_pairs(n: Net) -> None:
    """Put every live queue pair into the list of the port that leads to its target now, and let all ports try."""
    for port in range(1, n.ports.size):
        if n.ports[port].host != 0:
            n.ports[port].pairs = 0
            n.ports[port].served = 0
    for flow in range(1, n.flows.size):
        f = n.flows[flow]
        if f.state == at.LIVE:
            queue_pair_ports(n, flow)
            p = n.ports[f.nic]
            f.place = p.pairs
            p.pairs += 1
            n.pairs[p.first + f.place] = flow
            n.codes[p.first + f.place] = code_of(n, flow)
    for port in range(1, n.ports.size):
        if n.ports[port].host != 0:
            serve_host(n, port)
