"""Adaptive ways, given routes, links that go down, rings of channels, and how rules are written."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_routing import Plain, graphs, xgft
from test_routing import all_pairs, as_lists, dgx_1, leaf_spine
from test_routing_rules import passed, rails, torus

from chakrasim.errors import InputError
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import (
    ROUTING_KEYS,
    GivenPath,
    NextLinks,
    Routing,
    channel_rings,
    find_routes,
    find_ways,
    parse_routing,
    reroute,
)


@settings(max_examples=40)
@given(graphs(), st.integers(1, 12), st.integers(0, 9))
def test_ways_are_the_shortest_ones_each_once(graph, limit, seed):
    plain = Plain(graph)
    source, destination, label = all_pairs(graph, 1)
    ways = find_ways(graph, source, destination, label, Routing("adaptive", seed, ways=limit), refuse=False)
    for i, (a, b) in enumerate(zip(source.tolist(), destination.tolist(), strict=True)):
        found = [ways.routes.of(way)[0].tolist() for way in range(ways.first[i], ways.first[i + 1])]
        everything = []
        waiting: list[tuple[int, list[int]]] = [(a, [])]
        while waiting:
            vertex, links = waiting.pop()
            if vertex == b:
                everything.append(links)
            else:
                waiting += [(int(graph.target[link]), [*links, link]) for link in plain.nexts(vertex, b)]
        assert (i in ways.missing) == (not everything)
        assert len(found) == min(limit, len(everything))
        assert all(way in everything for way in found)
        assert len({tuple(way) for way in found}) == len(found)


def test_adaptive_flows_take_the_least_loaded_way():
    """Sixteen flows over 2 x 4 parallel cables: two on each; hashed flows are not so even."""
    graph = leaf_spine()
    source, destination = np.repeat([0, 1, 2, 3], 4), np.tile([4, 5, 6, 7], 4)
    routes = find_routes(graph, source, destination, None, Routing("adaptive", 5))
    load = np.bincount(routes.link, minlength=graph.links)
    uplinks = np.flatnonzero((graph.source == 8) & (graph.target == 10))
    assert load[uplinks].tolist() == [4, 4, 4, 4]
    hashed = find_routes(graph, source, destination, None, Routing("ecmp", 5))
    assert max(np.bincount(hashed.link, minlength=graph.links)[uplinks]) > 4


def test_adaptive_counts_flows_by_capacity():
    builder = GraphBuilder("fast and slow")
    builder.add_ranks(2)
    fast, slow = builder.add_switches("s", 2)
    for switch, capacity in ((fast, 30.0), (slow, 10.0)):
        builder.cable(0, switch, capacity, 1.0)
        builder.cable(switch, 1, capacity, 1.0)
    graph = builder.build()
    routes = find_routes(graph, [0] * 8, [1] * 8, None, Routing("adaptive"))
    assert np.bincount(graph.target[routes.link[::2]]).tolist() == [0, 0, 6, 2]


def dragonfly() -> NetworkGraph:
    """Two hosts a router, four routers a group, five groups, each pair of groups joined by one cable."""
    builder = GraphBuilder("dragonfly")
    builder.add_ranks(40)
    routers = [builder.vertex(f"router{i}", island=i // 4) for i in range(20)]
    for rank in range(40):
        builder.cable(rank, routers[rank // 2], 50.0, 10.0)
    for group in range(5):
        for a, b in itertools.combinations(range(4), 2):
            builder.cable(routers[4 * group + a], routers[4 * group + b], 50.0, 10.0)
    for a, b in itertools.combinations(range(5), 2):
        builder.cable(routers[4 * a + (b - 1)], routers[4 * b + a], 50.0, 100.0)
    return builder.build()


def test_ugal_takes_detours_where_the_shortest_ways_are_full():
    graph = dragonfly()
    source, destination = np.arange(8), np.arange(8, 16)  # group 0 to group 1, over one cable
    between = graph.link_names.index("router0-router4")

    def across(routing: Routing) -> int:
        return int(np.bincount(find_routes(graph, source, destination, None, routing).link)[between])

    assert across(Routing("ecmp")) < 8  # of equally many hops: two cables between groups, none inside
    assert across(Routing("ecmp", metric="latency")) == 8
    assert across(Routing("adaptive", metric="latency")) == 8
    assert across(Routing("adaptive", metric="latency", detours=4)) <= 4
    assert across(Routing("adaptive", metric="latency", detours=4, threshold=1e9)) == 8
    ways = find_ways(graph, source, destination, None, Routing("adaptive", metric="latency", detours=4))
    groups = graph.island
    for flow in range(8):
        for way in range(ways.first[flow], ways.first[flow + 1]):
            link, _ = ways.routes.of(way)
            visited = {int(groups[v]) for v in graph.target[link] if groups[v] >= 0}
            assert visited == ({0, 1} if not ways.detour[way] else visited)
            assert (len(visited) > 2) == ways.detour[way]


def test_given_ways_and_their_weights():
    graph = rails(spines=2)
    by_spine = [f"leaf0-spine{i} spine{i}-leaf1".split() for i in range(2)]
    paths = tuple(
        GivenPath("0", "5", ("0-leaf0", *middle, "leaf1-5"), weight)
        for middle, weight in zip(by_spine, (3.0, 1.0), strict=True)
    )
    own = GivenPath("0", "5", ("0-nvswitch0", "nvswitch0-1", "1-leaf1", "leaf1-5"), label=7)
    routing = Routing("given", paths=(*paths, own))
    routes = find_routes(graph, [0, 0, 3], [5, 5, 3], [0, 7, 0], routing)
    link, part = routes.of(0)
    assert dict(zip([graph.link_names[i] for i in link], part.tolist(), strict=True)) == {
        "0-leaf0": 1.0,
        "leaf0-spine0": 0.75,
        "spine0-leaf1": 0.75,
        "leaf1-5": 1.0,
        "leaf0-spine1": 0.25,
        "spine1-leaf1": 0.25,
    }
    assert passed(graph, routes, 1) == ["nvswitch0", "1", "leaf1", "5"]
    assert routes.of(2)[0].size == 0
    dead = np.array([name == "leaf0-spine0" for name in graph.link_names])
    link, part = find_routes(graph, [0], [5], None, routing, dead).of(0)
    assert [graph.link_names[i] for i in link] == ["0-leaf0", "leaf0-spine1", "spine1-leaf1", "leaf1-5"]
    assert part.tolist() == [1.0] * 4
    with pytest.raises(InputError, match="no route from 0 to 6"):
        find_routes(graph, [0], [6], None, routing)


def test_given_next_links():
    graph = leaf_spine()
    nexts = (
        NextLinks("0", "5", ("0-leaf0",)),
        NextLinks("leaf0", "5", ("leaf0-spine0", "leaf0-spine0#3")),
        NextLinks("spine0", "5", ("spine0-leaf1#2",)),
        NextLinks("leaf1", "5", ("leaf1-5",)),
    )
    routes = find_routes(graph, [0] * 32, [5] * 32, range(32), Routing("given", next_links=nexts))
    names = [graph.link_names[link] for link in routes.link]
    assert set(names[1::4]) == {"leaf0-spine0", "leaf0-spine0#3"}
    assert set(names[2::4]) == {"spine0-leaf1#2"}
    circle = (*nexts[:2], NextLinks("spine0", "5", ("spine0-leaf0",)))
    with pytest.raises(InputError, match="routing: next: the tables lead in a circle on the way to 5; found leaf0"):
        find_routes(graph, [0], [5], None, Routing("given", next_links=circle))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            GivenPath("0", "5", ("0-leaf0", "leaf1-5")),
            "the way is broken; found link leaf1-5 after leaf0; expected a link that leaves leaf0",
        ),
        (GivenPath("0", "5", ("0-leaf0",)), "the way leads elsewhere; found end at leaf0; expected 5"),
        (GivenPath("0", "x", ()), "no such vertex; found x"),
        (GivenPath("0", "5", ("0-leaf7",)), "no such link; found 0-leaf7; did you mean 0-leaf0?"),
        (GivenPath("0", "0", (), 0.0), "weight out of range; found 0.0; expected above 0"),
    ],
)
def test_given_ways_that_are_none(path, message):
    with pytest.raises(InputError) as caught:
        find_routes(leaf_spine(), [0], [5], None, Routing("given", paths=(path,)))
    assert str(caught.value) == f"routing: paths[0]: {message}"


@settings(max_examples=30)
@given(graphs(), st.randoms(), st.integers(0, 3))
def test_choices_without_the_dead_link_among_their_candidates_stay(graph, random, seed):
    source, destination, label = all_pairs(graph, 2)
    routing = Routing("ecmp", seed)
    before = find_routes(graph, source, destination, label, routing, refuse=False)
    gone = random.randrange(graph.links)
    dead = np.arange(graph.links) == gone
    after, changed = reroute(graph, before, source, destination, label, routing, dead)
    plain = Plain(graph)
    old, new = as_lists(before), as_lists(after)
    assert changed.tolist() == [i for i in range(len(old)) if old[i] != new[i]]
    for i in changed.tolist():
        parts = plain.spray(int(source[i]), int(destination[i]))
        assert parts is not None and gone in parts
    assert new == as_lists(find_routes(graph, source, destination, label, routing, dead, refuse=False))


def test_of_four_cables_one_dies_and_its_flows_and_some_that_are_drawn_anew_move():
    graph = leaf_spine()
    flows = np.zeros(400), np.full(400, 5), np.arange(400)
    before = find_routes(graph, *flows)
    gone = graph.link_names.index("leaf0-spine0#2")
    dead = np.arange(graph.links) == gone
    after, changed = reroute(graph, before, *flows, Routing(), dead)
    crossed = np.flatnonzero(before.link[1::4] == gone)
    assert set(crossed) <= set(changed.tolist())
    assert (before.link[2::4] == after.link[2::4]).all()  # behind the spine nothing changed
    assert np.bincount(after.link[1::4], minlength=graph.links)[gone] == 0


def test_adaptive_flows_move_only_off_dead_links():
    graph = leaf_spine()
    source, destination = np.repeat([0, 1, 2, 3], 4), np.tile([4, 5, 6, 7], 4)
    routing = Routing("adaptive")
    before = find_routes(graph, source, destination, None, routing)
    gone = int(before.link[1])
    after, changed = reroute(graph, before, source, destination, None, routing, np.arange(graph.links) == gone)
    assert changed.tolist() == [i for i in range(16) if gone in before.of(i)[0]]
    assert len(changed) == 4 and gone not in after.link


def test_flows_cut_off_are_named_by_number():
    graph = leaf_spine(1)
    before = find_routes(graph, [0, 0], [1, 5])
    after, changed = reroute(graph, before, [0, 0], [1, 5], None, Routing(), graph.source == 8)
    assert after.missing.tolist() == [0, 1]
    after, changed = reroute(graph, before, [0, 0], [1, 5], None, Routing(), graph.target == 10)
    assert (after.missing.tolist(), changed.tolist(), after.of(0)[0].size) == ([1], [1], 2)


def test_channels_enter_and_leave_by_their_own_rail():
    graph = rails(servers=3, gpus=4)
    rings = channel_rings(graph, range(12), 4)
    assert rings.orders[1].tolist() == [1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8]
    for channel in range(4):
        hops = [passed(graph, rings.routes, 12 * channel + k) for k in range(12)]
        assert hops[0] == ["nvswitch0", str((channel + 1) % 4)]
        server_end = rings.orders[channel, 3]
        last = ["nvswitch0", str(channel), f"leaf{channel}", str(4 + channel)]
        assert hops[3] == last
        assert server_end == (channel + 3) % 4
        crossing = [hop for hop in hops if any("leaf" in name or "spine" in name for name in hop)]
        assert len(crossing) == 3 and all(f"leaf{channel}" in hop for hop in crossing)
    assert not any(graph.names[vertex].startswith("spine") for vertex in graph.target[rings.routes.link])
    nics = rings.routes.link[graph.capacity[rings.routes.link] == 50.0]
    assert (np.bincount(nics)[np.unique(nics)] == 1).all()


def test_channels_of_ranks_in_one_place_of_each_island_are_plain_rings():
    graph = rails(servers=3, gpus=4)
    rings = channel_rings(graph, [1, 5, 9], 2)
    assert rings.orders.tolist() == [[1, 5, 9], [1, 5, 9]]
    assert all(passed(graph, rings.routes, k)[0] == "leaf1" for k in range(6))


def test_rings_of_the_cube_mesh():
    """Users' case 1: three rings of 25 GB/s each way, so six channels share no link and use all 48."""
    graph = dgx_1()
    rings = channel_rings(graph, range(8), 6)
    assert rings.routes.link.size == graph.links == 48
    assert np.unique(rings.routes.link).size == 48
    assert all(sorted(order) == list(range(8)) for order in rings.orders.tolist())
    assert rings.orders[0].tolist() == [0, 3, 2, 1, 5, 6, 7, 4]


