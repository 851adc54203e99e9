"""Routes on the families of topologies, and on machines with a size."""

from __future__ import annotations

import numpy as np
import pytest

from chakrasim.machine import load_machine
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import Routing, channel_rings, find_routes
from chakrasim.machine.graph.routing.rule import RULES


def graph_of(*parts: dict[str, object], ranks: int | None = None, islands: int | None = None) -> NetworkGraph:
    graph: dict[str, object] = {"parts": list(parts)}
    graph |= {"ranks": ranks} if ranks else {}
    graph |= {"islands": {"gpus": islands}} if islands else {}
    collectives = {"splits": 1, "algorithms": {"all-reduce": "ring"}}
    network = load_machine({"format": 1, "network": {"graph": graph}, "collectives": collectives}).network
    assert isinstance(network, NetworkGraph)
    return network


def all_pairs(ranks: int) -> tuple[np.ndarray, np.ndarray]:
    source, destination = np.meshgrid(np.arange(ranks), np.arange(ranks), indexing="ij")
    return source.ravel(), destination.ravel()


def test_d_mod_k_on_the_k_ary_fat_tree():
    half = 2
    graph = graph_of({"fat-tree": {"k": 4, "bandwidth": "50 GB/s"}})
    source, destination = all_pairs(16)
    routes = find_routes(graph, source, destination, None, Routing("d-mod-k"))
    edge, agg, core = 16, 16 + 8, 16 + 16
    for i, (s, d) in enumerate(zip(source.tolist(), destination.tolist(), strict=True)):
        up = d % half
        pods = s // (half * half), d // (half * half)
        expected = [edge + s // half, d] if s != d else []
        if s // half != d // half:
            expected[1:1] = [agg + pods[0] * half + up, edge + d // half]
        if pods[0] != pods[1]:
            expected[2:2] = [core + up * half + d // half % half, agg + pods[1] * half + up]
        assert graph.target[routes.of(i)[0]].tolist() == expected


def test_on_simais_hpn_a_message_stays_on_its_rail_or_crosses_a_spine():
    parts = {"nvswitch": {"bandwidth": "360 GB/s"}}, {"rails": {"template": "hpn", "leaf-gpus": 4, "spines": 6}}
    graph = graph_of(*parts, ranks=64, islands=8)
    source, destination = all_pairs(64)
    routes = find_routes(graph, source, destination, None, Routing(nvswitch_first=True))
    hops = np.diff(routes.first)
    inside = source // 8 == destination // 8
    rail = (source % 8 == destination % 8) & (source // 32 == destination // 32)
    assert (hops == np.select([source == destination, inside | rail], [0, 2], 4)).all()
    pxn = find_routes(graph, source, destination, None, Routing(pxn=True))
    spines = np.array([name.startswith("spine") for name in graph.names])
    flow = np.repeat(np.arange(source.size), np.diff(pxn.first))
    crossing = np.bincount(flow[spines[graph.target[pxn.link]]], minlength=source.size) > 0
    assert (crossing == (source // 32 != destination // 32)).all()


def test_channels_of_256_h100_stay_on_their_rails():
    machine = load_machine("h100", gpus=256)
    graph = machine.network
    assert isinstance(graph, NetworkGraph)
    rings = channel_rings(graph, range(256), 8, machine.routing)
    target = graph.target[rings.routes.link]
    names = np.array(graph.names)[target]
    assert not any(name.startswith("spine") for name in names)
    fabric = np.array([name.startswith(("nic", "leaf")) for name in names])
    assert (np.bincount(rings.routes.link[fabric]) <= 1).all()
    assert sum(name.startswith("leaf") for name in names) == 8 * 32


@pytest.mark.parametrize("name", ["v100", "dgx-1v", "mi300x", "gb200"])
def test_rings_of_a_board_use_no_link_twice(name):
    machine = load_machine(name)
    graph = machine.network
    assert isinstance(graph, NetworkGraph)
    channels = {"dgx-1v": 6, "mi300x": 7}.get(name, 1)
    rings = channel_rings(graph, range(graph.ranks), channels, machine.routing)
    assert np.unique(rings.routes.link).size == rings.routes.link.size
    if channels > 1:
        assert rings.routes.link.size == graph.links


@pytest.mark.parametrize("rule", RULES)
def test_no_flows(rule):
    graph = graph_of({"fat-tree": {"k": 4, "bandwidth": "50 GB/s"}})
    routes = find_routes(graph, [], [], None, Routing(rule))
    assert (routes.flows, routes.link.size, routes.missing.size) == (0, 0, 0)


@pytest.mark.parametrize("rule", sorted(set(RULES) - {"given"}))
def test_a_message_to_itself_crosses_nothing(rule):
    graph = graph_of({"fat-tree": {"k": 4, "bandwidth": "50 GB/s"}})
    routes = find_routes(graph, [3, 2], [3, 2], None, Routing(rule))
    assert (routes.first.tolist(), routes.missing.size) == ([0, 0, 0], 0)
