"""Flows on a network of packets, run to their ends."""

from __future__ import annotations

from typing import Final

import numpy as np

from chakrasim.simulator.packet import state as at
from chakrasim.simulator.packet.alone.case import PacketCase
from chakrasim.simulator.packet.alone.result import PacketResult
from chakrasim.simulator.packet.build import Sizes, around_the_cut, grown, new_net
from chakrasim.simulator.packet.clock import NEVER
from chakrasim.simulator.packet.flows import enter_flows
from chakrasim.simulator.packet.loop import ALL_ENDED, DRY, LINK_DOWN, MARGIN, NEEDS_ROOM, run
from chakrasim.simulator.packet.network import Network
from chakrasim.simulator.packet.observed.monitor import Monitor, last_look, watched
from chakrasim.simulator.packet.state import Longs, Net

EVENTS_A_CALL: Final = 1 << 20
"""How long the kernel runs at a time, about: signals wait for it to return."""


def run_packets(case: PacketCase, *, keep_packets: bool = False, monitor: Monitor | None = None) -> PacketResult:
    """Let the flows of a case run on its network of packets.

    ``keep_packets``: every transmission is kept, for `PacketResult.transmissions`; ``monitor``: when queues and rates
    are looked at, for `PacketResult.samples`.
    """
    net = prepare(case.network, case.flows, log=keep_packets)
    if monitor is not None:
        net = watched(net, monitor)
    net, last = run_on(net, case.network, case.stop_ns)
    told: tuple[str, ...] = ()
    if monitor is not None:
        net, told = last_look(net)
    return PacketResult(case.network, last, case.flows, net, monitor, told)


def prepare(network: Network, rows: Longs, *, log: bool = False) -> Net:
    """A network whose flows will start: int64[f, 6] of source, target, priority, port, bytes, start in ns."""
    counts = np.unique(rows[:, 5], return_counts=True)[1]
    burst = MARGIN + 2 * int(counts.max(initial=0))
    lists = int(np.bincount(rows[:, 0]).max()) if rows.size else 0
    sizes = Sizes(flows=rows.shape[0], items=(1 << 13) + 2 * burst, log=(1 << 12) if log else 0, pairs=lists + 1)
    net = new_net(network, sizes)
    net.g[at.BURST], net.g[at.LOGGING], net.g[at.KEEPING] = burst, log, log
    enter_flows(net, network, rows)
    return net._replace(starts=(np.argsort(rows[:, 5], kind="stable") + 1).astype(np.uint32))


def run_on(net: Net, network: Network, stop_ns: int | None) -> tuple[Net, Network]:
    """Run until all flows have ended, to a time, or until nothing more happens."""
    until = NEVER if stop_ns is None else stop_ns - 1
    while True:
        reason = run(net, until, net.starts.size, EVENTS_A_CALL)
        if reason in (DRY, ALL_ENDED):
            return net, network
        if reason == NEEDS_ROOM:
            net = grown(net)
        elif reason == LINK_DOWN:
            net, network = around_the_cut(net, network)
