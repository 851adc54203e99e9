"""Switches: a shared buffer with dynamic thresholds, pause frames, marks (packet-network.md, 6)."""

from __future__ import annotations

from chakrasim.jit import inner, leaf
from chakrasim.simulator.packet import state
from chakrasim.simulator.packet.clock import free, queue_at, take
from chakrasim.simulator.packet.control.table import at_dequeue
from chakrasim.simulator.packet.routes import way_out
from chakrasim.simulator.packet.state import (
    ACKS_ALIKE,
    DATA,
    DRAWS,
    DROPPED,
    MARKED,
    MARKING,
    MARKS,
    NOW,
    PAUSE,
    PRIORITY,
    UNROUTED,
    WEIGHED,
    WRAPS,
    Net,
    whole,
)
from chakrasim.simulator.packet.streams import first_number, next_stream
from chakrasim.simulator.packet.wire import transmit

RESERVE = 4096
"""Bytes of each queue of a port that do not count as shared."""
RESUME_GAP = 3072
PAUSE_BYTES = 31


@leaf
def threshold(n: Net, port: int) -> int:
    """Shared bytes that a queue of this port may take: a share of what is left."""
    p = n.ports[port]
    node = n.nodes[p.node]
    left = node.total - node.shared
    left = left & 0xFFFFFFFF if n.g[WRAPS] != 0 else max(left, 0)
    return left >> p.shift


@inner
def enter(n: Net, port: int, item: int) -> None:
    """A data packet or an acknowledgement has come in through a port."""
    it = n.items[item]
    out = way_out(n, port, whole(it.flow), it.kind == DATA)
    if out == 0:
        n.g[UNROUTED] += 1
        free(n, item)
        return
    priority = whole(it.bits) & PRIORITY
    if n.g[ACKS_ALIKE] == 0 and it.kind != DATA and n.ports[port].acks == 0:
        priority = 0
    if n.g[WEIGHED] != 0 and not fits(n, n.ports[port].node, it.bytes):
        n.g[DROPPED] += 1
        n.ports[out].drops += 1
        free(n, item)
        return
    queue = n.queues[queue_at(n, out, priority)]
    if priority > 0:
        if not admit(n, port, queue_at(n, port, priority), it.bytes):
            n.g[DROPPED] += 1
            n.ports[out].drops += 1
            take_out(n, port, item)
            free(n, item)
            return
        queue.egress += it.bytes
        queue.most = max(queue.most, queue.egress)
        pause_if_full(n, port, priority)
    p = n.ports[out]
    it.next = 0
    if queue.head == 0:
        queue.head = item
        p.filled |= 1 << priority
    else:
        n.items[queue.tail].next = item
    queue.tail = item
    p.queued += it.bytes
    if p.busy == 0:
        serve_switch(n, out)


@inner
def fits(n: Net, node: int, size: int) -> bool:
    """Account for a packet in the whole buffer; False if it is full."""
    switch = n.nodes[node]
    if switch.held + size > switch.room:
        return False
    switch.held += size
    return True


@leaf
def take_out(n: Net, port: int, item: int) -> None:
    """Account for a packet that leaves the buffer."""
    if n.g[WEIGHED] != 0 and n.items[item].kind != PAUSE:
        n.nodes[n.ports[port].node].held -= n.items[item].bytes


@leaf
def admit(n: Net, port: int, at: int, size: int) -> bool:
    """Account for a packet in the buffer; False if there is no room for it."""
    p, queue = n.ports[port], n.queues[at]
    new = queue.ingress + size
    if new <= RESERVE:
        if size + queue.beyond > p.headroom and size > threshold(n, port):
            return False
        queue.ingress = new
        return True
    most = threshold(n, port)
    if size + queue.beyond > p.headroom and size + max(queue.ingress - RESERVE, 0) > most:
        return False
    if new - RESERVE > most:
        queue.beyond += size
    else:
        queue.ingress = new
        n.nodes[p.node].shared += min(size, new - RESERVE)
    return True


@leaf
def pause_if_full(n: Net, port: int, priority: int) -> None:
    queue = n.queues[queue_at(n, port, priority)]
    if queue.stopped == 0:
        used = max(queue.ingress - RESERVE, 0)
        if queue.beyond > 0 or used >= threshold(n, port):
            queue.stopped = 1
            send_pause(n, port, priority, state.MARKED)


