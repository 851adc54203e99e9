"""How much of the communication is hidden behind compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chakrasim.analysis.table.kernel_classes import COMMUNICATION, COMPUTE
from chakrasim.analysis.table.result import Flags, Ints, Reals, Result, percentage
from chakrasim.analysis.table.scopes import devices_of, scope_label, scopes_of, step_notes
from chakrasim.analysis.table.traces import Traces, open_traces
from chakrasim.notes import Notes
from chakrasim.trace.intervals import check_times, merge, overlap


@dataclass(frozen=True, eq=False)
class CommOverlap(Result):
    """One row for each rank, device and scope (see TemporalBreakdown).

    ``communication_ns``: time during which at least one collective runs; ``overlapped_ns``: of that, with compute
    running too; ``exposed_ns``: the rest. ``overlap_pct`` is at most 100, NaN where nothing communicates.
    """

    TITLE: ClassVar[str] = "Communication behind compute"
    rank: Ints
    device: Ints
    step: Ints
    communication_ns: Ints
    overlapped_ns: Ints
    exposed_ns: Ints
    overlap_pct: Reals
    partial: Flags


def comm_overlap(traces: Traces, *, rank: int | None = None, steps: bool = True) -> CommOverlap:
    """The overlap of communication with compute of each trace, device and profiler step. Raises InputError."""
    notes = Notes()
    rows = []
    for one in open_traces(traces, rank=rank, notes=notes):
        work = one.work
        notes.note(*work.notes, *step_notes(work))
        for device in devices_of(work):
            mine = work.device == device
            comm, compute = (
                merge(work.start_ns[at], work.end_ns[at])
                for at in (mine & (work.kind == kind) for kind in (COMMUNICATION, COMPUTE))
            )
            for scope in scopes_of(work, steps):
                part = comm.clip(scope.start_ns, scope.end_ns)
                hidden = overlap(part, compute)
                check_times(
                    {"exposed_comm": part.total - hidden, "overlap": hidden}, scope_label(scope.step, scope.partial)
                )
                times = part.total, hidden, part.total - hidden
                rows.append((work.rank, device, scope.step, *times, percentage(hidden, part.total), scope.partial))
    return CommOverlap.of_rows(notes, rows)
