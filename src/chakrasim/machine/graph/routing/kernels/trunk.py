"""The vertices that let traffic pass, by their numbers ``core``, and the links between them, as searches go over them.

What has links to and from one other such vertex only, as a NIC at its switch, *hangs* at that vertex: no way goes
through it, and its distance is that of the other and one link more. Searches do not visit it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from chakrasim.jit import kernel
from chakrasim.machine.graph.routing.kernels.maze import Maze
from chakrasim.machine.graph.routing.routes import Ints, Longs
from chakrasim.trace.chakra.graph import offsets_of

NOWHERE: Final = -1


class Trunk(NamedTuple):
    """Links backwards, without those out of what hangs.

    Attributes
    ----------
    first, near, weight: int64[t + 1], int32[n], int64[n]: from where links lead to each vertex, and what they cost.
    hangs_at, hangs_by: int32[t], int64[t]: the vertex at which each one hangs, NOWHERE if it does not, and what its
        link there costs.
    part: int32[t]: a vertex of the connected part in which each one lies, whatever the links' direction.
    """

    first: Longs
    near: Ints
    weight: Longs
    hangs_at: Ints
    hangs_by: Longs
    part: Ints


def make_trunk(maze: Maze) -> Trunk:
    count = int(np.count_nonzero(maze.core >= 0))
    begin, end = maze.core[maze.source], maze.core[maze.target]
    live = (begin >= 0) & (end >= 0) & (begin != end) & (maze.weight > 0)
    begin, end, weight = begin[live], end[live], maze.weight[live]
    lowest, highest = np.full(count, count, np.int32), np.full(count, NOWHERE, np.int32)
    for one, other in ((begin, end), (end, begin)):
        np.minimum.at(lowest, one, other)
        np.maximum.at(highest, one, other)
    by = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(by, begin, weight)
    leads_on = np.bincount(begin, minlength=count) > 0
    hangs_at = np.where((lowest == highest) & leads_on, lowest, NOWHERE).astype(np.int32)
    part = np.arange(count, dtype=np.int32)
    join_parts(begin, end, part)
    inner = np.flatnonzero(hangs_at[begin] == NOWHERE)
    inner = inner[np.argsort(end[inner], kind="stable")]
    first = offsets_of(np.bincount(end[inner], minlength=count))
    return Trunk(first, begin[inner], weight[inner], hangs_at, by, part)


@kernel
def join_parts(begin: Ints, end: Ints, part: Ints) -> None:
    """Give all vertices of a connected part one number; ``part`` [t] begins as 0, 1, 2, ..."""
    for link in range(begin.size):
        a = begin[link]
        b = end[link]
        while part[a] != a:
            part[a] = part[part[a]]
            a = part[a]
        while part[b] != b:
            part[b] = part[part[b]]
            b = part[b]
        part[max(a, b)] = min(a, b)
    for core in range(part.size):
        part[core] = part[part[core]]
