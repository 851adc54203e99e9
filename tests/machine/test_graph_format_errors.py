"""Networks edited by hand: what is wrong is refused with its line, what was found, what was expected and what to do."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from chakrasim.errors import InputError
from chakrasim.machine import load_machine
from chakrasim.machine.graph.formats.api import parse_graph
from chakrasim.machine.graph.formats.source import Source
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.notes import Notes

NS3 = """\
4 1 4
3
0 3 400Gbps 0.0005ms 0
1 3 400Gbps 500ns 0
2 3 400Gbps 0.5us 0
2 3 400Gbps 0.5us 0
"""
SIMAI = "6 2 1 1 8 H100\n4 5\n" + "".join(f"{gpu} {end} 400Gbps 500ns 0\n" for gpu in range(4) for end in (4, 5))
OWN = """\
format: 1
network:
  graph:
    vertices:
      - {name: a, kind: rank}
      - {name: b, kind: rank}
      - {name: leaf0}
    links:
      - {between: [a, leaf0], bandwidth: 400 Gbps, latency: 500 ns}
      - {between: [b, leaf0], bandwidth: 400 Gbps, latency: 500 ns}
"""
TOPO = """\
Nodes 8
Tiers 2
Podsize 8
Tier 0
Downlink_speed_Gbps 100
Radix_Down 4
Radix_Up 4
Downlink_Latency_ns 1000
Tier 1
Downlink_speed_Gbps 100
Radix_Down 2
Downlink_Latency_ns 1000
"""
SIMGRID = """\
<platform version="4.1">
<zone id="z" routing="Floyd">
<host id="a" speed="1Gf"/>
<host id="b" speed="1Gf"/>
<link id="l" bandwidth="1GBps" latency="5us"/>
<route src="a" dst="b"><link_ctn id="l"/></route>
</zone>
</platform>
"""
GRAPHML = """\
<graphml>
<key id="k" for="node" attr.name="kind" attr.type="string"/>
<key id="c" for="edge" attr.name="capacity" attr.type="string"/>
<graph edgedefault="undirected">
<node id="a"><data key="k">rank</data></node>
<node id="b"><data key="k">rank</data></node>
<edge source="a" target="b"><data key="c">400Gbps</data></edge>
</graph>
</graphml>
"""
NCCL = """\
<system version="1">
<cpu numaid="0" arch="x86_64" vendor="GenuineIntel" modelid="143">
<pci busid="0:1" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
<gpu dev="0" sm="90" rank="0"><nvlink target="0:9" count="18" tclass="0x068000"/></gpu>
</pci>
<pci busid="0:2" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
<gpu dev="1" sm="90" rank="1"><nvlink target="0:9" count="18" tclass="0x068000"/></gpu>
</pci>
</cpu>
</system>
"""
SMI = """\
        GPU0    GPU1    NIC0    CPU Affinity
