"""Networks that differ in nothing but how fast their links are, side by side."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.machine.graph.graph import NetworkGraph

Ints = NDArray[np.intp]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinkLanes:
    """Links of one graph with several sets of figures, the lanes.

    Attributes
    ----------
    graph: whose links they are.
    kind: intp[links]: links of one kind have the same figures in each lane.
    capacity: float64[lanes, kinds]: bytes per ns.
    latency: float64[lanes, kinds]: ns.
    """

    graph: NetworkGraph
    kind: Ints
    capacity: Floats
    latency: Floats

    def __len__(self) -> int:
        return len(self.capacity)

    def of(self, lane: int) -> NetworkGraph:
        """The graph with the figures of a lane."""
        other = copy(self.graph)  # links were checked with it; what was found of its vertices goes along
        object.__setattr__(other, "capacity", self.capacity[lane][self.kind])
        object.__setattr__(other, "latency", self.latency[lane][self.kind])
        return other


def one_lane(graph: NetworkGraph) -> LinkLanes:
    """A graph as it is."""
    figures, kind = np.unique(np.stack([graph.capacity, graph.latency]), axis=1, return_inverse=True)
    return LinkLanes(graph, kind.reshape(-1), figures[:1].copy(), figures[1:].copy())
