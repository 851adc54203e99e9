"""The same job simulated again with some of its compute longer or shorter: what derivatives are checked with.

The graph of events keeps the order of events and the time that contention gave each collective. The engine does not, so
a slope, or how far it holds, may be another there: then the engine's is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from chakrasim.errors import StallError
from chakrasim.event_graph.graph import Floats, Ints
from chakrasim.explanation.nodes import Nodes
from chakrasim.notes import Notes
from chakrasim.simulator.outcome.records import SimulatedJob
from chakrasim.simulator.session import Session

HALVINGS: Final = 12
FIRST_STEP: Final = 1e-3
"""Of what a group takes: how much is added to see a slope that the graph has wrong."""


@dataclass(frozen=True)
class Slope:
    """Change of the makespan per ns added (or taken away), and up to how many ns; None: as far as was looked."""

    slope: float
    until_ns: float | None


class Rerun:
    """Simulations of a job with other durations."""

    def __init__(self, nodes: Nodes, job: SimulatedJob, makespan_ns: int) -> None:
        self.nodes, self.job, self.makespan_ns = nodes, job, makespan_ns

    @staticmethod
    def knows(job: SimulatedJob) -> bool:
        """Whether the job can be run again as it is: no replay, no packets, no all-to-alls whose parts differ."""
        return job.context.replay is None and job.context.packets is None and not job.context.matrices

    def makespan(self, chosen: Ints, factor: float | Floats) -> int:
        """The makespan if the ``chosen`` nodes take ``factor`` times as long (one for all, or each its own), in whole
        ns."""
        factors = np.broadcast_to(factor, chosen.shape)
        graphs, graph_of = list(self.job.graphs), self.job.graph_of.copy()
        for owner in np.unique(self.nodes.owner[chosen]).tolist():
            rank = int(self.nodes.ranks[owner])
            graph = self.job.graphs[self.job.graph_of[rank]]
            inside = self.nodes.owner[chosen] == owner
            a = graph.a.copy()
            numbers = self.nodes.number[chosen[inside]]
            a[numbers] = np.rint(a[numbers] * factors[inside]).astype(np.int64)
            graph_of[rank] = len(graphs)
            graphs.append(replace(graph, a=a, shared=None))
        context = replace(self.job.context, notes=Notes(), counts=Counter())
        return Session(context, graphs, graph_of).run(fold=False).makespan_ns

    def _end(self, chosen: Ints, factor: float) -> float:
        """The makespan; inf for a run that cannot end, which another order of chunks may do."""
        try:
            return self.makespan(chosen, factor)
        except StallError:
            return np.inf

    def check(self, chosen: Ints, total: float, sign: int, said: Slope) -> Slope:
        """A one-sided derivative of the makespan by the time of ``chosen`` nodes, and how far it holds, by the engine.

        ``said`` is what the graph says; it is kept where two runs agree with it to what rounding to ns may make.
        """
        rounding = 2 + 0.5 * len(chosen)
        known: dict[float, float] = {}

        def off(slope: float, added: float) -> float:
            if added not in known:
                known[added] = self._end(chosen, 1 + sign * added / total)
            return abs(known[added] - self.makespan_ns - slope * added) - rounding

        far = min(said.until_ns or total, total)
        if off(said.slope, far) <= 0 and off(said.slope, far / 2) <= 0:
            return said
        step = max(total * FIRST_STEP, min(4 * rounding, total / 4))
        slope = said.slope
        if np.isinf(off(slope, step)):
            return Slope(slope, 0.0)
        if off(slope, step) > 0:
            slope = round((known[step] - self.makespan_ns) / step, 6)
            far = total
        return Slope(slope, _edge(lambda added: off(slope, added) <= 0, step, far))


def _edge(holds: Callable[[float], bool], low: float, high: float) -> float | None:
    """How far something holds that holds at ``low``; None if it does at ``high`` and half way there."""
    while low < high / 2:
        if not holds(low * 2):
            high = low * 2
            break
        low *= 2
    else:
        if holds(high):
            return None
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
