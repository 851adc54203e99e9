"""What comes out of flows on a network of packets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from chakrasim.simulator.packet import state as at
from chakrasim.simulator.packet.alone.stuck import MOST_TOLD, reasons
from chakrasim.simulator.packet.figures.flows import PERCENTILES, FlowFigures, FlowSpread, flow_figures
from chakrasim.simulator.packet.figures.pauses import Spans, pauses_of
from chakrasim.simulator.packet.figures.ports import PortFigures, most_waiting, port_figures
from chakrasim.simulator.packet.figures.samples import Samples, samples_of
from chakrasim.simulator.packet.network import Network
from chakrasim.simulator.packet.observed.monitor import Monitor
from chakrasim.simulator.packet.state import Longs, Net
from chakrasim.text.amounts import plural, time_text
from chakrasim.text.shown import Shown

if TYPE_CHECKING:
    import pandas

KINDS: Final = {at.DATA: "data", at.ACK: "ack", at.NACK: "nack", at.PAUSE: "pfc"}
HEADER_OF_STANDALONE: Final = 48
LONGEST_NS: Final = (1 << 63) - 1


@dataclass(frozen=True, eq=False, repr=False)
class PacketResult(Shown):
    """When flows ended on a network of packets, and what its switches did.

    Attributes
    ----------
    network, last
        the network with the routes of its beginning, and with those of its end: a link may have gone down
    flows
        int64[f, 6]: source, target, priority, target's port, bytes, start in ns
    net
        the tables of the run
    monitor
        when queues and rates were looked at, if they were
    warnings
        what was guessed or left out
    """

    network: Network
    last: Network
    flows: Longs
    net: Net
    monitor: Monitor | None = None
    warnings: tuple[str, ...] = field(default=())

    @cached_property
    def order(self) -> Longs:
        """int64: the flows that ended, in the order in which they did."""
        return self.net.ended[: self.net.g[at.ENDED]].astype(np.int64) - 1

    @cached_property
    def fct_ns(self) -> Longs:
        """int64[f]: from each flow's start to the acknowledgement of its last byte; -1 where that did not come."""
        found = np.full(len(self.flows), -1, np.int64)
        own = self.net.flows[self.order + 1]
        found[self.order] = own.ended - own.began
        return found

    @cached_property
    def standalone_ns(self) -> Longs:
        """int64[f]: what the reference compares with: the base round trip, and all bytes at the slowest link's rate."""
        source, target, size = self.flows[:, 0], self.flows[:, 1], self.flows[:, 4]
        ways, payload = self.network.ways, self.network.settings.packet_payload_size
        found = []
        for a, b, count in zip(source.tolist(), target.tolist(), size.tolist(), strict=True):
            packets = (count - 1) // payload + 1
            rate = max(int(ways.bandwidth[a, b]), 1)
            found.append(int(ways.round_trip_ns[a, b]) + (count + HEADER_OF_STANDALONE * packets) * 8 * 10**9 // rate)
        return np.array([min(ns, LONGEST_NS) for ns in found], np.int64)

    @property
    def unfinished(self) -> list[int]:
        """The flows that did not finish."""
        return np.flatnonzero(self.fct_ns < 0).tolist()

    @property
    def stuck_text(self) -> str:
        """Which flows did not finish, and what each of the first waits for; nothing if all did."""
        left = self.unfinished
        if not left:
            return ""
        more = f"; and {len(left) - MOST_TOLD} more" if len(left) > MOST_TOLD else ""
        return f"{plural(len(left), 'flow')} did not finish: {'; '.join(reasons(self.net, self.last, left))}{more}"

    @property
    def begin_ns(self) -> int:
        """When the first flow started."""
        return int(self.flows[:, 5].min(initial=self.end_ns))

    @property
    def end_ns(self) -> int:
        """When the run ended."""
        return int(self.net.g[at.NOW])

    @cached_property
    def flow_figures(self) -> FlowFigures:
        """Completion, ideal time, slowdown, bytes sent again and last rate of every flow."""
        return flow_figures(self.net, self.network, self.flows, self.fct_ns)

    @cached_property
    def port_figures(self) -> PortFigures:
        """Bytes, queues, marks, drops and pauses of every port."""
        seen = self.samples
        means = None if seen is None else seen.queues.means(seen.begin_ns, seen.end_ns)
        return port_figures(self.net, self.network, self.begin_ns, self.pauses, means)

    @cached_property
    def pauses(self) -> dict[int, Spans]:
        """By port, the spans in which it was told to be still."""
        return pauses_of(self.net)

    @cached_property
    def samples(self) -> Samples | None:
        """Queues and rates over time, if they were looked at."""
        return None if self.monitor is None else samples_of(self.net, self.network, self.monitor)

    def to_frame(self) -> pandas.DataFrame:
        """A row a flow; `port_figures` and `samples` have frames of their own. Raises InputError without pandas."""
        return self.flow_figures.to_frame()

    def completions(self) -> list[list[int]]:
        """`fct`: source, target, ports, bytes, start, time and standalone time in the order of their ends."""
        own = self.net.flows[self.order + 1]
        columns = (own.source, own.target, own.ports & 0xFFFF, own.ports >> 16, own.bytes, own.began)
        rows = np.stack([*(column.astype(np.int64) for column in columns), own.ended - own.began], 1)
        return np.concatenate([rows, self.standalone_ns[self.order][:, None]], 1).tolist()

    def pause_frames(self) -> list[list[int]]:
        """`pfc`: time, node, 1 for a switch, port, 1 for a pause and 0 for its end."""
        rows = self.net.pauses[: self.net.g[at.PAUSES]]
        numbers = self.network.ports
        node = numbers.node[rows.port]
        is_switch = ~self.network.topology.is_host[node]
        columns = (rows.time, node, is_switch, rows.port - numbers.first[node], rows.stop)
        return np.stack([np.asarray(column, np.int64) for column in columns], 1).tolist()

    def _ports(self) -> list[list[int]]:
        """`ports`: switch, port, most bytes that waited in one priority, packets marked."""
        numbers = self.network.ports
        most = most_waiting(self.net)
        rows = []
        for switch in sorted(self.network.topology.switches):
            first, behind = int(numbers.first[switch]), int(numbers.first[switch + 1])
            for port in range(first + 1, behind + 1):
                rows.append([switch, port - first, int(most[port]), int(self.net.ports.marks[port])])
        return rows

    def _routes(self) -> list[list[int]]:
        """`routes`: node, host, the node's ports towards it."""
        numbers, ways = self.network.ports, self.network.ways
        rows = []
        for node in range(self.network.topology.nodes):
            for host in self.network.topology.hosts:
                ports = ways.of(node, host)
                if ports:
                    rows.append([node, host, *(port - int(numbers.first[node]) for port in ports)])
        return rows

    def transmissions(self) -> list[list[Any]]:
        """`tx`: every packet put on a link, in order, if the run was to keep them."""
        first, node_of = self.network.ports.first, self.network.ports.node
        rows: list[list[Any]] = []
        for row in self.net.log[: self.net.g[at.LOGS]]:
            node, kind, marked = int(node_of[row.port]), int(row.kind), int(row.bits & at.MARKED != 0)
            head = [int(row.time), node, int(row.port) - int(first[node]), KINDS[kind], int(row.bytes)]
            if kind == at.PAUSE:
                rows.append([*head, int(row.bits) & at.PRIORITY, marked])
                continue
            f = self.net.flows[row.flow]
            ends = [int(f.source), int(f.target)]
            ends = ends if kind == at.DATA else ends[::-1]
            rows.append([*head, *ends, int(f.ports) & 0xFFFF, int(row.seq), marked])
        return rows

    def _samples_as_dict(self) -> dict[str, Any]:
        assert self.samples is not None
        series = {name: plain(columns) for name, columns in self.samples.columns().items()}
        return {name: getattr(self.samples, name) for name in ("every_ns", "begin_ns", "end_ns")} | series

    def _in_short(self) -> dict[str, str]:
        done = self.fct_ns[self.fct_ns >= 0]
        return {
            "flows": f"{len(self.flows):,}",
            "slowest": time_text(float(done.max(initial=0))),
            "pauses": f"{int(self.net.g[at.PAUSES]):,}",
            "marked": f"{int(self.net.g[at.MARKS]):,}",
            **({"unfinished": f"{len(self.unfinished):,}"} if self.unfinished else {}),
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values: what ``chakrasim flows --model packet --json`` writes."""
        g = self.net.g
        spread = self.flow_figures.classes()
        return {
            "fct": self.completions(),
            "pfc": self.pause_frames(),
            "ports": self._ports(),
            "routes": self._routes(),
            "max_rtt_ns": self.network.max_rtt_ns,
            "max_bdp": self.network.max_bdp,
            "transmissions": int(g[at.PACKETS]),
            "ecn_marked": int(g[at.MARKS]),
            "ecn_draws": int(g[at.DRAWS]),
            "dropped": int(g[at.DROPPED]),
            "nacks": int(g[at.NACKS]),
            "finished": int(g[at.ENDED]),
            "unfinished": self.unfinished,
            "lost_on_links": int(g[at.LOST]),
            "unrouted": int(g[at.UNROUTED]),
            "retransmissions": int(g[at.RESENT]),
            "begin_ns": self.begin_ns,
            "end_ns": self.end_ns,
            **_by_percentile(spread.pop(None)),
            "size_classes": [
                {"up_to_bytes": most, "flows": own.flows, **_by_percentile(own)} for most, own in spread.items()
            ],
            "flow_figures": plain(self.flow_figures.columns()),
            "port_figures": plain(self.port_figures.columns()),
            **({"samples": self._samples_as_dict()} if self.samples else {}),
            **({"tx": self.transmissions()} if g[at.LOGGING] else {}),
            "warnings": list(self.warnings),
        }


def _by_percentile(spread: FlowSpread) -> dict[str, Any]:
    """What `to_dict` has of some flows."""
    names = [f"{p:g}" for p in PERCENTILES]
    return {
        "fct_percentiles_ns": dict(zip(names, spread.completion_ns, strict=False)),
        "slowdown_percentiles": dict(zip(names, spread.slowdown, strict=False)),
    }


def plain(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Columns as lists, with None for what is no number."""
    return {
        name: [None if value != value else value for value in np.asarray(column).tolist()]
        for name, column in columns.items()
    }
