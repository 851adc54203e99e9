"""Cables from group to group, as dragonflies of both kinds have them: which port leads where, and their keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from chakrasim.config.kinds import choice
from chakrasim.config.table import Derived, Key, Values
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.families.family import COUNT, bandwidth, latency


def global_cables(groups: int, ports: int, cables: int, arrangement: str) -> Iterator[tuple[int, int, int, int]]:
    """(group G, its port, group T > G, its port) of each cable between groups of ``ports`` global ports.

    Absolute: port t of G leads to group t if t < G, else to t + 1; relative: to (G + 1 + t) mod g. The second cable of
    a pair of groups takes the ports from g - 1 on, and so on. Raises ValueError where there are too few ports.
    """
    if cables * (groups - 1) > ports:
        raise ValueError(f"a group has {ports} global ports; {cables} to each of {groups - 1} other groups need more")
    for cable in range(cables if groups > 1 else 0):
        for g in range(groups):
            for t in range(groups - 1):
                to = (t if t < g else t + 1) if arrangement == "absolute" else (g + 1 + t) % groups
                back = (g if g < to else g - 1) if arrangement == "absolute" else groups - 2 - t
                if g < to:
                    yield g, cable * (groups - 1) + t, to, cable * (groups - 1) + back


def join_groups(
    graph: GraphBuilder, routers: Sequence[int], groups: int, global_links: int, cables: int, arrangement: str,
    global_bandwidth: float, global_latency: float,
) -> None:  # fmt: skip
    """Add them: port t is of router t div ``global_links`` of its group."""
    size = len(routers) // groups
    for g, t, to, back in global_cables(groups, size * global_links, cables, arrangement):
        ends = routers[g * size + t // global_links], routers[to * size + back // global_links]
        graph.cable(*ends, global_bandwidth, global_latency)


def global_keys(routers: str) -> tuple[Key, ...]:
    """The keys of groups; ``routers`` is the key with the routers of a group that have global links."""

    def ports(values: Values) -> int:
        return int(values[routers] * values["global_links"])

    def most(values: Values) -> int:
        return max(ports(values) // max(int(values["groups"]) - 1, 1), 1)

    return (
        Key("global-links", COUNT, 1, "h: of each router to other groups"),
        Key("groups", COUNT, Derived(lambda values: ports(values) + 1, "all ports used once"), "g"),
        Key("cables", COUNT, Derived(most, "as many as the ports allow"), "between each pair of groups"),
        Key("arrangement", ARRANGEMENT, "absolute", "which port leads to which group"),
        bandwidth("of the cable of a host"),
        latency("of the cable of a host, one way"),
        *speed_keys("local", "between routers of a group"),
        *speed_keys("global", "between groups"),
    )


def speed_keys(which: str, where: str) -> tuple[Key, Key]:
    """Bandwidth and latency of cables of one sort, else those of the hosts' cables."""
    speed = Derived(lambda values: values["bandwidth"], "`bandwidth`")
    wait = Derived(lambda values: values["latency"], "`latency`")
    return bandwidth(f"of a cable {where}", speed, f"{which}-bandwidth"), latency("of it", wait, f"{which}-latency")


ARRANGEMENT: Final = choice(("absolute", "relative"))
