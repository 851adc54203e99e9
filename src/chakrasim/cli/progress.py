"""A progress bar on standard error for runs that take a while."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from chakrasim.text.amounts import time_text

if TYPE_CHECKING:
    from rich.progress import Progress


def count_ranks(what: str, done: int, total: int, unit: str = "ranks") -> None:
    """Say how many ranks (or others) are done, on one line of the terminal that is gone at the end."""
    if sys.stderr.isatty():
        text = f"{what} {done:,} of {total:,} {unit}" if done < total else ""
        print(f"\033[K{text}", end="\r", file=sys.stderr, flush=True)


PATIENCE_S = 0.5
"""Runs that end sooner show no bar, and do without importing rich."""

Callback = Callable[[int, int, int], None]


@contextmanager
def progress_bar(unit: str = "nodes") -> Iterator[Callback]:
    """The ``progress`` callback of a simulation, which counts nodes or others; what it shows is gone from the terminal
    at the end."""
    began = time.monotonic()
    shown: list[tuple[Progress, Any]] = []

    def show(done: int, total: int, now_ns: int) -> None:
        if not shown:
            if time.monotonic() - began < PATIENCE_S:
                return
            shown.append(_start(total, unit))
        bar, task = shown[0]
        bar.update(task, completed=done, total=total, simulated=time_text(now_ns))

    try:
        yield show
    finally:
        for bar, _ in shown:
            bar.stop()


@contextmanager
def progress_line(what: str) -> Iterator[Callable[[str], None]]:
    """A callback that shows what a run is at, and for how long it has run; gone from the terminal at the end."""
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(what),
        TextColumn("{task.description},", markup=False),
        TimeElapsedColumn(),
        TextColumn("elapsed"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")
        yield lambda text: bar.update(task, description=text)


def _start(total: int, unit: str) -> tuple[Progress, Any]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("simulating"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit + ", {task.fields[simulated]} simulated,"),
        TimeElapsedColumn(),
        TextColumn("elapsed,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
        transient=True,
    )
    bar.start()
    return bar, bar.add_task("", total=total, simulated="0 ns")
