"""Links, switches and ranks that fail during a run: figures worked by hand, and that no byte is lost."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import collective, compute, receive, send, system_of, trace_of

import chakrasim as cs
from chakrasim.cli.main import main
from chakrasim.machine import Machine, load_system
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import Routing, find_routes
from chakrasim.simulator.jobs import PlacedJob
from chakrasim.simulator.together import JobsResult, simulate_jobs
from chakrasim.trace import Job, Trace
from made_graphs import spines

ALL_REDUCE, ALL_GATHER = 0, 2
SYSTEM = load_system(system_of("ring", preferred_dataset_splits=1, endpoint_delay=0, local_mem_bw=0))
Entry = Mapping[str, Any]


def messages(*sent: tuple[int, int, int], ranks: int = 4) -> list[Trace]:
    """Each (source, destination, bytes) starts at 0."""
    nodes: list[list[Any]] = [[] for _ in range(ranks)]
    for tag, (source, target, size) in enumerate(sent):
        nodes[source].append(send(len(nodes[source]), target, size, tag))
        nodes[target].append(receive(len(nodes[target]), source, size, tag))
    return [trace_of(own) for own in nodes]


def run(
    workload: Any, graph: NetworkGraph, changes: Sequence[Entry] = (), routing: Routing | None = None, **options: Any
) -> cs.SimulationResult:
    if isinstance(workload, Trace):
        options["ranks"] = graph.ranks
    if changes:
        options["changes"] = {"changes": list(changes)}
    return cs.simulate(workload, machine=Machine(graph, SYSTEM, routing=routing or Routing()), **options)


def crossed(result: cs.SimulationResult) -> dict[str, int]:
    return {link.name: link.bytes for link in result.graph_links}


def way(graph: NetworkGraph, source: int, target: int, *down: str) -> list[str]:
    """The links by which the rule leads from one rank to another while these are down."""
    dead = np.isin(np.array(graph.link_names), down)
    routes = find_routes(graph, [source], [target], dead=dead if down else None)
    return [graph.link_names[link] for link in routes.link.tolist()]


UP = way(spines(), 0, 2)[1]
"""The link that a message from rank 0 to rank 2 takes out of leaf0."""
OTHER = {"leaf0-spine0": "leaf0-spine1", "leaf0-spine1": "leaf0-spine0"}[UP]
CUT = [{"at": "10 ns", "down": "leaf0-spine0"}, {"at": "10 ns", "down": "leaf0-spine1"}]


# -- one message -------------------------------------------------------------------------------------------------------


def test_a_message_waits_until_its_link_is_known_to_be_down_and_takes_the_other_with_what_is_left() -> None:
    result = run(messages((0, 2, 1000)), spines(), [{"at": "10 ns", "down": UP, "detect": "7 ns"}])
    assert result.makespan_ns == 10 + 7 + 10
    assert (crossed(result)[UP], crossed(result)[OTHER], crossed(result)["leaf1-2"]) == (500, 500, 1000)
    assert result.counts["flows under way that took another way, each time"] == 1


def test_a_message_without_another_way_waits_for_its_links_to_come_back() -> None:
    result = run(messages((0, 2, 1000)), spines(), [*CUT, {"at": "40 ns", "up": UP}])
    assert result.makespan_ns == 40 + 10
    result = run(messages((0, 2, 1000)), spines(), [*CUT, {"at": "40 ns", "up": OTHER, "detect": "2 ns"}])
    assert result.makespan_ns == 42 + 10
    assert (crossed(result)[UP], crossed(result)[OTHER]) == (500, 500)
    assert result.counts["flows under way that waited for links to come back"] == 1


def test_a_link_that_comes_back_before_anybody_knows_changes_no_route() -> None:
    changes = [{"at": "10 ns", "down": UP, "detect": "9 ns"}, {"at": "15 ns", "up": UP}]
    result = run(messages((0, 2, 1000)), spines(), changes)
    assert (result.makespan_ns, OTHER in crossed(result)) == (25, False)


def test_a_link_is_up_only_once_all_have_come_back_that_took_it_down() -> None:
    changes = [
        {"at": "10 ns", "down": "leaf0"},
        {"at": "12 ns", "down": "2-leaf1"},
        {"at": "20 ns", "up": "leaf0"},
        {"at": "30 ns", "up": "leaf1-2"},
    ]
    assert run(messages((0, 2, 1000)), spines(), changes).makespan_ns == 40


def test_a_degraded_link_is_not_avoided_and_can_be_repaired() -> None:
    slow = {"at": "10 ns", "cable": UP, "bandwidth": "80 Gb/s"}
    assert run(messages((0, 2, 1000)), spines(), [slow]).makespan_ns == 10 + 50
    assert run(messages((0, 2, 1000)), spines(), [slow, {"at": "20 ns", "up": UP}]).makespan_ns == 20 + 8


def test_a_message_without_bytes_waits_for_its_links_too() -> None:
    changes = [{"at": "0 ns", "down": "leaf0"}, {"at": "40 ns", "up": "leaf0"}]
    assert run(messages((0, 2, 0)), spines(latency=1.0), changes).makespan_ns == 40
    assert run(messages((0, 2, 0)), spines(latency=1.0)).makespan_ns == 4


def test_latency_is_paid_once_also_its_part_below_a_nanosecond() -> None:
    graph = spines(latency=0.3)
    assert run(messages((0, 2, 1000)), graph).makespan_ns == 22  # 1.2 and 20
    result = run(messages((0, 2, 1000)), graph, [{"at": "11 ns", "down": way(graph, 0, 2)[1], "detect": "7 ns"}])
    assert result.makespan_ns == 29


def test_flows_elsewhere_keep_their_routes_unless_everything_is_drawn_again() -> None:
    graph = spines(3)
    down = "leaf0-spine0"
    elsewhere = [(s, t) for s in (0, 1) for t in (2, 3) if down not in way(graph, s, t)]
    moving = next(pair for pair in elsewhere if way(graph, *pair) != way(graph, *pair, down, "spine0-leaf0"))
    before, after = way(graph, *moving)[1], way(graph, *moving, down, "spine0-leaf0")[1]
    changes = {"at": "10 ns", "down": down}
    kept = run(messages((*moving, 1000)), graph, [changes])
    assert (crossed(kept)[before], after in crossed(kept)) == (1000, False)
    drawn = run(messages((*moving, 1000)), graph, [{**changes, "rehash": "all"}])
    assert (crossed(drawn)[before], crossed(drawn)[after]) == (500, 500)
    assert kept.makespan_ns == drawn.makespan_ns == 20


def test_what_starts_later_avoids_a_link_until_it_is_back() -> None:
    nodes = [send(0, 2, 500), compute(1, 1, [0]), send(2, 2, 500, deps=[1])]
    work = [trace_of(nodes), trace_of([]), trace_of([receive(0, 0, 500), receive(1, 0, 500)]), trace_of([])]
    down = {"at": "0 ns", "down": UP}
    assert crossed(run(work, spines(), [down]))[OTHER] == 1000
    assert crossed(run(work, spines(), [down, {"at": "500 ns", "up": UP}])) | {UP: 500, OTHER: 500} == crossed(
        run(work, spines(), [down, {"at": "500 ns", "up": UP}])
    )


# -- collectives -------------------------------------------------------------------------------------------------------

HOP = 1_000_000 * 2 * 3 // 4
"""Bytes that an all-reduce of 1 MB sends over each hop of its ring of four."""
LATENCY = (2 + 4 + 2 + 4 + 2 + 4) * 25
"""Six hops in a row, every other of them across the spines."""


def around(detect: int, at: int = 10) -> int:
    graph = spines(latency=25.0)
    first = next(
        name for name in crossed(run(trace_of([collective(0, ALL_REDUCE, 1_000_000)]), graph)) if "0-s" in name
    )
    change = {"at": f"{at} ns", "down": first, "detect": f"{detect} ns"}
    return run(trace_of([collective(0, ALL_REDUCE, 1_000_000)]), graph, [change]).makespan_ns


def test_a_collective_pays_its_start_once_whenever_a_link_fails() -> None:
    assert around(detect=20) == LATENCY + HOP // 50, "known before its first byte"
    assert around(detect=LATENCY + 90) == 10 + LATENCY + 90 + HOP // 50, "its first byte finds the link down"
    assert around(detect=90, at=LATENCY + 1000) == LATENCY + 90 + HOP // 50, "in its middle"


def test_collectives_use_a_link_again_that_is_back() -> None:
    work = trace_of([collective(0, ALL_REDUCE, 1_000_000), collective(1, ALL_REDUCE, 1_000_000, [0])])
    plain = crossed(run(work, spines()))
    first = next(name for name in plain if name.startswith("leaf0-spine"))
    result = run(work, spines(), [{"at": "1 us", "down": first}, {"at": "2 us", "up": first}])
    assert crossed(result)[first] == 50_000 + HOP


# -- what cannot end ---------------------------------------------------------------------------------------------------


def test_a_cut_network_says_which_flow_waits_and_which_links_are_down() -> None:
    with pytest.raises(cs.StallError) as stalled:
        run(messages((0, 2, 1000)), spines(), CUT)
    said = str(stalled.value)
    assert "2 of 4 ranks are stuck at 10 ns" in said
    assert (
        "the message from rank 0 to rank 2 waits with 500 of 1000 bytes left: "
        "no way from rank 0 to rank 2 while leaf0-spine0, leaf0-spine1 are down" in said
    )


def test_of_many_flows_that_wait_the_first_are_named_and_the_others_counted() -> None:
    graph = GraphBuilder()
    graph.add_ranks(30)
    switch = graph.vertex("switch")
    for rank in range(30):
        graph.cable(rank, switch, 50.0, 0.0)
    sent = [(rank, (rank + 1) % 30, 1000) for rank in range(30)]
    with pytest.raises(cs.StallError) as stalled:
        run(messages(*sent, ranks=30), graph.build(), [{"at": "10 ns", "down": "switch"}])
    said = str(stalled.value)
    assert said.count("waits with 500 of 1000 bytes left") == 24
    assert "... and 6 more flows wait" in said


def test_a_collective_that_is_cut_is_named_with_a_pair_of_its_ranks() -> None:
    with pytest.raises(cs.StallError) as stalled:
        run(trace_of([collective(0, ALL_REDUCE, 1000)]), spines(), CUT)
    said = str(stalled.value)
    assert "the all-reduce of 0-3 waits with 667 of 1000 bytes left: no way from rank 1 to rank 2 while" in said
    assert "they wait in a cycle" not in said


def test_a_message_that_starts_in_a_cut_network_waits_too() -> None:
    cut = [{**change, "at": "0 ns"} for change in CUT]
    with pytest.raises(cs.StallError, match="waits with 1000 of 1000 bytes left"):
        run(messages((0, 2, 1000)), spines(), cut)
    assert run(messages((0, 2, 1000)), spines(), [*cut, {"at": "5 ns", "up": OTHER}]).makespan_ns == 25


def test_a_rank_that_is_down_is_named_with_those_who_wait_for_it() -> None:
    work = trace_of([compute(0, 1), collective(1, ALL_REDUCE, 1_000_000, [0]), compute(2, 1, [1])])
    with pytest.raises(cs.StallError) as stalled:
        run(work, spines(), [{"at": "2 us", "down": 3, "detect": "1 us"}])
    assert "4 of 4 ranks are stuck" in str(stalled.value)
    assert "rank 3 is down since 2000 ns and stops its job; waiting for it: 0-2" in str(stalled.value)
    assert "rank 0 waits in node" in str(stalled.value)


def test_a_rank_that_goes_down_in_its_last_computation_has_not_finished() -> None:
    with pytest.raises(cs.StallError, match="rank 1 is down since 500 ns"):
        run(trace_of([compute(0, 1)]), spines(), [{"at": "500 ns", "down": "1"}])
    assert run(trace_of([compute(0, 1)]), spines(), [{"at": "1000 ns", "down": "1"}]).makespan_ns == 1000


def test_a_rank_that_comes_back_before_anybody_knows_goes_on_with_its_job() -> None:
    work = trace_of([compute(0, 1), collective(1, ALL_REDUCE, 1_000_000, [0])])
    down = {"at": "2 us", "down": 3, "detect": "1 us"}
    assert run(work, spines(), [down, {"at": "2500 ns", "up": 3}]).makespan_ns == 1500 + HOP // 50
    with pytest.raises(cs.StallError, match="rank 3 is down since 2000 ns"):
        run(work, spines(), [down, {"at": "4 us", "up": 3}])
    with pytest.raises(cs.StallError, match="rank 3 is down since 0 ns"):
        run(work, spines(), [{"at": "0 ns", "down": 3}])


# -- jobs --------------------------------------------------------------------------------------------------------------


def two_jobs(changes: Sequence[Entry], graph: NetworkGraph | None = None, size: int = 500_000) -> JobsResult:
    """Job a on ranks 0 and 2, b on 1 and 3; each sends ``size`` bytes each way."""
    jobs = [
        PlacedJob(name, Job((trace_of([collective(0, ALL_REDUCE, size)]),), np.zeros(2, np.int64)), np.array(ranks))
        for name, ranks in (("a", [0, 2]), ("b", [1, 3]))
    ]
    return simulate_jobs(jobs, machine=Machine(graph or spines(1), SYSTEM), changes={"changes": list(changes)})


def test_a_rank_that_is_down_stops_its_job_and_frees_what_it_shared() -> None:
    both = two_jobs([{"at": "4 us", "down": 2, "detect": "1 us"}])
    # 25 bytes per ns each for 4 us; then a stands still, and b has all of the link for its other 400,000 bytes.
    a, b = both.jobs
    assert (a.finish_ns, a.alone_ns, a.slowdown) == (None, None, None)
    assert "the job cannot end: 2 of 2 ranks are stuck" in a.error
    assert "rank 2 is down since 4000 ns and stops its job; waiting for it: 0" in a.error
    assert (b.finish_ns, b.alone_ns, b.slowdown, b.error) == (12_000, 10_000, 1.2, "")
    assert both.result.unfinished.tolist() == [0, 2]
    assert crossed(both.result)["leaf0-spine0"] == 100_000 + 500_000


def test_a_link_that_fails_under_two_jobs_costs_both() -> None:
    graph = spines(2)
    up = way(graph, 0, 2)[1]
    apart = way(graph, 1, 3)[1] != up
    both = two_jobs([{"at": "2 us", "down": "spine0", "detect": "1 us"}], graph)
    sent = crossed(both.result)
    assert sum(sent[name] for name in sent if name.startswith("leaf0-spine")) == 1_000_000
    assert [job.error for job in both.jobs] == ["", ""]
    if apart:  # 100,000 bytes each by 2 us; one stands still for 1 us, while the other moves 50,000 more
        assert sorted(job.finish_ns or 0 for job in both.jobs) == [17_000, 18_000]


def test_a_job_that_is_cut_is_told_apart_from_one_that_is_not() -> None:
    both = two_jobs([{"at": "4 us", "down": "2-leaf1"}])
    assert [job.finish_ns for job in both.jobs] == [None, 12_000]
    assert "no way from rank 0 to rank 2 while leaf1-2 is down" in both.jobs[0].error


def test_the_command_says_which_job_cannot_end_and_exits_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cs.write(tmp_path / "step", [trace_of([collective(0, ALL_REDUCE, 1 << 20)])] * 8)
    (tmp_path / "jobs.yaml").write_text("jobs:\n  - {name: a, trace: step}\n  - {name: b, trace: step}\n")
    (tmp_path / "changes.yaml").write_text("changes:\n  - {at: 1 us, down: 3}\n")
    files = {"--jobs": "jobs.yaml", "--changes": "changes.yaml", "--json": "out.json"}
    named = [word for option, name in files.items() for word in (option, str(tmp_path / name))]
    assert main(["simulate", "--machine", "h100", "--gpus", "16", "--quiet", *named]) == 3
    a, b = json.loads((tmp_path / "out.json").read_text())["jobs"]
    assert (a["finish_ns"], a["alone_ns"], a["slowdown"], b["slowdown"], b["error"]) == (None, None, None, 1.0, "")
    assert "error: job a: the job cannot end: 8 of 8 ranks are stuck" in capsys.readouterr().err
    assert "rank 3 is down since 1000 ns and stops its job; waiting for it: 0-2, 4-7" in a["error"]


# -- optical circuits --------------------------------------------------------------------------------------------------


def test_flows_on_circuits_that_go_away_wait_for_the_new_ones() -> None:
    schedule = [{"pairs": [[0, 2]]}, {"at": "10 ns", "pairs": [[0, 1]]}, {"at": "30 ns", "pairs": [[0, 2]]}]
    circuits = {"bandwidth": "50 GB/s", "latency": "0 ns", "delay": "5 ns", "schedule": schedule}
    graph = {"ranks": 3, "parts": [{"optical": circuits}]}
    text = {"network": {"graph": graph}, "collectives": {"splits": 1, "endpoint-delay": "0 ns"}}
    machine = cs.load_machine(text)
    assert not [warning for warning in machine.warnings if "schedule" in warning]
    # 500 bytes by 10 ns; the circuit is back at 35 ns. The other is there from 15 to 30 ns: 750 bytes, the rest never.
    result = cs.simulate(messages((0, 2, 1000), (1, 0, 750), ranks=3), machine=machine)
    assert result.finish_ns.tolist() == [45, 30, 45]
    with pytest.raises(cs.StallError, match="1 of 751 bytes left: no way from rank 1 to rank 0 while 1-0 is down"):
        cs.simulate(messages((1, 0, 751), ranks=3), machine=machine)


# -- adaptive routing --------------------------------------------------------------------------------------------------

ADAPTIVE = Routing("adaptive")


def test_adaptive_flows_take_the_way_with_fewest_flows_when_they_start() -> None:
    result = run(messages((0, 2, 1000), (1, 3, 1000)), spines(), routing=ADAPTIVE)
    assert result.makespan_ns == 20
    assert {crossed(result)[f"leaf0-spine{i}"] for i in (0, 1)} == {1000}


def test_an_adaptive_flow_sees_who_is_still_there_and_who_has_gone() -> None:
    late = [
        trace_of([send(0, 2, 1000, 0), compute(1, 1), send(2, 2, 100, 1, [1])]),
        trace_of([send(0, 3, 100_000)]),
        trace_of([receive(0, 0, 1000, 0), receive(1, 0, 100, 1)]),
        trace_of([receive(0, 1, 100_000)]),
    ]
    links = crossed(run(late, spines(), routing=ADAPTIVE))
    assert {links[f"leaf0-spine{i}"] for i in (0, 1)} == {1100, 100_000}


def test_an_adaptive_flow_leaves_a_link_that_fails_for_the_least_loaded_of_the_others() -> None:
    result = run(messages((0, 2, 1000), (1, 3, 1000)), spines(3), routing=ADAPTIVE)
    used = {name for name in crossed(result) if name.startswith("leaf0-spine")}
    failing = min(used)
    free = ({f"leaf0-spine{i}" for i in range(3)} - used).pop()
    result = run(messages((0, 2, 1000), (1, 3, 1000)), spines(3), [{"at": "10 ns", "down": failing}], ADAPTIVE)
    assert result.makespan_ns == 20
    assert (crossed(result)[failing], crossed(result)[free]) == (500, 500)


# -- no byte is lost ---------------------------------------------------------------------------------------------------


def random_network(draw: random.Random) -> NetworkGraph:
    graph = GraphBuilder()
    graph.add_ranks(draw.randint(3, 7))
    leaves, spine = graph.add_switches("leaf", draw.randint(1, 3)), graph.add_switches("spine", draw.randint(1, 3))
    for rank in range(graph.ranks):
        for leaf in draw.sample(leaves, draw.randint(1, min(2, len(leaves)))):
            graph.cable(rank, leaf, draw.choice([7.0, 25.0, 50.0]), draw.choice([0.0, 0.4, 20.0]))
    for leaf in leaves:
        for up in spine:
            for _ in range(draw.choice([1, 1, 2])):
                graph.cable(leaf, up, draw.choice([10.0, 50.0]), draw.choice([0.0, 5.0]))
    return graph.build()


def random_changes(draw: random.Random, graph: NetworkGraph) -> list[Entry]:
    """Whatever goes down comes back."""
    changes: list[Entry] = []
    switches = [name for name in graph.names if not name.isdigit()]
    for _ in range(draw.randint(1, 8)):
        at, cable = draw.randrange(4000), draw.choice(graph.link_names)
        if draw.random() < 0.2:
            changes.append({"at": f"{at} ns", "cable": cable, "bandwidth": f"{draw.randint(1, 60)} GB/s"})
            continue
        what = draw.choice([cable, cable, draw.choice(switches)])
        detect, back = draw.choice([0, 3, 500]), at + draw.randrange(1, 3000)
        more = {"rehash": "all"} if draw.random() < 0.2 else {}
        changes.append({"at": f"{at} ns", "down": what, "detect": f"{detect} ns", **more})
        changes.append({"at": f"{back + 4000} ns" if draw.random() < 0.3 else f"{back} ns", "up": what})
    return changes


@pytest.mark.parametrize("seed", range(40))
def test_what_was_sent_arrives_whatever_fails_on_the_way(seed: int) -> None:
    draw = random.Random(f"changes {seed}")
    graph = random_network(draw)
    ranks = graph.ranks
    sent = [(*draw.sample(range(ranks), 2), draw.choice([0, 1, 1000, 99_999])) for _ in range(draw.randint(1, 12))]
    routing = Routing(draw.choice(["ecmp", "ecmp", "spray", "adaptive"]))
    if draw.random() < 0.5:
        work: Any = messages(*sent, ranks=ranks)
        out, into = np.zeros(ranks, np.int64), np.zeros(ranks, np.int64)
        for source, target, size in sent:
            out[source] += size
            into[target] += size
        options = {}
    else:
        work = trace_of([collective(0, ALL_GATHER, 20_000), collective(1, ALL_REDUCE, ranks * 10_000, [0])])
        out = into = np.full(ranks, 20_000 * (ranks - 1) + 2 * (ranks - 1) * 10_000)
        options = {"protocol": cs.Protocol(messages=draw.random() < 0.5)}
    result = run(work, graph, random_changes(draw, graph), routing, **options)
    carried = crossed(result)
    assert result.bytes_sent.tolist() == out.tolist()
    for vertex, name in enumerate(graph.names):
        leaves = sum(carried.get(graph.link_names[link], 0) for link in np.flatnonzero(graph.source == vertex))
        comes = sum(carried.get(graph.link_names[link], 0) for link in np.flatnonzero(graph.target == vertex))
        rounding = int((graph.source == vertex).sum() + (graph.target == vertex).sum()) / 2
        if vertex < ranks:
            cables = int((graph.source == vertex).sum()) - 1
            assert (abs(leaves - out[vertex]), abs(comes - into[vertex])) <= (cables, cables), name
        else:
            assert abs(leaves - comes) <= rounding, name


# -- files -------------------------------------------------------------------------------------------------------------


def fabric(changes: Sequence[Entry] = ()) -> dict[str, Any]:
    spine = {"hosts-per-leaf": 2, "spines": 2, "bandwidth": "50 GB/s", "uplink": "50 GB/s"}
    network: dict[str, Any] = {"graph": {"ranks": 4, "parts": [{"leaf-spine": spine}]}}
    network |= {"changes": list(changes)} if changes else {}
    return {"network": network, "collectives": {"splits": 1, "endpoint-delay": "0 ns"}}


def test_a_machine_file_has_changes_of_its_own_beside_those_of_a_run() -> None:
    assert cs.simulate(messages((0, 2, 1000)), machine=fabric(CUT[:1])).makespan_ns == 20
    late = {"changes": [{"at": "60 ns", "up": "spine1-leaf0"}]}
    result = cs.simulate(messages((0, 2, 1000)), machine=fabric(CUT), changes=late)
    assert result.makespan_ns == 70
    assert not [warning for warning in result.warnings if "has no effect" in warning]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"at": "1 ms", "down": "leaf7"}, "$.network.changes[0].down: not in the network; found 'leaf7'"),
        ({"at": "1 ms", "up": "leaf0", "rehash": "some"}, "$.network.changes[0].rehash: unknown value"),
        (
            {"at": "1 ms", "cable": "0-leaf0", "bandwidth": "1 GB/s", "detect": "1 us"},
            "changes[0].detect: nothing takes",
        ),
    ],
)
def test_changes_in_a_machine_file_are_refused_with_their_place(entry: Entry, said: str) -> None:
    with pytest.raises(cs.InputError) as refused:
        cs.load_machine(fabric([entry]))
    assert said in str(refused.value)


def test_an_up_of_what_is_not_down_is_a_warning() -> None:
    result = run(messages((0, 2, 1000)), spines(), [{"at": "5 ns", "up": "leaf0"}])
    assert "changes: $.changes[0].up: nothing happened to leaf0 before: this has no effect" in result.warnings
