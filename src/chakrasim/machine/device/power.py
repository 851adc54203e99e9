"""What a device draws, with its share of the node, by what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

BUSY, COMMUNICATING, IDLE = STATES = ("busy", "communicating", "idle")
HALFWAY: Final = 0.5


@dataclass(frozen=True)
class Energy:
    """Joules of one device, and what they lie between if it communicates and waits as when idle, or as when busy."""

    joules: float
    low: float
    high: float


@dataclass(frozen=True)
class Power:
    """Watts of one device, with its share of what the node's processors, NICs and fans draw.

    Attributes
    ----------
    busy_w: while something is computed, averaged over training.
    idle_w: while the node stands.
    communicating_w: while bytes move and nothing is computed; None: nobody measured it, halfway between the two.
    """

    busy_w: float
    idle_w: float
    communicating_w: float | None = None

    def energy(self, seconds: Mapping[str, float]) -> Energy:
        """Of so many seconds by state (`STATES`).

        Kernels of collectives spin while they wait, so that a device that communicates or waits draws more than one
        whose node stands, by how much is not public: these times at ``idle_w`` are the low bound, at ``busy_w`` the
        high one.
        """
        halfway = self.idle_w + HALFWAY * (self.busy_w - self.idle_w)
        moving = halfway if self.communicating_w is None else self.communicating_w
        busy, communicating, idle = (seconds.get(state, 0.0) for state in STATES)
        least, most = sorted((self.idle_w, self.busy_w))
        return Energy(
            busy * self.busy_w + communicating * moving + idle * self.idle_w,
            busy * self.busy_w + communicating * min(least, moving) + idle * least,
            busy * self.busy_w + communicating * max(most, moving) + idle * most,
        )
