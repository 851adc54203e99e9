"""Flows walked from their sources to their destinations, one of the next links at every vertex."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chakrasim.jit import inner, kernel, leaf
from chakrasim.machine.graph.routing.kernels.ends import Ends, Flows
from chakrasim.machine.graph.routing.kernels.maze import BY_SOURCE, HASHED, Maze
from chakrasim.machine.graph.routing.kernels.mixer import mix
from chakrasim.machine.graph.routing.kernels.nexts import Nexts, choose, direct, learn, open_class
from chakrasim.machine.graph.routing.kernels.search import Search
from chakrasim.machine.graph.routing.routes import Floats, Ints, Longs

NO_ROUTE = -1
"""As a length."""


class Found(NamedTuple):
    """Routes in the order in which they are found: where each flow's begins, int64[f], its length, int32[f], and the
    crossings of all, int32[n] and float64[n] (none where all coefficients are 1)."""

    place: Longs
    length: Ints
    link: Ints
    coefficient: Floats


@kernel
def walk_all(
    maze: Maze, ends: Ends, flows: Flows, search: Search, nexts: Nexts, found: Found, rule: int, begin: int, used: int
) -> tuple[int, int]:
    """Route a batch's flows from position ``begin`` on, with ``used`` crossings written before.

    Returns the position at which ``found`` was full, or the number of flows, and how many crossings are written.
    """
    group = -1
    for place in range(begin, flows.order.size):
        group = open_class(maze, ends, search, nexts, group, place)
        flow = flows.order[place]
        after = walk(maze, ends, flows, nexts, found, rule, group, flow, used)
        if after < 0:
            return place, used
        found.place[flow] = used
        if after == used and flows.source[flow] != flows.destination[flow]:
            found.length[flow] = NO_ROUTE
        else:
            found.length[flow] = after - used
        used = after
    return flows.order.size, used


@inner
def walk(
    maze: Maze,
    ends: Ends,
    flows: Flows,
    nexts: Nexts,
    found: Found,
    rule: int,
    group: int,
    flow: int,
    used: int,
) -> int:
    """Write one flow's links; returns how many crossings are written then, -1 if there is no room for them."""
    vertex = flows.source[flow]
    end = flows.destination[flow]
    while vertex != end:
        listed, straight, cost = options(maze, ends, nexts, group, vertex, end)
        if listed + straight == 0:
            return used
        if used == found.link.size:
            return -1
        number = pick(maze, nexts, flows, rule, flow, vertex, listed, listed + straight)
        if straight > 0:
            link = choose(maze, nexts, vertex, end, listed, straight, cost, number)
        else:
            link = nexts.link[nexts.first[vertex] + number]
        found.link[used] = link
        used += 1
        vertex = maze.target[link]
    return used


@leaf
def options(maze: Maze, ends: Ends, nexts: Nexts, group: int, vertex: int, end: int) -> tuple[int, int, int]:
    """How many of a vertex's listed links, and how many that lead straight to a destination that lets nothing pass,
    begin a shortest way, and the way's cost."""
    if nexts.known[vertex] != nexts.used[1]:
        learn(maze, nexts, vertex)
    listed = nexts.listed[vertex]
    cost = nexts.far[vertex]
    straight = 0
    if is_entry(maze, ends, group, vertex, end, cost):
        straight, nearest = direct(maze, nexts, vertex, end)
        if nearest < cost:
            listed = 0
            cost = nearest
    return listed, straight, cost


@leaf
def is_entry(maze: Maze, ends: Ends, group: int, vertex: int, end: int, cost: int) -> bool:
    """Whether a link to a destination that lets nothing pass may begin here."""
    if maze.core[end] >= 0:
        return False
    if maze.core[vertex] < 0:
        return bool(ends.bare[end])
    for entry in range(ends.entry_first[group], ends.entry_first[group + 1]):
        if ends.row_vertex[ends.entry_row[entry]] == vertex and ends.entry_weight[entry] == cost:
            return True
    return False


@leaf
def pick(
    maze: Maze, nexts: Nexts, flows: Flows, rule: int, flow: int, vertex: int, listed: int, count: int
) -> np.int64 | int:
    """Which of ``count`` next links a flow takes."""
    if count == 1:
        return 0
    if rule == HASHED:
        return np.int64(mix(flows.key[flow] + maze.salt[vertex]) % np.uint64(count))
    if listed > 0 and maze.level[maze.target[nexts.link[nexts.first[vertex]]]] > maze.level[vertex]:
        end = flows.source[flow] if rule == BY_SOURCE else flows.destination[flow]
        return int((end // maze.stride[vertex]) % count)
    return int(flows.source[flow] % count)


@kernel
def gather(found: Found, first: Longs, link: Ints, coefficient: Floats) -> None:
    """Put crossings into the order of the flows; ``first`` [f + 1] says where each one's begin."""
    for flow in range(found.place.size):
        place = found.place[flow]
        for i in range(first[flow + 1] - first[flow]):
            link[first[flow] + i] = found.link[place + i]
            if found.coefficient.size > 0:
                coefficient[first[flow] + i] = found.coefficient[place + i]
