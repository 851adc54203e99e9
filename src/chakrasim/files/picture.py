"""Pictures of results: shown by notebooks, saved as files."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Final

from chakrasim.errors import InputError
from chakrasim.files.outputs import write_whole
from chakrasim.lazy import offered
from chakrasim.text.shown import Shown

DRAWING: Final = "plot"
"""The name under which the package offers what draws results."""


@dataclass(frozen=True)
class Picture:
    """``svg``: the drawing as a self-contained file."""

    svg: str = field(repr=False)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it. Raises InputError for a name that does not end in ``.svg``, and if it cannot be written."""
        if not os.fspath(path).lower().endswith(".svg"):
            raise InputError("this kind of picture is not known", file=os.fspath(path), expected="a name in .svg")
        write_whole(path, self.svg.encode("utf-8", "replace"))


class Drawn:
    """Base of results that there are pictures of."""

    def plot(self, what: str | None = None, **options: Any) -> Picture:
        """The picture of it, which a notebook shows, and whose ``save(path)`` writes an SVG file.

        Of a simulation what ranks do over time, "memory" over time (``ranks=[3, 12]`` chooses them for both), the
        "roofline" of its kinds of work, or what was "measured" of a recorded job's steps; of an estimate the parts of
        the step, of a sweep its points and the front (``beside="gpus"``: the figure beside the time of a step), of a
        comparison the causes of the difference, of a validation predicted against measured times, of recorded memory
        its course. Raises InputError where there is nothing to draw.
        """
        return Picture(offered(DRAWING)(self, what=what, **options))


class Plotted(Shown, Drawn):
    """Those of them that Python's prompt shows by their figures."""
