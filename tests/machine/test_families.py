"""Families of topologies: their vertices, cables and numbers, as construction rules give them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from chakrasim.config.section import Section
from chakrasim.config.table import names, read
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.families import FAMILIES, family_of
from chakrasim.machine.graph.families.cube_mesh import NVLINKS
from chakrasim.machine.graph.families.global_links import global_cables
from chakrasim.machine.graph.graph import KINDS, NetworkGraph
from chakrasim.notes import Notes


def build(ranks: int, island: int | None, *parts: tuple[str, dict[str, Any]]) -> NetworkGraph:
    graph = GraphBuilder()
    graph.add_ranks(ranks, island)
    for name, given in parts:
        family = family_of(name)
        section = Section(given, name, Notes())
        section.refuse_unknown(names(family.keys))
        family.build(graph, **read(section, family.keys))
    return graph.build()


def cables(graph: NetworkGraph) -> Counter[tuple[str, str]]:
    """Each cable by the names of its ends, lower number first."""
    pairs = zip(graph.source[::2].tolist(), graph.target[::2].tolist(), strict=True)
    return Counter((graph.names[a], graph.names[b]) for a, b in (sorted(pair) for pair in pairs))


def header(graph: NetworkGraph) -> tuple[int, int, int, int]:
    """Vertices, NVSwitches, all switches but those, cables: what a topology file of SimAI begins with."""
    kinds = Counter(KINDS[kind] for kind in graph.kind.tolist())
    return graph.vertices, kinds["nvswitch"], kinds["switch"], graph.links // 2


@pytest.mark.parametrize(
    ("gpus", "keys", "expected"),
    [
        (4096, {"template": "spectrum-x"}, (4736, 512, 128, 12288)),
        (15360, {"template": "hpn"}, (17640, 1920, 360, 74880)),
        (15360, {"template": "hpn-dual-plane"}, (17640, 1920, 360, 60480)),
        (512, {"template": "dcn+"}, (592, 64, 16, 1088)),
        (512, {"template": "dcn+-dual"}, (592, 64, 16, 1600)),
        (256, {"template": "spectrum-x"}, (360, 32, 72, 1024)),
        (256, {"template": "dcn+", "spines": 64}, (356, 32, 68, 768)),
    ],
)
def test_simais_templates_have_the_headers_of_its_files(
    gpus: int, keys: dict[str, Any], expected: tuple[int, ...]
) -> None:
    graph = build(gpus, 8, ("nvswitch", {"bandwidth": "2880 Gbps", "latency": "25 ns"}), ("rails", keys))
    assert header(graph) == expected


def test_a_gpu_of_a_rail_hangs_on_the_leaf_of_its_place_in_its_segment() -> None:
    graph = build(32, 8, ("nvswitch", {"bandwidth": "450 GB/s"}), ("rails", {"leaf-gpus": 2, "spines": 3}))
    found = cables(graph)
    leaves = [int(b[4:]) for a, b in found if a.isdigit() and b.startswith("leaf")]
    assert leaves == [i // 16 * 8 + i % 8 for i in range(32)]
    assert sum(a.startswith("leaf") for a, _ in found) == 16 * 3


def test_two_planes_share_a_nic_and_no_spine() -> None:
    keys = {"leaf-gpus": 4, "spines": 4, "by-rail": True, "dual-tor": True, "dual-plane": True, "nic": "400 Gb/s"}
    graph = build(8, 2, ("rails", keys))
    found = cables(graph)
    assert {b for a, b in found if a == "leaf0"} == {"spine0", "spine1"}
    assert {b for a, b in found if a == "leaf2"} == {"spine2", "spine3"}
    assert {b for a, b in found if a == "5"} == {"leaf1", "leaf3"}
    assert set(graph.capacity[:32].tolist()) == {25.0}


def test_rail_only_has_a_leaf_for_each_rail_and_lets_traffic_through_ranks() -> None:
    graph = build(8, 2, ("nvswitch", {"bandwidth": "450 GB/s"}), ("rail-only", {}))
    assert {b for a, b in cables(graph) if a == "6"} == {"nvswitch3", "leaf0"}
    assert graph.transit.all()


def test_aggregation_a_of_every_pod_joins_its_own_cores() -> None:
    graph = build(16, None, ("fat-tree", {"k": 4, "bandwidth": "50 GB/s", "latency": "500 ns"}))
    assert header(graph) == (36, 0, 20, 48)
    found = cables(graph)
    assert {b for a, b in found if a == "agg5"} == {"core2", "core3"}
    assert {b for a, b in found if a == "edge5"} == {"agg4", "agg5"}
    assert [b for a, b in found if a == "11"] == ["edge5"]


def test_a_fat_tree_of_two_tiers_has_k_leaves_and_half_as_many_spines() -> None:
    graph = build(8, None, ("fat-tree", {"k": 4, "tiers": 2, "bandwidth": "50 GB/s"}))
    assert header(graph) == (14, 0, 6, 16)


def test_a_k_ary_fat_tree_is_a_generalised_one() -> None:
    tree = build(16, None, ("xgft", {"down": ["2", "2", "4"], "up": ["1", "2", "2"], "bandwidth": "50 GB/s"}))
    assert header(tree) == (36, 0, 20, 48)
    joined = Counter(cables(tree).values())
    assert joined == {1: 48}


def test_a_generalised_fat_tree_joins_labels_that_agree_but_in_one_digit() -> None:
    """SimGrid's example 2;4,4;1,2;1,2: 16 hosts, four switches below two, each pair with two cables."""
    tree = build(
        16, None, ("xgft", {"down": [4, 4], "up": [1, 2], "cables": [1, 2], "bandwidth": ["10 GB/s", "20 GB/s"]})
    )
    found = cables(tree)
    assert [b for a, b in found if a == "7"] == ["level1-1"]
    assert {pair: n for pair, n in found.items() if pair[0] == "level1-1"} == {
        ("level1-1", "level2-0"): 2,
        ("level1-1", "level2-1"): 2,
    }
    assert tree.capacity[[0, -1]].tolist() == [10, 20]


