"""The rules beside hashing: spraying, d-mod-k, dimension order, PXN, NVSwitches first."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_routing import Plain, graphs, xgft
from test_routing import all_pairs, as_lists, leaf_spine

from chakrasim.errors import InputError
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.graph import NVSWITCH, NetworkGraph
from chakrasim.machine.graph.routing import Routing, find_routes


@settings(max_examples=40)
@given(graphs(), st.randoms())
def test_spray_divides_as_plain_routing_does(graph, random):
    dead = {link for link in range(graph.links) if random.random() < 0.1}
    plain = Plain(graph, dead)
    source, destination, _ = all_pairs(graph, 1)
    mask = np.isin(np.arange(graph.links), list(dead))
    found = find_routes(graph, source, destination, None, Routing("spray"), mask, refuse=False)
    for i, (a, b) in enumerate(zip(source.tolist(), destination.tolist(), strict=True)):
        expected = plain.spray(a, b)
        assert (expected is None) == (i in found.missing)
        link, part = found.of(i)
        assert dict(zip(link.tolist(), part.tolist(), strict=True)) == pytest.approx(
            {link: float(part) for link, part in (expected or {}).items()}, rel=1e-12
        )
        assert len(set(link.tolist())) == link.size


def test_a_sprayed_flow_uses_all_parallel_cables():
    """Users' case 3: four cables of 12.5 bytes/ns carry 50 for one sprayed flow, 12.5 for one hashed flow."""
    graph = leaf_spine()
    link, part = find_routes(graph, [0], [5], None, Routing("spray")).of(0)
    assert part.tolist() == [1.0] + [0.25] * 8 + [1.0]
    assert float(np.min(graph.capacity[link] / part)) == 50.0
    link, part = find_routes(graph, [0], [5], None, Routing("ecmp")).of(0)
    assert float(np.min(graph.capacity[link] / part)) == 12.5
    sixteen = find_routes(graph, np.repeat([0, 1, 2, 3], 4), np.repeat([4, 5, 6, 7], 4), range(16), Routing("ecmp"))
    assert np.unique(sixteen.link[1::4]).size == 4


@pytest.mark.parametrize("rule", ["spray", "adaptive"])
def test_flows_for_which_room_has_to_be_made_have_the_routes_that_they_have_alone(rule):
    """Twelve switches in a row with two cables each: ways are longer than what room there is for at first."""
    graph = GraphBuilder()
    graph.add_ranks(3)
    switches = graph.add_switches("switch", 12)
    for rank, switch in enumerate((0, 5, 11)):
        graph.cable(rank, switches[switch], 25.0, 0.0)
    for a, b in itertools.pairwise(switches):
        graph.cable(a, b, 25.0, 0.0, count=2)
    built = graph.build()
    source, destination, _ = all_pairs(built, 1)
    source, destination = np.tile(source, 8), np.tile(destination, 8)
    found = find_routes(built, source, destination, None, Routing(rule))
    for i, (a, b) in enumerate(zip(source.tolist(), destination.tolist(), strict=True)):
        link, part = found.of(i)
        into = part[built.target[link] == b]
        assert into.sum() == pytest.approx(float(a != b)), i
        assert part[built.source[link] == a].sum() == pytest.approx(float(a != b)), i


@pytest.mark.parametrize(
    ("children", "parents", "cables"),
    [((4, 4, 4), (1, 4, 4), (1, 1, 1)), ((4, 4), (1, 2), (1, 2)), ((2, 3, 2), (2, 2, 3), (1, 2, 3))],
)
@pytest.mark.parametrize("rule", ["d-mod-k", "s-mod-k"])
def test_d_mod_k_is_zahavis_rule_on_labels(children, parents, cables, rule):
    graph = xgft(children, parents, cables)
    source, destination, _ = all_pairs(graph, 1)
    found = as_lists(find_routes(graph, source, destination, None, Routing(rule)))
    for a, b, route in zip(source.tolist(), destination.tolist(), found, strict=True):
        assert route == by_labels(graph, children, parents, cables, a, b, b if rule == "d-mod-k" else a)


