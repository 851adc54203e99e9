"""Queues of tasks: what one thread puts there, and another carries out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.linker.evidence.launches import CallIndex
from chakrasim.linker.evidence.nesting import Nesting
from chakrasim.linker.rows.columns import rare_at
from chakrasim.trace.kineto.columns import TASK_OF, Indices


@dataclass(frozen=True, eq=False)
class Tasks:
    """Positions in ``LaneEvents.host``: ``giver``, ``taker`` int32[q] of what puts each task into a queue and of what
    carries it out; ``asker`` int32[h] of the giver of the task that each event is part of, -1: of none. All are empty
    where there are no queues."""

    giver: Indices
    taker: Indices
    asker: Indices


def find_tasks(work: LaneEvents, nesting: Nesting, calls: CallIndex) -> Tasks:
    """The tasks of other threads that the reader of the trace has marked."""
    marked = work.kineto.rare_column(TASK_OF)
    if not len(marked.rows):
        return Tasks(*(np.zeros(0, np.int32) for _ in range(3)))
    asker = calls.find(rare_at(marked, work.host.event))
    asker[work.host.lane[asker] == work.host.lane] = -1
    taker = np.flatnonzero(asker >= 0).astype(np.int32)
    giver = asker[taker]
    open_ = np.flatnonzero((asker < 0) & (nesting.parent >= 0))
    around = nesting.parent[open_]
    while len(open_):
        asker[open_] = asker[around]
        around = nesting.parent[around]
        more = (asker[open_] < 0) & (around >= 0)
        open_, around = open_[more], around[more]
    return Tasks(giver, taker, asker)
