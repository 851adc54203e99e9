"""The front with few runs: points are tried in batches, each where what was tried says that the front goes on.

Some points are drawn to begin with. Then all others are guessed from those that were tried (`likeness`), and those are
tried next that, if the guess holds, move the front most: greatest in the least of their gains over each of its points.
The same space gives the same runs, whatever evaluates them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from chakrasim.sweeps.front import front_of
from chakrasim.sweeps.likeness import Guess, Likeness
from chakrasim.sweeps.points import OK, Outcome, with_dp
from chakrasim.sweeps.space import Point, Space

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

SHARE: Final = 0.1
"""Of the points that conditions leave, so many are tried if nobody says how many."""
_FIRST: Final = 0.25
"""Of the runs, drawn by chance."""
_BATCHES: Final = 16
"""In which the others are tried."""
MOST_RUNS: Final = 2_000
"""If nobody says how many."""
_MOST: Final = 20_000
"""Points that are looked at; of more, as many drawn."""
_HOPED: Final = (0.0, 1.0)
"""Standard errors that a guess is taken to be too bad, in turn."""
_DIGITS: Final = 6
"""Of gains: below are differences of processors and their libraries."""


OWN, OPTUNA = "guess", "optuna"
METHODS: Final = (OWN, OPTUNA)


class Searching(Protocol):
    """What says which points to try next."""

    runs: int

    def next(self, tried: Mapping[int, Outcome]) -> list[int]:
        """Rows, none twice; nothing when the search is over. ``tried``: all that were named before."""


def search_of(method: str, space: Space, rows: Sequence[int], runs: int | None) -> Searching:
    """A search of one of the `METHODS` among these points. Raises InputError without Optuna where that is asked for."""
    count = min(runs or min(math.ceil(SHARE * len(rows)), MOST_RUNS), len(rows))
    if method == OPTUNA:
        from chakrasim.sweeps.by_optuna import OptunaSearch

        return OptunaSearch(space, rows, count)
    return Search(space, rows, count)


class Search:
    """A search under way: `next` says what to try, until nothing is left worth it or ``runs`` are done."""

    def __init__(self, space: Space, rows: Sequence[int], runs: int) -> None:
        """``rows``: the points that the conditions leave."""
        chance = random.Random(len(rows))
        self.rows = sorted(chance.sample(list(rows), _MOST)) if len(rows) > _MOST else list(rows)
        self.space, self.runs = space, min(runs, len(self.rows))
        self.place = {row: at for at, row in enumerate(self.rows)}
        first = min(max(math.ceil(_FIRST * self.runs), 2 * len(space.vary)), self.runs)
        self.begin = sorted(chance.sample(self.rows, first))
        self.batch = max(math.ceil((self.runs - first) / _BATCHES), 1)
        self.alike = Likeness(space, self.rows, [_derived(space.point(row)) for row in self.rows])
        self.turn = 0
        self.done: Rows = np.empty(0, np.intp)
        self.covariances: Floats = np.empty((len(self.rows), 0))

    def next(self, tried: Mapping[int, Outcome]) -> list[int]:
        """What to try next, ascending; nothing when the search is over."""
        if not tried:
            return self.begin if self.rows else []
        new = np.array(sorted({self.place[row] for row in tried} - set(self.done.tolist())), np.intp)
        self.done = np.concatenate([self.done, new])
        self.covariances = np.hstack([self.covariances, self.alike.between(np.arange(len(self.rows)), new)])
        left = self.runs - len(self.done)
        if left <= 0:
            return []
        self.turn += 1
        others = np.setdiff1d(np.arange(len(self.rows)), self.done)
        outcomes = [tried[self.rows[at]] for at in self.done.tolist()]
        chosen = self._chosen(outcomes, others, min(self.batch, left))
        return sorted(self.rows[at] for at in chosen)

    def _chosen(self, outcomes: Sequence[Outcome], others: Rows, count: int) -> list[int]:
        axes = [axis for axis in self.space.front if any(getattr(one, axis) > 0 for one in outcomes)]
        figures = np.array([[getattr(one, axis) for axis in axes] for one in outcomes], float)
        # What lacks a figure that others have is not on the front, as if it had been refused.
        ok = np.array([one.status == OK for one in outcomes]) & ~np.isnan(figures).any(axis=1)
        if ok.sum() < 2 or not axes:
            return sorted(random.Random(self.turn).sample(others.tolist(), min(count, len(others))))
        known = np.log(np.maximum(figures[ok], 1e-30))
        inside, beside = self.covariances[self.done], self.covariances[others]
        guess = Guess(inside[np.ix_(ok, ok)], known)
        hoped = guess.at(beside[:, ok]) - _HOPED[self.turn % len(_HOPED)] * guess.off
        goes = Guess(inside, ok[:, None].astype(float)).at(beside)[:, 0]
        front = known[front_of(known)]
        return [int(others[at]) for at in _moving(front, hoped, np.clip(goes, 0.02, 1.0), count)]


def _moving(front: Floats, hoped: Floats, goes: Floats, count: int) -> list[int]:
    """Which of float64[n, axes] move a front most, one after the other, each as if those before had come true."""
    extent = np.maximum(front.max(axis=0) - front.min(axis=0), 1e-3)
    gains = np.full(len(hoped), np.inf)
    for own in front:
        gains = np.minimum(gains, ((own - hoped) / extent).max(axis=1))
    found: list[int] = []
    for _ in range(min(count, len(hoped))):
        at = int(np.argmax(np.round(gains * goes, _DIGITS)))
        found.append(at)
        gains = np.minimum(gains, ((hoped[at] - hoped) / extent).max(axis=1))
        gains[at] = -np.inf
    return found


def _derived(point: Point) -> Point:
    """What follows from a point's keys and matters to the time: how many replicas, and passes of each."""
    values = with_dp(point)
    dp = values.get("dp") or 1
    passes = (values.get("batch") or 1) / dp / (values.get("micro_batch") or 1)
    return {"dp": max(dp, 1), "passes": passes or 1}
