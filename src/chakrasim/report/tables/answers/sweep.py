"""Tables of a sweep."""

from __future__ import annotations

import math
from collections.abc import Iterator

from chakrasim.sweeps.points import ENGINE, OK, Outcome
from chakrasim.sweeps.sweep import MOST_GPUS, SweepResult
from chakrasim.text.amounts import percent_text, size_text, time_text
from chakrasim.text.layout import Section

SHOWN = 20
"""Rows of the front."""


def sweep_sections(found: SweepResult) -> list[Section]:
    """How many points there are, what was refused, and the front."""
    return list(_sections(found))


def _sections(found: SweepResult) -> Iterator[Section]:
    simulated = sum(one.by == ENGINE for one in found.outcomes)
    going = sum(one.status == OK for one in found.outcomes)
    rows = [("points", f"{len(found.outcomes):,}"), ("that go", f"{going:,}"), ("simulated", f"{simulated:,}")]
    if not math.isnan(found.largest_difference):
        rows.append(("arithmetic beside them", f"off by {percent_text(found.largest_difference)} at most"))
    if any(found.outcomes[row].by != ENGINE for row in found.front):
        rows.append(("not simulated", f"points of more than {MOST_GPUS:,} GPUs, those of the front, too"))
    if found.folder is not None:
        rows.append(("tables", str(found.folder)))
    yield Section("Sweep", (), tuple(rows), (0, 1))
    if found.refused:
        refused = tuple((f"{count:,}", reason) for reason, count in found.refused.items())
        yield Section("Refused", ("points", "why"), refused, (1,))
    keys = tuple(found.space.vary)
    order = sorted(found.front, key=lambda row: (found.outcomes[row].step_s, row))
    shown = tuple(
        (*(str(found.point(row)[key]) for key in keys), *figures_texts(found.outcomes[row])) for row in order[:SHOWN]
    )
    more = f", the fastest {SHOWN} of {len(order)}" if len(order) > SHOWN else ""
    title = "Beaten in everything by no other: " + ", ".join(found.space.front) + more
    yield Section(title, (*keys, "step", "90 % interval", "GPUs", "memory", "energy", "money"), shown)


def figures_texts(one: Outcome) -> tuple[str, ...]:
    """Step, interval, GPUs, memory, energy and money of a point."""
    energy = "-" if math.isnan(one.energy_j) else f"{one.energy_j / 1e3:,.4g} kJ"
    money = "-" if math.isnan(one.money) else f"{one.money:.4g}"
    between = "-" if math.isnan(one.low_s) else f"{time_text(1e9 * one.low_s)} to {time_text(1e9 * one.high_s)}"
    return time_text(1e9 * one.step_s), between, f"{one.gpus:,}", size_text(one.memory_bytes), energy, money
