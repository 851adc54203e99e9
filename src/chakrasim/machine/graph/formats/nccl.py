"""Topology XML of NCCL and RCCL (``NCCL_TOPO_DUMP_FILE``): one server's CPUs, PCIe switches, GPUs, NVLinks and NICs.

Rates are those that NCCL assumes: an NVLink by the compute capability of its GPU, PCIe by width and speed, sockets by
the processor. All NVSwitches of a server are one vertex, as in NCCL; several NVLinks of one pair are one cable of so
many times the rate, since traffic is striped over them.
"""

from __future__ import annotations

import re
from typing import Final

from chakrasim.machine.graph.formats.server import Server, Servers, graph_of_servers
from chakrasim.machine.graph.formats.source import Source
from chakrasim.machine.graph.formats.xml_tree import Element, needed, refuse_misplaced
from chakrasim.machine.graph.graph import NIC, NVSWITCH, PCIE, RANK, NetworkGraph
from chakrasim.text.amounts import plural

NVLINK: Final = ((100, 40.1), (90, 20.6), (86, 12.0), (80, 20.0), (70, 20.0), (60, 18.0), (0, 20.0))
"""GB/s of one NVLink and direction, from this compute capability on; 86 is for itself alone."""
_LANE: Final = {"2.5": 15, "5": 30, "8": 60, "16": 120, "32": 240, "64": 480}
"""Of a PCIe lane in 100 Mb/s, by GT/s; 60 where the speed is unknown."""
_GPU_CLASSES: Final = ("0x03", "0x12")
"""Display controllers, and processing accelerators."""
_UNKNOWN_LANE: Final = 60
_LOCAL: Final = 5000.0
_C2C, _NET = 1000.0, 8000.0
_INSIDE: Final = {
    "system": ("cpu",),
    "cpu": ("pci", "nic"),
    "pci": ("pci", "gpu", "nic", "pcilink"),
    "gpu": ("nvlink", "xgmi", "c2c"),
    "nic": ("net", "coll"),
}
_NVSWITCHES: Final = "nvswitch"


def read_nccl(root: Element, source: Source, servers: Servers) -> NetworkGraph:
    """The server, as often as ``servers`` says. Raises InputError with the line."""
    refuse_misplaced(root, _INSIDE, source)
    return graph_of_servers(_Reader(source).server(root), servers, source)


