"""Distances of the vertices that let traffic pass to those from which destinations are entered, one row each.

A search goes backwards over the links, and only as far as the flows that need the row begin. Where it stopped, what is
nearer is known, and what is not may stay UNREACHED: no shortest way leads there.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from chakrasim.jit import inner, kernel
from chakrasim.machine.graph.routing.kernels.ends import Ends, Flows
from chakrasim.machine.graph.routing.kernels.maze import Maze
from chakrasim.machine.graph.routing.routes import Ints, Longs

UNREACHED: Final = 2**62


class Search(NamedTuple):
    """What searches write.

    Attributes
    ----------
    vertex, far: int32[r, t], int64[r, t]: the vertices that each row's search came to, and how far they are.
    size: int32[r]: how many those are.
    best: int64[t]: while a search goes on, the distance of each vertex; else UNREACHED.
    needed: int32[t]: the last row that needs a vertex.
    part: int32[t]: a vertex of the connected part in which each one lies, whatever the links' direction.
    key, waiting: int64[n], int32[n]: a heap of vertices by distance, for searches by cost.
    """

    vertex: np.ndarray[tuple[int, int], np.dtype[np.int32]]
    far: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    size: Ints
    best: Longs
    needed: Ints
    part: Ints
    key: Longs
    waiting: Ints


def make_search(maze: Maze, rows: int, by_hops: bool) -> Search:
    """Room for searches of this many rows. Only what searches come to is written."""
    core = int(np.count_nonzero(maze.core >= 0))
    heap = 0 if by_hops else maze.weight.size + 2
    tables = np.empty((rows, core), np.int32), np.empty((rows, core), np.int64)
    best, needed = np.full(core, UNREACHED, np.int64), np.full(core, -1, np.int32)
    part = np.arange(core, dtype=np.int32)
    join_parts(maze, part)
    waiting = np.empty(heap, np.int64), np.empty(heap, np.int32)
    return Search(*tables, np.zeros(rows, np.int32), best, needed, part, *waiting)


@kernel
def join_parts(maze: Maze, part: Ints) -> None:
    """Give all vertices of a connected part one number; ``part`` [t] begins as 0, 1, 2, ..."""
    for link in range(maze.weight.size):
        a = maze.core[maze.source[link]]
        b = maze.core[maze.target[link]]
        if a < 0 or b < 0 or maze.weight[link] == 0:
            continue
        while part[a] != a:
            part[a] = part[part[a]]
            a = part[a]
        while part[b] != b:
            part[b] = part[part[b]]
            b = part[b]
        part[max(a, b)] = min(a, b)
    for core in range(part.size):
        part[core] = part[part[core]]


@kernel
def search_all(maze: Maze, ends: Ends, flows: Flows, found: Search, by_hops: bool) -> None:
    """Fill the rows of a batch."""
    for row in range(ends.row_vertex.size):
        wanted = mark_sources(maze, ends, flows, found, row)
        if by_hops:
            count = search_hops(maze, found, row, ends.row_vertex[row], wanted)
        else:
            count = search_costs(maze, found, row, ends.row_vertex[row], wanted)
        for i in range(count):
            core = maze.core[found.vertex[row, i]]
            found.far[row, i] = found.best[core]
            found.best[core] = UNREACHED
        found.size[row] = count


@inner
def mark_sources(maze: Maze, ends: Ends, flows: Flows, found: Search, row: int) -> int:
    """Mark the vertices at which the flows that need a row come to where traffic may pass, if it can come from there to
    the row's vertex; returns how many."""
    wanted = 0
    part = found.part[maze.core[ends.row_vertex[row]]]
    for user in range(ends.row_first[row], ends.row_first[row + 1]):
        group = ends.row_class[user]
        for place in range(ends.flow_first[group], ends.flow_first[group + 1]):
            source = flows.source[flows.order[place]]
            core = maze.core[source]
            if core >= 0:
                if found.needed[core] != row and found.part[core] == part:
                    found.needed[core] = row
                    wanted += 1
                continue
            for i in range(maze.leave_first[source], maze.leave_first[source + 1]):
                core = maze.leave_core[i]
                if core < 0 or maze.leave_weight[i] == 0:
                    continue
                if found.needed[core] != row and found.part[core] == part:
                    found.needed[core] = row
                    wanted += 1
        if wanted == found.needed.size:
            break
    return wanted


@inner
def search_hops(maze: Maze, found: Search, row: int, end: int, wanted: int) -> int:
    """Breadth first: the first distance found is the least. Returns how many vertices were found."""
    found.best[maze.core[end]] = 0
    wanted -= found.needed[maze.core[end]] == row
    found.vertex[row, 0] = end
    count = 1
    at = 0
    while at < count and wanted > 0:
        vertex = found.vertex[row, at]
        at += 1
        further = found.best[maze.core[vertex]] + 1
        for i in range(maze.enter_first[vertex], maze.enter_first[vertex + 1]):
            link = maze.enter_link[i]
            core = maze.core[maze.source[link]]
            if core >= 0 and maze.weight[link] > 0 and found.best[core] == UNREACHED:
                found.best[core] = further
                found.vertex[row, count] = maze.source[link]
                count += 1
                wanted -= found.needed[core] == row
    return count


@inner
def search_costs(maze: Maze, found: Search, row: int, end: int, wanted: int) -> int:
    """Dijkstra's search; what was put off stays in the heap and is skipped when it comes up."""
    found.best[maze.core[end]] = 0
    found.vertex[row, 0] = end
    found.key[0] = 0
    found.waiting[0] = end
    count = 1
    held = 1
    while held > 0 and wanted > 0:
        near = found.key[0]
        vertex = found.waiting[0]
        held = pop(found.key, found.waiting, held)
        if near > found.best[maze.core[vertex]]:
            continue
        wanted -= found.needed[maze.core[vertex]] == row
        for i in range(maze.enter_first[vertex], maze.enter_first[vertex + 1]):
            link = maze.enter_link[i]
            core = maze.core[maze.source[link]]
            if core < 0 or maze.weight[link] == 0:
                continue
            further = near + maze.weight[link]
            if further < found.best[core]:
                if found.best[core] == UNREACHED:
                    found.vertex[row, count] = maze.source[link]
                    count += 1
                found.best[core] = further
                held = push(found.key, found.waiting, held, further, maze.source[link])
    return count


@inner
def push(key: Longs, item: Ints, count: int, new_key: int, new_item: int) -> int:
    """Add to a heap with the least key on top; returns how many it holds then."""
    place = count
    while place > 0:
        above = (place - 1) >> 1
        if key[above] <= new_key:
            break
        key[place] = key[above]
        item[place] = item[above]
        place = above
    key[place] = new_key
    item[place] = new_item
    return count + 1


@inner
def pop(key: Longs, item: Ints, count: int) -> int:
    """Take the top off a heap; returns how many it holds then."""
    count -= 1
    last_key = key[count]
    last_item = item[count]
    place = 0
    while True:
        below = 2 * place + 1
        if below >= count:
            break
        if below + 1 < count and key[below + 1] < key[below]:
            below += 1
        if last_key <= key[below]:
            break
        key[place] = key[below]
        item[place] = item[below]
        place = below
    key[place] = last_key
    item[place] = last_item
    return count
