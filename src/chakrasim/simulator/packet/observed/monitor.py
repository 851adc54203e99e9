"""The monitor set up, and its tables made longer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.simulator.packet import state as at
from chakrasim.simulator.packet.observed.sampling import look_once
from chakrasim.simulator.packet.state import Net, longer
from chakrasim.text.amounts import time_text

MOST_SAMPLES: Final = 1 << 23
"""Rows; then the monitor stops (256 MiB)."""


@dataclass(frozen=True)
class Monitor:
    """When queues and rates are looked at: each so many ns, from one time to another."""

    every_ns: int
    from_ns: int = 0
    until_ns: int = 1 << 62


def watched(net: Net, monitor: Monitor) -> Net:
    """A network that has not begun to run, with the monitor on."""
    g = net.g
    g[at.SAMPLE_NS], g[at.SAMPLE_FROM], g[at.SAMPLE_UNTIL] = monitor.every_ns, monitor.from_ns, monitor.until_ns
    g[at.KEEPING] = 1
    return with_room_for_samples(net)


def with_room_for_samples(net: Net) -> Net:
    """The same tables with room for one look more; where that would be too much, with the monitor off."""
    most = net.ports.size + net.flows.size
    words = net.ports.size + 2 * net.flows.size
    if net.seen.size < words:
        net = net._replace(seen=np.concatenate([net.seen, np.zeros(words - net.seen.size, np.int64)]))
    if net.g[at.SAMPLES] + most <= net.samples.size:
        return net
    if net.g[at.SAMPLES] >= MOST_SAMPLES:
        net.g[at.SAMPLE_NS] = 0
        net.g[at.SAMPLE_UNTIL] = net.g[at.NOW]
        return net
    return net._replace(samples=longer(net.samples, 2 * net.samples.size + 2 * most))


def last_look(net: Net) -> tuple[Net, tuple[str, ...]]:
    """The network, looked at once more at the end of the run, if the monitor was still on; and what is to be told."""
    g = net.g
    if not g[at.SAMPLE_NS]:
        stop = time_text(int(g[at.SAMPLE_UNTIL]))
        return net, (f"the monitor stopped at {stop}, after {int(g[at.SAMPLES]):,} changes: look less often",)
    if g[at.SAMPLE_FROM] <= g[at.NOW] <= g[at.SAMPLE_UNTIL]:
        net = with_room_for_samples(net)
        look_once(net)
    return net, ()
