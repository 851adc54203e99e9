"""The topologies of a network's dimensions: one table, from which all who need to know one by name take it.

Only its route is not here: a message's way is compiled code (`simulator/kernels/network.py`), which knows a topology by
its number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Symmetry(Enum):
    """What may be done to the members of a dimension so that every delay and every link stays as it is."""

    NONE = "none"
    ROTATIONS = "rotations"
    PERMUTATIONS = "permutations"


Ends = tuple[int | None, int | None]
"""Where a link begins and ends: coordinates in its dimension, None for a switch."""


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
    returns:
        Whether a message to its own sender comes back over the sender's links.
    """

    name: str
    number: int
    ports: Callable[[int], int]
    ends: Callable[[int, int, int], Ends]
    symmetry: Symmetry = Symmetry.NONE
    returns: bool = False


def _ring_ends(own: int, port: int, members: int) -> Ends:
    """Port 0 leads clockwise, to the next higher member, port 1 back."""
    return own, (own + (1 if port == 0 else -1)) % members


def _full_ends(own: int, port: int, members: int) -> Ends:
    return own, port


def _switch_ends(own: int, port: int, members: int) -> Ends:
    return (own, None) if port == 0 else (None, own)


_ALL: Final = (
    Topology("Ring", 0, lambda members: 2, _ring_ends, Symmetry.ROTATIONS),
    Topology("FullyConnected", 1, lambda members: members, _full_ends, Symmetry.PERMUTATIONS),
    Topology("Switch", 2, lambda members: 2, _switch_ends, Symmetry.PERMUTATIONS, returns=True),
)

TOPOLOGIES: Final[dict[str, Topology]] = {topology.name: topology for topology in _ALL}
"""By name."""
