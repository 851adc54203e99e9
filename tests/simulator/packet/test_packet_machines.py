"""Machines and graphs of ours as networks of packets."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1]))

from cases import collective, compute, receive, send, system_of, trace_of

import chakrasim as cs
from chakrasim import InputError, StallError
from chakrasim.collectives.libraries.settings import Recorded, Settings
from chakrasim.machine import Machine, load_machine, load_system
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import Routing, find_routes
from chakrasim.notes import Notes
from chakrasim.simulator.context import Protocol
from chakrasim.simulator.packet.faults import ALL_FAULTS, NO_FAULTS
from chakrasim.simulator.packet.graph.network import network_of_graph
from chakrasim.simulator.packet.graph.steer import Steering
from chakrasim.simulator.packet.network import Network
from chakrasim.simulator.together import simulate_jobs

SYSTEM = load_system(system_of("ring", preferred_dataset_splits=1, endpoint_delay=0, local_mem_bw=0))
HEADER, PAYLOAD, ACK = 36, 4096, 48
MIB = 1 << 20


def star(ranks: int, gbps: float = 100.0, latency_ns: float = 500.0) -> GraphBuilder:
    graph = GraphBuilder("star")
    graph.add_ranks(ranks)
    switch = graph.vertex("switch")
    for rank in range(ranks):
        graph.cable(rank, switch, gbps / 8, latency_ns)
    return graph


def family(parts: Any, logical: tuple[int, ...] | None = None, **more: Any) -> NetworkGraph:
    network = {"graph": {"parts": [parts], **more}, **({"logical": list(logical)} if logical else {})}
    return load_machine({"network": network}).graph


TORUS = {"torus": {"sizes": [3, 4], "bandwidth": "50 GB/s", "latency": "500 ns"}}
LEAVES = {
    "leaf-spine": {
        "hosts-per-leaf": 4, "spines": 3, "bandwidth": "100 Gb/s", "uplink": "100 Gb/s", "latency": "500 ns"
    }
}  # fmt: skip


def packets_of(graph: NetworkGraph, routing: Routing | None = None, notes: Notes | None = None, **keys: Any) -> Network:
    return network_of_graph(graph, routing or Routing(), keys, "machine", NO_FAULTS, notes or Notes())


def message(graph: NetworkGraph, source: int, target: int, size: int, **how: Any) -> cs.SimulationResult:
    """One message on a graph, by packets."""
    traces = [trace_of([compute(0, 0)]) for _ in range(graph.ranks)]
    traces[source], traces[target] = trace_of([send(0, target, size)]), trace_of([receive(0, source, size)])
    routing = how.pop("routing", Routing())
    return cs.simulate(traces, machine=Machine(graph, SYSTEM, routing=routing), network_model="packet", **how)


# -- what stands for what ----------------------------------------------------------------------------------------------


def test_a_message_takes_its_packets_and_the_way() -> None:
    """Three packets through a switch: all are sent, the last is stored and sent on, over two cables."""
    size = 2 * PAYLOAD + 1000
    full, last = (round((one + HEADER) * 0.08) for one in (PAYLOAD, 1000))
    found = message(star(3).build(), 0, 2, size)
    assert abs(found.finish_ns[2] - (3 * full + last + 1000)) <= 2
    assert found.packets is not None and found.packets.transmissions == 12


def test_ranks_that_forward_are_hosts_behind_switches_of_their_own() -> None:
    graph = family(TORUS)
    network = packets_of(graph)
    assert network.topology.hosts == tuple(range(12)) and network.topology.nodes == 24
    own = [link for link in network.topology.links if link.a < 12]
    assert [(link.b - link.a, link.rate, link.delay_ns) for link in own] == [(12, 1_600_000_000_000, 0)] * 12
    far = message(graph, 0, 7, 100).finish_ns[7]  # (1, 2): three cables away
    near = message(graph, 0, 1, 100).finish_ns[1]
    assert far - near == 2 * (500 + round(136 / 50))


def test_ranks_that_do_not_forward_have_their_ports() -> None:
    graph = load_machine("h100", gpus=16, library="none").graph
    network = packets_of(graph)
    assert network.topology.nodes == graph.vertices
    assert network.ways.hops[0, 1] == 2 and network.ways.hops[0, 8] == 4 and network.ways.hops[0, 9] == 6


def test_each_of_parallel_cables_is_a_way() -> None:
    """The reference has the last of them carry all."""
    graph = GraphBuilder()
    graph.add_ranks(2)
    graph.cable(0, 1, 12.5, 100.0, count=3)
    assert packets_of(graph.build()).ways.of(0, 1) == [1, 2, 3]
    compat = network_of_graph(graph.build(), Routing(), {}, "machine", ALL_FAULTS, Notes())
    assert compat.ways.of(0, 1) == [3]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda g: g.link(0, 1, 1.0, 1.0), "link 0-1: a link has no way back"),
        (lambda g: g.cable(0, 1, 1.0, 1.0, back=(2.0, 1.0)), "0-1: the two ways of a cable differ"),
        (lambda g: g.cable(0, 1, 1.0, 1.0, shared=True), "1-0: links share one capacity"),
        (lambda g: g.plan(5.0, g.cable(0, 1, 1.0, 1.0), 0.0), "0-1: a link changes at a known time"),
        (lambda g: g.cable(0, 1, 1e-8, 1.0), "a link's speed is out of range for packets"),
    ],
)
def test_links_that_packets_do_not_know(make: Any, message: str) -> None:
    graph = star(2)
    make(graph)
    with pytest.raises(InputError, match=message.removeprefix("link ")):
        packets_of(graph.build())


# -- ways --------------------------------------------------------------------------------------------------------------


def way(network: Network, source: int, target: int) -> list[int]:
    """The ports of the first way."""
    found, here = [], source
    while here != target:
        found.append(network.ways.of(here, target)[0])
        here = int(network.ports.node[network.ports.peer[found[-1]]])
    return found


@pytest.mark.parametrize(
    ("graph", "routing"),
    [
        (family(TORUS, (3, 4)), Routing("dimension-order")),
        (family({"fat-tree": {"k": 4, "bandwidth": "100 Gb/s", "latency": "500 ns"}}), Routing("d-mod-k")),
    ],
)
def test_rules_of_one_way_are_followed_link_by_link(graph: NetworkGraph, routing: Routing) -> None:
    network = packets_of(graph, routing)
    assert network.link_ports is not None
    pairs = [(a, b) for a in range(graph.ranks) for b in range(graph.ranks) if a != b]
    routes = find_routes(graph, [a for a, _ in pairs], [b for _, b in pairs], None, routing)
    own = set(np.flatnonzero(network.ports.link >= graph.links // 2).tolist())
    for i, (a, b) in enumerate(pairs):
        assert [port for port in way(network, a, b) if port not in own] == network.link_ports[routes.of(i)[0]].tolist()
        assert network.ways.delay_ns[a, b] == routes.latency_ns(graph)[i]


def test_shortest_ways_are_all_next_links_of_the_rule() -> None:
    """By hops the packet network searches itself; the same tables come from the graph's own routes."""
    graph = family(LEAVES, ranks=8)
    search, rule = packets_of(graph), packets_of(graph, Routing(metric="latency"))
    for node in range(graph.vertices):
        for rank in range(graph.ranks):
            if node != rank:
                assert sorted(search.ways.of(node, rank)) == sorted(rule.ways.of(node, rank))
    for name in ("round_trip_ns", "delay_ns", "bandwidth", "hops"):
        assert (getattr(search.ways, name) == getattr(rule.ways, name)).all(), name
    assert len(search.ways.of(8, 7)) == 3


