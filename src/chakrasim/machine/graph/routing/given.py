"""Routes that a user gives: whole ways with weights, and tables of next links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError, near
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing.kernels.mixer import keys_of, mix_array
from chakrasim.machine.graph.routing.routes import Ints, Longs, Routes
from chakrasim.machine.graph.routing.rule import GivenPath, NextLinks
from chakrasim.trace.chakra.graph import offsets_of

Weighted = list[tuple[float, list[int]]]


@dataclass(frozen=True, eq=False)
class Tables:
    """What was given, as numbers: ways by (source, destination, label), next links by (vertex, destination)."""

    paths: dict[tuple[int, int, int | None], Weighted]
    nexts: dict[tuple[int, int], list[int]]


def read_tables(graph: NetworkGraph, paths: Sequence[GivenPath], nexts: Sequence[NextLinks]) -> Tables:
    """Names looked up and ways checked. Raises :class:`chakrasim.InputError` for a name that is none, a way that does
    not lead from its source to its destination, and a weight that is not above 0."""
    ways: dict[tuple[int, int, int | None], Weighted] = defaultdict(list)
    for i, path in enumerate(paths):
        place = f"paths[{i}]"
        ends = [_number(graph.number_of, name, "vertex", place) for name in (path.source, path.destination)]
        links = [_number(graph.link_number, name, "link", place) for name in path.links]
        here = ends[0]
        for link in links:
            if graph.source[link] != here:
                name, found = graph.names[here], graph.link_names[link]
                raise _refused(place, "the way is broken", f"link {found} after {name}", f"a link that leaves {name}")
            here = int(graph.target[link])
        if here != ends[1]:
            raise _refused(place, "the way leads elsewhere", f"end at {graph.names[here]}", path.destination)
        if not (np.isfinite(path.weight) and path.weight > 0):
            raise _refused(place, "weight out of range", str(path.weight), "above 0")
        ways[ends[0], ends[1], path.label].append((path.weight, links))
    tables: dict[tuple[int, int], list[int]] = {}
    for i, entry in enumerate(nexts):
        place = f"next[{i}]"
        at = _number(graph.number_of, entry.at, "vertex", place)
        links = [_number(graph.link_number, name, "link", place) for name in entry.links]
        strays = [graph.link_names[link] for link in links if graph.source[link] != at]
        if strays:
            raise _refused(place, f"a link does not leave {entry.at}", strays[0], f"links {entry.at}-...")
        tables[at, _number(graph.number_of, entry.destination, "vertex", place)] = links
    return Tables(dict(ways), tables)


def _number(numbers: dict[str, int], name: str, what: str, place: str) -> int:
    if name not in numbers:
        raise InputError(f"no such {what}", file="routing", place=place, found=name, remedy=near(name, numbers) or None)
    return numbers[name]


def _refused(place: str, message: str, found: str, expected: str) -> InputError:
    return InputError(message, file="routing", place=place, found=found, expected=expected)


def given_routes(
    graph: NetworkGraph,
    tables: Tables,
    seed: int,
    salt: NDArray[np.uint64],
    flows: tuple[Ints, Ints, Longs],
    dead: NDArray[np.bool_] | None,
) -> Routes:
    """Routes by the tables: ways of the label, else those of the pair, else next links. A way over a dead link is left
    out, and the others of its pair carry its part; a dead next link is no candidate."""
    source, destination, label = flows
    key = keys_of(seed, source, destination, label)
    down = set() if dead is None else set(np.flatnonzero(dead).tolist())
    found: list[dict[int, float]] = []
    missing = []
    for i, (a, b, c) in enumerate(zip(source.tolist(), destination.tolist(), label.tolist(), strict=True)):
        ways = tables.paths.get((a, b, c)) or tables.paths.get((a, b, None))
        if a == b:
            parts: dict[int, float] | None = {}
        elif ways:
            parts = _mixed([way for way in ways if down.isdisjoint(way[1])])
        else:
            parts = _by_table(graph, tables, salt, key[i], a, b, down)
        if parts is None:
            missing.append(i)
        found.append(parts or {})
    return Routes(
        offsets_of(np.array([len(parts) for parts in found], np.int64)),
        np.array([link for parts in found for link in parts], np.int32),
        np.array([part for parts in found for part in parts.values()], np.float64),
        np.array(missing, np.int64),
    )


def _mixed(ways: Weighted) -> dict[int, float] | None:
    """Links of the ways with the part of the flow that crosses each."""
    total = sum(weight for weight, _ in ways)
    parts: dict[int, float] = defaultdict(float)
    for weight, links in ways:
        for link in links:
            parts[link] += weight / total
    return parts if ways else None


def _by_table(
    graph: NetworkGraph,
    tables: Tables,
    salt: NDArray[np.uint64],
    key: np.uint64,
    vertex: int,
    end: int,
    down: set[int],
) -> dict[int, float] | None:
    parts: dict[int, float] = {}
    seen = {vertex}
    while vertex != end:
        links = [link for link in tables.nexts.get((vertex, end), ()) if link not in down]
        if not links:
            return None
        drawn = mix_array(np.array([key]) + salt[vertex])[0]
        link = links[int(drawn) % len(links)]
        parts[link] = 1.0
        vertex = int(graph.target[link])
        if vertex in seen:
            name, goal = graph.names[vertex], graph.names[end]
            raise _refused("next", f"the tables lead in a circle on the way to {goal}", name, "each vertex once")
        seen.add(vertex)
    return parts
