"""Compiled: the heaviest path through HTA's graph."""

from __future__ import annotations

from typing import Any

from chakrasim.compat.hta_critical_path.kernels import NO_EVENT
from chakrasim.jit import inner, kernel


@kernel
def merge_repeated(edges: Any, count: int, slot: Any, by_source: Any, seen: Any, first: Any) -> int:
    """Of edges between the same two nodes the first keeps its place and takes the last one's kind and weight.

    ``slot`` int64[nodes + 1], ``by_source`` int32[count], ``seen`` int32[nodes] filled with -1, ``first`` int8[count]:
    becomes 1 for edges that stay. Returns how many do not.
    """
    gone = 0
    sort_stably(edges.source, count, slot, by_source)
    for at in range(count):
        edge = by_source[at]
        target = edges.target[edge]
        earlier = seen[target]
        if earlier >= 0 and edges.source[earlier] == edges.source[edge]:
            edges.kind[earlier] = edges.kind[edge]
            edges.weight[earlier] = edges.weight[edge]
            if edges.event[edge] != NO_EVENT:
                edges.event[earlier] = edges.event[edge]
            first[edge] = 0
            gone += 1
        else:
            seen[target] = edge
            first[edge] = 1
    return gone


@inner
def sort_stably(keys: Any, count: int, slot: Any, order: Any) -> int:
    """Positions of ``keys`` (small integers) in ascending order of key; ``slot`` afterwards bounds each key's run."""
    slot[:] = 0
    for at in range(count):
        slot[keys[at] + 1] += 1
    for key in range(1, len(slot)):
        slot[key] += slot[key - 1]
    for at in range(count):
        order[slot[keys[at]]] = at
        slot[keys[at]] += 1
    for key in range(len(slot) - 1, 0, -1):
        slot[key] = slot[key - 1]
    slot[0] = 0
    return 0


@kernel
def longest_path(
    edges: Any,
    weight: Any,
    nodes: Any,
    slot: Any,
    order: Any,
    degree: Any,
    queue: Any,
    distance: Any,
    by_edge: Any,
) -> int:
    """The heaviest path, with the reference's choices between equals (1.4.8). Returns how many nodes it has: from its
    end to its beginning they are the first of ``queue``, and its edges the first of ``order``. -1: there is a cycle.

    ``edges``: exactly sized. ``nodes`` int32[m]: the graph's nodes in the order in which it learned of them.
    ``slot`` int64[nodes + 1], ``order`` int32[edges], ``degree`` int32[nodes], ``queue`` int32[m]: room.
    ``distance`` float64[nodes] and ``by_edge`` int32[nodes]: become the greatest weight of a path to each node and the
    edge by which it comes, -1 if the node begins it.
    """
    count = len(edges.source)
    done = _in_order(edges, nodes, slot, order, degree, queue)
    if done < len(nodes):
        return -1
    sort_stably(edges.target, count, slot, order)
    best = -1
    for at in range(done):
        node = queue[at]
        distance[node] = 0.0
        by_edge[node] = -1
        first = slot[node]
        for place in range(first, slot[node + 1]):
            edge = order[place]
            length = distance[edges.source[edge]] + weight[edge]
            if place == first or length > distance[node]:
                distance[node] = length
                by_edge[node] = edge
        if distance[node] < 0.0:
            distance[node] = 0.0
            by_edge[node] = -1
        if best < 0 or distance[node] > distance[best]:
            best = node
    length_of_path = 0
    while best >= 0:
        edge = by_edge[best]
        queue[length_of_path] = best
        best = -1
        if edge >= 0:
            order[length_of_path] = edge
            best = edges.source[edge]
        length_of_path += 1
    return length_of_path


@inner
def _in_order(edges: Any, nodes: Any, slot: Any, order: Any, degree: Any, queue: Any) -> int:
    """The nodes, each after all that lead to it, into ``queue``; returns how many could be brought into order."""
    count = len(edges.source)
    degree[:] = 0
    for edge in range(count):
        degree[edges.target[edge]] += 1
    sort_stably(edges.source, count, slot, order)
    ready = 0
    for at in range(len(nodes)):
        if degree[nodes[at]] == 0:
            queue[ready] = nodes[at]
            ready += 1
    done = 0
    while done < ready:
        node = queue[done]
        done += 1
        for at in range(slot[node], slot[node + 1]):
            target = edges.target[order[at]]
            degree[target] -= 1
            if degree[target] == 0:
                queue[ready] = target
                ready += 1
    return done
