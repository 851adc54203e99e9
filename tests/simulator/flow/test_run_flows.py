"""Flows on graphs: latency, empty flows, media, changes, results, patterns."""

from __future__ import annotations

import math

import numpy as np
import pytest

import chakrasim as cs
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import Routing
from chakrasim.simulator import CapacityChanges, pattern_flows


def star(ranks: int, bytes_per_ns: float = 50.0, latency_ns: float = 500.0, *, shared: bool = False) -> NetworkGraph:
    """Ranks on one switch."""
    builder = GraphBuilder("star")
    builder.add_ranks(ranks)
    switch = builder.vertex("switch")
    for rank in range(ranks):
        builder.cable(rank, switch, bytes_per_ns, latency_ns, shared=shared)
    return builder.build()


def two_spines() -> NetworkGraph:
    """Two leaves with two ranks each, joined by two spines of half their speed."""
    builder = GraphBuilder("spines")
    builder.add_ranks(4)
    leaves, spines = builder.add_switches("leaf", 2), builder.add_switches("spine", 2)
    for rank in range(4):
        builder.cable(rank, leaves[rank // 2], 50.0, 0.0)
    for leaf in leaves:
        for spine in spines:
            builder.cable(leaf, spine, 25.0, 0.0)
    return builder.build()


def test_latency_is_paid_once_before_bytes_move() -> None:
    flows = cs.Flows([0, 0, 0], [1, 1, 0], [1_000_000, 0, 1_000_000])
    result = cs.run_flows(star(2), flows)
    assert result.finish_ns.tolist() == [1000 + 20_000, 1000, 0]
    assert result.link_bytes.tolist() == [1e6, 0, 0, 1e6]


def test_while_latency_is_paid_no_bandwidth_is_taken() -> None:
    """The second flow's bytes move from 2,000 to 22,000 ns at least; the first has the link alone until then."""
    result = cs.run_flows(star(3), cs.Flows([0, 1], [2, 2], [150_000, 50_000], [0, 1_000]), exact=True)
    assert result.finish_ns.tolist() == [pytest.approx(5_000), pytest.approx(4_000)]


def test_a_flow_that_follows_starts_after_the_end_of_its_leader() -> None:
    flows = cs.Flows([0, 1, 1], [1, 2, 1], [50_000, 50_000, 7], [0, 10, 5], after=[-1, 0, 1])
    result = cs.run_flows(star(3), flows)
    assert result.finish_ns.tolist() == [2_000, 2_010 + 2_000, 4_015]
    assert result.begin_ns.tolist() == [0, 2_010, 4_015]
    assert result.duration_ns.tolist() == [2_000, 2_000, 0]


def test_whole_nanoseconds_are_rounded_up_once() -> None:
    graph = star(2, 3.0, 0.3)
    size = 1_000.0
    assert cs.run_flows(graph, cs.Flows([0], [1], [size])).finish_ns[0] == math.ceil(0.6 + size / 3)
    assert cs.run_flows(graph, cs.Flows([0], [1], [size]), exact=True).finish_ns[0] == pytest.approx(0.6 + size / 3)
    assert cs.run_flows(graph, cs.Flows([0], [1], [0])).finish_ns[0] == 1
    assert cs.run_flows(star(2, 3.0, 0.0), cs.Flows([0], [1], [9.000001])).finish_ns[0] == 3


@pytest.mark.parametrize("name", cs.preset_names())
def test_one_message_on_the_graph_of_every_preset(name: str) -> None:
    graph = cs.load_machine(name).graph
    rng = np.random.RandomState(3)
    for _ in range(3):
        a, b = rng.choice(graph.ranks, 2, replace=False)
        size = float(rng.randint(1, 10**7))
        result = cs.run_flows(graph, cs.Flows([a], [b], [size]))
        way, _ = result.routes.of(0)
        alone = graph.latency[way].sum() + size / graph.capacity[way].min()
        assert result.finish_ns[0] == math.ceil(alone - 1e-6)


def test_both_ways_of_a_shared_medium_have_one_capacity() -> None:
    flows = cs.Flows([0, 1], [1, 0], [50_000, 50_000])
    assert cs.run_flows(star(2, latency_ns=0.0), flows).end_ns == 1_000
    result = cs.run_flows(star(2, latency_ns=0.0, shared=True), flows)
    assert result.end_ns == 2_000
    assert result.busy_share.tolist() == [1, 1, 1, 1]
    assert result.link_bytes.tolist() == [50_000] * 4


def test_a_hash_collision_halves_two_flows_and_is_named() -> None:
    """Two flows on one of two spines: each half of what a flow alone there has."""
    graph = two_spines()
    found = {}
    for seed in range(20):
        result = cs.run_flows(graph, cs.Flows([0, 1], [2, 3], [25_000, 25_000]), routing=Routing("ecmp", seed=seed))
        found[result.end_ns] = result
    assert sorted(found) == [1_000, 2_000]
    busiest = int(found[2_000].most_loaded[0])
    assert found[2_000].link_names[busiest] in ("leaf0-spine0", "leaf0-spine1")
    assert found[2_000].busy_share[busiest] == 1
    assert found[2_000].crossing(busiest).tolist() == [0, 1]


def test_spray_has_all_spines_for_one_flow() -> None:
    result = cs.run_flows(two_spines(), cs.Flows([0], [2], [50_000]), routing=Routing("spray"))
    assert result.end_ns == 1_000
    assert sorted(result.link_bytes[result.link_bytes > 0].tolist()) == [25_000] * 4 + [50_000] * 2


def test_weights_share_a_bottleneck_in_proportion() -> None:
    result = cs.run_flows(star(3, latency_ns=0.0), cs.Flows([0, 1], [2, 2], [100_000, 150_000], weight=[1, 3]))
    assert result.finish_ns.tolist() == [5_000, 4_000]


def test_a_link_that_is_down_holds_its_flow_until_it_is_up() -> None:
    graph = star(2, latency_ns=0.0)
    flows = cs.Flows([0], [1], [50_000])
    down_and_up = CapacityChanges([400, 1_000], [0, 0], [0, 25])
    result = cs.run_flows(graph, flows, changes=down_and_up)
    assert result.finish_ns.tolist() == [1_000 + 1_200]
    assert result.busy_share[0] == pytest.approx(50_000 / (400 * 50 + 1_200 * 25))
    stuck = cs.run_flows(
        graph, cs.Flows([0, 0], [1, 1], [50_000, 1], after=[-1, 0]), changes=CapacityChanges(400, 0, 0)
    )
    assert np.isnan(stuck.finish_ns).all()
    assert stuck.stuck.tolist() == [0, 1]
    assert stuck.link_bytes.tolist() == [20_000, 0, 0, 20_000]
    assert "cannot end 2" in repr(stuck)


def test_room_grows_where_one_end_lets_many_flows_start() -> None:
    count = 3_000
    flows = cs.Flows([0] * (count + 1), [1] * (count + 1), 50.0, after=[-1] + [0] * count)
    result = cs.run_flows(star(2, latency_ns=0.0), flows)
    assert result.end_ns == 1 + count


def test_patterns() -> None:
    incast = pattern_flows("incast:3x1MiB", 8)
    assert incast.source.tolist() == [1, 2, 3]
    assert incast.destination.tolist() == [0, 0, 0]
    assert incast.size_bytes.tolist() == [2**20] * 3
    for seed in range(5):
        permutation = pattern_flows("permutation:4kB", 16, seed)
        assert sorted(permutation.destination.tolist()) == list(range(16))
        assert (permutation.destination != permutation.source).all()
        assert set(permutation.size_bytes) == {4000.0}
    everyone = pattern_flows("all-to-all:1.5KiB", 4)
    pairs = list(zip(everyone.source.tolist(), everyone.destination.tolist(), strict=True))
    assert pairs == [(i, (i + k) % 4) for i in range(4) for k in (1, 2, 3)]
    assert set(everyone.size_bytes) == {1536.0}


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("incst:3x1MiB", "unknown pattern; found 'incst:3x1MiB'; expected one of incast:16x1MiB, permutation:4MiB, "
                         "all-to-all:1MiB; did you mean incast?"),
        ("incast", "a pattern has a name and a size; found 'incast'; expected incast:16x1MiB"),
        ("incast:1MiB", "an incast has a number of senders and a size; found '1MiB'"),
        ("incast:8x1MiB", "an incast has fewer senders than there are ranks; found 8 senders, 8 ranks"),
        ("permutation:4MB!", "this is no size; found '4MB!'; expected permutation:4MiB"),
        ("all-to-all:0.3B", "the size is no whole number of bytes in range; found '0.3B'"),
    ],
)  # fmt: skip
def test_patterns_that_are_none(pattern: str, message: str) -> None:
    with pytest.raises(cs.InputError) as error:
        pattern_flows(pattern, 8)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("flows", "message"),
    [
        ({"size_bytes": [1, -1]}, "size_bytes: flow 1: the value is out of range; found -1.0"),
        ({"size_bytes": [1, float("nan")]}, "size_bytes: flow 1: the value is out of range; found nan"),
        ({"weight": [0, 1]}, "weight: flow 0: the value is out of range; found 0.0"),
        ({"after": [-1, 5]}, "after: flow 1: the value is out of range; found 5"),
        ({"after": [1, 0]}, "after: flows follow one another in a circle; found 0 after 1 after 0"),
        ({"after": [-1, 0.5]}, "after: flow 1: this is no whole number in range; found 0.5"),
        ({"start_ns": [1, 2, 3]}, "the array has another shape"),
        ({"source": ["a", "b"]}, "source: these are no numbers"),
    ],
)
def test_flows_that_are_none(flows: dict[str, object], message: str) -> None:
    given = {"source": [0, 0], "destination": [1, 1], "size_bytes": [1, 1]} | flows
    with pytest.raises(cs.InputError) as error:
        cs.Flows(**given)  # type: ignore[arg-type]
    assert message in str(error.value)


