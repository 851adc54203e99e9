"""Published experiments, for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from chakrasim.experiments.result import Experiment, Table, cell_text
from chakrasim.text.layout import Section

if TYPE_CHECKING:
    from chakrasim.experiments.api import Known


def experiment_sections(found: Experiment) -> list[Section]:
    """The answers, the tables, what was assumed, and what is not compared."""
    return [
        Section(found.question, rows=found.answers, left=(0, 1)),
        *map(_section, found.tables),
        Section("Assumed", lines=found.assumed),
        Section("Not compared", lines=found.not_compared),
        Section("Source", lines=(found.source,)),
    ]


def experiments_sections(known: Mapping[str, Known]) -> list[Section]:
    """Which experiments there are."""
    rows = tuple((name, one.summary, one.data) for name, one in known.items())
    return [Section("Experiments", ("name", "what", "--data"), rows, (0, 1, 2))]


def _section(table: Table) -> Section:
    units = [unit for _, unit in table.columns]
    rows: Iterable[tuple[str, ...]] = (tuple(map(cell_text, row, units)) for row in table.rows)
    heads = tuple(f"{name}, %" if unit == "%" else name for name, unit in table.columns)
    return Section(table.title, heads, tuple(rows), table.words, table.lines)
