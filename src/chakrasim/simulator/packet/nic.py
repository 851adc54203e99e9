"""Ports of hosts: acknowledgements first, then the queue pairs in turn."""

from __future__ import annotations

from chakrasim.jit import inner, leaf
from chakrasim.simulator.packet.clock import NEVER, take
from chakrasim.simulator.packet.pairs import LEFT, code_of, wake_at
from chakrasim.simulator.packet.state import (
    ABSENT,
    DATA,
    DONE,
    DRIVEN,
    FREE_FLOW,
    HEADER,
    HELD,
    NOW,
    OVER,
    PAUSE,
    PAUSES_HELD,
    PAYLOAD,
    RATE_BOUND,
    STAMPED,
    WAKE_OF_ALL,
    Net,
    whole,
)
from chakrasim.simulator.packet.wire import serial_ns, transmit


@inner
def serve_host(n: Net, port: int) -> None:
    """Send what may be sent through a host's port, if it is free."""
    p = n.ports[port]
    if p.busy != 0:
        return
    acks = n.queues[port]
    if acks.head != 0 and ((p.paused >> p.acks) & 1 == 0 or passes(n, acks.head)):
        item = whole(acks.head)
        acks.head = n.items[item].next
        transmit(n, port, item)
    elif p.pairs > 0:
        chosen = choose(n, port)
        if chosen >= 0:
            send_data(n, port, chosen)
        elif p.wake == 0:
            time = next_time(n, port)
            if n.g[NOW] < time < NEVER:
                wake_at(n, port, time)


@leaf
def passes(n: Net, item: int) -> bool:
    """Whether the first of a host's frames may leave while acknowledgements are paused."""
    return n.items[item].kind == PAUSE and n.g[PAUSES_HELD] == 0


@inner
def choose(n: Net, port: int) -> int:
    """The place of the queue pair whose turn it is, -1 if none may send. Those that have ended leave the list, if one
    of them was met."""
    p = n.ports[port]
    count = whole(p.pairs)
    place = (p.served + 1) % count
    lowest = count
    chosen = -1
    for _ in range(count):
        code = n.codes[p.first + place]
        if code < HELD:
            if (p.paused >> code) & 1 == 0 and n.flows[n.pairs[p.first + place]].avail <= n.g[NOW]:
                chosen = place
                break
        elif code == DONE:
            lowest = min(lowest, place)
        place += 1
        if place == count:
            place = 0
    if lowest < count:
        chosen = remove_done(n, port, lowest, chosen)
    return chosen


@inner
def remove_done(n: Net, port: int, lowest: int, chosen: int) -> int:
    """Take those that have ended out of the list from a place on; returns the new place of the one chosen."""
    p = n.ports[port]
    first = whole(p.first)
    kept = lowest
    leave_list(n, whole(n.pairs[first + lowest]))
    for place in range(lowest + 1, whole(p.pairs)):
        flow = whole(n.pairs[first + place])
        if n.codes[first + place] == DONE:
            leave_list(n, flow)
            continue
        if place == chosen:
            chosen = kept
        n.pairs[first + kept] = flow
        n.codes[first + kept] = n.codes[first + place]
        n.flows[flow].place = kept
        kept += 1
    p.pairs = kept
    return chosen


@inner
def leave_list(n: Net, flow: int) -> None:
    """A queue pair has left the list of its port; under a workload its record is used again."""
    f = n.flows[flow]
    f.place = LEFT
    if n.g[DRIVEN] != 0 and f.state == OVER and f.clean != 0:
        f.state = ABSENT
        f.timer = n.g[FREE_FLOW]
        n.g[FREE_FLOW] = flow


@leaf
def send_data(n: Net, port: int, place: int) -> None:
    """Send the next packet of the queue pair at a place of the list."""
    p = n.ports[port]
    p.served = place
    flow = whole(n.pairs[p.first + place])
    f = n.flows[flow]
    item = take(n)
    it = n.items[item]
    payload = min(f.bytes - f.next, n.g[PAYLOAD])
    size = payload + n.g[HEADER]
    it.flow, it.bytes, it.kind, it.bits = flow, size, DATA, f.priority
    it.seq = f.next
    it.value = n.g[NOW] if n.g[STAMPED] != 0 else 0
    f.next += payload
    n.codes[p.first + place] = code_of(n, flow)
    transmit(n, port, item)
    f.last = size
    if n.g[RATE_BOUND] == 0 or f.rate == p.rate:
        f.avail = n.g[NOW] + n.times[p.row + it.bytes]
    else:
        f.avail = n.g[NOW] + serial_ns(size, f.rate)


@inner
def next_time(n: Net, port: int) -> int:
    """When the next queue pair may send. The reference looks at those that wait for something else, too."""
    p = n.ports[port]
    time = NEVER
    for place in range(whole(p.first), whole(p.first) + whole(p.pairs)):
        code = n.codes[place]
        if n.g[WAKE_OF_ALL] != 0 or (code < HELD and (p.paused >> code) & 1 == 0):
            time = min(time, n.flows[n.pairs[place]].avail)
            if time <= n.g[NOW]:
                break
    return time
