"""Why flows have not finished: what each waits for, and which pauses wait for one another."""

from __future__ import annotations

from typing import Final

from chakrasim.simulator.packet import state as at
from chakrasim.simulator.packet.network import Network
from chakrasim.simulator.packet.state import Net

MOST_TOLD: Final = 8


def port_name(network: Network, port: int) -> str:
    """A port by its node and its number there."""
    node = int(network.ports.node[port])
    kind = "switch" if node in network.topology.switches else "host"
    return f"{kind} {node} port {port - int(network.ports.first[node])}"


def reasons(net: Net, network: Network, unfinished: list[int]) -> list[str]:
    """A sentence for each of the first flows that have not finished, and for a circle of pauses."""
    told = [f"flow {flow} {_reason(net, network, flow + 1)}" for flow in unfinished[:MOST_TOLD]]
    circle = pause_circle(net)
    if circle:
        names = ", ".join(port_name(network, port) for port in circle)
        told.append(f"pauses wait for one another in a circle: {names}")
    return told


def _reason(net: Net, network: Network, flow: int) -> str:
    f = net.flows[flow]
    source, target = int(f.source), int(f.target)
    if f.state in (at.ABSENT, at.WAITING):
        if network.ways.round_trip_ns[source, target] < 0:
            return f"has no way from host {source} to host {target}"
        return f"waits for its start at {int(f.began)} ns"
    if f.bytes == 0:
        return "has no bytes, of which no acknowledgement comes (a fault of the reference)"
    if network.ways.round_trip_ns[source, target] < 0:
        return f"has lost its way from host {source} to host {target}"
    nic = net.ports[f.nic]
    if nic.paused >> f.priority & 1:
        return f"waits for {port_name(network, int(f.nic))}, which is told to pause priority {int(f.priority)}"
    if f.state == at.GIVEN_UP:
        return f"was given up: nothing behind byte {int(f.una)} came through"
    if f.next >= f.bytes:
        return f"has sent its {int(f.bytes)} bytes and waits for the acknowledgement of byte {int(f.una)}"
    if f.bound and f.next - f.una >= f.bound:
        return f"waits for the acknowledgement of byte {int(f.una)}: its window of {int(f.bound)} bytes is full"
    return f"has {int(f.bytes) - int(f.next)} bytes to send at {int(f.rate)} bit/s"


def pause_circle(net: Net) -> list[int]:
    """The ports of a circle in which each waits for the next to let packets go; empty if there is none."""
    waits: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for port in range(1, net.ports.size):
        p = net.ports[port]
        for priority in range(1, 8):
            if not (p.filled & p.paused) >> priority & 1:
                continue
            item = int(net.queues[net.ports.size * priority + port].head)
            while item:
                came = int(net.items[item].port)
                before = int(net.ports[came].peer)
                waits.setdefault((before, priority), set()).add((port, priority))
                item = int(net.items[item].next)
    held = {key for key in waits if net.ports[key[0]].paused >> key[1] & 1}
    for start in held:
        seen: list[tuple[int, int]] = []
        key: tuple[int, int] | None = start
        while key is not None and key not in seen:
            seen.append(key)
            key = next((one for one in sorted(waits.get(key, ())) if one in held), None)
        if key is not None:
            return [port for port, _ in seen[seen.index(key) :]]
    return []
