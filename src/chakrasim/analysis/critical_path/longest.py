"""Compiled: the longest chain of a linked trace's work."""

from __future__ import annotations

from typing import Any

from chakrasim.jit import kernel


@kernel
def longest_chain(
    slot: Any, order: Any, source: Any, use: Any, base: Any, delay: Any, duration: Any, finish: Any, by_edge: Any
) -> int:
    """The chain of work that ends last, over rows in an order in which every edge goes forward. Returns its last row,
    -1 if there is none.

    ``slot`` int64[n + 1], ``order`` int32[m]: the edges into each row; ``source`` int32[m]; ``use`` int8[n]: rows that
    count; ``base``, ``delay``, ``duration`` int64[n]: when a row begins that depends on nothing, how long after what
    it depends on it begins otherwise, and how long it takes. ``finish`` int64[n], ``by_edge`` int32[n] become its end
    and the edge that decided when it began, -1 for none.
    """
    best = -1
    for row in range(len(use)):
        if use[row] == 0:
            continue
        decisive = -1
        latest = 0
        for place in range(slot[row], slot[row + 1]):
            edge = order[place]
            before = source[edge]
            if use[before] != 0 and (decisive < 0 or finish[before] > latest):
                latest = finish[before]
                decisive = edge
        by_edge[row] = decisive
        finish[row] = (latest + delay[row] if decisive >= 0 else base[row]) + duration[row]
        if best < 0 or finish[row] > finish[best]:
            best = row
    return best
