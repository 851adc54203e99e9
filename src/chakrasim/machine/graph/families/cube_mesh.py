"""The hybrid cube mesh of DGX-1 with V100: eight ranks, sixteen pairs, 24 NVLinks, six for each rank."""

from __future__ import annotations

from typing import Final

from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.families.family import Family, bandwidth, latency

NVLINKS: Final = (
    *((0, 1, 1), (0, 2, 1), (0, 3, 2), (0, 4, 2), (1, 2, 2), (1, 3, 1), (1, 5, 2), (2, 3, 2)),
    *((2, 6, 1), (3, 7, 1), (4, 5, 1), (4, 6, 1), (4, 7, 2), (5, 6, 2), (5, 7, 1), (6, 7, 2)),
)
"""(rank, rank, NVLinks between them), as NVIDIA's DGX-1 white paper draws them; sums checked."""


def build(graph: GraphBuilder, bandwidth: float, latency: float) -> None:
    graph.let_through()
    for ranks in graph.ranks_by_island():
        if len(ranks) > 8:
            raise ValueError(f"a cube mesh has 8 ranks; an island of {len(ranks)} has more")
        for a, b, count in NVLINKS:
            if b < len(ranks):
                graph.cable(ranks[a], ranks[b], bandwidth, latency, count=count)


CUBE_MESH = Family("cube-mesh", build, (
    bandwidth("of one NVLink, each direction", 25.0),
    latency("of an NVLink, one way"),
), "the hybrid cube mesh of eight GPUs in each island; ranks pass on what is not theirs")  # fmt: skip
