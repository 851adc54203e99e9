"""Machines with a size: boards, their figures, fabrics, and what is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chakrasim.errors import InputError
from chakrasim.machine import load_machine
from chakrasim.machine.board import board_names, load_board
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import find_routes
from chakrasim.machine.sized import sized_machine

PORT_GB = {"dgx-1v": 150, "v100": 150, "v100-4": 150, "v100-16gb": 150, "a100": 300, "a100-40gb": 300, "h100": 450,
           "h100-96gb": 450, "h200": 450, "h200-nvl": 450, "b200": 900, "b300": 900, "gb200": 900, "gb300": 900,
           "l40s": 31.508, "mi250": 350, "mi300x": 448, "mi325x": 448, "mi350x": 537.6, "mi355x": 537.6}  # fmt: skip
NIC_GBIT = {"dgx-1v": 400, "v100": 800, "v100-4": 400, "v100-16gb": 400, "a100": 1600, "a100-40gb": 1600, "h100": 3200,
            "h100-96gb": 3200, "h200": 3200, "h200-nvl": 1600, "b200": 3200, "b300": 6400, "gb200": 28800,
            "gb300": 57600, "l40s": 800, "mi250": 800, "mi300x": 3200, "mi325x": 3200, "mi350x": 3200,
            "mi355x": 3200}  # fmt: skip
"""Of a board, all its NICs."""


def capacity(graph: NetworkGraph, name: str) -> float:
    return float(graph.capacity[graph.link_names.index(name)])


def leaving(graph: NetworkGraph, prefix: str, to: str) -> float:
    """Sum of the links from vertices of one name to those of another."""
    first, second = (np.array([name.startswith(start) for name in graph.names]) for start in (prefix, to))
    return float(graph.capacity[first[graph.source] & second[graph.target]].sum())


def test_every_board_has_the_bandwidth_of_its_data_sheet() -> None:
    assert set(board_names()) == set(PORT_GB)
    for name in board_names():
        one = load_machine(name)
        assert one.ranks == load_board(name).gpus
        out = one.graph.capacity[one.graph.source == 0].sum()
        assert out == pytest.approx(PORT_GB[name]), name
        two = load_machine(name, gpus=2 * one.ranks).graph
        assert leaving(two, "nic", "leaf") == pytest.approx(2 * NIC_GBIT[name] / 8), name
        assert "GB/s" in one.source
        assert one.network_model == "flow"


def test_a_shipped_profile_times_the_gpu_of_a_board() -> None:
    profiles = {name: load_machine(name).profile for name in board_names()}
    for name, profile in profiles.items():
        assert profile is not None, name
        assert name in ("dgx-1v", "v100-4") or profile.name == name
        assert load_board(name).memory == f"{profile.bandwidth / 1e9:.0f} GB/s", name


def test_rails_of_256_gpus() -> None:
    graph = load_machine("h100", gpus=256).graph
    assert (graph.ranks, graph.logical) == (256, (8, 32))
    assert Counter(name.rstrip("0123456789") for name in graph.names) == {
        "": 256, "nvswitch": 32, "nic": 256, "leaf": 8, "spine": 32,
    }  # fmt: skip
    assert capacity(graph, "9-nic9") == pytest.approx(63.015)
    assert capacity(graph, "nic9-leaf1") == 50
    assert capacity(graph, "leaf1-spine31") == 50


@pytest.mark.parametrize("fabric", ["rail", "fat-tree"])
@pytest.mark.parametrize(("gpus", "over"), [(256, 2), (256, 3), (4096, 4)])
def test_oversubscription_is_that_of_the_leaves(fabric: str, gpus: int, over: float) -> None:
    graph = load_machine("h100", gpus=gpus, fabric=fabric, oversubscription=over).graph
    assert leaving(graph, "nic", "leaf") / leaving(graph, "leaf", "spine") == pytest.approx(over)


def test_a_fat_tree_of_more_than_8192_nics_has_three_tiers() -> None:
    graph = load_machine("h100", gpus=12288, fabric="fat-tree", oversubscription=2).graph
    assert leaving(graph, "nic", "level1") == 12288 * 50
    assert leaving(graph, "level1", "level2") == leaving(graph, "level2", "level3") == 12288 * 25


def test_nics_of_another_speed() -> None:
    assert capacity(load_machine("a100", gpus=16, nic="400G").graph, "nic3-leaf3") == 50
    assert capacity(load_machine("a100", gpus=16, nic="100 Gb/s", fabric="one-switch").graph, "nic3-switch0") == 12.5


@pytest.mark.parametrize(("gpus", "island"), [(64, 64), (72, 72), (128, 64), (144, 72), (256, 64), (512, 64)])
def test_a_rack_is_used_in_part_where_the_gpus_are_no_whole_racks(gpus: int, island: int) -> None:
    machine = load_machine("gb200", gpus=gpus, nic="400G")
    assert machine.graph.logical == ((island, gpus // island) if gpus > island else (island,))
    assert np.unique(machine.graph.island[:gpus]).size == gpus // island
    assert ("Of each 72 GPUs, 64 are used" in machine.source) == (island == 64 and gpus > 64)
    if gpus > island:
        assert leaving(machine.graph, "nic", "leaf") == gpus * 50


def test_a_part_of_a_board_has_no_fabric() -> None:
    graph = load_machine("h100", gpus=4).graph
    assert graph.names == ("0", "1", "2", "3", "nvswitch0")
    assert load_machine("dgx-1v", gpus=2).graph.link_names == ("0-1", "1-0")


def test_options_of_a_fabric_that_is_not_there_are_warned_of() -> None:
    said = load_machine("h100", gpus=8, nic="200G").warnings
    assert said == ("machine h100: nic has no effect: one board has no NICs and no fabric",)
    assert load_machine("h100", gpus=16, nic="200G").warnings == ()
    one_leaf = load_machine("h100", gpus=64, fabric="fat-tree", oversubscription=2)
    assert one_leaf.warnings == ("machine h100: oversubscription has no effect: all NICs are on one leaf",)
    assert load_machine("h100", gpus=128, fabric="fat-tree", oversubscription=2).warnings == ()


def test_a_name_that_is_not_known_is_refused_before_its_size() -> None:
    with pytest.raises(InputError, match="neither a preset nor a machine file; found 'h1000'"):
        load_machine("h1000", gpus=16)


def test_all_pairs_of_a_small_machine_reach_each_other_over_nvlink_inside_and_nics_outside() -> None:
    for name in ("v100", "h100", "mi300x", "dgx-1v"):
        found = load_machine(name, gpus=2 * load_board(name).gpus)
        graph, ranks = found.graph, found.ranks
        source, target = (axis.reshape(-1) for axis in np.meshgrid(range(ranks), range(ranks), indexing="ij"))
        apart = source != target
        source, target = source[apart].astype(np.int32), target[apart].astype(np.int32)
        routes = find_routes(graph, source, target, np.zeros(source.size, np.int64), found.routing)
        outside = np.array([name.startswith("nic") for name in graph.names])[graph.source][routes.link]
        leaves = np.add.reduceat(outside, routes.first[:-1])
        assert ((leaves > 0) == (graph.island[source] != graph.island[target])).all(), name


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        (
            "h100",
            {"gpus": 12},
            "h100 has 8 GPUs on a board; found 12 GPUs; expected at most 8, or whole boards: 8 or 16",
        ),
        ("h100", {"gpus": 0}, "gpus out of range"),
        ("h100", {"gpus": 16, "nic": "fast"}, "not the speed of a NIC; found 'fast'"),
        ("h100", {"gpus": 8, "nic": "400X"}, "not the speed of a NIC; found '400X'"),
        ("h100", {"gpus": 16, "fabric": "rails"}, "no such fabric; found 'rails'; expected one of rail"),
        ("h100", {"gpus": 16, "oversubscription": 0}, "oversubscription out of range"),
        ("h100", {"gpus": 16, "fabric": "one-switch", "oversubscription": 2}, "one switch has no uplinks"),
        ("hgx-h100-8", {"gpus": 16}, "gpus has no effect on this machine; expected only boards have a size"),
        ("h1000", {}, "neither a preset nor a machine file"),
        ("gb200", {"gpus": 102}, "expected at most 72, or whole nodes: 100 or 104"),
    ],
)
def test_what_cannot_be_is_refused(name: str, given: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError) as caught:
        load_machine(name, **given)
    assert expected in str(caught.value)


def test_a_sized_machine_is_a_machine_file() -> None:
    entries = sized_machine("h100", 64)
    assert load_machine(entries).graph.link_names == load_machine("h100", gpus=64).graph.link_names


def test_a_machine_file_with_a_graph_may_leave_out_how_collectives_run() -> None:
    graph = {"ranks": 4, "parts": [{"one-switch": {"bandwidth": "400 Gb/s", "latency": "250 ns"}}]}
    plain = load_machine({"format": 1, "network": {"graph": graph}})
    assert plain.system == replace(load_machine("h100", gpus=8).system, local_mem_bw=plain.system.local_mem_bw)
    with pytest.raises(InputError, match="the key is missing"):
        load_machine(
            {"format": 1, "network": [{"topology": "Ring", "npus": 4, "bandwidth": "1 GB/s", "latency": "0 ns"}]}
        )
