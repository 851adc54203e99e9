"""Each form of a network that is written is read back equal, or says what it does not hold."""

from __future__ import annotations

import io
import json
import time
from functools import partial
from pathlib import Path

import networkx
import numpy as np
import pytest
from random_graphs import differences, random_cables, random_graph

from chakrasim.errors import InputError
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.formats.api import WRITTEN, graph_text, parse_graph, write_graph
from chakrasim.machine.graph.formats.source import Source
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph_file import read_graph
from chakrasim.notes import Notes

WHOLE = ("yaml", "json", "graphml", "node-link", "simgrid")
SEEDS = [pytest.param(range(50), id="some"), pytest.param(range(50, 500), id="most", marks=pytest.mark.slow)]


def read(text: str, notes: Notes | None = None) -> NetworkGraph:
    return parse_graph(text.encode(), Source("net", Notes() if notes is None else notes))


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("form", WHOLE)
def test_forms_that_hold_everything_are_read_back_equal(form: str, seeds: range) -> None:
    for seed in seeds:
        graph, notes = random_graph(seed), Notes()
        text = graph_text(graph, form, "net", notes)
        assert differences(graph, read(text)) == [], seed
        assert form == "simgrid" or not notes.warnings


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("form", ["ns3", "simai"])
def test_lines_of_cables_are_read_back_equal(form: str, seeds: range) -> None:
    for seed in seeds:
        graph, notes = random_cables(seed, form == "simai"), Notes()
        assert differences(graph, read(graph_text(graph, form, "net", notes))) == [], seed
        assert not notes.warnings


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("form", ["ns3", "simai", "htsim"])
def test_what_lines_of_cables_cannot_hold_is_never_dropped(form: str, seeds: range) -> None:
    """Refused if it would be another network; else read back with the same links, and a warning for the rest."""
    outcomes = set()
    makers = (random_graph, random_cables, partial(random_cables, servers=True))
    for graph in (make(seed) for seed in seeds for make in makers):
        notes = Notes()
        try:
            back = read(graph_text(graph, form, "net", notes))
        except InputError:
            outcomes.add("refused")
            continue
        lost = differences(graph, back)
        assert set(lost) <= {"kind", "transit", "island", "cable", "names", "logical"}
        assert bool(lost) == bool(notes.warnings)
        outcomes.add("warned" if lost else "equal")
    assert outcomes == ({"refused"} if form == "htsim" else {"refused", "warned", "equal"})


def fat_tree(down: int, up: int, pods: int, bundle: int, rates: tuple[int, int, int]) -> str:
    """A three-tier tree of htsim's whose numbers fit: ``up`` = ``down`` at equal rates."""
    cores = down * 2
    return (
        f"Nodes {pods * down * down}\nTiers 3\nPodsize {down * down}\n"
        f"Tier 0\nDownlink_speed_Gbps {rates[0]}\nRadix_Down {down}\nRadix_Up {up}\nDownlink_Latency_ns 1000\n"
        f"Tier 1\nDownlink_speed_Gbps {rates[1]}\nRadix_Down {down}\nRadix_Up {cores}\nDownlink_Latency_ns 500\n"
        f"Oversubscribed {rates[1] * down // (rates[2] * cores)}\n"
        f"Tier 2\nDownlink_speed_Gbps {rates[2]}\nRadix_Down {pods * bundle}\nDownlink_Latency_ns 700\n"
        f"Bundle {bundle}\n"
    )


@pytest.mark.parametrize("down,pods,bundle", [(2, 2, 1), (2, 3, 2), (4, 2, 1), (4, 4, 2), (8, 3, 4), (4, 1, 1)])
def test_fat_trees_of_htsim_are_read_back_equal(down: int, pods: int, bundle: int) -> None:
    graph, notes = read(fat_tree(down, down, pods, bundle, (200, 200, 100))), Notes()
    assert graph.ranks == pods * down * down
    assert differences(graph, read(graph_text(graph, "htsim", "net", notes))) == []
    assert not notes.warnings
    for tier, wait in ((0, 30), (1, 20), (2, 70)):
        tree = fat_tree(down, down, pods, bundle, (200, 200, 100))
        waiting = read(tree.replace(f"Tier {tier}", f"Tier {tier}\nSwitch_Latency_ns {wait}"))
        assert waiting.latency.sum() == graph.latency.sum() + wait * int((waiting.latency != graph.latency).sum())
        assert differences(waiting, read(graph_text(waiting, "htsim", "net", notes))) == []


