"""Collectives of the flow network as one activity each: all its links busy at one common rate.

A pipelined ring of n ranks sends the same bytes over each of its hops, so what limits it is one rate: bytes of the
collective per ns. A link that is crossed by several hops, or by one hop more than once, has a larger coefficient.
What passes before the pipeline is full, the latency of each step, is paid once, before the first byte.

Where a library runs the collectives, its algorithm says which links they take, and their course (`Courses`) what passes
before the first byte and how fast they may be: so they differ by size, too.

Beside other flows each hop of each ring counts as one flow, whatever the collective's size is said to be: the weight
of an activity is the reciprocal of what each of its hops carries per byte of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.kinds import KINDS
from chakrasim.collectives.libraries.course import Course
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import Routes, Routing, find_routes
from chakrasim.simulator.lowering.channels import MOST_CHANNELS, rings_of
from chakrasim.simulator.lowering.library import Courses, Pattern, Ways, pattern_of, whole_bytes
from chakrasim.simulator.lowering.matrices import Matrix
from chakrasim.simulator.lowering.patterns import Hops, direct_hops, on_rings
from chakrasim.text.amounts import plural, ranks_text

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]


class Key(NamedTuple):
    """What tells activities apart: type, root (-1: none), members, where a library chooses by it the size, and where
    parts differ who has what for whom."""

    kind: int
    root: int
    members: tuple[int, ...]
    size_bytes: int = 0
    matrix: int = -1


class Charges(NamedTuple):
    """What activities take: of each link per byte, ns before their first byte, and how they count beside others."""

    routes: Routes
    latency_ns: Floats
    weight: Floats


class Alone(NamedTuple):
    """An activity alone: bytes per ns, its cap and whether that is what limits it, the link that is full first (-1: it
    crosses none), and bytes on a wire per byte of data."""

    rate: float
    cap: float
    link: int
    capped: bool
    wire: float


class Charge(NamedTuple):
    """The same of one activity, with who sends how much, which hops cross each link, and whether one has no way."""

    links: Ints
    coefficients: Floats
    fill_ns: float
    weight: float
    senders: tuple[Ints, Floats]
    crossers: tuple[Ints, Ints, NDArray[np.int16], NDArray[np.int16]]
    cut: bool


class Activities:
    """The activities of a run, equal ones once, in the order in which they are first asked for."""

    def __init__(
        self, graph: NetworkGraph, routing: Routing, channels: int = 0, courses: Courses | None = None
    ) -> None:
        self._graph, self._routing, self._rings, self._courses = graph, routing, channels, courses
        self._numbers: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._matrices: dict[int, Matrix] = {}
        self._known: dict[Hashable, Charge] = {}
        self._charged: dict[int, Charge] = {}

    def empty(self) -> Activities:
        """None yet, on the same graph."""
        return Activities(self._graph, self._routing, self._rings, self._courses)

    def number_of(
        self, kind: int, root: int, members: Sequence[int], size_bytes: int = 0, matrix: Matrix | None = None
    ) -> int:
        """The number of the activity that a collective of a `CollectiveType` is; ``matrix`` are the parts, if they
        differ."""
        size = 0 if self._courses is None and matrix is None else size_bytes
        number = -1 if matrix is None else matrix.number
        key = Key(int(kind), root if KINDS[kind].rooted else -1, tuple(members), size, number)
        if matrix is not None:
            self._matrices[number] = matrix
        number = self._numbers.setdefault(key, len(self._keys))
        if number == len(self._keys):
            self._keys.append(key)
        return number

    def __len__(self) -> int:
        return len(self._keys)

    def name_of(self, number: int) -> str:
        """What an activity is, and of which ranks."""
        key, course = self._keys[number], self.course(number)
        chosen = "" if course is None else f" ({course.choice.algorithm} {course.choice.protocol})"
        return f"{KINDS[key.kind].key}{chosen} of {ranks_text(sorted(key.members))}"

    def a_member_of(self, number: int) -> int:
        """One of the ranks of an activity."""
        return self._keys[number].members[0]

    def key(self, number: int) -> Key:
        """What an activity is."""
        return self._keys[number]

    def course(self, number: int) -> Course | None:
        """How the library runs an activity."""
        key = self._keys[number]
        return None if self._courses is None else self._courses.of(key.kind, key.size_bytes, key.members)

    def course_of(self, kind: int, size_bytes: int, members: tuple[int, ...]) -> Course | None:
        """How the library runs a collective; None without a library."""
        return None if self._courses is None else self._courses.of(kind, size_bytes, members)

    def caps(self) -> Floats:
        """float64[a]: the most bytes of each activity per ns, whatever links allow; infinite without a library."""
        found = np.full(len(self), np.inf)
        for number, key in enumerate(self._keys if self._courses is not None else ()):
            course = self.course(number)
            if course is not None and key.size_bytes:
                found[number] = course.rate * key.size_bytes / whole_bytes(key.kind, key.size_bytes, len(key.members))
        return found

    def cut_pair(self, number: int, down: NDArray[np.bool_]) -> tuple[int, int] | None:
        """Two ranks of an activity between which there is no way while links are down; None if there are no such."""
        hops = self.hops(number, down)
        found = hops.routes or find_routes(
            self._graph, hops.source, hops.destination, None, self._routing, down, refuse=False
        )
        hop = found.missing[:1].tolist()
        return (int(hops.source[hop[0]]), int(hops.destination[hop[0]])) if hop else None

    def bytes_sent(self, number: int, size_bytes: float, sent: Floats) -> None:
        """Add to ``sent`` (float64[ranks]) what each rank sends for so many bytes of an activity."""
        source, share = self._charged[number].senders
        np.add.at(sent, source, share * size_bytes)

    def flows_over(self, number: int, link: int) -> str:
        """Which flows of an activity cross a link: ``2 flows of channel 3``; "" for one that has lost its way there."""
        links, counts, low, high = self._charged[number].crossers
        at = int(np.searchsorted(links, link))
        if at == links.size or links[at] != link or not counts[at]:
            return ""
        flows = plural(int(counts[at]), "flow")
        if not low.size:
            return flows
        return f"{flows} of " + (f"channel {low[at]}" if low[at] == high[at] else f"channels {low[at]} to {high[at]}")

    def charges(self, numbers: Sequence[int], down: NDArray[np.bool_] | None) -> Charges:
        """What activities take while links (bool[l]) are down. Those with a hop that has no way are in
        `Routes.missing`, or refused where no link is down."""
        keys = [self._pattern(number) for number in numbers]
        known = self._known if down is None else {}
        new = {key: number for key, number in zip(keys, numbers, strict=True) if key not in known}
        if new:
            known.update(zip(new, self._found(list(new.values()), down), strict=True))
        found = [known[key] for key in keys]
        self._charged.update(zip(numbers, found, strict=True))
        first = np.cumsum([0, *(one.links.size for one in found)])
        links = np.concatenate([np.zeros(0, np.int32), *(one.links for one in found)])
        coefficients = np.concatenate([np.zeros(0), *(one.coefficients for one in found)])
        cut = np.flatnonzero([one.cut for one in found])
        courses = [self.course(number) for number in numbers]
        latency = [one.startup_ns for one in courses if one is not None] or [one.fill_ns for one in found]
        weight = np.array([one.weight for one in found], np.float64)
        return Charges(Routes(first, links, coefficients, cut), np.array(latency, np.float64), weight)

    def routes_of(self, hops: Hops) -> Routes:
        """The ways of hops, while no link is down."""
        return hops.routes or find_routes(self._graph, hops.source, hops.destination, None, self._routing)

    def pattern(self, number: int) -> Pattern:
        """What a library's activity sends over which links."""
        key, course = self._keys[number], self.course(number)
        assert course is not None
        return pattern_of(course, key.kind, key.members, self._graph)

    def alone(self, number: int) -> Alone:
        """An activity with nothing beside it: as fast as the link that is full first, or its cap, allows."""
        routes, _, weights = self.charges([number], None)
        cap, weight = float(self.caps()[number]), float(weights[0])
        levels = self._graph.capacity[routes.link] / (weight * routes.coefficient)
        slowest = int(np.argmin(levels)) if levels.size else -1
        level = min(float(levels[slowest]) if levels.size else np.inf, cap / weight)
        wire = 1.0 if self._courses is None else self.pattern(number).wire
        return Alone(level * weight, cap, int(routes.link[slowest]) if levels.size else -1, cap / weight <= level, wire)

    def _pattern(self, number: int) -> Hashable:
        """What the links of an activity follow from."""
        key, course = self._keys[number], self.course(number)
        if course is None:
            return key
        return key[:3], key.matrix, pattern_of(course, key.kind, key.members, self._graph)

    def hops(self, number: int, down: NDArray[np.bool_] | None = None) -> Hops:
        """The messages of an activity; rings over several islands are one for each of their NICs."""
        key, course = self._keys[number], self.course(number)
        pattern = None if course is None else pattern_of(course, key.kind, key.members, self._graph)
        return self.hops_of(key, pattern, down)

    def hops_of(self, key: Key, pattern: Pattern | None, down: NDArray[np.bool_] | None = None) -> Hops:
        """The same of a library's pattern, or without one."""
        kind, root, members, _, at = key
        direct = None
        if KINDS[kind].of_pairs:
            direct = direct_hops(kind, root, members) if at < 0 else self._matrices[at].hops(members)
        if pattern is not None and self._courses is not None:
            ways = Ways(self._courses.sites, self._graph, self._routing, down)
            return ways.hops(pattern, kind, root, members, direct)
        if direct is not None:
            return direct
        ring = np.array(members, np.int32)
        rings = rings_of(self._graph, ring, self._rings, self._routing, down)
        return (
            on_rings(kind, root, ring[None, :]) if rings is None else on_rings(kind, root, rings.orders, rings.routes)
        )

    def charge_of(self, hops: Hops) -> Charge:
        """What messages take of each link, while none is down."""
        return self._charge(hops, self.routes_of(hops), None)

    def _found(self, numbers: Sequence[int], down: NDArray[np.bool_] | None) -> list[Charge]:
        """The charges of activities, whose ways are sought together."""
        hops = [self.hops(number, down) for number in numbers]
        plain = [one for one in hops if one.routes is None]
        sources = np.concatenate([np.zeros(0, np.int32), *(one.source for one in plain)])
        targets = np.concatenate([np.zeros(0, np.int32), *(one.destination for one in plain)])
        found = find_routes(self._graph, sources, targets, None, self._routing, down, refuse=down is None)
        charges, at = [], 0
        for one in hops:
            routes = one.routes
            if routes is None:
                routes, at = found.take(np.arange(at, at + one.source.size)), at + one.source.size
            charges.append(self._charge(one, routes, down))
        return charges

    def _charge(self, hops: Hops, routes: Routes, down: NDArray[np.bool_] | None) -> Charge:
        graph, shares = self._graph, hops.shares()
        crossed = np.concatenate([graph.medium[routes.link], hops.links])
        parts = routes.coefficient * np.repeat(shares / hops.share_unit, np.diff(routes.first))
        links, which = np.unique(crossed, return_inverse=True)
        coefficients = np.zeros(links.size)
        coefficients += np.bincount(which[: routes.link.size], parts, links.size) * hops.share_unit
        coefficients += np.bincount(which[routes.link.size :], hops.coefficients, links.size)
        own = graph.source[hops.links] < graph.ranks
        senders = (
            np.concatenate([hops.source, graph.source[hops.links[own]]]),
            np.concatenate([shares, hops.coefficients[own]]),
        )
        by_hop = which[: routes.link.size]
        cut = bool(routes.missing.size) or (down is not None and bool(down[hops.links].any()))
        return Charge(
            links.astype(np.int32),
            coefficients,
            hops.fill_ns(routes.latency_ns(graph)) if hops.source.size else 0.0,
            hops.weight,
            senders,
            (links, *_crossers(hops, routes, links.size, by_hop)),
            cut,
        )


def _crossers(
    hops: Hops, routes: Routes, links: int, which: NDArray[np.intp]
) -> tuple[Ints, NDArray[np.int16], NDArray[np.int16]]:
    """How many hops cross each link, and the first and last of their channels where there are several."""
    low, high = (np.full(links if hops.rings > 1 else 0, value, np.int16) for value in (MOST_CHANNELS, -1))
    if hops.rings > 1:
        hop = np.repeat(np.arange(hops.source.size), np.diff(routes.first))
        channel = (hop * hops.rings // hops.source.size).astype(np.int16)
        np.minimum.at(low, which, channel)
        np.maximum.at(high, which, channel)
    return np.bincount(which, minlength=links).astype(np.int32), low, high
