"""Write the tables and the picture of explanation-steps.md anew: python docs/write_steps.py. It takes minutes."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chakrasim import validate_steps
from chakrasim.report.picture.scoreboard import plot_svg
from chakrasim.report.tables.validation import steps_sections
from chakrasim.text.layout import Section, plain_text
from chakrasim.validation.steps.api import StepPrediction, StepsBoard

HERE = Path(__file__).parent
PAGE, PICTURE, TRIED = HERE / "explanation-steps.md", HERE / "img" / "steps.svg", HERE / "steps-tried.csv"
MARKS = r"(<!-- {} -->\n).*?(<!-- end -->\n)"


@dataclass(frozen=True)
class Times:
    """What the picture draws, in microseconds."""

    time_us: NDArray[np.float64]
    predicted_us: NDArray[np.float64]
    low_us: NDArray[np.float64]
    high_us: NDArray[np.float64]


def picture(rows: list[StepPrediction]) -> str:
    def column(of: Callable[[StepPrediction], float]) -> NDArray[np.float64]:
        return np.array([of(one) * 1e6 for one in rows])

    times = Times(column(lambda one: one.measured_s or np.nan), column(lambda one: one.predicted_s),
                  column(lambda one: one.low_s), column(lambda one: one.high_s))  # fmt: skip
    kind = np.array(
        ["adapters" if one.row.get("task") == "lora" else one.row.get("class").split("-")[0] for one in rows]
    )
    gpu = np.array([one.row.get("gpu").split("-")[0] for one in rows])
    panels = {name: np.asarray(kind == name) for name in sorted(set(kind.tolist()))}
    colours = {name: np.asarray(gpu == name) for name in sorted(set(gpu.tolist()))}
    return plot_svg("published training steps", times, panels, colours)  # type: ignore[arg-type]


def held(board: StepsBoard, rows: list[StepPrediction]) -> Section:
    """By GPU, how many measured times are inside the interval, and how wide it is."""
    names = ["all", *sorted({one.row.get("gpu") for one in rows})]
    lines = []
    for name in names:
        own = [one for one in rows if name in ("all", one.row.get("gpu"))]
        inside = [one.low_s <= (one.measured_s or 0) <= one.high_s for one in own]
        half = np.median([(one.high_s - one.low_s) / 2 / one.predicted_s for one in own])
        lines.append((name, f"{len(own)}", f"{100 * np.mean(inside):.0f} %", f"{100 * half:.0f} %"))
    return Section("Measured times inside the 90 % interval", ("GPU", "rows", "inside", "median half width"),
                   tuple(lines), (0,))  # fmt: skip


def tried() -> Section:
    """The steps that were tried first, before and after."""
    found = {one.row.id: one for one in validate_steps(TRIED).predictions}
    lines = []
    for row in csv.DictReader(TRIED.read_text(encoding="utf-8").splitlines()):
        one, measured, before = found[row["id"]], float(row["step_time_s"]), float(row["before_s"])
        lines.append((row["config"], f"{measured:.2f}", f"{before:.2f}", f"{100 * (before / measured - 1):+.0f} %",
                      f"{one.predicted_s:.2f}", f"{100 * (one.predicted_s / measured - 1):+.0f} %",
                      f"{one.low_s:.2f} to {one.high_s:.2f}"))  # fmt: skip
    columns = ("step", "measured, s", "before, s", "off", "now, s", "off", "90 % interval")
    return Section("Steps that were tried first, before and now", columns, tuple(lines), (0, 6))


def main() -> None:
    board = validate_steps()
    rows = [one for one in board.predictions if board.counted(one)]
    PICTURE.write_text(picture(rows), encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    for mark, sections in (
        ("board", [*steps_sections(board), held(board, rows)]),
        ("tried", [tried()]),
    ):
        made = f"\n```\n{plain_text(sections)}```\n\n"
        text = re.sub(MARKS.format(mark), lambda found, made=made: found[1] + made + found[2], text, flags=re.S)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
