"""What users ask of their networks, through the engine, with figures worked by hand (graph-networks.md, 10).

Of its ten cases 1 and 2 (the hybrid cube mesh, unequal islands) are in `test_activities.py`, 8 (a node fails) in
`test_network_changes.py`.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import collective, compute, receive, send, system_of, trace_of

import chakrasim as cs
from chakrasim.cli.main import main
from chakrasim.machine import Machine, load_machine, load_system
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import Routing, find_routes
from chakrasim.simulator.jobs import PlacedJob
from chakrasim.simulator.together import simulate_jobs
from chakrasim.trace import Job

ALL_REDUCE = 0
MB = 1_000_000
SYSTEM = load_system(system_of("ring", preferred_dataset_splits=1, endpoint_delay=0, local_mem_bw=0))


def messages(graph: NetworkGraph, pairs: list[tuple[int, int]], size: int, **routing: Any) -> cs.SimulationResult:
    """Each pair sends one message, all from time 0."""
    nodes: list[list[Any]] = [[] for _ in range(graph.ranks)]
    for source, target in pairs:
        nodes[source].append(send(len(nodes[source]), target, size))
        nodes[target].append(receive(len(nodes[target]), source, size))
    machine = Machine(graph, SYSTEM, routing=Routing(**routing))
    return cs.simulate([trace_of(own) for own in nodes], machine=machine)


def links_of(result: cs.SimulationResult) -> dict[str, tuple[int, float]]:
    return {link.name: (link.bytes, link.busy_share) for link in result.graph_links}


# -- 3: parallel cables ------------------------------------------------------------------------------------------------


def four_cables(hosts: int) -> NetworkGraph:
    """Hosts at 400 Gb/s on two leaves; one leaf has four cables of 100 Gb/s to the spine, the other a wide one."""
    graph = GraphBuilder()
    graph.add_ranks(2 * hosts)
    leaves, spine = graph.add_switches("leaf", 2), graph.vertex("spine")
    for rank in range(2 * hosts):
        graph.cable(rank, leaves[rank // hosts], 50.0, 0.0)
    graph.cable(leaves[0], spine, 12.5, 0.0, count=4)
    graph.cable(leaves[1], spine, 1000.0, 0.0)
    return graph.build()


@pytest.mark.parametrize(("rule", "took"), [("ecmp", 80_000), ("spray", 20_000)])
def test_one_flow_has_one_of_four_cables_and_sprayed_all(rule: str, took: int) -> None:
    result = messages(four_cables(1), [(0, 1)], MB, rule=rule)
    assert result.makespan_ns == took


def test_many_flows_have_all_four_cables() -> None:
    result = messages(four_cables(32), [(host, host + 32) for host in range(32)], MB)
    carried = {name: size for name, (size, _) in links_of(result).items() if name.startswith("leaf0-spine")}
    flows = [size // MB for size in carried.values()]
    assert len(flows) == 4 and sum(flows) == 32
    # All cables are full until their own flows end, at once: k flows of one cable after k times 80 us.
    assert Counter(result.finish_ns[32:].tolist()) == sum((Counter({80_000 * k: k}) for k in flows), Counter())
    busy = {name: share for name, (_, share) in links_of(result).items() if name in carried}
    assert busy == {name: pytest.approx(size / MB / max(flows)) for name, size in carried.items()}


# -- 4: is the switch blocking -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("backplane", "took"), [(None, 20_000), (100.0, 40_000)])
def test_a_switch_has_no_limit_of_its_own_and_a_backplane_is_a_link(backplane: float | None, took: int) -> None:
    graph = GraphBuilder()
    graph.add_ranks(8)
    inward = outward = graph.vertex("switch")
    if backplane is not None:
        outward = graph.vertex("out")
        graph.link(inward, outward, backplane, 0.0)
    for rank in range(8):
        graph.link(rank, inward, 50.0, 0.0)
        graph.link(outward, rank, 50.0, 0.0)
    result = messages(graph.build(), [(rank, rank + 4) for rank in range(4)], MB)
    assert result.makespan_ns == took
    if backplane is not None:
        assert result.graph_links[0].name == "switch-out" and result.graph_links[0].busy_share == 1.0


# -- 5: a hash collision -----------------------------------------------------------------------------------------------


def two_spines(hosts: int, per_island: int | None = None) -> NetworkGraph:
    graph = GraphBuilder()
    graph.add_ranks(2 * hosts, per_island)
    leaves = graph.add_switches("leaf", 2)
    for rank in range(2 * hosts):
        graph.cable(rank, leaves[rank // hosts], 50.0, 0.0)
    for spine in graph.add_switches("spine", 2):
        for leaf in leaves:
            graph.cable(leaf, spine, 50.0, 0.0)
    return graph.build()


def first_spine(graph: NetworkGraph, source: int, target: int, seed: int) -> str:
    """The link by which a pair's way leaves its leaf."""
    routes = find_routes(graph, [source], [target], None, Routing(seed=seed))
    return graph.link_names[routes.link[1]]


