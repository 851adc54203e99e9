"""How the host's operators nest on their threads, without a loop over them.

A thread's operators, entered by start (longer first, then file order) and left by end, behave like brackets: an
operator's parent is the one on top of the stack when it is entered. The depth of the stack is a running sum, and the
parent at depth d is the last operator entered at depth d - 1: a sort and a search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.analysis.table.statistics import group_keys
from chakrasim.trace.kineto.columns import Ints, KinetoTrace, Mask


@dataclass(frozen=True, eq=False)
class Brackets:
    """``n`` operators in the order of entering: thread by thread, by start.

    Attributes
    ----------
    entered: int64[n], position in the caller's arrays.
    depth: int64[n], 0 at the top of a thread.
    parent: int64[n], position in this order of the operator around it, -1 at the top.
    end_of_family: int64[n], position in this order after the last operator entered inside.
    """

    entered: Ints
    depth: Ints
    parent: Ints
    end_of_family: Ints


def brackets_of(is_start: Mask, owner: Ints) -> Brackets:
    """The nesting that a sequence of starts and ends says.

    ``is_start`` and ``owner`` describe the 2n edges in order, thread by thread; every owner has one start and one end
    on its thread. An end leaves whatever is on top, if anything is, so overlapping operators nest by position.
    """
    walk = np.cumsum(np.where(is_start, 1, -1))
    level = walk - np.minimum(np.minimum.accumulate(walk), 0) if len(walk) else walk
    starts = np.flatnonzero(is_start)
    entered, depth = owner[starts], level[starts] - 1
    count = len(starts)
    # The last operator entered one level higher: each level's operators in order, then a search among them.
    by_level = np.argsort(depth, kind="stable")
    key = depth[by_level] * count + by_level
    at = np.searchsorted(key, (depth - 1) * count + np.arange(count), "left") - 1
    parent = np.where(depth > 0, by_level[np.maximum(at, 0)] if count else at, -1)
    return Brackets(entered, depth, parent, _family_ends(is_start, level, starts))


def _family_ends(is_start: Mask, level: Ints, starts: Ints) -> Ints:
    """How many operators have been entered when each is left: at the first end that comes back to its level."""
    ends = np.flatnonzero(~is_start)
    ends = ends[np.argsort(level[ends], kind="stable")]
    size = len(level) + 1
    at = np.searchsorted(level[ends] * size + ends, (level[starts] - 1) * size + starts, "right")
    left = np.full(len(starts), len(level))  # never left: the sequence's end
    found = at < len(ends)
    found[found] = level[ends[at[found]]] == level[starts[found]] - 1
    left[found] = ends[at[found]]
    return np.searchsorted(starts, left)


def nest(thread: Ints, start: NDArray[Any], end: NDArray[Any]) -> Brackets:
    """The nesting of operators ``[start, end]`` on threads numbered ``thread``.

    At equal times ends come first, then starts, longer operators first, then by position; an operator of no length
    lies within what starts at its time.
    """
    count = len(start)
    number = np.arange(count)
    length = end - start
    # Edges: time, then ends of real operators, starts of real ones, then pairs of empty ones.
    empty = length <= 0
    time = np.concatenate([start, np.maximum(end, start)])
    phase = np.concatenate([np.where(empty, 2, 1), np.where(empty, 2, 0)])
    size = np.concatenate([np.where(empty, 0, -length), np.where(empty, 0, length)])
    pair = np.concatenate([number, np.where(empty, number, -number)])
    side = np.concatenate([np.zeros(count, np.int8), np.ones(count, np.int8)])
    owner = np.concatenate([number, number])
    threads = np.concatenate([thread, thread])
    order = np.lexsort((side, pair, size, phase, time, threads))
    return brackets_of(side[order] == 0, owner[order])


def threads_of(kineto: KinetoTrace, rows: Ints) -> Ints:
    """int64[k]: a number for the thread (pid, tid) of each row."""
    return group_keys(kineto.pid[rows], kineto.tid[rows])[0]


def innermost(kineto: KinetoTrace, operators: Ints, calls: Ints) -> Ints:
    """int64[calls]: the innermost of ``operators`` around each call on its thread, -1 if there is none. All are rows.

    An operator is around a call if the call starts within it; a call that outlives the operator by clock jitter counts.
    """
    both = np.concatenate([operators, calls])
    thread = threads_of(kineto, both)
    start = kineto.ts_ns[both]
    end = start + np.maximum(kineto.dur_ns[both], 0)
    # Calls become points right after their start: they nest in what is open there and in nothing that starts later.
    points = np.arange(len(both)) >= len(operators)
    nested = nest(thread, start, np.where(points, start, end))
    holder = np.full(len(both), -1, np.int64)
    parent = nested.parent
    # A point can lie in another point of the same time: go up until an operator is found.
    is_point = points[nested.entered]
    while True:
        wrong = parent >= 0
        wrong[wrong] = is_point[parent[wrong]]
        if not wrong.any():
            break
        parent = np.where(wrong, nested.parent[np.maximum(parent, 0)], parent)
    inside = parent >= 0
    holder[nested.entered[inside]] = both[nested.entered[parent[inside]]]
    return holder[len(operators) :]
