"""What comes out of flows on a network of packets."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from chakrasim.simulator.packet import state as at
from chakrasim.simulator.packet.alone.stuck import MOST_TOLD, reasons
from chakrasim.simulator.packet.network import Network
from chakrasim.simulator.packet.state import Longs, Net, Reals
from chakrasim.text.amounts import plural, time_text
from chakrasim.text.shown import Shown

PERCENTILES: Final = (0, 50, 90, 99, 100)
KINDS: Final = {at.DATA: "data", at.ACK: "ack", at.NACK: "nack", at.PAUSE: "pfc"}
HEADER_OF_STANDALONE: Final = 48


@dataclass(frozen=True, eq=False, repr=False)
class PacketResult(Shown):
    """When flows ended on a network of packets, and what its switches did.

    Attributes
    ----------
    network, routes_of
        the network; with the routes of its beginning
    flows
        int64[f, 6]: source, target, priority, target's port, bytes, start in ns
    net
        the tables of the run
    warnings
        what was guessed or left out
    """

    network: Network
    flows: Longs
    net: Net
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
        return np.array(found, np.int64)

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
        return f"{plural(len(left), 'flow')} did not finish: {'; '.join(reasons(self.net, self.network, left))}{more}"

    @property
    def slowdown(self) -> Reals:
        """float64: by flow that finished, its time over the standalone time."""
        done = self.fct_ns >= 0
        return np.asarray(self.fct_ns[done] / np.maximum(self.standalone_ns[done], 1))

    def percentiles(self, values: Any) -> list[float]:
        """Of the flows that finished: the values below which `PERCENTILES` of them lie."""
        if not len(values):
            return []
        return [float(value) for value in np.percentile(values, PERCENTILES, method="inverted_cdf")]

    def _completions(self) -> list[list[int]]:
        """`fct`: source, target, ports, bytes, start, time and standalone time in the order of their ends."""
        own = self.net.flows[self.order + 1]
        columns = (own.source, own.target, own.ports & 0xFFFF, own.ports >> 16, own.bytes, own.began)
        rows = np.stack([*(column.astype(np.int64) for column in columns), own.ended - own.began], 1)
        return np.concatenate([rows, self.standalone_ns[self.order][:, None]], 1).tolist()

    def _pauses(self) -> list[list[int]]:
        """`pfc`: time, node, 1 for a switch, port, 1 for a pause and 0 for its end."""
        rows = self.net.pauses[: self.net.g[at.PAUSES]]
        numbers = self.network.ports
        node = numbers.node[rows.port]
        is_switch = np.isin(node, self.network.topology.switches)
        columns = (rows.time, node, is_switch, rows.port - numbers.first[node], rows.stop)
        return np.stack([np.asarray(column, np.int64) for column in columns], 1).tolist()

    def _ports(self) -> list[list[int]]:
        """`ports`: switch, port, most bytes that waited in one priority, packets marked."""
        numbers = self.network.ports
        most = self.net.queues.most.reshape(8, -1).max(0)
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
        done = self.fct_ns[self.fct_ns >= 0]
        return {
            "fct": self._completions(),
            "pfc": self._pauses(),
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
            "fct_percentiles_ns": dict(zip(map(str, PERCENTILES), self.percentiles(done), strict=False)),
            "slowdown_percentiles": dict(zip(map(str, PERCENTILES), self.percentiles(self.slowdown), strict=False)),
            **({"tx": self.transmissions()} if g[at.LOGGING] else {}),
            "warnings": list(self.warnings),
        }
