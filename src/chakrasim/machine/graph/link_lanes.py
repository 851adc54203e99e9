"""Networks that differ in nothing but how fast their links are, side by side."""

from __future__ import annotations

from collections.abc import Sequence
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
    graph: of the first lane.
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

    def with_latency(self, lane: int) -> NetworkGraph:
        """The graph with the latencies of a lane."""
        other = copy(self.graph)
        object.__setattr__(other, "latency", self.latency[lane][self.kind])
        return other


def one_lane(graph: NetworkGraph) -> LinkLanes:
    """A graph as it is."""
    return lanes_of(graph, [(graph.capacity, graph.latency)])


def lanes_of(graph: NetworkGraph, figures: Sequence[tuple[Floats, Floats]]) -> LinkLanes:
    """A graph with these capacities and latencies (float64[links] each), a pair for each lane, the first its own."""
    capacity, latency = (np.stack(side) for side in zip(*figures, strict=True))
    kinds, which = np.unique(np.concatenate([capacity, latency]), axis=1, return_inverse=True)
    return LinkLanes(graph, which.reshape(-1), kinds[: len(figures)].copy(), kinds[len(figures) :].copy())
