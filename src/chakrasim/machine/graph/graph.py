"""The graph of a network: vertices, directed links, and what else routing and collectives ask of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.trace.chakra.graph import offsets_of

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]

KINDS: Final = ("rank", "switch", "nvswitch", "nic", "pcie", "optical")
"""Kinds of vertices; `NetworkGraph.kind` holds indices into it."""
RANK, SWITCH, NVSWITCH, NIC, PCIE, OPTICAL = range(len(KINDS))
NO_ISLAND: Final = -1


@dataclass(frozen=True, eq=False)
class NetworkGraph:
    """Ranks, switches and directed links.

    Vertices are numbered; the ranks come first, 0 to ``ranks`` - 1, and are the only ones that send. A *cable* is two
    links, one each way, which may differ; any number of links may join the same two vertices, and each is one of its
    own. Links that share a *medium* share one capacity (a bus, a cable that carries one way at a time).

    Parameters
    ----------
    names:
        Of the vertices, each once.
    kind:
        int8[v]: index into `KINDS`.
    transit:
        bool[v]: whether traffic of others may pass. Switches let it pass, ranks do not unless stated.
    island:
        int32[v]: number of the board, box or server that a vertex stands in, NO_ISLAND for those in none.
    source, target:
        int32[l]: where each link begins and ends.
    capacity:
        float64[l]: bytes per ns, each above 0. Links of one medium have the same.
    latency:
        float64[l]: ns, each 0 or more.
    cable:
        int32[l]: number of the cable; a link that has no way back has a cable of its own.
    medium:
        int32[l]: lowest link with which this one shares its capacity, mostly itself.
    logical:
        Shape of the ranks for collectives, innermost (fastest varying in the rank number) first.
    planned:
        Capacities that change at known times, in order of time: ns, link, bytes per ns (0: the link is not there). Of
        an optical switch's schedule, for instance; a run applies them.
    name:
        For people.

    Raises :class:`chakrasim.InputError` for tables that contradict each other, and for ranks without a link out or in.
    """

    names: tuple[str, ...]
    kind: NDArray[np.int8]
    transit: NDArray[np.bool_]
    island: Ints
    source: Ints
    target: Ints
    capacity: Floats
    latency: Floats
    cable: Ints
    medium: Ints
    logical: tuple[int, ...]
    planned: tuple[tuple[float, int, float], ...] = ()
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        _check(self)

    @cached_property
    def ranks(self) -> int:
        return int(np.count_nonzero(self.kind == RANK))

    @property
    def vertices(self) -> int:
        return len(self.names)

    @property
    def links(self) -> int:
        return self.source.size

    @cached_property
    def number_of(self) -> dict[str, int]:
        """Vertex number by name."""
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def leaving(self) -> tuple[NDArray[np.int64], Ints]:
        """int64[v + 1] and int32[l]: the links that leave each vertex, in order of link number."""
        return _grouped(self.source, self.vertices)

    @cached_property
    def entering(self) -> tuple[NDArray[np.int64], Ints]:
        """The same of the links that enter each vertex."""
        return _grouped(self.target, self.vertices)

    @cached_property
    def leaf(self) -> Ints:
        """int32[ranks]: the vertex that is no rank to which each rank's first cable of such leads; itself if none."""
        leads = np.flatnonzero((self.source < self.ranks) & (self.target >= self.ranks))[::-1]
        found = np.arange(self.ranks, dtype=np.int32)
        found[self.source[leads]] = self.target[leads]
        return found

    @cached_property
    def link_number(self) -> dict[str, int]:
        """Link number by name."""
        return {name: number for number, name in enumerate(self.link_names)}

    @cached_property
    def link_names(self) -> tuple[str, ...]:
        """``a-b`` for the link from a to b; the second of several is ``a-b#2``, in order of link number."""
        ends = zip(self.source.tolist(), self.target.tolist(), strict=True)
        return tuple(numbered(f"{self.names[a]}-{self.names[b]}" for a, b in ends))


def numbered(names: Iterable[str]) -> Iterator[str]:
    """Names of links; the second of equal ones has ``#2`` behind it, and so on."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = count = seen.get(name, 0) + 1
        yield f"{name}#{count}" if count > 1 else name


def _grouped(vertex: Ints, vertices: int) -> tuple[NDArray[np.int64], Ints]:
    offsets = offsets_of(np.bincount(vertex, minlength=vertices))
    return offsets, np.argsort(vertex, kind="stable").astype(np.int32)


def _check(graph: NetworkGraph) -> None:
    def refuse(message: str, **more: object) -> None:
        raise InputError(message, file=graph.name or "graph", **more)  # type: ignore[arg-type]

    vertices, ranks = graph.vertices, graph.ranks
    if ranks == 0:
        refuse("no ranks", expected="at least one vertex of kind rank")
    if not (graph.kind[:ranks] == RANK).all():
        refuse("ranks are not the first vertices", expected="vertices 0 to ranks - 1 of kind rank")
    if len(graph.number_of) != vertices:
        refuse("two vertices have one name", found=_first_double(graph.names))
    for place, column in (("source", graph.source), ("target", graph.target)):
        wrong = column[(column < 0) | (column >= vertices)]
        if wrong.size:
            refuse(f"a link's {place} is no vertex", found=int(wrong[0]), expected=f"0 to {vertices - 1}")
    for place, values, good in (
        ("capacity", graph.capacity, np.isfinite(graph.capacity) & (graph.capacity > 0)),
        ("latency", graph.latency, np.isfinite(graph.latency) & (graph.latency >= 0)),
    ):
        if not good.all():
            link = int(np.flatnonzero(~good)[0])
            refuse(f"link {graph.link_names[link]}: {place} out of range", found=float(values[link]))
    if int(np.prod(np.array(graph.logical, np.int64))) != ranks:
        refuse("the logical shape does not hold the ranks", found=list(graph.logical), expected=f"a product of {ranks}")
    for what, column in (("out of", graph.source), ("into", graph.target)):
        bare = np.flatnonzero(np.bincount(column, minlength=vertices)[:ranks] == 0)
        if bare.size and ranks > 1:
            refuse(f"no link leads {what} rank {graph.names[int(bare[0])]}", expected="every rank on a cable")


def _first_double(names: tuple[str, ...]) -> str:
    seen: set[str] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
