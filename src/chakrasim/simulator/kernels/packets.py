"""A workload on a network of packets: one queue orders the events of both.

The network's queue is that of all: each event of the engine has a token there, in the place where the engine scheduled
it, and the engine takes its own next event when a token's turn comes. A message becomes a flow at the instant at which
it is sent; its arrival is told when the sender has the last acknowledgement, to the sender first, as the reference
does, or, without that fault, to the receiver when the last byte is there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from chakrasim.jit import inner, kernel
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.clock import Words, release
from chakrasim.simulator.kernels.loop import arrive, run_call, run_on, short_of_space
from chakrasim.simulator.packet import loop as packets
from chakrasim.simulator.packet.clock import NEVER, push, take
from chakrasim.simulator.packet.flows import FIRST_PORT, PORTS, PRIORITY, TARGET_PORT
from chakrasim.simulator.packet.pairs import LEFT
from chakrasim.simulator.packet.state import (
    APP,
    BURST,
    ENDED,
    EVENTS,
    FLOWS_USED,
    FREE_FLOW,
    NOW,
    PAYLOAD,
    RECEIVED,
    SPARE,
    TOKEN,
    WORDS,
    Longs,
    Net,
    Reals,
)

# Whose turn it is: `Messages.state[TURN_OF]`.
TURN_OF, COUNT = 0, 1
NETWORK, ARRIVALS, ENGINE = 0, 1, 2


class Messages(NamedTuple):
    """Messages on their way through a network of packets.

    Attributes
    ----------
    trips, windows, delays
        int64[hosts, hosts]: by source and target: base round trip in ns, window in bytes (0: none), delay in ns
    packets
        int64[hosts, hosts]: ns in which one packet crosses all links, their delay apart
    sent
        int64[hosts, hosts]: messages so far
    record, number
        int64[flows]: by flow, the engine's message, and its place in the log
    way_ns, way_rate, way_wire
        int64[w], int64[w], float64[w]: by the number of a message's own way (0: none), the ns from its sending to its
        arrival beside its transmission, as the library takes them, the most bit/s (0: as links allow), and the bytes on
        links for each of its bytes
    way_free
        int64[w]: when the messages before have gone out at that rate, ns; -1 where several ranks have ways of a number
    way_at, way_port
        int64[w + 1], int64[p]: of ways of their own, the port of the source less the first, from ``way_at`` on: one, or
        one for each rank
    log
        records of all messages in the order of sending
    state
        int64[2]: whose turn it is, and how many messages were sent
    """

    trips: Longs
    windows: Longs
    delays: Longs
    packets: Longs
    sent: Longs
    record: Longs
    number: Longs
    way_ns: Longs
    way_rate: Longs
    way_wire: Reals
    way_free: Longs
    way_at: Longs
    way_port: Longs
    log: Any
    state: Longs


@inner
def tell_network(m: Words, n: Net, t: Messages) -> bool:
    """Enter what was scheduled and sent into the network's queue, in order; False where there is no room for it."""
    while m[at.OUTBOX] != 0:
        entry = m[at.OUTBOX]
        if n.g[SPARE] < n.g[BURST]:
            return False
        message = m[entry + at.POST_MESSAGE]
        item = 0
        time = m[entry + at.POST_TIME]
        if message == 0:
            item = take(n)
            n.items[item].kind = TOKEN
        else:
            flow = new_flow(m, n, t, message)
            if flow == 0:
                return False
            item = take(n)
            n.items[item].kind = APP
            n.items[item].flow = flow
            time = start_ns(m, n, t, flow, time)
            t.log[t.number[flow]].start = time
        push(n, item, time)
        m[at.OUTBOX] = m[entry + at.POST_NEXT]
        release(m, entry, at.POST_WORDS)
    return True


@inner
def start_ns(m: Words, n: Net, t: Messages, flow: int, time: int) -> int:
    """When a message is sent that is ready at a time: so late that it takes as long as its own way says, if links are
    faster, and behind those before it on that way."""
    way = m[t.record[flow] + at.MSG_ROUTE]
    f = n.flows[flow]
    early = t.way_ns[way] - f.patience
    if t.way_rate[way] > 0:
        # The last packet is as fast as the links, not as the rate.
        last = min(f.bytes, (f.bytes - 1) % n.g[PAYLOAD] + 1)
        early += int(8e9 * last / t.way_rate[way]) - t.packets[f.source, f.target] * last // n.g[PAYLOAD]
    time += max(0, early)
    if t.way_free[way] >= 0:
        time = max(time, t.way_free[way])
        t.way_free[way] = time + int(8e9 * f.bytes / t.way_rate[way])
    return time


