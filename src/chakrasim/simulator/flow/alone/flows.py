"""What is to flow: arrays of flows, and changes of the links' capacities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chakrasim.errors import InputError
from chakrasim.machine.graph.routing.routes import Routes

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

NONE = -1
"""In ``after``: a flow that follows no other."""
LARGEST = 2.0**62
"""Of sizes, times and weights."""
_KINDS: Final[dict[str, Any]] = {
    "source": np.int32, "destination": np.int32, "after": np.int32, "link": np.int32, "label": np.int64,
}  # fmt: skip
"""What is no double."""


@dataclass(frozen=True, eq=False, init=False)
class Flows:
    """Flows, one in each place of the arrays. A single value stands for all.

    Parameters
    ----------
    source, destination:
        int32[f]: ranks.
    size_bytes:
        float64[f], 0 or more. Without bytes only the latency is paid.
    start_ns:
        float64[f], 0 or more: when each starts; of one that follows another, counted from that one's end.
    after:
        int32[f]: the flow that each follows, -1 for none.
    weight:
        float64[f], above 0: rates on a common bottleneck are in proportion to them.
    label:
        int64[f]: what tells flows of one pair of ranks apart where routes are drawn by a hash.
    routes:
        The links that each crosses, where they are given; else `run_flows` finds them.

    Raises :class:`chakrasim.InputError` for values out of range and for flows that follow one another in a circle.
    """

    source: Ints
    destination: Ints
    size_bytes: Floats
    start_ns: Floats
    after: Ints
    weight: Floats
    label: Longs
    routes: Routes | None

    def __init__(
        self,
        source: ArrayLike,
        destination: ArrayLike,
        size_bytes: ArrayLike,
        start_ns: ArrayLike = 0.0,
        after: ArrayLike = NONE,
        weight: ArrayLike = 1.0,
        label: ArrayLike = 0,
        routes: Routes | None = None,
    ) -> None:
        given = {"source": source, "destination": destination, "after": after, "label": label}
        given |= {"size_bytes": size_bytes, "start_ns": start_ns, "weight": weight}
        count = _count(given) if routes is None else routes.flows
        for name, values in given.items():
            object.__setattr__(self, name, _column(name, values, count, _KINDS.get(name, np.float64)))
        object.__setattr__(self, "routes", routes)
        _within("size_bytes", self.size_bytes, self.size_bytes >= 0)
        _within("start_ns", self.start_ns, self.start_ns >= 0)
        _within("weight", self.weight, self.weight > 0)
        _within("after", self.after, (self.after >= NONE) & (self.after < count))
        refuse_circles(self.after)

    def __len__(self) -> int:
        return int(self.size_bytes.size)


@dataclass(frozen=True, eq=False, init=False)
class CapacityChanges:
    """Capacities that change while flows are under way.

    Parameters
    ----------
    time_ns:
        float64[c].
    link:
        int32[c].
    capacity:
        float64[c]: bytes per ns from then on; 0 for a link that is down.
    """

    time_ns: Floats
    link: Ints
    capacity: Floats

    def __init__(self, time_ns: ArrayLike, link: ArrayLike, capacity: ArrayLike) -> None:
        given = {"time_ns": time_ns, "link": link, "capacity": capacity}
        count = _count(given)
        for name, values in given.items():
            object.__setattr__(self, name, _column(name, values, count, _KINDS.get(name, np.float64)))
        _within("time_ns", self.time_ns, self.time_ns >= 0)
        _within("capacity", self.capacity, self.capacity >= 0)


def _count(given: dict[str, ArrayLike]) -> int:
    """How many flows the longest of the arrays has; single values have none of their own."""
    return max((np.size(values) for values in given.values() if np.ndim(values)), default=1)


def _column(name: str, values: ArrayLike, count: int, kind: Any) -> NDArray[Any]:
    """An array with one value for each flow. Raises InputError for another number of them, and for fractions."""
    try:
        given = np.asarray(values)
        column = given.astype(kind)
    except (TypeError, ValueError, OverflowError):
        raise InputError("these are no numbers", file=name, expected=f"an array of {np.dtype(kind)}") from None
    if kind is not np.float64 and not (column == given).all():
        at = int(np.flatnonzero(column != given)[0])
        raise InputError("this is no whole number in range", file=name, place=f"flow {at}", found=given.reshape(-1)[at])
    if column.ndim == 0:
        column = np.full(count, column)
    column = np.ascontiguousarray(column)
    if column.shape != (count,):
        raise InputError("the array has another shape", file=name, found=column.shape, expected=f"({count},)")
    return column


def _within(name: str, values: NDArray[Any], good: NDArray[np.bool_]) -> None:
    good = good & (values <= LARGEST)
    if not good.all():
        at = int(np.flatnonzero(~good)[0])
        raise InputError("the value is out of range", file=name, place=f"flow {at}", found=values[at])


def refuse_circles(after: Ints) -> None:
    """Raise InputError for flows that follow one another in a circle: none of them could ever start."""
    waiting = after >= 0
    if not waiting.any():
        return
    root = np.where(waiting, after, np.arange(after.size, dtype=np.int32))
    for _ in range(int(after.size).bit_length() + 1):
        root = root[root]
    bad = np.flatnonzero(waiting[root])
    if bad.size:
        circle = [int(root[bad[0]])]
        while (follows := int(after[circle[-1]])) != circle[0] and len(circle) < _SHOWN:
            circle.append(follows)
        raise InputError(
            "flows follow one another in a circle",
            file="after",
            found=" after ".join(map(str, [*circle, after[circle[-1]]])),
            expected="a flow without `after` at the beginning of each chain",
        )


_SHOWN = 8
"""Flows of a circle that are named."""
NO_CHANGES = CapacityChanges(np.zeros(0), np.zeros(0, np.int32), np.zeros(0))