def test_rings_of_a_full_mesh():
    builder = GraphBuilder("mesh")
    builder.add_ranks(8, 8)
    for a, b in itertools.combinations(range(8), 2):
        builder.cable(a, b, 64.0, 100.0)
    graph = builder.build()
    rings = channel_rings(graph, range(8), 7)
    assert np.unique(rings.routes.link).size == 56


def test_rings_of_no_ranks():
    with pytest.raises(InputError, match="a ring needs ranks, each once"):
        channel_rings(rails(), [1, 1], 2)


def test_rules_as_text_and_as_mappings():
    assert parse_routing("spray") == Routing("spray")
    assert parse_routing({"rule": "ecmp", "seed": 7, "nvswitch-first": True}) == Routing("ecmp", 7, nvswitch_first=True)
    found = parse_routing(
        {
            "rule": "given",
            "cost": {"a-b": 2.5},
            "paths": [{"from": 0, "to": 5, "links": ["0-leaf0"], "weight": 0.5, "label": 3}],
            "next": [{"at": "leaf0", "to": 5, "links": ["leaf0-5"]}],
        }
    )
    assert found.cost == (("a-b", 2.5),)
    assert found.paths == (GivenPath("0", "5", ("0-leaf0",), 0.5, 3),)
    assert found.next_links == (NextLinks("leaf0", "5", ("leaf0-5",)),)
    assert hash(found) == hash(found)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("ecpm", "routing: $.rule: unknown value; found 'ecpm'; expected one of shortest, ecmp, spray, d-mod-k, "),
        ({"rule": "ecmp", "sed": 1}, "routing: $.sed: unknown key"),
        ({"seed": -1}, "routing: $.seed: not a valid number; found -1"),
        ({"rule": "adaptive", "pxn": True}, "routing: $: adaptive knows no pxn"),
        ({"paths": [{"from": 0, "to": 1}]}, "routing: $.paths[0].links: the key is missing"),
        ({"cost": {"a-b": -1}}, "routing: $.cost.a-b: out of range; found -1"),
    ],
)
def test_rules_that_are_none(source, message):
    with pytest.raises(InputError) as caught:
        parse_routing(source)
    assert str(caught.value).startswith(message)


