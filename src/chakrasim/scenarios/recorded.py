"""What-if on a recorded trace of one rank: its rows replayed with other durations.

A row begins when all that it depends on has ended and what usually lies between has passed: the latency of a launch,
the gap between two kernels of a stream. What remains is a delay that nothing explains, and stays as it was: so the
share of the critical path that is delay is told beside every answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.analysis.table.kernel_classes import COMMUNICATION, COMPUTE, MEMORY, class_of_name
from chakrasim.errors import near
from chakrasim.event_graph.graph import EventGraph, Floats, Ints, event_graph
from chakrasim.scenarios.asked import Asked
from chakrasim.trace.linked.columns import EdgeKind, LinkedTrace, RowKind
from chakrasim.trace.linked.delays import LongestDelay, longest_delay

Mask = NDArray[np.bool_]
WORDS: Final = ("all", "communication", "compute", "memory", "host")
TARGETS: Final = (*WORDS, "kernel:NAME", "op:NAME")
_USUAL: Final = 50
_LAGGING: Final = (EdgeKind.LAUNCH, EdgeKind.STREAM, EdgeKind.EVENT_WAIT)
"""Edges after which something usually passes before the next begins."""


@dataclass(frozen=True)
class StepChange:
    """A step (-1: a trace without steps is one) as recorded and with the changes, in ns: from its begin on the host, or
    from the end of the step before where that is later, to the end of the last of its work, on host or device.
    ``delay_only_share``: of its critical path as recorded, what is delay and cannot move; None where there is none."""

    step: int
    before_ns: int
    after_ns: float
    delay_only_share: float | None


@dataclass(frozen=True, eq=False)
class RecordedAnswer:
    """The steps with the changes that were ``asked``; ``inferred``: how many waits between streams were found from
    calls and times, of ``waits`` in all; ``longest``: the longest delay on the path of the whole trace."""

    asked: tuple[str, ...]
    steps: tuple[StepChange, ...]
    waits: int
    inferred: int
    longest: LongestDelay | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, times in us."""
        return {
            "set": list(self.asked),
            "steps": [
                {
                    "step": one.step,
                    "before_us": one.before_ns / 1e3,
                    "after_us": one.after_ns / 1e3,
                    "delay_only_share": one.delay_only_share,
                }
                for one in self.steps
            ],
            "stream_waits": self.waits,
            "stream_waits_inferred": self.inferred,
        }


def ask_recorded(linked: LinkedTrace, asked: Sequence[Asked]) -> RecordedAnswer:
    """The steps of a linked trace with changes. Raises InputError for changes of what the trace does not have."""
    rows = _Rows(linked)
    duration = rows.graph.duration.copy()
    for one in asked:
        own = rows.chosen(one)
        if one.factor is None:
            raise one.refusal("nothing is ideal in a trace of one rank", one.target, "a factor")
        duration[own] *= one.factor
    steps = [
        StepChange(step, round(before), after, rows.share(step))
        for (step, before), (_, after) in zip(
            rows.times(rows.end_ns - rows.first), rows.times(rows.ends(duration)), strict=True
        )
    ]
    waits = linked.edge_kind == EdgeKind.EVENT_WAIT
    inferred = int(linked.counts.get("cross_stream_waits_inferred", 0))
    told = tuple(one.text for one in asked)
    return RecordedAnswer(told, tuple(steps), int(waits.sum()), inferred, longest_delay(linked))


