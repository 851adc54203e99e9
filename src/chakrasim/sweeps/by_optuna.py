"""A search by Optuna, asked and told in batches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.sweeps.likeness import levels_of
from chakrasim.sweeps.points import OK, Outcome
from chakrasim.sweeps.space import Space

_SEED: Final = 1
_BATCH: Final = 32
_UNKNOWN: Final = 1e30
_MISSES: Final = 20
"""For each run that is left: proposals in vain, of points that no condition leaves or that were tried, that end a
search."""


class OptunaSearch:
    """The sampler that Optuna has for several aims (NSGA-II), over places of the keys' values."""

    def __init__(self, space: Space, rows: Sequence[int], runs: int) -> None:
        try:
            import optuna
        except ImportError:
            raise InputError("this search needs Optuna", place="--search",
                             remedy="pip install 'chakrasim[search]'") from None  # fmt: skip
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.failed = optuna.trial.TrialState.FAIL
        sampler = optuna.samplers.NSGAIISampler(seed=_SEED, population_size=_BATCH)
        self.study = optuna.create_study(directions=["minimize"] * len(space.front), sampler=sampler)
        self.space, self.left, self.runs = space, set(rows), runs
        self.sizes = [len(values) for values in space.vary.values()]
        self.orders = {key: _order(values) for key, values in space.vary.items()}
        self.asked: list[tuple[Any, int]] = []
        self.misses = _MISSES * runs

    def next(self, tried: Mapping[int, Outcome]) -> list[int]:
        """What to try next; all that was tried is told first."""
        for trial, row in self.asked:
            self._tell(trial, tried[row])
        self.asked = []
        found: dict[int, Any] = {}
        while self.left and len(found) < min(_BATCH, self.runs - len(tried)) and self.misses > 0:
            trial = self.study.ask()
            row = self._row(trial)
            if row in self.left:
                self.left.remove(row)
                found[row] = trial
                continue
            self.misses -= 1
            if row in tried:
                self._tell(trial, tried[row])
            else:
                self.study.tell(trial, state=self.failed)
        self.asked = [(trial, row) for row, trial in found.items()]
        return sorted(found)

    def _row(self, trial: Any) -> int:
        at = [
            trial.suggest_categorical(key, range(size)) if order is None else order[trial.suggest_int(key, 0, size - 1)]
            for (key, order), size in zip(self.orders.items(), self.sizes, strict=True)
        ]
        return int(np.ravel_multi_index(at, self.sizes))

    def _tell(self, trial: Any, outcome: Outcome) -> None:
        if outcome.status != OK:
            self.study.tell(trial, state=self.failed)
            return
        figures = [float(getattr(outcome, axis)) for axis in self.space.front]
        self.study.tell(trial, [_UNKNOWN if math.isnan(figure) else figure for figure in figures])


def _order(values: Sequence[Any]) -> list[int] | None:
    """Places of values from the smallest; None of words."""
    places = levels_of(values)
    return None if places is None else np.argsort(places, kind="stable").tolist()
