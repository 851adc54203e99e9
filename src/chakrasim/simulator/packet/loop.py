"""The loop over the events of a network of packets."""

from __future__ import annotations

from typing import Final

from chakrasim.jit import inner, kernel, leaf
from chakrasim.simulator.packet import state
from chakrasim.simulator.packet.clock import free, pop, push, take
from chakrasim.simulator.packet.control.table import on_timer
from chakrasim.simulator.packet.cut import change_links
from chakrasim.simulator.packet.hosts import add_pair, on_resend, react, send_own_pause, take_ack, take_data
from chakrasim.simulator.packet.nic import serve_host
from chakrasim.simulator.packet.observed.sampling import start_monitor, tick
from chakrasim.simulator.packet.state import (
    ADD,
    ALIVE,
    APP,
    BURST,
    CUT,
    CUT_AT,
    DATA,
    DRIVEN,
    ENDED,
    EVENTS,
    INJECT,
    KEEPING,
    LET_GO,
    LOGGING,
    LOGS,
    LOST,
    MARKED,
    NOTHING,
    NOW,
    PAUSE,
    PAUSES,
    PAUSES_HELD,
    PAUSES_NOTHING,
    PENDING,
    PRIMED,
    PRIORITY,
    RECEIVED,
    RESEND,
    SAMPLE_NS,
    SAMPLES,
    SENT,
    SPARE,
    STARTED,
    TIMER,
    TOKEN,
    UNLISTED,
    WAKE,
    Net,
    whole,
)
from chakrasim.simulator.packet.streams import advance_state
from chakrasim.simulator.packet.switches import enter, serve_switch

# What `run` returns.
DRY: Final = 0
"""Nothing more happens up to the given time."""
NEEDS_ROOM: Final = 1
"""The tables must grow; then `run` goes on where it was."""
ALL_ENDED: Final = 2
"""As many flows have ended as were to be waited for."""
LINK_DOWN: Final = 3
"""Links change now: routes must be found with those that there are (`ROUTES_NEW`)."""
TURN: Final = 4
"""It is the turn of another queue, or of what waits for a flow that has ended (`ENDED`) or come (`RECEIVED`)."""
PAUSED: Final = 5

ROUTES_NEW: Final = 2
"""What g[PRIMED] is set to after LINK_DOWN, when the routes have been found anew."""
MARGIN: Final = 64
"""Items that one event takes at most, but for flows that start."""


@inner
def inject(n: Net, item: int) -> None:
    """Start all flows of this instant, then wait for the next."""
    while n.g[STARTED] < n.starts.size:
        flow = whole(n.starts[n.g[STARTED]])
        time = n.flows[flow].began
        if time > n.g[NOW]:
            push(n, item, time)
            return
        n.g[STARTED] += 1
        start = take(n)
        it = n.items[start]
        it.kind, it.flow = APP, flow
        push(n, start, time)
    free(n, item)


@leaf
def is_lost(n: Net, port: int, kind: int) -> bool:
    """Whether a packet that has come to a port is lost on its link."""
    p = n.ports[port]
    if p.busy >= 2:
        return True
    if p.loss == 0 or (kind == PAUSE and n.g[PAUSES_HELD] == 0):
        return False
    loss = n.losses[p.loss]
    return loss.rate > 0.0 and advance_state(n, loss.stream) < loss.rate


@leaf
def serve(n: Net, port: int) -> None:
    if n.ports[port].host != 0:
        serve_host(n, port)
    elif n.ports[port].busy == 0:
        serve_switch(n, port)


@inner
def take_pause(n: Net, port: int, item: int) -> None:
    """A frame stops a priority of this port, or lets it go on."""
    p, it = n.ports[port], n.items[item]
    stop = it.bits & MARKED != 0 and n.g[PAUSES_NOTHING] == 0
    row = n.pauses[n.g[PAUSES]]
    row.time, row.port, row.stop, row.priority = n.g[NOW], port, 1 if stop else 0, whole(it.bits) & PRIORITY
    n.g[PAUSES] += 1
    bit = 1 << (whole(it.bits) & PRIORITY)
    free(n, item)
    if stop:
        p.paused |= bit
    else:
        p.paused &= 255 ^ bit
        serve(n, port)


