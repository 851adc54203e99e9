"""What an experiment comes to: answers, tables of figures, what was assumed, and what could not be compared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from chakrasim.text.amounts import number_text, size_text, time_text
from chakrasim.text.shown import Shown

Cell = str | int | float | None
WORD, COUNT, SECONDS, BYTES, SHARE, PER_CENT, RATIO = "", "count", "seconds", "bytes", "share", "%", "ratio"
"""Units of columns; ``%`` is shown with a sign, ``ratio`` and ``share`` (0 to 1) with three decimals."""
_DIGITS: Final = 9
"""That figures keep: the last bits of a double differ between machines."""


@dataclass(frozen=True)
class Table:
    """Rows of figures.

    ``columns`` have a name and a unit each; cells of the unit `WORD` are text, None is no figure. Pictures: ``bars``,
    columns that are stacked into a bar for each row; ``against``, a column and another beside it.
    """

    title: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Cell, ...], ...]
    lines: tuple[str, ...] = ()
    bars: tuple[str, ...] = ()
    against: tuple[str, str] | None = None

    def column(self, name: str) -> tuple[Cell, ...]:
        """The cells of a column."""
        at = self.names.index(name)
        return tuple(row[at] for row in self.rows)

    def numbers(self, name: str) -> list[float]:
        """The numbers in a column."""
        return [float(cell) for cell in self.column(name) if isinstance(cell, int | float)]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)

    @property
    def words(self) -> tuple[int, ...]:
        """Which columns are text."""
        return tuple(at for at, (_, unit) in enumerate(self.columns) if unit == WORD)

    @property
    def labels(self) -> tuple[str, ...]:
        """What each row is, from the columns of text that differ between rows."""
        told = [at for at in self.words if len({row[at] for row in self.rows}) > 1] or list(self.words[:1])
        return tuple(", ".join(str(row[at]) for at in told if row[at]) for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the names of the columns in their order, and a mapping under them for each row."""
        rows = [dict(zip(self.names, map(_short, row), strict=True)) for row in self.rows]
        of_all = {"title": self.title, "columns": list(self.names), "units": dict(self.columns)}
        return {**of_all, "rows": rows, "notes": list(self.lines)}


@dataclass(frozen=True)
class Experiment(Shown):
    """The outcome of ``chakrasim.experiment``.

    Attributes
    ----------
    name, question: what was asked.
    answers: what came out in short: a name and words for each.
    tables: the figures.
    assumed: what the experiment takes for given that its source does not say, in words.
    not_compared: what was published, or not, and is not held against these figures, and why.
    source: who did it first, and where published figures beside ours come from.
    """

    name: str
    question: str
    answers: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
    assumed: tuple[str, ...]
    not_compared: tuple[str, ...]
    source: str

    def to_json(self) -> dict[str, Any]:
        """Plain values, as ``chakrasim experiment --json`` writes them."""
        return {
            "experiment": self.name,
            "question": self.question,
            "answers": dict(self.answers),
            "tables": [table.to_dict() for table in self.tables],
            "assumed": list(self.assumed),
            "not_compared": list(self.not_compared),
            "source": self.source,
        }

    def _in_short(self) -> dict[str, str]:
        return {"experiment": self.name, **dict(self.answers)}


def cell_text(cell: Cell, unit: str) -> str:
    """A cell for people."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    if not math.isfinite(cell):
        return ""
    if unit == SECONDS:
        return time_text(1e9 * cell)
    if unit == BYTES:
        return size_text(cell)
    if unit == PER_CENT:
        return f"{cell:+.2f}"
    if unit in (RATIO, SHARE):
        return f"{cell:.3f}"
    return f"{cell:,}" if isinstance(cell, int) else number_text(cell)


def _short(cell: Cell) -> Cell:
    if not isinstance(cell, float):
        return cell
    return float(f"{cell:.{_DIGITS}g}") if math.isfinite(cell) else None