def test_oversubscription_sets_the_uplinks() -> None:
    keys = {"hosts-per-leaf": 4, "spines": 2, "cables": 2, "bandwidth": "400 Gb/s", "oversubscription": 2}
    graph = build(8, None, ("leaf-spine", keys))
    assert header(graph) == (12, 0, 4, 8 + 8)
    assert set(graph.capacity[16:].tolist()) == {4 * 50 / (2 * 2 * 2)}


@pytest.mark.parametrize("arrangement", ["absolute", "relative"])
@pytest.mark.parametrize("cables_each", [1, 2])
def test_global_cables_join_every_pair_of_groups_at_ports_of_their_own(arrangement: str, cables_each: int) -> None:
    found = list(global_cables(5, 8, cables_each, arrangement))
    assert Counter((g, to) for g, _, to, _ in found) == {
        (g, to): cables_each for g in range(5) for to in range(g + 1, 5)
    }
    ends = [(g, port) for g, port, _, _ in found] + [(to, port) for _, _, to, port in found]
    assert sorted(ends) == [(g, port) for g in range(5) for port in range(4 * cables_each)]


def test_the_two_arrangements_of_a_dragonfly() -> None:
    """a = 2, h = 1, g = 3. Absolute: port t of group G leads to t, or to t + 1 from G on; relative: to G + 1 + t."""
    keys = {"hosts": 1, "routers": 2, "bandwidth": "25 GB/s", "global-bandwidth": "50 GB/s"}
    between = {
        arrangement: set(cables(build(6, None, ("dragonfly", {**keys, "arrangement": arrangement}))))
        - {("router0", "router1"), ("router2", "router3"), ("router4", "router5")}
        for arrangement in ("absolute", "relative")
    }
    hosts = {(str(h), f"router{h}") for h in range(6)}
    assert between["absolute"] - hosts == {("router0", "router2"), ("router1", "router4"), ("router3", "router5")}
    assert between["relative"] - hosts == {("router0", "router3"), ("router1", "router4"), ("router2", "router5")}


def test_dragonfly_plus_has_global_links_at_spines() -> None:
    keys = {"hosts": 2, "leaves": 2, "spines": 2, "global-links": 1, "bandwidth": "25 GB/s"}
    graph = build(12, None, ("dragonfly+", keys))
    assert header(graph) == (24, 0, 12, 12 + 3 * 4 + 3)
    assert sum(a.startswith("spine") for a, _ in cables(graph)) == 3


