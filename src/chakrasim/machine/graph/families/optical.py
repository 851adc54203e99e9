"""Optical circuit switches: pairs of ports that are joined, for a time, as a schedule says."""

from __future__ import annotations

from itertools import pairwise

from chakrasim.config.kinds import whole
from chakrasim.config.section import TIME_MAX, Section
from chakrasim.config.table import REQUIRED, Key, Kind, Values, list_of
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.families.family import LATENCY, Family, bandwidth, latency


def _pairs(section: Section, key: str) -> frozenset[tuple[int, int]]:
    """A matching: a list of pairs of ports, each port in one of them at most."""
    pairs = section.listing(key, "a list of pairs of ports, such as [[0, 1], [2, 3]]")
    found = []
    for index in pairs.entries:
        pair = pairs.listing(index, "two ports, such as [0, 1]")
        if len(pair.entries) != 2:
            pairs.refuse(index, "not a pair", "two ports, such as [0, 1]")
        a, b = (whole(0).read(pair, end) for end in pair.entries)
        found.append((min(a, b), max(a, b)))
    ends = [end for pair in found for end in pair]
    if len(set(ends)) < len(ends):
        section.fail(key, "a port is in two pairs", found=next(end for end in ends if ends.count(end) > 1))
    return frozenset(found)


def build(graph: GraphBuilder, bandwidth: float, latency: float, delay: float, schedule: list[Values]) -> None:
    """The first matching holds from the beginning. At the time of a later one, circuits that it lacks end at once; its
    new ones begin ``delay`` later."""
    every = sorted({pair for step in schedule for pair in step["pairs"]})
    if max((b for _, b in every), default=0) >= len(graph.ports):
        raise ValueError(f"there are {len(graph.ports)} ports, numbered from 0; found port {max(b for _, b in every)}")
    times = [step["at"] for step in schedule]
    if any(later <= at or later - at < delay for at, later in pairwise(times)):
        raise ValueError("the times of the schedule do not rise by the delay at least")
    if times and not times[-1] + delay < TIME_MAX:
        raise ValueError(f"the schedule's times and its delay are beyond the clock's range, {TIME_MAX} ns")
    graph.let_through()
    ports = graph.ports
    links = {(a, b): graph.cable(ports[a], ports[b], bandwidth, latency) for a, b in every}
    for pair in every:
        now = pair in schedule[0]["pairs"]
        if not now:
            graph.plan(0.0, links[pair], 0.0)
        for step in schedule[1:]:
            before, now = now, pair in step["pairs"]
            if now != before:
                graph.plan(step["at"] + delay if now else step["at"], links[pair], bandwidth if now else 0.0)


_PAIRS = Kind(_pairs, "list of pairs of ports", {"type": "array"})
_STEP = (Key("at", LATENCY, 0.0, "from when on", shown="0 ns"), Key("pairs", _PAIRS, REQUIRED, "ports that are joined"))
OPTICAL_CIRCUITS = Family("optical", build, (
    bandwidth("of a circuit, each direction"), latency("of a circuit, one way"),
    Key("delay", LATENCY, 0.0, "from the end of the old circuits to the beginning of new ones", shown="0 ns"),
    Key("schedule", list_of(_STEP, "a list of times and pairs", "matchings"), REQUIRED, "matchings over time"),
), "an optical circuit switch with a schedule")  # fmt: skip
