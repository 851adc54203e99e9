"""Networks as other programs describe them: figures worked by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chakrasim.cli.main import main
from chakrasim.errors import InputError
from chakrasim.machine import load_machine, read_graph
from chakrasim.machine.graph.formats.api import parse_graph
from chakrasim.machine.graph.formats.server import Servers
from chakrasim.machine.graph.formats.source import Source
from chakrasim.machine.graph.graph import KINDS, NetworkGraph
from chakrasim.notes import Notes


def read(text: str, notes: Notes | None = None, servers: Servers | None = None) -> NetworkGraph:
    source = Source("net", Notes() if notes is None else notes)
    return parse_graph(text.encode(), source, servers or Servers())


def rates(graph: NetworkGraph) -> dict[str, float]:
    """Capacities by link."""
    return dict(zip(graph.link_names, graph.capacity.tolist(), strict=True))


def counts(graph: NetworkGraph) -> dict[str, int]:
    return {kind: int((graph.kind == at).sum()) for at, kind in enumerate(KINDS) if (graph.kind == at).any()}


# -- SimGrid -----------------------------------------------------------------------------------------------------------


def cluster(attributes: str) -> NetworkGraph:
    head = '<platform version="4.1"><cluster id="c" prefix="h" suffix="" speed="1Gf" bw="1GBps" lat="5us" '
    return read(f"{head}{attributes}/></platform>")


def test_routes_of_simgrid_share_its_links() -> None:
    """a-b crosses l and m, a-c crosses m alone: four uses of m, all of one capacity; l has one in each direction."""
    notes = Notes()
    graph = read(
        """<?xml version='1.0'?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
        <platform version="4.1"><zone id="z" routing="Full">
        <host id="a" speed="1Gf"/><host id="b" speed="1Gf"/><host id="c" speed="1Gf"/>
        <link id="l" bandwidth="100Mbps" latency="1ms" sharing_policy="SPLITDUPLEX"/>
        <link id="m" bandwidth="1GiBps" latency="1us"/>
        <route src="a" dst="b"><link_ctn id="l" direction="UP"/><link_ctn id="m"/></route>
        <route src="a" dst="c"><link_ctn id="m"/></route>
        <route src="b" dst="c" symmetrical="NO"><link_ctn id="m"/></route>
        </zone></platform>""",
        notes,
    )
    assert graph.names == ("a", "b", "c", "a~b~1")
    assert graph.link_names == ("a-a~b~1", "a~b~1-a", "a~b~1-b", "b-a~b~1", "a-c", "c-a", "b-c")
    assert graph.medium.tolist() == [0, 1, 2, 2, 2, 2, 2]
    assert graph.cable.tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert graph.capacity.tolist() == [0.0125, 0.0125] + [2**30 / 1e9] * 5
    assert graph.latency.tolist() == [1e6, 1e6] + [1000.0] * 5
    assert list(notes) == ["net: 1 vertex added between the links of routes that have several"]


def test_a_torus_of_simgrid_has_a_cable_to_the_next_in_each_dimension() -> None:
    graph = cluster('radical="0-5" topology="TORUS" topo_parameters="3,2"')
    ahead = list(graph.link_names[::2])
    assert ahead == [
        "h0-h1",
        "h0-h3",
        "h1-h2",
        "h1-h4",
        "h2-h0",
        "h2-h5",
        "h3-h4",
        "h3-h0#2",
        "h4-h5",
        "h4-h1#2",
        "h5-h3",
        "h5-h2#2",
    ]
    assert graph.transit.all() and graph.vertices == 6


def test_a_fat_tree_of_simgrid_joins_labels_that_agree_in_all_other_digits() -> None:
    """2;4,4;1,2;1,2: 16 hosts, 4 leaves, 2 cores, each leaf with two cables to each core."""
    graph = cluster('radical="0-15" topology="FAT_TREE" topo_parameters="2;4,4;1,2;1,2"')
    assert counts(graph) == {"rank": 16, "switch": 6}
    names = graph.link_names[::2]
    assert names[:6] == (
        "h0-c_switch1_0",
        "h1-c_switch1_0",
        "h2-c_switch1_0",
        "h3-c_switch1_0",
        "h4-c_switch1_1",
        "h5-c_switch1_1",
    )
    assert names[16:20] == (
        "c_switch1_0-c_switch2_0", "c_switch1_0-c_switch2_0#2", "c_switch1_0-c_switch2_1", "c_switch1_0-c_switch2_1#2",
    )  # fmt: skip
    assert graph.links == 2 * (16 + 16)


def test_a_three_level_tree_is_the_k_ary_fat_tree() -> None:
    """k = 4: an edge joins both aggregations of its pod, aggregation a of every pod the same two cores."""
    graph = cluster('radical="0-15" topology="FAT_TREE" topo_parameters="3;2,2,4;1,2,2;1,1,1"')
    assert counts(graph) == {"rank": 16, "switch": 8 + 8 + 4} and graph.links == 2 * 48
    up: dict[str, set[str]] = {}
    for a, b in zip(graph.source[::2].tolist(), graph.target[::2].tolist(), strict=True):
        up.setdefault(graph.names[a], set()).add(graph.names[b])
    assert up["h5"] == {"c_switch1_2"}
    assert up["c_switch1_2"] == up["c_switch1_3"] == {"c_switch2_2", "c_switch2_3"}
    assert all(len(up[f"c_switch2_{n}"]) == 2 for n in range(8))
    assert [up[f"c_switch2_{n}"] for n in range(0, 8, 2)] == [up["c_switch2_0"]] * 4
    assert up["c_switch2_0"] | up["c_switch2_1"] == {f"c_switch3_{n}" for n in range(4)}


def test_a_dragonfly_of_simgrid() -> None:
    """3 groups of 2 x 2 routers with a node each: green 2, black 2 a group, blue between router J of I and I of J."""
    graph = cluster('radical="0-11" topology="DRAGONFLY" topo_parameters="3,4;2,3;2,5;1"')
    assert counts(graph) == {"rank": 12, "switch": 12}
    found = rates(graph)
    assert (found["c_router0-c_router1"], found["c_router0-c_router2"], found["c_router1-c_router4"]) == (5.0, 3.0, 4.0)
    assert found["c_router2-c_router8"] == found["c_router6-c_router9"] == 4.0
    assert graph.links == 2 * (12 + 3 * 2 + 3 * 2 + 3)


def test_a_backbone_is_crossed_once_by_all() -> None:
    graph = cluster('radical="0-2" bb_bw="2GBps" bb_lat="1us"')
    assert graph.names == ("h0", "h1", "h2", "c_in", "c_out")
    assert rates(graph) == {
        "c_in-c_out": 2.0, **{name: 1.0 for host in ("h0", "h1", "h2") for name in (f"{host}-c_in", f"c_out-{host}")}
    }  # fmt: skip


# -- one server --------------------------------------------------------------------------------------------------------

GPU = (
    '<pci busid="0:{0}" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">'
    '<gpu dev="{0}" sm="{1}" rank="{2}">{3}</gpu></pci>'
)
NIC = (
    '<pci busid="1:{0}" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="8">'
    '<nic><net name="m{0}" dev="{0}" speed="400000" latency="1.5"/></nic></pci>'
)
CPU = '<cpu numaid="{}" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207">{}</cpu>'
SWITCH = '<pci busid="2:{}" class="0x060400" link_speed="8.0 GT/s PCIe" link_width="16">{}</pci>'


def system(*devices: str) -> str:
    """Two sockets with a PCIe switch each, and half of the devices."""
    half = len(devices) // 2
    sides = ("".join(devices[:half]), "".join(devices[half:]))
    cpus = (CPU.format(number, SWITCH.format(number, side)) for number, side in enumerate(sides))
    return f"<system version='1'>{''.join(cpus)}</system>"


def test_nccl_s_rates_are_those_that_it_assumes() -> None:
    """PCIe has lanes x lane speed / 80: a NIC of 400G in a gen 4 x8 slot 12 GB/s; 9 + 9 NVLinks go to NVSwitches."""
    links = '<nvlink target="9:0" count="9" tclass="0x068000"/><nvlink target="9:1" count="9" tclass="0x068000"/>'
    text = system(GPU.format(0, 90, 1, links), NIC.format(0), GPU.format(1, 90, 0, links), NIC.format(1))
    graph = read(text)
    assert counts(graph) == {"rank": 2, "switch": 2, "nvswitch": 1, "nic": 2, "pcie": 2}
    found = rates(graph)
    assert found["0-nvswitch"] == found["nvswitch-0"] == 18 * 20.6
    assert (found["0-pcie-2:1"], found["1-pcie-2:0"], found["nic-1:0-pcie-2:0"]) == (48.0, 48.0, 12.0)
    assert (found["pcie-2:0-cpu0"], found["cpu0-cpu1"]) == (12.0, 40.0)
    assert graph.island.tolist() == [0] * graph.vertices


def test_servers_are_repeated_and_joined() -> None:
    links = '<nvlink target="9:0" count="18" tclass="0x068000"/>'
    text = system(GPU.format(0, 90, 0, links), NIC.format(0), GPU.format(1, 90, 1, links), NIC.format(1))
    graph = read(text, servers=Servers(3, "rail"))
    assert (graph.ranks, graph.logical) == (6, (2, 3))
    assert graph.island[:6].tolist() == [0, 0, 1, 1, 2, 2]
    assert rates(graph)["server2-nic-1:1-rail1"] == 50.0
    assert graph.latency[graph.link_names.index("rail1-server2-nic-1:1")] == 1500.0
    assert [name for name in graph.names if name.startswith("rail")] == ["rail0", "rail1"]
    assert read(text, servers=Servers(3)).names[-1] == "fabric0"
    with pytest.raises(InputError, match="unknown fabric; found 'x'; expected one of one-switch, rail"):
        read(text, servers=Servers(2, "x"))


def test_gpus_joined_directly_forward() -> None:
    first = '<nvlink target="0:1" count="4" tclass="0x030200"/>'
    second = '<nvlink target="0:0" count="4" tclass="0x030200"/>'
    graph = read(system(GPU.format(0, 70, 0, first), GPU.format(1, 70, 1, second)))
    assert (rates(graph)["0-1"], rates(graph)["1-0"]) == (80.0, 80.0)
    assert graph.transit[:2].all()


def test_rccl_s_links_have_its_rates() -> None:
    links = [f'<xgmi target="0:{peer}" count="2" tclass="0x038000"/>' for peer in (1, 0)]
    devices = [GPU.format(at, 94, at, link).replace("sm=", 'gcn="gfx942" sm=') for at, link in enumerate(links)]
    assert rates(read(system(*devices)))["0-1"] == 96.0
    assert rates(read(system(*devices).replace("gfx942", "910")))["1-0"] == 72.0


CUBE = """\
        GPU0  GPU1  GPU2  GPU3  GPU4  GPU5  GPU6  GPU7  CPU Affinity
