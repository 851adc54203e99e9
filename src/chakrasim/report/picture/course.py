"""Bytes over time, as steps: an SVG with a line for each rank or device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chakrasim.report.picture.axes import HEIGHT, LEFT, LETTER, TOP, WIDE, Axis, Figure, Plane, text
from chakrasim.report.picture.files import xml_text
from chakrasim.text.amounts import size_text, time_text

COLOURS: Final = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#b279a2", "#72b7b2", "#eeca3b", "#9d755d")
FINEST: Final = 2 * WIDE
"""Steps of a line: of those that fall together the highest is drawn."""
TIME: Final = Figure("time", time_text)
MEMORY: Final = Figure("memory in use", size_text, 2.0**20)


class Course(NamedTuple):
    """What is in use from each time on, until the next: ascending ``times_ns`` int64[k], ``values`` int64[k]."""

    name: str
    times_ns: NDArray[np.int64]
    values: NDArray[np.int64]


def course_svg(courses: Sequence[Course], end_ns: int, line: str, limit: tuple[str, float] | None = None) -> str:
    """The picture of at least one course that is not empty, each to the end; ``limit``: a line that has a name."""
    drawn = [one for one in courses if len(one.times_ns)]
    highest = max([int(one.values.max()) for one in drawn] + ([round(limit[1])] if limit else []))
    begin = min(0, *(int(one.times_ns[0]) for one in drawn))
    plane = Plane(Axis(TIME, [begin, max(end_ns, begin + 1)], log=False), Axis(MEMORY, [0, highest or 1], log=False))
    content = [_line(plane, one, end_ns, number) for number, one in enumerate(drawn)]
    return plane.svg(line, [*content, *_legend(drawn), *(_limit(plane, *limit) if limit else ())])


def thinned(times_ns: NDArray[np.int64], values: NDArray[np.int64], end_ns: int, most: int) -> tuple[
    NDArray[np.int64], NDArray[np.int64]
]:  # fmt: skip
    """At most about ``most`` steps: of those in one part of the time the highest and the last are kept, in order."""
    if len(times_ns) <= most:
        return times_ns, values
    first = int(times_ns[0])
    part = (times_ns - first) * (most // 2) // max(end_ns - first, 1)
    begins = np.flatnonzero(np.concatenate([[True], part[1:] != part[:-1]]))
    ends = np.append(begins[1:], len(part)) - 1
    order = np.lexsort((-np.arange(len(part)), values, part))
    kept = np.union1d(order[ends], ends)
    return times_ns[kept], values[kept]


def _line(plane: Plane, one: Course, end_ns: int, number: int) -> str:
    times, values = thinned(one.times_ns, one.values, end_ns, FINEST)
    steps = "".join(
        f"H{plane.x(at):.1f}V{plane.y(value):.1f}" for at, value in zip(times.tolist(), values.tolist(), strict=True)
    )
    path = f"M{plane.x(int(times[0])):.1f} {plane.y(0):.1f}{steps}H{plane.x(end_ns):.1f}"
    most = int(one.values.argmax())
    said = f"{one.name}: at most {size_text(int(one.values[most]))}, at {time_text(int(one.times_ns[most]))}"
    return (
        f'<path d="{path}" fill="none" stroke="{COLOURS[number % len(COLOURS)]}" stroke-width="1.5">'
        f"<title>{xml_text(said)}</title></path>"
    )


def _legend(courses: Sequence[Course]) -> Iterator[str]:
    x = float(LEFT)
    for number, one in enumerate(courses):
        words = f"{one.name}: {size_text(int(one.values.max()))}"
        yield f'<rect x="{x:.0f}" y="{HEIGHT - 12}" width="10" height="10" fill="{COLOURS[number % len(COLOURS)]}"/>'
        yield text(x + 14, HEIGHT - 3, words)
        x += 30 + LETTER * len(words)


def _limit(plane: Plane, name: str, value: float) -> Iterator[str]:
    y = plane.y(value)
    yield f'<path d="M{LEFT} {y:.1f}h{WIDE}" stroke="#e45756" stroke-dasharray="5 4"/>'
    yield text(LEFT + WIDE - 4, max(y - 4, TOP + 12), f"{name}: {size_text(value)}", "end")
