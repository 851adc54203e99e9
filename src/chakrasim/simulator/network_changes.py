"""What becomes of a network while a run is under way: links that fail, come back, or change their speed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.machine.graph.graph import NetworkGraph

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Change:
    """Links change at a time.

    Parameters
    ----------
    at_ns:
        When.
    links:
        int32[k]: which.
    capacity:
        Bytes per ns from then on; 0 is down. None: what the graph says, so that a link that was down is up again.
    detect_ns:
        After so long it is known, and what went over links that are down takes another way.
    """

    at_ns: int
    links: Ints
    capacity: float | None = 0.0
    detect_ns: int = 0


@dataclass
class Changed:
    """What changes did, for the result."""

    rerouted: int = 0
    """Flows under way that took another way."""
    waited: int = 0
    """Flows that found no other way and waited."""


class LinkStates:
    """The links of a run as they are, and as they are known to be."""

    def __init__(self, graph: NetworkGraph, changes: list[Change]) -> None:
        self._graph = graph
        self.capacity = graph.capacity.copy()
        self.known_down = np.zeros(graph.links, np.bool_)
        self._steps = sorted(
            [(change.at_ns, 0, i, change) for i, change in enumerate(changes)]
            + [(change.at_ns + change.detect_ns, 1, i, change) for i, change in enumerate(changes)],
            key=lambda step: step[:3],
        )

    @property
    def next_ns(self) -> int | None:
        """When links change next, or a change becomes known."""
        return self._steps[0][0] if self._steps else None

    def advance(self, now_ns: int) -> tuple[Ints, bool]:
        """Apply all that is due: the links whose capacity is another, and whether others are known to be down."""
        before, known = self.capacity.copy(), self.known_down.copy()
        while self._steps and self._steps[0][0] <= now_ns:
            _, detected, _, change = self._steps.pop(0)
            if detected:
                self.known_down[change.links] = self.capacity[change.links] == 0
            else:
                to = self._graph.capacity[change.links] if change.capacity is None else change.capacity
                self.capacity[change.links] = to
        changed = np.flatnonzero(before != self.capacity).astype(np.int32)
        return changed, bool((known != self.known_down).any())
