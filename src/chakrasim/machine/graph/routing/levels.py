"""Levels of layered graphs, for the rules that count up and down: d-mod-k and s-mod-k.

On an extended generalised fat tree a switch of level i sends up by port (d div (w_1 .. w_i)) mod (w_(i+1) p_(i+1)),
where w is the number of parents, p that of the cables to each, and d the number of the destination (Zahavi 2010, as
SimGrid has it). Nothing but the graph is asked: a vertex's level is its distance from the nearest rank, port q of a
vertex is cable q div w to parent q mod w, and parents count in the order of their numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.machine.graph.graph import RANK, NetworkGraph
from chakrasim.machine.graph.routing.routes import Ints, Longs


def layers(graph: NetworkGraph, rule: str) -> tuple[Ints, Longs, Ints]:
    """int32[v], int64[v], int32[l]: level, product of the numbers of parents below, and links out of each vertex in
    the order of its ports. Raises :class:`chakrasim.InputError` where a link joins vertices of one level."""
    level = _levels(graph)
    rise = level[graph.target] - level[graph.source]
    flat = np.flatnonzero((np.abs(rise) != 1) & (level[graph.source] >= 0) & (level[graph.target] >= 0))
    if flat.size:
        raise InputError(
            f"{rule} needs a layered graph, in which every link leads one level up or down",
            file=graph.name or "graph",
            found=f"link {graph.link_names[int(flat[0])]} in level {level[graph.source[flat[0]]]}",
            remedy="use ecmp",
        )
    turn = _turns(graph)
    ports = np.lexsort((graph.target, turn, graph.source)).astype(np.int32)
    return level, _strides(graph, level, (rise == 1) & (turn == 0)), ports


def _levels(graph: NetworkGraph) -> Ints:
    level = np.where(graph.kind == RANK, 0, -1).astype(np.int32)
    depth = 0
    while (here := level == depth).any():
        reached = graph.target[here[graph.source]]
        level[reached[level[reached] < 0]] = depth + 1
        depth += 1
    return level


def _turns(graph: NetworkGraph) -> NDArray[np.int64]:
    """int64[l]: how many links of lower number join the same two vertices the same way."""
    pair = graph.source.astype(np.int64) * graph.vertices + graph.target
    order = np.argsort(pair, kind="stable")
    new = np.ones(pair.size, np.bool_)
    new[1:] = pair[order][1:] != pair[order][:-1]
    place = np.arange(pair.size)
    turn = np.empty(pair.size, np.int64)
    turn[order] = place - np.maximum.accumulate(np.where(new, place, 0))
    return turn


def _strides(graph: NetworkGraph, level: Ints, up: NDArray[np.bool_]) -> Longs:
    """Products of parents along the lowest numbered child. Of parents only those count whose way up is the longest:
    an NVSwitch below a rank's leaf is no choice of ways."""
    links = np.flatnonzero(up)
    height = level.copy()
    for depth in range(int(level.max()) - 1, -1, -1):
        rising = links[level[graph.source[links]] == depth]
        np.maximum.at(height, graph.source[rising], height[graph.target[rising]])
    highest = links[height[graph.target[links]] == height[graph.source[links]]]
    parents = np.bincount(graph.source[highest], minlength=graph.vertices)
    stride = np.ones(graph.vertices, np.int64)
    for depth in range(int(level.max())):
        rising = links[level[graph.source[links]] == depth]
        rising = rising[np.argsort(-graph.source[rising], kind="stable")]  # the last one written is the lowest
        child = graph.source[rising]
        stride[graph.target[rising]] = stride[child] * np.maximum(parents[child], 1)
    return stride