class _Reader:
    """Goes down the tree; NVLinks are joined when all GPUs are known."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.made = Server()
        self.gpus: dict[str, str] = {}
        self.nvlinks: list[tuple[str, float, Element]] = []
        self.number: dict[str, int] = {}
        self.guid: dict[tuple[str, str], str] = {}

    def server(self, root: Element) -> Server:
        cpus = [*root.all("cpu")]
        if not cpus:
            self.source.refuse("the system has no CPU", root.line, expected="<cpu> in <system>")
        names: list[str] = []
        for at, cpu in enumerate(cpus):
            names.append(self.made.vertex(f"cpu{at}"))
            self._inside(cpu, names[-1])
        for at, one in enumerate(cpus):
            for other in range(at + 1, len(cpus)):
                if one.attributes.get("host_hash") == cpus[other].attributes.get("host_hash"):
                    self.made.cable(names[at], names[other], _socket(one))
        self._join_nvlinks()
        self._say_what_is_odd(root)
        order = sorted(self.made.kinds, key=lambda name: self.number.get(name, -1))
        self.made.kinds = {name: self.made.kinds[name] for name in order}
        return self.made

    def _inside(self, element: Element, parent: str) -> None:
        for child in element.children:
            if child.name == "pci":
                self._pci(child, parent)
            elif child.name == "nic":
                self._nic(child, parent, _LOCAL, f"{parent}-nic")

    def _pci(self, element: Element, parent: str) -> None:
        """A PCIe device: a GPU, a NIC, or a switch with others below."""
        busid = needed(element, "busid", self.source).lower()
        kind = element.attributes.get("class", "").lower()
        if not kind:
            self.source.refuse(
                "<pci> has no class", element.line, expected='class="0x..."',
                remedy="such a file leaves the rest to NCCL: take what it writes to NCCL_TOPO_DUMP_FILE",
            )  # fmt: skip
        rate = self._pcie_rate(element)
        gpus, nics = [*element.all("gpu")], [*element.all("nic")]
        if kind.startswith(_GPU_CLASSES) or gpus:
            # A file for many servers names no GPUs: every display device is one.
            for at, gpu in enumerate(gpus or [element]):
                self._gpu(gpu, busid, at, parent, rate)
        elif nics or kind.startswith("0x02"):
            for nic in nics or [element]:
                self._nic(nic, parent, rate, f"nic-{busid}")
        elif kind.startswith("0x0680"):
            return
        else:
            switch = self._vertex(f"pcie-{busid}", PCIE, element)
            self.made.cable(switch, parent, rate)
            self._inside(element, switch)

    def _vertex(self, name: str, kind: int, element: Element) -> str:
        if name in self.made.kinds:
            self.source.refuse("two devices have one place", element.line, found=name, expected="each busid once")
        return self.made.vertex(name, kind)

    def _gpu(self, element: Element, busid: str, at: int, parent: str, rate: float) -> None:
        name = self._vertex(f"gpu-{busid}" + (f".{at}" if at else ""), RANK, element)
        self.gpus.setdefault(busid, name)
        self.number[name] = self._whole(element, "rank", self._whole(element, "dev", len(self.number)))
        self.made.cable(name, parent, rate)
        sm = self._whole(element, "sm", 0)
        nvlink = next(rate for least, rate in NVLINK if sm >= least and not (least == 86 and sm != 86))
        self.nvlinks += [(name, nvlink, child) for child in element.all("nvlink")]
        self.nvlinks += [(name, _xgmi(element), child) for child in element.all("xgmi")]
        for chip in element.all("c2c"):
            # NVLink-C2C to the processor, whichever PCIe switches stand between.
            total = self._whole(chip, "bw", 0) * self._whole(chip, "count", 1) / _C2C
            if total <= 0:
                self.source.refuse("c2c", chip.line, found=total, expected="bw and count above 0")
            self.made.cable(name, self._processor(parent), total)

    def _processor(self, vertex: str) -> str:
        above = {a: b for a, b, *_ in self.made.cables if self.made.kinds[a] == PCIE}
        while vertex in above:
            vertex = above[vertex]
        return vertex

    def _nic(self, element: Element, parent: str, rate: float, name: str) -> None:
        """A NIC and its ports; one that other CPUs list, too, is there once."""
        nets = [*element.all("net")]
        keys = [(net.attributes.get("name", ""), net.attributes.get("dev", "")) for net in nets]
        if keys and all(key in self.guid for key in keys) and rate == _LOCAL:
            self.made.cable(self.guid[keys[0]], parent, rate)
            return
        while name in self.made.kinds:
            name += "'"
        nic = self.made.vertex(name, NIC)
        self.made.cable(nic, parent, rate)
        for key, net in zip(keys, nets, strict=True):
            self.guid[key] = nic
            speed = self._whole(net, "speed", 0) / _NET
            if speed <= 0:
                self.source.warn(f"line {net.line}: a port without a speed: 12 GB/s are taken, as in NCCL")
                speed = 12.0
            self.made.ports.append((nic, speed, self._latency(net)))

    def _latency(self, net: Element) -> float:
        text = net.attributes.get("latency", "0")
        try:
            microseconds = float(text)
        except ValueError:
            microseconds = -1.0
        if not 0 <= microseconds < 1e9:
            self.source.refuse("latency", net.line, found=text, expected="microseconds, 0 or more")
        return microseconds * 1000

    def _join_nvlinks(self) -> None:
        """To the NVSwitches, all one vertex; or to a GPU, whose own list states the way back."""
        pairs: dict[tuple[str, str], float] = {}
        for gpu, rate, link in self.nvlinks:
            total = rate * self._whole(link, "count", 1)
            target, kind = (
                needed(link, "target", self.source).lower(),
                link.attributes.get("tclass", "0x068000").lower(),
            )
            if total <= 0:
                self.source.refuse("nvlink", link.line, found="count 0", expected="1 or more")
            if kind.startswith("0x0680"):
                self.made.kinds.setdefault(_NVSWITCHES, NVSWITCH)
                pairs[gpu, _NVSWITCHES] = pairs.get((gpu, _NVSWITCHES), 0.0) + total
            elif kind.startswith(_GPU_CLASSES):
                if target not in self.gpus:
                    expected = "the busid of a GPU of the file"
                    self.source.refuse("a link leads to no GPU", link.line, found=target, expected=expected)
                pairs[gpu, self.gpus[target]] = pairs.get((gpu, self.gpus[target]), 0.0) + total
            else:
                expected = "0x068000 (NVSwitch) or 0x0302.. (GPU)"
                self.source.refuse(
                    "a link to a device of this class is not read", link.line, found=kind, expected=expected
                )
        for (a, b), total in pairs.items():
            if b == _NVSWITCHES:
                self.made.cable(a, b, total)
            elif (b, a) not in pairs or a < b:
                self.made.forwarding |= {a, b}
                self.made.cable(a, b, total, pairs.get((b, a), total))

    def _say_what_is_odd(self, root: Element) -> None:
        above = {b for _, b, *_ in self.made.cables}
        dead = [name for name, kind in self.made.kinds.items() if kind == PCIE and name not in above]
        if dead:
            self.source.note(f"{plural(len(dead), 'PCIe switch')} without a GPU or NIC below")
        if not self.nvlinks and len(self.gpus) > 1:
            self.source.note("no GPU has an NVLink in this file: GPUs reach one another over PCIe")
        numbers = [*self.number.values()]
        if len(set(numbers)) != len(numbers):
            double = next(number for number in numbers if numbers.count(number) > 1)
            self.source.refuse("two GPUs have one rank", root.line, found=double, expected="each rank (or dev) once")
        links = sum(element.name == "pcilink" for element in root.below())
        if links:
            self.source.warn(f"{plural(links, 'link')} between PCIe switches (<pcilink>) not read")

    def _pcie_rate(self, element: Element) -> float:
        """Lanes x speed of a lane, in GB/s, as NCCL takes them: 0 or no width is 16 lanes, an unknown speed 8 GT/s."""
        width = self._whole(element, "link_width", 16) or 16
        text = element.attributes.get("link_speed", "")
        match = re.match(r"\s*([0-9.]+)\s*GT/s", text)
        lane = _LANE.get(re.sub(r"\.0+$", "", match[1]) if match else "", 0)
        if not lane:
            self.source.note(f"PCIe devices of unknown speed ({text[:20]!r}): 8 GT/s a lane is taken, as in NCCL")
        return width * (lane or _UNKNOWN_LANE) / 80

    def _whole(self, element: Element, key: str, default: int) -> int:
        text = element.attributes.get(key)
        if text is None:
            return default
        if not re.fullmatch("-?[0-9]{1,9}", text.strip(), re.ASCII):
            self.source.refuse(key, element.line, found=text, expected="a whole number")
        return max(0, int(text))


def _socket(cpu: Element) -> float:
    """GB/s between two sockets, as NCCL takes them."""
    arch, vendor = cpu.attributes.get("arch", "x86_64"), cpu.attributes.get("vendor", "")
    model = cpu.attributes.get("modelid", "0")
    number = int(model) if model.isascii() and model.isdigit() and len(model) < 9 else 0
    if arch == "ppc64":
        return 32.0
    if arch == "arm64":
        return 6.0
    if vendor == "AuthenticAMD":
        return 16.0
    if vendor == "GenuineIntel":
        return next(rate for least, rate in ((0xCF, 40.0), (0x8F, 22.0), (0x55, 10.0), (0, 6.0)) if number >= least)
    return 6.0


def _xgmi(gpu: Element) -> float:
    """GB/s of one xGMI link, as RCCL takes it, by the architecture of the GPU; older files write gfx90a as 910."""
    name = gpu.attributes.get("gcn", "").removeprefix("gfx")
    if name.startswith("94"):
        return 48.0
    return 36.0 if name.startswith("90a") or name == "910" else 24.0
