"""Results of analyses as tables for people: one rule for all, by the names of their columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from chakrasim.analysis.table.result import Result
from chakrasim.analysis.table.scopes import scope_label
from chakrasim.report.tables.cut import brief, more_line
from chakrasim.text.amounts import number_text, size_text, time_text
from chakrasim.text.layout import Section

MOST_ROWS: Final = 40
#: Names of kernels run to thousands of letters; tables show so many.
MOST_LETTERS: Final = 72
NOTHING: Final = "n/a"


def result_section(result: Result) -> Section:
    """The table of a result: its first rows, then its notes. Figures that do not exist are "n/a"."""
    rows = result.records()[:MOST_ROWS]
    names = [name for name in result.columns() if name not in result.NOT_IN_TABLES and not _is_tacit(name, rows)]
    shown = [tuple(_cell(result, name, row[name]) for name in names) for row in rows]
    left = tuple(i for i, name in enumerate(names) if any(isinstance(row[name], str) for row in rows))
    lines = more_line(result, shown, "row", " (--json or --csv has all)") + (() if shown else ("nothing to show",))
    heads = tuple(name if result.AS_IT_IS else _head(name) for name in names)
    return Section(result.TITLE, heads if shown else (), tuple(shown), left, (*lines, *result.notes))


def result_sections(results: Sequence[Result], *, gather: bool = True) -> list[Section]:
    """The tables of several results; a note that several have stands with the first only. ``gather``: of several, those
    with nothing to show are named in one line."""
    said: set[str] = set()
    sections = []
    empty = []
    for result in results:
        if gather and len(results) > 1 and not len(result) and said.issuperset(result.notes):
            empty.append(result.TITLE)
            continue
        section = result_section(result)
        lines = tuple(line for line in section.lines if line not in said)
        said.update(result.notes)
        sections.append(Section(section.title, section.columns, section.rows, section.left, lines))
    if empty:
        sections.append(Section("Nothing to show", (), (), (), (", ".join(empty),)))
    return sections


def _is_tacit(name: str, rows: list[dict[str, Any]]) -> bool:
    """Whether a column says nothing: one device only, no step that lacks work (its label would say so)."""
    if name == "partial":
        return True
    return name == "device" and len({row[name] for row in rows}) < 2


def _head(name: str) -> str:
    for ending, instead in (("_ns", ""), ("_pct", " %"), ("_gbps", " GB/s")):
        if name.endswith(ending) and len(name) > len(ending):
            name = name.removesuffix(ending) + instead
    return {"step": "scope", "pct": "%"}.get(name, name.replace("_", " "))


def _cell(result: Result, name: str, value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return NOTHING
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if result.AS_IT_IS:
        return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"
    special: dict[str, Callable[[Any], str]] = {
        "step": scope_label,
        "stream": lambda stream: {-2: "all", -1: "none"}.get(stream, str(stream)),
        "rank": str,
        "correlation": str,
        "event": str,
        "bytes": size_text,
    }
    if name in special:
        return special[name](value)
    if name.endswith("_pct") or name == "pct":
        return f"{value:.1f}%"
    if name.endswith("_ns") and name not in ("ts_ns", "start_ns"):
        return time_text(value)
    return f"{value:,}" if isinstance(value, int) else number_text(value)


def _cut(text: str) -> str:
    return brief(" ".join(text.split()).removeprefix("void "), MOST_LETTERS)
