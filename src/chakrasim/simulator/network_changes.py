"""What becomes of a network while a run is under way: links that fail, come back, or change their speed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.machine.graph.changes import NO_RANK, Change
from chakrasim.machine.graph.graph import NetworkGraph

Ints = NDArray[np.int32]
SCHEDULE: Final = "schedule"
"""What takes down circuits that the schedule of an optical switch does not have at a time."""


@dataclass
class News:
    """What is another since the network was looked at last."""

    links: Ints
    """int32[k]: those whose capacity is another; of links that share a medium, the lowest."""
    known: bool = False
    """Whether other links are known to be down."""
    rehash_all: bool = False
    """Whether all that is under way takes the way that the rule gives now."""
    lost: list[int] = field(default_factory=list)
    """Ranks that are known to be down since."""


class LinkStates:
    """The links of a run as they are, and as they are known to be; ``down_since_ns`` has the ranks that are down."""

    def __init__(self, graph: NetworkGraph, changes: Sequence[Change]) -> None:
        self._graph = graph
        self.capacity = graph.capacity.copy()
        self.known_down = np.zeros(graph.links, np.bool_)
        self.down_since_ns: dict[int, int] = {}
        self._speed = graph.capacity.copy()
        self._causes: dict[int, set[str]] = {}
        self._since_ns = np.full(graph.links, -1, np.int64)
        medium = graph.medium
        every = [
            replace(change, links=np.flatnonzero(np.isin(medium, medium[change.links])).astype(np.int32))
            for change in (*planned(graph), *changes)
        ]
        """Links of one medium change together: what they share is what fails."""
        self._steps = sorted(
            [(change.at_ns, 0, i, change) for i, change in enumerate(every)]
            + [(change.at_ns + change.detect_ns, 1, i, change) for i, change in enumerate(every)],
            key=lambda step: step[:3],
            reverse=True,
        )

    @property
    def next_ns(self) -> int | None:
        """When links change next, or a change becomes known."""
        return self._steps[-1][0] if self._steps else None

    def advance(self, now_ns: int) -> News:
        """Apply all that is due."""
        before, known = self.capacity.copy(), self.known_down.copy()
        news = News(np.zeros(0, np.int32))
        while self._steps and self._steps[-1][0] <= now_ns:
            _, detected, _, change = self._steps.pop()
            if detected:
                self._notice(change, news)
            else:
                self._apply(change)
        news.links = np.flatnonzero(before != self.capacity).astype(np.int32)
        news.links = news.links[self._graph.medium[news.links] == news.links]
        news.known = bool((known != self.known_down).any())
        return news

    def _apply(self, change: Change) -> None:
        for link in change.links.tolist():
            causes = self._causes.setdefault(link, set())
            if change.capacity == 0:
                causes.add(change.name)
            else:
                causes.discard(change.name)
                self._speed[link] = self._graph.capacity[link] if change.capacity is None else change.capacity
            if bool(causes) != (self.capacity[link] == 0):
                self._since_ns[link] = change.at_ns
            self.capacity[link] = 0.0 if causes else self._speed[link]
        if change.rank != NO_RANK and change.capacity == 0:
            self.down_since_ns.setdefault(change.rank, change.at_ns)
        elif change.rank != NO_RANK:
            self.down_since_ns.pop(change.rank, None)

    def _notice(self, change: Change, news: News) -> None:
        """A change is known, of those links that have not gone down or come back since."""
        links = change.links[self._since_ns[change.links] <= change.at_ns]
        self.known_down[links] = self.capacity[links] == 0
        news.rehash_all |= change.rehash_all
        if change.capacity == 0 and self.down_since_ns.get(change.rank, change.at_ns + 1) <= change.at_ns:
            news.lost.append(change.rank)


def planned(graph: NetworkGraph) -> list[Change]:
    """The changes that the graph brings along, known at once: the schedules of its optical switches. A circuit is there
    from the first whole nanosecond at or after its time."""
    together: dict[tuple[int, float], list[int]] = {}
    for time_ns, link, capacity in graph.planned:
        together.setdefault((math.ceil(time_ns), capacity), []).append(link)
    return [
        Change(at_ns, np.array(links, np.int32), capacity, name=SCHEDULE)
        for (at_ns, capacity), links in together.items()
    ]
