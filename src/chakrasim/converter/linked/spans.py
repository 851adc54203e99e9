"""How long steps and the whole trace took, and between which nodes, so that a simulation can be held against it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from chakrasim.converter.linked.nodes import NodePlan
from chakrasim.trace.linked.columns import LinkedTrace, StepPath
from chakrasim.trace.linked.parts import CHUNK, LinkedParts


@dataclass
class Spans:
    """When a trace begins and ends (0 without rows), and which rows its steps begin and end with.

    ``first`` and ``last``, by the step's place among the annotations: a row, and how long before the end of its own
    work the step begins or ends.
    """

    begin_ns: int = 0
    end_ns: int = 0
    first: dict[int, tuple[int, int]] = field(default_factory=dict)
    last: dict[int, tuple[int, int]] = field(default_factory=dict)


def find_spans(parts: LinkedParts) -> Spans:
    """Go through all rows."""
    spans = Spans()
    for number, part in enumerate(parts.parts()):
        low, high = int(part.start_ns.min()), int(part.end_ns.max())
        spans.begin_ns = min(spans.begin_ns, low) if number else low
        spans.end_ns = max(spans.end_ns, high) if number else high
        _add_steps(spans, part, number * CHUNK, low, high)
    return spans


def _add_steps(spans: Spans, part: LinkedTrace, place: int, low: int, high: int) -> None:
    """Add the steps that rows of a part, from ``low`` to ``high``, lie in; ``place``: of the part in the whole."""
    notes, end_ns = part.annotations, part.end_ns
    begins, ends = notes.start_ns, notes.start_ns + notes.duration_ns
    for step in np.flatnonzero((notes.step >= 0) & (begins < high) & (ends > low)).tolist():
        begin, end = int(begins[step]), int(ends[step])
        inside = np.flatnonzero((part.lane == notes.thread[step]) & (end_ns > begin) & (part.start_ns < end))
        if len(inside):
            first, last = int(inside[0]), int(inside[-1])
            spans.first.setdefault(step, (place + first, _before_end(part, first, begin)))
            spans.last[step] = place + last, _before_end(part, last, end)


def span_metadata(spans: Spans, linked: LinkedTrace, plan: NodePlan) -> dict[str, object]:
    """Metadata that say what was measured.

    ``span_ns``: from the first start to the last end. For every ``ProfilerStep#N`` of a thread that has rows:
    ``step_numbers`` (N), ``step_ns`` (measured), ``step_first`` and ``step_last``: nodes of that thread, and
    ``step_first_ns`` and ``step_last_ns``: how long before the end of those nodes the step begins and ends;
    ``step_path_ns`` and ``step_delay_only_ns``: its critical path and the delays on it (`StepPath`), which of a trace
    without steps are ``path_ns`` and ``delay_only_ns``.
    """
    content: dict[str, object] = {"span_ns": spans.end_ns - spans.begin_ns}
    paths = {path.step: path for path in linked.step_paths}
    if -1 in paths:
        content |= {"path_ns": paths[-1].path_ns, "delay_only_ns": paths[-1].delay_ns}
    steps = [step for step in _steps(linked) if step in spans.first]
    if steps:
        content["step_numbers"] = [int(linked.annotations.step[at]) for at in steps]
        content["step_ns"] = [int(linked.annotations.duration_ns[at]) for at in steps]
        for name, found in (("step_first", spans.first), ("step_last", spans.last)):
            rows = np.array([found[at][0] for at in steps], np.int64)
            content[name] = plan.last(rows).tolist()
            content[f"{name}_ns"] = [found[at][1] for at in steps]
        of_steps = [paths.get(int(linked.annotations.step[at]), StepPath(-1, 0, 0)) for at in steps]
        if paths:
            content["step_path_ns"] = [path.path_ns for path in of_steps]
            content["step_delay_only_ns"] = [path.delay_ns for path in of_steps]
    return content


def _steps(linked: LinkedTrace) -> list[int]:
    numbers = np.flatnonzero(linked.annotations.step >= 0)
    listed: list[int] = numbers[np.argsort(linked.annotations.start_ns[numbers], kind="stable")].tolist()
    return listed


def _before_end(linked: LinkedTrace, row: int, time_ns: int) -> int:
    """How long before the end of a row's own work a time is; what the row waits is no part of that."""
    end = int(linked.start_ns[row] + linked.wait_ns[row] + linked.duration_ns[row])
    return min(max(end - time_ns, 0), int(linked.duration_ns[row]))
