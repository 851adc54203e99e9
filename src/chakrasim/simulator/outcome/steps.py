"""Measured beside simulated: how long every profiler step took where the trace was recorded, and in the simulation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from chakrasim.simulator.outcome.records import Ints, NodeRecord
from chakrasim.text.amounts import percent_text, ranks_text
from chakrasim.text.remedies import SYNC_EVENTS
from chakrasim.trace.linked.columns import MOST_DELAY_ONLY

_ENDS = ("step_first", "step_first_ns", "step_last", "step_last_ns")


@dataclass(frozen=True)
class StepTime:
    """One step of one rank; ``step`` is N of ``ProfilerStep#N``, None for the whole of a trace without steps.

    ``delay_only_share``: the share of its critical path, as recorded, that is delay and explained by no edge (0 to 1);
    None where the trace does not say. Replay adds the recorded delays, so that an error of 0 says nothing about them.
    """

    rank: int
    step: int | None
    measured_ns: int
    simulated_ns: int
    delay_only_share: float | None = None

    @property
    def error_pct(self) -> float:
        """Simulated less measured, in percent of measured."""
        return 100 * (self.simulated_ns - self.measured_ns) / self.measured_ns if self.measured_ns else 0.0


def step_times(records: Sequence[NodeRecord], classes: Ints) -> tuple[StepTime, ...]:
    """The steps of all ranks, by rank, in the order of the trace; none for traces that do not say what was measured."""
    if not records:
        return ()
    of_class = [list(_of_record(record)) for record in records]
    return tuple(
        StepTime(rank, *of_step) for rank, number in enumerate(classes.tolist()) for of_step in of_class[number]
    )


@dataclass(frozen=True)
class StepMark:
    """Where a step is in a rank's nodes: it begins ``first_ns`` before the end of node number ``first``, and ends
    ``last_ns`` before that of ``last``. ``measured_ns``, ``delay_only_share`` as of `StepTime`."""

    step: int
    measured_ns: int
    first: int
    first_ns: int
    last: int
    last_ns: int
    delay_only_share: float | None


def step_marks(record: NodeRecord) -> Iterator[StepMark]:
    """The steps of the ranks of one record whose traces say where they are; of those, what ran."""
    trace = record.graph.trace
    said = trace.metadata
    numbers, lengths, *ends = (said.get(name, []) for name in ("step_numbers", "step_ns", *_ENDS))
    columns = [numbers, lengths, *ends]
    ids = trace.ids[record.graph.order]
    if numbers and all(_is_whole(column) and len(column) == len(numbers) for column in columns):
        shares = _shares(said.get("step_path_ns"), said.get("step_delay_only_ns"), len(numbers))
        for share, step, measured, first, first_ns, last, last_ns in zip(shares, *columns, strict=True):
            begin, end = _number_of(record, ids, first), _number_of(record, ids, last)
            if begin is not None and end is not None:
                yield StepMark(step, measured, begin, first_ns, end, last_ns, share)


def _of_record(record: NodeRecord) -> Iterator[tuple[int | None, int, int, float | None]]:
    """(step, measured, simulated, share of delays) of the ranks of one record."""
    trace, ends = record.graph.trace, record.end_ns
    said = trace.metadata
    if said.get("step_numbers"):
        for mark in step_marks(record):
            simulated = int(ends[mark.last]) - mark.last_ns - (int(ends[mark.first]) - mark.first_ns)
            yield mark.step, mark.measured_ns, simulated, mark.delay_only_share
        return
    span = said.get("span_ns")
    if isinstance(span, int) and span > 0 and len(record.end_ns):
        offset = np.flatnonzero(trace.attr("is_start_offset").present[record.graph.order])
        begin = int(record.end_ns[offset].max(initial=0))
        (share,) = _shares([said.get("path_ns")], [said.get("delay_only_ns")], 1)
        yield None, span, int(record.end_ns.max()) - begin, share


def _shares(paths: object, delays: object, count: int) -> list[float | None]:
    """The share of each delay in its path; None for all where the trace does not say them."""
    if not (isinstance(paths, list) and isinstance(delays, list) and len(paths) == len(delays) == count):
        return [None] * count
    if not (_is_whole(paths) and _is_whole(delays)):
        return [None] * count
    pairs = zip(paths, delays, strict=True)
    return [delay / path if path > 0 and 0 <= delay <= path else None for path, delay in pairs]


def delay_only_warnings(steps: Sequence[StepTime]) -> list[str]:
    """A warning where delays that nothing explains are much of what is replayed."""
    high = [time for time in steps if (time.delay_only_share or 0.0) > MOST_DELAY_ONLY]
    if not high:
        return []
    worst = max(high, key=lambda time: time.delay_only_share or 0.0)
    where = f"rank {worst.rank}" + ("" if worst.step is None else f", step {worst.step}")
    ranks = sorted({time.rank for time in high})
    all_of_them = f"above {100 * MOST_DELAY_ONLY:.0f} % on {'ranks' if len(ranks) > 1 else 'rank'} {ranks_text(ranks)}"
    return [
        f"up to {percent_text(worst.delay_only_share)} of a step's critical path ({where}; {all_of_them}) is delay "
        "that no dependency explains, most often waits between streams that were not recorded: the replay repeats it "
        "as it was, so that its error says nothing about it, and a simulation on a machine leaves it out; record again "
        f"with {SYNC_EVENTS}"
    ]


def _is_whole(column: object) -> bool:
    return isinstance(column, list) and all(type(entry) is int for entry in column)


def _number_of(record: NodeRecord, ids: np.ndarray[tuple[int], np.dtype[np.uint64]], node: object) -> int | None:
    """The number of the node of this id, if it has ended; None if there is none."""
    if not isinstance(node, int) or node < 0:
        return None
    at = int(np.searchsorted(ids, np.uint64(node)))
    if at == len(ids) or int(ids[at]) != node or record.end_ns[at] < 0:
        return None
    return at