def by_labels(graph, children, parents, cables, a, b, by):
    """Up by the port of ``by``, down by the destination's label."""

    def label(number: int) -> tuple[int, ...]:
        digits = []
        for radix in children:
            digits.append(number % radix)
            number //= radix
        return tuple(digits)

    def number(level: int, digits: tuple[int, ...]) -> int:
        below = 0
        for i in range(level):
            below += int(np.prod(parents[:i] + children[i:], dtype=int))
        scale = 1
        for j, digit in enumerate(digits):
            below += digit * scale
            scale *= parents[j] if j < level else children[j]
        return below

    def link(start: int, stop: int, cable: int) -> int:
        return int(np.flatnonzero((graph.source == start) & (graph.target == stop))[cable])

    here, goal, level, width, route = label(a), label(b), 0, 1, []
    while here[level:] != goal[level:]:
        port = by // width % (parents[level] * cables[level])
        up = (*here[:level], port % parents[level], *here[level + 1 :])
        route.append(link(number(level, here), number(level + 1, up), port // parents[level]))
        width *= parents[level]
        here, level = up, level + 1
    while level:
        down = (*here[: level - 1], goal[level - 1], *here[level:])
        route.append(link(number(level, here), number(level - 1, down), a % cables[level - 1]))
        here, level = down, level - 1
    return route


def test_d_mod_k_is_the_rule_of_the_scale_cases(shared_dir):
    text = json.loads((shared_dir / "golden/network/scale-cases.json").read_text())["routing"]
    assert "up: aggregation d mod w2, core (d div w2) mod w3" in text
    m1, m2, m3, w2, w3 = 4, 4, 4, 4, 4
    graph = xgft((m1, m2, m3), (1, w2, w3), (1, 1, 1))
    hosts = m1 * m2 * m3
    edge, agg, core = hosts, hosts + m2 * m3, hosts + m2 * m3 + w2 * m3
    source, destination, _ = all_pairs(graph, 1)
    routes = find_routes(graph, source, destination, None, Routing("d-mod-k"))
    for i, (s, d) in enumerate(zip(source.tolist(), destination.tolist(), strict=True)):
        passed = graph.target[routes.of(i)[0]].tolist()
        up, pods = d % w2, (s // (m1 * m2), d // (m1 * m2))
        expected = [edge + s // m1, d]
        if s // m1 != d // m1:
            expected[1:1] = [agg + pods[0] * w2 + up, edge + d // m1]
        if pods[0] != pods[1]:
            expected[2:2] = [core + up + w2 * (d // w2 % w3), agg + pods[1] * w2 + up]
        assert passed == ([] if s == d else expected)


def test_d_mod_k_refuses_what_is_not_layered():
    with pytest.raises(InputError) as caught:
        find_routes(torus((4, 4)), [0], [5], None, Routing("d-mod-k"))
    assert str(caught.value) == (
        "torus: d-mod-k needs a layered graph, in which every link leads one level up or down; "
        "found link 0-1 in level 0; use ecmp"
    )


def torus(sizes: tuple[int, ...], wrap: bool = True) -> NetworkGraph:
    builder = GraphBuilder("torus")
    builder.add_ranks(int(np.prod(sizes)), transit=True)
    stride = 1
    for size in sizes:
        for rank in range(builder.ranks):
            at = rank // stride % size
            if at + 1 < size or (wrap and size > 2):
                builder.cable(rank, rank + ((at + 1) % size - at) * stride, 50.0, 1.0)
        stride *= size
    return builder.build(sizes)


@pytest.mark.parametrize("sizes", [(4, 3, 2), (5, 4), (6,), (1, 4, 1, 3)])
@pytest.mark.parametrize("wrap", [True, False])
def test_dimension_order_goes_the_shorter_way_and_forward_in_a_tie(sizes, wrap):
    graph = torus(sizes, wrap)
    source, destination, _ = all_pairs(graph, 1)
    routes = find_routes(graph, source, destination, None, Routing("dimension-order"))
    for i, (a, b) in enumerate(zip(source.tolist(), destination.tolist(), strict=True)):
        passed, here, stride = [], a, 1
        for size in sizes:
            at, goal = here // stride % size, b // stride % size
            ahead = (goal - at) % size
            step = 1 if ((2 * ahead <= size and size > 2) if wrap else goal >= at) else -1
            while at != goal:
                here += ((at + step) % size - at) * stride
                at = (at + step) % size
                passed.append(here)
            stride *= size
        assert graph.target[routes.of(i)[0]].tolist() == passed


def test_dimension_order_goes_round_a_dead_link():
    graph = torus((4, 4))
    dead = np.zeros(graph.links, np.bool_)
    dead[graph.link_names.index("0-1")] = True
    routing = Routing("dimension-order")
    routes = find_routes(graph, [0, 0, 1, 4], [1, 2, 0, 5], None, routing, dead)
    names = [[graph.names[vertex] for vertex in graph.target[routes.of(i)[0]]] for i in range(4)]
    assert names[1:] == [["3", "2"], ["0"], ["5"]]
    assert len(names[0]) == 3  # three other ways: back round the ring, or beside it
    assert names[0][-1] == "1"


@settings(max_examples=25)
@given(st.sampled_from([(4, 4), (3, 3, 2), (5,)]), st.randoms())
def test_dimension_order_comes_to_no_vertex_twice_whatever_is_down(sizes, random):
    graph = torus(sizes)
    dead = np.array([random.random() < 0.25 for _ in range(graph.links)])
    source, destination, _ = all_pairs(graph, 1)
    routes = find_routes(graph, source, destination, None, Routing("dimension-order"), dead, refuse=False)
    shortest = find_routes(graph, source, destination, None, Routing(), dead, refuse=False)
    assert routes.missing.tolist() == shortest.missing.tolist()
    assert not dead[routes.link].any()
    for i, start in enumerate(source.tolist()):
        visited = [start, *graph.target[routes.of(i)[0]].tolist()]
        assert len(set(visited)) == len(visited)


def test_of_two_cables_round_a_ring_of_two_each_rank_takes_its_own():
    builder = GraphBuilder("ring of two")
    builder.add_ranks(2, transit=True)
    builder.cable(0, 1, 50.0, 1.0)
    builder.cable(1, 0, 50.0, 1.0)
    graph = builder.build()
    flows = find_routes(graph, [0, 1] * 8, [1, 0] * 8, range(16), Routing("dimension-order"))
    assert flows.link.tolist() == [0, 2] * 8


def rails(servers: int = 4, gpus: int = 4, spines: int = 2) -> NetworkGraph:
    """Servers of GPUs on an NVSwitch; GPU i of each on leaf i; spines, or none (rail-only)."""
    builder = GraphBuilder("rails")
    builder.add_ranks(servers * gpus, gpus)
    inside = builder.add_switches("nvswitch", servers, NVSWITCH)
    leaves = builder.add_switches("leaf", gpus)
    tops = builder.add_switches("spine", spines)
    for rank in range(servers * gpus):
        builder.cable(rank, inside[rank // gpus], 450.0, 100.0)
        builder.cable(rank, leaves[rank % gpus], 50.0, 500.0)
    for leaf, top in itertools.product(leaves, tops):
        builder.cable(leaf, top, 50.0, 500.0)
    return builder.build([gpus, servers])


def passed(graph: NetworkGraph, routes, flow: int) -> list[str]:
    return [graph.names[vertex] for vertex in graph.target[routes.of(flow)[0]]]


def test_pxn_goes_by_nvlink_to_the_destinations_rail():
    graph = rails()
    ends = [0, 0, 0], [6, 4, 2]
    plain = find_routes(graph, *ends)
    assert [len(passed(graph, plain, i)) for i in range(3)] == [4, 2, 2]
    found = find_routes(graph, *ends, None, Routing(pxn=True))
    assert passed(graph, found, 0) == ["nvswitch0", "2", "leaf2", "6"]
    assert passed(graph, found, 1) == ["leaf0", "4"]
    assert passed(graph, found, 2) == ["nvswitch0", "2"]


def test_rail_only_networks_reach_other_rails_by_pxn_only():
    graph = rails(spines=0)
    with pytest.raises(InputError, match="no route from 0 to 5"):
        find_routes(graph, [0], [5])
    found = find_routes(graph, [0], [5], None, Routing(pxn=True))
    assert passed(graph, found, 0) == ["nvswitch0", "1", "leaf1", "5"]


def test_unequal_islands():
    """Users' case 2: 4 and 6 NPUs; inside an island only its own links; a place that the other lacks: no detour."""
    builder = GraphBuilder("4 + 6")
    for rank in range(10):
        builder.vertex(str(rank), 0, 0 if rank < 4 else 1)
    inside = builder.add_switches("nvswitch", 2, NVSWITCH)
    between = builder.add_switches("between", 1)[0]
    for rank in range(10):
        builder.cable(rank, inside[rank >= 4], 450.0, 100.0)
        builder.cable(rank, between, 50.0, 500.0)
    graph = builder.build()
    source, destination, label = all_pairs(graph, 1)
    routing = Routing(pxn=True, nvswitch_first=True)
    routes = find_routes(graph, source, destination, label, routing)
    for i, (a, b) in enumerate(zip(source.tolist(), destination.tolist(), strict=True)):
        if a == b:
            continue
        if (a < 4) == (b < 4):
            assert passed(graph, routes, i) == [f"nvswitch{int(a >= 4)}", str(b)]
        else:
            place = b - 4 if b >= 4 else b
            mate = place if a < 4 else place + 4
            via = [f"nvswitch{int(a >= 4)}", str(mate)] if mate != a and place < (4 if a < 4 else 6) else []
            assert passed(graph, routes, i) == [*via, "between0", str(b)]


def test_nvswitches_come_first_where_ways_are_equally_long():
    builder = GraphBuilder("pair")
    builder.add_ranks(2)
    both = [*builder.add_switches("nvswitch", 2, NVSWITCH), *builder.add_switches("leaf", 2)]
    for rank, switch in itertools.product(range(2), both):
        builder.cable(rank, switch, 50.0, 1.0)
    graph = builder.build()
    flows = [0] * 64, [1] * 64, range(64)
    first = find_routes(graph, *flows, Routing(nvswitch_first=True))
    assert {passed(graph, first, i)[0] for i in range(64)} == {"nvswitch0", "nvswitch1"}
    assert len({passed(graph, find_routes(graph, *flows), i)[0] for i in range(64)}) == 4


@settings(max_examples=40)
@given(graphs(), st.integers(0, 5), st.randoms(), st.sampled_from(["ecmp", "spray", "d-mod-k", "dimension-order"]))
def test_routes_lead_where_they_should_and_use_no_dead_link(graph, seed, random, rule):
    dead = np.array([random.random() < 0.2 for _ in range(graph.links)])
    source, destination, label = all_pairs(graph, 1)
    pxn = rule != "dimension-order" and random.random() < 0.5
    try:
        routes = find_routes(graph, source, destination, label, Routing(rule, seed, pxn=pxn), dead, refuse=False)
    except InputError as error:
        assert "layered" in str(error)
        return
    assert not dead[routes.link].any()
    for i, (a, b) in enumerate(zip(source.tolist(), destination.tolist(), strict=True)):
        link, part = routes.of(i)
        flow = {a: Fraction(1), b: Fraction(-1)} if a != b and link.size else {}
        net = dict.fromkeys(range(graph.vertices), 0.0)
        for number, share in zip(link.tolist(), part.tolist(), strict=True):
            net[int(graph.source[number])] += share
            net[int(graph.target[number])] -= share
        assert [net[v] for v in range(graph.vertices)] == pytest.approx([float(flow.get(v, 0)) for v in net], abs=1e-9)
