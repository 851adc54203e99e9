"""DCQCN (packet-network.md, 8.1): marks cut the rate, timers bring it back."""

from __future__ import annotations

from chakrasim.jit import inner
from chakrasim.simulator.packet.control.control import Control
from chakrasim.simulator.packet.pairs import is_over, set_rate, start_timer, stop_timer
from chakrasim.simulator.packet.state import (
    AI,
    ALPHA_NS,
    CLAMP_TARGET,
    DECREASE_NS,
    GAIN,
    HAI,
    MARKED,
    MIN_RATE,
    RECOVERY_NS,
    RECOVERY_STAGES,
    WORDS,
    Net,
    whole,
)

# Words of a flow; ALPHA is a real number.
ALPHA, TARGET, STAGE, SEEN, CUT, STARTED = range(6)
TIMERS = 6
"""The items of its three timers, which are numbered:"""
ALPHA_TIMER, DECREASE_TIMER, INCREASE_TIMER = range(3)


@inner
def begin(n: Net, flow: int, _: int) -> None:
    w = flow * n.g[WORDS]
    n.words[w + TARGET] = n.flows[flow].rate


@inner
def end(n: Net, flow: int, _: int) -> None:
    w = flow * n.g[WORDS] + TIMERS
    for timer in range(3):
        stop_timer(n, n.words[w + timer])
        n.words[w + timer] = 0


@inner
def on_ack(n: Net, flow: int, item: int) -> None:
    if n.items[item].bits & MARKED == 0 or is_over(n, flow):
        return
    w = flow * n.g[WORDS]
    n.words[w + SEEN] = n.words[w + CUT] = 1
    if n.words[w + STARTED] == 0:
        n.words[w + STARTED] = 1
        n.reals[w + ALPHA] = 1.0
        n.words[w + SEEN] = 0
        n.words[w + TIMERS + ALPHA_TIMER] = start_timer(n, flow, whole(ALPHA_TIMER), n.g[ALPHA_NS])
        n.words[w + TIMERS + DECREASE_TIMER] = start_timer(n, flow, whole(DECREASE_TIMER), n.g[DECREASE_NS] + 1)
        n.words[w + TARGET] = n.flows[flow].rate


@inner
def on_timer(n: Net, flow: int, which: int) -> None:
    w = flow * n.g[WORDS]
    wait = n.g[ALPHA_NS] if which == ALPHA_TIMER else n.g[DECREASE_NS] if which == DECREASE_TIMER else n.g[RECOVERY_NS]
    n.words[w + TIMERS + which] = start_timer(n, flow, which, wait)
    if which == ALPHA_TIMER:
        more = n.x[GAIN] if n.words[w + SEEN] != 0 else 0.0
        n.reals[w + ALPHA] = (1 - n.x[GAIN]) * n.reals[w + ALPHA] + more
        n.words[w + SEEN] = 0
    elif which == INCREASE_TIMER:
        increase(n, flow, w)
    elif n.words[w + CUT] != 0:
        rate = n.flows[flow].rate
        if n.g[CLAMP_TARGET] != 0 or n.words[w + STAGE] != 0:
            n.words[w + TARGET] = rate
        set_rate(n, flow, max(n.g[MIN_RATE], int(rate * (1 - n.reals[w + ALPHA] / 2))))
        n.words[w + STAGE] = n.words[w + CUT] = 0
        stop_timer(n, n.words[w + TIMERS + INCREASE_TIMER])
        n.words[w + TIMERS + INCREASE_TIMER] = start_timer(n, flow, whole(INCREASE_TIMER), n.g[RECOVERY_NS])


@inner
def increase(n: Net, flow: int, w: int) -> None:
    """Half way to the target, which rises itself after some steps."""
    stage = n.words[w + STAGE]
    if stage >= n.g[RECOVERY_STAGES]:
        step = n.g[AI] if stage == n.g[RECOVERY_STAGES] else n.g[HAI]
        n.words[w + TARGET] = min(n.words[w + TARGET] + step, n.flows[flow].top)
    set_rate(n, flow, n.flows[flow].rate // 2 + n.words[w + TARGET] // 2)
    n.words[w + STAGE] = stage + 1


CONTROL = Control("DCQCN", begin, on_ack, on_timer, end, words=9)
