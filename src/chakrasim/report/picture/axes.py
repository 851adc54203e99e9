"""Two axes, linear or logarithmic, with round values along them: what pictures of figures are drawn on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from chakrasim.report.picture.files import xml_text

WIDTH, HEIGHT, LEFT, RIGHT, TOP, FOOT = 760, 460, 100, 30, 34, 52
WIDE, HIGH = WIDTH - LEFT - RIGHT, HEIGHT - TOP - FOOT
TICKS: Final = 6
APART: Final = 20
"""From so large a ratio of the largest to the smallest on, an axis is logarithmic."""


class Figure(NamedTuple):
    """What an axis has, how its values are said, and of what they are round multiples at its lines."""

    name: str
    text: Callable[[float], str]
    unit: float = 1.0


class Axis:
    """From values to shares of the axis, and round values along it. ``log``: whether it is logarithmic, and values
    are above 0; unless said, where they are far apart."""

    def __init__(self, figure: Figure, values: Sequence[float], log: bool | None = None) -> None:
        self.figure, self.unit = figure, figure.unit
        low, high = min(values) / self.unit, max(values) / self.unit
        self.log = low > 0 and high / low >= APART if log is None else log
        ends = [math.log10(one) if self.log else one for one in (low, high)]
        alike = ends[1] - ends[0] <= 1e-9 * abs(ends[1])
        margin = (abs(ends[0]) / 10 or 1.0) if alike else 0.05 * (ends[1] - ends[0])
        self.low, self.high = ends[0] - margin, ends[1] + margin

    def share(self, value: float) -> float:
        value /= self.unit
        return ((math.log10(value) if self.log else value) - self.low) / (self.high - self.low)

    @property
    def ends(self) -> tuple[float, float]:
        """The values at its ends."""
        low, high = (10.0**end if self.log else end for end in (self.low, self.high))
        return low * self.unit, high * self.unit

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


class Plane(NamedTuple):
    """Two axes and what is between them."""

    across: Axis
    up: Axis

    def x(self, value: float) -> float:
        """Pixels from the left."""
        return LEFT + self.across.share(value) * WIDE

    def y(self, value: float) -> float:
        """Pixels from the top."""
        return TOP + (1 - self.up.share(value)) * HIGH

    def svg(self, line: str, content: Sequence[str]) -> str:
        """The picture: a line of text, the axes, and what stands between them."""
        return "\n".join([*self._frame(line), *content, "</svg>\n"])

    def _frame(self, line: str) -> Iterator[str]:
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            'font-family="sans-serif" font-size="12">'
        )
        yield '<rect width="100%" height="100%" fill="white"/>'
        yield f'<rect x="{LEFT}" y="{TOP}" width="{WIDE}" height="{HIGH}" fill="none" stroke="#ccc"/>'
        yield text(8, 20, line)
        yield text(LEFT + WIDE / 2, HEIGHT - 12, self.across.figure.name, "middle")
        name = text(0, 0, self.up.figure.name, "middle")
        yield f'<g transform="translate(16 {TOP + HIGH / 2:.0f}) rotate(-90)">{name}</g>'
        for tick in self.across.ticks():
            yield f'<path d="M{self.x(tick):.1f} {TOP}v{HIGH}" stroke="#eee"/>'
            yield text(self.x(tick), TOP + HIGH + 16, self.across.figure.text(tick), "middle")
        for tick in self.up.ticks():
            yield f'<path d="M{LEFT} {self.y(tick):.1f}h{WIDE}" stroke="#eee"/>'
            yield text(LEFT - 6, self.y(tick) + 4, self.up.figure.text(tick), "end")


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    """Words at a place, whatever is in them."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{xml_text(words)}</text>'


HALO: Final = '<text stroke="white" stroke-width="3" stroke-linejoin="round" paint-order="stroke"'
LETTER, LINE = 6.4, 13
"""Pixels of a letter, about, and of a line."""


def labels(places: Sequence[tuple[float, float, str]], radius: float = 6) -> Iterator[str]:
    """Words beside places, to the left where there is no room to the right; none over another, as far as moving them up
    or down goes."""
    taken: list[tuple[float, float, float]] = []
    for x, y, words in places:
        long = LETTER * len(words)
        right = x + radius + long <= LEFT + WIDE
        begin = x + radius if right else x - radius - long
        tried = [y + 4 + LINE * sign * step for step in range(8) for sign in (1, -1)]
        inside = [at for at in tried if TOP + LINE <= at <= TOP + HIGH - 3] or [y + 4]
        near = [other for other, first, end in taken if begin < end and first < begin + long]
        free = [at for at in inside if all(abs(at - other) >= LINE for other in near)]
        at = free[0] if free else inside[0]
        taken.append((at, begin, begin + long))
        own = text(x + radius if right else x - radius, at, words, "start" if right else "end")
        yield own.replace("<text", HALO, 1)