@pytest.mark.parametrize(
    ("routing", "said"),
    [
        (Routing("spray"), "spray, which divides a flow packet by packet"),
        (Routing("adaptive"), "adaptive, which looks at loads"),
        (Routing("ecmp", polarised=True), "polarised hashes"),
    ],
)
def test_rules_that_packets_cannot_follow_are_told(routing: Routing, said: str) -> None:
    found = message(family(LEAVES, ranks=8), 0, 7, 5000, routing=routing)
    assert found.warnings == (
        f"the packet network does not know {said}: of equally short ways, a hash of each flow chooses one",
    )
    assert found.makespan_ns == message(family(LEAVES, ranks=8), 0, 7, 5000).makespan_ns


def test_given_ways_that_no_table_of_next_hops_holds_are_refused() -> None:
    graph = family(LEAVES, ranks=8)
    paths = [
        {"from": str(a), "to": "7", "links": [f"{a}-leaf0", f"leaf0-spine{a}", f"spine{a}-leaf1", "leaf1-7"]}
        for a in (0, 1)
    ]
    others = [
        {"at": name, "to": str(to), "links": [f"{name}-{on}"]}
        for to in range(8)
        for name, on in [
            *((str(a), f"leaf{a // 4}") for a in range(8) if a != to),
            (f"leaf{1 - to // 4}", "spine0"), ("spine0", f"leaf{to // 4}"), (f"leaf{to // 4}", str(to)),
        ]
    ]  # fmt: skip
    keys = {"rule": "given", "paths": paths, "next": others}
    machine = load_machine({"network": {"graph": {"ranks": 8, "parts": [LEAVES], "routing": keys}}})
    with pytest.raises(InputError, match=r"leave a vertex by several links.*found leaf0, towards rank 7"):
        packets_of(graph, machine.routing)


