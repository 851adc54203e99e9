"""What must hold of every run of packets, worked out from the log of transmissions and from the tables."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np

from chakrasim.notes import Notes
from chakrasim.simulator.packet import state as at
from chakrasim.simulator.packet.alone.case import case_of
from chakrasim.simulator.packet.alone.result import PacketResult
from chakrasim.simulator.packet.alone.run import prepare, run_packets
from chakrasim.simulator.packet.build import around_the_cut, grown
from chakrasim.simulator.packet.clock import NEVER
from chakrasim.simulator.packet.faults import NO_FAULTS
from chakrasim.simulator.packet.loop import ALL_ENDED, DRY, LINK_DOWN, NEEDS_ROOM, run
from chakrasim.simulator.packet.network import Network
from chakrasim.simulator.packet.state import Net
from chakrasim.simulator.packet.switches import RESERVE

TOO_MANY_EVENTS = 3_000_000


def checked_run(case: dict[str, Any], step: int = 1000) -> PacketResult:
    """Run a case with the defaults in steps of so many events, looking at all buffers after each."""
    packets = case_of(case, "case", NO_FAULTS, Notes())
    network = last = packets.network
    net = prepare(network, packets.flows, log=True)
    while True:
        reason = run(net, NEVER, net.starts.size, step)
        check_buffers(net, network)
        if reason in (DRY, ALL_ENDED):
            break
        assert net.g[at.EVENTS] < TOO_MANY_EVENTS, "it does not end"
        if reason == NEEDS_ROOM:
            net = grown(net)
        elif reason == LINK_DOWN:
            net, last = around_the_cut(net, network)
    result = PacketResult(network, last, packets.flows, net)
    check_flows(result, cut="LINK_DOWN" in case["config"])
    check_conservation(result)
    return result


def queue_at(net: Net, port: int, priority: int) -> int:
    """Where a queue stands in the table."""
    return priority * net.ports.size + port


def waiting_of(net: Net, port: int, priority: int) -> list[int]:
    """The items in a queue."""
    found, item = [], int(net.queues[queue_at(net, port, priority)].head)
    while item:
        found.append(item)
        item = int(net.items[item].next)
    return found


def check_buffers(net: Net, network: Network) -> None:
    """The accounts of every switch are what lies in its queues, and that is no more than it has room for."""
    ports = network.ports
    for node in network.topology.switches:
        own = range(int(ports.first[node]) + 1, int(ports.first[node + 1]) + 1)
        came: Counter[tuple[int, int]] = Counter()
        held = 0
        for port in own:
            for priority in range(1, 8):
                items = waiting_of(net, port, priority)
                assert int(net.queues[queue_at(net, port, priority)].egress) == sum(
                    int(net.items[i].bytes) for i in items
                )
                assert bool(items) == bool(int(net.ports[port].filled) >> priority & 1)
                for item in items:
                    came[int(net.items[item].port), priority] += int(net.items[item].bytes)
            items = [net.items[item] for priority in range(8) for item in waiting_of(net, port, priority)]
            assert int(net.ports[port].queued) == sum(int(item.bytes) for item in items)
            if not network.settings.ack_high_prio:
                held += sum(int(item.bytes) for item in items if item.kind != at.PAUSE)
        shared = 0
        for port in own:
            for priority in range(1, 8):
                queue = net.queues[queue_at(net, port, priority)]
                ingress, beyond = int(queue.ingress), int(queue.beyond)
                assert ingress + beyond == came[port, priority], (node, port, priority)
                assert 0 <= beyond <= int(net.ports[port].headroom)
                shared += max(ingress - RESERVE, 0)
        assert int(net.nodes[node].shared) == shared <= max(int(net.nodes[node].total), 0)
        assert held <= network.settings.buffer_size << 20, (node, held)


def check_flows(result: PacketResult, *, cut: bool) -> None:
    """All have ended, in an order of time, or have no way; and no sooner than their bytes can come."""
    ends = result.net.flows.ended[result.order + 1]
    assert (np.diff(ends) >= 0).all()
    assert len(result.order) == len(set(result.order.tolist()))
    own = result.net.flows[1 : len(result.flows) + 1]
    for flow in result.unfinished[:1]:
        locked = "pauses wait for one another in a circle: switch" in result.stuck_text
        assert locked or (cut and "way" in result.stuck_text), (flow, result.stuck_text)
    for flow in result.order.tolist():
        source, target, _, _, size, start = result.flows[flow].tolist()
        assert own[flow].una == size and own[flow].began == start
        ports = [*result.network.ways.of(source, target), *result.last.ways.of(source, target)]
        speed = max(int(result.net.ports[port].rate) for port in ports)
        assert result.fct_ns[flow] >= size * 8 * 10**9 // speed, flow


def check_conservation(result: PacketResult) -> None:
    """What went into switches came out of them, was dropped, or is there; receivers got each byte once, in order."""
    net, ports = result.net, result.network.ports
    log = net.log[: net.g[at.LOGS]]
    assert len(log) == net.g[at.PACKETS]
    is_switch = np.isin(np.arange(result.network.topology.nodes), result.network.topology.switches)
    packet = log.kind != at.PAUSE
    arrived = log.time + serial(result, log) + net.ports.delay[log.port] <= net.g[at.NOW]
    to_switch = is_switch[ports.node[ports.peer[log.port]]]
    from_switch = is_switch[ports.node[log.port]]
    came, left = int((packet & arrived & to_switch).sum()), int((packet & from_switch).sum())
    waits = sum(
        len(waiting_of(net, port, priority))
        for port in range(1, net.ports.size) if is_switch[ports.node[port]]
        for priority in range(8)
    )  # fmt: skip
    frames = sum(
        net.items[item].kind == at.PAUSE
        for port in range(1, net.ports.size) if is_switch[ports.node[port]]
        for item in waiting_of(net, port, 0)
    )  # fmt: skip
    gone = came - left - (waits - frames) - int(net.g[at.DROPPED]) - int(net.g[at.UNROUTED])
    # What arrives in the very last instant may not have been looked at.
    now = int(
        (packet & to_switch & (log.time + serial(result, log) + net.ports.delay[log.port] == net.g[at.NOW])).sum()
    )
    assert 0 <= gone <= int(net.g[at.LOST]) + now, (came, left, waits, int(net.g[at.DROPPED]))
    refused_chunks = net.g[at.BACK_TO_ZERO] and net.g[at.NACKS]
    if not net.g[at.LOST] and not refused_chunks:
        replay_receivers(result, log)


def serial(result: PacketResult, log: Any) -> Any:
    """The time that each transmission of a log takes."""
    return result.net.times[result.net.ports.row[log.port] + log.bytes]


def replay_receivers(result: PacketResult, log: Any) -> None:
    """Nothing is lost on links: what each target sends back is what a receiver says to the packets that came."""
    net, ports = result.net, result.network.ports
    header = result.network.header_bytes
    arrivals = log.time + serial(result, log) + net.ports.delay[log.port]
    events = [(int(row.time), 1, row) for row in log if row.kind in (at.ACK, at.NACK)]
    events += [(int(time), 0, row) for time, row in zip(arrivals.tolist(), log, strict=True) if row.kind == at.DATA]
    expected: Counter[int] = Counter()
    most: Counter[int] = Counter()
    for _, reply, row in sorted(events, key=lambda event: event[:2]):
        flow, here = int(row.flow), int(ports.node[row.port])
        if reply:
            if here == result.flows[flow - 1, 1]:
                assert row.seq <= expected[flow], "an acknowledgement of what has not come"
                most[flow] = max(most[flow], int(row.seq))
            continue
        if ports.node[ports.peer[row.port]] != result.flows[flow - 1, 1]:
            continue
        behind = int(row.seq) + int(row.bytes) - header
        if row.seq <= expected[flow] < behind:
            expected[flow] = behind
        else:
            moved = result.last is not result.network  # packets on the new way may overtake those on the old one
            assert row.seq <= expected[flow] or net.g[at.DROPPED] or moved, "a gap without a loss"
    for flow in result.order.tolist():
        assert expected[flow + 1] == most[flow + 1] == result.flows[flow, 4]


def same_again(case: dict[str, Any], result: PacketResult) -> None:
    """The same bytes from another run, in one go."""
    again = run_packets(case_of(case, "case", NO_FAULTS, Notes()), keep_packets=True)
    assert again.net.log[: again.net.g[at.LOGS]].tobytes() == result.net.log[: result.net.g[at.LOGS]].tobytes()
    assert json.dumps(again.to_dict(), allow_nan=False) == json.dumps(result.to_dict(), allow_nan=False)
