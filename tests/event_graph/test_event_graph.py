"""Events and edges: order, times, lanes, against plain recursion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakrasim.event_graph.graph import Circular, EventGraph, event_graph
from chakrasim.event_graph.lanes import lanes_of


def made(seed: int, events: int = 30) -> tuple[EventGraph, np.ndarray, list[tuple[int, int, int, int]], np.ndarray]:
    """A random graph, the numbers of its events, its edges as given, and the durations of its activities."""
    rng = np.random.default_rng(seed)
    name = np.r_[0, 1 + rng.permutation(events - 1)]
    edges = []
    for target in range(1, events):
        for source in rng.choice(target, size=min(target, int(rng.integers(0, 4))), replace=False):
            edges.append((int(name[source]), int(name[target]), int(rng.integers(0, 5)), int(rng.integers(-1, events))))
    duration = rng.integers(0, 100, events).astype(float)
    graph, number = event_graph(events, *np.array(edges or np.zeros((0, 4), int)).T, duration)
    return graph, number, edges, duration


def plain(events: int, edges: list[tuple[int, int, int, int]], duration: np.ndarray) -> list[float]:
    """When each event happens, by asking backwards."""

    def at(event: int) -> float:
        into = [(at(a), lag + (duration[own] if own >= 0 else 0)) for a, b, lag, own in edges if b == event]
        return max((time + passed for time, passed in into), default=0.0)

    return [at(event) for event in range(events)]


@given(st.integers(0, 10**6))
def test_times_are_those_of_plain_recursion(seed: int) -> None:
    graph, number, edges, duration = made(seed, 12)
    assert graph.times()[number].tolist() == plain(12, edges, duration)


@given(st.integers(0, 10**6), st.integers(1, 150))
def test_each_lane_is_a_run_of_its_own(seed: int, lanes: int) -> None:
    graph, _, _, duration = made(seed)
    factors = np.random.default_rng(seed).random((len(duration), lanes))
    watched = np.arange(len(graph))
    found = lanes_of(graph, lambda part: duration[:, None] * factors[:, part], lanes, watched)
    for lane in (0, lanes // 2, lanes - 1):
        assert found[:, lane].tolist() == graph.times(duration * factors[:, lane]).tolist()


def test_a_circle_is_told() -> None:
    with pytest.raises(Circular) as told:
        event_graph(4, [0, 1, 2, 3], [1, 2, 3, 2], 0, -1, [])
    assert told.value.event in (2, 3)
