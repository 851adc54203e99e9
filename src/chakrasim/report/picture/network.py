"""A network as something to draw: boxes in levels and wires between them, a large network in short."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.machine.graph.graph import KINDS, NVSWITCH, RANK, NetworkGraph
from chakrasim.text.amounts import number_text, plural

Longs = NDArray[np.int64]

MOST_BOXES: Final = 700
MOST_IN_A_ROW: Final = 160
"""Above one of these a network is drawn in short."""
MOST_SHORT: Final = 48
"""Boxes in a row of a network drawn in short."""
ISLAND: Final = "island"
_SHOWN: Final = {"nic": "NIC", "nvswitch": "NVSwitch", "pcie": "PCIe switch", "optical": "optical switch"}


@dataclass(frozen=True)
class Vertices:
    """One vertex, or several that are drawn as one box; ``kind`` is one of `KINDS` or ISLAND.

    ``level`` is how far from the ranks it stands; -1 are switches inside an island, below its ranks. ``frame`` is the
    island in which the box is drawn, -1 for none; ``inside`` how many cables join vertices of the box.
    """

    key: str
    label: str
    kind: str
    level: int
    frame: int
    count: int
    inside: int = 0


@dataclass(frozen=True)
class Wire:
    """Equal cables between two boxes (positions): how many, bytes per ns of each there and back, its latency (ns).

    ``busy_share`` is that of the busiest of their links, None where no run says it.
    """

    source: int
    target: int
    count: int
    capacity: float
    back: float
    latency: float
    busy_share: float | None = None

    @property
    def label(self) -> str:
        """``2 x 50 GB/s``, each cable and direction."""
        speed = number_text(self.capacity)
        if self.back != self.capacity:
            speed += f" (back {number_text(self.back)})" if self.back else " (one way)"
        return f"{self.count:,} x {speed} GB/s" if self.count > 1 else f"{speed} GB/s"


@dataclass(frozen=True)
class NetworkPicture:
    """What is drawn. ``short`` says what boxes stand for where they are several vertices; "" if each is one."""

    name: str
    boxes: tuple[Vertices, ...]
    wires: tuple[Wire, ...]
    short: str = ""


def network_picture(graph: NetworkGraph, load: Mapping[str, float] | None = None) -> NetworkPicture:
    """The picture of a network: every vertex; where these are many, islands (or the ranks of a leaf) as one box; where
    these are many, too, all alike as one.

    ``load`` has the busy share of links by name.
    """
    levels = levels_of(graph)
    boxes: list[Vertices] = []
    for short, groups in _groupings(graph, levels):
        if len(groups) > MOST_BOXES:
            continue
        boxes = [_box(graph, levels, members, not short) for members in groups]
        if _widest(boxes) <= (MOST_SHORT if short else MOST_IN_A_ROW):
            break
    group = np.zeros(graph.vertices, np.int64)
    for number, members in enumerate(groups):
        group[members] = number
    wires, inside = _wires(graph, group, load or {})
    made = tuple(replace(box, inside=count) for box, count in zip(boxes, inside.tolist(), strict=True))
    name = f"{graph.name or 'network'}: {_contents(graph, range(graph.vertices))}"
    return NetworkPicture(name, made, wires, short)


def levels_of(graph: NetworkGraph) -> Longs:
    """int64[vertices]: links from the nearest rank; -1 for switches of an island that lead to its ranks only."""
    level = np.full(graph.vertices, -2, np.int64)
    level[: graph.ranks] = 0
    to_rank = np.bincount(graph.source, graph.target >= graph.ranks, graph.vertices) == 0
    level[(graph.kind == NVSWITCH) & to_rank] = -1
    distance = 0
    while True:
        reached = np.unique(graph.target[level[graph.source] == distance])
        reached = reached[level[reached] == -2]
        if not reached.size:
            break
        distance += 1
        level[reached] = distance
    level[level == -2] = distance + 1  # what no rank reaches
    return level


def _groupings(graph: NetworkGraph, levels: Longs) -> Iterator[tuple[str, list[list[int]]]]:
    """Ways to gather vertices into boxes, from every one by itself to few boxes, and what is said of each."""
    yield "", [[v] for v in range(graph.vertices)]
    own = -1 - np.arange(graph.vertices)
    island, word = np.where(graph.island < 0, own, graph.island), "an island"
    if (graph.island[: graph.ranks] < 0).all():
        island, word = np.concatenate([graph.leaf, own[graph.ranks :]]), "the ranks of a switch"
    whole = _gathered(island.tolist())
    yield f"{word} is one box", whole
    kinds = zip(levels.tolist(), graph.kind.tolist(), map(_stem, graph.names), strict=True)
    alike: list[object] = list(kinds)
    for members in whole:
        if len(members) > 1:
            contents = _contents(graph, members)
            for v in members:
                alike[v] = contents
    yield f"{word} or switches alike are one box", _gathered(alike)
    yield "all of a kind is one box", _gathered(graph.kind.tolist())


def _gathered(keys: Sequence[Hashable]) -> list[list[int]]:
    """Vertices of one key together, in the order of their first."""
    found: dict[Hashable, list[int]] = {}
    for vertex, key in enumerate(keys):
        found.setdefault(key, []).append(vertex)
    return list(found.values())


def _contents(graph: NetworkGraph, members: Sequence[int]) -> str:
    """``8 ranks, 8 NICs``."""
    counts = np.bincount(graph.kind[list(members)], minlength=len(KINDS)).tolist()
    return ", ".join(plural(count, _SHOWN.get(kind, kind)) for kind, count in zip(KINDS, counts, strict=True) if count)


def _stem(name: str) -> str:
    """``leaf`` of ``leaf12``."""
    return re.sub(r"[0-9.:_-]+$", "", name)


def _box(graph: NetworkGraph, levels: Longs, members: Sequence[int], single: bool) -> Vertices:
    first, count = members[0], len(members)
    name, kind = graph.names[first], KINDS[graph.kind[first]]
    islands = np.unique(graph.island[members])
    if single:
        return Vertices(name, name, kind, int(levels[first]), int(islands[0]), 1)
    contents, level = _contents(graph, members), int(levels[members].max())
    if kind == KINDS[RANK]:
        kind, level = ISLAND if count > 1 else kind, 0
        title = f"{islands.size:,} islands" if islands.size > 1 else f"island {islands[0]}" if islands[0] >= 0 else ""
        label = name if count == 1 else f"{title}\n{contents}".strip()
    else:
        label = name if count == 1 else f"{contents}\n{name} ... {graph.names[members[-1]]}"
    return Vertices(name, label, kind, level, -1, count)


def _widest(boxes: Sequence[Vertices]) -> int:
    return int(np.unique([box.level for box in boxes], return_counts=True)[1].max())


def _wires(graph: NetworkGraph, group: Longs, load: Mapping[str, float]) -> tuple[tuple[Wire, ...], Longs]:
    """The wires between boxes, and how many cables there are inside of each."""
    begin, end = group[graph.source], group[graph.target]
    cable, ahead = graph.cable, begin <= end
    cables = int(cable.max(initial=-1)) + 1
    table = np.zeros((cables, 5))  # from, to, capacity there and back, latency
    table[cable, 0], table[cable, 1] = np.minimum(begin, end), np.maximum(begin, end)
    # Inside one box both links of a cable lead "ahead"; these are counted, not drawn.
    table[cable[ahead], 2], table[cable[~ahead], 3] = graph.capacity[ahead], graph.capacity[~ahead]
    np.maximum.at(table[:, 4], cable, graph.latency)
    used = np.bincount(cable, minlength=cables) > 0
    busy = np.full(cables, -1.0)
    if load:
        np.maximum.at(busy, cable, [load.get(name, 0.0) for name in graph.link_names])
    inside = used & (table[:, 0] == table[:, 1])
    counts = np.bincount(table[inside, 0].astype(np.int64), minlength=int(group.max(initial=-1)) + 1)
    drawn = np.flatnonzero(used & ~inside)
    rows, which, copies = np.unique(table[drawn], axis=0, return_inverse=True, return_counts=True)
    most = np.full(copies.size, -1.0)
    np.maximum.at(most, which.reshape(-1), busy[drawn])
    wires = [
        Wire(int(a), int(b), count, max(there, back), min(there, back), latency, share if share >= 0 else None)
        for (a, b, there, back, latency), count, share in zip(
            rows.tolist(), copies.tolist(), most.tolist(), strict=True
        )
    ]
    return tuple(wires), counts
