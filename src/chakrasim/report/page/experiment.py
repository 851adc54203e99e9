"""The page of a published experiment: its answers, bars and points of its tables, the tables, what was assumed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from chakrasim.experiments.result import PER_CENT, SECONDS, Experiment, Table
from chakrasim.report.page.answer import sections_page
from chakrasim.report.page.parts import Bars, Fact, Page, Part, Scatter, Series
from chakrasim.report.tables.answers.experiment import experiment_sections


def experiment_page(found: Experiment) -> Page:
    """The page; figures are those of `Experiment.to_json`."""
    verdict = [Fact(name, text) for name, text in found.answers]
    parts = [part for at, table in enumerate(found.tables) for part in _pictures(at, table)]
    tables = [one for one in experiment_sections(found)[1:] if one.title != "Assumed"]
    return replace(sections_page(found.question, tables, verdict, parts), assumed=found.assumed)


def _pictures(at: int, table: Table) -> Iterator[Part]:
    shown = {name: _series(at, table, name) for name in (*table.bars, *(table.against or ()))}
    if table.bars:
        yield Bars(table.title, table.labels, tuple(shown[name] for name in table.bars))
    if table.against is not None:
        x, y = (shown[name] for name in table.against)
        yield Scatter(f"{table.title}: {x.name} and {y.name}", x, y, table.labels)


def _series(at: int, table: Table, name: str) -> Series:
    unit = dict(table.columns)[name]
    values = (
        cell if isinstance(cell, int | float) else None for cell in table.to_dict()["rows"] for cell in [cell[name]]
    )
    return Series(name, tuple(values), f"tables.{at}.rows.*.{name}", unit if unit in (SECONDS, PER_CENT) else "count")
