"""TIMELY (packet-network.md, 8.3): the rate follows the round trip and its gradient."""

from __future__ import annotations

from chakrasim.jit import inner
from chakrasim.simulator.packet.control.control import Control
from chakrasim.simulator.packet.pairs import set_rate
from chakrasim.simulator.packet.state import AI, HAI, MIN_RATE, NOW, WORDS, Net

BETA = 0.8
LOW_NS = 50_000
HIGH_NS = 500_000
LEAST_NS = 20_000
STEPS = 5
"""Increases by the small step before the large one."""

# Words of a flow; GRADIENT is a real number: the smoothed difference of round trips.
UPDATED, ROUND_TRIP, CURRENT, STAGE, GRADIENT = range(5)


@inner
def begin(n: Net, flow: int, _: int) -> None:
    n.words[flow * n.g[WORDS] + CURRENT] = n.flows[flow].rate


@inner
def on_ack(n: Net, flow: int, item: int) -> None:
    w = flow * n.g[WORDS]
    updated, sent = n.words[w + UPDATED], n.flows[flow].next
    if n.items[item].seq <= updated:
        return
    trip = n.g[NOW] - n.items[item].value
    if updated != 0:
        adjust(n, flow, w, trip)
    if sent > updated:
        n.words[w + UPDATED] = sent
        n.words[w + ROUND_TRIP] = trip


@inner
def adjust(n: Net, flow: int, w: int, trip: int) -> None:
    n.reals[w + GRADIENT] = (1 - 0.875) * n.reals[w + GRADIENT] + 0.875 * (trip - n.words[w + ROUND_TRIP])
    gradient = n.reals[w + GRADIENT] / LEAST_NS
    current = n.words[w + CURRENT]
    if trip < LOW_NS or (trip <= HIGH_NS and gradient <= 0):
        step = n.g[AI] if n.words[w + STAGE] < STEPS else n.g[HAI]
        current = min(n.flows[flow].top, current + step)
        n.words[w + STAGE] += 1
    else:
        share = 1 - BETA * (1 - HIGH_NS / trip) if trip > HIGH_NS else max(0.0, 1 - BETA * gradient)
        current = max(n.g[MIN_RATE], int(current * share))
        n.words[w + STAGE] = 0
    n.words[w + CURRENT] = current
    set_rate(n, flow, current)


CONTROL = Control("TIMELY", begin, on_ack, words=5, header_bytes=8, stamped=True)
