"""The scoreboard of collectives, for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from chakrasim.text.layout import Section
from chakrasim.validation.scoreboard.api import with_baselines
from chakrasim.validation.scoreboard.predictions import CLASSES
from chakrasim.validation.scoreboard.scores import coverage, scores

if TYPE_CHECKING:
    from chakrasim.validation.scoreboard.api import Scoreboard
    from chakrasim.validation.scoreboard.predictions import Bools, Predictions
    from chakrasim.validation.scoreboard.scores import Coverage, Score
    from chakrasim.validation.scoreboard.tasks import Task


def scoreboard_sections(board: Scoreboard) -> list[Section]:
    """Pooled errors beside baselines, intervals, what was hidden, errors by machine, and what was refused."""
    tasks = [_task(board, task) for task in board.tasks]
    return [_pooled(board), _intervals(board), *tasks, _by_machine(board), _refused(board)]


def _pooled(board: Scoreboard) -> Section:
    rows = []
    for scope, which in board.scopes(board.predictions).items():
        for name, some in with_baselines(board.predictions, board.baselines).items():
            rows.append((scope if name == "model" else "", name, *_errors(scores(some, which))))
    return Section(
        "Mean absolute error in per cent by size: of each curve, then of curves",
        ("measured on", "predicted by", *CLASSES),
        tuple(rows),
        (0, 1),
        (
            f"points: {len(board.predictions):,} of {len(board.pooled):,} curves; counted here: {sum(board.pooled):,}",
            f"weights fitted to: {board.weights}; alpha-beta and interpolation know every second size of each curve",
            f"measured: {board.source}",
        ),
    )


def _intervals(board: Scoreboard) -> Section:
    rows = []
    for scope, which in board.scopes(board.predictions).items():
        rows += _coverage((scope,), coverage(board.predictions, which))
    title = "Intervals that nine of ten points are to lie in"
    return Section(title, ("measured on", "", *CLASSES, "all"), tuple(rows), (0, 1))


def _coverage(heads: tuple[str, ...], found: tuple[Coverage, ...]) -> list[tuple[str, ...]]:
    inside = (f"{one.inside_pct:.0f} %" if one.points else "" for one in found)
    half = (f"{one.half_width_pct:.0f} %" if one.points else "" for one in found)
    return [(*heads, "points inside", *inside), (*("" for _ in heads), "half width", *half)]


def _task(board: Scoreboard, task: Task) -> Section:
    rows = []
    for scope, which in board.scopes(task.predictions).items():
        for name, some in with_baselines(task.predictions, task.baselines).items():
            rows.append((scope if name == "model" else "", f"error, {name}", *_errors(scores(some, which)), ""))
        rows += _coverage(("",), coverage(task.predictions, which))
    hidden = f"{len(task.predictions):,} points hidden; constants fitted to the machine's others"
    return Section(
        f"Hidden and predicted: {task.name}", ("measured on", "", *CLASSES, "all"), tuple(rows), (0, 1), (hidden,)
    )


def _errors(found: tuple[Score, ...]) -> tuple[str, ...]:
    return tuple(f"{one.error_pct:.1f}" if one.points else "" for one in found)


def _by_machine(board: Scoreboard) -> Section:
    rows, found = [], board.predictions
    made = [(one.curve.machine, one.curve.collective) for one in found.curves]
    machine, collective = (found.of_curves([pair[at] for pair in made]) for at in (0, 1))
    counted = {name for (name, _), counts in zip(made, board.pooled, strict=True) if counts}
    for name in dict.fromkeys(pair[0] for pair in sorted(made)):
        of_machine: Bools = machine == name
        all_sizes = coverage(found, of_machine)[-1]
        remark = all_sizes.remark if name in counted else "not counted above"
        rows.append((name, "", *_line(found, of_machine), remark))
        for kind in sorted({own for other, own in made if other == name}):
            rows.append(("", kind, *_line(found, of_machine & (collective == kind)), ""))
    head = ("machine", "collective", "curves", *CLASSES, "inside", "")
    return Section("By machine and collective", head, tuple(rows), (0, 1, 8))


def _line(rows: Predictions, which: Bools) -> tuple[str, ...]:
    inside = coverage(rows, which)[-1]
    curves = len(np.unique(rows.curve[which]))
    return f"{curves}", *_errors(scores(rows, which)), f"{inside.inside_pct:.0f} %" if inside.points else ""


def _refused(board: Scoreboard) -> Section:
    reasons = Counter(one.reason for one in board.refused)
    rows = tuple((f"{count:,}", reason) for reason, count in reasons.most_common())
    share = f"of the curves that count: {board.refused_pct:.1f} %"
    return Section("Curves that are not predicted", ("curves", "reason"), rows, (1,), (share,) if rows else ("none",))
