"""HPCC-PINT (packet-network.md, 8.5): one byte has the load of the busiest switch, drawn between two powers."""

from __future__ import annotations

import math

from chakrasim.jit import inner
from chakrasim.simulator.packet.control.control import Control
from chakrasim.simulator.packet.control.hpcc import aimed
from chakrasim.simulator.packet.pairs import change_rate
from chakrasim.simulator.packet.state import (
    MOST_RTT,
    NOW,
    PINT_LIMIT,
    PINT_LOG_BASE,
    TWO,
    U_TARGET,
    WORDS,
    Net,
    whole,
)
from chakrasim.simulator.packet.streams import c_rand

SCALE = 32768.0
NO_LOG = -2147483648.0
"""What the logarithm of 0 is, cut to an integer: so little that its power is 0."""
# Words of a flow.
UPDATED, CURRENT, STAGE = range(3)


@inner
def begin(n: Net, flow: int, _: int) -> None:
    n.words[flow * n.g[WORDS] + CURRENT] = n.flows[flow].rate


@inner
def log_drawn(n: Net, value: int) -> float:
    """log2 in units of 2^-15, truncated, of a number rounded at random to its 16 highest bits."""
    if value <= 0:
        return NO_LOG
    bits, rest = 0, value
    while rest > 0xFFFF:
        rest >>= 1
        bits += 1
    if bits > 0:
        mask = (1 << bits) - 1
        rest += 1 if (value & mask) > (c_rand(n) & mask) else 0
        rest <<= bits
    return float(int(math.log2(rest) * SCALE))


@inner
def log_exact(value: float) -> float:
    return math.log2(value) * SCALE


@inner
def at_dequeue(n: Net, port: int, item: int) -> None:
    """Renew the port's use, and let the packet carry the largest of its way.

    The base 2 is read from a table, since a compiler may make another function of a power of a constant.
    """
    p, it = n.ports[port], n.items[item]
    span = n.g[MOST_RTT]
    gap = min(n.g[NOW] - p.last_time, span)
    second, speed, period = log_exact(1e9), log_exact(float(p.rate // 8)), log_exact(float(span))
    use = 0.0
    waiting = whole(p.queued)
    if waiting >= 256:
        drawn = log_drawn(n, gap) + log_drawn(n, waiting >> 8)
        use += math.pow(n.x[TWO], (drawn + second - speed - 2 * period) / SCALE) * 256
    if p.last_size > 0:
        use += math.pow(n.x[TWO], (log_drawn(n, whole(p.last_size)) + second - speed - period) / SCALE)
    if span > gap and p.usage > 0:
        old = math.floor(8192 * p.usage + 0.5)
        use += math.pow(n.x[TWO], (log_drawn(n, span - gap) + log_drawn(n, old) - period) / SCALE) / 8192
    it.value = max(it.value, encoded(n, use))
    p.usage = use


@inner
def encoded(n: Net, use: float) -> int:
    base = n.x[PINT_LOG_BASE]
    count = max(1.0, math.ceil(512 * use))
    power = math.log(count) / math.log(base)
    up, low = math.ceil(power), math.floor(power)
    above, below = math.pow(base, float(up)), math.pow(base, float(low))
    if above == below:
        above *= base
    drawn = c_rand(n) % 65536
    return int(up) if drawn < (count - below) / (above - below) * 65536 else int(low)


@inner
def on_ack(n: Net, flow: int, item: int) -> None:
    if c_rand(n) % 65536 >= n.g[PINT_LIMIT]:
        return
    w = flow * n.g[WORDS]
    f = n.flows[flow]
    updated = n.words[w + UPDATED]
    full = n.items[item].seq > updated
    if updated == 0:
        n.words[w + UPDATED] = f.next
        return
    over = math.pow(n.x[PINT_LOG_BASE], float(n.items[item].value)) / 512 / n.x[U_TARGET]
    rate, stage = aimed(n, n.words[w + CURRENT], n.words[w + STAGE], over, f.top)
    change_rate(n, flow, rate)
    if full:
        n.words[w + CURRENT], n.words[w + STAGE] = rate, stage
        n.words[w + UPDATED] = max(updated, f.next)


CONTROL = Control("HPCC-PINT", begin, on_ack, at_dequeue=at_dequeue, words=3, header_bytes=2)
