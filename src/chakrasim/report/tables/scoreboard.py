"""The scoreboard of collectives, for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from chakrasim.text.layout import Section
from chakrasim.validation.scoreboard.predictions import CLASSES
from chakrasim.validation.scoreboard.scores import coverage, scores

if TYPE_CHECKING:
    from chakrasim.validation.scoreboard.api import Scoreboard
    from chakrasim.validation.scoreboard.predictions import Bools
    from chakrasim.validation.scoreboard.scores import Score


def scoreboard_sections(board: Scoreboard) -> list[Section]:
    """Pooled errors beside baselines, intervals, errors by machine and collective, and what was refused."""
    return [_pooled(board), _intervals(board), _by_machine(board), _refused(board)]


def _pooled(board: Scoreboard) -> Section:
    rows = []
    named = {"model": board.predictions}
    named |= {name: board.predictions.instead(times) for name, times in board.baselines.items()}
    for scope, which in board.scopes.items():
        for name, some in named.items():
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


def _errors(found: tuple[Score, ...]) -> tuple[str, ...]:
    return tuple(f"{one.error_pct:.1f}" if one.points else "" for one in found)


def _intervals(board: Scoreboard) -> Section:
    rows = []
    for scope, which in board.scopes.items():
        found = coverage(board.predictions, which)
        rows.append((scope, "points inside", *(f"{one.inside_pct:.0f} %" if one.points else "" for one in found)))
        rows.append(("", "half width", *(f"{one.half_width_pct:.0f} %" if one.points else "" for one in found)))
    title = "Intervals that nine of ten points are to lie in"
    return Section(title, ("measured on", "", *CLASSES, "all"), tuple(rows), (0, 1))


def _by_machine(board: Scoreboard) -> Section:
    rows, counted = [], np.array(board.pooled, np.bool_)
    made = [(one.curve.machine, one.curve.collective) for one in board.predictions.curves]
    of_row = board.predictions.of_curves([f"{machine}\n{collective}" for machine, collective in made])
    last = ""
    for machine, collective in sorted(set(made)):
        which: Bools = of_row == f"{machine}\n{collective}"
        inside = coverage(board.predictions, which)[-1]
        mine = np.array([pair == (machine, collective) for pair in made], np.bool_)
        rows.append(
            (
                machine if machine != last else "",
                collective,
                f"{mine.sum()}",
                *_errors(scores(board.predictions, which)),
                f"{inside.inside_pct:.0f} %" if inside.points else "",
                "" if counted[mine].any() else "not counted above",
            )
        )
        last = machine
    head = ("machine", "collective", "curves", *CLASSES, "inside", "")
    return Section("By machine and collective", head, tuple(rows), (0, 1, 8))


def _refused(board: Scoreboard) -> Section:
    reasons = Counter(one.reason for one in board.refused)
    rows = tuple((f"{count:,}", reason) for reason, count in reasons.most_common())
    share = f"of the curves that count: {board.refused_pct:.1f} %"
    return Section("Curves that are not predicted", ("curves", "reason"), rows, (1,), (share,) if rows else ("none",))