def test_another_seed_sends_flows_other_ways() -> None:
    graph = family(LEAVES, ranks=8)

    def ports(seed: int) -> list[int]:
        found = message(graph, 0, 7, 5000, routing=Routing(seed=seed)).packets
        assert found is not None
        return found.messages[:, 2].tolist()

    assert ports(1) == [10_000] and ports(2) == [17_919]


def murmur(seed: int, *words: int) -> int:
    """MurmurHash3 of 32 bits, of whole words."""
    most, h = 0xFFFFFFFF, seed
    for word in words:
        k = word * 0xCC9E2D51 & most
        h ^= ((k << 15 | k >> 17) & most) * 0x1B873593 & most
        h = ((h << 13 | h >> 19) & most) * 5 + 0xE6546B64 & most
    h ^= 4 * len(words)
    h = (h ^ h >> 16) * 0x85EBCA6B & most
    h = (h ^ h >> 13) * 0xC2B2AE35 & most
    return h ^ h >> 16


def test_ports_are_found_that_lead_over_wanted_links() -> None:
    """What the search of ports takes for the hash is the switches' own."""
    graph = family(LEAVES, ranks=8)
    network = packets_of(graph)
    assert network.link_ports is not None
    steering = Steering(network, 10_000, 100)
    pairs = [(a, b) for a in range(4) for b in range(4, 8)]
    for seed in range(5):
        routes = find_routes(graph, [a for a, _ in pairs], [b for _, b in pairs], None, Routing(seed=seed))
        found = steering.ports_for([a for a, _ in pairs], [b for _, b in pairs], routes)
        for i, (a, b) in enumerate(pairs):
            leaf, up = 8, routes.of(i)[0][1]
            among = network.ways.of(leaf, b)
            word = int(found[i]) | 100 << 16
            chosen = among[murmur(leaf, 0x0B000001 + a * 256, 0x0B000001 + b * 256, word) % 3]
            assert chosen == network.link_ports[up]


# -- settings ----------------------------------------------------------------------------------------------------------


def test_thresholds_of_speeds_that_are_not_shipped_lie_between_those_that_are() -> None:
    graph = star(2, 400.0)
    extra = graph.vertex("extra")
    graph.cable(2, extra, 300 / 8, 100.0)
    graph.cable(2, extra, 7200 / 8, 100.0)
    settings = packets_of(graph.build()).settings
    assert settings.kmin_map == {300 * 10**9: 700.0, 400 * 10**9: 800.0, 7200 * 10**9: 800.0}
    assert settings.kmax_map == {300 * 10**9: 2800.0, 400 * 10**9: 3200.0, 7200 * 10**9: 3200.0}
    assert (settings.cc_mode, settings.packet_payload_size, settings.buffer_size) == (12, 4096, 32)


