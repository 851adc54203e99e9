"""One server, as its own tools describe it, repeated and joined by a fabric: what NCCL's XML and nvidia-smi share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from chakrasim.errors import InputError
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.formats.source import Source
from chakrasim.machine.graph.graph import RANK, SWITCH, NetworkGraph
from chakrasim.text.amounts import plural

FABRICS: Final = ("one-switch", "rail")
_MOST_CABLES: Final = 1 << 20


@dataclass(frozen=True)
class Servers:
    """How many servers like the one of the file there are, and what joins them.

    Attributes
    ----------
    count: of servers.
    fabric: ``one-switch`` joins all ports of all servers, ``rail`` has a switch for the ports of one number each.
    nvlink, pcie, nic, socket: bytes per ns and direction of one NVLink, of a PCIe slot, of a NIC's port, and between
        two sockets, where a file does not say; None takes what `nvidia_smi` assumes.
    """

    count: int = 1
    fabric: str = "one-switch"
    nvlink: float | None = None
    pcie: float | None = None
    nic: float | None = None
    socket: float | None = None


ONE_SERVER: Final = Servers()


@dataclass
class Server:
    """The parts of one server: vertices with kinds, cables, and the ports that lead out of it."""

    kinds: dict[str, int] = field(default_factory=dict)
    cables: list[tuple[str, str, float, float]] = field(default_factory=list)
    ports: list[tuple[str, float, float]] = field(default_factory=list)
    forwarding: set[str] = field(default_factory=set)

    def vertex(self, name: str, kind: int = SWITCH) -> str:
        self.kinds[name] = kind
        return name

    def cable(self, a: str, b: str, bytes_per_ns: float, back: float | None = None) -> None:
        """A cable; ``back`` is the rate from b to a, where it differs."""
        self.cables.append((a, b, bytes_per_ns, bytes_per_ns if back is None else back))

    def of_kind(self, kind: int) -> list[str]:
        return [name for name, other in self.kinds.items() if other == kind]


def graph_of_servers(server: Server, servers: Servers, source: Source) -> NetworkGraph:
    """The server, ``servers.count`` times, each an island; ranks are numbered server by server."""
    gpus = server.of_kind(RANK)
    most = _MOST_CABLES // max(1, len(server.cables))
    if not 1 <= servers.count <= most:
        raise InputError("the number of servers is out of range", found=servers.count, expected=f"1 to {most:,}")
    if servers.fabric not in FABRICS:
        raise InputError("unknown fabric", found=repr(servers.fabric), expected="one of " + ", ".join(FABRICS))
    _refuse_bare(server, gpus, source)
    if servers.count > 1 and not server.ports:
        source.refuse("the server has no port of a NIC", expected="NICs, which join several servers")
    builder = GraphBuilder(source.name)
    numbers: dict[tuple[int, str], int] = {}
    alone = servers.count == 1
    for names in (gpus, [name for name in server.kinds if server.kinds[name] != RANK]):
        for copy in range(servers.count):
            for name in names:
                kind = server.kinds[name]
                label = str(builder.vertices) if kind == RANK else name if alone else f"server{copy}-{name}"
                transit = kind != RANK or name in server.forwarding
                numbers[copy, name] = builder.vertex(label, kind, copy, transit)
    for copy in range(servers.count):
        for a, b, there, back in server.cables:
            builder.cable(numbers[copy, a], numbers[copy, b], there, 0.0, back=(back, 0.0))
    if not alone:
        _join(builder, server, servers, numbers)
    source.warn(
        f"the file states no latencies inside a server: 0 is taken for {plural(len(server.cables), 'cable')} each"
    )
    if server.forwarding:
        source.note(f"{plural(len(server.forwarding), 'GPU')} let others' traffic pass: NVLinks join them directly")
    shape = (len(gpus), servers.count) if not alone else None
    return builder.build(shape)


def _join(builder: GraphBuilder, server: Server, servers: Servers, numbers: dict[tuple[int, str], int]) -> None:
    rails = len(server.ports) if servers.fabric == "rail" else 1
    switches = builder.add_switches("rail" if servers.fabric == "rail" else "fabric", rails)
    for copy in range(servers.count):
        for number, (name, rate, latency) in enumerate(server.ports):
            builder.cable(numbers[copy, name], switches[number % rails], rate, latency)


def _refuse_bare(server: Server, gpus: Iterable[str], source: Source) -> None:
    gpus = list(gpus)
    if not gpus:
        source.refuse("the server has no GPU", expected="at least one")
    joined = {end for a, b, *_ in server.cables for end in (a, b)}
    bare = [gpu for gpu in gpus if gpu not in joined]
    if bare and len(gpus) > 1:
        source.refuse(f"{plural(len(bare), 'GPU')} without a link", found=bare[0], expected="a link from every GPU")
