"""Extended generalised fat trees XGFT(h; m_1..m_h; w_1..w_h) with p_i parallel cables per level."""

from __future__ import annotations

import math
from itertools import product

from chakrasim.config.kinds import whole
from chakrasim.config.table import REQUIRED, Key
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.families.family import LATENCY, RATE, Family, each_level, listed

_COUNTS = listed(whole(1))


def build(
    graph: GraphBuilder, down: tuple[int, ...], up: tuple[int, ...], cables: tuple[int, ...],
    bandwidth: tuple[float, ...], latency: tuple[float, ...],
) -> None:  # fmt: skip
    """A vertex of level i has a label of h digits; digit j runs over w_j up to level i, over m_j above, the first digit
    fastest. A child of level i and a parent of level i + 1 are joined where all digits but digit i + 1 agree."""
    levels = len(down)
    if len(up) != levels:
        raise ValueError(f"up has {len(up)} values, expected {levels}, one for each level, as down has")
    parallel = tuple(int(p) for p in each_level(cables, levels, "cables"))
    speeds, waits = each_level(bandwidth, levels, "bandwidth"), each_level(latency, levels, "latency")
    below: list[int] | range = graph.ports
    if len(below) > math.prod(down):
        raise ValueError(f"the tree has {math.prod(down)} hosts, not {len(below)}")
    for i in range(levels):
        above = graph.add_switches(f"level{i + 1}-", math.prod(up[: i + 1]) * math.prod(down[i + 1 :]))
        children = (*up[:i], *down[i:])
        # Digits run first fastest, `product` last fastest: both are turned round.
        for number, digits in enumerate(product(*(range(n) for n in reversed(children)))):
            label = digits[::-1]
            for digit in range(up[i]) if number < len(below) else ():
                parents = (*up[: i + 1], *down[i + 1 :])
                own = (*label[:i], digit, *label[i + 1 :])
                parent = sum(d * math.prod(parents[:j]) for j, d in enumerate(own))
                graph.cable(below[number], above[parent], speeds[i], waits[i], count=parallel[i])
        below = above


XGFT = Family("xgft", build, (
    Key("down", _COUNTS, REQUIRED, "m: children of a switch, lowest level first"),
    Key("up", _COUNTS, REQUIRED, "w: parents of a vertex, lowest level first"),
    Key("cables", _COUNTS, (1,), "p: between a child and a parent", shown="1"),
    Key("bandwidth", listed(RATE), REQUIRED, "of each cable and direction, for all levels or one each"),
    Key("latency", listed(LATENCY), (0.0,), "of each cable, one way, likewise", shown="0 ns"),
), "extended generalised fat tree, with parallel cables", lambda values: math.prod(values["down"]))  # fmt: skip
