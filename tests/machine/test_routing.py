"""Routes of many flows against plain routing, flow by flow."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_routing import Plain, graphs

from chakrasim import load_machine
from chakrasim.errors import InputError
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import Routes, Routing, find_routes
from chakrasim.machine.graph.routing.find import maze_of
from chakrasim.machine.graph.routing.kernels.ends import batches, find_classes
from chakrasim.machine.graph.routing.kernels.search import make_search, search_all
from chakrasim.machine.graph.routing.kernels.trunk import make_trunk
from chakrasim.machine.graph.routing.searches import as_flows

SEEDS = st.integers(0, 2**63 - 1)


def all_pairs(graph: NetworkGraph, labels: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    grid = np.meshgrid(np.arange(graph.ranks), np.arange(graph.ranks), np.arange(labels), indexing="ij")
    source, destination, label = (axis.ravel() for axis in grid)
    return source, destination, label.astype(np.int64)


def as_lists(routes: Routes) -> list[list[int] | None]:
    missing = set(routes.missing.tolist())
    return [None if i in missing else routes.of(i)[0].tolist() for i in range(routes.flows)]


@settings(max_examples=60)
@given(graphs(), SEEDS, st.booleans(), st.sampled_from(["hops", "latency", "cost"]), st.randoms())
def test_ecmp_is_what_plain_routing_finds(graph, seed, polarised, metric, random):
    dead = {link for link in range(graph.links) if random.random() < 0.15}
    costs = {link: Fraction(random.choice([0, 1, 1, 2.5])) for link in range(graph.links)}
    given_costs = tuple((graph.link_names[link], float(cost)) for link, cost in costs.items())
    by_metric = {"hops": None, "latency": [Fraction(x) for x in graph.latency.tolist()], "cost": costs}[metric]
    plain = Plain(graph, dead, by_metric if metric != "latency" else dict(enumerate(by_metric)))
    routing = Routing("ecmp", seed, metric, given_costs, polarised)
    source, destination, label = all_pairs(graph)
    mask = np.isin(np.arange(graph.links), list(dead))
    found = find_routes(graph, source, destination, label, routing, mask, refuse=False)
    expected = [
        plain.ecmp(a, b, c, seed, polarised)
        for a, b, c in zip(source.tolist(), destination.tolist(), label.tolist(), strict=True)
    ]
    assert as_lists(found) == expected
    assert (found.coefficient == 1.0).all()


@settings(max_examples=25)
@given(graphs(), SEEDS, st.permutations(range(40)))
def test_the_order_of_flows_and_which_others_there_are_do_not_matter(graph, seed, order):
    source, destination, label = all_pairs(graph, 1)
    flows = np.array([i % source.size for i in order])
    routing = Routing("ecmp", seed)
    together = find_routes(graph, source, destination, label, routing, refuse=False)
    shuffled = find_routes(graph, source[flows], destination[flows], label[flows], routing, refuse=False)
    assert as_lists(shuffled) == [as_lists(together)[i] for i in flows]
    assert as_lists(together.take(flows)) == as_lists(shuffled)


def test_small_batches_of_rows_change_nothing(monkeypatch):
    graph = torus_4x4()
    source, destination, label = all_pairs(graph)
    whole = find_routes(graph, source, destination, label)
    monkeypatch.setattr("chakrasim.machine.graph.routing.kernels.ends.ROWS_BYTES", 3 * 8 * 16)
    assert as_lists(find_routes(graph, source, destination, label)) == as_lists(whole)


@pytest.mark.parametrize(("metric", "stride", "vertices"), [("hops", 1, 1), ("latency", 1, 1), ("hops", 8, 3)])
def test_a_search_goes_no_further_than_the_board_or_the_switch_that_both_ends_share(metric, stride, vertices):
    graph = load_machine("h100", gpus=64).network
    ranks, routing = np.arange(64, dtype=np.int32), Routing(metric=metric)
    maze = maze_of(graph, routing, None)
    flows = as_flows(routing, ranks, (ranks ^ stride).astype(np.int32), np.zeros(64, np.int64))
    trunk = make_trunk(maze)
    for ends, order in batches(maze, find_classes(maze, flows.destination), flows.destination):
        search = make_search(trunk, ends.row_vertex.size, metric == "hops")
        search_all(maze, trunk, ends, flows._replace(order=order), search, metric == "hops")
        assert search.size.max() == vertices


def torus_4x4() -> NetworkGraph:
    builder = GraphBuilder("torus")
    builder.add_ranks(16, transit=True)
    for rank in range(16):
        x, y = rank % 4, rank // 4
        builder.cable(rank, (x + 1) % 4 + 4 * y, 50.0, 1.0)
        builder.cable(rank, x + (y + 1) % 4 * 4, 50.0, 1.0)
    return builder.build([4, 4])


def leaf_spine(cables: int = 4) -> NetworkGraph:
    """Four hosts on each of two leaves, which several cables of half the rate join over one spine."""
    builder = GraphBuilder("fabric")
    builder.add_ranks(8)
    leaves = builder.add_switches("leaf", 2)
    spine = builder.add_switches("spine", 1)[0]
    for rank in range(8):
        builder.cable(rank, leaves[rank // 4], 50.0, 500.0)
    for leaf in leaves:
        builder.cable(leaf, spine, 12.5, 500.0, count=cables)
    return builder.build()


def test_parallel_cables_count_one_by_one():
    graph = leaf_spine()
    flows = 4000
    routes = find_routes(graph, np.zeros(flows), np.full(flows, 5), np.arange(flows), Routing("ecmp", 3))
    used = [np.bincount(routes.link[1::4], minlength=graph.links), np.bincount(routes.link[2::4])]
    for counts in used:
        assert np.count_nonzero(counts) == 4
        assert abs(counts[counts > 0] - 1000).max() < 120
    assert routes.latency_ns(graph).tolist() == [2000.0] * flows


def test_polarised_stages_make_one_choice():
    graph = leaf_spine()
    flows = 64
    ends = np.zeros(flows), np.full(flows, 5), np.arange(flows)

    def cables(polarised: bool) -> list[tuple[str, str]]:
        """Which of the parallel cables, up and down."""
        routes = find_routes(graph, *ends, Routing("ecmp", 3, polarised=polarised))
        which = [graph.link_names[link].partition("#")[2] or "1" for link in routes.link]
        return list(zip(which[1::4], which[2::4], strict=True))

    assert set(cables(True)) == {(number, number) for number in "1234"}
    assert len(set(cables(False))) == 16


def test_no_route_names_both_ends_and_the_components():
    builder = GraphBuilder("two islands")
    builder.add_ranks(4)
    for i, switch in enumerate(builder.add_switches("sw", 2)):
        builder.cable(2 * i, switch, 50.0, 0.0)
        builder.cable(2 * i + 1, switch, 50.0, 0.0)
    graph = builder.build()
    with pytest.raises(InputError) as caught:
        find_routes(graph, [0, 1, 0], [1, 2, 3])
    assert str(caught.value) == (
        "two islands: no route from 1 to 2, and none for 1 more flow; found components: "
        "2 ranks (0, 1) and 1 other; 2 ranks (2, 3) and 1 other; no links join them"
    )
    assert find_routes(graph, [0, 1, 0], [1, 2, 3], refuse=False).missing.tolist() == [1, 2]


def test_ways_through_ranks_are_not_taken_unless_they_let_traffic_pass():
    def chain(transit: bool) -> NetworkGraph:
        builder = GraphBuilder("chain")
        builder.add_ranks(3, transit=transit)
        builder.cable(0, 1, 50.0, 0.0)
        builder.cable(1, 2, 50.0, 0.0)
        return builder.build()

    assert as_lists(find_routes(chain(True), [0], [2])) == [[0, 2]]
    with pytest.raises(InputError, match=r"no route from 0 to 2.*through ranks that let no traffic pass"):
        find_routes(chain(False), [0], [2])


@pytest.mark.parametrize(
    ("given_ends", "message"),
    [
        (([0], [99]), "a flow's destination is no vertex; found 99; expected 0 to 10"),
        (([-1], [2]), "a flow's source is no vertex; found -1; expected 0 to 10"),
        (([0, 1], [2]), "sources, destinations and labels differ in number; found 2, 1 and 2"),
    ],
)
def test_flows_that_are_none(given_ends, message):
    with pytest.raises(InputError) as caught:
        find_routes(leaf_spine(), *given_ends)
    assert str(caught.value) == f"flows: {message}"


def test_dgx_1_ranks_forward():
    """Users' case 1: 0 and 5 have no NVLink of their own; a neighbour of both forwards, 1 or 4 (by two links)."""
    graph = dgx_1()
    flows = 3000
    routes = find_routes(graph, np.zeros(flows), np.full(flows, 5), np.arange(flows))
    assert (np.diff(routes.first) == 2).all()
    through = np.bincount(graph.target[routes.link[::2]], minlength=8)
    assert through[[0, 2, 3, 5, 6, 7]].tolist() == [0] * 6
    assert abs(through[4] - 2 * through[1]) < 250  # two links to 4, one to 1: counted one by one
    direct = find_routes(graph, [0, 0, 3], [3, 1, 7])
    assert np.diff(direct.first).tolist() == [1, 1, 1]


def dgx_1() -> NetworkGraph:
    builder = GraphBuilder("dgx-1")
    builder.add_ranks(8, 8, transit=True)
    pairs = "0-1:1 0-2:1 0-3:2 0-4:2 1-2:2 1-3:1 1-5:2 2-3:2 2-6:1 3-7:1 4-5:1 4-6:1 4-7:2 5-6:2 5-7:1 6-7:2"
    for pair in pairs.split():
        ends, count = pair.split(":")
        a, b = map(int, ends.split("-"))
        builder.cable(a, b, 25.0, 100.0, count=int(count))
    return builder.build()
