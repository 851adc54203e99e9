"""What routing finds: the links that each flow crosses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.trace.chakra.graph import offsets_of

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Routes:
    """The links that flows cross, flow by flow.

    Attributes
    ----------
    first:
        int64[f + 1]: the crossings of flow i are ``first[i]`` to ``first[i + 1]`` - 1. A message to itself has none.
    link:
        int32[e]: in the order in which they are crossed; of a flow that is divided, those nearer its source first.
    coefficient:
        float64[e]: bytes that cross the link for each byte of the flow: 1, or the part of a divided flow.
    missing:
        int64[m]: flows without a route, where those were not refused; they have no crossings either.
    """

    first: Longs
    link: Ints
    coefficient: Floats
    missing: Longs = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def flows(self) -> int:
        return self.first.size - 1

    @property
    def flow(self) -> Longs:
        """int64[e]: whose crossing each is."""
        return np.repeat(np.arange(self.flows), np.diff(self.first))

    def of(self, flow: int) -> tuple[Ints, Floats]:
        """The links of one flow, and its coefficients on them."""
        part = slice(int(self.first[flow]), int(self.first[flow + 1]))
        return self.link[part], self.coefficient[part]

    def latency_ns(self, graph: NetworkGraph) -> Floats:
        """float64[f]: the sum of the latencies on the way, of a divided flow that of its average byte."""
        sums: Floats = np.bincount(self.flow, self.coefficient * graph.latency[self.link], self.flows).astype(
            np.float64
        )
        return sums

    def scaled(self, factor: float) -> Routes:
        """The same with so many bytes on each link for one."""
        return self if factor == 1.0 else replace(self, coefficient=self.coefficient * factor)

    def take(self, flows: Longs) -> Routes:
        """The routes of these flows, in this order."""
        lengths = self.first[flows + 1] - self.first[flows]
        first = offsets_of(lengths)
        places = np.arange(first[-1]) + np.repeat(self.first[flows] - first[:-1], lengths)
        missing = np.flatnonzero(np.isin(flows, self.missing)) if self.missing.size else self.missing
        return Routes(first, self.link[places], self.coefficient[places], missing)


def concatenated(*parts: Routes) -> Routes:
    """The routes of all, one after another."""
    starts = offsets_of(np.array([part.flows for part in parts]))
    lengths = np.concatenate([np.diff(part.first) for part in parts])
    missing = np.concatenate([part.missing + start for part, start in zip(parts, starts[:-1], strict=True)])
    link = np.concatenate([part.link for part in parts])
    return Routes(offsets_of(lengths), link, np.concatenate([part.coefficient for part in parts]), missing)
