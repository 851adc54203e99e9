"""What a way costs: whole numbers, so that ties do not hang on the order of additions."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError, near
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing.routes import Longs
from chakrasim.machine.graph.routing.rule import Routing

STEP: Final = 1e-6
"""Costs and latencies are told apart to this."""
LARGEST: Final = 2**60


def weights(graph: NetworkGraph, routing: Routing, dead: NDArray[np.bool_] | None) -> Longs:
    """int64[l]: what each link costs, 0 for a dead one.

    1 for hops. Latencies and costs are in steps of a millionth, and each link costs one step more than it says: so no
    way goes in a circle over links without latency, and of equal ways the one with fewer links is shorter.
    """
    if routing.metric == "hops":
        found = np.ones(graph.links, np.int64)
    else:
        plain = graph.latency if routing.metric == "latency" else _costs(graph, routing)
        if plain.size and float(np.max(plain)) / STEP * graph.vertices > LARGEST:
            link = int(np.argmax(plain))
            name = f"link {graph.link_names[link]}"
            raise InputError("a link costs too much for sums to be exact", file=name, found=float(plain[link]))
        found = np.rint(plain / STEP).astype(np.int64) + 1
    if dead is not None:
        found[dead] = 0
    return found


def _costs(graph: NetworkGraph, routing: Routing) -> NDArray[np.float64]:
    costs = np.ones(graph.links)
    for name, cost in routing.cost:
        if name not in graph.link_number:
            remedy = near(name, graph.link_number) or None
            raise InputError("no such link", file="routing", place="cost", found=name, remedy=remedy)
        if not (np.isfinite(cost) and cost >= 0):
            raise InputError("cost out of range", file="routing", place=f"cost: {name}", found=cost, expected=">= 0")
        costs[graph.link_number[name]] = cost
    return costs
