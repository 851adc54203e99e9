"""Which edge decided each event, the chain of them that ends last, and who made whom wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from chakrasim.event_graph.graph import NONE, EventGraph, Floats, Indices, Ints
from chakrasim.jit import kernel


@dataclass(frozen=True, eq=False)
class Decided:
    """Events with their times: ``at`` float64[n]; ``by`` int64[n], the edge that each event happened by, -1 for none.

    Of edges that were equally late, the first from an event of the same owner (rank) is taken, else the first.
    """

    graph: EventGraph
    at: Floats
    by: Ints


def decided(graph: EventGraph, owner: Indices) -> Decided:
    """The events of a graph at its own durations; ``owner`` int32[n] says whose each event is, -1 for nobody's."""
    at, by = graph.times(), np.full(len(graph), NONE, np.int64)
    _decide(graph.first, graph.source, graph.weights(), at, owner, by)
    return Decided(graph, at, by)


@kernel
def _decide(first: Any, source: Any, weight: Any, at: Any, owner: Any, by: Any) -> None:
    for event in range(1, len(at)):
        for edge in range(first[event], first[event + 1]):
            if at[source[edge]] + weight[edge] < at[event]:
                continue
            if by[event] < 0:
                by[event] = edge
            if owner[source[edge]] == owner[event]:
                by[event] = edge
                break


def path_to(ended: Decided, event: int) -> Ints:
    """The edges by which an event happened, from the origin on, those that took no time left out."""
    found = []
    while ended.by[event] >= 0:
        edge = int(ended.by[event])
        before = int(ended.graph.source[edge])
        if ended.at[before] < ended.at[event]:
            found.append(edge)
        event = before
    return np.array(found[::-1], np.int64)


def targets(graph: EventGraph) -> Indices:
    """int32[m]: the event that each edge leads to."""
    return np.repeat(np.arange(len(graph), dtype=np.int32), np.diff(graph.first))


def slack(graph: EventGraph, at: Floats, last: Indices) -> Floats:
    """float64[m]: how much longer each edge could take, the others as they are, before one of the ``last`` events
    comes after the end, which is the latest time of any of them."""
    latest = np.full(len(graph), np.inf)
    latest[last] = at[last].max(initial=0.0)
    weight = graph.weights()
    found = np.empty(len(weight))
    _slack(graph.first, graph.source, weight, at, latest, found)
    return found


@kernel
def _slack(first: Any, source: Any, weight: Any, at: Any, latest: Any, found: Any) -> None:
    for event in range(len(at) - 1, -1, -1):
        for edge in range(first[event], first[event + 1]):
            before = source[edge]
            allowed = latest[event] - weight[edge]
            latest[before] = min(latest[before], allowed)
            found[edge] = allowed - at[before]


def delay_costs(ended: Decided, came: Indices, met: Indices, copies: Floats) -> tuple[Floats, Floats]:
    """float64[m]: the waiting that each edge caused, in the unit of time; and float64[waits]: how long each wait was.

    Wait ``w`` began at event ``came[w]`` and ended with ``met[w]``; it stands for ``copies[w]`` equal ones. What was
    done in that time on the chain of edges by which the second event happened is what caused it, directly or by waiting
    in turn, and is charged with it: so the costs sum to the waiting (after Böhme et al., who spread a wait over the
    whole time since the two last met; here the last of it is charged, which is what a shorter activity would save).
    """
    cost = np.zeros(len(ended.graph.source))
    waited = np.maximum(ended.at[met] - ended.at[came], 0.0)
    _charge(ended.graph.source, ended.at, ended.by, ended.at[came], met, copies, cost)
    return cost, waited


@kernel
def _charge(source: Any, at: Any, by: Any, began: Any, met: Any, copies: Any, cost: Any) -> None:
    for wait in range(len(met)):
        event = met[wait]
        while by[event] >= 0 and at[event] > began[wait]:
            edge = by[event]
            before = source[edge]
            cost[edge] += (at[event] - max(at[before], began[wait])) * copies[wait]
            event = before
