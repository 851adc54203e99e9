"""Sets of intervals of time as sorted arrays: unions, overlaps, and the time spent in each combination of sets.

All functions take int64 (or float64) arrays of starts and ends in one unit and sort where they must: no loop over
intervals is written in Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import ChakrasimError
from chakrasim.trace.kineto.columns import Mask

Times = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Union:
    """Disjoint intervals ``[start[i], end[i])`` in ascending order: ``end[i] < start[i + 1]``."""

    start: Times
    end: Times

    def __len__(self) -> int:
        return len(self.start)

    @property
    def total(self) -> int:
        """The time that the intervals cover."""
        return int((self.end - self.start).sum()) if len(self) else 0

    def clip(self, low: int, high: int) -> Union:
        """The part within ``[low, high)``."""
        first, last = np.searchsorted(self.end, low, "right"), np.searchsorted(self.start, high, "left")
        last = max(first, last)
        return Union(np.maximum(self.start[first:last], low), np.minimum(self.end[first:last], high))

    def gaps(self) -> Union:
        """What lies between the intervals."""
        return Union(self.end[:-1], self.start[1:])


def merge(start: Times, end: Times) -> Union:
    """The union of intervals in any order. Touching intervals become one.

    An interval whose end lies before its start (the reference tool's rounding makes such) still opens or joins one.
    """
    if not len(start):
        return Union(start[:0], end[:0])
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.ones(len(start), np.bool_)
    opens[1:] = start[1:] > reach[:-1]
    first = np.flatnonzero(opens)
    return Union(start[first], np.maximum.reduceat(end, first))


def overlap(a: Union, b: Union) -> int:
    """The time that both unions cover."""
    return int(covered_before(b, a.end).sum() - covered_before(b, a.start).sum())


def check_times(times: Mapping[str, int], place: str) -> None:
    """Raise ChakrasimError if a time is negative: sums of disjoint intervals never are."""
    wrong = [f"{name} {time:,} ns" for name, time in times.items() if time < 0]
    if wrong:
        raise ChakrasimError(
            "the times contradict each other: an exposed or covered time is negative",
            place=place,
            found=", ".join(wrong),
            expected="times of 0 and more",
            remedy="this is a fault of the program: please report it with the trace",
        )


def covered_before(union: Union, times: Times) -> Times:
    """How much of the union lies before each of ``times``."""
    if not len(union):
        return np.zeros(len(times), np.int64)
    length = union.end - union.start
    before = np.concatenate([np.zeros(1, length.dtype), np.cumsum(length)])
    at = np.searchsorted(union.start, times, "right")
    last = np.maximum(at - 1, 0)
    inside = np.clip(times - union.start[last], 0, length[last])
    return np.where(at > 0, before[last] + inside, 0)


def time_by_state(unions: Sequence[Union]) -> Times:
    """int64[2 ** len(unions)]: time in each state; bit i of a state says that union i runs.

    State 0 counts what lies between the first start and the last end.
    """
    time, state = states(unions)
    spent = np.zeros(1 << len(unions), time.dtype if len(time) else np.int64)
    if len(time):
        np.add.at(spent, state[:-1], np.diff(time))
    return spent


def states(unions: Sequence[Union]) -> tuple[Times, NDArray[np.int64]]:
    """When the combination of running unions changes: ascending ``time[k]`` and the state from then on.

    At equal times ends come before starts of later unions in ``unions``; such states last no time.
    """
    times = [edge for union in unions for edge in (union.start, union.end)]
    if not any(map(len, times)):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    steps = [np.full(len(edge), sign << bit) for bit, union in enumerate(unions)
             for edge, sign in ((union.start, 1), (union.end, -1))]  # fmt: skip
    time = np.concatenate(times)
    order = np.argsort(time, kind="stable")
    return time[order], np.cumsum(np.concatenate(steps)[order])


def running_maximum(values: Times, group_starts: Mask) -> Times:
    """The running maximum of ``values`` within groups; ``group_starts`` marks the first element of each."""
    if not len(values):
        return values
    group = np.cumsum(group_starts) - 1
    low = values.min()
    span = values.max() - low + 1
    if values.dtype.kind == "i" and int(span) * int(group[-1] + 1) < 2**62:
        lifted = values - low + group * span
        return np.asarray(np.maximum.accumulate(lifted) - group * span + low)
    result = values.copy()
    first = np.flatnonzero(group_starts)
    for begin, stop in zip(first.tolist(), [*first[1:].tolist(), len(values)], strict=True):
        np.maximum.accumulate(values[begin:stop], out=result[begin:stop])
    return result