GPU0     X    NV1   NV2   NV1   SYS   SYS   SYS   NV2   0-19
GPU1    NV1    X    NV1   NV2   SYS   SYS   NV2   SYS   0-19
GPU2    NV2   NV1    X    NV2   SYS   NV1   SYS   SYS   0-19
GPU3    NV1   NV2   NV2    X    NV1   SYS   SYS   SYS   0-19
GPU4    SYS   SYS   SYS   NV1    X    NV2   NV2   NV1   20-39
GPU5    SYS   SYS   NV1   SYS   NV2    X    NV1   NV2   20-39
GPU6    SYS   NV2   SYS   SYS   NV2   NV1    X    NV1   20-39
GPU7    NV2   SYS   SYS   SYS   NV1   NV2   NV1    X    20-39
"""


def test_the_table_of_a_cube_mesh_has_its_sixteen_pairs() -> None:
    graph = read(CUBE)
    nvlink = {name: rate for name, rate in rates(graph).items() if name.replace("-", "").isdigit()}
    assert len(nvlink) == 32 and sum(nvlink.values()) == 2 * 24 * 25.0
    assert (nvlink["0-7"], nvlink["5-2"]) == (50.0, 25.0)
    assert rates(graph)["socket0-socket1"] == 16.0 and graph.transit[:8].all()


def test_the_same_nvlinks_to_all_peers_are_an_nvswitch() -> None:
    text = "GPU0 GPU1 GPU2 NIC0 CPU Affinity\nGPU0 X NV12 NV12 PXB 0-1\nGPU1 NV12 X NV12 SYS 2-3\n"
    text += "GPU2 NV12 NV12 X SYS 2-3\n"
    notes = Notes()
    graph = read(text + "NIC0 PXB SYS SYS X\n", notes, Servers(nvlink=50.0, pcie=48.0, socket=20.0))
    assert rates(graph)["2-nvswitch"] == 600.0 and not graph.transit[:3].any()
    assert notes.warnings == ("net: the file states no latencies inside a server: 0 is taken for 9 cables each",)


# -- the rest of chakrasim ---------------------------------------------------------------------------------------------

MACHINE = """\
format: 1
network:
  graph: {file: net.txt, routing: {rule: ecmp, seed: 3}}
  logical: [2, 2]
