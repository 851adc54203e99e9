"""Graphs made piece by piece: what families of topologies and readers of files write with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from chakrasim.machine.graph.graph import KINDS, NO_ISLAND, RANK, SWITCH, NetworkGraph, numbered
from chakrasim.notes import Notes

MOST_VERTICES: Final = 2**21
MOST_LINKS: Final = 2**22
"""Enough for a fat tree of 500,000 hosts; more is a slip of the pen, said before memory runs out."""


class GraphBuilder:
    """A graph in the making: ranks first, then whatever else, in the order of their numbers."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._names: list[str] = []
        self._kind: list[int] = []
        self._transit: list[bool] = []
        self._island: list[int] = []
        self._links: list[tuple[int, int, float, float, int, int]] = []
        self._cables = 0
        self._numbered: dict[str, int] = {}
        self._by_name: dict[str, int] = {}
        self._cable_of: dict[str, int] = {}
        self._cables_known = 0
        self._planned: list[tuple[float, int, float]] = []
        self._ports: list[int] = []
        self.only: frozenset[int] | None = None
        """The islands that the next part is for; None: all."""
        self.notes = Notes()
        """What was assumed on the way."""

    @classmethod
    def of(cls, graph: NetworkGraph) -> GraphBuilder:
        """A graph as it is, to be added to or changed."""
        made = cls(graph.name)
        vertices = zip(graph.names, graph.kind, graph.island, graph.transit, strict=True)
        for name, kind, island, transit in vertices:
            made.vertex(name, int(kind), int(island), bool(transit))
        columns = (graph.source, graph.target, graph.capacity, graph.latency, graph.cable, graph.medium)
        made._links = list(zip(*(column.tolist() for column in columns), strict=True))
        made._cables = int(graph.cable.max(initial=-1)) + 1
        made._planned = list(graph.planned)
        return made

    @property
    def vertices(self) -> int:
        return len(self._names)

    @property
    def ranks(self) -> int:
        return self._kind.count(RANK)

    def vertex(self, name: str, kind: int = SWITCH, island: int = NO_ISLAND, transit: bool | None = None) -> int:
        """Add a vertex; returns its number. Ranks do not let others' traffic pass unless ``transit`` says so."""
        self._by_name[name] = len(self._names)
        self._names.append(name)
        self._kind.append(kind)
        self._island.append(island)
        self._transit.append(kind != RANK if transit is None else transit)
        if kind == RANK:
            self._ports.append(len(self._names) - 1)
        return len(self._names) - 1

    def add_ranks(self, count: int, island_size: int | None = None, transit: bool = False) -> range:
        """Add ranks ``0``, ``1``, ...; each ``island_size`` in turn stand in one island."""
        first = self.vertices
        if first + count > MOST_VERTICES:
            raise ValueError(f"more than {MOST_VERTICES:,} vertices")
        for rank in range(first, first + count):
            island = NO_ISLAND if island_size is None else (rank - first) // island_size
            self.vertex(str(rank), RANK, island, transit)
        return range(first, first + count)

    def add_switches(self, prefix: str, count: int, kind: int = SWITCH, island: int = NO_ISLAND) -> range:
        """Add ``prefix0``, ``prefix1``, ..., or the next numbers where there are some already."""
        first, number = self.vertices, self._numbered.get(prefix, 0)
        if first + count > MOST_VERTICES:
            raise ValueError(f"more than {MOST_VERTICES:,} vertices")
        self._numbered[prefix] = number + count
        for i in range(number, number + count):
            self.vertex(f"{prefix}{i}", kind, island)
        return range(first, first + count)

    def island_of(self, vertex: int) -> int:
        return self._island[vertex]

    @property
    def ports(self) -> list[int]:
        """What fabrics attach to, island by island: ranks, until a part puts NICs before them."""
        return self._chosen(self._ports)

    @ports.setter
    def ports(self, ports: Sequence[int]) -> None:
        others = [] if self.only is None else [port for port in self._ports if self._island[port] not in self.only]
        self._ports = sorted([*others, *ports], key=lambda port: self._island[port])

    def ports_by_island(self) -> list[list[int]]:
        """The ports of each island; those that stand in none are one more, the first."""
        return self._by_island(self.ports)

    def ranks_by_island(self) -> list[list[int]]:
        """The ranks of each island, likewise."""
        return self._by_island(self._chosen(range(self._kind.count(RANK))))

    def _chosen(self, vertices: Sequence[int]) -> list[int]:
        return [v for v in vertices if self.only is None or self._island[v] in self.only]

    def _by_island(self, vertices: Sequence[int]) -> list[list[int]]:
        found: dict[int, list[int]] = {}
        for vertex in vertices:
            found.setdefault(self._island[vertex], []).append(vertex)
        return [found[island] for island in sorted(found)]

    def let_through(self) -> None:
        """Let traffic of others pass through the ranks, as where they are joined without switches."""
        for rank in self._chosen(range(self._kind.count(RANK))):
            self._transit[rank] = True

    def cable(
        self,
        a: int,
        b: int,
        bytes_per_ns: float,
        latency_ns: float,
        *,
        count: int = 1,
        back: tuple[float, float] | None = None,
        shared: bool = False,
    ) -> range:
        """Add ``count`` cables, each a link from a to b and one from b to a; returns the numbers of the links.

        ``back`` is capacity and latency of the way back, where they differ; ``shared`` has both ways share one
        capacity.
        """
        back_capacity, back_latency = back or (bytes_per_ns, latency_ns)
        begin = len(self._links)
        if begin + 2 * count > MOST_LINKS:
            raise ValueError(f"more than {MOST_LINKS:,} links")
        for _ in range(count):
            first = len(self._links)
            self._links.append((a, b, bytes_per_ns, latency_ns, self._cables, first))
            self._links.append((b, a, back_capacity, back_latency, self._cables, first if shared else first + 1))
            self._cables += 1
        return range(begin, len(self._links))

    def hang(self, switches: Sequence[int], each: int, bytes_per_ns: float, latency_ns: float) -> None:
        """Join the ports to switches, ``each`` in turn to one. Raises ValueError where there are too few switches."""
        ports = self.ports
        if len(ports) > each * len(switches):
            raise ValueError(f"there is room for {each * len(switches)} hosts, not {len(ports)}")
        for number, port in enumerate(ports):
            self.cable(port, switches[number // each], bytes_per_ns, latency_ns)

    def change(self, link: int, bytes_per_ns: float | None = None, latency_ns: float | None = None) -> None:
        """Give a link another capacity or latency; links that share its medium get the capacity, too."""
        medium = self._links[link][5]
        for at, (a, b, capacity, latency, cable, own) in enumerate(self._links):
            if own == medium:
                latency = latency_ns if at == link and latency_ns is not None else latency
                self._links[at] = (a, b, capacity if bytes_per_ns is None else bytes_per_ns, latency, cable, own)

    def cable_named(self, name: str) -> list[int] | None:
        """The links of the cable with a link of that name (``a-b``; the second between the same vertices ``a-b#2``)."""
        if self._cables_known != self._cables:
            names = numbered(f"{self._names[a]}-{self._names[b]}" for a, b, *_ in self._links)
            self._cable_of = {name: link[4] for name, link in zip(names, self._links, strict=True)}
            self._cables_known = self._cables
        found = self._cable_of.get(name)
        return None if found is None else [at for at, link in enumerate(self._links) if link[4] == found]

    def cables(self) -> Iterable[tuple[int, int]]:
        """The ends of each cable, as it was added."""
        ends: dict[int, tuple[int, int]] = {}
        for a, b, _, _, cable, _ in self._links:
            ends.setdefault(cable, (a, b))
        return ends.values()

    @property
    def names(self) -> Sequence[str]:
        """Of the vertices."""
        return self._names

    def number_of(self, name: str) -> int:
        """The number of a vertex. Raises KeyError."""
        return self._by_name[name]

    def link(self, a: int, b: int, bytes_per_ns: float, latency_ns: float) -> None:
        """Add a link that has no way back."""
        self._links.append((a, b, bytes_per_ns, latency_ns, self._cables, len(self._links)))
        self._cables += 1

    def plan(self, at_ns: float, cable: range, bytes_per_ns: float) -> None:
        """Let links (a `range` that `cable` returned) have another capacity from a time on; 0: they are not there."""
        self._planned += [(at_ns, link, bytes_per_ns) for link in cable]

    def build(self, logical: Sequence[int] | None = None) -> NetworkGraph:
        """The graph; one dimension of all ranks where no shape is given."""
        columns = list(zip(*self._links, strict=True)) or [()] * 6
        ints = [np.array(columns[i], np.int32) for i in (0, 1, 4, 5)]
        reals = [np.array(columns[i], np.float64) for i in (2, 3)]
        assert len(KINDS) > max(self._kind, default=0)
        return NetworkGraph(
            names=tuple(self._names),
            kind=np.array(self._kind, np.int8),
            transit=np.array(self._transit, np.bool_),
            island=np.array(self._island, np.int32),
            source=ints[0],
            target=ints[1],
            capacity=reals[0],
            latency=reals[1],
            cable=ints[2],
            medium=ints[3],
            logical=tuple(logical) if logical is not None else (self.ranks,),
            planned=tuple(sorted(self._planned, key=lambda change: change[0])),
            name=self.name,
        )
