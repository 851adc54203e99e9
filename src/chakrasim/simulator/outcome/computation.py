"""What ranks computed, by what the nodes say that they compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.outcome.records import Ints, NodeRecord
from chakrasim.trace.kinds import STRING
from chakrasim.trace.work import KIND

UNSAID = "other"


@dataclass(frozen=True, eq=False)
class KindTimes:
    """GPU operations of one kind of work (`chakrasim.trace.work.WorkKind`), by rank: how many ran, and for how long
    together, those that ran at one time counted each."""

    kind: str
    nodes: Ints
    time_ns: Ints


def kind_times(records: Sequence[NodeRecord], classes: Ints) -> tuple[KindTimes, ...]:
    """The kinds of all ranks, by name; none for traces whose nodes do not say what they compute, or not as text."""
    found: dict[str, Ints] = {}
    for number, record in enumerate(records):
        graph = record.graph
        ran = np.flatnonzero((graph.category == at.CAT_GPU) & (record.start_ns >= 0) & (record.end_ns >= 0))
        said = graph.trace.attr(KIND)
        index = np.where(said.kind == STRING, said.bits, np.uint64(0))[graph.order[ran]]
        indices, which = np.unique(index, return_inverse=True)
        length = record.end_ns[ran] - record.start_ns[ran]
        for i, text in enumerate(indices.tolist()):
            own = which == i
            column = found.setdefault(graph.trace.strings[text] or UNSAID, np.zeros((2, len(records)), np.int64))
            column[:, number] += (int(own.sum()), int(length[own].sum()))
    if set(found) <= {UNSAID}:
        return ()
    return tuple(KindTimes(name, *(row[classes] for row in found[name])) for name in sorted(found))
