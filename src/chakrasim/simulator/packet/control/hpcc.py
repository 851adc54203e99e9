"""HPCC (packet-network.md, 8.2): switches write down their load, senders aim at a share of it."""

from __future__ import annotations

import math

from chakrasim.jit import inner
from chakrasim.simulator.packet.control.control import Control
from chakrasim.simulator.packet.pairs import LARGE, as_rate, change_rate
from chakrasim.simulator.packet.state import (
    AI,
    FAST_REACT,
    HOP,
    HOPS_SHIFT,
    INFINITE_IS_ZERO,
    INT_UNIT,
    LINE_RATES,
    MI_THRESHOLD,
    MIN_RATE,
    MOST_HOPS,
    MULTI_RATE,
    NOW,
    RECORDS,
    SAMPLE_FEEDBACK,
    U_TARGET,
    WORDS,
    Net,
    whole,
)

TIME_BITS, BYTES_BITS, QUEUE_BITS = 24, 20, 17
HEADER_BYTES = 42
"""Room for five records, and their number."""
# Words of a flow, then those of each hop (where there is one rate the first has it); USE is a real number.
UPDATED, HOPS = 0, 1
RECORD, CURRENT, STAGE, USE, HOP_WORDS = range(5)


@inner
def begin(n: Net, flow: int, _: int) -> None:
    w = flow * n.g[WORDS] + HOPS
    for hop in range(n.g[MOST_HOPS]):
        n.words[w + HOP_WORDS * hop + CURRENT] = n.flows[flow].rate
        n.reals[w + HOP_WORDS * hop + USE] = 1.0


@inner
def at_dequeue(n: Net, port: int, item: int) -> None:
    """Write the port's record into a data packet: time, bytes sent, bytes waiting, and the code of its rate."""
    p, it = n.ports[port], n.items[item]
    hop = whole(it.bits) >> HOPS_SHIFT
    unit = n.g[INT_UNIT]
    time = n.g[NOW] & ((1 << TIME_BITS) - 1)
    sent = p.carried // (128 * unit) & ((1 << BYTES_BITS) - 1)
    waiting = p.queued // (80 * unit) & ((1 << QUEUE_BITS) - 1)
    low = time | sent << TIME_BITS | waiting << (TIME_BITS + BYTES_BITS)
    at = hop % n.g[MOST_HOPS]
    n.records[item * n.g[RECORDS] + at] = low + (whole(p.code) - 4) * (1 << 61)
    if hop <= n.g[MOST_HOPS]:
        it.bits += HOP


@inner
def on_ack(n: Net, flow: int, item: int) -> None:
    w = flow * n.g[WORDS]
    full = n.items[item].seq > n.words[w + UPDATED]
    if not full and n.g[FAST_REACT] == 0:
        return
    hops = whole(n.items[item].bits) >> HOPS_SHIFT
    sent = n.flows[flow].next
    if n.words[w + UPDATED] == 0:
        n.words[w + UPDATED] = sent
        for hop in range(min(hops, n.g[MOST_HOPS])):
            n.words[w + HOPS + HOP_WORDS * hop + RECORD] = n.records[item * n.g[RECORDS] + hop]
        return
    if hops <= n.g[MOST_HOPS]:
        update(n, flow, item, hops, full)
    if full and sent > n.words[w + UPDATED]:
        n.words[w + UPDATED] = sent


@inner
def update(n: Net, flow: int, item: int, hops: int, full: bool) -> None:
    """Take what the switches wrote, and set the rate for the busiest, or to the least of what each asks for."""
    f = n.flows[flow]
    w = flow * n.g[WORDS] + HOPS
    rate = f.top
    any_read, most, most_ns = False, 0.0, 0
    for hop in range(hops):
        record = n.records[item * n.g[RECORDS] + hop]
        old = n.words[w + RECORD]
        queue_shift = TIME_BITS + BYTES_BITS
        waiting = record >> queue_shift & ((1 << QUEUE_BITS) - 1)
        if waiting == 0 and not full and n.g[SAMPLE_FEEDBACK] != 0:
            rate = min(rate, n.words[w + CURRENT])
            w += HOP_WORDS
            continue
        any_read = True
        gap = (record - old) & ((1 << TIME_BITS) - 1)
        sent = ((record >> TIME_BITS) - (old >> TIME_BITS)) & ((1 << BYTES_BITS) - 1)
        sent = sent * 128 * n.g[INT_UNIT]
        waiting = min(waiting, old >> queue_shift & ((1 << QUEUE_BITS) - 1)) * 80 * n.g[INT_UNIT]
        line = n.x[LINE_RATES + (record >> 61) + 4]
        use = ratio(float(sent * 8), gap * 1e-9) / line + ratio(float(waiting) * f.top / line, float(f.window))
        n.words[w + RECORD] = record
        if n.g[MULTI_RATE] != 0:
            rate = min(rate, step(n, flow, w, use, min(gap, f.trip), full))
        elif use > most:
            most, most_ns = use, gap
        w += HOP_WORDS
    if any_read:
        if n.g[MULTI_RATE] == 0:
            rate = step(n, flow, flow * n.g[WORDS] + HOPS, most, min(most_ns, f.trip), full)
        change_rate(n, flow, rate)


@inner
def step(n: Net, flow: int, w: int, use: float, gap: int, full: bool) -> int:
    """The rate for a hop's use over the last so many ns, smoothed; a full update is the base of the next."""
    f = n.flows[flow]
    n.reals[w + USE] = (n.reals[w + USE] * (f.trip - gap) + use * gap) / float(f.trip)
    over = n.reals[w + USE] / n.x[U_TARGET]
    rate, stage = aimed(n, n.words[w + CURRENT], n.words[w + STAGE], over, f.top)
    if full:
        n.words[w + CURRENT], n.words[w + STAGE] = rate, stage
    return rate


@inner
def aimed(n: Net, current: int, stage: int, over: float, top: int) -> tuple[int, int]:
    """The rate and the stage behind a base rate and its stage, where the use is so many times the wanted one."""
    rate, stage = current + n.g[AI], stage + 1
    if over >= 1 or stage > n.g[MI_THRESHOLD]:
        infinite = 0 if n.g[INFINITE_IS_ZERO] != 0 else LARGE
        rate = as_rate(ratio(float(current), over), infinite) + n.g[AI]
        stage = 0
    return min(max(rate, n.g[MIN_RATE]), top), stage


@inner
def ratio(a: float, b: float) -> float:
    """a / b, infinite or no number where b is 0."""
    if b == 0.0:
        return math.inf if a > 0.0 else math.nan
    return a / b


CONTROL = Control(
    "HPCC", begin, on_ack, at_dequeue=at_dequeue, words=HOPS, words_a_hop=HOP_WORDS, header_bytes=HEADER_BYTES
)
