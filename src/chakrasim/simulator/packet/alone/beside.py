"""The same flows by max-min fair rates, on the ways that their packets take: what queues and windows make of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from chakrasim.errors import InputError
from chakrasim.jit import kernel
from chakrasim.machine.graph.routing.routes import Routes
from chakrasim.simulator.flow.alone.api import share_links
from chakrasim.simulator.flow.alone.flows import Floats, Flows
from chakrasim.simulator.packet.alone.case import PacketCase
from chakrasim.simulator.packet.alone.result import PacketResult
from chakrasim.simulator.packet.alone.run import prepare
from chakrasim.simulator.packet.routes import queue_pair_ports, way_out
from chakrasim.simulator.packet.state import Longs, Net, whole


@dataclass(frozen=True, eq=False)
class BothModels:
    """Flows as packets, and how long they take by rates.

    Attributes
    ----------
    packets
        the run of the packets
    flow_ns
        float64[f]: time of each flow by max-min fair rates, and the delay of its acknowledgement's way, so that both
        times end with the acknowledgement; NaN where there is no way
    """

    packets: PacketResult
    flow_ns: Floats

    @property
    def packet_ns(self) -> Floats:
        """float64[f]: the time of each flow as packets; NaN for those that did not finish."""
        found = self.packets.fct_ns.astype(np.float64)
        found[found < 0] = np.nan
        return found

    @property
    def difference(self) -> Floats:
        """float64[f]: how much longer packets take, as a share of the time by rates; NaN where one is not known."""
        return self.packet_ns / np.where(self.flow_ns > 0, self.flow_ns, np.nan) - 1

    def to_dict(self) -> dict[str, Any]:
        """That of the packets, and ``beside``: by flow ns by rates, ns of packets, the difference; null: not known."""
        columns = np.stack([self.flow_ns, self.packet_ns, self.difference], 1)
        known = np.where(np.isnan(columns), None, columns.astype(object))  # type: ignore[call-overload]
        return {**self.packets.to_dict(), "beside": known.tolist()}


def beside(case: PacketCase, result: PacketResult) -> BothModels:
    """The flows of a case by rates, beside their packets. Raises InputError where a link goes down on the way."""
    network, rows = case.network, case.flows
    if network.settings.link_down is not None:
        raise InputError(
            "rates on given ways know of no link that goes down", place="LINK_DOWN", remedy="run --model packet alone"
        )
    net = prepare(network, rows)
    routes, there_ns, back_ns = _routes(net, len(rows))
    size, start = rows[:, 4].astype(np.float64), rows[:, 5].astype(np.float64)
    names = tuple(map(str, range(1, net.ports.size)))
    flows = Flows(rows[:, 0], rows[:, 1], size, start + there_ns, routes=routes)
    ends = share_links(names, net.ports.rate[1:] / 8e9, flows, exact=True).finish_ns
    took = ends - start + np.where(size > 0, back_ns, 0)
    took[routes.missing] = np.nan
    return BothModels(result, took)


def _routes(net: Net, flows: int) -> tuple[Routes, Longs, Longs]:
    """The ports that packets of each flow go through, less 1, as links; the delays of that way, and of the
    acknowledgements'."""
    found, delays = np.zeros(net.ports.size, np.int64), np.zeros((2, flows), np.int64)
    links = [np.zeros(0, np.int64)]
    for flow in range(1, flows + 1):
        count = ports_on_way(net, flow, False, found)
        delays[1, flow - 1] = net.ports.delay[found[:count]].sum()
        count = ports_on_way(net, flow, True, found)
        delays[0, flow - 1] = net.ports.delay[found[:count]].sum()
        links.append(found[:count] - 1)
    link = np.concatenate(links).astype(np.int32)
    first = np.cumsum([each.size for each in links])
    return Routes(first, link, np.ones(link.size), np.flatnonzero(np.diff(first) == 0).astype(np.int32)), *delays


@kernel
def ports_on_way(n: Net, flow: int, onward: bool, found: Longs) -> int:
    """Write down the ports that a flow's packets go through, or its acknowledgements; returns how many, 0 without a
    way."""
    queue_pair_ports(n, flow)
    f = n.flows[flow]
    port = whole(f.nic) if onward else whole(f.back)
    count = 0
    while port != 0:
        found[count] = port
        count += 1
        peer = whole(n.ports[port].peer)
        if n.ports[peer].host != 0:
            return count
        port = way_out(n, peer, flow, onward)
    return 0
