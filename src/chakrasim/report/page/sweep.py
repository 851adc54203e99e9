"""Pages of searches: the best split and those next to it; the points of a sweep, with the front."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from chakrasim.estimation.result import StepEstimate
from chakrasim.report.page.answer import sections_page
from chakrasim.report.page.estimate import memory_bars, step_facts
from chakrasim.report.page.parts import Bars, Fact, Page, Part, Scatter, Series, Table
from chakrasim.report.tables.answers.plan import plan_sections
from chakrasim.report.tables.answers.sweep import (
    drawn_points,
    figure_of,
    figures_texts,
    interval_text,
    point_name,
    sweep_sections,
)
from chakrasim.sweeps.plan import Plan
from chakrasim.sweeps.points import Outcome
from chakrasim.sweeps.sweep import SweepResult
from chakrasim.text.amounts import time_text

_UNITS: Final = {"step_s": "seconds", "memory_bytes": "bytes", "gpus": "count", "energy_j": "J", "money": "count"}
_NAMES: Final = {"step_s": "step", "memory_bytes": "memory of the fullest GPU", "gpus": "GPUs", "energy_j": "energy"}


def plan_page(found: Plan, *, question: str, warnings: tuple[str, ...] = ()) -> Page:
    """The page of ``chakrasim plan``; figures are those of `Plan.to_json`."""
    step = found.best.step
    verdict = (
        Fact("the best split", ", ".join(f"{key} {value}" for key, value in found.best.split.items()), step.split),
        Fact("a step takes", time_text(1e9 * step.step_s), f"90 % interval: {step.interval_text}"),
        *step_facts(step),
        Fact("tried", f"{found.tried:,}", f"splits, {sum(found.refused.values()):,} refused; intervals of "
             f"{found.overlapping} of {len(found.runners_up)} runners-up overlap with the best"),
    )  # fmt: skip
    tables = [section for section in plan_sections(found)[1:] if section.title != "Assumed"]
    page = sections_page(question, tables, verdict, [_splits(found), memory_bars(step)], warnings)
    return replace(page, assumed=found.assumed)


def _splits(found: Plan) -> Part:
    """Where the time of each split goes."""
    own = [found.best, *found.runners_up]
    steps: list[StepEstimate] = [one.step for one in own]
    names = dict.fromkeys(name for step in steps for name, value in step.parts_s.items() if value)
    series = tuple(
        Series(name, tuple(round(step.parts_s.get(name, 0.0), 9) for step in steps), f"*.parts_s.{name}", "seconds")
        for name in names
    )
    return Bars("Where the time goes, the best split first", tuple(step.split for step in steps), series)


def sweep_page(found: SweepResult, *, question: str) -> Page:
    """The page of ``chakrasim sweep``: the front over all points, and a table of them that sorts and filters."""
    return sections_page(question, sweep_sections(found), tuple(_verdict(found)), tuple(_points(found)))


def _verdict(found: SweepResult) -> Iterator[Fact]:
    if found.best is not None:
        best, keys = found.outcomes[found.best], found.point(found.best)
        between = "" if math.isnan(best.low_s) else f", 90 % interval {interval_text(best)}"
        name = ", ".join(f"{key} {keys[key]}" for key in found.space.vary)
        yield Fact("the fastest point takes", time_text(1e9 * best.step_s), f"{name}{between}")
    yield Fact("points that go", f"{found.going:,}", f"of {len(found.outcomes):,}", bad=not found.going)
    yield Fact("on the front", f"{len(found.front):,}", "beaten in everything by no other")


def _points(found: SweepResult) -> Iterator[Part]:
    """The points that go, the fastest first, and at the least those of the front."""
    chosen, left = drawn_points(found)
    front = set(found.front)
    if not chosen:
        return
    lines = (f"{left:,} slower points are in the tables of the folder only",) if left else ()
    keys, points = tuple(found.space.vary), {row: found.point(row) for row in chosen}
    names = tuple(point_name(found, row) for row in chosen)
    for goal in found.space.front:
        if goal == "step_s" or len({figure_of(found.outcomes[row], goal) for row in chosen}) < 2:
            continue
        x, y = (_series(name, [found.outcomes[row] for row in chosen]) for name in ("step_s", goal))
        places = tuple(i for i, row in enumerate(chosen) if row in front)
        yield Scatter(f"{x.name} and {y.name}", x, y, names, places, lines=lines)
    rows = tuple(
        (*(str(points[row][key]) for key in keys), *figures_texts(found.outcomes[row]), "yes" if row in front else "")
        for row in chosen
    )
    columns = (*keys, "step", "90 % interval", "GPUs", "memory", "energy", "money", "front")
    yield Table("Points", columns, rows, lines=lines)


def _series(name: str, outcomes: list[Outcome]) -> Series:
    values = tuple(figure_of(one, name) for one in outcomes)
    return Series(_NAMES.get(name, name), values, "", _UNITS.get(name, "count"))
