"""A switch in the middle: every member has one link to it and one from it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chakrasim.machine.topologies.topology import Ints, Pair, Symmetry, Topology


def ports(members: int) -> int:
    """Port 0 leads to the switch, port 1 from there to the member."""
    return 2


def route(here: int, to: int, members: int) -> Pair:
    if here < members:
        return here, 0
    return to, 1


def ends(owner: int, port: int, members: int) -> Pair:
    if port == 0:
        return owner, members
    return members, owner


def hops(here: int, to: int, members: int) -> int:
    return 2


def way(a: Ints, b: Ints, members: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    which = np.arange(len(a))
    yield which, a, np.zeros_like(a)
    yield which, b, np.ones_like(b)


SWITCH = Topology("Switch", ports, route, ends, hops, Symmetry.PERMUTATIONS, way, returns=True)
