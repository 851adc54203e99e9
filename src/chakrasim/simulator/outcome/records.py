"""The figures that a result is made of: when nodes ran, what links and collectives did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from chakrasim.simulator.lowering.graph import Graph

if TYPE_CHECKING:
    from chakrasim.simulator.context import Context
    from chakrasim.simulator.lowering.plans import Plan

Ints = NDArray[np.int64]

PARTS = ("compute", "overlap", "exposed_comm", "waiting", "bubble", "memory", "cpu", "idle", "done")
"""What a rank does at a time; the parts of all times of a rank sum to the makespan.

compute: a GPU operation and no communication; overlap: both; exposed_comm: communication and no GPU operation;
memory: a remote memory access and neither; cpu: only CPU operations; idle: nothing, before the rank's end; done:
after it.

Where streams run side by side, exposed_comm is told apart from waiting (in collectives only to which other ranks have
not come) and bubble (nothing but receives whose messages have not been sent); else these two are 0.
"""


@dataclass(frozen=True, eq=False)
class NodeRecord:
    """When the nodes of one class of ranks ran: ns by node number of ``graph``, -1 for nodes that never did.

    ``issued`` are the node numbers in the order in which they were issued.
    """

    graph: Graph
    start_ns: Ints
    end_ns: Ints
    issued: Ints


@dataclass(frozen=True, eq=False)
class SimulatedJob:
    """What ran: the graph and the collectives' plans of each rank, and the setting, for those who ask why."""

    graphs: Sequence[Graph]
    graph_of: Ints
    """int64[ranks]: which of ``graphs`` each rank runs."""
    plans: Sequence[Sequence[Plan]]
    context: Context


@dataclass(frozen=True, eq=False)
class RoleTimes:
    """Communication for one role (``tp``, ``dp``, ...) where streams run side by side, int64 by rank.

    exposed_ns: bytes of the role could move and nothing was computed; waiting_ns: it only waited for other ranks to
    come, and nothing was computed; hidden_ns: either, beside compute. Several roles may do so at one time, of which
    ``parts_ns`` counts each instant once.
    """

    role: str
    exposed_ns: Ints
    waiting_ns: Ints
    hidden_ns: Ints


@dataclass(frozen=True, eq=False)
class LinkFigures:
    """Links of a congestion-aware run: one entry per class of links, which stands for ``copies`` equal ones.

    ``name`` is that of the class's first link.
    """

    name: tuple[str, ...]
    dim: Ints
    busy_ns: Ints
    bytes: Ints
    messages: Ints
    most_queued: Ints
    copies: int
    row: Ints
    """Their places in the engine's table; no figure of a result."""


@dataclass(frozen=True, eq=False)
class CollectiveFigures:
    """One kind of collective in the workload, over all ranks: ``groups`` groups of ``members`` ranks each run it.

    ``algbw`` is bytes of the whole buffer per ns (GB/s with GB = 10^9) of the mean duration, ``busbw`` that times the
    factor of nccl-tests (`chakrasim.collectives.kinds`).
    """

    type: str
    size_bytes: int
    members: int
    groups: int
    algorithm: str
    calls: int
    mean_ns: float
    algbw: float
    busbw: float
