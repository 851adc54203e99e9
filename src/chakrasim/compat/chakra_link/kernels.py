"""The compiled part of the compatible linker."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakrasim.jit import inner, kernel
from chakrasim.trace.kineto.columns import Ints

Floats = NDArray[np.float64]


@kernel
def exclusive_durations(
    start: Floats,
    end: Floats,
    duration: Floats,
    is_float: Ints,
    group: Ints,
    longer: Ints,
    shorter: Ints,
    exclusive: Floats,
    result_is_float: Ints,
) -> int:
    """Time of each operator of a thread that no other operator of it covers (chakra-toolchain.md, 3.5).

    Operators stand group by group (a thread each, its first operator at ``group[g]``, the last entry is their number),
    in a group by start, then duration. ``is_float``: bit 0 the start, bit 1 the end, bit 2 the duration is a float in
    Python. ``longer`` and ``shorter`` are scratch. Fills ``exclusive`` and whether Python's result is a float. Returns
    the first operator whose result is negative, -1 if there is none.
    """
    for at in range(len(group) - 1):
        first, last = group[at], group[at + 1]
        _find_ends(end, first, last, longer, shorter)
        for i in range(first, last):
            left = duration[i]
            kind = is_float[i] >> 2
            j = i + 1
            merged = False
            merged_start = merged_end = 0.0
            begins = ends = 0
            while j < last and start[j] <= end[i]:
                if end[j] > end[i]:
                    j = shorter[j]
                    continue
                if merged and start[j] > merged_end:
                    left -= merged_end - merged_start
                    kind |= begins | ends
                    merged = False
                if not merged:
                    merged = True
                    merged_start, merged_end = start[j], end[j]
                    begins, ends = is_float[j] & 1, is_float[j] >> 1 & 1
                elif end[j] > merged_end:
                    merged_end, ends = end[j], is_float[j] >> 1 & 1
                j = longer[j]
            if merged:
                left -= merged_end - merged_start
                kind |= begins | ends
            exclusive[i] = left
            result_is_float[i] = kind
            if left < 0:
                return i
    return -1


@inner
def _find_ends(end: Floats, first: int, last: int, longer: Ints, shorter: Ints) -> int:
    """The next operators that end later, and earlier, than each one. All before the former lie inside it, all before
    the latter end no earlier: the search jumps over them."""
    for i in range(last - 1, first - 1, -1):
        j = i + 1
        while j < last and end[j] <= end[i]:
            j = longer[j]
        longer[i] = j
        j = i + 1
        while j < last and end[j] >= end[i]:
            j = shorter[j]
        shorter[i] = j
    return 0
