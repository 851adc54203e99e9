"""Rows in an order in which every edge goes forward."""

from __future__ import annotations

from typing import Any

import numpy as np

from chakrasim.jit import kernel
from chakrasim.linker.rows.edges import Edges
from chakrasim.trace.chakra.graph import offsets_of
from chakrasim.trace.kineto.columns import Indices, Ints


def put_in_order(begin_ns: list[Ints], end_ns: list[Ints], parts: list[Edges]) -> tuple[Indices, Edges, int]:
    """The order of the rows by time (when they begin to work, then when they end), the edges with rows numbered in that
    order, and how many edges had to be left out since they closed a circle.

    The lists are emptied: of one column each, and of edges. Where clocks disagree, or rows take no time, dependencies
    go before time.
    """
    order = np.lexsort((end_ns.pop(), begin_ns.pop())).astype(np.int32)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    source = np.concatenate([rank[part.source] for part in parts])
    target = np.concatenate([rank[part.target] for part in parts])
    kind, evidence = (np.concatenate([getattr(part, name) for part in parts]) for name in ("kind", "evidence"))
    parts.clear()
    if (source > target).any():
        second = _by_dependencies(source, target, len(order))
        order = order[second]
        again = np.empty(len(order), np.int32)
        again[second] = np.arange(len(order), dtype=np.int32)
        source, target = again[source], again[target]
    forward = source < target
    kept = Edges(source, target, kind, evidence)
    rejected = len(forward) - int(forward.sum())
    return order, kept.take(forward) if rejected else kept, rejected


def _by_dependencies(source: Indices, target: Indices, rows: int) -> Indices:
    """Always the first row by number of those whose sources are all placed; if there is none, the first at all."""
    by_source = np.argsort(source, kind="stable")
    offsets = offsets_of(np.bincount(source, minlength=rows))
    missing = np.bincount(target, minlength=rows).astype(np.int64)
    placed = np.empty(rows, np.int64)
    _place(offsets, target[by_source], missing, np.empty(rows + 1, np.int64), placed)
    return placed.astype(np.int32)


@kernel
def _place(offsets: Any, targets: Any, missing: Any, heap: Any, placed: Any) -> None:
    # A heap of the rows that are ready, smallest first; `missing` is -1 for rows that are placed.
    size = 0
    first = 0
    rows = len(missing)
    for at in range(rows):
        # Rows without sources come in ascending order: already a heap.
        if missing[at] == 0:
            heap[size] = at
            size += 1
    for position in range(rows):
        if size > 0:
            row = heap[0]
            size -= 1
            last = heap[size]
            hole = 0
            while 2 * hole + 1 < size:
                child = 2 * hole + 1
                if child + 1 < size and heap[child + 1] < heap[child]:
                    child += 1
                if last <= heap[child]:
                    break
                heap[hole] = heap[child]
                hole = child
            heap[hole] = last
        else:
            while missing[first] < 0:
                first += 1
            row = first
        missing[row] = -1
        placed[position] = row
        for edge in range(offsets[row], offsets[row + 1]):
            target = targets[edge]
            if missing[target] > 0:
                missing[target] -= 1
                if missing[target] == 0:
                    hole = size
                    size += 1
                    while hole > 0 and heap[(hole - 1) // 2] > target:
                        heap[hole] = heap[(hole - 1) // 2]
                        hole = (hole - 1) // 2
                    heap[hole] = target
