"""What a timeline shows, whatever its format: processes with tracks of slices, counters, and arrows between slices."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

SIZE: Final = "bytes"
"""The unit of counters whose values are bytes."""


@dataclass(frozen=True, eq=False)
class Track:
    """Slices of a process side by side: ``at`` int64[k] says which of its entries, by start; of two either one contains
    the other, or they lie apart. ``category``: what they are, in a word."""

    tid: int
    name: str
    at: NDArray[np.intp]
    category: str = ""


@dataclass(frozen=True, eq=False)
class Counter:
    """Values over time: each holds from its time on; integers or reals, ascending ``times_ns``."""

    name: str
    unit: str
    times_ns: Ints
    values: NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ArrowEnds:
    """Ends of arrows of one kind: ``entry`` int64[k], ``number`` int64[k] which arrow, ``target`` bool[k] whether it
    ends there, or begins. Every arrow has one of each, in the same process or another. ``to_end`` bool[k]: it leads to
    the end of the slice, not to its begin; None: none does."""

    name: str
    entry: Ints
    number: Ints
    target: NDArray[np.bool_]
    to_end: NDArray[np.bool_] | None = None


@dataclass(frozen=True, eq=False)
class Process:
    """What one rank, or part of it, shows.

    ``start_ns``, ``duration_ns`` int64[n] (0 or more) from the timeline's beginning; ``names``, ``args`` (members of
    a JSON object with a comma before each) by entry; ``ids`` what distinguishes entries, None where nothing does;
    ``order`` its place among processes.
    """

    pid: int
    name: str
    order: int
    tracks: Sequence[Track] = ()
    start_ns: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    duration_ns: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    names: Sequence[str] = ()
    args: Sequence[str] = ()
    ids: Ints | None = None
    counters: Sequence[Counter] = ()
    arrows: Sequence[ArrowEnds] = ()


def rows_in_parallel(starts_ns: Sequence[int], ends_ns: Sequence[int]) -> list[int]:
    """A row (0, 1, ...) for each span, in order of the starts, so that the spans of a row do not overlap: each takes
    the first that is free."""
    busy: list[tuple[int, int]] = []
    idle: list[int] = []
    taken: list[int] = []
    rows = 0
    for start, end in zip(starts_ns, ends_ns, strict=True):
        while busy and busy[0][0] <= start:
            heapq.heappush(idle, heapq.heappop(busy)[1])
        if idle:
            row = heapq.heappop(idle)
        else:
            row, rows = rows, rows + 1
        heapq.heappush(busy, (end, row))
        taken.append(row)
    return taken
