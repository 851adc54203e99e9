"""What a transmission is: how long it takes, and the two items it schedules."""

from __future__ import annotations

from chakrasim.jit import inner, leaf
from chakrasim.simulator.packet.clock import push
from chakrasim.simulator.packet.state import LOGGING, LOGS, NOW, PACKETS, Net, whole


@inner
def serial_ns(size: int, rate: int) -> int:
    """The time of so many bytes at a rate in bit/s, as the reference's fixed-point numbers give it.

    With 64 bits behind the point the reciprocal is rounded down, so that an exact half is, too, unless the reciprocal
    is exact (packet-network.md, 1).
    """
    scaled = whole(size) * 8_000_000_000
    floor = scaled // rate
    over = 2 * (scaled - floor * rate) - rate
    if over < 0:
        return floor
    if over > rate // 9_000_000_000:
        return floor + 1
    rest = size * 8 % rate
    for _ in range(64):
        rest = 2 * rest % rate
    return floor + 1 if rest * 2e9 <= over * 2.0**64 else floor


@leaf
def transmit(n: Net, port: int, item: int) -> None:
    """Put a packet on a port's link: the port is free again first, then the packet arrives at the other end."""
    p = n.ports[port]
    it = n.items[item]
    sent = n.g[NOW] + n.times[p.row + it.bytes]
    p.busy |= 1
    p.carried += it.bytes
    n.g[PACKETS] += 1
    if n.g[LOGGING] != 0:
        note(n, port, item)
    push(n, port, sent)
    it.port = p.peer
    push(n, item, sent + p.delay)


@inner
def note(n: Net, port: int, item: int) -> None:
    """Write a transmission into the log."""
    it = n.items[item]
    row = n.log[n.g[LOGS]]
    row.time, row.seq, row.port, row.flow = n.g[NOW], it.seq, port, it.flow
    row.bytes, row.kind, row.bits = it.bytes, it.kind, it.bits
    n.g[LOGS] += 1
