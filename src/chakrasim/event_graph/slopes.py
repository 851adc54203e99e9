"""How the end moves when activities take longer or shorter: one-sided derivatives and how far they hold.

The end of a graph is the longest of its paths, each of which grows in proportion when a group of activities does: a
convex function of what is added, in straight pieces. So the derivatives at nothing are those of the steepest and of the
flattest longest path, and where a straight piece ends is found by Newton's steps: go to where the line of another path
crosses it, look which path is the longest there, and go on until none is longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from chakrasim.event_graph.graph import EventGraph, Floats, Indices
from chakrasim.event_graph.lanes import side_by_side
from chakrasim.jit import kernel

STEPS: Final = 60
NEAR: Final = 1e-9
"""Of the end: what rounding may make of two equal paths."""


@dataclass(frozen=True, eq=False)
class Slopes:
    """Of each group, float64[groups], nan for groups whose activities take no time.

    ``slower``, ``faster``: change of the end per unit of time added to the group or taken away from it, in proportion
    to how long its activities take. ``slower_until``, ``faster_until``: so much in all may be added or taken away until
    the change is another; inf where it never is, and at most all that the group takes.
    """

    slower: Floats
    faster: Floats
    slower_until: Floats
    faster_until: Floats


def slopes(graph: EventGraph, group: Indices, total: Floats, last: Indices) -> Slopes:
    """Derivatives of the latest of the ``last`` events by groups of activities.

    ``group`` int32[activities], -1: none. ``total`` float64[groups] is what the activities of each count as together,
    of which added time is a share: their sum, or less where several stand for one.
    """
    groups = len(total)
    share = np.zeros(len(graph.duration))
    share[group >= 0] = graph.duration[group >= 0] / np.where(total > 0, total, 1.0)[group[group >= 0]]
    found = [np.full(groups, np.nan) for _ in range(4)]
    most = side_by_side(len(graph))
    for begin in range(0, groups, most):
        lanes = np.arange(begin, min(begin + most, groups))
        ends = _Ends(graph, group - begin, share, len(lanes), last)
        for sign, slope, until in ((1.0, found[0], found[2]), (-1.0, found[1], found[3])):
            slope[lanes], until[lanes] = _one_side(ends, sign, total[lanes])
    for one in found:
        one[total <= 0] = np.nan
    return Slopes(*found)


def _one_side(ends: _Ends, sign: float, total: Floats) -> tuple[Floats, Floats]:
    """Change of the end per unit on one side of nothing, and how much may be added or taken until it changes."""
    end, slope = ends.at(np.zeros(len(total)), sign)
    far = end.max(initial=0.0) * 1e3 if sign > 0 else 0.0
    until = np.where(total > 0, np.maximum(far, 1e3 * total) if sign > 0 else total, 0.0)
    limit = until.copy()
    for _ in range(STEPS):
        time, steeper = ends.at(sign * until, sign)
        above = time - (end + slope * sign * until) > NEAR * np.maximum(end, 1.0) * (
            1 + until / np.maximum(limit, 1e-300)
        )
        if not above.any():
            break
        crossing = (time - steeper * sign * until - end) / np.where(above, slope - steeper, 1.0) * sign
        until = np.where(above, np.clip(crossing, 0.0, until), until)
    return sign * slope + 0.0, np.where((until >= limit) & (sign > 0), np.inf, until)


@dataclass(frozen=True, eq=False)
class _Ends:
    graph: EventGraph
    lane: Indices
    share: Floats
    lanes: int
    last: Indices

    def at(self, added: Floats, sign: float) -> tuple[Floats, Floats]:
        """The end with so much added to each lane's group, and the slope of its longest path: the steepest of several
        for a positive ``sign``, else the flattest."""
        at, slope = (np.empty((len(self.graph), self.lanes)) for _ in range(2))
        graph = self.graph
        own = graph.first, graph.source, graph.activity, graph.lag, graph.duration
        _sloped(*own, self.lane, self.share, added, sign, at, slope)
        ends, slopes = at[self.last], sign * slope[self.last]
        end = ends.max(axis=0)
        return end, sign * np.where(ends == end, slopes, -np.inf).max(axis=0)


@kernel
def _sloped(
    first: Any, source: Any, activity: Any, lag: Any, duration: Any, lane_of: Any, share: Any, added: Any, sign: float,
    at: Any, slope: Any,
) -> None:  # fmt: skip
    lanes = at.shape[1]
    for event in range(at.shape[0]):
        for lane in range(lanes):
            at[event, lane] = 0.0
            slope[event, lane] = 0.0
        for edge in range(first[event], first[event + 1]):
            before, own = source[edge], activity[edge]
            passed, mine = lag[edge], -1
            if own >= 0:
                passed += duration[own]
                mine = lane_of[own]
            for lane in range(lanes):
                time = at[before, lane] + passed
                rise = slope[before, lane]
                if lane == mine:
                    time += share[own] * added[lane]
                    rise += share[own]
                if time > at[event, lane] or (time == at[event, lane] and sign * rise > sign * slope[event, lane]):
                    at[event, lane] = time
                    slope[event, lane] = rise
