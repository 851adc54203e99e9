"""How long steps and the whole trace took, and between which nodes, so that a simulation can be held against it."""

from __future__ import annotations

import numpy as np

from chakrasim.converter.nodes import NodePlan
from chakrasim.trace.graph import Ints
from chakrasim.trace.linked import LinkedTrace


def span_metadata(linked: LinkedTrace, plan: NodePlan) -> dict[str, object]:
    """Metadata that say what was measured.

    ``span_ns``: from the first start to the last end. For every ``ProfilerStep#N`` of a thread that has rows:
    ``step_numbers`` (N), ``step_ns`` (measured), ``step_first`` and ``step_last``: nodes of that thread, and
    ``step_first_ns`` and ``step_last_ns``: how long before the end of those nodes the step begins and ends.
    """
    content: dict[str, object] = {"span_ns": 0}
    if len(linked):
        content["span_ns"] = int(linked.end_ns.max() - linked.start_ns.min())
    found = [(at, ends) for at in _steps(linked) if (ends := _ends(linked, plan, at)) is not None]
    if found:
        columns = list(zip(*(ends for _, ends in found), strict=True))
        content["step_numbers"] = [int(linked.annotations.step[at]) for at, _ in found]
        content["step_ns"] = [int(linked.annotations.duration_ns[at]) for at, _ in found]
        for name, column in zip(("step_first", "step_first_ns", "step_last", "step_last_ns"), columns, strict=True):
            content[name] = list(column)
    return content


def _steps(linked: LinkedTrace) -> list[int]:
    numbers = np.flatnonzero(linked.annotations.step >= 0)
    listed: list[int] = numbers[np.argsort(linked.annotations.start_ns[numbers], kind="stable")].tolist()
    return listed


def _ends(linked: LinkedTrace, plan: NodePlan, step: int) -> tuple[int, int, int, int] | None:
    """First node, its time before its end at which the step begins, last node, and the same for the step's end."""
    begin = int(linked.annotations.start_ns[step])
    end = begin + int(linked.annotations.duration_ns[step])
    rows: Ints = np.flatnonzero(linked.lane == linked.annotations.thread[step])
    start, stop = linked.start_ns[rows], linked.end_ns[rows]
    inside = rows[(stop > begin) & (start < end)]
    if not len(inside):
        return None
    first, last = int(inside[0]), int(inside[-1])
    return (
        int(plan.last[first]),
        _before_end(linked, first, begin),
        int(plan.last[last]),
        _before_end(linked, last, end),
    )


def _before_end(linked: LinkedTrace, row: int, time_ns: int) -> int:
    """How long before the end of a row's own work a time is; what the row waits is no part of that."""
    end = int(linked.start_ns[row] + linked.wait_ns[row] + linked.duration_ns[row])
    return min(max(end - time_ns, 0), int(linked.duration_ns[row]))
