"""How long a step takes, as a distribution: steps that nobody recorded, put together from recorded ones.

What a worker does in a step belongs together, and often all of a replica or of the whole step does: sequences of
one length run through all stages, a slow link is slow for everybody. Drawing each operation by itself would even that
out. So whole blocks are drawn: the finest, of a worker, a replica and the step, from which the steps learned from come
out again, by their mean and their spread. What the replay of a step leaves unexplained is drawn as one piece, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from chakrasim.event_graph.lanes import lanes_of
from chakrasim.scenarios.operations import Ints
from chakrasim.scenarios.quantiles import LEVELS, Quantile, quantile
from chakrasim.scenarios.recorded_steps import Replay, Times

Change = Callable[[Times], Times]
"""What a scenario makes of durations float64[n, lanes]; never in place."""

BLOCKS: Final = ("worker", "replica", "step")
BATCH: Final = 200
MOST: Final = 20_000
NEAR: Final = 0.005
"""Draws end when the interval of the median is narrower than this share of it."""

_TRIED: Final = 400
_SPREADS: Final = 0.8, 1.25
"""How far the spread of drawn steps may be from that of the recorded ones, as a ratio."""


@dataclass(frozen=True, eq=False)
class StepDistribution:
    """``time_s`` float64[draws]: drawn times of steps, from ``learned`` recorded ones, in blocks of ``block``."""

    time_s: Times
    learned: int
    block: str

    def quantile(self, probability: float) -> Quantile:
        """With which probability a next step takes at most so long.

        Of ``n`` steps each of the n + 1 gaps before, between and behind them is as likely to hold the next one, so
        levels of a distribution learned from few steps lie further out than those of the draws; beyond the shortest and
        the longest nothing is known.
        """
        n = self.learned
        level = min(max((probability * (n + 1) - 1) / (n - 1), 0.0), 1.0) if n > 1 else probability
        return quantile(np.sort(self.time_s), level)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "mean_s": float(self.time_s.mean()),
            "sd_s": float(self.time_s.std(ddof=1)) if len(self.time_s) > 1 else 0.0,
            "quantiles": {f"{level:g}": self.quantile(level).to_dict("s") for level in LEVELS},
            "draws": len(self.time_s),
            "learned_steps": self.learned,
            "block": self.block,
        }


@dataclass(frozen=True, eq=False)
class StepModel:
    """Steps to draw from: ``learned`` int64[steps], by their place in the replay, in blocks of ``block``."""

    replay: Replay
    learned: Ints
    block: str
    rest_s: Times

    def draw(self, draws: int, seed: int = 0, change: Change | None = None) -> StepDistribution:
        """So many steps, with the changes of a scenario. Of two scenarios with the same seed, draw by draw is the same
        chance (common random numbers)."""
        batches = -(-draws // BATCH)
        drawn = np.concatenate([self._batch(seed, batch, change) for batch in range(batches)])[:draws]
        return StepDistribution(drawn, len(self.learned), self.block)

    def draw_enough(self, seed: int = 0, change: Change | None = None) -> StepDistribution:
        """As many steps as it takes for the interval of the median to be below 0.5 %, or 20,000."""
        drawn = np.empty(0)
        while True:
            drawn = np.concatenate((drawn, self._batch(seed, len(drawn) // BATCH, change)))
            found = StepDistribution(drawn, len(self.learned), self.block)
            middle = found.quantile(0.5)
            if middle.high - middle.low < NEAR * middle.value or len(drawn) >= MOST:
                return found

    def _batch(self, seed: int, batch: int, change: Change | None) -> Times:
        return _drawn(self.replay, self.learned, self.block, self.rest_s, np.random.default_rng((seed, batch)), BATCH,
                      change)  # fmt: skip


def learn(replay: Replay, learned: Ints | None = None, block: str | None = None) -> StepModel:
    """A model of all recorded steps or of those ``learned`` from; ``block`` of `BLOCKS`, else the finest that fits."""
    steps = np.arange(len(replay.steps.step)) if learned is None else np.asarray(learned, np.int64)
    rest = replay.steps.measured_s() - replay.times_s(np.ascontiguousarray(replay.duration_s.T))
    fits = block or next(each for each in BLOCKS if each == BLOCKS[-1] or _fits(replay, steps, each, rest))
    return StepModel(replay, steps, fits, rest)


def _fits(replay: Replay, learned: Ints, block: str, rest: Times) -> bool:
    """Whether steps drawn in such blocks have the mean of the recorded ones, within its standard error, and about their
    spread."""
    recorded = replay.steps.measured_s()[learned]
    drawn = _drawn(replay, learned, block, rest, np.random.default_rng(0), _TRIED, None)
    spread = recorded.std()
    if abs(drawn.mean() - recorded.mean()) > spread / np.sqrt(len(learned)):
        return False
    return bool(_SPREADS[0] * spread <= drawn.std() <= _SPREADS[1] * spread)


def _drawn(
    replay: Replay, learned: Ints, block: str, rest: Times, rng: np.random.Generator, draws: int, change: Change | None
) -> Times:
    """float64[draws]"""
    workers = replay.dp_rank * (int(replay.stage.max()) + 1) + replay.stage
    number = {"worker": workers, "replica": replay.dp_rank, "step": np.zeros_like(workers)}[block]
    picked = learned[rng.integers(len(learned), size=(int(number.max()) + 1, draws))]
    # In blocks of steps, what is left unexplained is the step's own.
    own = picked[0] if block == BLOCKS[-1] else learned[rng.integers(len(learned), size=draws)]
    recorded = np.ascontiguousarray(replay.duration_s.T)

    def durations(part: slice) -> Times:
        found: Times = np.take_along_axis(recorded, picked[:, part][number], axis=1)
        return found if change is None else change(found)

    times: Times = lanes_of(replay.graph, durations, draws, replay.ends).max(axis=0) + rest[own]
    return times