memory: {bandwidth: 2000 GB/s}
collectives:
  splits: 1
  active-chunks: 2
  algorithms: {all-reduce: ring, all-gather: ring, reduce-scatter: ring, all-to-all: direct}
"""
STAR = "5 1 4\n4\n" + "".join(f"{rank} 4 400Gbps 500ns 0\n" for rank in range(4))


def test_a_machine_file_may_name_a_network_of_any_form(tmp_path: Path) -> None:
    (tmp_path / "net.txt").write_text(STAR)
    (tmp_path / "machine.yaml").write_text(MACHINE)
    machine = load_machine(tmp_path / "machine.yaml")
    assert isinstance(machine.network, NetworkGraph)
    assert (machine.network.links, machine.network.logical, machine.routing.rule) == (8, (2, 2), "ecmp")
    assert read_graph(tmp_path / "machine.yaml").logical == (2, 2)
    (tmp_path / "machine.yaml").write_text(MACHINE.replace("net.txt", "machine.yaml"))
    with pytest.raises(InputError, match="this document is no network"):
        load_machine(tmp_path / "machine.yaml")


def test_the_file_of_astra_sim_is_a_graph(tmp_path: Path) -> None:
    (tmp_path / "net.yml").write_text(
        "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
    )
    assert read_graph(tmp_path / "net.yml").links == 8


def test_the_command_counts_and_converts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.txt").write_text(STAR)
    name = str(tmp_path / "net.txt")
    assert main(["network", name, "-o", str(tmp_path / "net.graphml"), "--json", "-"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["ranks"], said["links"], said["cables"]) == (4, 8, 4)
    assert said["links_by_kind"] == [
        {
            "ends": ["rank", "switch"],
            "links": 8,
            "parallel": 0,
            "bytes_per_ns": [50.0, 50.0],
            "latency_ns": [500.0, 500.0],
        }
    ]
    assert read_graph(tmp_path / "net.graphml").links == 8
    assert main(["network", name, "-o", str(tmp_path / "net.txt2")]) == 2
    assert "the form of the output is not said" in capsys.readouterr().err
    assert main(["network", name, "-o", name]) == 2
    assert "would replace an input" in capsys.readouterr().err
    assert main(["network", name, "-o", str(tmp_path / "x"), "--format", "simai", "--strict"]) == 2
    assert "the form simai does not hold the island of a vertex (4 times)" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
