"""Points by two figures, some of them marked: an SVG whose points have their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from chakrasim.report.picture.axes import Axis, Figure, Plane
from chakrasim.report.picture.files import xml_text

MARKED, OTHER = "#e45756", "#9ecae9"


class Dot(NamedTuple):
    """A point; ``name`` is shown where the mouse is over it."""

    x: float
    y: float
    name: str
    marked: bool = False


def scatter_svg(dots: Sequence[Dot], across: Figure, up: Figure, line: str = "") -> str:
    """The picture of at least one point, marked ones above the others."""
    plane = Plane(Axis(across, [dot.x for dot in dots]), Axis(up, [dot.y for dot in dots]))
    return plane.svg(line, [dot_svg(plane, dot) for dot in sorted(dots, key=lambda one: one.marked)])


def dot_svg(plane: Plane, dot: Dot) -> str:
    """A point with its name and figures."""
    said = f"{dot.name}: {plane.across.figure.text(dot.x)}, {plane.up.figure.text(dot.y)}"
    return (
        f'<circle cx="{plane.x(dot.x):.1f}" cy="{plane.y(dot.y):.1f}" r="{4 if dot.marked else 3}" '
        f'fill="{MARKED if dot.marked else OTHER}"><title>{xml_text(said)}</title></circle>'
    )
