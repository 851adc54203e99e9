"""A link from every member to every other one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chakrasim.machine.topologies.topology import Ints, Pair, Symmetry, Topology


def ports(members: int) -> int:
    """The number of a port is that of the member that it leads to."""
    return members


def route(here: int, to: int, members: int) -> Pair:
    return here, to


def ends(owner: int, port: int, members: int) -> Pair:
    return owner, port


def hops(here: int, to: int, members: int) -> int:
    return 1


def way(a: Ints, b: Ints, members: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    yield np.arange(len(a)), a, b


FULLY_CONNECTED = Topology("FullyConnected", ports, route, ends, hops, Symmetry.PERMUTATIONS, way)
