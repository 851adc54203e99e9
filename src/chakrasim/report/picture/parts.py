"""Where the time goes, as a picture: one bar for each result, its parts side by side, in a self-contained SVG."""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape

from chakrasim.errors import InputError
from chakrasim.files.outputs import write_whole
from chakrasim.simulator.outcome.records import PARTS
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.text.amounts import time_text

COLOURS = {
    "compute": "#4c78a8",
    "overlap": "#72b7b2",
    "exposed_comm": "#f58518",
    "waiting": "#e45756",
    "bubble": "#ff9da6",
    "memory": "#b279a2",
    "cpu": "#eeca3b",
    "idle": "#bab0ac",
    "done": "#e8e6e3",
}
LABELS = {
    "exposed_comm": "exposed communication",
    "waiting": "waiting for ranks",
    "memory": "remote memory",
    "cpu": "host only",
    "done": "after end",
}
WIDTH, RIGHT, ROW, BAR, TOP = 900, 110, 34, 22, 40
CHARACTER = 7.2
"""Pixels of a letter, about."""


def parts_svg(results: Mapping[str, SimulationResult]) -> str:
    """The picture: bars as long as the makespans, parts as means over the ranks. Raises InputError without results."""
    longest = max((result.makespan_ns for result in results.values()), default=0)
    if not longest:
        raise InputError("there is no time to draw", found=f"{len(results)} results", expected="results of simulations")
    left = 20 + CHARACTER * max(map(len, results))
    scale = (WIDTH - left - RIGHT) / longest
    shown = [part for at, part in enumerate(PARTS) if any(r.parts_ns[:, at].any() for r in results.values())]
    lines = [*_legend(shown, left)]
    for row, (name, result) in enumerate(results.items()):
        lines += _bar(name, result, left, TOP + row * ROW, scale)
    height = TOP + len(results) * ROW + 10
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="13">\n<rect width="100%" height="100%" fill="white"/>'
    )
    return "\n".join([head, *lines, "</svg>\n"])


def write_parts(path: str | os.PathLike[str], results: Mapping[str, SimulationResult]) -> None:
    """Write the picture to ``path``. Raises InputError if that fails."""
    write_whole(path, parts_svg(results).encode())


def _legend(parts: list[str], left: float) -> list[str]:
    lines, x = [], left
    for part in parts:
        label = LABELS.get(part, part)
        lines.append(f'<rect x="{x:.0f}" y="12" width="12" height="12" fill="{COLOURS[part]}"/>')
        lines.append(f'<text x="{x + 17:.0f}" y="23">{label}</text>')
        x += 34 + CHARACTER * len(label)
    return lines


def _bar(name: str, result: SimulationResult, left: float, y: float, scale: float) -> list[str]:
    """The name, the parts with their shares where there is room, and the makespan."""
    lines = [f'<text x="{left - 8:.0f}" y="{y + 16:.0f}" text-anchor="end">{escape(name)}</text>']
    x = left
    for part, mean_ns in zip(PARTS, result.parts_ns.mean(axis=0).tolist(), strict=True):
        width = mean_ns * scale
        if not width:
            continue
        share = f"{100 * mean_ns / result.makespan_ns:.1f} %"
        title = f"{LABELS.get(part, part)}: {time_text(round(mean_ns))}, {share}"
        lines.append(
            f'<rect x="{x:.1f}" y="{y:.0f}" width="{width:.1f}" height="{BAR}" fill="{COLOURS[part]}">'
            f"<title>{title}</title></rect>"
        )
        if width > CHARACTER * len(share):
            lines.append(f'<text x="{x + width / 2:.1f}" y="{y + 16:.0f}" text-anchor="middle">{share}</text>')
        x += width
    lines.append(f'<text x="{x + 8:.0f}" y="{y + 16:.0f}">{time_text(result.makespan_ns)}</text>')
    return lines