def test_a_cascade_joins_routers_along_both_sides_of_a_group() -> None:
    """SimGrid's example 3,4;4,3;5,1;2."""
    keys = {"groups": 3, "blue": 4, "chassis": 4, "black": 3, "routers": 5, "green": 1, "hosts": 2}
    graph = build(120, None, ("cascade", {**keys, "bandwidth": "10 GB/s"}))
    found = cables(graph)
    assert found["router0", "router1"] == 1
    assert found["router0", "router5"] == 3
    assert found["router2", "router40"] == 4
    assert sum(found.values()) == 120 + 3 * (4 * 10 * 1 + 5 * 6 * 3) + 3 * 4


def test_a_torus_wraps_round_and_a_mesh_does_not() -> None:
    torus = build(12, None, ("torus", {"sizes": ["3", "4"], "bandwidth": ["10 GB/s", "20 GB/s"], "latency": "1 us"}))
    mesh = build(12, None, ("torus", {"sizes": ["3", "4"], "wrap": False, "bandwidth": "10 GB/s"}))
    assert (torus.links, mesh.links) == (2 * 24, 2 * (2 * 4 + 3 * 3))
    assert cables(torus)["0", "2"] == 1
    assert torus.transit.all()
    assert sorted(set(torus.capacity.tolist())) == [10, 20]


def test_two_along_a_torus_are_one_cable_with_a_warning_unless_doubled() -> None:
    graph = GraphBuilder()
    graph.add_ranks(2)
    family = family_of("torus")
    family.build(graph, **read(Section({"sizes": [2], "bandwidth": "1 GB/s"}, "", Notes()), family.keys))
    assert graph.notes.warnings == (
        "a dimension of 2 that wraps round has one cable, not two; double: true gives it two",
    )
    assert graph.build().links == 2
    assert build(2, None, ("torus", {"sizes": [2], "double": True, "bandwidth": "1 GB/s"})).links == 4


def test_every_gpu_of_a_cube_mesh_has_six_nvlinks() -> None:
    ends = Counter(dict.fromkeys(range(8), 0))
    for a, b, count in NVLINKS:
        ends.update({a: count, b: count})
    assert set(ends.values()) == {6}
    assert len(NVLINKS) == 16
    graph = build(16, 8, ("cube-mesh", {}))
    assert cables(graph)["8", "11"] == 2
    assert graph.links == 2 * 48


def test_nics_stand_between_ranks_and_the_fabric() -> None:
    own = build(4, 2, ("nics", {"pcie": "64 GB/s"}), ("one-switch", {"bandwidth": "50 GB/s"}))
    assert set(cables(own)) == {(str(i), f"nic{i}") for i in range(4)} | {(f"nic{i}", "switch0") for i in range(4)}
    shared = build(4, 4, ("nics", {"per-island": 2, "pcie": "16 GB/s"}), ("one-switch", {"bandwidth": "12.5 GB/s"}))
    assert {b for a, b in cables(shared) if a in ("2", "3")} == {"pcie1"}
    assert [KINDS[kind] for kind in shared.kind[4:].tolist()] == ["nic", "nic", "pcie", "pcie", "switch"]
    several = build(2, 2, ("nics", {"per-island": 4, "pcie": "64 GB/s"}), ("one-switch", {"bandwidth": "50 GB/s"}))
    assert {b for a, b in cables(several) if a == "1"} == {"nic2", "nic3"}


def test_optical_circuits_follow_their_schedule() -> None:
    schedule = [
        {"pairs": [[0, 1], [2, 3]]},
        {"at": "5 us", "pairs": [[0, 1]]},
        {"at": "9 us", "pairs": [[1, 3], [0, 2]]},
    ]
    keys = {"bandwidth": "100 GB/s", "delay": "1 us", "schedule": schedule}
    graph = build(4, None, ("optical", keys))
    names = [(at, graph.link_names[link], capacity) for at, link, capacity in graph.planned if link % 2 == 0]
    assert names == [
        (0, "0-2", 0),
        (0, "1-3", 0),
        (5000, "2-3", 0),
        (9000, "0-1", 0),
        (10000, "0-2", 100),
        (10000, "1-3", 100),
    ]


