"""One simulation from checked traces to the result: lower, fold, run, and fold less when a tie breaks the symmetry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.simulator import engine
from chakrasim.simulator import layout as at
from chakrasim.simulator.context import Context
from chakrasim.simulator.fold import Folding, SymmetryFinder
from chakrasim.simulator.gather import gather, slot_table
from chakrasim.simulator.graph import lower_graph
from chakrasim.simulator.plans import resolve
from chakrasim.simulator.result import SimulationResult
from chakrasim.simulator.setup import build
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
    distinct, graph_of = traces
    graphs = [lower_graph(trace, context) for trace in distinct]
    plans = [[resolve(use, context) for use in graph.uses] for graph in graphs]
    finder = SymmetryFinder(context, graphs, graph_of, plans)
    folding = finder.find() if fold else Folding((), "every rank simulated: folding is switched off")
    broken: list[str] = []
    while True:
        keys = finder.group_keys(folding.digits)
        m, f, layout = build(context, graphs, graph_of, plans, folding.digits, keys, True)
        try:
            m = engine.run(m, f, context.limits, 0, progress)
            break
        except engine.BrokenSymmetry as tie:
            digit = folding.digits[tie.digit]
            broken.append(f"the rank digit of stride {digit.stride} and radix {digit.radix}")
            folding = _without(folding, tie.digit)
    if int(m[at.FINISHED]) < len(layout.ranks):
        slots = slot_table(m)
        stuck = [int(r) for r in layout.ranks[slots[:, at.SLOT_DONE] == 0]]
        raise InputError(f"stalled: {stuck}")
    return gather(m, layout, context, plans, folding.digits, _reason(folding, context.ranks, broken))


def _without(folding: Folding, number: int) -> Folding:
    """The folding with one digit less."""
    digits = tuple(replace(d, folded=d.folded and i != number) for i, d in enumerate(folding.digits))
    return Folding(digits if any(d.folded for d in digits) else (), folding.reason)


def _reason(folding: Folding, ranks: int, broken: list[str]) -> str:
    ties = f"; ties between ranks told apart {', '.join(broken)}" if broken else ""
    if not folding.digits:
        return folding.reason or f"every rank simulated{ties}"
    return f"{ranks} ranks in {ranks // folding.classes_share} classes of {folding.classes_share} equal ranks{ties}"