def test_simai_s_largest_template_is_read_in_a_second(tmp_path: Path) -> None:
    gpus, servers, leaves, spines = 15360, 1920, 240, 120
    lines = [f"17640 8 {servers} 360 74880 H100", " ".join(map(str, range(gpus, 17640)))]
    for gpu in range(gpus):
        lines.append(f"{gpu} {gpus + gpu // 8} 2880Gbps 0.000025ms 0")
        leaf = gpus + servers + gpu // 1024 * 8 + gpu % 8
        lines += [f"{gpu} {end} 200Gbps 0.0005ms 0" for end in (leaf, leaf + leaves // 2)]
    first = gpus + servers
    lines += [f"{first + a} {first + leaves + b} 400Gbps 0.0005ms 0" for a in range(leaves) for b in range(spines)]
    (tmp_path / "hpn").write_text("\n".join(lines))
    read_graph(tmp_path / "hpn")
    began = time.process_time()
    graph = read_graph(tmp_path / "hpn")
    assert time.process_time() - began < 2
    assert (graph.ranks, graph.vertices, graph.links) == (15360, 17640, 2 * 74880)
    assert (graph.capacity[0], graph.latency[0], graph.latency[2]) == (360.0, 25.0, 500.0)
    assert graph.island[[0, 7, 8, 15360, 17279, 17280]].tolist() == [0, 0, 1, 0, 1919, -1]


# -- the libraries of others -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["json", "node-link"])
def test_islands_are_numbers_of_32_bits(form: str) -> None:
    graph = random_graph(3)
    graph.island[0] = 2**31 - 1
    assert read(graph_text(graph, form, "net", Notes())).island[0] == 2**31 - 1


def pairs(graph: NetworkGraph) -> list[tuple[str, str, float, float]]:
    names = np.array(graph.names, object)
    return sorted(zip(names[graph.source], names[graph.target], graph.capacity, graph.latency, strict=True))


def test_networkx_reads_the_graphml_and_the_node_link_json_that_are_written() -> None:
    for seed in range(20):
        graph = random_graph(seed)
        for form in ("graphml", "node-link"):
            text = graph_text(graph, form, "net", Notes())
            if form == "graphml":
                found = networkx.read_graphml(io.BytesIO(text.encode()))
            else:
                found = networkx.node_link_graph(json.loads(text), edges="links")
            assert found.is_directed() and found.number_of_nodes() == graph.vertices
            there = sorted((a, b, values["capacity"], values["latency"]) for a, b, values in found.edges(data=True))
            assert there == pairs(graph), (seed, form)


def test_what_networkx_writes_is_read() -> None:
    made = networkx.MultiGraph(capacity_unit="Gbps", latency_unit="us")
    for rank in range(4):
        made.add_node(rank, kind="rank", island=rank // 2)
        made.add_edge(rank, "leaf", capacity=100.0 * (rank + 1), latency=0.5)
    made.add_edge("leaf", "spine", capacity=400, latency=1)
    made.add_edge("leaf", "spine", capacity=200, latency=1)
    out = io.BytesIO()
    networkx.write_graphml(made, out)
    node_link = json.dumps(networkx.node_link_data(made, edges="edges"))
    for text in (out.getvalue().decode(), node_link):
        notes = Notes()
        graph = read(text, notes)
        assert graph.names == ("0", "1", "2", "3", "leaf", "spine")
        assert graph.capacity[::2].tolist() == [12.5, 25.0, 37.5, 50.0, 50.0, 25.0]
        assert graph.latency[::2].tolist() == [500.0] * 4 + [1000.0] * 2
        assert not notes.warnings
        assert any("1 cable parallel to another, between 1 pair" in note for note in notes)


def test_a_number_without_a_unit_is_a_warning_with_its_count() -> None:
    made = networkx.DiGraph()
    made.add_node("a", kind="rank")
    made.add_node("b", kind="rank")
    made.add_edge("a", "b", capacity=50)
    made.add_edge("b", "a", capacity=25.0)
    notes = Notes()
    graph = read(json.dumps(networkx.node_link_data(made, edges="links")), notes)
    assert (graph.capacity.tolist(), graph.latency.tolist()) == ([50.0, 25.0], [0.0, 0.0])
    assert notes.warnings == (
        "net: 2 edges whose capacity has no unit: GB/s is taken (capacity_unit says another)",
        "net: 2 edges without a latency: 0 is taken",
    )


def test_an_unknown_form_is_refused_and_nothing_written(tmp_path: Path) -> None:
    builder = GraphBuilder("one")
    builder.add_ranks(1)
    with pytest.raises(InputError, match=r"unknown form of a network; found 'graphm'.*did you mean graphml\?"):
        write_graph(tmp_path / "x", builder.build(), "graphm")
    assert not (tmp_path / "x").exists()
    for form in WRITTEN:
        if form != "htsim":
            write_graph(tmp_path / form, builder.build(), form)
            assert read_graph(tmp_path / form).ranks == 1
