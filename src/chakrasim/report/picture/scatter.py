"""Points by two figures, some of them marked: an SVG whose points have their names."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from chakrasim.report.picture.files import xml_text

WIDTH, HEIGHT, LEFT, RIGHT, TOP, FOOT = 760, 460, 100, 30, 34, 52
MARKED, OTHER = "#e45756", "#9ecae9"
TICKS: Final = 6
WIDE: Final = 20
"""From so large a ratio of the largest to the smallest on, an axis is logarithmic."""


class Dot(NamedTuple):
    """A point; ``name`` is shown where the mouse is over it."""

    x: float
    y: float
    name: str
    marked: bool = False


class Figure(NamedTuple):
    """What an axis has, how its values are said, and of what they are round multiples at its lines."""

    name: str
    text: Callable[[float], str]
    unit: float = 1.0


class _Axis:
    """From values to shares of the axis, and round values along it."""

    def __init__(self, figure: Figure, values: Sequence[float]) -> None:
        self.unit = figure.unit
        low, high = min(values) / self.unit, max(values) / self.unit
        self.log = low > 0 and high / low >= WIDE
        ends = [math.log10(one) if self.log else one for one in (low, high)]
        alike = ends[1] - ends[0] <= 1e-9 * abs(ends[1])
        margin = (abs(ends[0]) / 10 or 1.0) if alike else 0.05 * (ends[1] - ends[0])
        self.low, self.high = ends[0] - margin, ends[1] + margin

    def share(self, value: float) -> float:
        value /= self.unit
        return ((math.log10(value) if self.log else value) - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        return [self.unit * tick for tick in self._round()]

    def _round(self) -> list[float]:
        if self.log:
            powers = range(math.floor(self.low), math.ceil(self.high) + 1)
            factors = (1, 2, 5) if len(powers) <= TICKS // 2 + 1 else (1,)
            every = [factor * 10.0**power for power in powers for factor in factors]
            return [one for one in every if self.low <= math.log10(one) <= self.high]
        rough = (self.high - self.low) / TICKS
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
        return [at * step for at in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]


def scatter_svg(dots: Sequence[Dot], across: Figure, up: Figure, line: str = "") -> str:
    """The picture of at least one point, marked ones above the others."""
    x, y = _Axis(across, [dot.x for dot in dots]), _Axis(up, [dot.y for dot in dots])
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - FOOT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<rect x="{LEFT}" y="{TOP}" width="{wide}" height="{high}" fill="none" stroke="#ccc"/>',
        _text(LEFT, 20, line),
        _text(LEFT + wide / 2, HEIGHT - 12, across.name, "middle"),
        f'<g transform="translate(16 {TOP + high / 2:.0f}) rotate(-90)">{_text(0, 0, up.name, "middle")}</g>',
    ]
    for tick in x.ticks():
        at = LEFT + x.share(tick) * wide
        lines.append(f'<path d="M{at:.1f} {TOP}v{high}" stroke="#eee"/>')
        lines.append(_text(at, TOP + high + 16, across.text(tick), "middle"))
    for tick in y.ticks():
        at = TOP + (1 - y.share(tick)) * high
        lines.append(f'<path d="M{LEFT} {at:.1f}h{wide}" stroke="#eee"/>')
        lines.append(_text(LEFT - 6, at + 4, up.text(tick), "end"))
    for dot in sorted(dots, key=lambda one: one.marked):
        said = f"{dot.name}: {across.text(dot.x)}, {up.text(dot.y)}"
        lines.append(
            f'<circle cx="{LEFT + x.share(dot.x) * wide:.1f}" cy="{TOP + (1 - y.share(dot.y)) * high:.1f}" '
            f'r="{4 if dot.marked else 3}" fill="{MARKED if dot.marked else OTHER}">'
            f"<title>{xml_text(said)}</title></circle>"
        )
    return "\n".join([*lines, "</svg>\n"])


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{xml_text(words)}</text>'