def test_buffers_hold_twice_the_headrooms() -> None:
    """Sixteen ports of 800 Gb/s with 10 us: 3 MB of headroom each."""
    network = packets_of(star(16, 800.0, 10_000.0).build())
    assert network.settings.buffer_size == -(-2 * 16 * (3_000_000 + 2 * (PAYLOAD + 128) + 4096) // MIB)
    assert packets_of(star(16, 800.0, 10_000.0).build(), BUFFER_SIZE=64).settings.buffer_size == 64


def test_settings_come_from_the_machine_and_before_it_from_a_file(tmp_path: Path) -> None:
    graph = {"ranks": 2, "switches": ["s"], "cables": [
        {"between": ["0", "s"], "bandwidth": "100 Gb/s"}, {"between": ["1", "s"], "bandwidth": "100 Gb/s"},
    ]}  # fmt: skip
    machine = load_machine({"network": {"graph": graph, "network-model": "packet"}, "packets": {
        "PACKET_PAYLOAD_SIZE": 1000, "CC_MODE": 3}})  # fmt: skip
    traces = [trace_of([send(0, 1, 10_000)]), trace_of([receive(0, 0, 10_000)])]
    assert sent(cs.simulate(traces, machine=machine)) == 40
    (tmp_path / "own.txt").write_text("PACKET_PAYLOAD_SIZE 5000\n")
    assert sent(cs.simulate(traces, machine=machine, settings=tmp_path / "own.txt")) == 8
    assert sent(cs.simulate(traces, machine=machine, settings={"PACKET_PAYLOAD_SIZE": 2000})) == 20
    with pytest.raises(InputError, match=r"settings: PACKET_PAYLOAD_SIZ: unknown key.*PACKET_PAYLOAD_SIZE"):
        cs.simulate(traces, machine=machine, settings={"PACKET_PAYLOAD_SIZ": 2000})
    with pytest.raises(InputError, match="a link's speed has no threshold for marks"):
        cs.simulate(traces, machine=machine, settings={"KMIN_MAP": {1: 1}})
    (tmp_path / "own.txt").write_text("topology: [Ring]\n")
    with pytest.raises(InputError, match="this is no configuration of a network of packets"):
        cs.simulate(traces, machine=machine, settings=tmp_path / "own.txt")


def sent(result: cs.SimulationResult) -> int:
    assert result.packets is not None
    return result.packets.transmissions


# -- libraries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("board", "environment", "kind", "size"),
    [
        ("h100", {"NCCL_ALGO": "ring"}, 0, 16 * MIB),
        ("h100", {"NCCL_ALGO": "tree"}, 0, 4 * MIB),
        ("h100", {"NCCL_ALGO": "tree"}, 0, 65536),
        ("h100", {"NCCL_ALGO": "ring"}, 2, 4 * MIB),
        ("h100", {}, 6, 4 * MIB),
        ("mi300x", {}, 3, 4 * MIB),
    ],
)
def test_a_librarys_messages_take_about_what_flow_says(
    board: str, environment: dict[str, str], kind: int, size: int
) -> None:
    settings = {"collectives.environment": environment} if environment else None
    machine = load_machine(board, gpus=16, settings=settings)
    traces = [trace_of([collective(0, kind, size)])] * 16
    flow, packet = (cs.simulate(traces, machine=machine, network_model=model) for model in ("flow", "packet"))
    assert packet.makespan_ns == pytest.approx(flow.makespan_ns, rel=0.1)
    assert not packet.warnings and packet.packets is not None and packet.packets.dropped == 0


def test_collectives_that_add_up_in_switches_run_otherwise() -> None:
    traces = [trace_of([collective(0, 0, 64 * MIB)])] * 8
    found = cs.simulate(traces, machine=load_machine("h100", gpus=8), network_model="packet")
    assert found.warnings == (
        "the library would run some collectives by nvls, in which switches add up: packets know no such sums, so that "
        "these run as without it, by ring",
    )
    recorded = Recorded("all_reduce", 64 * MIB, "nvls", "Simple", 16)
    logged = replace(load_machine("h100", gpus=8), settings=Settings(recorded=(recorded,)))
    assert cs.simulate(traces, machine=logged, network_model="packet").warnings == found.warnings
    asked = load_machine("h100", gpus=8, settings={"collectives.environment": {"NCCL_ALGO": "nvls"}})
    with pytest.raises(InputError, match="runs this collective by nvls, in which switches add up"):
        cs.simulate(traces, machine=asked, network_model="packet")


