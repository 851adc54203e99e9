"""The proof that rates are max-min fair: every flow has a bottleneck."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakrasim.machine.graph.routing.routes import Routes
from chakrasim.simulator.flow.state import Floats


def without_bottleneck(
    capacity: Floats, routes: Routes, weight: Floats, rate: Floats, *, tolerance: float = 1e-9
) -> NDArray[np.int64]:
    """Flows whose rate is not proved; none means that the rates are max-min fair (graph-networks.md, 6).

    A flow's bottleneck is a link that it crosses, which is full, and on which no flow has a higher level (rate over
    weight). Rates are those of one instant, in bytes per ns; ``tolerance`` is relative. Flows without a way need no
    proof. A link that carries more than it can makes all flows that cross it unproved.
    """
    flow = np.repeat(np.arange(routes.flows), np.diff(routes.first))
    load = np.bincount(routes.link, routes.coefficient * rate[flow], capacity.size)
    level = rate / weight
    highest = np.zeros(capacity.size)
    np.maximum.at(highest, routes.link, level[flow])
    full = load >= capacity * (1 - tolerance)
    over = load > capacity * (1 + tolerance)
    holds = full[routes.link] & (level[flow] >= highest[routes.link] * (1 - tolerance))
    proved = np.bincount(flow, holds, routes.flows) > 0
    proved &= np.bincount(flow, over[routes.link], routes.flows) == 0
    return np.flatnonzero(~proved & (np.diff(routes.first) > 0))
