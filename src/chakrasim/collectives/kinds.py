"""The kinds of collectives: how they are spelled, what their size means, and what bandwidths refer to.

Bandwidths are those of nccl-tests: the *algorithm* bandwidth is the whole buffer over the time, the *bus* bandwidth is
that times a factor that makes it the rate of each rank's link, whatever the number of ranks (its PERFORMANCE.md). The
whole buffer is what one rank has that gives to all or gets from all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from chakrasim.trace.kinds import OPERATION_NAMES, RECV, SEND, CollectiveType


class OnLink(Enum):
    """How much of the whole buffer passes each rank's link (of the busiest rank, where there is a root)."""

    ONCE = "all of it"
    OTHERS_PARTS = "all but its own part"
    TWICE = "all but its own part, there and back"


class Whole(Enum):
    """On which side of a rank the whole buffer is."""

    INPUT = "input"
    OUTPUT = "output"
    BOTH = "both"


class Root(Enum):
    """What the root does, the one rank that differs from the others."""

    NONE = "there is none"
    GIVES = "gives to all"
    GETS = "gets from all"


@dataclass(frozen=True)
class CollectiveKind:
    """One kind.

    Attributes
    ----------
    type: a `CollectiveType`, `SEND` or `RECV`.
    on_link: how much of the whole buffer passes a link.
    size: what ``comm_size`` is, in words: as in ASTRA-sim, where that has the type.
    spellings: its names in PyTorch and NCCL, as `chakrasim.collectives.spelling.plain` leaves them.
    in_kernels: what names of kernels that carry it out contain, lower case, letters only.
    whole: where the whole buffer is.
    root: what the root does.
    reduces: elements of several ranks are added up, so that their type matters.
    size_is_part: ``comm_size`` is the part of one rank; else it is the whole buffer.
    """

    type: int
    on_link: OnLink
    size: str
    spellings: tuple[str, ...]
    in_kernels: tuple[str, ...] = ()
    whole: Whole = Whole.BOTH
    root: Root = Root.NONE
    reduces: bool = False
    size_is_part: bool = False

    @property
    def name(self) -> str:
        """As PyTorch and Chakra spell it, such as ``all_reduce``."""
        return OPERATION_NAMES[self.type]

    @property
    def key(self) -> str:
        """As configuration files spell it, such as ``all-reduce``."""
        return self.name.replace("_", "-")

    @property
    def rooted(self) -> bool:
        """One rank differs from the others."""
        return self.root is not Root.NONE

    @property
    def of_pairs(self) -> bool:
        """Each part has one giver and one taker, so that on a ring it would only pass by the others."""
        return self.on_link is OnLink.OTHERS_PARTS and (self.rooted or self.whole is Whole.BOTH)

    @property
    def in_place(self) -> bool:
        """The result takes the place of the input."""
        return self.on_link is not OnLink.OTHERS_PARTS

    @property
    def divides_input(self) -> bool:
        """The input that ``comm_size`` tells is cut into one part for each member."""
        return not (self.in_place or self.size_is_part)

    def whole_bytes(self, size_bytes: int, members: int) -> int:
        """The bytes that bandwidths refer to, of a collective of ``comm_size`` ``size_bytes``."""
        return size_bytes * members if self.size_is_part else size_bytes

    def result_bytes(self, size_bytes: int, members: int) -> int:
        """What a rank (of a gather the root) has afterwards."""
        return size_bytes // members if self.whole is Whole.INPUT else self.whole_bytes(size_bytes, members)

    def bus_factor(self, members: int) -> float:
        """From algorithm to bus bandwidth; NaN where the number of members is not known (below 1)."""
        if members < 1:
            return float("nan")
        if self.on_link is OnLink.ONCE:
            return 1.0
        return (2 if self.on_link is OnLink.TWICE else 1) * (members - 1) / members


_T = CollectiveType
_ONCE, _OTHERS, _TWICE = OnLink
_IN, _OUT, _BOTH = Whole
_EACH: Final = "what each rank has"
_PART: Final = "the part of one rank"
_INPUT: Final = "the whole input of each rank"

_OF_ALL_REDUCE: Final = ("allreduce", "oneshotreduce", "crossdevicereduce")
_ALL_GATHERS: Final = ("allgather", "allgatherv", "allgatherintotensor", "allgatherintotensorout")
_REDUCE_SCATTERS: Final = ("reducescatter", "reducescatterv", "reducescattertensor")
_ALL_TO_ALLS: Final = ("alltoall", "alltoallv", "alltoallsingle", "alltoallvsingle", "sharddimalltoall")
_KINDS: Final = (
    CollectiveKind(_T.ALL_REDUCE, _TWICE, _EACH, ("allreduce", "allreducesparse"), _OF_ALL_REDUCE, reduces=True),
    CollectiveKind(_T.ALL_GATHER, _OTHERS, _PART, _ALL_GATHERS, ("allgather",), _OUT, size_is_part=True),
    CollectiveKind(_T.REDUCE_SCATTER, _OTHERS, _INPUT, _REDUCE_SCATTERS, ("reducescatter",), _IN, reduces=True),
    CollectiveKind(_T.ALL_TO_ALL, _OTHERS, _INPUT, _ALL_TO_ALLS, ("alltoall",)),
    CollectiveKind(_T.BROADCAST, _ONCE, _EACH, ("broadcast", "broadcastoop"), ("broadcast",), _BOTH, Root.GIVES),
    CollectiveKind(_T.REDUCE, _ONCE, _EACH, ("reduce", "reduceoop"), ("kernelreduce",), _BOTH, Root.GETS, True),
    CollectiveKind(
        _T.GATHER, _OTHERS, _PART, ("gather", "gatherintotensor"), ("kernelgather",), _OUT, Root.GETS, size_is_part=True
    ),
    CollectiveKind(
        _T.SCATTER, _OTHERS, "all parts, which the root has", ("scatter",), ("kernelscatter",), _IN, Root.GIVES
    ),
    CollectiveKind(_T.BARRIER, _ONCE, "without effect", ("barrier", "allreducebarrier")),
    CollectiveKind(_T.REDUCE_SCATTER_BLOCK, _OTHERS, _INPUT, (), (), _IN, reduces=True),
)

KINDS: Final[Mapping[int, CollectiveKind]] = {int(kind.type): kind for kind in _KINDS}
"""By number of the Chakra schema; those that ASTRA-sim has algorithms for come first."""

KINDS_BY_NAME: Final[Mapping[str, CollectiveKind]] = {kind.name: kind for kind in _KINDS}

COLLECTIVE_KEYS: Final[Mapping[int, str]] = {number: kind.key for number, kind in KINDS.items()}
"""The configuration's name of each collective type of the Chakra schema."""


def numbers_of(*roots: Root) -> tuple[int, ...]:
    """The collective types whose root does one of these."""
    return tuple(number for number, kind in KINDS.items() if kind.root in roots)


ROOTED: Final = numbers_of(Root.GIVES, Root.GETS)

MESSAGE: Final = CollectiveKind(SEND, OnLink.ONCE, "one message", ("send", "isend"))
"""Stands for messages, and for what is not known: all of it passes the link once."""

MESSAGES: Final = (MESSAGE, CollectiveKind(RECV, OnLink.ONCE, MESSAGE.size, ("recv", "irecv", "recvanysource")))