@inner
def new_flow(m: Words, n: Net, t: Messages, message: int) -> int:
    """The flow of a message; 0 where there is no room for it."""
    flow = n.g[FREE_FLOW]
    if t.state[COUNT] == t.log.size or (flow == 0 and n.g[FLOWS_USED] + 1 == n.flows.size):
        return 0
    if flow != 0:
        n.g[FREE_FLOW] = n.flows[flow].timer
    else:
        n.g[FLOWS_USED] += 1
        flow = n.g[FLOWS_USED]
    source, target = m[message + at.MSG_AT], m[message + at.MSG_TO]
    f = n.flows[flow]
    f.next = f.una = f.expected = f.acked = f.nack_until = f.nack_last = 0
    f.last = f.told = f.tries = f.retreats = f.timer = 0
    f.place = LEFT
    way = m[message + at.MSG_ROUTE]
    f.bytes = int(m[message + at.MSG_BYTES] * t.way_wire[way])
    f.top = t.way_rate[way]
    f.source, f.target, f.priority = source, target, PRIORITY
    f.window = f.bound = t.windows[source, target]
    f.trip, f.patience = t.trips[source, target], t.delays[source, target]
    port = FIRST_PORT
    if t.way_at[way] < t.way_at[way + 1]:
        port += t.way_port[t.way_at[way] + (source if t.way_at[way] + 1 < t.way_at[way + 1] else 0)]
    else:
        port += t.sent[source, target] % (PORTS - FIRST_PORT)
        t.sent[source, target] += 1
    f.ports = port | TARGET_PORT << 16
    for word in range(flow * n.g[WORDS], (flow + 1) * n.g[WORDS]):
        n.words[word] = 0
    t.record[flow] = message
    t.number[flow] = t.state[COUNT]
    row = t.log[t.state[COUNT]]
    row.source, row.target, row.port, row.total, row.start = source, target, port, f.bytes, m[at.NOW]
    row.took = -1
    t.state[COUNT] += 1
    return flow


@inner
def tell_engine(m: Words, n: Net, t: Messages) -> None:
    """Tell of the message that has come, or that the sender knows to have come."""
    m[at.NOW] = n.g[NOW]
    if n.g[RECEIVED] != 0:
        flow = n.g[RECEIVED]
        n.g[RECEIVED] = 0
        arrive(m, m[t.record[flow] + at.MSG_ENTRY], at.NONE, m[at.ROOT])
    if n.g[ENDED] > 0:
        flow = n.ended[0]
        n.g[ENDED] = 0
        message = t.record[flow]
        entry, call = m[message + at.MSG_ENTRY], m[message + at.MSG_CALL]
        t.log[t.number[flow]].took = n.flows[flow].ended - n.flows[flow].began
        release(m, message, at.MSG_WORDS)
        if n.flows[flow].told == 0:
            arrive(m, entry, call, m[at.ROOT])
        elif call != 0:
            run_call(m, call)


@kernel
def run_packets(m: Words, n: Net, t: Messages, steps: int) -> int:
    """Run at most about so many events or tasks of the engine; returns why it stopped."""
    if m[at.FIRED] < m[at.SLOTS] and run_on(m, at.NO_STEPS) == at.NEED_SPACE:
        return at.NEED_SPACE
    done, moved = m[at.EVENTS], n.g[EVENTS]
    while m[at.EVENTS] - done <= steps and n.g[EVENTS] - moved <= 4 * steps:
        if not tell_network(m, n, t):
            return at.NEED_ROUTES
        if t.state[TURN_OF] == NETWORK:
            reason = packets.run_on(n, NEVER, NEVER, steps)
            if reason == packets.NEEDS_ROOM:
                return at.NEED_SLOTS
            if reason == packets.LINK_DOWN:
                return at.NEED_CHANGES
            if reason == packets.DRY:
                m[at.NOW] = max(m[at.NOW], n.g[NOW])
                return at.DRY
            if reason == packets.TURN:
                t.state[TURN_OF] = ARRIVALS if n.g[ENDED] > 0 or n.g[RECEIVED] > 0 else ENGINE
        elif t.state[TURN_OF] == ARRIVALS:
            if short_of_space(m):
                return at.NEED_SPACE
            tell_engine(m, n, t)
            t.state[TURN_OF] = NETWORK
        else:
            reason = run_on(m, at.ONE_STEP)
            if reason != at.PAUSED:
                return reason
            if m[at.SWEEP] == 0:
                t.state[TURN_OF] = NETWORK
    return at.PAUSED
