"""Messages as flows of a network of packets."""

from __future__ import annotations

import numpy as np

from chakrasim.simulator.packet.network import Network, least_window
from chakrasim.simulator.packet.pairs import LEFT
from chakrasim.simulator.packet.state import WEIGHED, Longs, Net

FIRST_PORT = 10_000
PORTS = 65_536
PRIORITY = 3
TARGET_PORT = 100
"""What ASTRA-sim gives all messages."""


def enter_flows(net: Net, network: Network, rows: Longs) -> None:
    """Describe flows 1, 2, ... of a net: int64[f, 6] of source, target, priority, target's port, bytes, start in ns.

    The source's port counts from 10000 for each pair of hosts, in order of their start, then of the
    rows, and begins again after 65535.
    """
    count = rows.shape[0]
    own = net.flows[1 : count + 1]
    source, target, priority, port, size, start = rows.T
    own.source, own.target, own.priority, own.bytes, own.began = source, target, priority, size, start
    order = np.argsort(start, kind="stable")
    sport = np.empty(count, np.int64)
    sport[order] = sports((source * network.ways.hosts + target)[order])
    own.ports = sport | port << 16
    own.place = LEFT
    # Of one priority a switch cannot hold more than its buffer: thresholds see to that.
    several = np.unique(priority).size > 1 or (priority == 0).any()
    net.g[WEIGHED] = several and not network.faults.priorities_overfill
    settings = network.settings
    trip = network.ways.round_trip_ns[source, target]
    bdp = network.bdp[source, target]
    own.patience = np.maximum(network.ways.delay_ns[source, target], 0)
    own.trip = network.max_rtt_ns if settings.global_t else np.maximum(trip, 1)
    own.window = 0 if not settings.has_win else network.max_bdp if settings.global_t else bdp
    own.bound = np.where(own.window > 0, np.maximum(own.window, least_window(network)), 0)


def sports(pair: Longs) -> Longs:
    """The source's port of each message of a list of pairs."""
    order = np.argsort(pair, kind="stable")
    ordered = pair[order]
    new = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: pair.size]
    began = np.maximum.accumulate(np.where(new, np.arange(pair.size), 0))
    found = np.empty(pair.size, np.int64)
    found[order] = FIRST_PORT + (np.arange(pair.size) - began) % (PORTS - FIRST_PORT)
    return found
