"""One simulation from checked traces to the result: lower, fold, run, and fold less when a tie breaks the symmetry."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.simulator import engine
from chakrasim.simulator import layout as at
from chakrasim.simulator.context import Context
from chakrasim.simulator.gather import gather, slot_table
from chakrasim.simulator.graph import Graph, lower_graph
from chakrasim.simulator.plans import Plan, resolve
from chakrasim.simulator.result import SimulationResult
from chakrasim.simulator.setup import Digit, build
from chakrasim.trace import Trace

Ints = NDArray[np.int64]

RECORD_LIMIT = 50_000_000
"""Up to so many nodes over all simulated ranks, the times of every node are kept."""


def simulate_context(
    context: Context,
    traces: tuple[Sequence[Trace], Ints],
    *,
    fold: bool,
    progress: engine.Progress | None = None,
    check: bool = False,
) -> SimulationResult:
    """Run checked input. ``traces`` are the distinct traces and, by rank, which of them it runs."""
    distinct, which = traces
    graphs = [lower_graph(trace, context) for trace in distinct]
    plans = [[resolve(use, context) for use in graph.uses] for graph in graphs]
    digits: Sequence[Digit] = ()
    reason = "every rank simulated: asked for"
    m, f, layout = build(context, graphs, which, plans, digits, _group_keys(graphs), True)
    m = engine.run(m, f, context.limits, 0, progress)
    if int(m[at.FINISHED]) < len(layout.ranks):
        slots = slot_table(m)
        stuck = [int(r) for r in layout.ranks[slots[:, at.SLOT_DONE] == 0]]
        raise InputError(f"stalled: {stuck}")
    return gather(m, layout, context, plans, digits, reason)


def _group_keys(graphs: Sequence[Graph]) -> dict[int, int]:
    """Every group's number in message keys; 0 is for point-to-point messages."""
    groups = sorted({group for graph in graphs for group in graph.groups})
    return {group: i + 1 for i, group in enumerate(groups)}
