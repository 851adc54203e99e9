"""Runs of a job with failures drawn by chance: where their time goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.reliability.spec import DAY_S, GoodputSpec

Floats = NDArray[np.float64]

FAILURES: Final = 40_000
"""So many failures are drawn over all runs, at least."""
LEAST_RUNS, MOST_RUNS = 200, 20_000
MOST_FAILURES: Final = 2_000
"""Of one run, twice as many as are expected; a longer one is cut, since all that comes is alike."""
PARTS: Final = (
    "productive",
    "checkpoint_save",
    "checkpoint_restore",
    "wasted_progress",
    "infrastructure_recovery",
    "waiting_for_spares",
)
"""Names of Google's goodput library, where it has one."""
PRODUCTIVE, SAVE, RESTORE, WASTED, RECOVERY, SPARES = range(len(PARTS))


@dataclass(frozen=True, eq=False)
class Runs:
    """``share`` float64[runs, len(PARTS)]: of each run's time; ``failures``: of all of them; ``days``: of each."""

    share: Floats
    failures: int
    days: float


def draw_runs(spec: GoodputSpec, interval_s: float) -> Runs:
    """Runs of the spec's length, with checkpoints every ``interval_s`` (inf: none).

    Failures are exponentially apart and come at any time but in the downtime. Each costs what was done since the last
    checkpoint, the downtime, the wait for a node where no spare is left, and a restart, which may fail as well. The
    period of work in which a run ends is not lost, and owes its share of the next checkpoint.
    """
    span, rate = spec.days * DAY_S, spec.rate_per_s
    expected = span * rate
    if expected > MOST_FAILURES / 2:
        span = MOST_FAILURES / 2 / rate
        expected = MOST_FAILURES / 2
    runs = int(np.clip(np.ceil(FAILURES / max(expected, 1e-9)), LEAST_RUNS, MOST_RUNS))
    rng = np.random.default_rng(spec.seed)
    state = _State(spec, interval_s, span, runs)
    while state.goes_on:
        with np.errstate(over="ignore", divide="ignore"):
            gap = rng.standard_exponential(runs) / rate
        state.until_failure(gap)
        state.failed()
    return Runs(state.spent / span, state.failures, span / DAY_S)


class _State:
    """All runs side by side, each at a failure of its own."""

    def __init__(self, spec: GoodputSpec, interval_s: float, span: float, runs: int) -> None:
        self.spec, self.interval, self.span = spec, interval_s, span
        self.written_share = spec.checkpoint_write_s / interval_s
        self.now = np.zeros(runs)
        self.spent = np.zeros((runs, len(PARTS)))
        self.restores = np.zeros(runs, np.bool_)
        self.failures = 0
        self.back: list[Floats] = []
        """By failure: when the node that failed is a spare again."""

    @property
    def goes_on(self) -> bool:
        return bool((self.now < self.span).any())

    def until_failure(self, gap: Floats) -> None:
        """What is done until the next failure, or the end of the run."""
        left = self.span - self.now
        ends = gap >= left
        time = np.maximum(np.minimum(gap, left), 0.0)
        restore = np.where(self.restores, np.minimum(time, self.spec.restart_s), 0.0)
        works = time - restore
        kept = np.where(ends, works, self._in_whole_periods(works))
        self.spent[:, RESTORE] += restore
        self.spent[:, SAVE] += kept * self.written_share
        self.spent[:, PRODUCTIVE] += kept - kept * self.written_share
        self.spent[:, WASTED] += works - kept
        self.now = np.where(ends, self.span, self.now + time)
        self.failures += int((~ends & (left > 0)).sum())

    def _in_whole_periods(self, works: Floats) -> Floats:
        if np.isfinite(self.interval):
            return np.floor(works / self.interval) * self.interval
        return np.zeros_like(works)

    def failed(self) -> None:
        """The downtime, and the wait for a node."""
        self._spend(RECOVERY, np.full(len(self.now), self.spec.downtime_s))
        if self.spec.spares is not None:
            self.back.append(self.now - self.spec.downtime_s + self.spec.repair_s)
            oldest = len(self.back) - 1 - self.spec.spares
            if oldest >= 0:
                self._spend(SPARES, np.maximum(self.back[oldest] - self.now, 0.0))
        self.restores[:] = True

    def _spend(self, part: int, time: Floats) -> None:
        inside = np.clip(time, 0.0, np.maximum(self.span - self.now, 0.0))
        self.spent[:, part] += inside
        self.now = self.now + inside
