"""The events of a job in an order in which every edge goes forward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chakrasim.jit import kernel

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Indices = NDArray[np.int32]
NONE = -1


class Circular(Exception):
    """Events wait for each other in a circle. ``event`` is one of them, by the number that the caller gave it."""

    def __init__(self, event: int) -> None:
        super().__init__(f"event {event} waits for itself")
        self.event = event


@dataclass(frozen=True, eq=False)
class EventGraph:
    """``n`` events, of which event 0 is the origin at time 0, and ``m`` edges, those into an event side by side.

    An event happens when the last of its edges has passed: an edge takes ``lag[e]`` and, where ``activity[e]`` is not
    -1, the duration of that activity. Times are in whatever unit the durations are, as float64: whole ns up to 2^53
    are exact.

    Attributes
    ----------
    first:
        int64[n + 1]: where each event's edges begin.
    source, activity:
        int32[m].
    lag:
        float64[m].
    duration:
        float64[activities].
    """

    first: Ints
    source: Indices
    activity: Indices
    lag: Floats
    duration: Floats

    def __len__(self) -> int:
        return len(self.first) - 1

    def times(self, duration: Floats | None = None) -> Floats:
        """float64[n]: when each event happens, also with other durations of the activities."""
        at = np.zeros(len(self), np.float64)
        _times(self.first, self.source, self.activity, self.lag, self.duration if duration is None else duration, at)
        return at

    def weights(self) -> Floats:
        """float64[m]: how long each edge takes."""
        if not len(self.duration):
            return self.lag.copy()
        return self.lag + np.where(self.activity >= 0, self.duration[self.activity], 0.0)


def event_graph(
    events: int, source: ArrayLike, target: ArrayLike, lag: ArrayLike, activity: ArrayLike, duration: ArrayLike
) -> tuple[EventGraph, Indices]:
    """The graph of ``events`` events (0 is the origin) with these edges, in any order; and int32[events]: the number of
    each event in it.

    Events without an edge into them happen at time 0. Raises `Circular`.
    """
    a, b = np.asarray(source, np.int32), np.asarray(target, np.int32)
    weights, of = np.broadcast_to(np.asarray(lag, np.float64), a.shape), np.broadcast_to(activity, a.shape)
    number = np.full(events, NONE, np.int32)
    offsets, out = _by(a, events)
    left = np.bincount(b, minlength=events)
    left[0] += 1
    placed = _order(offsets, np.ascontiguousarray(b[out]), left, number, np.empty(events, np.int32))
    if placed < events:
        raise Circular(int(np.argmax(number == NONE)))
    first, order = _by(number[b], events)
    made = EventGraph(
        first,
        np.ascontiguousarray(number[a][order]),
        np.ascontiguousarray(of[order], np.int32),
        np.ascontiguousarray(weights[order]),
        np.ascontiguousarray(duration, np.float64),
    )
    return made, number


def _by(key: Indices, count: int) -> tuple[Ints, NDArray[np.intp]]:
    """Where those of each key begin, and the order that puts them side by side."""
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(key, minlength=count), out=offsets[1:])
    return offsets, np.argsort(key, kind="stable")


@kernel
def _order(offsets: Any, target: Any, left: Any, number: Any, queue: Any) -> int:
    """Number the events so that every edge goes forward, those that are free first in order of their numbers (Kahn).
    Returns how many got one; ``left`` counts the edges into each, of the origin one more."""
    queue[0] = 0
    number[0] = 0
    ready = 1
    for event in range(1, len(number)):
        if left[event] == 0:
            number[event] = ready
            queue[ready] = event
            ready += 1
    done = 0
    while done < ready:
        event = queue[done]
        done += 1
        for edge in range(offsets[event], offsets[event + 1]):
            after = target[edge]
            left[after] -= 1
            if left[after] == 0:
                number[after] = ready
                queue[ready] = after
                ready += 1
    return ready


@kernel
def _times(first: Any, source: Any, activity: Any, lag: Any, duration: Any, at: Any) -> None:
    for event in range(len(at)):
        latest = 0.0
        for edge in range(first[event], first[event + 1]):
            passed = at[source[edge]] + lag[edge]
            if activity[edge] >= 0:
                passed += duration[activity[edge]]
            latest = max(latest, passed)
        at[event] = latest
