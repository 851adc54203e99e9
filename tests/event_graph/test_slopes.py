"""Derivatives, break points, slack, paths and costs, against runs with other durations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakrasim.event_graph.graph import EventGraph, event_graph
from chakrasim.event_graph.path import decided, delay_costs, path_to, slack, targets
from chakrasim.event_graph.slopes import slopes

GROUPS = 4


def made(seed: int) -> tuple[EventGraph, np.ndarray, np.ndarray]:
    """A random graph, the group of each activity, and its last events."""
    rng = np.random.default_rng(seed)
    events, activities = 14, 10
    edges = [
        (int(source), target, int(rng.integers(0, 3)), int(rng.integers(-1, activities)))
        for target in range(1, events)
        for source in rng.choice(target, size=min(target, int(rng.integers(1, 4))), replace=False)
    ]
    graph, _ = event_graph(events, *np.array(edges).T, rng.integers(0, 6, activities))
    return graph, rng.integers(-1, GROUPS, activities).astype(np.int32), np.arange(len(graph), dtype=np.int32)


def end(graph: EventGraph, group: np.ndarray, which: int, added: float) -> float:
    own = group == which
    total = graph.duration[own].sum()
    return float(graph.times(graph.duration * np.where(own, 1 + added / total, 1.0)).max())


@given(st.integers(0, 10**7))
def test_derivatives_are_differences_up_to_the_break_and_not_beyond(seed: int) -> None:
    graph, group, last = made(seed)
    totals = np.array([graph.duration[group == which].sum() for which in range(GROUPS)])
    found = slopes(graph, group, totals, last)
    base = graph.times().max()
    for which in range(GROUPS):
        total = graph.duration[group == which].sum()
        if total == 0:
            assert np.isnan(found.slower[which])
            continue
        for slope, until, sign in (
            (found.slower[which], found.slower_until[which], 1),
            (found.faster[which], found.faster_until[which], -1),
        ):
            most = 100.0 if np.isinf(until) else until
            assert most > 0
            for part in (0.25, 0.5, 1.0):
                assert end(graph, group, which, sign * part * most) == pytest.approx(base + slope * part * most)
            beyond = most * 1.25
            if not np.isinf(until) and (sign > 0 or beyond <= total):
                assert end(graph, group, which, sign * beyond) > base + slope * beyond + 1e-9


@given(st.integers(0, 10**7))
def test_a_path_is_as_long_as_the_time_it_ends_at(seed: int) -> None:
    graph, _, last = made(seed)
    ended = decided(graph, np.zeros(len(graph), np.int32))
    to, weight = targets(graph), graph.weights()
    for event in last.tolist():
        edges = path_to(ended, event)
        assert weight[edges].sum() == ended.at[event]
        if edges.size:
            assert ended.at[to[edges[-1]]] == ended.at[event]
            assert (ended.at[graph.source[edges[1:]]] == ended.at[to[edges[:-1]]]).all()


@given(st.integers(0, 10**7))
def test_slack_is_what_an_edge_may_take_longer(seed: int) -> None:
    graph, _, last = made(seed)
    at = graph.times()
    free = slack(graph, at, last)
    for edge in range(len(free)):
        lag = graph.lag.copy()
        lag[edge] += free[edge]
        longer = EventGraph(graph.first, graph.source, graph.activity, lag, graph.duration)
        assert longer.times().max() == at.max()
        lag[edge] += 1
        assert longer.times().max() == at.max() + 1


@given(st.integers(0, 10**7))
def test_costs_sum_to_the_waiting(seed: int) -> None:
    graph, _, _ = made(seed)
    rng = np.random.default_rng(seed)
    ended = decided(graph, np.zeros(len(graph), np.int32))
    came, met = rng.integers(0, len(graph), (2, 8)).astype(np.int32)
    copies = rng.integers(1, 5, 8).astype(float)
    cost, waited = delay_costs(ended, came, met, copies)
    assert (cost >= 0).all()
    assert cost.sum() == (waited * copies).sum()
    assert (waited == np.maximum(ended.at[met] - ended.at[came], 0)).all()
