"""Tables of a sweep."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from chakrasim.sweeps.points import ENGINE, OK, Outcome, known
from chakrasim.sweeps.sensitivity import GAIN
from chakrasim.sweeps.sweep import MOST_GPUS, SweepResult
from chakrasim.text.amounts import percent_text, size_text, time_text
from chakrasim.text.layout import Section

_COLUMNS = ("step", "GPUs", "memory", "energy", "money")
SHOWN = 20
"""Rows of the front."""
MOST_POINTS = 5_000
"""Points of a chart, or of a table of them all."""


def sweep_sections(found: SweepResult) -> list[Section]:
    """How many points there are, what was refused, and the front."""
    return list(_sections(found))


def _sections(found: SweepResult) -> Iterator[Section]:
    counts = {"points": len(found.outcomes), "not tried": found.untried, "that go": found.going,
              "simulated": found.simulated}  # fmt: skip
    if not found.untried:
        del counts["not tried"]
    rows = [(name, f"{count:,}") for name, count in counts.items()]
    if not math.isnan(found.largest_difference):
        rows.append(("arithmetic beside them", f"off by {percent_text(found.largest_difference)} at most"))
    if any(found.outcomes[row].by != ENGINE for row in found.front):
        rows.append(("not simulated", f"points of more than {MOST_GPUS:,} GPUs, those of the front, too"))
    if found.folder is not None:
        rows.append(("tables", str(found.folder)))
    yield Section("Sweep", (), tuple(rows), (0, 1))
    yield from refused_sections("points", found.refused)
    keys = tuple(found.space.vary)
    order = sorted(found.front, key=lambda row: (found.outcomes[row].step_s, row))
    shown = tuple(
        (*(str(found.point(row)[key]) for key in keys), *figures_texts(found.outcomes[row])) for row in order[:SHOWN]
    )
    more = f", the fastest {SHOWN} of {len(order)}" if len(order) > SHOWN else ""
    title = "Beaten in everything by no other: " + ", ".join(found.space.front) + more
    yield Section(title, (*keys, "step", "90 % interval", "GPUs", "memory", "energy", "money"), shown)
    yield from _beside(found)


def _beside(found: SweepResult) -> Iterator[Section]:
    """What the best hangs on, where the front bends, what a gain costs."""

    def named(row: int) -> str:
        return point_name(found, row)

    def step(row: int) -> str:
        return time_text(1e9 * found.outcomes[row].step_s)

    hangs = tuple(
        (one.key, f"{one.power:+.3f}", *(part for row in (one.low, one.high)
         for part in (str(found.point(row)[one.key]), step(row))))
        for one in found.elasticities
    )  # fmt: skip
    if hangs:
        title = "At the fastest point: the power of each key that its time goes by"
        yield Section(title, ("key", "power", "from", "step", "to", "step"), hangs, (0,))
    bends = tuple((axis, named(row), *_figures(found, row)) for axis, row in found.knees.items())
    if bends:
        title = "Knees: the points of step and one other figure farthest from the line between the ends"
        yield Section(title, ("beside step", "point", *_COLUMNS), bends, (0, 1))
    gains = tuple(
        row
        for one in found.changes
        for row in ((one.cost, f"from {named(one.base)}", *_figures(found, one.base)),
                    ("", f"to {named(one.to)}", *_figures(found, one.to)))
    )  # fmt: skip
    if gains:
        title = f"The cheapest change that gains {GAIN:.0%}, from the point with the least of each"
        yield Section(title, ("least", "point", *_COLUMNS), gains, (0, 1))


def _figures(found: SweepResult, row: int) -> tuple[str, ...]:
    step, _, *others = figures_texts(found.outcomes[row])
    return step, *others


def drawn_points(found: SweepResult) -> tuple[list[int], int]:
    """The points that go, the fastest first, of many those of the front and the fastest others; how many are left."""
    going = [row for row, one in enumerate(found.outcomes) if one.status == OK]
    front = set(found.front)
    order = sorted(going, key=lambda row: (row not in front, found.outcomes[row].step_s, row))
    chosen = sorted(order[:MOST_POINTS], key=lambda row: (found.outcomes[row].step_s, row))
    return chosen, len(going) - len(chosen)


def point_name(found: SweepResult, row: int) -> str:
    """The values of the varied keys."""
    point = found.point(row)
    return ", ".join(f"{key} {point[key]}" for key in found.space.vary)


def figure_of(outcome: Outcome, name: str) -> float | None:
    """A figure of a point; None where nobody knows it."""
    value: float | None = known(float(getattr(outcome, name)))
    return value


def refused_sections(what: str, refused: Mapping[str, int]) -> list[Section]:
    """How many ``what`` were refused, by reason; nothing if none was."""
    rows = tuple((f"{count:,}", reason) for reason, count in refused.items())
    return [Section("Refused", (what, "why"), rows, (1,))] if rows else []


def interval_text(one: Outcome) -> str:
    """The 90 % interval of a point."""
    return "-" if math.isnan(one.low_s) else f"{time_text(1e9 * one.low_s)} to {time_text(1e9 * one.high_s)}"


def figures_texts(one: Outcome) -> tuple[str, ...]:
    """Step, interval, GPUs, memory, energy and money of a point."""
    energy = "-" if math.isnan(one.energy_j) else f"{one.energy_j / 1e3:,.4g} kJ"
    money = "-" if math.isnan(one.money) else f"{one.money:.4g}"
    return time_text(1e9 * one.step_s), interval_text(one), f"{one.gpus:,}", size_text(one.memory_bytes), energy, money
