"""Links go down (packet-network.md, 12): packets are lost, queue pairs move to other ports. Links may come back."""

from __future__ import annotations

from chakrasim.jit import inner
from chakrasim.simulator.packet.clock import free, push, queue_at, take
from chakrasim.simulator.packet.nic import serve_host
from chakrasim.simulator.packet.pairs import LEFT, join_list
from chakrasim.simulator.packet.routes import queue_pair_ports
from chakrasim.simulator.packet.state import ADD, BYTES_STAY, LIVE, LOST, NOW, WAITING, Net, whole
from chakrasim.simulator.packet.switches import forget, take_out


@inner
def change_links(n: Net) -> None:
    """Take links down or bring them back, and let queue pairs go the ways that are known now."""
    for i in range(n.changed.size):
        port = n.changed[i]
        if port > 0:
            drop_queues(n, port)
            drop_queues(n, whole(n.ports[port].peer))
        else:
            mend(n, -port)
            mend(n, whole(n.ports[-port].peer))
    move_pairs(n)


@inner
def mend(n: Net, port: int) -> None:
    """Let a port send again. What its two ends have told each other to stop is forgotten."""
    p = n.ports[port]
    p.busy &= 1
    p.paused = 0
    for priority in range(8):
        n.queues[queue_at(n, port, priority)].stopped = 0


@inner
def drop_queues(n: Net, port: int) -> None:
    """Stop a port and drop what waits there."""
    p = n.ports[port]
    p.busy |= 2
    for priority in range(8):
        queue = n.queues[queue_at(n, port, priority)]
        while queue.head != 0:
            item = queue.head
            queue.head = n.items[item].next
            if p.host == 0:
                take_out(n, port, item)
            if p.host == 0 and priority > 0 and n.g[BYTES_STAY] == 0:
                forget(n, port, priority, item)
            n.g[LOST] += 1
            free(n, item)
    p.filled = 0
    p.queued = 0


@inner
def move_pairs(n: Net) -> None:
    """Put every live queue pair into the list of the port that leads to its target now, host by host, and let each try
    to send at once."""
    for port in range(1, n.ports.size):
        if n.ports[port].host != 0:
            n.ports[port].pairs = 0
    for i in range(n.moved.size):
        flow = whole(n.moved[i])
        f = n.flows[flow]
        if f.state == WAITING:
            item = take(n)
            n.items[item].kind = ADD
            n.items[item].flow = flow
            push(n, item, n.g[NOW])
        elif f.state == LIVE:
            f.clean = 0
            queue_pair_ports(n, flow)
            f.place = LEFT
            if f.nic == 0:
                continue
            join_list(n, flow)
            serve_host(n, whole(f.nic))