@inner
def send_pause(n: Net, port: int, priority: int, stop: int) -> None:
    """Send a frame that stops (MARKED) or lets go (NONE) a priority: before all else, behind what is being sent."""
    item = take(n)
    it = n.items[item]
    it.flow, it.bytes, it.kind, it.next = 0, PAUSE_BYTES, PAUSE, 0
    it.bits = priority | stop
    next_stream(n)
    p = n.ports[port]
    queue = n.queues[port]
    if queue.head == 0:
        queue.head = item
        p.filled |= 1
    else:
        n.items[queue.tail].next = item
    queue.tail = item
    p.queued += PAUSE_BYTES
    if p.busy == 0:
        serve_frame(n, port)


@inner
def serve_frame(n: Net, port: int) -> None:
    """Send the first packet of queue 0."""
    p = n.ports[port]
    queue = n.queues[port]
    item = whole(queue.head)
    queue.head = n.items[item].next
    if queue.head == 0:
        p.filled &= 0xFE
    leave(n, port, item)


@leaf
def leave(n: Net, port: int, item: int) -> None:
    """Send a packet that has been taken from a queue."""
    p, it = n.ports[port], n.items[item]
    p.queued -= it.bytes
    take_out(n, port, item)
    if it.kind == DATA:
        at_dequeue(n, port, item)
    p.last_size = it.bytes
    p.last_time = n.g[NOW]
    transmit(n, port, item)


@inner
def serve_switch(n: Net, port: int) -> None:
    """Send the next packet of a port that is free: those of queue 0 first, then the others in turn."""
    p = n.ports[port]
    ready = p.filled & (255 ^ p.paused)
    if p.filled & 1 != 0:
        serve_frame(n, port)
        return
    if ready == 0:
        return
    priority = whole(p.turn)
    if ready != 1 << priority:
        priority = (priority + 1) & 7
        while (ready >> priority) & 1 == 0:
            priority = (priority + 1) & 7
        p.turn = priority
    queue = n.queues[queue_at(n, port, priority)]
    item = whole(queue.head)
    queue.head = n.items[item].next
    if queue.head == 0:
        p.filled &= 255 ^ (1 << priority)
    release(n, port, priority, item)
    leave(n, port, item)


@leaf
def give_back(n: Net, priority: int, item: int) -> int:
    """Take a packet out of the accounts of the port through which it came; returns its bytes."""
    size, came = whole(n.items[item].bytes), whole(n.items[item].port)
    source = n.queues[queue_at(n, came, priority)]
    beyond = min(source.beyond, size)
    used = max(source.ingress - RESERVE, 0)
    source.beyond -= beyond
    source.ingress -= size - beyond
    n.nodes[n.ports[came].node].shared -= min(size - beyond, used)
    return size


@leaf
def release(n: Net, port: int, priority: int, item: int) -> None:
    """Take a packet out of the accounts of the buffer, mark it if it leaves many behind, and let its sender go on."""
    queue = n.queues[queue_at(n, port, priority)]
    queue.egress -= give_back(n, priority, item)
    p = n.ports[port]
    if queue.egress > p.low and n.g[MARKING] != 0:
        mark(n, port, item, whole(queue.egress))
    came = whole(n.items[item].port)
    if n.queues[queue_at(n, came, priority)].stopped != 0 and may_go_on(n, came, priority):
        p.busy |= 1
        send_pause(n, came, priority, state.NONE)


@inner
def may_go_on(n: Net, came: int, priority: int) -> bool:
    """Whether there is room again for what was told to pause; it then counts as let go."""
    source = n.queues[queue_at(n, came, priority)]
    used = max(source.ingress - RESERVE, 0)
    if source.beyond == 0 and (used == 0 or used + RESUME_GAP <= threshold(n, came)):
        source.stopped = 0
        return True
    return False


@inner
def mark(n: Net, port: int, item: int, waiting: int) -> None:
    """Mark a packet that leaves more than the lower threshold behind: always, or at random."""
    p, it = n.ports[port], n.items[item]
    if waiting <= p.high:
        n.g[DRAWS] += 1
        number = first_number(n)
        next_stream(n)
        if not number < p.chance * (waiting - p.low) / (p.high - p.low):
            return
    p.marks += 1
    n.g[MARKS] += 1
    if it.kind == DATA:
        it.bits |= MARKED


@inner
def forget(n: Net, port: int, priority: int, item: int) -> None:
    """Take a packet that is dropped from a queue out of the accounts of the buffer, and let its sender go on."""
    n.queues[queue_at(n, port, priority)].egress -= give_back(n, priority, item)
    came = whole(n.items[item].port)
    if n.queues[queue_at(n, came, priority)].stopped != 0 and may_go_on(n, came, priority):
        send_pause(n, came, priority, state.NONE)