def test_dimensions_are_graphs_too() -> None:
    """The collectives of the system file, dimension by dimension, over the links of the dimensions."""
    network = {"topology": ["Ring", "Switch"], "npus_count": [4, 2], "bandwidth": [50.0, 25.0], "latency": [100.0] * 2}
    system = system_of("ring", "ring", preferred_dataset_splits=2, endpoint_delay=0, local_mem_bw=0)
    traces = [trace_of([collective(0, 0, MIB)])] * 8
    flow, packet = (
        cs.simulate(traces, system=system, network=network, network_model=model, protocol=Protocol(messages=messages))
        for model, messages in (("flow", True), ("packet", False))
    )
    assert packet.makespan_ns == pytest.approx(flow.makespan_ns, rel=0.1)


# -- failures and jobs -------------------------------------------------------------------------------------------------


def failing(*changes: dict[str, Any], size: int = 4 * MIB) -> cs.SimulationResult:
    return message(family(LEAVES, ranks=8), 0, 7, size, changes={"changes": list(changes)})


def test_a_link_that_fails_is_gone_round() -> None:
    """All uplinks but one go down while the message is under way, one by one; what was lost is sent again."""
    plain = message(family(LEAVES, ranks=8), 0, 7, 4 * MIB)
    found = failing({"at": "50 us", "down": "leaf0-spine0"}, {"at": "100 us", "down": "leaf0-spine1"})
    assert plain.makespan_ns < found.makespan_ns < 2 * plain.makespan_ns + 3_000_000
    assert found.packets is not None and found.packets.lost > 0


def test_a_link_that_comes_back_carries_on() -> None:
    cut = [{"at": "50 us", "down": "0-leaf0"}]
    found = failing(*cut, {"at": "700 us", "up": "0-leaf0"})
    plain = message(family(LEAVES, ranks=8), 0, 7, 4 * MIB)
    assert found.makespan_ns > plain.makespan_ns + 650_000
    with pytest.raises(StallError):
        failing(*cut)


def test_a_message_waits_for_a_way() -> None:
    """It is sent while there is none."""
    graph = family(LEAVES, ranks=8)
    traces = [trace_of([]) for _ in range(8)]
    traces[0], traces[7] = trace_of([compute(0, 100), send(1, 7, 1000, deps=[0])]), trace_of([receive(0, 0, 1000)])
    changes = {"changes": [{"at": "1 us", "down": "leaf1-7"}, {"at": "200 us", "up": "leaf1-7"}]}
    machine = Machine(graph, SYSTEM)
    found = cs.simulate(traces, machine=machine, network_model="packet", changes=changes)
    assert 200_000 < found.makespan_ns < 210_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"at": "1 us", "cable": "leaf0-spine0", "bandwidth": "50 Gb/s"}, "leaf0-spine0 gets another speed"),
        ({"at": "1 us", "down": "3"}, "a rank that fails takes its job with it"),
    ],
)
def test_changes_that_packets_do_not_know(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        failing(change)


def test_jobs_share_links_packet_by_packet(tmp_path: Path) -> None:
    cs.write(tmp_path / "step", [trace_of([send(0, 1, MIB)]), trace_of([receive(0, 0, MIB)])])
    jobs = {"jobs": [
        {"name": name, "trace": str(tmp_path / "step"), "place": [rank, 4 + rank]} for rank, name in enumerate("ab")
    ]}  # fmt: skip
    graph = GraphBuilder("one uplink")
    graph.add_ranks(6)
    left, right = graph.vertex("left"), graph.vertex("right")
    for rank in range(6):
        graph.cable(rank, left if rank < 4 else right, 12.5, 100.0)
    graph.cable(left, right, 12.5, 100.0)
    found = simulate_jobs(jobs, machine=Machine(graph.build(), SYSTEM), network_model="packet")
    for job in found.jobs:
        assert job.slowdown == pytest.approx(2, rel=0.05) and not job.error
