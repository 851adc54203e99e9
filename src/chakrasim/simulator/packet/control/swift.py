"""Swift (Kumar et al., SIGCOMM 2020): round trips are held at a target, by steps up and by cuts in their excess.

The window is in bytes. Below one packet it becomes a rate, so that packets are further apart than a round trip. Left
out are the shares of the target that go by hops and by the window, and the delay of hosts, which is 0 here.
"""

from __future__ import annotations

from chakrasim.jit import inner
from chakrasim.simulator.packet.control.control import Control
from chakrasim.simulator.packet.pairs import set_rate, set_window
from chakrasim.simulator.packet.state import MIN_RATE, NACK, NOW, PAYLOAD, WORDS, Net

WAITING_NS = 10_000
"""The target: so much longer than the round trip of an empty network."""
STEP = 1.0
"""Packets that the window grows by in a round trip."""
BETA = 0.8
"""How much of the excess a cut takes."""
MOST_CUT = 0.5
"""What one cut takes at most, and what it takes for a packet that is missing."""

# Words of a flow; WINDOW is a real number.
WINDOW, CUT_AT, ACKED = range(3)


@inner
def begin(n: Net, flow: int, _: int) -> None:
    f = n.flows[flow]
    n.reals[flow * n.g[WORDS] + WINDOW] = max(f.top * f.trip / 8e9, 1.0 * n.g[PAYLOAD])
    set_window(n, flow, int(n.reals[flow * n.g[WORDS] + WINDOW]))


@inner
def on_ack(n: Net, flow: int, item: int) -> None:
    w = flow * n.g[WORDS]
    f, it = n.flows[flow], n.items[item]
    now, packet = n.g[NOW], n.g[PAYLOAD]
    trip = max(now - it.value, 1)
    target = f.trip + WAITING_NS
    window = n.reals[w + WINDOW]
    acked = max(it.seq - n.words[w + ACKED], 0)
    n.words[w + ACKED] += acked
    if trip <= target and it.kind != NACK:
        window += STEP * packet * min(1.0, acked / max(window, 1.0 * packet))
    elif now - n.words[w + CUT_AT] >= trip:
        excess = MOST_CUT if it.kind == NACK else BETA * (trip - target) / trip
        window *= 1 - min(excess, MOST_CUT)
        n.words[w + CUT_AT] = now
    least, most = n.g[MIN_RATE] * trip / 8e9, f.top * target / 8e9
    window = min(max(window, min(least, 1.0 * packet)), max(most, 1.0 * packet))
    n.reals[w + WINDOW] = window
    set_rate(n, flow, f.top if window >= packet else max(int(window * 8e9 / trip), n.g[MIN_RATE]))
    set_window(n, flow, int(window))


CONTROL = Control("Swift", begin, on_ack, words=3, header_bytes=8, stamped=True)