class _Rows:
    """The rows of a trace as events: each is when a row ends."""

    def __init__(self, linked: LinkedTrace) -> None:
        self.linked, self.end_ns = linked, linked.end_ns
        self.first = int(linked.start_ns.min()) if len(linked) else 0
        self.graph = self._graph()
        self.marks = [int(at) for at in np.flatnonzero(linked.annotations.step >= 0)]

    def _graph(self) -> EventGraph:
        linked = self.linked
        binding = linked.edge_kind != EdgeKind.CONTROL
        source, target = linked.edge_source[binding].astype(np.int64), linked.edge_target[binding].astype(np.int64)
        kind = linked.edge_kind[binding]
        works = linked.start_ns + linked.wait_ns
        lag = self._lags(kind, works[target] - self.end_ns[source], target)
        last, idle = self._idle(target[kind == EdgeKind.LAUNCH])
        source, target = np.concatenate([source, last]), np.concatenate([target, idle])
        lag = np.concatenate([lag, works[idle] - self.end_ns[last]])
        ready = np.full(len(linked), np.iinfo(np.int64).min)
        np.maximum.at(ready, target, self.end_ns[source] + lag)
        alone = np.flatnonzero(ready == np.iinfo(np.int64).min)
        rest = np.maximum(works - ready, 0)
        rows = np.arange(len(linked))
        graph, number = event_graph(
            len(linked) + 1,
            np.concatenate([source + 1, np.zeros(len(alone), np.int64)]),
            np.concatenate([target, alone]) + 1,
            np.concatenate([lag + rest[target], works[alone] - self.first]),
            np.concatenate([target, alone]),
            linked.duration_ns[rows],
        )
        self.number = number[1:]
        return graph

    def _idle(self, launched: Ints) -> tuple[Ints, Ints]:
        """Work of a device that nobody is known to have launched and that began when all before it had ended, which the
        host may have waited for: what had ended last, and it."""
        rows = np.flatnonzero(self.linked.is_device)
        rows = rows[np.argsort(self.linked.start_ns[rows], kind="stable")]
        if len(rows) < 2:
            return rows[:0], rows[:0]
        latest = np.maximum.accumulate(self.end_ns[rows])[:-1]
        at = np.maximum.accumulate(np.where(self.end_ns[rows[:-1]] == latest, np.arange(len(rows) - 1), 0))
        alone = (self.linked.start_ns[rows[1:]] >= latest) & ~np.isin(rows[1:], launched) & (rows[at] < rows[1:])
        return rows[at[alone]], rows[1:][alone]

    def _lags(self, kind: NDArray[np.uint8], since: Ints, target: NDArray[np.intp]) -> Ints:
        """int64[edges]: what lies at least between the end of an edge's source and the begin of its target's work: what
        usually does where that edge was the last, if there was so much; less than nothing where they overlap."""
        latest = np.full(len(self.linked), np.iinfo(np.int64).max)
        np.minimum.at(latest, target, since)
        lag = np.minimum(since, 0)
        for one in _LAGGING:
            own = kind == one
            last = own & (since == latest[target]) & (since >= 0)
            if last.any():
                lag[own] = np.minimum(since[own], int(np.percentile(since[last], _USUAL)))
        return lag

    def ends(self, duration: Floats) -> Floats:
        """float64[rows]: when each ends, with such durations, in ns after the first begin: exact, which it would not be
        since 1970."""
        found: Floats = self.graph.times(duration)[self.number]
        return found

    def chosen(self, asked: Asked) -> Mask:
        """bool[rows]: what a change is of. Raises InputError."""
        linked = self.linked
        classes = linked.strings.each(linked.name, class_of_name, np.uint8)
        device = linked.is_device
        kernels, host = linked.kind == RowKind.KERNEL, ~device & (linked.kind != RowKind.HOST_COLLECTIVE)
        moves = np.isin(linked.kind, (RowKind.MEMCPY, RowKind.MEMSET))
        talks = (kernels & (classes == COMMUNICATION)) | (linked.kind == RowKind.HOST_COLLECTIVE)
        words = {
            "all": np.ones(len(linked), np.bool_),
            "communication": talks,
            "compute": kernels & (classes == COMPUTE),
            "memory": moves | (kernels & (classes == MEMORY)),
            "host": host,
        }
        if asked.target in words:
            chosen: Mask = words[asked.target]
            return chosen
        if asked.family not in ("kernel", "op"):
            raise asked.refusal("no such target", asked.target, ", ".join(TARGETS), near(asked.target, WORDS) or None)
        named = linked.strings.each(linked.name, asked.names)
        own: Mask = named & (device if asked.family == "kernel" else host)
        if not own.any():
            raise asked.refusal(f"the trace has no such {asked.family}", asked.name, "a name, * for any letters")
        return own

    def times(self, ends: Any) -> list[tuple[int, float]]:
        """Each step's number and how long it takes, in ns, with such ends of rows after the first begin; without steps
        the whole."""
        linked = self.linked
        if not self.marks:
            return [(-1, float(ends.max()) if len(linked) else 0.0)]
        found, before = [], -np.inf
        for at in sorted(self.marks, key=lambda at: int(linked.annotations.start_ns[at])):
            step, thread = int(linked.annotations.step[at]), linked.annotations.thread[at]
            begin = int(linked.annotations.start_ns[at])
            end = begin + int(linked.annotations.duration_ns[at])
            own = np.flatnonzero(linked.step == step)
            inside = np.flatnonzero((linked.lane == thread) & (self.end_ns > begin) & (linked.start_ns < end))
            first, last = (self._at(inside[side], time, ends) if len(inside) else float(time - self.first)
                           for side, time in ((0, begin), (-1, end)))  # fmt: skip
            over = max(last, float(ends[own].max()) if len(own) else last)
            found.append((step, max(over - max(first, before), 0.0)))
            before = max(before, over)
        return found

    def _at(self, row: int, time: int, ends: Any) -> float:
        """When it is that was so long before the end of a row as recorded; what the row waits does not move with it."""
        lead = int(self.end_ns[row]) - time
        return float(ends[row] - min(lead, int(self.linked.duration_ns[row])))

    def share(self, step: int) -> float | None:
        """`StepPath.delay_only_share` of a step."""
        return next((path.delay_only_share for path in self.linked.step_paths if path.step == step), None)
