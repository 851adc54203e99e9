"""How long collectives take alone on machines that differ in their links' figures alone: all of them at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.kinds import KINDS
from chakrasim.collectives.libraries.course import Course
from chakrasim.machine import Machine
from chakrasim.machine.graph.link_lanes import LinkLanes
from chakrasim.simulator.flow.fill import SLACK_NS
from chakrasim.simulator.lowering.activities import Activities, Key
from chakrasim.simulator.lowering.library import Courses, Pattern, pattern_of, whole_bytes

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Crossed:
    """What an activity takes of links: their kinds, each with the largest coefficient of its links; how it counts
    beside others; float64[lanes]: ns before its first byte, where no library says it."""

    kinds: NDArray[np.intp]
    coefficients: Floats
    weight: float
    fill_ns: Floats


class CollectiveLanes:
    """Collectives of one machine with its links' figures as in each of the lanes."""

    def __init__(self, machine: Machine, lanes: LinkLanes) -> None:
        self._lanes = lanes
        self._courses = None if machine.library is None else Courses(machine, lanes)
        self._activities = Activities(lanes.graph, machine.routing, courses=self._courses)
        self._patterns: dict[tuple[Hashable, ...], Pattern] = {}
        self._crossed: dict[tuple[int, tuple[int, ...], Pattern | None], _Crossed] = {}

    def times(self, number: int, size_bytes: int, members: Sequence[int]) -> tuple[Floats, Floats]:
        """float64[lanes]: whole ns of a collective of this ``comm_size`` and type of a group, the same as
        `chakrasim.simulator.closed_form.collective_alone` has, and its channels, 0 without a library."""
        kind, ranks = KINDS[number], tuple(members)
        if len(ranks) == 1 or (size_bytes <= 0 and kind.in_place):
            return np.zeros(len(self._lanes)), np.zeros(len(self._lanes))
        if self._courses is None:
            one = self._of_pattern(number, ranks, None)
            levels = self._levels(one, np.arange(len(self._lanes)))
            return _whole_ns(one.fill_ns, levels * one.weight, size_bytes), np.zeros(len(self._lanes))
        courses, which = self._courses.each(number, size_bytes, ranks)
        patterns = [self._pattern(course, number, ranks) for course in courses]
        share = size_bytes / whole_bytes(number, size_bytes, len(ranks)) if size_bytes else np.inf
        caps = np.array([course.rate * share if size_bytes else np.inf for course in courses])
        startup = np.array([course.startup_ns for course in courses])
        channels = np.array([float(course.choice.channels) for course in courses])
        times = np.empty(len(self._lanes))
        for pattern in dict.fromkeys(patterns):
            alike = np.array([other == pattern for other in patterns])
            on = np.flatnonzero(alike[which])
            one = self._of_pattern(number, ranks, pattern)
            rate = np.minimum(self._levels(one, on), caps[which[on]] / one.weight) * one.weight
            times[on] = _whole_ns(startup[which[on]], rate, size_bytes)
        return times, channels[which]

    def _pattern(self, course: Course, number: int, members: tuple[int, ...]) -> Pattern:
        key = course.choice.algorithm, course.choice.protocol, course.choice.channels, number, members
        if key not in self._patterns:
            self._patterns[key] = pattern_of(course, number, members, self._lanes.graph)
        return self._patterns[key]

    def _levels(self, one: _Crossed, on: NDArray[np.intp]) -> Floats:
        """float64[on]: of the link that is full first; infinite where none is crossed."""
        if not one.kinds.size:
            return np.full(on.size, np.inf)
        return np.asarray((self._lanes.capacity[np.ix_(on, one.kinds)] / (one.weight * one.coefficients)).min(axis=1))

    def _of_pattern(self, number: int, members: tuple[int, ...], pattern: Pattern | None) -> _Crossed:
        known = number, members, pattern
        if known not in self._crossed:
            key = Key(number, members[0] if KINDS[number].rooted else -1, members)
            hops = self._activities.hops_of(key, pattern)
            charge = self._activities.charge_of(hops)
            kinds, which = np.unique(self._lanes.kind[charge.links], return_inverse=True)
            most = np.zeros(kinds.size)
            np.maximum.at(most, which, charge.coefficients)
            fill = np.zeros(len(self._lanes))
            if pattern is None and hops.source.size:
                routes, graphs = self._activities.routes_of(hops), map(self._lanes.of, self._first_alike())
                fills = np.array([hops.fill_ns(routes.latency_ns(graph)) for graph in graphs])
                fill = fills[self._latencies()[1]]
            self._crossed[known] = _Crossed(kinds, most, charge.weight, fill)
        return self._crossed[known]

    def _first_alike(self) -> list[int]:
        return [int(lane) for lane in self._latencies()[0]]

    def _latencies(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The first of lanes with the same latencies, and intp[lanes]: which of these each is like."""
        _, first, which = np.unique(self._lanes.latency, axis=0, return_index=True, return_inverse=True)
        return first, which.reshape(-1)


def _whole_ns(startup: Floats, rate: Floats, size_bytes: int) -> Floats:
    """When an activity ends, a whole nanosecond, as the network finds it."""
    if not size_bytes:
        return np.ceil(startup - SLACK_NS)
    begun = np.floor(startup)
    moving = begun + np.ceil(size_bytes / rate + (startup - begun) - SLACK_NS)
    return np.where(np.isinf(rate), np.ceil(startup - SLACK_NS), moving)