@pytest.mark.parametrize(
    ("ranks", "island", "name", "keys", "message"),
    [
        (17, None, "fat-tree", {"k": 4, "bandwidth": "1 GB/s"}, "there is room for 16 hosts, not 17"),
        (4, None, "xgft", {"down": [2, 2], "up": [1], "bandwidth": "1 GB/s"}, "up has 1 values, expected 2"),
        (6, 4, "rails", {"leaf-gpus": 2}, "rails need islands of one size"),
        (6, None, "rails", {"leaf-gpus": 2}, "rails need islands"),
        (8, 2, "rails", {"leaf-gpus": 2, "spines": 0}, "without spines a leaf holds its whole rail, 4 ports, not 2"),
        (7, None, "torus", {"sizes": [2, 3], "bandwidth": "1 GB/s"}, "2 x 3 has 6 ranks, not 7"),
        (9, 9, "cube-mesh", {}, "a cube mesh has 8 ranks"),
        (4, 4, "nics", {"per-island": 3, "pcie": "1 GB/s"}, "3 NICs cannot be shared out among the 4 ranks"),
        (8, None, "dragonfly", {"hosts": 1, "routers": 2, "groups": 4, "bandwidth": "1 GB/s"}, "2 global ports"),
        (4, None, "optical", {"bandwidth": "1 GB/s", "schedule": [{"pairs": [[0, 9]]}]}, "found port 9"),
        (4, None, "optical", {"bandwidth": "1 GB/s", "schedule": [{"at": "1e30 s", "pairs": [[0, 1]]}]}, "the clock"),
        (2, None, "one-switch", {"bandwidth": "1 GB/s"}, ""),
    ],
)
def test_values_that_do_not_go_together_are_refused(
    ranks: int, island: int | None, name: str, keys: dict[str, Any], message: str
) -> None:
    if not message:
        assert build(ranks, island, (name, keys)).links == 4
        return
    with pytest.raises(ValueError, match=message.replace("+", r"\+")):
        build(ranks, island, (name, keys))


def test_every_family_has_a_key_for_each_argument_and_is_a_short_file() -> None:
    import inspect

    for family in FAMILIES.values():
        wanted = set(inspect.signature(family.build).parameters) - {"graph"}
        assert {key.python_name for key in family.keys} == wanted, family.name
        assert len(inspect.getsource(inspect.getmodule(family.build)).splitlines()) <= 60, family.name  # type: ignore[arg-type]


def test_dimensions_as_graphs_have_the_links_that_messages_take() -> None:
    from chakrasim.machine import Network

    ring = Network(("Ring",), (5,), (1.0,), (7.0,)).to_graph()
    assert set(cables(ring)) == {("0", "1"), ("1", "2"), ("2", "3"), ("3", "4"), ("0", "4")}
    assert ring.transit.all()
    assert Network(("Ring",), (2,), (1.0,), (7.0,)).to_graph().links == 2
    both = Network(("Switch", "FullyConnected"), (4, 3), (1.0, 2.0), (5.0, 7.0)).to_graph()
    assert (both.ranks, both.vertices, both.links) == (12, 15, 2 * 12 + 4 * 6)
    assert both.logical == (4, 3)
    assert both.island[:12].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert np.unique(both.capacity).tolist() == [2**30 / 1e9, 2**31 / 1e9]
    assert cables(both)["1", "9"] == 1
    assert (np.bincount(both.cable) == 2).all()


def test_a_topology_from_outside_becomes_a_graph_of_the_links_that_its_routes_take() -> None:
    from chakrasim.machine.graph.of_dimensions import graph_of_dimensions
    from chakrasim.machine.topologies import Topology

    def ends(owner: int, port: int, members: int) -> tuple[int, int]:
        return (owner, owner + 1) if port == 0 else (owner, owner - 1)

    line = Topology("Line", lambda members: 2, lambda here, to, members: (here, 0 if to > here else 1), ends)
    graph = graph_of_dimensions([line], [4], [1.0], [3.0])
    assert set(cables(graph)) == {("0", "1"), ("1", "2"), ("2", "3")}
    assert graph.vertices == 4
    one_way = Topology("OneWay", lambda members: 1, lambda here, to, members: (here, 0),
                       lambda owner, port, members: (owner, (owner + 1) % members))  # fmt: skip
    round_about = graph_of_dimensions([one_way], [3], [1.0], [3.0])
    assert round_about.link_names == ("0-1", "1-2", "2-0")
    assert np.bincount(round_about.cable).tolist() == [1, 1, 1]
