"""Routes after links went down: drawn again where one of these was among the candidates, else as they were."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing.find import checked_flows, find_routes
from chakrasim.machine.graph.routing.legs import patched
from chakrasim.machine.graph.routing.routes import Longs, Routes
from chakrasim.machine.graph.routing.rule import Routing


def reroute(
    graph: NetworkGraph,
    routes: Routes,
    source: ArrayLike,
    destination: ArrayLike,
    label: ArrayLike | None,
    routing: Routing,
    dead: NDArray[np.bool_],
) -> tuple[Routes, Longs]:
    """Routes on the graph without all ``dead`` links [l], and the numbers of the flows whose routes changed.

    A choice depends on its own candidates only, so one that had none of the dead links among them stays as it was.
    Adaptive flows keep their routes unless they cross a dead link; those that do start again, on an empty network.
    Flows that have no route left are in `Routes.missing`, without crossings: whoever asks decides what becomes of them.
    """
    flows = np.arange(routes.flows)
    if routing.rule == "adaptive":
        flows = np.union1d(flows[_crosses(routes, dead)], routes.missing)
    begin, end, labels = checked_flows(graph, source, destination, label)
    found = find_routes(graph, begin[flows], end[flows], labels[flows], routing, dead, refuse=False)
    new = patched(routes, flows, found)
    return new, np.flatnonzero(_changed(routes, new))


def _crosses(routes: Routes, dead: NDArray[np.bool_]) -> NDArray[np.bool_]:
    crossed: NDArray[np.bool_] = np.bincount(routes.flow[dead[routes.link]], minlength=routes.flows) > 0
    return crossed


def _changed(old: Routes, new: Routes) -> NDArray[np.bool_]:
    """bool[f]: flows whose links or parts differ."""
    lengths = np.diff(old.first)
    changed: NDArray[np.bool_] = lengths != np.diff(new.first)
    same = np.flatnonzero(~changed)
    a, b = old.take(same), new.take(same)
    differs = (a.link != b.link) | (a.coefficient != b.coefficient)
    changed[same] = np.bincount(a.flow[differs], minlength=same.size) > 0
    return changed
