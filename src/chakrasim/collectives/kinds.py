"""The kinds of collectives: their names, what their size means, and what bandwidths refer to.

Bandwidths are those of nccl-tests: the *algorithm* bandwidth is the whole buffer over the time, the *bus* bandwidth is
that times a factor that makes it the rate of each rank's link, whatever the number of ranks (its PERFORMANCE.md). The
whole buffer is what one rank has that gives to all or gets from all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from chakrasim.trace.kinds import CollectiveType


class Traffic(Enum):
    """How much of the whole buffer passes each rank's link (of the busiest rank, where there is a root)."""

    ONCE = "all of it"
    OTHERS_PARTS = "all but its own part"
    TWICE = "all but its own part, there and back"


class Whole(Enum):
    """On which side of a rank the whole buffer is."""

    INPUT = "input"
    OUTPUT = "output"
    BOTH = "both"


@dataclass(frozen=True)
class CollectiveKind:
    """One kind. ``rooted``: one rank differs from the others. ``size_is_part``: ``comm_size`` is the part of one rank;
    else it is the whole buffer (of a scatter the root's)."""

    type: CollectiveType
    traffic: Traffic
    whole: Whole = Whole.BOTH
    rooted: bool = False
    size_is_part: bool = False

    @property
    def name(self) -> str:
        """As PyTorch and Chakra spell it, such as ``all_reduce``."""
        return self.type.name.lower()

    @property
    def key(self) -> str:
        """As configuration files spell it, such as ``all-reduce``."""
        return self.name.replace("_", "-")

    def whole_bytes(self, size_bytes: int, members: int) -> int:
        """The bytes that bandwidths refer to, of a collective of ``comm_size`` ``size_bytes``."""
        return size_bytes * members if self.size_is_part else size_bytes

    def bus_factor(self, members: int) -> float:
        """From algorithm to bus bandwidth; NaN where the number of members is not known (below 1)."""
        if members < 1:
            return float("nan")
        if self.traffic is Traffic.ONCE:
            return 1.0
        return (2 if self.traffic is Traffic.TWICE else 1) * (members - 1) / members


_T = CollectiveType
_ALL: Final = (
    CollectiveKind(_T.ALL_REDUCE, Traffic.TWICE),
    CollectiveKind(_T.REDUCE, Traffic.ONCE, rooted=True),
    CollectiveKind(_T.ALL_GATHER, Traffic.OTHERS_PARTS, Whole.OUTPUT, size_is_part=True),
    CollectiveKind(_T.GATHER, Traffic.OTHERS_PARTS, Whole.OUTPUT, rooted=True, size_is_part=True),
    CollectiveKind(_T.SCATTER, Traffic.OTHERS_PARTS, Whole.INPUT, rooted=True),
    CollectiveKind(_T.BROADCAST, Traffic.ONCE, rooted=True),
    CollectiveKind(_T.ALL_TO_ALL, Traffic.OTHERS_PARTS),
    CollectiveKind(_T.REDUCE_SCATTER, Traffic.OTHERS_PARTS, Whole.INPUT),
    CollectiveKind(_T.REDUCE_SCATTER_BLOCK, Traffic.OTHERS_PARTS, Whole.INPUT),
    CollectiveKind(_T.BARRIER, Traffic.ONCE),
)

KINDS: Final[Mapping[int, CollectiveKind]] = {int(kind.type): kind for kind in _ALL}
"""By number of the Chakra schema."""

KINDS_BY_NAME: Final[Mapping[str, CollectiveKind]] = {kind.name: kind for kind in _ALL}

COLLECTIVE_KEYS: Final[Mapping[int, str]] = {number: kind.key for number, kind in KINDS.items()}
"""The configuration's name of each collective type of the Chakra schema."""
