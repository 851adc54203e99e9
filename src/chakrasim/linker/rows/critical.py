"""Critical paths, of the whole and of each step: what the last row to end waited for last, and so on to the start."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.jit import kernel
from chakrasim.linker.rows.edges import Edges
from chakrasim.linker.rows.row_table import RowTable
from chakrasim.trace.kineto.columns import Indices, Ints
from chakrasim.trace.linked.columns import ON_CRITICAL_PATH, EdgeKind, StepPath

#: Edges, or rows, that are looked at together.
_CHUNK = 1 << 18
_MOST_NS = (1 << 61) - 1


def critical_paths(table: RowTable, edges: Edges, delay_ns: Ints) -> tuple[NDArray[np.uint8], tuple[StepPath, ...]]:
    """uint8[m], ``LinkedTrace.edge_flags``: of each row on the path, the edge from the source that ended last. Delays
    are part of the path; of equal ends the later edge counts. And the path of each step, or of the whole."""
    flags = np.zeros(len(edges), np.uint8)
    if not len(table):
        return flags, ()
    ends = table.end_ns
    binding = np.full(len(table), -1, np.int32)
    for at in range(0, len(edges), _CHUNK):
        target, source = edges.target[at : at + _CHUNK], edges.source[at : at + _CHUNK]
        freed = table.start_ns[target] + table.wait_ns[target] - delay_ns[target]
        binds = np.flatnonzero((ends[source] >= freed) & (edges.kind[at : at + _CHUNK] != EdgeKind.CONTROL))
        binding[target[binds]] = (binds + at).astype(np.int32)
    sources = np.ascontiguousarray(edges.source)
    _walk(binding, sources, int(np.argmax(ends)), flags)
    numbers = np.unique(table.step)
    step_of, duration, delays = (np.ascontiguousarray(column) for column in (table.step, table.duration_ns, delay_ns))
    paths = []
    for step, row in zip(numbers.tolist(), _last_rows(table.step, ends, numbers).tolist(), strict=True):
        if step >= 0 or len(numbers) == 1:
            length, delay = _measure(binding, sources, step_of, duration, delays, row)
            paths.append(StepPath(step, int(length), int(delay)))
    return flags * np.uint8(ON_CRITICAL_PATH), tuple(paths)


def _last_rows(step: Any, ends: Ints, numbers: Any) -> Ints:
    """int64[numbers]: the row of each step that ends last, the later one of several."""
    latest = np.full(len(numbers), np.iinfo(np.int64).min)
    last = np.zeros(len(numbers), np.int64)
    for at in range(0, len(ends), _CHUNK):
        place, end = np.searchsorted(numbers, step[at : at + _CHUNK]), ends[at : at + _CHUNK]
        np.maximum.at(latest, place, end)
        found = np.flatnonzero(end == latest[place])
        last[place[found]] = found + at
    return last


@kernel
def _walk(binding: Indices, source: Indices, row: int, flags: NDArray[np.uint8]) -> None:
    edge = binding[row]
    while edge >= 0:
        flags[edge] = 1
        edge = binding[source[edge]]


@kernel
def _measure(binding: Any, source: Any, step: Any, duration: Any, delay: Any, row: int) -> Any:
    """The length of the path that ends with ``row``, as far as it is of that row's step, and the delays on it."""
    number = step[row]
    length = 0
    delayed = 0
    going = True
    while going:
        # Times of damaged traces add up to more than there is room for.
        length = min(min(length + delay[row], _MOST_NS) + duration[row], _MOST_NS)
        delayed = min(delayed + delay[row], _MOST_NS)
        edge = binding[row]
        going = edge >= 0 and step[source[edge]] == number
        if going:
            row = source[edge]
    return length, delayed
