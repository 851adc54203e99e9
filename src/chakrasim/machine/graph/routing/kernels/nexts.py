"""Next links: which of a vertex's links begin a shortest way to a destination."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chakrasim.jit import inner
from chakrasim.machine.graph.routing.kernels.ends import Ends
from chakrasim.machine.graph.routing.kernels.maze import Maze
from chakrasim.machine.graph.routing.kernels.search import UNREACHED, Search
from chakrasim.machine.graph.routing.routes import Ints, Longs


class Nexts(NamedTuple):
    """Next links by vertex, for one class of destinations at a time.

    Attributes
    ----------
    known: int32[v]: the class (plus 1, over all batches) whose list a vertex has.
    near: int64[t]: distances of the vertices that let traffic pass, by ``core``.
    far: int64[v]: distance of a vertex that has a list.
    first, listed: int32[v]: its list in ``link`` [l]; links to the destination itself are not in it unless traffic may
        pass that.
    used: int32[2]: how much of ``link`` is used, and the class.
    """

    known: Ints
    near: Longs
    far: Longs
    first: Ints
    listed: Ints
    link: Ints
    used: Ints


def make_nexts(maze: Maze) -> Nexts:
    vertices = maze.core.size
    columns = [np.zeros(vertices, np.int32) for _ in range(3)]
    links = np.empty(maze.weight.size, np.int32)
    near = np.full(int(np.count_nonzero(maze.core >= 0)), UNREACHED, np.int64)
    return Nexts(columns[0], near, np.zeros(vertices, np.int64), columns[1], columns[2], links, np.zeros(2, np.int32))


@inner
def open_class(maze: Maze, ends: Ends, found: Search, nexts: Nexts, before: int, place: int) -> int:
    """The class to which the flow at a position belongs. Where that is not the one ``before`` (-1: none), its lists and
    distances are forgotten, and those of the new one found."""
    group = max(before, 0)
    while place >= ends.flow_first[group + 1]:
        group += 1
    if group == before:
        return group
    nexts.used[0] = 0
    nexts.used[1] += 1
    if before >= 0:
        for entry in range(ends.entry_first[before], ends.entry_first[before + 1]):
            row = ends.entry_row[entry]
            for i in range(found.size[row]):
                nexts.near[found.core[row, i]] = UNREACHED
    for entry in range(ends.entry_first[group], ends.entry_first[group + 1]):
        row = ends.entry_row[entry]
        weight = ends.entry_weight[entry]
        for i in range(found.size[row]):
            core = found.core[row, i]
            nexts.near[core] = min(nexts.near[core], found.far[row, i] + weight)
    return group


@inner
def learn(maze: Maze, nexts: Nexts, vertex: int) -> None:
    """Make the list of a vertex."""
    begin = nexts.used[0]
    count = 0
    least = UNREACHED
    preferred = False
    for i in range(maze.leave_first[vertex], maze.leave_first[vertex + 1]):
        core = maze.leave_core[i]
        if core < 0:
            continue
        far = nexts.near[core] + maze.leave_weight[i]
        if far > least or far >= UNREACHED or maze.leave_weight[i] == 0:
            continue
        link = maze.leave_link[i]
        if far < least:
            least = far
            count = 0
            preferred = False
        if maze.preferred[link] != preferred:
            if preferred:
                continue
            preferred = True
            count = 0
        nexts.link[begin + count] = link
        count += 1
    if maze.core[vertex] >= 0 and nexts.near[maze.core[vertex]] < least:
        least = nexts.near[maze.core[vertex]]  # over the link to the destination itself, or this is it
        count = 0
    nexts.known[vertex] = nexts.used[1]
    nexts.far[vertex] = least
    nexts.first[vertex] = begin
    nexts.listed[vertex] = count
    nexts.used[0] += count


@inner
def direct(maze: Maze, nexts: Nexts, vertex: int, end: int) -> tuple[int, int]:
    """How many links of least cost lead from a vertex to a destination that lets nothing pass, and that cost."""
    least = nexts.far[vertex]
    count = 0
    for i in range(maze.enter_first[end], maze.enter_first[end + 1]):
        link = maze.enter_link[i]
        if maze.source[link] == vertex and 0 < maze.weight[link] <= least:
            if maze.weight[link] < least:
                least = maze.weight[link]
                count = 0
            count += 1
    return count, least


@inner
def choose(
    maze: Maze, nexts: Nexts, vertex: int, end: int, listed: int, straight: int, cost: int, number: np.int64 | int
) -> int:
    """Link ``number`` of the ``listed`` next links and of those ``straight`` to the destination, by link number."""
    place = nexts.first[vertex]
    if straight > 0:
        last = place + listed
        for i in range(maze.enter_first[end], maze.enter_first[end + 1]):
            link = maze.enter_link[i]
            if maze.source[link] != vertex or maze.weight[link] != cost:
                continue
            while place < last and nexts.link[place] < link:
                if number == 0:
                    return int(nexts.link[place])
                number -= 1
                place += 1
            if number == 0:
                return int(link)
            number -= 1
    return int(nexts.link[place + number])
