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
from chakrasim.machine.graph.routing.kernels.trunk import NOWHERE, Trunk
from chakrasim.machine.graph.routing.routes import Ints, Longs

UNREACHED: Final = 2**62


class Search(NamedTuple):
    """What searches write.

    Attributes
    ----------
    core, far: int32[r, t], int64[r, t]: the vertices that each row's search came to, and how far they are.
    size: int32[r]: how many those are.
    best: int64[t]: while a search goes on, the distance of each vertex; else UNREACHED.
    needed: int32[t]: the last row that needs a vertex.
    hanging: int32[t]: those that a row needs and that hang at others (`Trunk`).
    key, waiting: int64[n], int32[n]: a heap of vertices by distance, for searches by cost.
    """

    core: np.ndarray[tuple[int, int], np.dtype[np.int32]]
    far: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    size: Ints
    best: Longs
    needed: Ints
    hanging: Ints
    key: Longs
    waiting: Ints


def make_search(trunk: Trunk, rows: int, by_hops: bool) -> Search:
    """Room for searches of this many rows. Only what searches come to is written."""
    core = trunk.part.size
    heap = 0 if by_hops else trunk.near.size + 2
    tables = np.empty((rows, core), np.int32), np.empty((rows, core), np.int64)
    best, needed = np.full(core, UNREACHED, np.int64), np.full(core, -1, np.int32)
    waiting = np.empty(heap, np.int64), np.empty(heap, np.int32)
    return Search(*tables, np.zeros(rows, np.int32), best, needed, np.empty(core, np.int32), *waiting)


@kernel
def search_all(maze: Maze, trunk: Trunk, ends: Ends, flows: Flows, found: Search, by_hops: bool) -> None:
    """Fill the rows of a batch."""
    for row in range(ends.row_vertex.size):
        end = maze.core[ends.row_vertex[row]]
        wanted, hanging = mark_sources(maze, trunk, ends, flows, found, row, end)
        count = search_hops(trunk, found, row, end, wanted) if by_hops else search_costs(trunk, found, row, end, wanted)
        for i in range(hanging):
            core = found.hanging[i]
            far = found.best[trunk.hangs_at[core]]
            if far < UNREACHED:
                found.core[row, count] = core
                found.best[core] = far + trunk.hangs_by[core]
                count += 1
        for i in range(count):
            core = found.core[row, i]
            found.far[row, i] = found.best[core]
            found.best[core] = UNREACHED
        found.size[row] = count


@inner
def mark_sources(
    maze: Maze, trunk: Trunk, ends: Ends, flows: Flows, found: Search, row: int, end: int
) -> tuple[int, int]:
    """Mark the vertices at which the flows that need a row come to where traffic may pass, if it can come from there to
    the row's vertex ``end``; returns how many, and how many more of them hang at what is marked for it."""
    wanted = 0
    hanging = 0
    for user in range(ends.row_first[row], ends.row_first[row + 1]):
        group = ends.row_class[user]
        for place in range(ends.flow_first[group], ends.flow_first[group + 1]):
            source = flows.source[flows.order[place]]
            core = maze.core[source]
            if core >= 0:
                wanted, hanging = mark(trunk, found, row, core, end, wanted, hanging)
                continue
            if is_beside(maze, ends, group, source):
                continue
            for i in range(maze.leave_first[source], maze.leave_first[source + 1]):
                core = maze.leave_core[i]
                if core >= 0 and maze.leave_weight[i] > 0:
                    wanted, hanging = mark(trunk, found, row, core, end, wanted, hanging)
        if wanted + hanging == found.needed.size:
            break
    return wanted, hanging


@inner
def mark(trunk: Trunk, found: Search, row: int, core: int, end: int, wanted: int, hanging: int) -> tuple[int, int]:
    """Mark a vertex for a row; what hangs is put off, and what it hangs at marked instead."""
    if found.needed[core] == row or trunk.part[core] != trunk.part[end]:
        return wanted, hanging
    found.needed[core] = row
    if core == end or trunk.hangs_at[core] == NOWHERE:
        return wanted + 1, hanging
    found.hanging[hanging] = core
    return mark_firm(found, row, trunk.hangs_at[core], wanted), hanging + 1


@inner
def mark_firm(found: Search, row: int, core: int, wanted: int) -> int:
    if found.needed[core] == row:
        return wanted
    found.needed[core] = row
    return wanted + 1


@inner
def is_beside(maze: Maze, ends: Ends, group: int, source: int) -> bool:
    """Whether one vertex between a source and the destinations of a class makes a shorter way than any link between two
    such vertices can: then nothing has to be searched for."""
    shared = UNREACHED
    out = UNREACHED
    into = UNREACHED
    for i in range(maze.leave_first[source], maze.leave_first[source + 1]):
        if maze.leave_core[i] < 0 or maze.leave_weight[i] == 0:
            continue
        out = min(out, maze.leave_weight[i])
        for entry in range(ends.entry_first[group], ends.entry_first[group + 1]):
            into = min(into, ends.entry_weight[entry])
            if maze.core[ends.row_vertex[ends.entry_row[entry]]] == maze.leave_core[i]:
                shared = min(shared, maze.leave_weight[i] + ends.entry_weight[entry])
    return shared <= out + into


@inner
def search_hops(trunk: Trunk, found: Search, row: int, end: int, wanted: int) -> int:
    """Breadth first: the first distance found is the least. Returns how many vertices were found."""
    found.best[end] = 0
    wanted -= found.needed[end] == row
    found.core[row, 0] = end
    count = 1
    at = 0
    while at < count and wanted > 0:
        core = found.core[row, at]
        at += 1
        further = found.best[core] + 1
        for i in range(trunk.first[core], trunk.first[core + 1]):
            near = trunk.near[i]
            if found.best[near] == UNREACHED:
                found.best[near] = further
                found.core[row, count] = near
                count += 1
                wanted -= found.needed[near] == row
    return count


@inner
def search_costs(trunk: Trunk, found: Search, row: int, end: int, wanted: int) -> int:
    """Dijkstra's search; what was put off stays in the heap and is skipped when it comes up."""
    found.best[end] = 0
    found.core[row, 0] = end
    found.key[0] = 0
    found.waiting[0] = end
    count = 1
    held = 1
    while held > 0 and wanted > 0:
        far = found.key[0]
        core = found.waiting[0]
        held = pop(found.key, found.waiting, held)
        if far > found.best[core]:
            continue
        wanted -= found.needed[core] == row
        for i in range(trunk.first[core], trunk.first[core + 1]):
            near = trunk.near[i]
            further = far + trunk.weight[i]
            if further < found.best[near]:
                if found.best[near] == UNREACHED:
                    found.core[row, count] = near
                    count += 1
                found.best[near] = further
                held = push(found.key, found.waiting, held, further, near)
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
