"""All shortest ways of a flow at once: how it divides among them, or which they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chakrasim.jit import inner, kernel
from chakrasim.machine.graph.routing.kernels.ends import Ends, Flows
from chakrasim.machine.graph.routing.kernels.maze import Maze
from chakrasim.machine.graph.routing.kernels.nexts import Nexts, choose, open_class
from chakrasim.machine.graph.routing.kernels.search import Search, pop, push
from chakrasim.machine.graph.routing.kernels.walk import NO_ROUTE, Found, options
from chakrasim.machine.graph.routing.routes import Floats, Ints, Longs


class Fan(NamedTuple):
    """What a flow reaches.

    Attributes
    ----------
    seen: bool[v]: vertices that the flow has reached; none between flows.
    part: float64[v]: what part of it comes there.
    ways: float64[v]: how many ways lead on.
    order: int32[v]: the vertices that it reaches, farthest first.
    key, vertex: int64[v + 1], int32[v + 1]: heap of vertices by distance, the farthest on top.
    """

    seen: NDArray[np.bool_]
    part: Floats
    ways: Floats
    order: Ints
    key: Longs
    vertex: Ints


def make_fan(vertices: int) -> Fan:
    return Fan(
        np.zeros(vertices, np.bool_),
        np.zeros(vertices),
        np.zeros(vertices),
        np.zeros(vertices, np.int32),
        np.zeros(vertices + 1, np.int64),
        np.zeros(vertices + 1, np.int32),
    )


@kernel
def spread_all(
    maze: Maze, ends: Ends, flows: Flows, search: Search, nexts: Nexts, found: Found, fan: Fan, begin: int, used: int
) -> tuple[int, int]:
    """Divide a batch's flows at every vertex; as `walk_all`."""
    group = -1
    for place in range(begin, flows.order.size):
        group = open_class(maze, ends, search, nexts, group, place)
        flow = flows.order[place]
        reached = reach(maze, ends, nexts, fan, group, flows.source[flow], flows.destination[flow])
        after = divide(maze, ends, nexts, found, fan, group, reached, flows.destination[flow], used)
        if after < 0:
            return place, used
        found.place[flow] = used
        found.length[flow] = NO_ROUTE if reached < 0 else after - used
        used = after
    return flows.order.size, used


@inner
def reach(maze: Maze, ends: Ends, nexts: Nexts, fan: Fan, group: int, source: int, end: int) -> int:
    """Put the vertices on shortest ways into ``order``; returns how many, without the end, or -1 if there is none."""
    if source == end:
        return 0
    listed, straight, _ = options(maze, ends, nexts, group, source, end)
    if listed + straight == 0:
        return -1
    fan.seen[source] = True
    fan.key[0] = 0
    fan.vertex[0] = source
    waiting = 1
    count = 0
    while waiting > 0:
        vertex = fan.vertex[0]
        waiting = pop(fan.key, fan.vertex, waiting)
        fan.order[count] = vertex
        count += 1
        listed, straight, _ = options(maze, ends, nexts, group, vertex, end)
        for i in range(nexts.first[vertex], nexts.first[vertex] + listed):
            target = maze.target[nexts.link[i]]
            if target != end and not fan.seen[target]:
                fan.seen[target] = True
                options(maze, ends, nexts, group, target, end)
                waiting = push(fan.key, fan.vertex, waiting, -nexts.far[target], target)
    for i in range(count):
        fan.seen[fan.order[i]] = False
    return count


@inner
def divide(
    maze: Maze,
    ends: Ends,
    nexts: Nexts,
    found: Found,
    fan: Fan,
    group: int,
    reached: int,
    end: int,
    used: int,
) -> int:
    """Write the links of one flow with their parts; returns how many crossings are written then, -1 without room."""
    for i in range(reached):
        fan.part[fan.order[i]] = 1.0 if i == 0 else 0.0
    for i in range(reached):
        vertex = fan.order[i]
        listed, straight, cost = options(maze, ends, nexts, group, vertex, end)
        count = listed + straight
        if used + count > found.link.size:
            return -1
        for number in range(count):
            link = choose(maze, nexts, vertex, end, listed, straight, cost, number)
            found.link[used] = link
            found.coefficient[used] = fan.part[vertex] / count
            fan.part[maze.target[link]] += fan.part[vertex] / count
            used += 1
    return used


@kernel
def list_all(
    maze: Maze,
    ends: Ends,
    flows: Flows,
    search: Search,
    nexts: Nexts,
    found: Found,
    fan: Fan,
    way_first: Longs,
    limit: int,
    count_only: bool,
    begin: int,
    used: int,
) -> tuple[int, int]:
    """Write shortest ways of a batch's flows, each as a route of its own, at most ``limit`` a flow; as `walk_all`.

    ``way_first`` [f + 1] says where each flow's ways stand in ``found``; with ``count_only`` their numbers are written
    to it instead, behind each flow. Of more ways than the limit, as many at equal steps from one that the key draws.
    """
    group = -1
    for place in range(begin, flows.order.size):
        group = open_class(maze, ends, search, nexts, group, place)
        flow = flows.order[place]
        end = flows.destination[flow]
        reached = reach(maze, ends, nexts, fan, group, flows.source[flow], end)
        total = count_ways(maze, ends, nexts, fan, group, reached, end)
        wanted = int(min(total, float(limit)))
        if count_only:
            way_first[flow + 1] = wanted
            continue
        before = used
        start = 0.0 if total <= limit else float(flows.key[flow] % np.uint64(min(total, 2.0**52)))
        for i in range(wanted):
            number = (start + np.floor(i * (total / wanted))) % total
            after = write_way(maze, ends, nexts, found, fan, group, flows.source[flow], end, number, used)
            if after < 0:
                return place, before
            found.place[way_first[flow] + i] = used
            found.length[way_first[flow] + i] = after - used
            used = after
    return flows.order.size, used


@inner
def count_ways(maze: Maze, ends: Ends, nexts: Nexts, fan: Fan, group: int, reached: int, end: int) -> float:
    """How many shortest ways a flow has, 1 from a vertex to itself."""
    if reached <= 0:
        return float(1 + reached)
    fan.ways[end] = 1.0
    for i in range(reached - 1, -1, -1):
        vertex = fan.order[i]
        listed, straight, _ = options(maze, ends, nexts, group, vertex, end)
        total = float(straight)
        for j in range(nexts.first[vertex], nexts.first[vertex] + listed):
            total += fan.ways[maze.target[nexts.link[j]]]
        fan.ways[vertex] = total
    return float(fan.ways[fan.order[0]])


@inner
def write_way(
    maze: Maze,
    ends: Ends,
    nexts: Nexts,
    found: Found,
    fan: Fan,
    group: int,
    vertex: int,
    end: int,
    number: float,
    used: int,
) -> int:
    """Write way ``number`` of those in the order of their link numbers; as `divide`."""
    while vertex != end:
        listed, straight, cost = options(maze, ends, nexts, group, vertex, end)
        if used == found.link.size:
            return -1
        link = 0
        for i in range(listed + straight):
            link = choose(maze, nexts, vertex, end, listed, straight, cost, i)
            ways = fan.ways[maze.target[link]]
            if number < ways:
                break
            number -= ways
        found.link[used] = link
        used += 1
        vertex = maze.target[link]
    return used