GPU0     X      NV18    PIX     0-31
GPU1    NV18     X      SYS     32-63
NIC0    PIX     SYS      X
"""


def read(text: str | bytes, notes: Notes | None = None) -> NetworkGraph:
    data = text.encode() if isinstance(text, str) else text
    return parse_graph(data, Source("net", Notes() if notes is None else notes))


@pytest.mark.parametrize("text", [NS3, SIMAI, OWN, TOPO, SIMGRID, GRAPHML, NCCL, SMI])
def test_what_is_edited_below_is_right_as_it_stands(text: str) -> None:
    assert read(text).ranks >= 2
    assert read(text.replace("\n", "\r\n")).links == read(text).links
    assert read("\ufeff" + text).links == read(text).links


def test_parallel_lines_are_parallel_cables_and_are_counted() -> None:
    notes = Notes()
    graph = read(NS3, notes)
    assert graph.links == 8
    assert graph.link_names[4:] == ("2-3", "3-2", "2-3#2", "3-2#2")
    assert notes.notes == ("net: 1 cable parallel to another, between 1 pair of vertices",)
    assert not notes.warnings


RATE = "expected bps, kbps, Mbps, Gbps, Tbps (bits), Bps, kBps, MBps, GBps, TBps (bytes)"
COUNT = "the number of cables is not that of the head; found '4 lines of cables'"
EDITS = [
    (NS3, "400Gbps 0.0005ms", "400gbps 0.0005ms", f"line 3: rate: unknown unit 'gbps'; found '400gbps'; {RATE}"),
    (NS3, "400Gbps 0.0005ms", "400gbps 0.0005ms", "did you mean Gbps?"),
    (NS3, "400Gbps 0.0005ms", "400 0.0005ms", "line 3: rate: the unit is missing; found '400'"),
    (NS3, "400Gbps 0.0005ms", "400 Gbps 0.0005ms", "line 3: the line has 6 words; found '0 3 400 Gbps 0.0005ms 0'"),
    (NS3, "400Gbps 0.0005ms", "-400Gbps 0.0005ms", "line 3: rate: the rate is out of range"),
    (NS3, "400Gbps 0.0005ms", "0Gbps 0.0005ms", "line 3: rate: the rate is out of range"),
    (NS3, "400Gbps 0.0005ms", "1e999Gbps 0.0005ms", "line 3: rate: the rate is out of range"),
    (NS3, "400Gbps 0.0005ms", "nan 0.0005ms", "line 3: rate: this is no rate; found 'nan'"),
    (NS3, "500ns", "500", "line 4: latency: the unit is missing; found '500'; expected ps, ns, us, ms, s"),
    (NS3, "500ns", "500nsec", "line 4: latency: unknown unit 'nsec'"),
    (NS3, "500ns 0", "500ns", "line 4: the line has 4 words"),
    (NS3, "500ns 0", "500ns 2", "line 4: error rate: out of range; found '2'"),
    (NS3, "1 3 400", "4 3 400", "line 4: this is no vertex; found '4'; expected 0 to 3, since the head says 4 nodes"),
    (NS3, "1 3 400", "-1 3 400", "line 4: this is no vertex; found '-1'"),
    (NS3, "1 3 400", "3 3 400", "line 4: a cable joins a vertex to itself"),
    (NS3, "1 3 400", "0 3 400", "1 host without a cable; found '1'; expected every host in the line of a cable"),
    (NS3, "4 1 4", "4 1 5", f"line 1: {COUNT}; expected 5, as the head says"),
    (NS3, "4 1 4", "4 1 3", f"line 1: {COUNT}; expected 3, as the head says"),
    (NS3, "4 1 4", "4 2 4", "line 2: the list of switches is too short; found '1 number'; expected 2, as line 1 says"),
    (NS3, "4 1 4", "5 1 4", "1 host without a cable; found '4'"),
    (NS3, "4 1 4", "3 1 4", "line 2: a switch is no vertex; found 3; expected 0 to 2"),
    (NS3, "4 1 4", "999999999 1 4", "the head leaves no fitting number of hosts; found 999999998"),
    (NS3, "4 1 4", "4 1", "line 1: this is no head of a topology; found '4 1'; expected `nodes switches links` (ns-3)"),
    (NS3, "\n3\n", "\n3 3\n", "line 2: a switch is named twice; found 3"),
    (NS3, "\n3\n", "\n3 2\n", "line 2: the list of switches is too long; found '2 numbers'"),
    (SIMAI, "4 5\n", "4\n", "line 2: the list of switches is too short; found '1 number'; expected 2"),
    (SIMAI, "6 2 1 1 8 H100", "6 0 1 1 8 H100", "line 1: a server has no GPU"),
    (SIMAI, "6 2 1 1 8 H100", "6 2 1 1 8", "line 1: this is no head of a topology"),
    (SIMAI, "2 5 400Gbps", "2 5 4OOGbps", "line 8: rate: unknown unit 'OOGbps'"),
    (OWN, "400 Gbps", "400 Gbp", "$.network.graph.links[0].bandwidth: unknown unit 'Gbp'"),
    (OWN, "400 Gbps", "400", "$.network.graph.links[0].bandwidth: the unit is missing; found '400'"),
    (OWN, "[b, leaf0]", "[b, leaf1]", "$.network.graph.links[1].between: there is no such vertex; found 'leaf1'"),
    (OWN, "[b, leaf0]", "[b, leaf1]", "did you mean leaf0?"),
    (OWN, "[b, leaf0]", "[a, leaf0]", "no link leads out of rank b; expected every rank on a cable"),
    (OWN, "latency: 500 ns}", "delay: 500 ns}", "$.network.graph.links[0].delay: unknown key"),
    (OWN, "latency: 500 ns}", "latency: 500 ns, count: 0}", "$.network.graph.links[0].count: count is out of range"),
    (OWN, "{name: b, kind: rank}", "{name: a, kind: rank}", "vertices[1]: two vertices have one name; found 'a'"),
    (OWN, "{name: leaf0}", "{name: leaf0, kind: leaf}", "vertices[2].kind: unknown kind; found 'leaf'; expected"),
    (OWN, "{name: a, kind: rank}", "{name: a}", "a rank behind a vertex of another kind; found 'b'"),
    (TOPO, "Radix_Up 4", "Radix_Up 2", "line 7: tier 0: radix_up: radices and oversubscription do not fit"),
    (TOPO, "Radix_Down 4", "Radix_Down 3", "line 6: tier 0: radix_down: ToRs of a pod come out as 8 / 3"),
    (TOPO, "Radix_Down 2", "Radix_Down 4", "tier 1: bundle: does not fit radix_up of tier 0"),
    (TOPO, "Latency_ns 1000\nTier", "Latency_ns 0\nTier", "line 8: tier 0: downlink_latency_ns: out of range"),
    (TOPO, "Radix_Up 4", "Radix_Upp 4", "line 7: unknown key; found 'Radix_Upp'"),
    (TOPO, "Radix_Up 4", "Radix_Up 4x", "line 7: radix_up is no number; found '4x'"),
    (TOPO, "Tiers 2", "Tiers 3", "tiers are missing or too many; found '0, 1'; expected tiers 0 to 2"),
    (TOPO, "Nodes 8", "Nodes 9", "line 1: nodes: pods come out as 9 / 8"),
    (SIMGRID, 'bandwidth="1GBps"', 'bandwidth="1Gbp"', "line 5: bandwidth: unknown unit 'Gbp'"),
    (SIMGRID, 'bandwidth="1GBps"', "", "line 5: <link> has no bandwidth"),
    (SIMGRID, '<link_ctn id="l"/>', '<link_ctn id="m"/>', "line 6: there is no such link; found 'm'"),
    (SIMGRID, '<link_ctn id="l"/>', "", "line 6: the route has no link"),
    (SIMGRID, 'dst="b"', 'dst="c"', "line 6: there is no such vertex; found 'c'"),
    (SIMGRID, '"Floyd"', '"Vivaldi"', "line 2: zones of this routing are not read; found 'Vivaldi'"),
    (SIMGRID, '"4.1"', '"2"', "line 1: the version of the platform is not read; found '2'"),
    (SIMGRID, "</zone>", "", "line 8: no well-formed XML: mismatched tag"),
    (GRAPHML, "400Gbps", "400 gigabit", "line 7: edge a-b: capacity: unknown unit 'gigabit'"),
    (GRAPHML, 'target="b"', 'target="c"', "line 7: an edge's end is no node; found 'c'"),
    (GRAPHML, '<data key="c">', '<data key="x">', "line 7: data of a key that is not there; found 'x'"),
    (GRAPHML, '<node id="b">', '<node id="a">', "line 6: two nodes have one id; found 'a'"),
    (GRAPHML, ">rank</data></node>\n<edge", ">rang</data></node>\n<edge", "line 6: node b: unknown kind; found 'rang'"),
    (GRAPHML, "<graphml>", '<!DOCTYPE g [<!ENTITY e "x">]><graphml>', "line 1: an entity of the file's own"),
    (NCCL, 'count="18"', 'count="x"', "line 4: count; found 'x'"),
    (NCCL, 'tclass="0x068000"', 'tclass="0x030200"', "line 4: a link leads to no GPU; found '0:9'"),
    (NCCL, 'rank="1"', 'rank="0"', "two GPUs have one rank; found 0"),
    (NCCL, 'busid="0:2"', 'busid="0:1"', "two devices have one place; found 'gpu-0:1'"),
    (NCCL, '<nvlink target="0:9"', '<nvl target="0:9"', "line 4: this element is not read here; found '<nvl>"),
    (SMI, "NIC0    PIX     SYS      X\n", "", "line 1: rows are missing; found 'none for NIC0'"),
    (SMI, "GPU1    NV18     X      SYS", "GPU1    NV18     X      NODE", "GPU1 to NIC0 and back differ"),
    (SMI, "GPU1    NV18     X      SYS", "GPU1    NV18     X      FAR", "line 3: GPU1 to NIC0; found 'FAR'"),
    (SMI, "GPU0     X ", "GPU0    PIX", "line 2: GPU0 to GPU0; found 'PIX'"),
]  # fmt: skip


@pytest.mark.parametrize("text,old,new,said", EDITS)
def test_a_bad_edit_is_refused(text: str, old: str, new: str, said: str) -> None:
    assert old in text
    with pytest.raises(InputError, match=re.escape(said)) as refused:
        read(text.replace(old, new, 1))
    assert refused.value.file == "net"


def test_what_other_programs_put_into_data_is_theirs() -> None:
    drawn = '<data key="k">rank</data><data key="d"><y:Shape><y:At x="1"/></y:Shape></data></node>'
    text = GRAPHML.replace('<data key="k">rank</data></node>', drawn).replace("<graph ", '<key id="d"/><graph ')
    text = text.replace("<graphml>", '<graphml xmlns:y="http://www.yworks.com/xml/graphml">')
    assert read(text).links == 2
    lost = text.replace('<y:At x="1"/>', '<edge source="a" target="b"/>')
    with pytest.raises(InputError, match="line 5: this element is not read here; found '<edge> in <Shape>'"):
        read(lost)


def test_entities_do_not_grow() -> None:
    bomb = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "x"}">' for n in range(20))
    with pytest.raises(InputError, match="an entity of the file's own is not read"):
        read(f"<!DOCTYPE graphml [{bomb}]><graphml>&e19;</graphml>")
    with pytest.raises(InputError, match="an entity of the file's own is not read"):
        read('<!DOCTYPE graphml SYSTEM "http://nowhere/x.dtd"><graphml>&far;</graphml>')


def test_depth_is_bounded() -> None:
    with pytest.raises(InputError, match="line 1: elements are nested too deeply; expected at most 64 levels"):
        read("<a>" * 100_000)
    with pytest.raises(InputError, match="nested"):
        read('{"nodes":' * 100_000)


@pytest.mark.parametrize(
    "data,said",
    [
        (b"", "the file is empty"),
        (b"PK\x03\x04", "this is no file of a network; found 'a zip archive'"),
        (b"\xff\xfe4\0", "text in UTF-16"),
        (b"hello there", "this is no file of a network; found \"text beginning 'hello there'\""),
        (b"<html/>", "line 1: this XML is no network; found '<html>'; expected one of <graphml>, <platform>, <system>"),
        (b"[1, 2]", "this document is no network; found 'a list'"),
        (b'{"traceEvents": []}', "this document is no network; found 'keys traceEvents'"),
    ],
)
def test_what_is_no_network_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        read(data)


def test_a_link_that_ends_at_no_vertex_is_named() -> None:
    graph = load_machine("h100").graph
    source = graph.source.copy()
    source[0] = -1
    with pytest.raises(InputError, match=f"a link's source is no vertex; found -1; expected 0 to {graph.vertices - 1}"):
        replace(graph, source=source)
