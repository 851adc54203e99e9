"""Pictures of networks: what is drawn of small ones, what large ones are drawn as, and their files."""

from __future__ import annotations

import json
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from chakrasim.cli.main import main
from chakrasim.machine import NetworkGraph, load_machine, load_network
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.report.picture.network import Wire, network_picture
from chakrasim.report.picture.network_files import network_dot, network_svg


def two_leaves() -> NetworkGraph:
    """Two islands of two ranks on two leaves, which three parallel cables of two speeds join."""
    graph = GraphBuilder("two")
    graph.add_ranks(4, 2)
    leaves = [graph.vertex("leaf0"), graph.vertex("leaf1")]
    for rank in range(4):
        graph.cable(rank, leaves[rank // 2], 50.0, 250.0)
    graph.cable(*leaves, 12.5, 500.0, count=2)
    graph.cable(*leaves, 25.0, 500.0, back=(5.0, 500.0))
    return graph.build()


def test_every_vertex_is_a_box_and_parallel_cables_are_counted() -> None:
    picture = network_picture(two_leaves())
    assert picture.name == "two: 4 ranks, 2 switches"
    assert [(box.label, box.kind, box.level, box.frame) for box in picture.boxes[3:]] == [
        ("3", "rank", 0, 1),
        ("leaf0", "switch", 1, -1),
        ("leaf1", "switch", 1, -1),
    ]
    between = [wire for wire in picture.wires if wire.source == 4]
    assert sorted(wire.label for wire in between) == ["2 x 12.5 GB/s", "25 (back 5) GB/s"]
    assert sum(wire.count for wire in picture.wires) == 7 and not picture.short


def test_a_one_way_link_says_so() -> None:
    graph = GraphBuilder()
    graph.add_ranks(2, transit=True)
    graph.link(0, 1, 4.0, 0.0)
    graph.link(1, 0, 3.0, 0.0)
    assert [wire.label for wire in network_picture(graph.build()).wires] == ["3 (one way) GB/s", "4 (one way) GB/s"]


def test_switches_inside_an_island_stand_below_its_ranks_and_the_fabric_above() -> None:
    picture = network_picture(load_machine("h100", gpus=16).graph)
    assert {(box.kind, box.level) for box in picture.boxes} == {
        ("nvswitch", -1), ("rank", 0), ("nic", 1), ("switch", 2), ("switch", 3),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("gpus", "boxes", "said"),
    [(256, 32 + 8 + 32, "an island is one box"), (16384, 3, "an island or switches alike are one box")],
)
def test_large_networks_are_drawn_in_short_and_say_so(gpus: int, boxes: int, said: str) -> None:
    graph = load_machine("h100", gpus=gpus).graph
    began = time.perf_counter()
    picture = network_picture(graph)
    text = "".join(network_svg(picture))
    assert time.perf_counter() - began < 10
    assert (len(picture.boxes), picture.short) == (boxes, said)
    assert sum(box.count for box in picture.boxes) == graph.vertices
    assert sum(wire.count for wire in picture.wires) + sum(box.inside for box in picture.boxes) == graph.links // 2
    assert f"drawn in short: {said}" in text


def test_a_large_network_without_islands_gathers_the_ranks_of_a_leaf() -> None:
    graph = GraphBuilder("flat")
    graph.add_ranks(400)
    top = graph.vertex("top")
    for leaf in graph.add_switches("leaf", 4):
        graph.cable(leaf, top, 400.0, 0.0)
    for rank in range(400):
        graph.cable(rank, graph.number_of(f"leaf{rank // 100}"), 50.0, 0.0)
    picture = network_picture(graph.build())
    assert [box.label for box in picture.boxes if box.kind == "island"] == ["100 ranks"] * 4
    assert Wire(0, 5, 100, 50.0, 50.0, 0.0) in picture.wires


@pytest.mark.parametrize("topology", ["Ring", "FullyConnected", "Switch"])
def test_dimensions_are_drawn_by_their_links(topology: str) -> None:
    network = load_network({"topology": [topology], "npus_count": [5], "bandwidth": [10.0], "latency": [1.0]})
    graph = network.to_graph()
    picture = network_picture(graph)
    svg = "".join(network_svg(picture))
    assert sum(wire.count for wire in picture.wires) == {"Ring": 5, "FullyConnected": 10, "Switch": 5}[topology]
    assert len(ElementTree.fromstring(svg).findall("{*}g")) == len(picture.boxes) + len(picture.wires)
    assert "".join(network_dot(picture)).count(" -- ") == len(picture.wires)


# -- the command -------------------------------------------------------------------------------------------------------


def write_fabric(folder: Path) -> Path:
    path = folder / "fabric.txt"
    path.write_text("4 2 4\n2 3\n0 2 400Gbps 1us 0\n1 3 400Gbps 1us 0\n2 3 100Gbps 1us 0\n2 3 100Gbps 1us 0\n")
    return path


@pytest.mark.parametrize("ending", ["svg", "html", "dot"])
def test_the_command_draws_a_file_of_any_form(tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"out.{ending}"
    assert main(["draw", "--network", str(write_fabric(tmp_path)), "-o", str(out)]) == 0
    assert "2 x 12.5 GB/s" in out.read_text()


def test_a_run_colours_the_cables(tmp_path: Path) -> None:
    result, out = tmp_path / "result.json", tmp_path / "out.svg"
    result.write_text(json.dumps({"links": [{"name": "2-3", "bytes": 5, "busy_share": 0.92}]}))
    drawn = ["draw", "--network", str(write_fabric(tmp_path)), "-o", str(out), "--load", str(result)]
    assert main(drawn) == 0
    assert "busy 92.0 %" in out.read_text() and "most: 92.0 %, between 2 and 3" in out.read_text()


@pytest.mark.parametrize(
    ("links", "said"),
    [
        (None, "$.links: no links of a graph"),
        ([{"name": "2-9", "busy_share": 1}], "$.links[0].name: the network has no such link"),
        ([{"name": "2-3"}], "$.links[0]: not a link"),
    ],
)
def test_results_of_other_runs_are_refused(
    tmp_path: Path, links: object, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = tmp_path / "result.json"
    result.write_text(json.dumps({} if links is None else {"links": links}))
    drawn = ["draw", "--network", str(write_fabric(tmp_path)), "-o", str(tmp_path / "o.svg"), "--load", str(result)]
    assert main(drawn) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "o.svg").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--network", "h100", "-o", "o.sgv"], "expected one of .dot, .html, .svg, .pdf; say"),
        (["--network", "h100", "-o", "o.svg", "a.et"], "a trace and --network are given"),
        (["--network", "h100", "-o", "o.svg", "--by", "none"], "--by is of traces, not of networks"),
        (["--network", "h100"], "no output is given"),
        (["a.et", "-o", "o.svg", "--gpus", "8"], "--gpus is of a network"),
    ],
)
def test_options_that_contradict_are_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", *words]) == 2
    assert said in capsys.readouterr().err