def test_two_flows_that_collide_have_half_each_and_the_result_names_them() -> None:
    graph = two_spines(3)
    pairs = [(0, 3), (1, 4), (2, 5)]
    for seed in range(100):
        first, second, third = (first_spine(graph, *pair, seed) for pair in pairs)
        if first == second != third:
            break
    result = messages(graph, pairs, MB, seed=seed)
    assert result.finish_ns[3:].tolist() == [40_000, 40_000, 20_000]
    links = {link.name: link for link in result.graph_links}
    assert result.graph_links[0].busy_share == links[first].busy_share == 1.0
    assert links[third].busy_share == 0.5
    assert [(user.name, user.bytes) for user in links[first].users] == [
        ("messages 0 -> 3", MB),
        ("messages 1 -> 4", MB),
    ]
    table = cs.summary(result)
    assert f"{first}" in table and "messages 0 -> 3 (50.0%); messages 1 -> 4 (50.0%)" in table


def test_a_collective_is_named_with_its_channels() -> None:
    """Two islands of two, a ring for each member: where both channels leave by one spine, that link has two flows."""
    graph = two_spines(2, per_island=2)
    said = set()
    for seed in range(20):
        machine = Machine(graph, SYSTEM, routing=Routing(seed=seed))
        result = cs.simulate(trace_of([collective(0, ALL_REDUCE, 4 * MB)]), ranks=4, machine=machine)
        up = {link.name: link for link in result.graph_links if link.name.startswith("leaf0-spine")}
        said.add(tuple(sorted(user.name for link in up.values() for user in link.users)))
        # Each channel sends 2 x 3/4 of its 2 MB over each of its hops.
        assert {link.bytes for link in up.values()} == ({6 * MB} if len(up) == 1 else {3 * MB})
    assert said == {
        ("all-reduce of 0-3: 2 flows of channels 0 to 1",),
        ("all-reduce of 0-3: 1 flow of channel 0", "all-reduce of 0-3: 1 flow of channel 1"),
    }


# -- 6: the same time whatever the topology ----------------------------------------------------------------------------


def test_hidden_communication_is_called_hidden() -> None:
    """An all-reduce of 100 KB beside a millisecond of compute: 3 us on a star, 6 us on half its speed."""
    said, makespans = [], set()
    for speed in (50.0, 25.0):
        graph = GraphBuilder()
        graph.add_ranks(4)
        switch = graph.vertex("switch")
        for rank in range(4):
            graph.cable(rank, switch, speed, 0.0)
        trace = trace_of([compute(0, 1000), collective(1, ALL_REDUCE, 100_000)])
        result = cs.simulate(trace, ranks=4, machine=Machine(graph.build(), SYSTEM))
        makespans.add(result.makespan_ns)
        assert result.graph_links[0].busy_share == pytest.approx(150_000 / speed / MB)
        said.append(cs.summary(result))
    assert makespans == {MB}
    line = "communication is hidden: no rank waits for it alone in more than 0.0% of the run"
    assert all(line in text for text in said)


def test_communication_that_is_waited_for_is_not_called_hidden() -> None:
    trace = trace_of([compute(0, 1000), collective(1, ALL_REDUCE, 10 * MB, [0])])
    result = cs.simulate(trace, ranks=6, machine=Machine(two_spines(3), SYSTEM))
    assert "hidden" not in cs.summary(result)


