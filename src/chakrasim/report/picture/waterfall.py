"""Parts of a time one after another, each beginning where the one before it ends, and their sum: an SVG."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from chakrasim.report.picture.files import xml_text
from chakrasim.report.tables.cut import brief

WIDTH, LEFT, RIGHT, ROW, BAR, TOP = 940, 300, 150, 24, 16, 52
CHARACTER: Final = 6.4
"""Pixels of a letter, about."""
UP, DOWN, SUM = "#e45756", "#54a24b", "#79706e"
PART: Final = "#4c78a8"


class Bar(NamedTuple):
    """``length`` in ns, less than 0 where time is gained; ``text`` stands beside it."""

    label: str
    length: float
    text: str


def waterfall_svg(title: str, bars: Sequence[Bar], whole: Bar, line: str = "") -> str:
    """The picture; ``whole`` begins at 0. Where any part is less than 0, colours say which way parts go."""
    ends = [0.0, *accumulate(bar.length for bar in bars)]
    low, high = min(*ends, whole.length, 0.0), max(*ends, whole.length)
    scale = (WIDTH - LEFT - RIGHT) / (high - low or 1)
    both = whole.length < 0 or any(bar.length < 0 for bar in bars)
    lines = [_text(8, 18, brief(title, 140), size=13), _text(8, 36, line)]
    zero = LEFT - low * scale
    rows = [*((bar, begin) for bar, begin in zip(bars, ends, strict=False)), (whole, 0.0)]
    for at, (bar, begin) in enumerate(rows):
        y = TOP + at * ROW
        left = LEFT + (min(begin, begin + bar.length) - low) * scale
        width = max(abs(bar.length) * scale, 0.5)
        colour = SUM if at == len(bars) else PART if not both else UP if bar.length > 0 else DOWN
        lines += [
            _text(LEFT - 8, y + 12, brief(bar.label, int((LEFT - 16) / CHARACTER)), "end"),
            f'<rect x="{left:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{colour}">'
            f"<title>{xml_text(f'{bar.label}: {bar.text}')}</title></rect>",
            _text(left + width + 6, y + 12, bar.text),
        ]
    height = TOP + len(rows) * ROW + 8
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">'
    )
    ground = '<rect width="100%" height="100%" fill="white"/>'
    axis = f'<path d="M{zero:.1f} {TOP - 6}V{height - 6}" stroke="#888"/>'
    return "\n".join([head, ground, axis, *lines, "</svg>\n"])


def _text(x: float, y: float, words: str, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" font-size="{size}">{xml_text(words)}</text>'
