"""Measured beside simulated: how long every profiler step took where the trace was recorded, and in the simulation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chakrasim.report.amounts import time_text
from chakrasim.report.layout import Section

if TYPE_CHECKING:
    from chakrasim.simulator.result import NodeRecord, SimulationResult

MOST_ROWS = 16

_ENDS = ("step_first", "step_first_ns", "step_last", "step_last_ns")


@dataclass(frozen=True)
class StepTime:
    """One step of one rank; ``step`` is N of ``ProfilerStep#N``, None for the whole of a trace without steps."""

    rank: int
    step: int | None
    measured_ns: int
    simulated_ns: int

    @property
    def error_pct(self) -> float:
        """Simulated less measured, in percent of measured."""
        return 100 * (self.simulated_ns - self.measured_ns) / self.measured_ns if self.measured_ns else 0.0


def step_times(result: SimulationResult) -> tuple[StepTime, ...]:
    """The steps of all ranks, by rank, in the order of the trace; none for traces that do not say what was measured."""
    if not result.records:
        return ()
    of_class = [list(_of_record(record)) for record in result.records]
    return tuple(
        StepTime(rank, step, measured, simulated)
        for rank, number in enumerate(result.classes.tolist())
        for step, measured, simulated in of_class[number]
    )


def _of_record(record: NodeRecord) -> Iterator[tuple[int | None, int, int]]:
    """(step, measured, simulated) of the ranks of one record."""
    trace = record.graph.trace
    said = trace.metadata
    numbers, lengths, *ends = (said.get(name, []) for name in ("step_numbers", "step_ns", *_ENDS))
    columns = [numbers, lengths, *ends]
    ids = trace.ids[record.graph.order]
    if numbers and all(_is_whole(column) and len(column) == len(numbers) for column in columns):
        for step, measured, first, first_ns, last, last_ns in zip(*columns, strict=True):
            begin, end = _end_of(record, ids, first), _end_of(record, ids, last)
            if begin is not None and end is not None:
                yield step, measured, (end - last_ns) - (begin - first_ns)
        return
    span = said.get("span_ns")
    if isinstance(span, int) and span > 0 and len(record.end_ns):
        offset = np.flatnonzero(trace.attr("is_start_offset").present[record.graph.order])
        begin = int(record.end_ns[offset].max(initial=0))
        yield None, span, int(record.end_ns.max()) - begin


def _is_whole(column: object) -> bool:
    return isinstance(column, list) and all(type(entry) is int for entry in column)


def _end_of(record: NodeRecord, ids: np.ndarray[tuple[int], np.dtype[np.uint64]], node: object) -> int | None:
    """When the node of this id ended; None if there is none."""
    if not isinstance(node, int) or node < 0:
        return None
    at = int(np.searchsorted(ids, np.uint64(node)))
    if at == len(ids) or int(ids[at]) != node or record.end_ns[at] < 0:
        return None
    return int(record.end_ns[at])


def step_section(result: SimulationResult) -> Section:
    """The steps as a table, those of the largest error first where there are too many."""
    steps = result.steps
    shown = steps
    lines: tuple[str, ...] = ()
    if len(steps) > MOST_ROWS:
        worst = sorted(range(len(steps)), key=lambda at: -abs(steps[at].error_pct))[:MOST_ROWS]
        shown = tuple(steps[at] for at in sorted(worst))
        lines = (f"the {MOST_ROWS} of {len(steps)} whose error is largest",)
    rows = tuple(
        (
            str(time.rank),
            "all" if time.step is None else str(time.step),
            time_text(time.measured_ns),
            time_text(time.simulated_ns),
            f"{time.error_pct:+.2f} %",
        )
        for time in shown
    )
    if steps:
        lines = (*lines, f"largest error {max(abs(time.error_pct) for time in steps):.2f} %")
    return Section("Profiler steps", ("rank", "step", "measured", "simulated", "error"), rows, (), lines)