@given(
    st.dictionaries(
        st.sampled_from([key.name for key in ROUTING_KEYS] + ["x"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["ecmp", "0", "a-b", "cost"]),
            lambda inner: (
                st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["from", "to", "links"]), inner)
            ),
            max_leaves=5,
        ),
        max_size=3,
    )
)
def test_whatever_stands_there_is_a_rule_or_an_error_with_its_place(source):
    try:
        assert parse_routing(source).rule
    except InputError as error:
        assert error.file == "routing" and error.place is not None


def test_shortest_by_latency_and_by_cost():
    builder = GraphBuilder("triangle")
    builder.add_ranks(2)
    a, b, c = builder.add_switches("s", 3)
    builder.cable(0, a, 50.0, 1.0)
    builder.cable(a, b, 50.0, 10.0)
    builder.cable(a, c, 50.0, 2.0)
    builder.cable(c, b, 50.0, 3.0)
    builder.cable(b, 1, 50.0, 1.0)
    graph = builder.build()
    ways = {
        "hops": ["s0", "s1", "1"],
        "latency": ["s0", "s2", "s1", "1"],
    }
    for metric, way in ways.items():
        assert passed(graph, find_routes(graph, [0], [1], None, Routing(metric=metric)), 0) == way
    costly = Routing(metric="cost", cost=(("s0-s1", 2.0),))
    assert passed(graph, find_routes(graph, [0], [1], None, costly), 0) == ways["hops"]  # equal cost: fewer links
    costly = Routing(metric="cost", cost=(("s0-s1", 2.5),))
    assert passed(graph, find_routes(graph, [0], [1], None, costly), 0) == ways["latency"]
    with pytest.raises(InputError, match="routing: cost: no such link; found s0-s9"):
        find_routes(graph, [0], [1], None, Routing(metric="cost", cost=(("s0-s9", 2.0),)))


def test_d_mod_k_spreads_all_to_all_evenly():
    graph = xgft((4, 4, 4), (1, 4, 4), (1, 1, 1))
    source, destination, _ = all_pairs(graph, 1)
    routes = find_routes(graph, source, destination, None, Routing("d-mod-k"))
    assert np.bincount(routes.link).max() == 63


def test_a_torus_of_a_thousand_ranks_is_routed_whole():
    graph = torus((10, 10, 10))
    ranks = np.arange(1000)
    routes = find_routes(graph, ranks, (ranks + 555) % 1000, None, Routing("dimension-order"))
    assert routes.missing.size == 0
    assert int(np.diff(routes.first).max()) == 15
