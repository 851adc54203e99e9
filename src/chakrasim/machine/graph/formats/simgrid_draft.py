"""A platform of SimGrid on its way to a graph: vertices by name, links with what they share."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from chakrasim.machine.graph.formats.source import Source
from chakrasim.machine.graph.formats.xml_tree import Element, needed
from chakrasim.machine.graph.graph import NO_ISLAND, RANK, SWITCH, NetworkGraph

_MOST_LINKS: Final = 1 << 21
SHARED, SPLIT, FAT = "SHARED", "SPLITDUPLEX", "FATPIPE"
_POLICIES: Final = {SHARED: SHARED, SPLIT: SPLIT, "FULLDUPLEX": SPLIT, FAT: FAT}


@dataclass(frozen=True)
class Resource:
    """What SimGrid calls a link: a capacity without ends."""

    name: str
    capacity: float
    latency: float
    policy: str

    def medium(self, direction: str, use: int) -> Hashable:
        """What uses of the same medium have in common: both ways of a SHARED one, one way of a SPLITDUPLEX one,
        nothing of a FATPIPE, where no flow takes from another."""
        if self.policy == FAT:
            return self.name, use
        return f"{self.name}_{direction}" if self.policy == SPLIT else self.name


@dataclass
class Draft:
    """Vertices and links in the making."""

    source: Source
    kinds: dict[str, int] = field(default_factory=dict)
    transit: set[str] = field(default_factory=set)
    links: list[tuple[str, str, Resource, Hashable, int]] = field(default_factory=list)
    cables: int = 0
    bare: int = 0

    def vertex(self, name: str, line: object, kind: int = SWITCH) -> str:
        """Add a vertex; returns its name. Raises InputError for one that is there."""
        if name in self.kinds:
            self.source.refuse("two vertices have one name", line, found=name, expected="each name once")
        self.kinds[name] = kind
        return name

    def known(self, name: str, line: object) -> str:
        if name not in self.kinds:
            expected = "the id of a host or router that stands above"
            self.source.refuse("there is no such vertex", line, found=name, expected=expected)
        return name

    def way(self, a: str, b: str, resource: Resource, direction: str = "") -> None:
        """Add a link that has no way back."""
        self._link(a, b, resource, direction)
        self.cables += 1

    def cable(self, a: str, b: str, resource: Resource, direction: str = "UP") -> None:
        """Add both ways of a resource: of a SPLITDUPLEX one, ``direction`` goes from a to b."""
        self._link(a, b, resource, direction)
        self._link(b, a, resource, turned(direction))
        self.cables += 1

    def _link(self, a: str, b: str, resource: Resource, direction: str) -> None:
        if len(self.links) >= _MOST_LINKS:
            self.source.refuse("the platform has too many links", expected=f"at most {_MOST_LINKS:,}")
        self.links.append((a, b, resource, resource.medium(direction, len(self.links)), self.cables))

    # -- values of attributes

    def rate(self, element: Element, key: str) -> float:
        """Bytes per ns; without a unit it is bytes a second, as in SimGrid, with a warning."""
        text = needed(element, key, self.source)
        self.bare += text.replace(".", "").replace("e", "").isdigit()
        return self.source.rate(text, element.line, key, "Bps")

    def time(self, element: Element, key: str, default: str = "0") -> float:
        text = element.attributes.get(key, default) or default
        self.bare += text.replace(".", "").replace("e", "").isdigit() and float(text) != 0
        return self.source.time(text, element.line, key, "s")

    def policy(self, element: Element, key: str, default: str) -> str:
        word = element.attributes.get(key, default)
        if word not in _POLICIES:
            self.source.refuse(key, element.line, found=word, expected="one of " + ", ".join(_POLICIES))
        return _POLICIES[word]

    # -- the graph

    def graph(self) -> NetworkGraph:
        """The graph: hosts first, otherwise in order."""
        names = sorted(self.kinds, key=lambda name: self.kinds[name] != RANK)
        number = {name: at for at, name in enumerate(names)}
        kind = np.array([self.kinds[name] for name in names], np.int8)
        first: dict[Hashable, int] = {}
        medium = [first.setdefault(key, at) for at, (_, _, _, key, _) in enumerate(self.links)]
        transit = np.array([self.kinds[name] != RANK or name in self.transit for name in names], np.bool_)
        return NetworkGraph(
            names=tuple(names),
            kind=kind,
            transit=transit,
            island=np.full(len(names), NO_ISLAND, np.int32),
            source=np.array([number[a] for a, *_ in self.links], np.int32),
            target=np.array([number[b] for _, b, *_ in self.links], np.int32),
            capacity=np.array([link[2].capacity for link in self.links], np.float64),
            latency=np.array([link[2].latency for link in self.links], np.float64),
            cable=np.array([link[4] for link in self.links], np.int32),
            medium=np.array(medium, np.int32),
            logical=(int(np.count_nonzero(kind == RANK)),),
            name=self.source.name,
        )


def turned(direction: str) -> str:
    """The direction of the way back."""
    return {"UP": "DOWN", "DOWN": "UP"}.get(direction, direction)
