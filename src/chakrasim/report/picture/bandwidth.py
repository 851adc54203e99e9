"""Bus bandwidth over size, as a picture: predicted collectives with their interval, in a self-contained SVG."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from html import escape
from typing import Final

from chakrasim.errors import InputError
from chakrasim.files.outputs import write_whole
from chakrasim.simulator.prediction import CollectivePrediction
from chakrasim.text.amounts import number_text, size_text, time_text

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 460, 70, 20, 40, 60
COLOURS: Final = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#eeca3b", "#9d755d")


def bandwidth_svg(found: Sequence[CollectivePrediction]) -> str:
    """The picture: both axes logarithmic, the interval shaded, a colour for each algorithm with its protocol.

    Raises InputError for fewer than two sizes.
    """
    if len(found) < 2:
        raise InputError("there is no curve to draw", found=f"{len(found)} sizes", expected="two sizes or more")
    low = [each.busbw_GBps * each.time_us / each.high_us for each in found]
    high = [each.busbw_GBps * each.time_us / each.low_us for each in found]
    axes = _Axes(found[0].size_bytes, found[-1].size_bytes, min(low), max(high))
    lines = [*_grid(axes), _band(axes, found, low, high), *_curves(axes, found)]
    title = f"{found[0].collective}, {found[0].ranks} ranks: bus bandwidth in GB/s, with the 90 % interval"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="{LEFT}" y="24" font-size="14">{escape(title)}</text>'
    )
    return "\n".join([head, *lines, "</svg>\n"])


def write_bandwidth(path: str | os.PathLike[str], found: Sequence[CollectivePrediction]) -> None:
    """Write the picture to ``path``. Raises InputError if that fails."""
    write_whole(path, bandwidth_svg(found).encode())


class _Axes:
    """Where sizes and bandwidths stand in the picture."""

    def __init__(self, first: int, last: int, low: float, high: float) -> None:
        self.first, self.last = math.log2(first), max(math.log2(last), math.log2(first) + 1e-9)
        self.low = math.floor(math.log10(low))
        self.high = max(math.ceil(math.log10(high)), self.low + 1)

    def x(self, size: float) -> float:
        return LEFT + (math.log2(size) - self.first) / (self.last - self.first) * (WIDTH - LEFT - RIGHT)

    def y(self, bandwidth: float) -> float:
        share = (math.log10(bandwidth) - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _grid(axes: _Axes) -> list[str]:
    lines = []
    for power in range(axes.low, axes.high + 1):
        y = axes.y(10.0**power)
        lines.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        lines.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{number_text(10.0**power)}</text>')
    step = max(1, round((axes.last - axes.first) / 10))
    for power in range(math.ceil(axes.first), math.floor(axes.last) + 1, step):
        x = axes.x(2.0**power)
        lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#eee"/>')
        lines.append(
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{size_text(2.0**power)}</text>'
        )
    return lines


def _band(axes: _Axes, found: Sequence[CollectivePrediction], low: Sequence[float], high: Sequence[float]) -> str:
    above = [f"{axes.x(each.size_bytes):.1f},{axes.y(value):.1f}" for each, value in zip(found, high, strict=True)]
    below = [f"{axes.x(each.size_bytes):.1f},{axes.y(value):.1f}" for each, value in zip(found, low, strict=True)]
    return f'<polygon points="{" ".join([*above, *reversed(below)])}" fill="#4c78a8" fill-opacity="0.15"/>'


def _curves(axes: _Axes, found: Sequence[CollectivePrediction]) -> list[str]:
    """A line through all, and points in the colour of what the library chose, with a legend."""
    points = [f"{axes.x(each.size_bytes):.1f},{axes.y(each.busbw_GBps):.1f}" for each in found]
    lines = [f'<polyline points="{" ".join(points)}" fill="none" stroke="#888"/>']
    chosen = [f"{each.algorithm} {each.protocol}".strip() or "rings of messages" for each in found]
    colours = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(dict.fromkeys(chosen))}
    for each, name in zip(found, chosen, strict=True):
        title = f"{size_text(each.size_bytes)}: {time_text(1e3 * each.time_us)}, {name}, limited by {each.limited_by}"
        lines.append(
            f'<circle cx="{axes.x(each.size_bytes):.1f}" cy="{axes.y(each.busbw_GBps):.1f}" r="4" '
            f'fill="{colours[name]}"><title>{escape(title)}</title></circle>'
        )
    x = float(LEFT)
    for name, colour in colours.items():
        lines.append(f'<circle cx="{x + 6:.0f}" cy="{HEIGHT - 16}" r="5" fill="{colour}"/>')
        lines.append(f'<text x="{x + 16:.0f}" y="{HEIGHT - 12}">{escape(name)}</text>')
        x += 36 + 7 * len(name)
    return lines
