"""What each port of a network did in a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chakrasim.simulator.packet import state as at
from chakrasim.simulator.packet.figures.pauses import Spans
from chakrasim.simulator.packet.network import Network
from chakrasim.simulator.packet.state import Ints, Longs, Net, Reals
from chakrasim.text.shown import data_frame

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class PortFigures:
    """Figures of all ports of hosts and switches, a row a port.

    Attributes
    ----------
    node, port
        int64[p]: whose it is, and its number there, from 1
    is_switch
        bool[p]
    sent_bytes
        int64[p]: all that it put on its link, headers, acknowledgements and frames included
    busy_share
        float64[p]: part of the run in which it did so
    most_bytes
        int64[p]: most that waited in one of its priorities; of hosts, which keep no queue, 0
    mean_bytes
        float64[p]: what waited on average over the run, as the monitor saw it; None without it
    marked, dropped
        int64[p]: packets marked as they left, and packets that were to leave here and found no room
    pauses, paused_ns
        int64[p]: how often it was told to be still, and how long it was
    """

    node: Longs
    port: Longs
    is_switch: Any
    sent_bytes: Longs
    busy_share: Reals
    most_bytes: Longs
    mean_bytes: Reals | None
    marked: Longs
    dropped: Longs
    pauses: Longs
    paused_ns: Longs

    def columns(self) -> dict[str, Any]:
        """The columns by name."""
        return {name: column for name, column in vars(self).items() if column is not None}

    def to_frame(self) -> pandas.DataFrame:
        """A row a port. Raises InputError where pandas is not installed."""
        return data_frame(self.columns())

    def name(self, row: int) -> str:
        """A port as people call it."""
        kind = "switch" if self.is_switch[row] else "host"
        return f"{kind} {self.node[row]} port {self.port[row]}"


def port_figures(
    net: Net, network: Network, begin_ns: int, spans: Mapping[int, Spans], mean_bytes: Mapping[int, float] | None
) -> PortFigures:
    """Figures of all ports, of a run that began at a time.

    ``spans``: by port, when it was told to be still; ``mean_bytes``: by port, where the monitor was on.
    """
    numbers = network.ports
    ports = np.arange(1, numbers.node.size)
    node = numbers.node[ports]
    own = net.ports[ports]
    span = max(int(net.g[at.NOW]) - begin_ns, 1)
    sent = own.carried.astype(np.int64)
    pauses, paused = np.zeros(numbers.node.size, np.int64), np.zeros(numbers.node.size, np.int64)
    for port, found in spans.items():
        pauses[port], paused[port] = len(found), sum(end - start for start, end in found)
    return PortFigures(
        node=node.astype(np.int64),
        port=ports - numbers.first[node],
        is_switch=~network.topology.is_host[node],
        sent_bytes=sent,
        busy_share=sent * 8e9 / own.rate / span,
        most_bytes=most_waiting(net)[ports].astype(np.int64),
        mean_bytes=None if mean_bytes is None else np.array([mean_bytes.get(port, 0.0) for port in ports.tolist()]),
        marked=own.marks.astype(np.int64),
        dropped=own.drops.astype(np.int64),
        pauses=pauses[ports],
        paused_ns=paused[ports],
    )


def most_waiting(net: Net) -> Ints:
    """By port: the most bytes that waited in one of its priorities."""
    found: Ints = net.queues.most.reshape(8, -1).max(0)
    return found
