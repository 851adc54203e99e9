"""Rings over cables between ranks: circuits that visit every member of an island and share no link."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing.routes import Ints

STEPS: Final = 50_000
"""Steps of the search, after which the best so far is taken."""
LARGEST: Final = 16
"""Members of an island that is searched."""


def find_circuits(
    graph: NetworkGraph, members: Ints, most: int, dead: NDArray[np.bool_] | None = None
) -> list[list[int]]:
    """At most ``most`` circuits over links between ``members``, as many without a common link as the search finds.

    None for fewer than three members, and for more than LARGEST.
    """
    if not 3 <= members.size <= LARGEST:
        return []
    left = _links_between(graph, members, dead)
    bound = min(most, *(sum(row) for row in left), *(sum(column) for column in zip(*left, strict=True)))
    return [[int(members[i]) for i in circuit] for circuit in _search(left, bound)]


def _links_between(graph: NetworkGraph, members: Ints, dead: NDArray[np.bool_] | None) -> tuple[tuple[int, ...], ...]:
    """How many links lead from each member to each other."""
    place = {rank: i for i, rank in enumerate(members.tolist())}
    first, links = graph.leaving
    left = [[0] * members.size for _ in range(members.size)]
    for rank, i in place.items():
        for link in links[first[rank] : first[rank + 1]].tolist():
            j = place.get(int(graph.target[link]))
            if j is not None and j != i and (dead is None or not dead[link]):
                left[i][j] += 1
    return tuple(tuple(row) for row in left)


@lru_cache(maxsize=64)
def _search(left: tuple[tuple[int, ...], ...], wanted: int) -> tuple[tuple[int, ...], ...]:
    """Most islands of a machine are the same: one search does for them."""
    search = _Search([list(row) for row in left], wanted)
    search.extend()
    return tuple(tuple(circuit) for circuit in search.best)


class _Search:
    """Circuits one after another, taken back where a later one does not fit."""

    def __init__(self, left: list[list[int]], wanted: int) -> None:
        self.left = left
        self.wanted = wanted
        self.found: list[list[int]] = []
        self.best: list[list[int]] = []
        self.steps = 0

    def extend(self) -> bool:
        """Look for more circuits; True when there are enough, or the search has gone on for too long."""
        if len(self.found) > len(self.best):
            self.best = [list(circuit) for circuit in self.found]
        if len(self.best) >= self.wanted:
            return True
        for circuit in self._circuits([0]):
            self._use(circuit, -1)
            self.found.append(circuit)
            if self.extend():
                return True
            self.found.pop()
            self._use(circuit, 1)
        return self.steps > STEPS

    def _use(self, circuit: list[int], change: int) -> None:
        for a, b in zip(circuit, circuit[1:] + circuit[:1], strict=True):
            self.left[a][b] += change

    def _circuits(self, begun: list[int]) -> Iterator[list[int]]:
        """Ways round from what is begun, over links of which most are left first."""
        self.steps += 1
        if self.steps > STEPS:
            return
        here = begun[-1]
        if len(begun) == len(self.left):
            if self.left[here][begun[0]] > 0:
                yield list(begun)
            return
        for there in sorted(range(len(self.left)), key=lambda i: -self.left[here][i]):
            if self.left[here][there] > 0 and there not in begun:
                yield from self._circuits([*begun, there])
