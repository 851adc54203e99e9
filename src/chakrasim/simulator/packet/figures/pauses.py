"""When ports were told to be still."""

from __future__ import annotations

from collections import defaultdict

from chakrasim.simulator.packet import state as at
from chakrasim.simulator.packet.state import Net

Spans = list[tuple[int, int]]
"""From and to, in ns."""


def pauses_of(net: Net) -> dict[int, Spans]:
    """By port, ascending: the spans in which at least one of its priorities was to wait. One that was not let go lasts
    until the end of the run."""
    waiting: dict[int, set[int]] = defaultdict(set)
    began: dict[int, int] = {}
    spans: dict[int, Spans] = defaultdict(list)
    rows = net.pauses[: net.g[at.PAUSES]]
    for time, port, stop, priority in rows[["time", "port", "stop", "priority"]].tolist():
        held = waiting[port]
        if stop:
            if not held:
                began[port] = time
            held.add(priority)
        elif held:
            held.discard(priority)
            if not held:
                spans[port].append((began.pop(port), time))
    for port, time in began.items():
        spans[port].append((time, int(net.g[at.NOW])))
    return dict(sorted(spans.items()))
