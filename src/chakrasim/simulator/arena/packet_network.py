"""The network of packets beside the arena: tables that grow, links that go down, and what came of all messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.packets import COUNT, Messages, run_packets
from chakrasim.simulator.packet import state
from chakrasim.simulator.packet.build import Sizes, around_the_cut, grown, new_net, with_more_flows
from chakrasim.simulator.packet.network import Network
from chakrasim.simulator.packet.state import records

Ints = NDArray[np.int64]

MESSAGE = np.dtype(
    [("source", "u4"), ("target", "u4"), ("port", "u4"), ("total", "i8"), ("start", "i8"), ("took", "i8")], align=True
)
FLOWS, PAIRS, MESSAGES = 1 << 10, 1 << 6, 1 << 12
"""Room at the start: flows at a time, queue pairs of a port, messages in all."""


@dataclass(frozen=True, eq=False)
class PacketFigures:
    """What a network of packets did in a run.

    Attributes
    ----------
    messages
        int64[m, 6] in the order of sending: source, target, the source's port, bytes, start in ns, and the ns until the
        sender knew that all had come; -1: it never did
    transmissions, pauses, marked, dropped, lost, refused, resent
        packets put on links; frames of flow control received; packets marked; dropped by switches; lost on links;
        refusals of receivers; timeouts of senders
    """

    messages: Ints
    transmissions: int
    pauses: int
    marked: int
    dropped: int
    lost: int
    refused: int
    resent: int


class PacketNetwork:
    """Hosts, switches and packets of one run."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.net = new_net(network, Sizes(flows=FLOWS, pairs=PAIRS))
        self.net.g[state.DRIVEN] = 1
        self.net.g[state.LEARNS_LATE] = network.faults.receivers_learn_late
        self.messages = _no_messages(network, self.net.flows.size)

    def run(self, m: Ints, steps: int) -> int:
        """Run at most about so many events; returns why it stopped, where that is not for the tables' sake."""
        while True:
            reason: int = run_packets(m, self.net, self.messages, steps)
            if reason == at.NEED_ROUTES:
                self._make_room()
            elif reason == at.NEED_SLOTS:
                self.net = grown(self.net)
            elif reason == at.NEED_CHANGES:
                self.net, self.network = around_the_cut(self.net, self.network)
            else:
                return reason

    def figures(self) -> PacketFigures:
        """What has happened so far."""
        rows = self.messages.log[: self.messages.state[COUNT]]
        columns = [rows[name].astype(np.int64) for name in MESSAGE.names or ()]
        g = self.net.g
        return PacketFigures(
            messages=np.stack(columns, 1),
            transmissions=int(g[state.PACKETS]),
            pauses=int(g[state.PAUSES]),
            marked=int(g[state.MARKS]),
            dropped=int(g[state.DROPPED]),
            lost=int(g[state.LOST]),
            refused=int(g[state.NACKS]),
            resent=int(g[state.RESENT]),
        )

    def _make_room(self) -> None:
        """Room for another item, another flow, another line of the log: whichever is short."""
        g, messages = self.net.g, self.messages
        self.net = grown(self.net)
        if messages.state[COUNT] == messages.log.size:
            messages = messages._replace(log=state.longer(messages.log, 2 * messages.log.size))
        if g[state.FREE_FLOW] == 0 and g[state.FLOWS_USED] + 1 == self.net.flows.size:
            self.net = with_more_flows(self.net)
            size = self.net.flows.size
            messages = messages._replace(
                record=state.longer(messages.record, size), number=state.longer(messages.number, size)
            )
        self.messages = messages


def _no_messages(network: Network, flows: int) -> Messages:
    ways, settings = network.ways, network.settings
    trips = np.maximum(ways.round_trip_ns, 1)
    windows = network.bdp
    if settings.global_t:
        trips, windows = np.full_like(trips, network.max_rtt_ns), np.full_like(windows, network.max_bdp)
    log: Any = records(MESSAGES, MESSAGE)
    return Messages(
        trips=trips,
        windows=windows if settings.has_win else np.zeros_like(windows),
        delays=ways.delay_ns,
        sent=np.zeros_like(trips),
        record=np.zeros(flows, np.int64),
        number=np.zeros(flows, np.int64),
        log=log,
        state=np.zeros(2, np.int64),
    )
