"""The network of packets beside the arena: tables that grow, links that go down, and what came of all messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.packets import COUNT, Messages, run_packets
from chakrasim.simulator.lowering.channels import Channels, Limits
from chakrasim.simulator.network_changes import LinkStates
from chakrasim.simulator.packet import state
from chakrasim.simulator.packet.build import Sizes, around_the_cut, grown, new_net, with_changes, with_more_flows
from chakrasim.simulator.packet.figures.flows import PERCENTILES, FlowSpread, percentiles
from chakrasim.simulator.packet.figures.pauses import Spans, pauses_of
from chakrasim.simulator.packet.figures.ports import PortFigures, port_figures
from chakrasim.simulator.packet.figures.samples import Samples, samples_of
from chakrasim.simulator.packet.flows import FIRST_PORT, PORTS, TARGET_PORT
from chakrasim.simulator.packet.graph.steer import Steering
from chakrasim.simulator.packet.network import Network, least_window
from chakrasim.simulator.packet.observed.ideal import times_of
from chakrasim.simulator.packet.observed.monitor import Monitor, last_look, watched
from chakrasim.simulator.packet.settings import SLOWEST
from chakrasim.simulator.packet.state import records
from chakrasim.trace.chakra.graph import offsets_of

Ints = NDArray[np.int64]

MESSAGE = np.dtype(
    [("source", "u4"), ("target", "u4"), ("port", "u4"), ("total", "i8"), ("start", "i8"), ("took", "i8")], align=True
)
NO_LIMITS = Limits(np.zeros(1), np.full(1, np.inf), np.ones(1), np.zeros(1, np.bool_))
SEED_STEP = 7919
"""Another seed has flows begin at other ports of their sources, so that they take other ways."""
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
    ideal_ns
        int64[m]: what each message takes on an empty network at full speed, to its last acknowledgement
    ports
        what each port did
    paused
        by port, the spans in which it was told to be still
    samples
        queues over time, if they were looked at
    """

    messages: Ints
    transmissions: int
    pauses: int
    marked: int
    dropped: int
    lost: int
    refused: int
    resent: int
    ideal_ns: Ints
    ports: PortFigures
    paused: dict[int, Spans]
    samples: Samples | None

    @cached_property
    def spread(self) -> FlowSpread:
        """Percentiles of completion and slowdown of the messages that were sent between ranks and have come."""
        done = (self.messages[:, 5] >= 0) & (self.ideal_ns > 0)
        took = self.messages[done, 5]
        return FlowSpread(took.size, percentiles(took), percentiles(took / self.ideal_ns[done]))

    def to_dict(self) -> dict[str, Any]:
        """What a result's JSON has of it."""
        counts = ("transmissions", "pauses", "marked", "dropped", "lost", "refused", "resent")
        names = [f"{p:g}" for p in PERCENTILES]
        return {
            **{name: getattr(self, name) for name in counts},
            "messages": len(self.messages),
            "completion_percentiles_ns": dict(zip(names, self.spread.completion_ns, strict=False)),
            "slowdown_percentiles": dict(zip(names, self.spread.slowdown, strict=False)),
            "ports": self.ports.columns(),
            **({"queues": self.samples.columns()["queues"]} if self.samples else {}),
        }


