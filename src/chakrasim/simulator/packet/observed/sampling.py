"""The monitor: what waits at ports of switches, and the rates of flows, each so many ns.

Only what is another than at the last look is noted. The monitor is a timer like those of congestion control, of flow 0:
it brings nothing about, and where it is off there is no such timer.
"""

from __future__ import annotations

from chakrasim.jit import inner, kernel
from chakrasim.simulator.packet import state
from chakrasim.simulator.packet.clock import queue_at
from chakrasim.simulator.packet.pairs import start_timer
from chakrasim.simulator.packet.state import (
    DRIVEN,
    ENDED,
    LIVE,
    NOW,
    SAMPLE_FROM,
    SAMPLE_NS,
    SAMPLE_UNTIL,
    SAMPLED_ENDS,
    SAMPLES,
    Net,
    whole,
)

NO_FLOW = -1


@inner
def start_monitor(n: Net) -> None:
    start_timer(n, state.NONE, state.NONE, max(n.g[SAMPLE_FROM] - n.g[NOW], 0))


@inner
def tick(n: Net) -> None:
    """Look, and wait for the next time."""
    if n.g[SAMPLE_NS] == 0:
        return
    look(n)
    if n.g[NOW] + n.g[SAMPLE_NS] <= n.g[SAMPLE_UNTIL]:
        start_timer(n, state.NONE, state.NONE, n.g[SAMPLE_NS])


@kernel
def look_once(n: Net) -> None:
    """Look at the network as it is."""
    look(n)


@inner
def look(n: Net) -> None:
    """Note all queues that have changed, and the rates of flows; under a workload, where flows are messages and their
    numbers are used again, queues alone."""
    for port in range(1, n.ports.size):
        p = n.ports[port]
        if p.host == 0:
            waiting = 0 if p.queued == 0 else bytes_waiting(n, port)
            if waiting != n.seen[port]:
                n.seen[port] = waiting
                note(n, port, waiting, NO_FLOW)
        elif n.g[DRIVEN] == 0:
            for place in range(whole(p.first), whole(p.first) + whole(p.pairs)):
                flow = whole(n.pairs[place])
                f = n.flows[flow]
                if f.state == LIVE:
                    note_flow(n, flow, f.rate, f.una)
    if n.g[DRIVEN] != 0:
        return
    for place in range(n.g[SAMPLED_ENDS], n.g[ENDED]):
        flow = whole(n.ended[place])
        note_flow(n, flow, state.NONE, n.flows[flow].bytes)
    n.g[SAMPLED_ENDS] = n.g[ENDED]


@inner
def bytes_waiting(n: Net, port: int) -> int:
    """Bytes that wait to leave through a port, in all priorities."""
    total = 0
    for priority in range(8):
        total += n.queues[queue_at(n, port, priority)].egress
    return total


@inner
def note_flow(n: Net, flow: int, rate: int, una: int) -> None:
    at = n.ports.size + 2 * flow
    if n.seen[at] != rate or n.seen[at + 1] != una:
        n.seen[at], n.seen[at + 1] = rate, una
        note(n, flow, rate, una)


@inner
def note(n: Net, which: int, value: int, una: int) -> None:
    row = n.samples[n.g[SAMPLES]]
    row.time, row.value, row.una, row.which = n.g[NOW], value, una, which
    n.g[SAMPLES] += 1
