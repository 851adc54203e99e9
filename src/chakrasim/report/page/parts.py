"""What a page holds, as plain data: nothing here knows HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from chakrasim.text.layout import Section

Unit = str
"""Of figures: ``ns``, ``microseconds``, ``seconds``, ``bytes``, ``share`` (0 to 1), ``count``, or a word that stands
behind the number."""
MOST_ROWS: Final = 20_000
"""Of a table: more would make a page that no browser likes."""


@dataclass(frozen=True)
class Fact:
    """A figure of the verdict: its name, the figure as people read it, and what is to be said of it."""

    name: str
    text: str
    note: str = ""
    bad: bool = False


@dataclass(frozen=True)
class Series:
    """Figures, and where they stand in the command's JSON (``key``); ``colour`` is one of CSS, "" takes the next."""

    name: str
    values: tuple[float | None, ...]
    key: str = ""
    unit: Unit = "ns"
    colour: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "values": list(self.values),
            "key": self.key,
            "unit": self.unit,
            "colour": self.colour,
        }


@dataclass(frozen=True)
class Part:
    """What all parts have: a title and lines of text below."""

    title: str
    lines: tuple[str, ...] = field(default=(), kw_only=True)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; ``kind`` says which part it is."""
        return {"kind": type(self).__name__.lower(), "title": self.title, "lines": list(self.lines)}


@dataclass(frozen=True)
class Text(Part):
    """Lines alone; ``loud`` ones are warnings."""

    loud: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "loud": self.loud}


@dataclass(frozen=True)
class Table(Part):
    """A table of text, sorted by a click: cells are compared as amounts where they begin with one (``1.5 ms``)."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[int, ...] = (0,)

    def to_dict(self) -> dict[str, Any]:
        left = len(self.rows) - MOST_ROWS
        more = [f"{left:,} more rows are not on this page"] if left > 0 else []
        own = {"columns": self.columns, "rows": self.rows[:MOST_ROWS], "left": self.left}
        return {**super().to_dict(), **own, "lines": [*self.lines, *more]}


def table_of(section: Section, title: str = "") -> Part:
    """A section of a command's report as a part."""
    if not section.rows:
        return Text(title or section.title, lines=section.lines, loud=section.loud)
    return Table(title or section.title, section.columns, section.rows, section.left, lines=section.lines)


@dataclass(frozen=True)
class Bars(Part):
    """A bar for each label, series stacked in it; ``at[i]``: which entry of the JSON's lists bar i is, -1 for none."""

    labels: tuple[str, ...]
    series: tuple[Series, ...]
    at: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "labels": self.labels, "series": _dicts(self.series), "at": self.at}


@dataclass(frozen=True)
class Heat(Part):
    """Cells in rows of ``columns``, coloured by one of ``measures``, which the reader chooses; ``each`` names a cell
    (``rank``), and stands for ``block`` of them."""

    each: str
    measures: tuple[Series, ...]
    columns: int
    block: int = 1

    def to_dict(self) -> dict[str, Any]:
        own = {"each": self.each, "measures": _dicts(self.measures), "columns": self.columns, "block": self.block}
        return {**super().to_dict(), **own}


@dataclass(frozen=True)
class Lane:
    """A row of a timeline; lanes of one ``group`` are shown and hidden together."""

    name: str
    group: str


@dataclass(frozen=True)
class Timeline(Part):
    """Spans on lanes, that zooms. ``events`` has a row for each: lane, start, end (ns), name, kind, each of the last
    two a number in ``names`` and ``kinds`` (what a colour stands for)."""

    lanes: tuple[Lane, ...]
    events: tuple[tuple[int, int, int, int, int], ...]
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    colours: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        own = {
            "lanes": [{"name": lane.name, "group": lane.group} for lane in self.lanes],
            "events": self.events,
            "names": self.names,
            "kinds": self.kinds,
            "colours": dict(self.colours),
        }
        return {**super().to_dict(), **own}


@dataclass(frozen=True)
class Scatter(Part):
    """Points, those of ``front`` (positions) stressed and joined; ``names`` says what each is."""

    x: Series
    y: Series
    names: tuple[str, ...]
    front: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        own = {"x": self.x.to_dict(), "y": self.y.to_dict(), "names": self.names, "front": self.front}
        return {**super().to_dict(), **own}


@dataclass(frozen=True)
class Image(Part):
    """An SVG picture, shown as an image, in which no script runs."""

    svg: str

    def to_dict(self) -> dict[str, Any]:
        from base64 import b64encode

        return {**super().to_dict(), "source": f"data:image/svg+xml;base64,{b64encode(self.svg.encode()).decode()}"}


@dataclass(frozen=True)
class Input:
    """A file that was read, or several under one name: how many, their bytes, and what identifies them."""

    name: str
    files: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class Page:
    """A page: what was asked, what the answer is, and what shows it. ``command`` repeats it."""

    question: str
    verdict: tuple[Fact, ...]
    parts: tuple[Part, ...]
    assumed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    inputs: tuple[Input, ...] = ()
    command: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they stand in the page."""
        from chakrasim.version import __version__

        return {
            "question": self.question,
            "verdict": [vars(fact) for fact in self.verdict],
            "parts": [part.to_dict() for part in self.parts],
            "assumed": self.assumed,
            "warnings": self.warnings,
            "inputs": [vars(one) for one in self.inputs],
            "command": self.command,
            "version": __version__,
        }


def plain(values: Any) -> tuple[Any, ...]:
    """A column as a tuple of Python's numbers."""
    return tuple(np.asarray(values).tolist())


def _dicts(series: tuple[Series, ...]) -> list[dict[str, Any]]:
    return [one.to_dict() for one in series]
