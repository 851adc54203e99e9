"""The flow network under workloads: figures worked by hand, changes of links, several jobs, options that contradict."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import collective, compute, network_of, receive, send, system_of, trace_of

import chakrasim as cs
from chakrasim.cli.main import main
from chakrasim.machine import Machine, load_system
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.simulator.jobs import PlacedJob
from chakrasim.simulator.kernels.flows import home_of
from chakrasim.simulator.kernels.layout import PAIR_BITS
from chakrasim.simulator.together import simulate_jobs
from chakrasim.trace import Job, Trace

ALL_REDUCE, ALL_GATHER, ALL_TO_ALL = 0, 2, 6
GIB = 1 << 30
SYSTEM = system_of("ring", preferred_dataset_splits=1, endpoint_delay=0, local_mem_bw=0)


def star(ranks: int, speed: float = 50.0, latency: float = 250.0) -> NetworkGraph:
    graph = GraphBuilder()
    graph.add_ranks(ranks)
    switch = graph.vertex("switch")
    for rank in range(ranks):
        graph.cable(rank, switch, speed, latency)
    return graph.build()


def two_spines() -> NetworkGraph:
    """Ranks 0 and 1 on leaf0, 2 and 3 on leaf1, all links 50 bytes per ns without latency."""
    graph = GraphBuilder()
    graph.add_ranks(4)
    leaves = [graph.vertex("leaf0"), graph.vertex("leaf1")]
    for rank in range(4):
        graph.cable(rank, leaves[rank // 2], 50.0, 0.0)
    for spine in graph.add_switches("spine", 2):
        for leaf in leaves:
            graph.cable(leaf, spine, 50.0, 0.0)
    return graph.build()


def on(graph: NetworkGraph, **more: Any) -> Machine:
    return Machine(graph, load_system(SYSTEM), **more)


def ring(size: int = GIB, kind: int = ALL_REDUCE) -> Trace:
    return trace_of([collective(0, kind, size)])


def run(workload: Any, graph: NetworkGraph, **options: Any) -> cs.SimulationResult:
    ranks = graph.ranks if isinstance(workload, Trace) else None
    return cs.simulate(workload, ranks=ranks, machine=on(graph), **options)


# -- what a collective takes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "size", "per_link", "steps"),
    [
        (ALL_REDUCE, GIB, GIB * 2 * 7 / 8, 14),
        (ALL_GATHER, GIB, GIB * 7, 7),
        (ALL_TO_ALL, GIB, GIB * 7 / 8, 1),
    ],
)
def test_a_collective_alone_takes_its_bytes_over_the_link_and_the_latency_of_its_steps(
    kind: int, size: int, per_link: float, steps: int
) -> None:
    result = run(ring(size, kind), star(8))
    assert result.makespan_ns == math.ceil(per_link / 50 + steps * 500)
    assert set(result.bytes_sent.tolist()) == {round(per_link)}


def test_an_uncontended_message_pays_latencies_once_and_the_narrowest_link() -> None:
    graph = GraphBuilder()
    graph.add_ranks(2)
    switch = graph.vertex("switch")
    graph.cable(0, switch, 7.0, 0.25)
    graph.cable(1, switch, 3.0, 0.5)
    result = run([trace_of([send(0, 1, 1000)]), trace_of([receive(0, 0, 1000)])], graph.build())
    assert result.makespan_ns == math.ceil(0.75 + 1000 / 3)


@pytest.mark.parametrize("ranks", [8, 64])
def test_a_collective_as_one_activity_is_within_two_percent_of_its_messages(ranks: int) -> None:
    graph = star(ranks, latency=10.0)
    whole = run(ring(), graph)
    by_messages = run(ring(), graph, protocol=cs.Protocol(messages=True))
    assert by_messages.messages == 2 * (ranks - 1) * ranks
    assert whole.makespan_ns == pytest.approx(by_messages.makespan_ns, rel=0.02)


def test_collectives_that_share_a_link_share_its_bandwidth() -> None:
    graph = two_spines()
    pairs = cs.simulate(
        [trace_of([collective(0, ALL_GATHER, 500, group=str(1 + rank % 2))]) for rank in range(4)],
        machine=on(graph),
        comm_groups={"1": [0, 2], "2": [1, 3]},
    )
    alone = 500 / 50
    uplinks = {link.name: link.bytes for link in pairs.graph_links if link.name.startswith("leaf0-spine")}
    assert sum(uplinks.values()) == 1000
    assert pairs.makespan_ns == (2 * alone if len(uplinks) == 1 else alone)


def test_a_slow_rank_holds_up_the_collective() -> None:
    nodes = [compute(0, 10), collective(1, ALL_REDUCE, 800, [0])]
    graph = star(4, latency=0.0)
    machine = Machine(graph, on(graph).system, slow=cs_slow("2=1.5"))
    result = cs.simulate(trace_of(nodes), ranks=4, machine=machine)
    assert result.makespan_ns == 15_000 + 800 * 2 * 3 / 4 / 50
    assert result.gpu_ns.tolist() == [10_000, 10_000, 15_000, 10_000]


def cs_slow(*pairs: str) -> Any:
    from chakrasim.machine.slow import parse_slow

    return parse_slow(pairs)


# -- links that change -------------------------------------------------------------------------------------------------

HOP = GIB * 2 * 3 / 4
"""Bytes that a ring of four sends over each of its hops."""


def over_spines(changes: Sequence[Mapping[str, Any]] = ()) -> tuple[int, dict[str, int]]:
    result = run(ring(), two_spines(), **({"changes": {"changes": list(changes)}} if changes else {}))
    return result.makespan_ns, {link.name: link.bytes for link in result.graph_links}


def first_uplink() -> str:
    return next(name for name in over_spines()[1] if name.startswith("leaf0-spine"))


def test_a_link_that_fails_during_a_collective_costs_its_detection_and_loses_no_byte() -> None:
    name = first_uplink()
    other = {"leaf0-spine0": "leaf0-spine1", "leaf0-spine1": "leaf0-spine0"}[name]
    took, links = over_spines([{"at": "10 ms", "down": name, "detect": "1 us"}])
    assert took == math.ceil(HOP / 50 + 1000)
    assert (links[name], links[other]) == (500_000_000, round(HOP) - 500_000_000)


def test_a_network_that_is_cut_says_who_waits_and_goes_on_when_the_link_is_back() -> None:
    cut: list[Mapping[str, Any]] = [{"at": "10 ms", "down": "leaf0"}]
    with pytest.raises(cs.StallError, match="4 of 4 ranks are stuck"):
        over_spines(cut)
    took, links = over_spines([*cut, {"at": "25 ms", "up": "leaf0"}])
    assert took == math.ceil(HOP / 50) + 15_000_000
    assert {links[f"{rank}-leaf{rank // 2}"] for rank in range(4)} == {round(HOP)}


def test_a_degraded_link_is_shared_at_its_new_speed() -> None:
    took, _ = over_spines([{"at": "10 ms", "cable": first_uplink(), "bandwidth": "200 Gb/s"}])
    assert took == math.ceil(10_000_000 + (HOP - 500_000_000) / 25)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"at": "1 ms"}, "changes[0]: a change says one thing, not 0; expected one of down, up, cable"),
        ({"at": "1 ms", "down": "leaf9"}, "changes[0].down: not in the network; found 'leaf9'"),
        ({"at": "1 ms", "cable": "leaf0-spine0"}, "changes[0].bandwidth: cable and bandwidth go together"),
        ({"at": "1", "down": "leaf0"}, "changes[0].at: "),
        ({"at": "1 ms", "donw": "leaf0"}, "changes[0].donw: unknown key"),
    ],
)
def test_changes_that_make_no_sense_are_refused_with_their_place(entry: Mapping[str, Any], said: str) -> None:
    with pytest.raises(cs.InputError) as refused:
        over_spines([entry])
    assert said in str(refused.value)


# -- several jobs ------------------------------------------------------------------------------------------------------


def job_of(*nodes: Any, ranks: int) -> Job:
    return Job((trace_of(nodes),), np.zeros(ranks, np.int64))


def test_jobs_without_a_common_link_take_exactly_what_they_take_alone() -> None:
    first = PlacedJob("a", job_of(collective(0, ALL_REDUCE, GIB), ranks=4), np.arange(0, 4))
    second = PlacedJob("b", job_of(collective(0, ALL_REDUCE, GIB), ranks=4), np.arange(4, 8), start_ns=1000)
    both = simulate_jobs([first, second], machine=on(star(8)))
    alone = math.ceil(HOP / 50 + 6 * 500)
    assert [(job.finish_ns, job.alone_ns, job.slowdown) for job in both.jobs] == [
        (alone, alone, 1.0),
        (1000 + alone, alone, 1.0),
    ]
    assert both.jobs[0].shared_links == ()


def test_jobs_that_share_a_cable_are_told_which_and_what_it_costs() -> None:
    graph = GraphBuilder()
    graph.add_ranks(4)
    left, right = graph.vertex("left"), graph.vertex("right")
    for rank in range(4):
        graph.cable(rank, left if rank < 2 else right, 50.0, 0.0)
    graph.cable(left, right, 50.0, 0.0)
    jobs = [
        PlacedJob(name, job_of(collective(0, ALL_REDUCE, 500_000), ranks=2), np.array([rank, rank + 2]))
        for rank, name in enumerate("ab")
    ]
    result = simulate_jobs(jobs, machine=on(graph.build()))
    assert [(job.alone_ns, job.finish_ns, job.slowdown) for job in result.jobs] == [(10_000, 20_000, 2.0)] * 2
    assert {link.name: link.bytes for link in result.jobs[0].shared_links} == {
        "left-right": {"a": 500_000, "b": 500_000},
        "right-left": {"a": 500_000, "b": 500_000},
    }


def test_two_jobs_cannot_run_on_one_rank() -> None:
    jobs = [PlacedJob(name, job_of(compute(0, 1), ranks=2), np.array([0, 1])) for name in "ab"]
    with pytest.raises(cs.InputError, match="rank 0 is given to job a and to job b"):
        simulate_jobs(jobs, machine=on(star(4)))


def test_a_jobs_file_places_jobs_and_the_command_writes_their_figures(tmp_path: Path) -> None:
    cs.write(tmp_path / "step", [ring(1 << 20)] * 8)
    (tmp_path / "jobs.yaml").write_text(
        "jobs:\n"
        "  - {name: a, trace: step, place: [0, 2, 4, 6, 8, 10, 12, 14]}\n"
        "  - {name: b, trace: step, start: 3 us}\n"
        "  - {name: c, trace: step, place: spread}\n"
        "  - {name: d, trace: step, place: {random: 7}}\n"
    )
    done = main(
        [
            "simulate",
            "--jobs",
            str(tmp_path / "jobs.yaml"),
            "--machine",
            "h100",
            "--gpus",
            "32",
            "--quiet",
            "--json",
            str(tmp_path / "out.json"),
        ]
    )
    assert done == 0
    written = json.loads((tmp_path / "out.json").read_text())
    ranks = {job["name"]: job["ranks"] for job in written["jobs"]}
    assert ranks["b"] == [1, 3, 5, 7, 9, 11, 13, 15]
    assert ranks["c"] == [16, 24, 17, 25, 18, 26, 19, 27]
    assert sorted(rank for own in ranks.values() for rank in own) == list(range(32))
    assert all(job["slowdown"] >= 1 for job in written["jobs"])
    assert written["links"][0].keys() >= {"name", "bytes", "busy_share"}


# -- options that contradict -------------------------------------------------------------------------------------------


def test_models_that_contradict_are_refused() -> None:
    graph = star(2)
    with pytest.raises(cs.InputError, match="network_model and congestion say the same thing twice"):
        run(ring(), graph, network_model="flow", congestion="aware")
    with pytest.raises(cs.InputError, match="the network is a graph of links, which the aware model does not know"):
        run(ring(), graph, network_model="aware")
    with pytest.raises(cs.InputError, match="links of the unaware network do not change"):
        cs.simulate(ring(), ranks=2, network=network_of(("Switch", 2, 1.0, 1.0)), system=system_of("ring"), changes=[])


def test_what_only_flow_knows_is_warned_of_on_other_networks() -> None:
    where = {"network": network_of(("Switch", 2, 1.0, 1.0)), "system": SYSTEM}
    found = cs.simulate(ring(), ranks=2, protocol=cs.Protocol(messages=True, channels=2), **where)
    assert found.warnings[-2:] == (
        "messages has no effect on the unaware network: use network model flow",
        "channels has no effect on the unaware network: use network model flow",
    )
    found = cs.simulate(ring(), ranks=2, protocol=cs.Protocol(messages=True), network_model="flow", **where)
    assert not any("has no effect" in warning for warning in found.warnings)


def test_a_memory_slower_than_a_link_is_warned_of_whoever_charges_it() -> None:
    system = system_of("ring", preferred_dataset_splits=1, endpoint_delay=0, local_mem_bw=10)
    machine = Machine(star(2), load_system(system))
    said = cs.simulate(ring(), ranks=2, machine=machine).warnings
    assert len(said) == 1 and "10 GB/s, slower than a link of 50 GB/s, has no effect: collectives as one" in said[0]
    said = cs.simulate(ring(), ranks=2, machine=machine, protocol=cs.Protocol(messages=True)).warnings
    assert len(said) == 1 and "charged to a memory of 10 GB/s, slower than a link of 50 GB/s" in said[0]


def test_a_network_of_dimensions_flows_over_its_links_where_asked() -> None:
    network = network_of(("Switch", 4, 50 / 1.073741824, 100.0))
    result = cs.simulate(ring(), ranks=4, network=network, system=SYSTEM, network_model="flow")
    assert result.makespan_ns == math.ceil(HOP / 50 + 6 * 200)
    assert result.congestion == "flow"


def test_pairs_of_a_ring_spread_over_their_table_and_no_number_leaves_its_range() -> None:
    place = getattr(home_of, "py_func", home_of)
    ranks = np.arange(1024, dtype=np.int64)
    with np.errstate(over="raise"):
        places = {int(place(key, 4095)) for key in ranks << PAIR_BITS | (ranks + 1) % 1024}
        last = np.int64(2**PAIR_BITS - 1)
        assert 0 <= place(last << PAIR_BITS | last, 4095) < 4096
    assert len(places) > 800, "of 1,024 balls in 4,096 boxes 114 fall on others"