def test_a_rank_that_is_not_there_is_named() -> None:
    with pytest.raises(cs.InputError, match="flow 1: its destination is no rank; found 2; expected 0 to 1"):
        cs.run_flows(star(2), cs.Flows([0, 0], [1, 2], 1))


def test_a_change_of_a_link_that_is_not_there_is_named() -> None:
    with pytest.raises(cs.InputError, match="change 0: there is no such link; found 4; expected below 4"):
        cs.run_flows(star(2), cs.Flows([0], [1], 1), changes=CapacityChanges([1], [4], [1]))


def test_no_flows_take_no_time() -> None:
    result = cs.run_flows(star(2), cs.Flows([], [], []))
    assert result.end_ns == 0
    assert result.to_dict()["finish_ns"] == []


def test_the_kernel_returns_after_every_event_where_these_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals and progress wait for it; what comes out is the same."""
    flows, told = pattern_flows("permutation:1MiB", 24, 1), []
    flows = cs.Flows(flows.source, flows.destination, 1000.0 * np.arange(1, 25))
    plain = cs.run_flows(star(24), flows)
    monkeypatch.setattr("chakrasim.simulator.flow.alone.solve.CALL_S", 0.0)
    slow = cs.run_flows(star(24), flows, progress=lambda ended, flows, now_ns: told.append(now_ns))
    assert slow.finish_ns.tolist() == plain.finish_ns.tolist()
    assert len(set(told)) >= len(set(plain.finish_ns.tolist())) - 1
