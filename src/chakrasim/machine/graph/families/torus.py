"""Tori and meshes of any number of dimensions, without switches: ranks pass on what is not theirs."""

from __future__ import annotations

import math

from chakrasim.config.kinds import switch, whole
from chakrasim.config.table import REQUIRED, Key
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.families.family import LATENCY, RATE, Family, each_level, listed


def build(
    graph: GraphBuilder, sizes: tuple[int, ...], wrap: tuple[bool, ...], double: bool, bandwidth: tuple[float, ...],
    latency: tuple[float, ...],
) -> None:  # fmt: skip
    """Rank x + X (y + Y z) has a cable to +1 along each dimension, modulo its size with ``wrap``. Of two with wrap, +1
    and -1 are one neighbour: one cable, or two with ``double``."""
    ports, dims = graph.ports, len(sizes)
    if len(ports) != math.prod(sizes):
        raise ValueError(f"{' x '.join(map(str, sizes))} has {math.prod(sizes)} ranks, not {len(ports)}")
    wraps = each_level(tuple(map(float, wrap)), dims, "wrap")
    speeds, waits = each_level(bandwidth, dims, "bandwidth"), each_level(latency, dims, "latency")
    if not double and any(size == 2 and round_ for size, round_ in zip(sizes, wraps, strict=True)):
        graph.notes.warn("a dimension of 2 that wraps round has one cable, not two; double: true gives it two")
    graph.let_through()
    for rank, port in enumerate(ports):
        for d, size in enumerate(sizes):
            stride = math.prod(sizes[:d])
            at = rank // stride % size
            ahead = ports[rank + stride] if at + 1 < size else ports[rank - at * stride]
            if at + 1 < size or (wraps[d] and (size > 2 or (double and size == 2))):
                graph.cable(port, ahead, speeds[d], waits[d])


TORUS = Family("torus", build, (
    Key("sizes", listed(whole(1)), REQUIRED, "of each dimension, the one that varies fastest first"),
    Key("wrap", listed(switch), (True,), "a torus; false: a mesh; for all dimensions or one each", shown="true"),
    Key("double", switch, False, "a dimension of 2 that wraps round has two cables"),
    Key("bandwidth", listed(RATE), REQUIRED, "of each cable and direction, likewise"),
    Key("latency", listed(LATENCY), (0.0,), "of each cable, one way, likewise", shown="0 ns"),
), "torus or mesh", lambda values: math.prod(values["sizes"]))  # fmt: skip
