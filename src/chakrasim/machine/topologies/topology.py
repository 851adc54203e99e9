"""What a topology says of itself: all that simulation, folding and reports have to know of one kind of dimension.

A dimension has ``members``, numbered from 0. A message in it stands at a *place*: at a member, or at a switch, whose
number is ``members`` (further ones follow). From place to place it goes over links; each is named by its *owner*, the
member that it counts with, and by its *port* there. The owner of a link that begins at a member is that member; one
that begins at a switch counts with any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Symmetry(Enum):
    """What may be done to the members of a dimension so that every delay and every link stays as it is."""

    NONE = "none"
    ROTATIONS = "rotations"
    PERMUTATIONS = "permutations"


Pair = tuple[int, int]

Way = Callable[[Ints, Ints, int], Iterator[tuple[Ints, Ints, Ints]]]
"""From the coordinates where messages enter and leave a dimension, and the number of its members, to the links that
they pass, some at a time: indices of messages, and for each the owner and the port of a link."""


@dataclass(frozen=True)
class Topology:
    """One kind of dimension.

    ``route``, ``ends`` and ``hops`` are compiled into the engine: plain functions of integers.

    Parameters
    ----------
    name:
        As configuration files spell it.
    ports:
        From the number of members to how many links count with each of them. ``ValueError`` for a number that the
        topology cannot have.
    route:
        From the place where a message stands, the member that it goes to and the number of members to the link that it
        takes next: owner and port.
    ends:
        From a link's owner and port and the number of members to the places where it begins and ends. They are its
        name in reports.
    hops:
        The links of a whole route, from the member where it begins, the one where it ends and the number of members:
        what the congestion-unaware network counts. None: they are counted along the route, which takes longer.
    symmetry:
        What ranks may be folded by. Nothing unless stated: folding by a symmetry that is none gives wrong times.
        Switches keep their places under it.
    way:
        The links of the route, for what is said of loads. None: nothing is said.
    returns:
        Whether a message to its own sender comes back over the sender's links.
    """

    name: str
    ports: Callable[[int], int]
    route: Callable[[int, int, int], Pair]
    ends: Callable[[int, int, int], Pair]
    hops: Callable[[int, int, int], int] | None = None
    symmetry: Symmetry = Symmetry.NONE
    way: Way | None = None
    returns: bool = False
