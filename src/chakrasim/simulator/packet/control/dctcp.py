"""DCTCP with rates (packet-network.md, 8.4): the rate falls by the share of marked acknowledgements."""

from __future__ import annotations

from chakrasim.jit import inner
from chakrasim.simulator.packet.control.control import Control
from chakrasim.simulator.packet.pairs import set_rate
from chakrasim.simulator.packet.state import DCTCP_AI, GAIN, MARKED, MIN_RATE, PAYLOAD, WORDS, Net

# Words of a flow; ALPHA is a real number.
UPDATED, MARKS, BATCH, REDUCED, HIGH, ALPHA = range(6)


@inner
def begin(n: Net, flow: int, _: int) -> None:
    n.reals[flow * n.g[WORDS] + ALPHA] = 1.0


@inner
def on_ack(n: Net, flow: int, item: int) -> None:
    w = flow * n.g[WORDS]
    seq, sent = n.items[item].seq, n.flows[flow].next
    marked = n.items[item].bits & MARKED != 0
    if marked:
        n.words[w + MARKS] += 1
    new = seq > n.words[w + UPDATED]
    if new:
        start = seq
        if n.words[w + UPDATED] == 0:
            start = 0
        else:
            share = min(1.0, n.words[w + MARKS] / n.words[w + BATCH])
            n.reals[w + ALPHA] = (1 - n.x[GAIN]) * n.reals[w + ALPHA] + n.x[GAIN] * share
            n.words[w + MARKS] = 0
        n.words[w + UPDATED] = sent
        n.words[w + BATCH] = (sent - start) // n.g[PAYLOAD] + 1
    if n.words[w + REDUCED] != 0 and seq > n.words[w + HIGH]:
        n.words[w + REDUCED] = 0
    rate = n.flows[flow].rate
    if marked and n.words[w + REDUCED] == 0:
        rate = max(n.g[MIN_RATE], int(rate * (1 - n.reals[w + ALPHA] / 2)))
        n.words[w + REDUCED] = 1
        n.words[w + HIGH] = sent
    if n.words[w + REDUCED] == 0 and new:
        rate = min(n.flows[flow].top, rate + n.g[DCTCP_AI])
    set_rate(n, flow, rate)


CONTROL = Control("DCTCP", begin, on_ack, words=6)