# -- 7: a NIC slower than NVLink, PCIe slower than the NIC -------------------------------------------------------------


def test_the_slowest_link_of_the_way_is_named() -> None:
    """16 MB to the next board: 4 cables of 500 ns, and 16 bytes a ns where PCIe is Gen4 x8, else the NIC's 50."""
    nodes: list[list[Any]] = [[] for _ in range(16)]
    nodes[0], nodes[8] = [send(0, 8, 16 * MB)], [receive(0, 0, 16 * MB)]
    workload = [trace_of(own) for own in nodes]
    for setting, rate, slowest in (
        ({}, 50, "nic0-leaf0"),
        ({"network.graph.parts.nics.pcie": "16 GB/s"}, 16, "0-nic0"),
    ):
        result = cs.simulate(workload, machine=load_machine("h100", gpus=16, settings=setting))
        assert result.makespan_ns == 4 * 500 + 16 * MB // rate
        full = [name for name, (_, share) in links_of(result).items() if share > 0.99]
        assert slowest in full
        assert links_of(result)["nic0-leaf0"][1] == pytest.approx(rate / 50, rel=0.01)
        assert result.graph_links[0].name in full


# -- 9: two jobs -------------------------------------------------------------------------------------------------------


def test_two_jobs_are_told_what_each_costs_the_other() -> None:
    """1.5 and 0.5 MB over one cable: together 25 bytes a ns each till the small one ends after 20 us, then 50."""
    graph = GraphBuilder()
    graph.add_ranks(4)
    left, right = graph.vertex("left"), graph.vertex("right")
    for rank in range(4):
        graph.cable(rank, left if rank < 2 else right, 50.0, 0.0)
    graph.cable(left, right, 50.0, 0.0)
    jobs = []
    for rank, (name, size) in enumerate({"big": 3 * MB // 2, "small": MB // 2}.items()):
        traces = trace_of([send(0, 1, size)]), trace_of([receive(0, 0, size)])
        jobs.append(PlacedJob(name, Job(traces, np.arange(2)), np.array([rank, rank + 2])))
    big, small = simulate_jobs(jobs, machine=Machine(graph.build(), SYSTEM)).jobs
    assert (big.finish_ns, big.alone_ns, big.slowdown) == (40_000, 30_000, pytest.approx(4 / 3))
    assert (small.finish_ns, small.alone_ns, small.slowdown) == (20_000, 10_000, 2.0)
    assert [(link.name, list(link.bytes.items())) for link in big.shared_links] == [
        ("left-right", [("big", 3 * MB // 2), ("small", MB // 2)])
    ]


# -- 10: a file edited by hand -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", ["400", "400gbps", "400 Gbps", "Gbps", "-400Gbps"])
def test_a_wrong_rate_is_refused_with_its_line_and_the_units_that_are_known(
    tmp_path: Path, rate: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fabric = f"3 1 2\n2\n0 2 400Gbps 0.0005ms 0\n1 2 {rate} 0.0005ms 0\n"
    (tmp_path / "fabric.txt").write_text(fabric)
    (tmp_path / "machine.yaml").write_text(
        "network: {graph: {file: fabric.txt}}\ncollectives: {splits: 1, algorithms: {all-reduce: ring}}\n"
    )
    cs.write(tmp_path / "step", [trace_of([collective(0, ALL_REDUCE, 8)])] * 2)
    words = ["--machine", str(tmp_path / "machine.yaml"), "--json", str(tmp_path / "out.json")]
    assert main(["simulate", str(tmp_path / "step"), *words]) == 2
    error = capsys.readouterr().err
    assert "fabric.txt: line 4" in error and "Gbps" in error.split("expected")[1]
    assert not (tmp_path / "out.json").exists()
    (tmp_path / "fabric.txt").write_text(fabric.replace(rate + " 0", "100Gbps 0") if rate != "400" else
                                         fabric.replace(" 400 ", " 100Gbps "))  # fmt: skip
    assert main(["simulate", str(tmp_path / "step"), *words, "--quiet"]) == 0
    assert json.loads((tmp_path / "out.json").read_text())["links"]
