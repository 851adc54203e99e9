"""Profiler steps, measured beside simulated, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from chakrasim.simulator.outcome.steps import StepTime
from chakrasim.text.amounts import percent_text, time_text
from chakrasim.text.layout import Section

MOST_ROWS: Final = 16


def step_section(steps: Sequence[StepTime]) -> Section:
    """The steps as a table, those of the largest error first where there are too many."""
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
            percent_text(time.delay_only_share),
        )
        for time in shown
    )
    if steps:
        lines = (*lines, _largest(steps))
    columns = ("rank", "step", "measured", "simulated", "error", "delay only")
    return Section("Profiler steps", columns, rows, (), lines)


def _largest(steps: Sequence[StepTime]) -> str:
    known = [time.delay_only_share for time in steps if time.delay_only_share is not None]
    share = f"up to {percent_text(max(known))} of a critical path is" if known else "an unknown share is"
    worst = max(abs(time.error_pct) for time in steps)
    return f"largest error {worst:.2f} %; {share} delay that no dependency explains (delay only)"
