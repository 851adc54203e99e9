"""What a graph holds, in short: vertices by kind, links by what they join."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrasim.machine.graph.graph import KINDS, NetworkGraph


@dataclass(frozen=True)
class LinkKind:
    """Links from vertices of one kind to vertices of another, and back.

    Attributes
    ----------
    ends: of the vertices, the kind that stands first in `KINDS` first.
    links: how many, both ways.
    parallel: how many of them join ends that a link before them joins, too.
    capacity, latency: smallest and largest, bytes per ns and ns.
    """

    ends: tuple[str, str]
    links: int
    parallel: int
    capacity: tuple[float, float]
    latency: tuple[float, float]


@dataclass(frozen=True)
class GraphSummary:
    """What a graph holds, in short.

    Attributes
    ----------
    kinds: number of vertices by kind.
    islands: number of different islands.
    logical: shape of the ranks.
    links, cables: numbers of both; a link that has no way back is a cable, too.
    media: number of capacities; smaller than ``links`` where links share.
    forwarding: ranks that let others' traffic pass.
    by_kind: the links.
    """

    name: str
    kinds: dict[str, int]
    islands: int
    logical: tuple[int, ...]
    links: int
    cables: int
    media: int
    forwarding: int
    by_kind: tuple[LinkKind, ...]

    def to_mapping(self) -> dict[str, object]:
        """Plain values, with units in the names."""
        return {
            "name": self.name,
            "ranks": self.kinds["rank"],
            "vertices": self.kinds,
            "islands": self.islands,
            "logical": list(self.logical),
            "links": self.links,
            "cables": self.cables,
            "capacities": self.media,
            "forwarding_ranks": self.forwarding,
            "links_by_kind": [
                {
                    "ends": list(kind.ends),
                    "links": kind.links,
                    "parallel": kind.parallel,
                    "bytes_per_ns": list(kind.capacity),
                    "latency_ns": list(kind.latency),
                }
                for kind in self.by_kind
            ],
        }


def summary_of(graph: NetworkGraph) -> GraphSummary:
    """Count what a graph holds."""
    counts = np.bincount(graph.kind, minlength=len(KINDS)).tolist()
    return GraphSummary(
        graph.name,
        {kind: count for kind, count in zip(KINDS, counts, strict=True) if count or kind == "rank"},
        int(np.unique(graph.island[graph.island >= 0]).size),
        graph.logical,
        graph.links,
        int(np.unique(graph.cable).size),
        int(np.unique(graph.medium).size),
        int(np.count_nonzero(graph.transit[: graph.ranks])),
        _by_kind(graph),
    )


def _by_kind(graph: NetworkGraph) -> tuple[LinkKind, ...]:
    ends = np.sort(np.stack([graph.kind[graph.source], graph.kind[graph.target]], 1), axis=1).astype(np.int64)
    pair = graph.source.astype(np.int64) * graph.vertices + graph.target
    first = np.zeros(graph.links, np.bool_)
    first[np.unique(pair, return_index=True)[1]] = True
    code = ends[:, 0] * len(KINDS) + ends[:, 1]
    found = []
    for number in np.unique(code).tolist():
        chosen = code == number
        capacity, latency = graph.capacity[chosen], graph.latency[chosen]
        low, high = divmod(number, len(KINDS))
        found.append(
            LinkKind(
                (KINDS[low], KINDS[high]),
                int(chosen.sum()),
                int((chosen & ~first).sum()),
                (float(capacity.min()), float(capacity.max())),
                (float(latency.min()), float(latency.max())),
            )
        )
    return tuple(found)
