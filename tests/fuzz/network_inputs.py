"""Small intact networks, one of each form."""

from __future__ import annotations

from functools import cache

from damage import Files

from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.formats.api import graph_text
from chakrasim.machine.graph.graph import NVSWITCH, NetworkGraph
from chakrasim.notes import Notes

WRITTEN = {
    "net.yaml": "yaml", "own.json": "json", "ns3.txt": "ns3", "simai.txt": "simai", "simgrid.xml": "simgrid",
    "net.graphml": "graphml", "node-link.json": "node-link",
}  # fmt: skip
TOPO = """\
# a tree
Nodes 8
Tiers 3
Podsize 4

Tier 0
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000
Queue_Up 5

Tier 1
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 4
Downlink_Latency_ns 1000
Switch_Latency_ns 7
Bundle 1

Tier 2
Downlink_speed_Gbps 100
Radix_Down 4
Downlink_Latency_ns 1000
Bundle 2
"""
PLATFORM = """\
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
<zone id="world" routing="Floyd">
  <cluster id="ring" prefix="r-" suffix="" radical="0-5"
    speed="1Gf" bw="1GBps" lat="5us" topology="TORUS" topo_parameters="3,2"/>
  <cluster id="tree" prefix="t-" suffix="" radical="0-3"
    speed="1Gf" bw="1GBps" lat="5us" topology="FAT_TREE" topo_parameters="2;2,2;1,2;1,2"/>
  <cluster id="fly" prefix="d-" suffix="" radical="0-7"
    speed="1Gf" bw="1GBps" lat="5us" topology="DRAGONFLY" topo_parameters="2,1;2,1;2,1;1"
    limiter_link="2GBps"/>
  <cluster id="flat" prefix="f-" suffix="" radical="0-1,3"
    speed="1Gf" bw="1GBps" lat="5us" bb_bw="9GBps" bb_lat="1us" router_id="gate"/>
  <zone id="full" routing="Full">
    <host id="a" speed="1Gf"/><host id="b" speed="1Gf"/>
    <link id="l" bandwidth="100Mbps" latency="1ms" sharing_policy="SPLITDUPLEX"/>
    <link id="m" bandwidth="1GBps" latency="1us"/>
    <link id="n" bandwidth="1GBps" latency="0" sharing_policy="FATPIPE"/>
    <route src="a" dst="b"><link_ctn id="l" direction="UP"/><link_ctn id="m"/><link_ctn id="n"/></route>
  </zone>
  <zone id="cabinets" routing="Cluster">
    <host id="c" speed="1Gf"/>
    <router id="top"/>
    <link id="up" bandwidth="1GBps" latency="1us" sharing_policy="SPLITDUPLEX"/>
    <backbone id="bone" bandwidth="5GBps" latency="1us"/>
    <host_link id="c" up="up_UP" down="up_DOWN"/>
    <cabinet id="one" prefix="x-" suffix="" radical="1-2" speed="1Gf" bw="1GBps" lat="2us"/>
  </zone>
  <link id="between" bandwidth="2GBps" latency="3us"/>
  <zoneRoute src="flat" dst="full" gw_src="gate" gw_dst="a"><link_ctn id="between"/></zoneRoute>
</zone>
</platform>
"""  # fmt: skip
SYSTEM = """\
<system version="1">
  <cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207">
    <pci busid="0000:16:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:18:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:05:00.0" count="9" tclass="0x068000"/>
          <nvlink target="0000:2a:00.0" count="4" tclass="0x030200"/>
          <c2c bw="44712" count="5"/>
        </gpu>
      </pci>
      <pci busid="0000:19:00.0" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" latency="0.5" guid="0xa" maxconn="131072" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="ff00" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207">
    <pci busid="0000:2a:00.0" class="0x030200" link_speed="" link_width="0">
      <gpu dev="1" sm="90" rank="1" gdr="1">
        <nvlink target="0000:05:00.0" count="9" tclass="0x068000"/>
        <nvlink target="0000:18:00.0" count="4" tclass="0x030200"/>
      </gpu>
    </pci>
    <nic>
      <net name="eth0" dev="1" speed="10000" port="0" latency="0" guid="0x0" maxconn="1" gdr="0"/>
    </nic>
  </cpu>
</system>
"""
TABLE = """\
        GPU0    GPU1    GPU2    NIC0    CPU Affinity    NUMA Affinity
GPU0     X      NV2     NV1     PIX     0-31            0
GPU1    NV2      X      SYS     PXB     0-31            0
GPU2    NV1     SYS      X      SYS     32-63           1
NIC0    PIX     PXB     SYS      X

Legend:

  X    = Self
"""


def graph(rows: int = 2) -> NetworkGraph:
    """Two servers with NVSwitches, two leaves, parallel cables of different rates."""
    builder = GraphBuilder("net")
    builder.add_ranks(2 * rows, rows)
    inside = [builder.vertex(str(builder.vertices), NVSWITCH, island) for island in range(2)]
    leaves = [builder.vertex(str(builder.vertices)) for _ in range(2)]
    for rank in range(2 * rows):
        builder.cable(rank, inside[rank // rows], 360.0, 25.0)
        builder.cable(rank, leaves[rank % 2], 50.0, 500.0)
    builder.cable(*leaves, 50.0, 500.0, count=2)
    builder.cable(*leaves, 12.5, 500.0)
    return builder.build()


@cache
def networks() -> tuple[Files, ...]:
    """A file of each form."""
    files = {name: graph_text(graph(), form, name, Notes()).encode() for name, form in WRITTEN.items()}
    own = {"tree.topo": TOPO, "platform.xml": PLATFORM, "system.xml": SYSTEM, "table.txt": TABLE}
    return tuple({name: data} for name, data in {**files, **{name: t.encode() for name, t in own.items()}}.items())
