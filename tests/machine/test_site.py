"""What a library sees of a machine, and how machine files name it."""

from __future__ import annotations

from pathlib import Path

import pytest

import chakrasim as cs
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.versions import library_of
from chakrasim.machine import load_machine
from chakrasim.machine.board import board_names, load_board
from chakrasim.machine.site import Make, Sites

TWO_BOARDS = """\
format: 1
network:
  graph:
    ranks: 8
    islands: {gpus: 4}
    parts:
      - nvswitch: {bandwidth: 300 GB/s, latency: 300 ns}
      - nics: {per-island: 2, pcie: 31.508 GB/s, latency: 500 ns}
      - one-switch: {bandwidth: 200 Gb/s, latency: 500 ns}
"""
A100 = "collectives: {library: nccl-2.27.7, site: {vendor: nvidia, capability: 80, network: roce, cpu: amd}}\n"


def seen(name: str, gpus: int, members: range | list[int]) -> Site:
    machine = load_machine(name, gpus=gpus)
    return Sites(machine.graph, machine.make, library_of(machine.make.library)).of(members)


def test_every_board_says_what_no_graph_tells() -> None:
    for name in board_names():
        gpus = load_board(name).gpus
        one, two = seen(name, gpus, range(gpus)), seen(name, 2 * gpus, range(2 * gpus))
        assert one.nranks == gpus
        assert two.nranks == 2 * gpus
        assert two.nodes == 2 * two.domain_nodes
        assert (one.network, two.nics_per_node * two.nic_GBps > 0) == ("none", True)
        assert (one.capability > 0) == (one.vendor == "nvidia")
        assert bool(one.model) == (one.vendor == "amd")


@pytest.mark.parametrize(
    ("name", "members", "nodes", "ranks", "inside", "speed", "ports", "port"),
    [
        ("h100", range(16), 2, 8, "nvswitch", 450.0, 8, 50.0),
        ("h100", [0, 1, 2, 9], 2, 1, "nvswitch", 450.0, 8, 50.0),
        ("h100", [3, 11], 2, 1, "nvswitch", 450.0, 8, 50.0),
        ("dgx-1v", range(16), 2, 8, "cube-mesh", 150.0, 4, 12.5),
        ("mi300x", range(8), 1, 8, "xgmi", 448.0, 8, 50.0),
    ],
)
def test_a_group_is_seen_by_its_nodes(
    name: str, members: range | list[int], nodes: int, ranks: int, inside: str, speed: float, ports: int, port: float
) -> None:
    site = seen(name, 16, members)
    assert (site.nodes, site.ranks_per_node, site.gpus_per_node) == (nodes, ranks, 8)
    assert (site.inside, site.inside_GBps) == (inside, speed)
    assert (site.nics_per_node, site.nic_GBps) == (ports, port)


def test_a_rack_that_nvlink_joins_has_nodes_of_four() -> None:
    site = seen("gb200", 144, range(144))
    assert (site.nodes, site.ranks_per_node, site.domain_nodes, site.nics_per_node) == (36, 4, 18, 4)
    few = seen("gb200", 144, [0, 1, 4, 5])
    assert (few.nodes, few.ranks_per_node, few.domain_nodes) == (2, 2, 18)


def test_dimensions_are_seen_as_boards_with_a_port_for_each_rank() -> None:
    graph = load_machine("hgx-h100-32").graph
    site = Sites(graph, Make("nvidia", 90), library_of("nccl")).of(range(32))
    assert (site.nodes, site.ranks_per_node, site.inside, site.nics_per_node) == (4, 8, "nvswitch", 8)
    assert site.inside_GBps == pytest.approx(400 * 2**30 / 1e9)


def test_a_file_names_its_library_and_what_that_sees(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(TWO_BOARDS + A100)
    machine = load_machine(path)
    assert machine.library is not None
    assert machine.library.table == "2.27.7"
    site = Sites(machine.graph, machine.make, machine.library).of(range(8))
    assert (site.nodes, site.nics_per_node, site.nic_GBps, site.network, site.cpu) == (2, 2, 25.0, "roce", "amd")
    assert machine.system.preferred_dataset_splits == 1
    other = load_machine(path, library="nccl-2.13.4")
    assert other.warnings[-1:] == ("there is no table of NCCL 2.13.4; that of 2.12.12 speaks for it",)


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("collectives: {library: oneccl}", r"own.yaml: line 10: \$.collectives.library: this is not a library"),
        ("collectives: {library: nccl-x}", "the version of the library is not one"),
        ("collectives: {site: {vendor: intel}}", "expected one of nvidia, amd"),
        ("collectives: {site: {capabilty: 90}}", "unknown key"),
    ],
)
def test_what_is_no_library_is_refused_with_its_place(tmp_path: Path, line: str, wrong: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(TWO_BOARDS + line + "\n")
    with pytest.raises(cs.InputError, match=wrong):
        load_machine(path)


def test_a_library_needs_to_know_the_gpus_and_runs_on_its_own(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(TWO_BOARDS)
    unknown = load_machine(path, library="nccl")
    assert unknown.library is not None
    with pytest.raises(cs.InputError, match=r"its GPUs.*collectives: \{site: \{vendor: nvidia, capability: 90\}\}"):
        Sites(unknown.graph, unknown.make, unknown.library)
    with pytest.raises(cs.InputError, match="rccl does not run on GPUs of nvidia"):
        Sites(unknown.graph, Make("nvidia", 90), library_of("rccl"))
