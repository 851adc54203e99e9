"""One of the two runs that are compared: its time, and what that is made of, as far as it tells things apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from chakrasim.comparison.pieces import Pieces

COMPUTE: Final = "compute"
COMMUNICATION: Final = "communication"
WAITING: Final = "waiting"
COPIES: Final = "copies"
IDLE: Final = "idle"
GROUPS: Final = (COMPUTE, COMMUNICATION, WAITING, COPIES, IDLE)
"""What an instant counts for, the first that applies: something is computed; bytes of a collective or message move;
only other ranks are waited for; copies or remote memory; nothing."""

SIMULATION: Final = "simulation"
ESTIMATE: Final = "estimate"
RECORDED: Final = "recorded trace"

WHOLE: Final = "whole"
OPERATORS: Final = "operators"


@dataclass(frozen=True)
class Part:
    """A part of a run's time: ``ns`` in which nothing of an earlier group happened, and how often, if that is known."""

    name: str
    ns: int
    count: float | None = None


@dataclass(frozen=True)
class Told:
    """The parts of a group. ``by`` names what they are told apart by: parts of two runs can be compared one by one if
    both are told apart by the same."""

    by: str
    parts: tuple[Part, ...]

    @property
    def ns(self) -> int:
        """The group's time."""
        return sum(part.ns for part in self.parts)


@dataclass(frozen=True)
class Counted:
    """What a run did without a share of its time of its own, such as a kind of collective: how often, mean time."""

    name: str
    count: float
    mean_ns: float


@dataclass(frozen=True, eq=False)
class Side:
    """A run.

    Attributes
    ----------
    source, kind: where it comes from; `SIMULATION` and its neighbours.
    what: what its time is of, in words: "step 3", "rank 8, which computes longest".
    groups: by name of `GROUPS`, which sum to `total_ns`. Without `WAITING`, that is in `COMMUNICATION`.
    pieces: of a recorded run, the device's work with the operators that launched it.
    facts: figures that explain a difference, as text by name: machine, split, tokens, device.
    counted: see there.
    """

    source: str
    kind: str
    what: str
    rank: int
    groups: Mapping[str, Told]
    pieces: Pieces | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    counted: tuple[Counted, ...] = ()

    @property
    def total_ns(self) -> int:
        """The time that is compared."""
        return sum(group.ns for group in self.groups.values())


def shared_out(whole: int, weights: Sequence[int]) -> list[int]:
    """Integers that sum to ``whole``, in proportion to the weights, which are not negative, up to one."""
    total = sum(weights)
    if not total:
        return [0] * len(weights)
    ends, before = [], 0
    for weight in weights:
        before += weight
        ends.append((2 * whole * before + total) // (2 * total))
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
