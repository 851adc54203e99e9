"""What a simulation says: two numbers per rank as the reference prints them, and where the time went."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from chakrasim.files.outputs import write_whole
from chakrasim.files.picture import Plotted
from chakrasim.moved import moved_methods
from chakrasim.simulator.outcome.computation import KindTimes, kind_times
from chakrasim.simulator.outcome.graph_links import GraphLink
from chakrasim.simulator.outcome.json_form import json_text
from chakrasim.simulator.outcome.records import (
    PARTS,
    CollectiveFigures,
    Ints,
    LinkFigures,
    NodeRecord,
    RoleTimes,
    SimulatedJob,
)
from chakrasim.simulator.outcome.steps import StepTime, step_times
from chakrasim.text.amounts import share_text, size_text, time_text
from chakrasim.text.layout import Section
from chakrasim.text.shown import data_frame

if TYPE_CHECKING:
    from pathlib import Path

    import pandas

    from chakrasim.machine import System
    from chakrasim.simulator.arena.packet_network import PacketFigures


@dataclass(frozen=True, eq=False)
class SimulationResult(Plotted):
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
    warnings: tuple[str, ...]
    counts: dict[str, int]
    class_ranks: Ints = field(repr=False)
    """The simulated rank of each class."""
    system: System = field(repr=False)
    messages: int = 0
    message_bytes: int = 0
    events: int = 0
    links: LinkFigures | None = None
    graph_links: tuple[GraphLink, ...] = field(default=(), repr=False)
    """Links of a flow network that something crossed, most load first; ``links`` in the JSON."""
    collectives: tuple[CollectiveFigures, ...] = ()
    records: tuple[NodeRecord, ...] = field(default=(), repr=False)
    peak_memory_bytes: Ints | None = None
    """int64 by rank: most bytes of live tensors at a time, where local memory is tracked."""
    unfinished: Ints = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    """Ranks of jobs that cannot end: their ``finish_ns`` is when the last of the others finished."""
    roles: tuple[RoleTimes, ...] = field(default=(), repr=False)
    """Communication by role, where streams run side by side."""
    packets: PacketFigures | None = field(default=None, repr=False)
    """What the packet network did, and every message."""
    job: SimulatedJob | None = field(default=None, repr=False)
    """What ran; None where nothing did."""
    replay: str | None = None
    """Which measured durations took the place of the machine; None: the machine was simulated."""

    if not TYPE_CHECKING:
        __getattr__ = moved_methods(
            {
                "summary": "chakrasim.summary",
                "to_perfetto": "chakrasim.write_timeline",
                "to_memory_traces": "chakrasim.write_memory_traces",
            }
        )

    @cached_property
    def steps(self) -> tuple[StepTime, ...]:
        """Measured and simulated time of every profiler step (or of all, where there is none) of converted traces."""
        return step_times(self.records, self.classes)

    @cached_property
    def computation(self) -> tuple[KindTimes, ...]:
        """What ranks computed, by kind of work; none where the nodes do not say it."""
        return kind_times(self.records, self.classes)

    @property
    def makespan_ns(self) -> int:
        """When the last rank finished."""
        return int(self.finish_ns.max(initial=0))

    @property
    def network(self) -> str:
        """How bytes shared links, in words."""
        return self.congestion if self.congestion in ("flow", "packet") else f"congestion-{self.congestion}"

    def _in_short(self) -> dict[str, str]:
        shares = [share_text(mean, self.makespan_ns) for mean in self.parts_ns.mean(axis=0).tolist()]
        network = self.network if self.replay is None else "none, measured durations replayed"
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
        rows = tuple(
            (part, time_text(mean), share_text(mean, self.makespan_ns))
            for part, mean in means
            if mean or part not in ("waiting", "bubble")
        )
        title = "Where the time goes (mean over ranks)"
        return [*super()._tables(), Section(title, ("part", "time", "share"), rows, lines=self.warnings)]

    def to_json(self, path: str | Path | None = None) -> str:
        """The figures as JSON text, also written to ``path``: no wall times, no paths, same input same bytes.

        ``exposed_comm_ns`` is signed: ASTRA-sim prints a negative one modulo 2^64.
        """
        text = json_text(self.figures(), self.warnings)
        if path is not None:
            write_whole(path, text.encode())
        return text

    def figures(self) -> dict[str, Any]:
        """What `to_json` writes, by key."""
        figures = {one.name: getattr(self, one.name) for one in fields(self) if one.repr and one.name != "replay"}
        figures |= {
            "makespan_ns": self.makespan_ns,
            "parts_ns": {name: self.parts_ns[:, i] for i, name in enumerate(PARTS)},
            "ranks": len(self.finish_ns),
            "simulated": len(self.finish_order) > 0,
        }
        if self.congestion == "flow":
            figures |= {"links": self.graph_links, "network_model": self.congestion}
        if self.packets is not None:
            figures |= {"packets": self.packets.to_dict(), "network_model": self.congestion}
        # Only converted traces have these, or jobs that cannot end.
        measured: dict[str, Any] = {"steps": self.steps or None, "replay": self.replay}
        measured["roles"] = self.roles or None
        measured["computation"] = self.computation or None
        measured["unfinished"] = self.unfinished if self.unfinished.size else None
        return figures | {name: value for name, value in measured.items() if value is not None}

    def to_frame(self) -> pandas.DataFrame:
        """One row per rank, as a pandas data frame (the ``frames`` extra), indexed by ``rank``.

        The times in ns, the parts as ``part_NAME_ns``, bytes and class. Raises InputError where there is no pandas.
        """
        columns = {
            **{name: getattr(self, name) for name in ("finish_ns", "exposed_comm_ns", "gpu_ns", "comm_ns")},
            # The part named exposed_comm is not ASTRA-sim's number of that name, so the parts have a prefix.
            **{f"part_{name}_ns": self.parts_ns[:, i] for i, name in enumerate(PARTS)},
            "bytes_sent": self.bytes_sent,
            "class": self.classes,
        }
        if self.peak_memory_bytes is not None:
            columns["peak_memory_bytes"] = self.peak_memory_bytes
        return data_frame(columns).rename_axis("rank")
