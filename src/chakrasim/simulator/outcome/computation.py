"""What ranks computed, by what the nodes say that they compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.graph import Graph
from chakrasim.simulator.outcome.records import Ints, NodeRecord
from chakrasim.trace.kinds import STRING
from chakrasim.trace.work import BYTES, FLOPS, KIND

Floats = NDArray[np.float64]

UNSAID = "other"


@dataclass(frozen=True, eq=False)
class KindTimes:
    """GPU operations of one kind of work (`chakrasim.trace.work.WorkKind`), by rank: how many ran, and for how long
    together, those that ran at one time counted each; ``flops`` and ``bytes``, float64, are what they say that they do
    and move, 0 where they do not say it."""

    kind: str
    nodes: Ints
    time_ns: Ints
    flops: Floats
    bytes: Floats


def kind_times(records: Sequence[NodeRecord], classes: Ints) -> tuple[KindTimes, ...]:
    """The kinds of all ranks, by name; none for traces whose nodes do not say what they compute, or not as text."""
    found: dict[str, tuple[Ints, Floats]] = {}
    for number, record in enumerate(records):
        graph = record.graph
        ran = np.flatnonzero((graph.category == at.CAT_GPU) & (record.start_ns >= 0) & (record.end_ns >= 0))
        said = graph.trace.attr(KIND)
        index = np.where(said.kind == STRING, said.bits, np.uint64(0))[graph.order[ran]]
        indices, which = np.unique(index, return_inverse=True)
        length = record.end_ns[ran] - record.start_ns[ran]
        work = [_amounts(graph, name)[ran] for name in (FLOPS, BYTES)]
        for i, text in enumerate(indices.tolist()):
            own = which == i
            none = np.zeros((2, len(records)), np.int64), np.zeros((2, len(records)))
            times, amounts = found.setdefault(graph.trace.strings[text] or UNSAID, none)
            times[:, number] += (int(own.sum()), int(length[own].sum()))
            amounts[:, number] += [float(each[own].sum()) for each in work]
    if set(found) <= {UNSAID}:
        return ()
    return tuple(KindTimes(name, *(row[classes] for each in found[name] for row in each)) for name in sorted(found))


def _amounts(graph: Graph, name: str) -> Floats:
    """float64[nodes]: an attribute, 0 where it is absent, negative or no integer."""
    return np.maximum(graph.trace.attr(name).integers_or(0)[graph.order], 0).astype(np.float64)
