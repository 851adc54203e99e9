"""The graph as the kernels of routing see it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing.kernels.costs import weights
from chakrasim.machine.graph.routing.kernels.mixer import salts
from chakrasim.machine.graph.routing.routes import Ints, Longs
from chakrasim.machine.graph.routing.rule import Routing

HASHED, BY_DESTINATION, BY_SOURCE = range(3)
"""How a link is chosen among equal ones."""


class Maze(NamedTuple):
    """Links by vertex, their weights, and what chooses among them.

    Attributes
    ----------
    source, target: int32[l] of each link.
    weight: int64[l]: 1 or more, 0 for a dead link.
    leave_first, leave_link: int64[v + 1], int32[l]: links out of each vertex, in the order in which they are counted.
    leave_core, leave_weight: int32[l], int64[l]: in the same order, ``core`` of where they lead, and their weights.
    enter_first, enter_link: those into each vertex, in order of link number.
    core: int32[v]: number among the vertices that others' traffic may pass, -1 for those it may not.
    preferred: bool[l]: where one of these is among equal next links, the others are left out.
    salt: uint64[v]: the vertex's part of the hash.
    level, stride: int32[v], int64[v]: of layered graphs (`levels.py`), else empty.
    """

    source: Ints
    target: Ints
    weight: Longs
    leave_first: Longs
    leave_link: Ints
    leave_core: Ints
    leave_weight: Longs
    enter_first: Longs
    enter_link: Ints
    core: Ints
    preferred: NDArray[np.bool_]
    salt: NDArray[np.uint64]
    level: Ints
    stride: Longs


def make_maze(
    graph: NetworkGraph,
    routing: Routing,
    dead: NDArray[np.bool_] | None,
    preferred: NDArray[np.bool_],
    layers: tuple[Ints, Longs, Ints] | None,
) -> Maze:
    """``layers``: level, stride, and links in the order of ports, of a layered graph."""
    leave_first, leave_link = graph.leaving
    level, stride = np.zeros(0, np.int32), np.zeros(0, np.int64)
    if layers is not None:
        level, stride, leave_link = layers
    core = np.where(graph.transit, np.cumsum(graph.transit) - 1, -1).astype(np.int32)
    weight = weights(graph, routing, dead)
    return Maze(
        source=graph.source,
        target=graph.target,
        weight=weight,
        leave_first=leave_first,
        leave_link=leave_link,
        leave_core=core[graph.target[leave_link]],
        leave_weight=weight[leave_link],
        enter_first=graph.entering[0],
        enter_link=graph.entering[1],
        core=core,
        preferred=preferred,
        salt=salts(graph.vertices, routing.polarised),
        level=level,
        stride=stride,
    )
