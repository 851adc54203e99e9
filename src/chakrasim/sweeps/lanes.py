"""Machines that settings make of one machine, side by side: only links' figures differ, which need no second reading.

Each value of a setting is read once, beside the machine without settings; what settings change of different links goes
together. A few of the machines are read as a whole, too, and must be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.estimation.alone import equal_islands
from chakrasim.machine import Machine
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.link_lanes import LinkLanes

Floats = NDArray[np.float64]
Settings = tuple[tuple[str, Any], ...]
Load = Callable[[Settings], Machine]
Part = tuple[tuple[int, ...], Settings, LinkLanes | None]
"""Rows of settings; what the machine is made with whose lanes they are, and these; none of a single row."""


def parts_of(settings: Sequence[Settings], load: Load) -> list[Part]:
    """Settings of the same keys, as lanes of few machines. Raises InputError for what cannot be read."""
    if len(settings) == 1:
        return [((0,), settings[0], None)]
    plain = _of_links(settings, load)
    groups: dict[Settings, list[int]] = {}
    for row, own in enumerate(settings):
        groups.setdefault(tuple(pair for at, pair in enumerate(own) if at not in plain), []).append(row)
    found: list[Part] = []
    for other, rows in groups.items():
        figures = [tuple(settings[row][at] for at in plain) for row in rows]
        lanes = _lanes(other, figures, load) if len(rows) > 1 else None
        if lanes is not None and all(_same(lanes, lane, load(settings[rows[lane]])) for lane in _some(len(rows))):
            found.append((tuple(rows), other, lanes))
        else:
            found += [((row,), settings[row], None) for row in rows]
    return found


def _of_links(settings: Sequence[Settings], load: Load) -> list[int]:
    """Which of the keys change nothing but figures of links, by one value of each."""
    try:
        base = load(())
    except InputError:
        return []
    return [at for at, pair in enumerate(settings[-1]) if _alike(base, (pair,), load)]


def _alike(base: Machine, settings: Settings, load: Load) -> bool:
    """Whether a machine with settings differs from one without in figures of links alone, which route nothing."""
    try:
        other = load(settings)
    except InputError:
        return False
    if base.routing.metric == "latency" or base.routing.rule == "adaptive":
        return False
    names = {one.name for one in fields(Machine)} - {"network", "warnings"}
    if any(getattr(base, name) != getattr(other, name) for name in names):
        return False
    mine, theirs = _structure(base.graph), _structure(other.graph)
    return all(np.array_equal(value, theirs[name]) for name, value in mine.items())


def _structure(graph: NetworkGraph) -> dict[str, Any]:
    names = {one.name for one in fields(NetworkGraph)} - {"capacity", "latency", "names"}
    return {name: getattr(graph, name) for name in names}


def _figures(machine: Machine) -> Floats:
    """float64[2, links]: capacities and latencies."""
    return np.stack([machine.graph.capacity, machine.graph.latency])


def _lanes(other: Settings, figures: Sequence[Settings], load: Load) -> LinkLanes | None:
    """The machine made with ``other`` with each of these settings; None where several change the same link."""
    machine = load(other)
    base, changes = _figures(machine), list[Mapping[Any, Floats]]()
    for at in range(len(figures[0])):
        values = dict.fromkeys(own[at] for own in figures)
        if not all(_alike(machine, (*other, pair), load) for pair in values):
            return None
        changes.append({pair: _figures(load((*other, pair))) for pair in values})
    touched = [np.any([new != base for new in change.values()], axis=0) for change in changes]
    if np.any(np.sum(touched, axis=0) > 1):
        return None
    rows = np.concatenate([base, *(new for change in changes for new in change.values())])
    _, first, kind = np.unique(rows, axis=1, return_index=True, return_inverse=True)
    found = np.repeat(base[None, :, first], len(figures), axis=0)
    for at, (change, own) in enumerate(zip(changes, touched, strict=True)):
        new = np.array([change[pairs[at]][:, first] for pairs in figures])
        found = np.where(own[:, first], new, found)
    lanes = LinkLanes(machine.graph, kind.reshape(-1), found[:, 0].copy(), found[:, 1].copy())
    usual = equal_islands(machine.graph)
    alike = all(equal_islands(lanes.of(lane)) == usual for lane in range(len(lanes)))
    return lanes if alike else None


def _same(lanes: LinkLanes, lane: int, machine: Machine) -> bool:
    """Whether a machine that was read as a whole is what a lane has."""
    graph = lanes.of(lane)
    return bool(np.array_equal(np.stack([graph.capacity, graph.latency]), _figures(machine)))


def _some(count: int) -> set[int]:
    return {0, count // 3, 2 * count // 3, count - 1}
