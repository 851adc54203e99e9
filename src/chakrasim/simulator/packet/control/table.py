"""All congestion controls by their numbers in `CC_MODE`: what the kernels call, and how many words each takes.

A control has `begin` (its flow starts) and `on_ack`, and where wanted `on_timer` and `end`, for timers that it started,
and `at_dequeue`, what switches write into data packets that leave them.
"""

from __future__ import annotations

from typing import Final

from chakrasim.jit import inner
from chakrasim.simulator.packet.control import dcqcn, dctcp, hpcc, pint, timely
from chakrasim.simulator.packet.state import MODE, Net

DCQCN: Final = 1
HPCC: Final = 3
TIMELY: Final = 7
DCTCP: Final = 8
PINT: Final = 10
NAMES: Final = {DCQCN: "DCQCN", HPCC: "HPCC", TIMELY: "TIMELY", DCTCP: "DCTCP", PINT: "HPCC-PINT"}
"""Any other number is no control: the window alone holds back."""
SIZES: Final = {DCQCN: dcqcn.SIZE, TIMELY: timely.SIZE, DCTCP: dctcp.SIZE, PINT: pint.SIZE}
"""Words of a flow; HPCC's go by the hops of the longest way."""
INT_BYTES: Final = {HPCC: 42, TIMELY: 8, PINT: 2}
"""What data packets and acknowledgements carry for it."""
STAMPED: Final = {TIMELY}
"""Those whose data packets bring along when they were sent."""


@inner
def begin(n: Net, flow: int) -> None:
    mode = n.g[MODE]
    if mode == DCQCN:
        dcqcn.begin(n, flow)
    elif mode == HPCC:
        hpcc.begin(n, flow)
    elif mode == TIMELY:
        timely.begin(n, flow)
    elif mode == DCTCP:
        dctcp.begin(n, flow)
    elif mode == PINT:
        pint.begin(n, flow)


@inner
def on_ack(n: Net, flow: int, item: int) -> None:
    mode = n.g[MODE]
    if mode == DCQCN:
        dcqcn.on_ack(n, flow, item)
    elif mode == HPCC:
        hpcc.on_ack(n, flow, item)
    elif mode == TIMELY:
        timely.on_ack(n, flow, item)
    elif mode == DCTCP:
        dctcp.on_ack(n, flow, item)
    elif mode == PINT:
        pint.on_ack(n, flow, item)


@inner
def on_timer(n: Net, flow: int, which: int) -> None:
    dcqcn.on_timer(n, flow, which)


@inner
def end(n: Net, flow: int) -> None:
    if n.g[MODE] == DCQCN:
        dcqcn.end(n, flow)


@inner
def at_dequeue(n: Net, port: int, item: int) -> None:
    if n.g[MODE] == HPCC:
        hpcc.at_dequeue(n, port, item)
    elif n.g[MODE] == PINT:
        pint.at_dequeue(n, port, item)
