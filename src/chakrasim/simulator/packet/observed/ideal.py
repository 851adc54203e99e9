"""How long a flow would take alone: a line of packets through the links of its way, and their acknowledgements back."""

from __future__ import annotations

import numpy as np

from chakrasim.jit import inner, kernel
from chakrasim.simulator.packet import state
from chakrasim.simulator.packet.routes import port_towards, way_out
from chakrasim.simulator.packet.state import ACK_BYTES, ACK_INTERVAL, HEADER, PAYLOAD, Longs, Net, whole

NO_WAY = -1
LONGEST_WAY = 64
MESSAGES_AT_A_TIME = 1 << 16


def times_of(net: Net, columns: tuple[Longs, Longs, Longs, Longs]) -> Longs:
    """The same for messages that the tables no longer have: source, target, ports and bytes of each."""
    found = []
    for begin in range(0, columns[0].size, MESSAGES_AT_A_TIME):
        source, target, ports, size = (column[begin : begin + MESSAGES_AT_A_TIME] for column in columns)
        flows = state.records(source.size + 1, state.FLOW)
        own = flows[1:]
        own.source, own.target, own.ports, own.bytes = source, target, ports, size
        times = np.zeros(flows.size, np.int64)
        times_alone(net._replace(flows=flows), times)
        found.append(times[1:])
    return np.concatenate(found) if found else np.zeros(0, np.int64)


@kernel
def times_alone(n: Net, found: Longs) -> None:
    """Into ``found``: by flow, ns from its start to its last acknowledgement if it had the network to itself; -1 where
    there is no way. Its bytes leave at full speed, whatever window and control say."""
    for flow in range(1, found.size):
        found[flow] = time_alone(n, flow)


@inner
def time_alone(n: Net, flow: int) -> int:
    """One service after the other, for packets of one size and a last one that may be smaller: packet k of n begins at
    a link when it is there and the one before it has left. For equal packets that is the way of the first, and k - 1
    times the slowest service so far."""
    f = n.flows[flow]
    count = (f.bytes + n.g[PAYLOAD] - 1) // n.g[PAYLOAD]
    full = n.g[PAYLOAD] + n.g[HEADER]
    last = f.bytes - (count - 1) * n.g[PAYLOAD] + n.g[HEADER]
    first_at = slowest = last_at = 0
    for onward in (state.YES, state.NO):
        port = whole(port_towards(n, flow, onward))
        for _ in range(LONGEST_WAY):
            if port == 0:
                return NO_WAY
            p = n.ports[port]
            if onward:
                one, end = n.times[p.row + full], n.times[p.row + last]
            else:
                end = n.times[p.row + n.g[ACK_BYTES]]
                one = end if n.g[ACK_INTERVAL] <= n.g[PAYLOAD] else 0
            slowest = max(slowest, one)
            if count > 1:
                last_at = max(last_at, first_at + (count - 2) * slowest + one)
            first_at += one + p.delay
            last_at += end + p.delay
            if n.ports[p.peer].host != 0:
                break
            port = way_out(n, whole(p.peer), flow, onward)
        else:
            return NO_WAY
    return last_at
