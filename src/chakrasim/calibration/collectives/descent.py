"""Least squares by Gauss and Newton, with damping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import numpy as np

from chakrasim.calibration.collectives.design import Floats

State = TypeVar("State")
Solve = Callable[[float], Floats]
"""From the damping to a step."""
_TURNS: Final = 60
_TRIES: Final = 10


def least(
    at: Floats,
    cost_of: Callable[[Floats], tuple[float, State]],
    equations: Callable[[Floats, State], Solve],
    longest: float,
    enough: float,
    turns: int = 0,
) -> tuple[Floats, State]:
    """Where a cost is least from ``at`` on, and what it was found with there.

    ``equations`` are those of a step from a point; a step goes no further than ``longest`` in any direction. It ends
    where a step, after so many ``turns``, gains no more than the part ``enough`` of the cost.
    """
    damping = 1e-2
    cost, state = cost_of(at)
    for turn in range(_TURNS):
        solve = equations(at, state)
        for _ in range(_TRIES):
            new = at + np.clip(solve(damping), -longest, longest)
            lower, found = cost_of(new)
            if lower < cost:
                break
            damping *= 6
        else:
            break
        settled = cost - lower < enough * cost and turn >= turns
        at, cost, state, damping = new, lower, found, max(damping / 5, 1e-8)
        if settled:
            break
    return at, state
