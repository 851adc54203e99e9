"""One of the two runs that are compared: its time, and what that is made of, as far as it tells things apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from chakrasim.comparison.parts import Told
from chakrasim.comparison.pieces import Pieces

SIMULATION: Final = "simulation"
ESTIMATE: Final = "estimate"
RECORDED: Final = "recorded trace"


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
    groups: by name of `chakrasim.comparison.parts.GROUPS`, which sum to `total_ns`. Without `WAITING`, that is in
        `COMMUNICATION`.
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