class PacketNetwork:
    """Hosts, switches and packets of one run."""

    def __init__(self, network: Network, channels: Channels | None = None, states: LinkStates | None = None) -> None:
        self.network, self.states = network, states
        self.net = new_net(network, Sizes(flows=FLOWS, pairs=PAIRS))
        self.net.g[state.DRIVEN] = 1
        self.monitor = Monitor(network.sample_ns) if network.sample_ns else None
        if self.monitor is not None:
            self.net = watched(self.net, self.monitor)
        self.net.g[state.LEARNS_LATE] = network.faults.receivers_learn_late
        self.messages = _no_messages(network, self.net.flows.size, channels)
        if states is not None and states.next_ns is not None:
            self.net.g[state.CUT_AT] = max(states.next_ns, 1)

    def run(self, m: Ints, steps: int) -> int:
        """Run at most about so many events; returns why it stopped, where that is not for the tables' sake."""
        while True:
            reason: int = run_packets(m, self.net, self.messages, steps)
            if reason == at.NEED_ROUTES:
                self._make_room()
            elif reason == at.NEED_SLOTS:
                self.net = grown(self.net)
            elif reason == at.NEED_CHANGES:
                self._change()
            else:
                return reason

    def figures(self) -> PacketFigures:
        """What has happened so far."""
        rows = self.messages.log[: self.messages.state[COUNT]]
        columns = [rows[name].astype(np.int64) for name in MESSAGE.names or ()]
        g = self.net.g
        source, target, port, size = columns[:4]
        paused = pauses_of(self.net)
        samples = None
        if self.monitor is not None:
            self.net, _ = last_look(self.net)
            samples = samples_of(self.net, self.network, self.monitor)
        means = samples.queues.means(0, samples.end_ns) if samples is not None else None
        return PacketFigures(
            messages=np.stack(columns, 1),
            ideal_ns=times_of(self.net, (source, target, port | TARGET_PORT << 16, size)),
            ports=port_figures(self.net, self.network, 0, paused, means),
            paused=paused,
            samples=samples,
            transmissions=int(g[state.PACKETS]),
            pauses=int(g[state.PAUSES]),
            marked=int(g[state.MARKS]),
            dropped=int(g[state.DROPPED]),
            lost=int(g[state.LOST]),
            refused=int(g[state.NACKS]),
            resent=int(g[state.RESENT]),
        )

    def _change(self) -> None:
        """Links go down, come back, or are known to have done so."""
        if self.states is None or self.network.link_ports is None:
            self.net, self.network = around_the_cut(self.net, self.network)
            return
        ports, links = self.network.ports, self.network.link_ports
        news = self.states.advance(int(self.net.g[state.NOW]))
        first = news.links[np.unique(ports.link[links[news.links]], return_index=True)[1]]
        changed = np.where(self.states.capacity[first] == 0, links[first], -links[first])
        if news.known:
            down = frozenset(ports.link[links[self.states.known_down]].tolist())
            self.network = replace(self.network, ways=self.network.find(down))
        self.net = with_changes(self.net, self.network, changed, self.states.next_ns or 0)

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


def _no_messages(network: Network, flows: int, channels: Channels | None) -> Messages:
    ways, settings = network.ways, network.settings
    trips = np.maximum(ways.round_trip_ns, 1)
    windows = network.bdp
    if settings.global_t:
        trips, windows = np.full_like(trips, network.max_rtt_ns), np.full_like(windows, network.max_bdp)
    limits = NO_LIMITS if channels is None else channels.limits()
    rate = 8e9 * limits.cap * limits.wire * (1 + network.header_bytes / settings.packet_payload_size)
    way_at, way_port = _ports_of_ways(network, channels, limits)
    first_port = SEED_STEP * (network.seed or 0) % (PORTS - FIRST_PORT)
    log: Any = records(MESSAGES, MESSAGE)
    return Messages(
        trips=trips,
        windows=np.maximum(windows, least_window(network)) if settings.has_win else np.zeros_like(windows),
        delays=ways.delay_ns,
        packets=np.maximum(ways.round_trip_ns - 2 * ways.delay_ns, 0),
        sent=np.full_like(trips, first_port),
        way_ns=np.rint(limits.latency_ns).astype(np.int64),
        way_rate=np.where(np.isfinite(rate), np.maximum(rate, SLOWEST), 0.0).astype(np.int64),
        way_wire=limits.wire,
        way_at=way_at,
        way_port=way_port,
        way_free=np.where(limits.single & np.isfinite(rate), 0, -1).astype(np.int64),
        record=np.zeros(flows, np.int64),
        number=np.zeros(flows, np.int64),
        log=log,
        state=np.zeros(2, np.int64),
    )


def _ports_of_ways(network: Network, channels: Channels | None, limits: Limits) -> tuple[Ints, Ints]:
    """`Messages.way_at` and `Messages.way_port`."""
    counts = np.where(limits.single, 1, network.ways.hosts)
    counts[0] = 0
    first = offsets_of(counts)
    ports = np.zeros(first[-1], np.int64)
    if channels is None:
        return first, ports
    steering = Steering(network, FIRST_PORT, TARGET_PORT)
    for own in channels.own:
        found = steering.ports_for(own.source, own.target, own.routes)
        ports[first[own.number] + np.where(limits.single[own.number], 0, own.source)] = found - FIRST_PORT
    return first, ports
