"""A ring: every member has a link to its next and to its previous one; messages go the shorter way, a tie clockwise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chakrasim.machine.topologies.topology import Ints, Pair, Symmetry, Topology


def ports(members: int) -> int:
    """Port 0 leads clockwise, to the next higher member, port 1 back."""
    return 2


def route(here: int, to: int, members: int) -> Pair:
    clockwise = to - here if to > here else to - here + members
    return here, 1 if members - clockwise < clockwise else 0


def ends(owner: int, port: int, members: int) -> Pair:
    if port == 0:
        return owner, owner + 1 if owner + 1 < members else 0
    return owner, owner - 1 if owner > 0 else members - 1


def hops(here: int, to: int, members: int) -> int:
    clockwise = to - here if to > here else to - here + members
    return min(clockwise, members - clockwise)


def way(a: Ints, b: Ints, members: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    ahead = (b - a) % members
    back = members - ahead < ahead
    passed_by = np.where(back, members - ahead, ahead)
    for passed in range(int(passed_by.max(initial=0))):
        which = np.flatnonzero(passed_by > passed)
        step = np.where(back[which], -passed, passed)
        yield which, (a[which] + step) % members, back[which].astype(np.int64)


RING = Topology("Ring", ports, route, ends, hops, Symmetry.ROTATIONS, way)
