"""Destinations sorted into classes that need the same distances, and flows by class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from chakrasim.jit import kernel
from chakrasim.machine.graph.routing.kernels.maze import Maze
from chakrasim.machine.graph.routing.routes import Ints, Longs
from chakrasim.trace.chakra.graph import offsets_of

ROWS_BYTES: Final = 2**26
"""Memory for distances at a time."""


class Flows(NamedTuple):
    """Flows to be routed: int32[f], int32[f], uint64[f], and their numbers, int64[f], in the order of their classes."""

    source: Ints
    destination: Ints
    key: np.ndarray[tuple[int], np.dtype[np.uint64]]
    order: Longs


class Ends(NamedTuple):
    """A batch of classes of destinations.

    A destination that lets traffic pass is a class of its own, and its own entry, at distance 0. Others are entered
    from the vertices around them that let traffic pass; all that are entered from the same ones at the same cost
    are one class.

    Attributes
    ----------
    entry_first: int64[c + 1]: the entries of each class.
    entry_row, entry_weight: int32[n], int64[n]: whose distances count, and what the last link adds.
    flow_first: int64[c + 1]: the flows of each class, as positions in `Flows.order`.
    row_vertex: int32[r]: to which vertex each row has the distances.
    row_first, row_class: int64[r + 1], int32[n]: the classes that use each row.
    bare: bool[v]: destinations that a link enters from a vertex that lets no traffic pass.
    """

    entry_first: Longs
    entry_row: Ints
    entry_weight: Longs
    flow_first: Longs
    row_vertex: Ints
    row_first: Longs
    row_class: Ints
    bare: np.ndarray[tuple[int], np.dtype[np.bool_]]


class Classes(NamedTuple):
    """All classes: as in `Ends`, with vertices in place of rows; ``of`` is int32[v], -1 where no flow ends."""

    of: Ints
    entry_first: Longs
    entry_vertex: Ints
    entry_weight: Longs
    bare: np.ndarray[tuple[int], np.dtype[np.bool_]]


def find_classes(maze: Maze, destination: Ints) -> Classes:
    """The classes of all destinations, in the order of their lowest members."""
    vertices = maze.core.size
    used = np.bincount(destination, minlength=vertices) > 0
    passes = maze.core >= 0
    into = np.flatnonzero(used[maze.target] & ~passes[maze.target] & (maze.weight > 0))
    from_core = passes[maze.source[into]]
    bare = np.zeros(vertices, np.bool_)
    bare[maze.target[into[~from_core]]] = True
    into = into[from_core]
    through = np.flatnonzero(used & passes)
    end = np.concatenate([maze.target[into], through])
    entry = np.concatenate([maze.source[into], through]).astype(np.int32)
    weight = np.concatenate([maze.weight[into], np.zeros(through.size, np.int64)])
    order = np.lexsort((weight, entry, end))
    end, entry, weight = end[order], entry[order], weight[order]
    least = np.ones(end.size, np.bool_)
    least[1:] = (end[1:] != end[:-1]) | (entry[1:] != entry[:-1])
    end, entry, weight = end[least], entry[least], weight[least]
    ends = np.flatnonzero(used)
    limits = np.searchsorted(end, np.append(ends, vertices)).tolist()
    of = np.full(vertices, -1, np.int32)
    known: dict[bytes, int] = {}
    picked: list[slice] = []
    for number, begin, stop in zip(ends.tolist(), limits, limits[1:], strict=False):
        same = known.setdefault(entry[begin:stop].tobytes() + weight[begin:stop].tobytes(), len(known))
        if same == len(picked):
            picked.append(slice(begin, stop))
        of[number] = same
    entries = np.concatenate([np.zeros(0, np.int64), *(np.arange(part.start, part.stop) for part in picked)])
    lengths = np.array([part.stop - part.start for part in picked], np.int64)
    return Classes(of, offsets_of(lengths), entry[entries], weight[entries], bare)


def batches(maze: Maze, classes: Classes, destination: Ints) -> Iterator[tuple[Ends, Longs]]:
    """Classes so many at a time that their rows fit into ROWS_BYTES, with the numbers of their flows in order."""
    count = classes.entry_first.size - 1
    size = np.zeros(count + 1, np.int64)
    order = np.empty(destination.size, np.int64)
    sort_flows(classes.of, destination, size, order)
    flow_first = np.concatenate([[0], size[:-1]])
    room = max(1, ROWS_BYTES // (12 * max(1, int(np.count_nonzero(maze.core >= 0)))))
    begin = 0
    while begin < count:
        stop = _fitting(classes, begin, room)
        span = slice(int(classes.entry_first[begin]), int(classes.entry_first[stop]))
        vertex, row = np.unique(classes.entry_vertex[span], return_inverse=True)
        entry_first = classes.entry_first[begin : stop + 1] - span.start
        users = np.repeat(np.arange(stop - begin, dtype=np.int32), np.diff(entry_first))
        ends = Ends(
            entry_first=entry_first,
            entry_row=row.astype(np.int32),
            entry_weight=classes.entry_weight[span],
            flow_first=flow_first[begin : stop + 1] - flow_first[begin],
            row_vertex=vertex.astype(np.int32),
            row_first=offsets_of(np.bincount(row, minlength=vertex.size)),
            row_class=users[np.argsort(row, kind="stable")],
            bare=classes.bare,
        )
        yield ends, order[flow_first[begin] : flow_first[stop]]
        begin = stop


def _fitting(classes: Classes, begin: int, room: int) -> int:
    """The end of the longest run of classes from ``begin``, at least one, that have at most ``room`` entries' rows."""
    seen: set[int] = set()
    count = classes.entry_first.size - 1
    for number in range(begin, count):
        span = slice(int(classes.entry_first[number]), int(classes.entry_first[number + 1]))
        seen.update(classes.entry_vertex[span].tolist())
        if len(seen) > room and number > begin:
            return number
    return count


@kernel
def sort_flows(of: Ints, destination: Ints, size: Longs, order: Longs) -> None:
    """Sort flows by class into ``order`` [f]; ``size`` [c + 1], zeros, becomes the end of each class's part."""
    for flow in range(destination.size):
        size[of[destination[flow]]] += 1
    total = 0
    for number in range(size.size):
        count = size[number]
        size[number] = total
        total += count
    for flow in range(destination.size):
        number = of[destination[flow]]
        order[size[number]] = flow
        size[number] += 1
