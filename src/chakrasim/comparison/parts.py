"""What the time of a run is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

COMPUTE: Final = "compute"
COMMUNICATION: Final = "communication"
WAITING: Final = "waiting"
COPIES: Final = "copies"
IDLE: Final = "idle"
GROUPS: Final = (COMPUTE, COMMUNICATION, WAITING, COPIES, IDLE)
"""What an instant counts for, the first that applies: something is computed; bytes of a collective or message move;
only other ranks are waited for; copies or remote memory; nothing."""

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