@leaf
def receive(n: Net, item: int) -> None:
    """A packet has come to the end of a link."""
    it = n.items[item]
    port = whole(it.port)
    if is_lost(n, port, it.kind):
        n.g[LOST] += 1
        free(n, item)
    elif it.kind == PAUSE:
        take_pause(n, port, item)
    elif n.ports[port].host == 0:
        enter(n, port, item)
    elif it.kind == DATA:
        take_data(n, port, item)
    else:
        take_ack(n, item)


@inner
def on_other(n: Net, item: int, kind: int) -> None:
    """What is not a packet."""
    it = n.items[item]
    port, flow = whole(it.port), whole(it.flow)
    if kind == INJECT:
        inject(n, item)
        return
    if kind == APP:
        it.kind = ADD
        push(n, item, n.g[NOW])
        return
    which = whole(it.bytes)
    bits = whole(it.bits)
    free(n, item)
    if kind == ADD:
        add_pair(n, flow)
    elif kind == WAKE:
        n.ports[port].wake = 0
        serve_host(n, port)
    elif kind == TIMER:
        if flow == 0:
            tick(n)
        else:
            on_timer(n, flow, which)
    elif kind == RESEND:
        on_resend(n, flow)
    elif kind == LET_GO:
        send_own_pause(n, port, bits & PRIORITY, state.NONE)


@inner
def prime(n: Net) -> None:
    """Schedule what happens by itself: the first flows, and the end of a link."""
    n.g[PRIMED] = 1
    if n.starts.size > 0:
        start_at(n, state.INJECT, n.flows[n.starts[0]].began)
    if n.g[CUT_AT] > 0:
        start_at(n, state.CUT, n.g[CUT_AT])
    if n.g[SAMPLE_NS] > 0:
        start_monitor(n)


@inner
def start_at(n: Net, kind: int, time: int) -> None:
    item = take(n)
    n.items[item].kind = kind
    push(n, item, time)


@leaf
def has_room(n: Net) -> bool:
    if n.g[SPARE] < n.g[BURST] or n.g[PAUSES] + 1 >= n.pauses.size:
        return False
    return n.g[KEEPING] == 0 or has_room_to_note(n)


@inner
def has_room_to_note(n: Net) -> bool:
    """Whether one more event, and one more look of the monitor, fit into the tables of what is kept."""
    if n.g[LOGGING] != 0 and n.g[LOGS] + MARGIN >= n.log.size:
        return False
    return n.g[SAMPLE_NS] == 0 or n.g[SAMPLES] + n.ports.size + n.flows.size <= n.samples.size


@kernel
def run(n: Net, until: int, flows: int, events: int) -> int:
    """Run up to a time, to the end of so many flows, or for about so many events; returns why it stopped."""
    return run_on(n, until, flows, events)


@inner
def run_on(n: Net, until: int, flows: int, events: int) -> int:
    """The same, for kernels."""
    if n.g[PRIMED] == 0:
        prime(n)
    elif n.g[PRIMED] == ROUTES_NEW:
        change_links(n)
        n.g[PRIMED] = 1
        if n.g[CUT_AT] > n.g[NOW]:
            start_at(n, state.CUT, n.g[CUT_AT])
    for _ in range(events):
        if not has_room(n):
            return NEEDS_ROOM
        if n.g[UNLISTED] != 0:
            flow = n.g[UNLISTED]
            n.g[UNLISTED] = 0
            add_pair(n, flow)
        if n.g[PENDING] != 0:
            react(n, n.g[PENDING])
        if n.g[ENDED] >= flows:
            return ALL_ENDED
        if n.g[ALIVE] == 0:
            return DRY
        item = pop(n, until)
        if item == 0:
            return DRY
        n.g[EVENTS] += 1
        kind = n.items[item].kind
        if kind != NOTHING and kind != TIMER:
            n.g[ALIVE] -= 1
        if kind == SENT:
            port = whole(n.items[item].port)
            n.ports[port].busy &= 2
            serve(n, port)
        elif DATA <= kind <= PAUSE:
            receive(n, item)
        elif kind == NOTHING:
            free(n, item)
        elif kind == CUT:
            free(n, item)
            return LINK_DOWN
        elif kind == TOKEN:
            free(n, item)
            return TURN
        else:
            on_other(n, item, kind)
        if n.g[DRIVEN] != 0 and (n.g[ENDED] > 0 or n.g[RECEIVED] > 0):
            return TURN
        if n.g[UNLISTED] != 0:
            return NEEDS_ROOM
    return PAUSED
