"""Networks as graphs in machine files: parts, single cables, routing, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import chakrasim as cs
from chakrasim.errors import InputError
from chakrasim.machine import Machine, load_machine, write_graph
from chakrasim.machine.graph.routing import Routing
from chakrasim.notes import Notes

COLLECTIVES = {"splits": 1, "algorithms": {"all-reduce": "ring"}}
SMALL = """\
format: 1
network:
  graph:
    ranks: 16
    islands: {gpus: 8}
    parts:
      - nvswitch: {bandwidth: 450 GB/s, latency: 300 ns}
      - rails: {nic: 400 Gb/s, latency: 500 ns, leaf-gpus: 64, spines: 2, uplink: 400 Gb/s, dual-tor: false}
    cables:
      - {between: [leaf0, spine1], bandwidth: 100 Gb/s, latency: 500 ns, count: 2}
      - {cable: leaf1-spine0, bandwidth: 10 Gb/s}
    routing: {rule: ecmp, seed: 7}
  logical: [8, 2]
  network-model: flow
slow: {5: 1.3, board 1: 0.9}
collectives: {splits: 1, algorithms: {all-reduce: [ring, direct]}}
"""


def machine(graph: dict[str, Any], **more: Any) -> Machine:
    return load_machine({"network": {"graph": graph}, "collectives": COLLECTIVES, **more}, Notes())


def refusal(graph: dict[str, Any], **more: Any) -> str:
    with pytest.raises(InputError) as caught:
        machine(graph, **more)
    return str(caught.value)


def test_a_file_with_parts_cables_and_routing(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(SMALL)
    found = load_machine(str(tmp_path / "m.yaml"), Notes())
    graph = found.graph
    assert (found.network_model, found.routing) == ("flow", Routing("ecmp", seed=7))
    assert (graph.ranks, graph.vertices, graph.logical) == (16, 16 + 2 + 8 + 2, (8, 2))
    names = graph.link_names
    parallel = [graph.capacity[names.index(name)] for name in ("leaf0-spine1", "leaf0-spine1#2", "leaf0-spine1#3")]
    assert parallel == [50, 12.5, 12.5]
    assert [graph.capacity[names.index(name)] for name in ("leaf1-spine0", "spine0-leaf1", "leaf1-spine1")] == [
        *(1.25, 1.25, 50)
    ]
    assert found.compute_factors.tolist() == [1] * 5 + [1.3] + [1] * 2 + [0.9] * 8


def test_unequal_islands_with_parts_of_their_own() -> None:
    """Four NPUs in one island, six in the other."""
    parts = [
        {"nvswitch": {"bandwidth": "450 GB/s", "islands": "0"}},
        {"full-mesh": {"bandwidth": "64 GB/s", "islands": "1"}},
        {"one-switch": {"bandwidth": "50 GB/s"}},
    ]
    graph = machine({"islands": {"sizes": [4, 6]}, "parts": parts}).graph
    assert graph.ranks == 10
    assert graph.island[:10].tolist() == [0] * 4 + [1] * 6
    assert graph.links == 2 * (4 + 15 + 10)
    assert graph.logical == (10,)


def test_ranks_may_be_those_of_a_family() -> None:
    assert machine({"parts": [{"fat-tree": {"k": 4, "bandwidth": "50 GB/s"}}]}).ranks == 16
    assert machine({"parts": [{"torus": {"sizes": [2, 3], "bandwidth": "50 GB/s"}}]}).ranks == 6


def test_switches_and_cables_alone_make_a_graph() -> None:
    cables = [
        {"between": [0, "tor"], "bandwidth": "100 Gb/s"},
        {"between": ["tor", 1], "bandwidth": "25 Gb/s", "latency": "1 us", "shared": True},
        {"between": [1, 0], "bandwidth": "1 GB/s", "one-way": True},
    ]
    graph = machine({"ranks": 2, "switches": ["tor"], "cables": cables}).graph
    assert graph.link_names == ("0-tor", "tor-0", "tor-1", "1-tor", "1-0")
    assert graph.medium.tolist() == [0, 1, 2, 2, 4]
    assert graph.capacity.tolist() == [12.5, 12.5, 3.125, 3.125, 1]


def test_a_whole_graph_from_a_file_beside_the_machine_file(tmp_path: Path) -> None:
    made = machine({"ranks": 2, "switches": ["tor"], "cables": [
        {"between": [0, "tor"], "bandwidth": "1 GB/s"}, {"between": ["tor", 1], "bandwidth": "2 GB/s", "shared": True},
    ]}).graph  # fmt: skip
    write_graph(tmp_path / "g.graphml", made, "graphml")
    text = "network: {graph: {file: g.graphml, cables: [{cable: tor-1, bandwidth: 3 GB/s}]}}\n"
    (tmp_path / "m.yaml").write_text(text + "collectives: {splits: 1, algorithms: {all-reduce: ring}}\n")
    graph = load_machine(str(tmp_path / "m.yaml"), Notes()).graph
    assert graph.link_names == made.link_names
    assert graph.capacity.tolist() == [1, 1, 3, 3]
    assert "does not go with file" in refusal({"file": str(tmp_path / "g.graphml"), "ranks": 3})


def test_a_graph_written_out_whole_in_a_machine_file(tmp_path: Path) -> None:
    made = machine({"islands": {"gpus": 2}, "ranks": 4, "parts": [{"one-switch": {"bandwidth": "1 GB/s"}}]}).graph
    write_graph(tmp_path / "m.yaml", made)
    text = (tmp_path / "m.yaml").read_text() + "collectives: {splits: 1, algorithms: {all-reduce: ring}}\n"
    text = text.replace("    vertices:", "    routing: {rule: spray}\n    vertices:", 1)
    (tmp_path / "m.yaml").write_text(text)
    found = load_machine(str(tmp_path / "m.yaml"), Notes())
    assert found.graph.link_names == made.link_names
    assert found.graph.island.tolist() == made.island.tolist()
    assert found.routing == Routing("spray")


def test_a_warning_of_a_family_is_one_of_the_machine() -> None:
    found = machine({"parts": [{"torus": {"sizes": [2], "bandwidth": "1 GB/s"}}]})
    assert any("wraps round has one cable" in warning for warning in found.warnings)


def test_a_schedule_of_circuits_is_not_written_silently_without_it(tmp_path: Path) -> None:
    schedule = [{"pairs": [[0, 1], [2, 3]]}, {"at": "5 us", "pairs": [[0, 2], [1, 3]]}]
    found = machine({"ranks": 4, "parts": [{"optical": {"bandwidth": "1 GB/s", "schedule": schedule}}]})
    notes = Notes()
    write_graph(tmp_path / "g.yaml", found.graph, notes=notes)
    assert notes.warnings == (
        f"{tmp_path / 'g.yaml'}: 12 planned changes of capacity is not held by files of networks",
    )


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"parts": [{"fat-three": {}}]}, ".parts[0]: unknown family of topologies; found 'fat-three'; expected one of"),
        ({"parts": [{"fat-tree": {}, "torus": {}}]}, ".parts[0]: not one part"),
        ({"parts": [{"fat-tree": {"k": 4}}]}, ".parts[0].fat-tree.bandwidth: the key is missing"),
        ({"parts": [{"fat-tree": {"k": 4, "bandwidth": "400"}}]}, "the unit is missing; found '400'"),
        ({"parts": [{"fat-tree": {"k": 4, "bandwidth": "400gbps"}}]}, "unknown unit 'gbps'"),
        ({"parts": [{"fat-tree": {"k": 4, "width": 1}}]}, ".fat-tree.width: unknown key"),
        (
            {"ranks": 17, "parts": [{"fat-tree": {"k": 4, "bandwidth": "1 GB/s"}}]},
            ".fat-tree: there is room for 16 hosts, not 17",
        ),
        ({"ranks": 4, "parts": [{"nvswitch": {"bandwidth": "1 GB/s", "islands": "3"}}]}, "there are no such islands"),
        ({"ranks": 4}, "no link leads out of rank 0"),
        ({"parts": [{"nvswitch": {"bandwidth": "1 GB/s"}}]}, "how many ranks there are is missing"),
        (
            {"ranks": 5, "islands": {"sizes": [4, 4]}},
            ".islands: the islands do not hold the ranks; found 8; expected 5",
        ),
        (
            {"ranks": 2, "cables": [{"between": [0, 2], "bandwidth": "1 GB/s"}]},
            "[0].between: no such vertex; found '2'",
        ),
        ({"ranks": 2, "cables": [{"between": [0, 1]}]}, ".cables[0].bandwidth: the key is missing"),
        ({"ranks": 2, "cables": [{"cable": "0-1", "bandwidth": "1 GB/s"}]}, ".cables[0].cable: no such cable"),
        ({"ranks": 2, "cables": [{"bandwidth": "1 GB/s"}]}, "one of between (a new cable) and cable"),
        ({"ranks": 2, "cables": [{"between": [0, 0], "bandwidth": "1 GB/s"}]}, "a cable from a vertex to itself"),
        ({"ranks": 2, "routing": {"rule": "shotrest"}}, "did you mean shortest?"),
        (
            {"ranks": 2, "cables": [{"between": [0, 1], "bandwidth": "1 GB/s", "count": 2**30}]},
            "more than 4,194,304 links",
        ),
        ({"parts": [{"fat-tree": {"k": 4000, "bandwidth": "1 GB/s"}}]}, "how many ranks there are is missing or too"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(graph: dict[str, Any], expected: str) -> None:
    said = refusal(graph)
    assert said.startswith("machine file: $.network.graph")
    assert expected in said


def test_a_logical_shape_must_hold_the_ranks() -> None:
    graph = {"ranks": 2, "cables": [{"between": [0, 1], "bandwidth": "1 GB/s"}]}
    with pytest.raises(InputError, match=r"network\.logical: does not hold the ranks; .*expected a product of 2"):
        load_machine({"network": {"graph": graph, "logical": [3]}, "collectives": COLLECTIVES})


def test_a_graph_does_not_go_with_the_models_of_dimensions() -> None:
    graph = {"ranks": 2, "cables": [{"between": [0, 1], "bandwidth": "1 GB/s"}]}
    with pytest.raises(InputError, match="the model aware needs a network of dimensions"):
        load_machine({"network": {"graph": graph, "network-model": "aware"}, "collectives": COLLECTIVES})


@pytest.mark.parametrize(
    ("slow", "expected"),
    [
        ({8: 2}, "there is no such rank; found '8'; expected 0 to 7"),
        ({"board 1": 2}, "there is no such board; found '1'; expected 0 to 0"),
        ({"1-3": 2, "2": 3}, "rank 2 is named twice"),
        ({"x": 2}, "not ranks"),
        ({"1": 0}, "out of range"),
    ],
)
def test_slow_ranks_must_be_there(slow: dict[str, Any], expected: str) -> None:
    graph = {"ranks": 8, "islands": {"gpus": 8}, "parts": [{"nvswitch": {"bandwidth": "1 GB/s"}}]}
    assert expected in refusal(graph, slow=slow)


def test_a_preset_knows_its_boards_by_its_first_dimension() -> None:
    found = load_machine("hgx-h100-16", settings={"slow": "{board 1: 2}"})
    assert found.compute_factors.tolist() == [1] * 8 + [2] * 8


def test_single_figures_are_changed_by_place() -> None:
    assert load_machine("hgx-h100-16", settings={"network[1].latency": "3 us"}).dimensions.latency_ns == (936.25, 3000)
    graph = load_machine("h100", gpus=16, settings={"network.graph.parts.rails.latency": "1 us"}).graph
    assert graph.latency[graph.link_names.index("nic0-leaf0")] == 1000
    for place, expected in (
        ("network[2].latency", "has no such place; found 2; expected one of 0, 1"),
        ("network[0].latencie", "unknown key"),
        ("netwrk[0].latency", "did you mean network?"),
    ):
        with pytest.raises(InputError, match=expected.replace("?", r"\?")):
            load_machine("hgx-h100-16", settings={place: "1 us"})


def test_dimensions_may_name_their_model() -> None:
    dimensions = [{"topology": "Ring", "npus": 4, "bandwidth": "1 GB/s", "latency": "1 us"}]
    for model in ("flow", "aware"):
        network = {"dimensions": dimensions, "network-model": model}
        found = load_machine({"network": network, "collectives": COLLECTIVES}, Notes())
        assert (found.network_model, found.dimensions.ranks) == (model, 4)
    assert load_machine({"network": dimensions, "collectives": COLLECTIVES}, Notes()).network_model is None


def test_a_machine_of_dimensions_has_a_graph_and_a_graph_no_dimensions() -> None:
    assert load_machine("hgx-h100-16").graph.ranks == 16
    with pytest.raises(InputError, match="the network is a graph of links, not a product of dimensions"):
        _ = load_machine("h100").dimensions
    assert cs.load_machine("h100").graph.ranks == 8
