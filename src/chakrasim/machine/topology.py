"""The topologies of a network's dimensions: one table, from which all who need to know one by name take it.

Only its route is not here: a message's way is compiled code (`simulator/kernels/network.py`), which knows a topology by
its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Symmetry(Enum):
    """What may be done to the members of a dimension so that every delay and every link stays as it is."""

    NONE = "none"
    ROTATIONS = "rotations"
    PERMUTATIONS = "permutations"


Ends = tuple[int | None, int | None]
"""Where a link begins and ends: coordinates in its dimension, None for a switch."""

Way = Callable[[Ints, Ints, int], Iterator[tuple[Ints, Ints, Ints]]]
"""From the coordinates where messages enter and leave a dimension, and the number of its members, to the links that
they pass, some at a time: indices of messages, and for each the member and the port of a link."""


@dataclass(frozen=True)
class Topology:
    """One kind of dimension.

    Parameters
    ----------
    name:
        As configuration files spell it.
    number:
        By what the engine knows it: ``DIM_KIND`` in the arena.
    ports:
        From the members of a dimension to how many links start at each of them (those of a switch count with the member
        that they lead to).
    ends:
        From a member, one of its ports and the number of members to the two ends of that port's link.
    symmetry:
        What ranks may be folded by. Nothing unless stated: folding by a symmetry that is none gives wrong times.
    way:
        The links of the route, for what is said of loads. None: nothing is said.
    returns:
        Whether a message to its own sender comes back over the sender's links.
    """

    name: str
    number: int
    ports: Callable[[int], int]
    ends: Callable[[int, int, int], Ends]
    symmetry: Symmetry = Symmetry.NONE
    way: Way | None = None
    returns: bool = False


def _ring_ends(own: int, port: int, members: int) -> Ends:
    """Port 0 leads clockwise, to the next higher member, port 1 back."""
    return own, (own + (1 if port == 0 else -1)) % members


def _ring_way(a: Ints, b: Ints, members: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """The shorter way round, a tie clockwise."""
    ahead = (b - a) % members
    back = members - ahead < ahead
    hops = np.where(back, members - ahead, ahead)
    for passed in range(int(hops.max(initial=0))):
        which = np.flatnonzero(hops > passed)
        step = np.where(back[which], -passed, passed)
        yield which, (a[which] + step) % members, back[which].astype(np.int64)


def _full_way(a: Ints, b: Ints, members: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    yield np.arange(len(a)), a, b


def _switch_way(a: Ints, b: Ints, members: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    which = np.arange(len(a))
    yield which, a, np.zeros_like(a)
    yield which, b, np.ones_like(b)


def _full_ends(own: int, port: int, members: int) -> Ends:
    return own, port


def _switch_ends(own: int, port: int, members: int) -> Ends:
    return (own, None) if port == 0 else (None, own)


_ALL: Final = (
    Topology("Ring", 0, lambda members: 2, _ring_ends, Symmetry.ROTATIONS, _ring_way),
    Topology("FullyConnected", 1, lambda members: members, _full_ends, Symmetry.PERMUTATIONS, _full_way),
    Topology("Switch", 2, lambda members: 2, _switch_ends, Symmetry.PERMUTATIONS, _switch_way, returns=True),
)

TOPOLOGIES: Final[dict[str, Topology]] = {topology.name: topology for topology in _ALL}
"""By name."""
