"""The same events with many sets of durations at once: max-plus passes, a lane for each set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from chakrasim.event_graph.graph import EventGraph, Floats, Ints
from chakrasim.jit import kernel

LANES: Final = 64
"""Lanes that are reckoned side by side, at most: the times of a few thousand events then stay in the cache."""
MOST_TIMES: Final = 1 << 24
"""Times of events of all lanes side by side, at most."""


def side_by_side(events: int) -> int:
    """How many lanes of a graph are reckoned at once."""
    return max(1, min(LANES, MOST_TIMES // max(events, 1)))


def lanes_of(graph: EventGraph, durations: Callable[[slice], Floats] | Floats, lanes: int, watched: Ints) -> Floats:
    """float64[len(watched), lanes]: when the ``watched`` events happen in each lane.

    ``durations`` is float64[activities, lanes], or a function that makes the columns of a slice of lanes, so that not
    all are in memory at once.
    """
    found = np.empty((len(watched), lanes), np.float64)
    most = side_by_side(len(graph))
    at = np.empty((len(graph), min(most, lanes)), np.float64)
    for part in _blocks(lanes, most):
        own = durations(part) if callable(durations) else durations[:, part]
        count = part.stop - part.start
        block = at[:, :count] if count == at.shape[1] else np.empty((len(graph), count), np.float64)
        _lanes(graph.first, graph.source, graph.activity, graph.lag, np.ascontiguousarray(own), block)
        found[:, part] = block[watched]
    return found


def _blocks(lanes: int, most: int) -> Iterator[slice]:
    for begin in range(0, lanes, most):
        yield slice(begin, min(begin + most, lanes))


@kernel
def _lanes(first: Any, source: Any, activity: Any, lag: Any, duration: Any, at: Any) -> None:
    lanes = at.shape[1]
    for event in range(at.shape[0]):
        for lane in range(lanes):
            at[event, lane] = 0.0
        for edge in range(first[event], first[event + 1]):
            before, own, more = source[edge], activity[edge], lag[edge]
            if own >= 0:
                for lane in range(lanes):
                    at[event, lane] = max(at[event, lane], at[before, lane] + more + duration[own, lane])
            else:
                for lane in range(lanes):
                    at[event, lane] = max(at[event, lane], at[before, lane] + more)
