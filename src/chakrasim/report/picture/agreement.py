"""Predicted against measured times: points about a diagonal, the interval, and the names of the farthest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from chakrasim.errors import InputError
from chakrasim.report.picture.axes import HIGH, LEFT, TOP, WIDE, Axis, Figure, Plane, labels
from chakrasim.report.picture.files import xml_text
from chakrasim.report.tables.cut import brief
from chakrasim.text.amounts import plural, time_text

DOT, FAR = "#4c78a8", "#e45756"
NAMED: Final = 8
"""The points that are named."""
NINE: Final = 0.9
MANY: Final = 600
"""More points are drawn as one path: only those with names say where the mouse is what they are, and intervals are
counted only."""
LETTERS: Final = 44


class Pair(NamedTuple):
    """Times in ns; ``low_ns`` to ``high_ns`` is the interval of the prediction, NaN where there is none."""

    name: str
    measured_ns: float
    predicted_ns: float
    low_ns: float = math.nan
    high_ns: float = math.nan
    group: str = ""
    """Of what has this name only the farthest is named."""

    @property
    def off(self) -> float:
        """How far away: the logarithm of predicted over measured."""
        return math.log(self.predicted_ns / self.measured_ns)

    @property
    def told(self) -> str:
        """It in words."""
        times = f"measured {time_text(self.measured_ns)}, predicted {time_text(self.predicted_ns)}"
        return f"{self.name}: {times} ({math.expm1(self.off):+.1%})"


def band_of(pairs: Sequence[Pair]) -> float:
    """The factor, at least 1, within which nine of ten predictions are of what was measured: above or below."""
    far = sorted(abs(one.off) for one in pairs)
    return math.exp(far[max(math.ceil(NINE * len(far)) - 1, 0)])


def usable(pairs: Sequence[Pair]) -> list[Pair]:
    """Those whose times are above 0."""
    return [one for one in pairs if one.measured_ns > 0 and one.predicted_ns > 0]


def farthest(pairs: Sequence[Pair]) -> list[Pair]:
    """The few that are named, the farthest first; none that is right."""
    found: dict[str, Pair] = {}
    for one in sorted(pairs, key=lambda pair: -abs(pair.off)):
        if len(found) < NAMED and one.off:
            found.setdefault(one.group or f"{len(found)}", one)
    return list(found.values())


def agreement_svg(pairs: Sequence[Pair], predicted: str = "predicted") -> str:
    """The picture. Raises InputError where nothing was measured."""
    drawn = usable(pairs)
    if not drawn:
        raise InputError("there is nothing to draw: no times were measured", found=plural(len(pairs), "prediction"))
    every = [time for one in drawn for time in (one.measured_ns, one.predicted_ns)]
    plane = Plane(Axis(Figure("measured", time_text), every, True), Axis(Figure(predicted, time_text), every, True))
    band = band_of(drawn)
    far = farthest(drawn)
    marks = [
        (plane.x(one.measured_ns), plane.y(one.predicted_ns),
         f"{brief(one.name, LETTERS)} {math.expm1(one.off):+.1%}") for one in far
    ]  # fmt: skip
    if len(drawn) > MANY:
        points = [_cloud(plane, drawn)]
    else:
        points = [_interval(plane, one) for one in drawn if not math.isnan(one.low_ns)]
        points += [_dot(plane, one, DOT) for one in drawn if one not in far]
    content = [_band(plane, band), *points, *(_dot(plane, one, FAR) for one in reversed(far)), *labels(marks)]
    return plane.svg(_line(drawn, len(pairs) - len(drawn), band), content)


def _line(drawn: Sequence[Pair], left: int, band: float) -> str:
    said = f"{plural(len(drawn), 'time')}; nine of ten within a factor of {band:.3f} (shaded)"
    known = [one for one in drawn if not math.isnan(one.low_ns)]
    if known:
        inside = sum(one.low_ns <= one.measured_ns <= one.high_ns for one in known)
        said += f"; {inside:,} inside their 90 % interval{' (bars)' if len(drawn) <= MANY else ''}"
    return said + (f"; {left:,} without a time left out" if left else "")


def _band(plane: Plane, factor: float) -> str:
    """From the diagonal up and down by the factor, and the diagonal."""
    low, high = plane.across.ends
    rise = math.log10(factor) / (plane.up.high - plane.up.low) * HIGH
    left, right = plane.x(low), plane.x(high)
    down, up = plane.y(low), plane.y(high)
    shape = f"M{left:.1f} {down - rise:.1f}L{right:.1f} {up - rise:.1f}V{up + rise:.1f}L{left:.1f} {down + rise:.1f}Z"
    clip = f'<clipPath id="inside"><rect x="{LEFT}" y="{TOP}" width="{WIDE}" height="{HIGH}"/></clipPath>'
    diagonal = f'<path d="M{left:.1f} {down:.1f}L{right:.1f} {up:.1f}" stroke="#888"/>'
    return f'{clip}<path d="{shape}" fill="{DOT}" fill-opacity="0.12" clip-path="url(#inside)"/>{diagonal}'


def _interval(plane: Plane, one: Pair) -> str:
    floor, roof = plane.up.ends
    low, high = (min(max(end, floor), roof) for end in (one.low_ns, one.high_ns))
    return f'<path d="M{plane.x(one.measured_ns):.1f} {plane.y(low):.1f}V{plane.y(high):.1f}" stroke="#bbb"/>'


def _dot(plane: Plane, one: Pair, colour: str) -> str:
    return (
        f'<circle cx="{plane.x(one.measured_ns):.1f}" cy="{plane.y(one.predicted_ns):.1f}" r="3.5" fill="{colour}" '
        f'fill-opacity="0.7"><title>{xml_text(one.told)}</title></circle>'
    )


def _cloud(plane: Plane, pairs: Sequence[Pair]) -> str:
    """Points without names; one stands for those at one place."""
    places = sorted({(round(plane.x(one.measured_ns)), round(plane.y(one.predicted_ns))) for one in pairs})
    path = "".join(f"M{x} {y}h0" for x, y in places)
    return f'<path d="{path}" stroke="{DOT}" stroke-opacity="0.5" stroke-width="3" stroke-linecap="round"/>'


def pairs_note(pairs: Sequence[Pair]) -> Iterator[str]:
    """The farthest points in words."""
    for one in farthest(usable(pairs)):
        yield one.told
