"""What a sweep says beside its front: what the fastest point hangs on, where the front bends, what a gain costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.sweeps.front import front_of
from chakrasim.sweeps.likeness import number_of
from chakrasim.sweeps.points import OK, Outcome
from chakrasim.sweeps.space import Space

COSTS: Final = ("money", "gpus", "energy_j")
GAIN: Final = 0.1
"""Of the step's time, that a change is to gain."""


@dataclass(frozen=True)
class Elasticity:
    """By which power of a key the step's time goes between two points that differ in it alone, the smaller value
    first: -1 where twice the value halves the time."""

    key: str
    power: float
    low: int
    high: int


@dataclass(frozen=True)
class Change:
    """The cheapest point of the front that is at least `GAIN` faster than the one with the least of a cost."""

    cost: str
    base: int
    to: int


def beside(space: Space, outcomes: Sequence[Outcome] | Mapping[int, Outcome], row: int) -> dict[str, tuple[int, int]]:
    """Of each key of numbers above 0: the nearest points that go below and above a point, or it itself at an edge;
    keys without any are left out."""
    sizes = [len(values) for values in space.vary.values()]
    place = [int(at) for at in np.unravel_index(row, sizes)]
    found = {}
    for axis, (key, values) in enumerate(space.vary.items()):
        numbers = [number_of(value) for value in values]
        amounts = [one[0] for one in numbers if one is not None and one[0] > 0]
        if len(amounts) < len(values) or len({one[1] for one in numbers if one is not None}) > 1:
            continue
        own = amounts[place[axis]]
        rows = [int(np.ravel_multi_index([*place[:axis], at, *place[axis + 1 :]], sizes)) for at in range(len(values))]
        going = [(amount, at) for amount, at in zip(amounts, rows, strict=True) if outcomes[at].status == OK]
        below = max((one for one in going if one[0] < own), default=(own, row))
        above = min((one for one in going if one[0] > own), default=(own, row))
        if below[1] != above[1]:
            found[key] = below[1], above[1]
    return found


def elasticities(space: Space, outcomes: Sequence[Outcome], row: int) -> tuple[Elasticity, ...]:
    """Of the keys of numbers, the strongest first."""
    found = []
    for key, (low, high) in beside(space, outcomes, row).items():
        less, more = (number_of(space.point(at)[key]) for at in (low, high))
        assert less is not None and more is not None
        power = math.log(outcomes[high].step_s / outcomes[low].step_s) / math.log(more[0] / less[0])
        found.append(Elasticity(key, power, low, high))
    return tuple(sorted(found, key=lambda one: (-abs(one.power), one.key)))


def knees(axes: Sequence[str], outcomes: Sequence[Outcome], front: Sequence[int]) -> dict[str, int]:
    """Of time and each other figure: the point of their own front that is farthest from the line between its ends,
    both in shares of their extent; none of a front of less than three points or that bends outwards."""
    found = {}
    for axis in axes:
        own = _figures(outcomes, front, axis) if axis != "step_s" else np.empty((0, 2))
        own = own[~np.isnan(own).any(axis=1)]
        rows = front_of(own[:, :2])
        if len(np.unique(own[rows], axis=0)) < 3:
            continue
        shares = (own[rows] - own[rows].min(axis=0)) / np.ptp(own[rows], axis=0)
        below = np.round(1 - shares.sum(axis=1), 9)
        if below.max() > 0:
            first = own[rows[int(np.argmax(below))]]
            found[axis] = next(row for row in front if _pair(outcomes[row], axis) == tuple(first))
    return found


def changes(axes: Sequence[str], outcomes: Sequence[Outcome], front: Sequence[int]) -> tuple[Change, ...]:
    """Of money, GPUs and energy, as far as the front is of them: what a gain of `GAIN` costs at the least; nothing
    where the cheapest point cannot be beaten so."""
    found = []
    for cost in COSTS:
        own = {row: _pair(outcomes[row], cost)[::-1] for row in front if not math.isnan(_pair(outcomes[row], cost)[1])}
        if cost not in axes or not own:
            continue
        base = min(own, key=lambda row: (own[row], row))
        faster = [row for row in own if own[row][1] <= (1 - GAIN) * own[base][1]]
        if faster:
            found.append(Change(cost, base, min(faster, key=lambda row: (own[row], row))))
    return tuple(found)


def _pair(outcome: Outcome, axis: str) -> tuple[float, float]:
    return outcome.step_s, float(getattr(outcome, axis))


def _figures(outcomes: Sequence[Outcome], rows: Sequence[int], axis: str) -> NDArray[np.float64]:
    return np.array([_pair(outcomes[row], axis) for row in rows]).reshape(len(rows), 2)
