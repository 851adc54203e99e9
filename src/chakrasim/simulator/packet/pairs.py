"""Queue pairs: what each may send, and what changes that."""

from __future__ import annotations

from chakrasim.jit import inner, leaf
from chakrasim.simulator.packet.clock import push, take
from chakrasim.simulator.packet.state import (
    ALIVE,
    DONE,
    GIVEN_UP,
    HELD,
    LEAST_WINDOW,
    NOTHING,
    NOW,
    OVER,
    TIMER,
    WAKE,
    WINDOWS_VARY,
    WRAPS,
    Net,
    whole,
)
from chakrasim.simulator.packet.wire import serial_ns

LARGE = 1 << 62


@leaf
def code_of(n: Net, flow: int) -> int:
    """A queue pair's priority if it has bytes to send and room in its window, else HELD or DONE."""
    f = n.flows[flow]
    if f.next < f.bytes and f.state != GIVEN_UP:
        flight = f.next - f.una
        if f.bound == 0 or (flight < f.bound and (flight >= 0 or n.g[WRAPS] == 0)):
            return f.priority
    return DONE if f.una >= f.bytes else HELD


@leaf
def refresh(n: Net, flow: int) -> None:
    """Have the list of its port know what a queue pair may do."""
    f = n.flows[flow]
    if f.place != LEFT:
        n.codes[n.ports[f.nic].first + f.place] = code_of(n, flow)


@leaf
def join_list(n: Net, flow: int) -> None:
    """Put a queue pair behind the others of its port."""
    f = n.flows[flow]
    p = n.ports[f.nic]
    f.place = p.pairs
    p.pairs += 1
    n.pairs[p.first + f.place] = flow
    n.codes[p.first + f.place] = code_of(n, flow)


LEFT = 0xFFFFFFFF
"""The place of a queue pair that is in no list."""


@leaf
def set_rate(n: Net, flow: int, rate: int) -> None:
    """Give a queue pair another rate, from its next packet on."""
    f = n.flows[flow]
    if f.rate == rate:
        return
    f.rate = rate
    if n.g[WINDOWS_VARY] != 0 and f.window > 0:
        f.bound = max(scaled_window(f.window, rate, f.top), n.g[LEAST_WINDOW])
        refresh(n, flow)


@leaf
def set_window(n: Net, flow: int, window: int) -> None:
    """Let a queue pair have so many bytes under way, 1 at least."""
    n.flows[flow].bound = max(window, n.g[LEAST_WINDOW], 1)
    refresh(n, flow)


@inner
def scaled_window(window: int, rate: int, top: int) -> int:
    """floor(window rate / top), 1 at least."""
    if rate == top:
        return window
    if window < LARGE // rate:
        return max(1, window * rate // top)
    return max(1, int(float(window) * (float(rate) / float(top))))


@leaf
def change_rate(n: Net, flow: int, rate: int) -> None:
    """Give a queue pair another rate at once: the gap behind its last packet becomes what the new rate asks for."""
    f = n.flows[flow]
    if f.rate != rate:
        f.avail += serial_ns(whole(f.last), rate) - serial_ns(whole(f.last), f.rate)
    p = n.ports[f.nic]
    if p.wake != 0 and f.avail < p.wake_at:
        call_off(n, p.wake)
        wake_at(n, whole(f.nic), max(f.avail, n.g[NOW]))
    set_rate(n, flow, rate)


@inner
def wake_at(n: Net, port: int, time: int) -> None:
    """Have a host's port try to send at a time."""
    item = take(n)
    it = n.items[item]
    it.kind, it.port = WAKE, port
    p = n.ports[port]
    p.wake, p.wake_at = item, time
    push(n, item, time)


@inner
def start_timer(n: Net, flow: int, which: int, ns: int) -> int:
    """Have a flow's congestion control called again; returns the item, for `stop_timer`.

    A timer alone brings nothing about: where nothing else is to come, the run is over.
    """
    item = take(n)
    it = n.items[item]
    it.kind, it.flow, it.bytes = TIMER, flow, which
    push(n, item, n.g[NOW] + ns)
    n.g[ALIVE] -= 1
    return item


@leaf
def call_off(n: Net, item: int) -> None:
    """Have an item that is no timer do nothing when its time comes."""
    n.items[item].kind = NOTHING
    n.g[ALIVE] -= 1


@leaf
def stop_timer(n: Net, item: int) -> None:
    """Call a timer off; it is freed when its time comes."""
    if item != 0:
        n.items[item].kind = NOTHING


@leaf
def is_over(n: Net, flow: int) -> bool:
    return n.flows[flow].state == OVER


@leaf
def as_rate(value: float, infinite: int) -> int:
    """A double as a rate, truncated. ``infinite`` is what stands for what no rate can be."""
    if value != value:
        return LARGE
    if value >= 1.8446744073709552e19:
        return infinite
    return LARGE if value >= LARGE else int(value)
