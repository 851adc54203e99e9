"""Swift (Kumar et al., SIGCOMM 2020): the round trip is held at a target, by steps up and by cuts in its excess.

Of the paper's window the rate is kept: what the window lets through in a round trip. Left out are the shares of the
target that go by hops and by the window, and windows below one packet, which are paced here like all others.
"""

from __future__ import annotations

from chakrasim.jit import inner
from chakrasim.simulator.packet.control.control import Control
from chakrasim.simulator.packet.pairs import set_rate
from chakrasim.simulator.packet.state import AI, MIN_RATE, NACK, NOW, WORDS, Net

WAITING_NS = 10_000
"""The target: so much longer than the round trip of an empty network."""
BETA = 0.8
"""How much of the excess a cut takes."""
MOST_CUT = 0.5
"""What one cut takes at most, and what it takes for a packet that is missing."""

# Words of a flow; RATE is a real number.
RATE, CUT_AT, ACKED = range(3)


@inner
def begin(n: Net, flow: int, _: int) -> None:
    n.reals[flow * n.g[WORDS] + RATE] = n.flows[flow].rate


@inner
def on_ack(n: Net, flow: int, item: int) -> None:
    w = flow * n.g[WORDS]
    f, it = n.flows[flow], n.items[item]
    trip = max(n.g[NOW] - it.value, 1)
    target = f.trip + WAITING_NS
    rate = n.reals[w + RATE]
    acked = max(it.seq - n.words[w + ACKED], 0)
    n.words[w + ACKED] += acked
    if trip <= target and it.kind != NACK:
        # RATE_AI in a round trip: an acknowledgement has its share of the bytes that one lets through.
        rate += n.g[AI] * min(1.0, acked * 8e9 / (rate * trip))
    elif n.g[NOW] - n.words[w + CUT_AT] >= trip:
        excess = MOST_CUT if it.kind == NACK else BETA * (trip - target) / trip
        rate *= 1 - min(excess, MOST_CUT)
        n.words[w + CUT_AT] = n.g[NOW]
    rate = min(max(rate, float(n.g[MIN_RATE])), float(f.top))
    n.reals[w + RATE] = rate
    set_rate(n, flow, int(rate))


CONTROL = Control("Swift", begin, on_ack, words=3, header_bytes=8, stamped=True)
