"""Predicted against measured times of collectives: self-contained SVG files, one a machine and one of all."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from html import escape
from math import ceil, floor
from typing import Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.files.outputs import write_whole
from chakrasim.text.amounts import time_text
from chakrasim.validation.scoreboard.api import Scoreboard
from chakrasim.validation.scoreboard.predictions import Bools, Floats, Predictions

COLOURS: Final = (
    *("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#eeca3b", "#9d755d", "#79706e", "#ff9da6"),
)
SIDE, LEFT, TOP, GAP, FOOT, ROW = 240, 64, 40, 44, 4, 4
"""Of a panel and what is around it, in pixels; panels of a row."""
FINE: Final = 2
"""Steps of a coordinate in a pixel."""
LEGEND: Final = 18
MARGIN: Final = 0.15
"""Of the axes, beyond the least and the greatest time, in powers of ten."""
OVERVIEW: Final = "all-machines"


def write_plots(folder: str | os.PathLike[str], board: Scoreboard) -> list[str]:
    """Write the pictures into a folder, which is made, and return their paths. Raises InputError if that fails, and if
    nothing was measured."""
    rows, pictures = board.predictions.some(board.predictions.known), {}
    if not len(rows):
        raise InputError("there is nothing to draw", found="no measured times", expected="points with time_us")
    machine = rows.of_curves([one.curve.machine for one in rows.curves])
    collective = rows.of_curves([one.curve.collective for one in rows.curves])
    ranks = rows.of_curves([_ranks(one.curve.nodes, one.curve.nranks) for one in rows.curves])
    panels = {name: np.asarray(which) for name, which in board.scopes(rows).items()}
    if panels:
        pictures[OVERVIEW] = plot_svg("all machines", rows, panels, _by(machine), intervals=False)
    for name in sorted(set(machine.tolist())):
        own: Bools = machine == name
        panels = {kind: own & (collective == kind) for kind in sorted(set(collective[own].tolist()))}
        pictures[name] = plot_svg(name, rows, panels, _by(np.where(own, ranks, "")))
    paths = [os.path.join(os.fspath(folder), f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.svg") for name in pictures]
    for path, picture in zip(paths, pictures.values(), strict=True):
        write_whole(path, picture.encode())
    return paths


def plot_svg(
    title: str, rows: Predictions, panels: Mapping[str, Bools], kinds: Mapping[str, Bools], intervals: bool = True
) -> str:
    """The picture: a panel for each part of the rows, measured times to the right, predicted ones upwards, both by
    logarithms; a colour for each kind of row, with its 90 % interval behind."""
    drawn = np.any(list(panels.values()), axis=0)
    both = np.log10(np.concatenate([rows.time_us[drawn], rows.predicted_us[drawn]]))
    ends = float(both.min()) - MARGIN, float(both.max()) + MARGIN
    kinds = {name: which for name, which in kinds.items() if name and (which & drawn).any()}
    across, down = min(len(panels), ROW), -(-len(panels) // ROW)
    width = LEFT + across * (SIDE + GAP)
    below = TOP + down * (SIDE + GAP + FOOT)
    height = below + LEGEND * -(-len(kinds) // ROW) + 12
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="18" font-size="14">{escape(title)}: predicted against measured</text>',
    ]
    for at, (name, which) in enumerate(panels.items()):
        x, y = LEFT + at % ROW * (SIDE + GAP), TOP + at // ROW * (SIDE + GAP + FOOT)
        lines += _panel(name, x, y, ends, at % ROW == 0)
        lines.append(f'<g transform="translate({x} {y}) scale({1 / FINE:g})" fill="none" stroke-linecap="round">')
        lines += [line for line in _points(rows, which, kinds, ends, intervals) if line]
        lines.append("</g>")
    for at, name in enumerate(kinds):
        x, y = LEFT + at % ROW * (SIDE + GAP), below + at // ROW * LEGEND
        lines.append(f'<circle cx="{x + 4}" cy="{y}" r="4" fill="{COLOURS[at % len(COLOURS)]}"/>')
        lines.append(f'<text x="{x + 14}" y="{y + 4}">{escape(name)}</text>')
    return "\n".join([*lines, "</svg>\n"])


def _panel(name: str, x: int, y: int, ends: tuple[float, float], first: bool) -> list[str]:
    """Frame, a line for each power of ten, and the diagonal."""
    lines = [
        f'<text x="{x}" y="{y - 5}">{escape(name)}</text>',
        f'<rect x="{x}" y="{y}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#e4e4e4"/>',
    ]
    for power in range(ceil(ends[0]), floor(ends[1]) + 1):
        at = SIDE * (power - ends[0]) / (ends[1] - ends[0])
        label = time_text(10**power * 1000)
        lines.append(f'<path d="M{x + at:.1f} {y}v{SIDE}M{x} {y + SIDE - at:.1f}h{SIDE}" stroke="#e4e4e4"/>')
        lines.append(f'<text x="{x + at:.1f}" y="{y + SIDE + 14}" text-anchor="middle" font-size="9">{label}</text>')
        if first:
            lines.append(
                f'<text x="{x - 5}" y="{y + SIDE - at + 3:.1f}" text-anchor="end" font-size="9">{label}</text>'
            )
    lines.append(f'<path d="M{x} {y + SIDE}l{SIDE} {-SIDE}" stroke="#888"/>')
    return lines


def _points(
    rows: Predictions, which: Bools, kinds: Mapping[str, Bools], ends: tuple[float, float], intervals: bool
) -> list[str]:
    """Paths of dots in the colours of their kinds, over one of intervals; one stands for those at one place."""
    x, y = (_place(times, ends) for times in (rows.time_us, rows.predicted_us))
    top = SIDE * FINE
    bars = []
    if intervals:
        held = which & ~np.isnan(rows.low_us)
        low, high = (_place(times[held], ends) for times in (rows.low_us, rows.high_us))
        chosen = {across: (a, b) for across, a, b in zip(x[held].tolist(), low.tolist(), high.tolist(), strict=True)}
        bars = [f"M{across} {top - a}V{top - b}" for across, (a, b) in sorted(chosen.items())]
    lines = [f'<path d="{"".join(bars)}" stroke="#bbb" stroke-width="1"/>' if bars else ""]
    for at, own in enumerate(kinds.values()):
        some = which & own
        dots = sorted(set(zip(x[some].tolist(), y[some].tolist(), strict=True)))
        if dots:
            path = "".join(f"M{across} {top - up}h0" for across, up in dots)
            lines.append(f'<path d="{path}" stroke="{COLOURS[at % len(COLOURS)]}" stroke-width="{3 * FINE}"/>')
    return lines


def _place(times: Floats, ends: tuple[float, float]) -> np.ndarray:
    """Whole steps from the lower end, none beyond an end."""
    with np.errstate(invalid="ignore"):
        part = (np.log10(times) - ends[0]) / (ends[1] - ends[0])
    return np.rint(np.clip(np.nan_to_num(part), 0, 1) * SIDE * FINE).astype(np.int64)


def _by(labels: np.ndarray) -> dict[str, Bools]:
    names = sorted(set(labels.tolist()), key=lambda name: [int(part) if part.isdigit() else 0 for part in name.split()])
    return {name: np.asarray(labels == name) for name in names}


def _ranks(nodes: int, ranks: int) -> str:
    return f"{ranks} ranks" if nodes == 1 else f"{ranks} ranks on {nodes} nodes"
