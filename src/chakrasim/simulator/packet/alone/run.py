"""Flows on a network of packets, run to their ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chakrasim.simulator.packet import state as at
from chakrasim.simulator.packet.build import MARGIN, Network, Sizes, grown, new_net
from chakrasim.simulator.packet.clock import NEVER
from chakrasim.simulator.packet.flows import enter_flows
from chakrasim.simulator.packet.loop import ALL_ENDED, DRY, LINK_DOWN, NEEDS_ROOM, ROUTES_NEW, run
from chakrasim.simulator.packet.state import Longs, Net

EVENTS_A_CALL = 1 << 20


@dataclass(frozen=True, eq=False)
class Ran:
    """A network after its flows, and what was asked for."""

    network: Network
    rows: Longs
    net: Net


def prepare(network: Network, rows: Longs, *, log: bool = False) -> Net:
    """A network whose flows will start: int64[f, 6] of source, target, priority, port, bytes, start in ns.

    Rows are sorted by their start; where that is the same they keep their order.
    """
    starts, counts = np.unique(rows[:, 5], return_counts=True)
    burst = MARGIN + 2 * int(counts.max(initial=0))
    lists = np.bincount(rows[:, 0]) if rows.size else np.zeros(1, np.int64)
    sizes = Sizes(
        flows=rows.shape[0], items=(1 << 13) + 2 * burst, log=(1 << 12) if log else 0, pairs=int(lists.max()) + 1
    )
    net = new_net(network, sizes)
    net.g[at.BURST], net.g[at.LOGGING] = burst, log
    enter_flows(net, network, rows)
    order = np.argsort(rows[:, 5], kind="stable")
    net = net._replace(starts=(order + 1).astype(np.uint32))
    return net


def run_on(net: Net, network: Network, stop_ns: int | None, *, to_the_end: bool = False) -> tuple[Net, Network]:
    """Run until all flows have ended, or to a time; `to_the_end`: also what still happens after the last end."""
    until = NEVER if stop_ns is None else stop_ns
    flows = NEVER if to_the_end else net.starts.size
    while True:
        reason = run(net, until, flows, EVENTS_A_CALL)
        if reason in (DRY, ALL_ENDED):
            return net, network
        if reason == NEEDS_ROOM:
            net = grown(net)
        elif reason == LINK_DOWN:
            network = replace(network, ways=network.ways_without(int(net.g[at.CUT_LINK])))
            net = net._replace(ways=network.ways.ways, choices=network.ways.choices)
            net.g[at.PRIMED] = ROUTES_NEW
