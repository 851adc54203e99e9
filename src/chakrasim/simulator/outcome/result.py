"""What a simulation says: two numbers per rank as the reference prints them, and where the time went."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from chakrasim.text.amounts import share_text, size_text, time_text
from chakrasim.text.layout import Section
from chakrasim.text.shown import Shown

if TYPE_CHECKING:
    from pathlib import Path

    import pandas

    from chakrasim.machine import System
    from chakrasim.simulator.lowering.graph import Graph
    from chakrasim.simulator.outcome.steps import StepTime

Ints = NDArray[np.int64]

PARTS = ("compute", "overlap", "exposed_comm", "memory", "cpu", "idle", "done")
"""What a rank does at a time; the parts of all times of a rank sum to the makespan.

compute: a GPU operation and no communication; overlap: both; exposed_comm: communication and no GPU operation;
memory: a remote memory access and neither; cpu: only CPU operations; idle: nothing, before the rank's end; done:
after it.
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


@dataclass(frozen=True, eq=False)
class SimulationResult(Shown):
    """The outcome of ``chakrasim.simulate``.

    Attributes
    ----------
    finish_ns, exposed_comm_ns:
        int64 by rank: the cycle in which the rank finished, and that less its GPU busy time (ASTRA-sim's "exposed
        communication"; it includes CPU and memory time). One cycle is 1 ns.
    parts_ns:
        int64[ranks, len(PARTS)]: see ``PARTS``; every row sums to ``makespan_ns``.
    gpu_ns, comm_ns:
        int64 by rank: total time with a GPU operation, or a communication, in flight.
    finish_order:
        Ranks in the order in which they finished.
    classes:
        int64 by rank: ranks of one class were simulated as one. ``fold_reason`` says why it folded as it did.
    warnings:
        What was guessed, replaced or is of no effect, one sentence each.
    counts:
        How many nodes were skipped, completed at once, and the like.
    """

    finish_ns: Ints
    exposed_comm_ns: Ints
    parts_ns: Ints
    gpu_ns: Ints
    comm_ns: Ints
    bytes_sent: Ints
    finish_order: Ints
    classes: Ints
    fold_reason: str
    congestion: str
    messages: int
    message_bytes: int
    events: int
    warnings: tuple[str, ...]
    counts: dict[str, int]
    links: LinkFigures | None
    collectives: tuple[CollectiveFigures, ...]
    records: tuple[NodeRecord, ...] = field(repr=False)
    class_ranks: Ints = field(repr=False)
    """The simulated rank of each class."""
    system: System = field(repr=False)
    peak_memory_bytes: Ints | None
    """int64 by rank: most bytes of live tensors at a time, where local memory is tracked."""
    replay: str | None = None
    """Which measured durations took the place of the machine; None: the machine was simulated."""

    @cached_property
    def steps(self) -> tuple[StepTime, ...]:
        """Measured and simulated time of every profiler step (or of all, where there is none) of converted traces."""
        from chakrasim.simulator.outcome.steps import step_times

        return step_times(self)

    @property
    def makespan_ns(self) -> int:
        """When the last rank finished."""
        return int(self.finish_ns.max(initial=0))

    def _figures(self) -> dict[str, str]:
        shares = [share_text(mean, self.makespan_ns) for mean in self.parts_ns.mean(axis=0).tolist()]
        network = f"congestion-{self.congestion}" if self.replay is None else "none, measured durations replayed"
        figures = {
            "makespan": time_text(self.makespan_ns),
            "ranks": f"{len(self.finish_ns):,}",
            "compute": shares[PARTS.index("compute")],
            "exposed communication": shares[PARTS.index("exposed_comm")],
            "moved": size_text(self.message_bytes),
            "network": network,
        }
        return figures | ({"warnings": f"{len(self.warnings):,}"} if self.warnings else {})

    def _tables(self) -> list[Section]:
        means = zip(PARTS, self.parts_ns.mean(axis=0).tolist(), strict=True)
        rows = tuple((part, time_text(mean), share_text(mean, self.makespan_ns)) for part, mean in means)
        title = "Where the time goes (mean over ranks)"
        return [*super()._tables(), Section(title, ("part", "time", "share"), rows, lines=self.warnings)]

    def to_json(self, path: str | Path | None = None) -> str:
        """The figures as JSON text, also written to ``path``: no wall times, no paths, same input same bytes."""
        from chakrasim.simulator.outcome.json_form import result_json

        text = result_json(self)
        if path is not None:
            from chakrasim.files.outputs import write_whole

            write_whole(path, text.encode())
        return text

    def to_perfetto(self, path: str | Path) -> None:
        """Write a timeline that ui.perfetto.dev and chrome://tracing open."""
        from chakrasim.report.timeline.simulation import write_timeline

        write_timeline(self, path)

    def to_memory_traces(self, prefix: str) -> list[str]:
        """Write ``PREFIX.RANK.json``: tensors in local memory over time, where the system tracks it; returns paths."""
        from chakrasim.report.timeline.memory import write_memory_traces

        return write_memory_traces(self, prefix)

    def to_frame(self) -> pandas.DataFrame:
        """One row per rank, as a pandas data frame (the ``frames`` extra)."""
        from chakrasim.simulator.outcome.frame import result_frame

        return result_frame(self)

    def summary(self) -> str:
        """The tables that the command line prints, as text."""
        from chakrasim.report.tables.simulation import summary_text

        return summary_text(self)
