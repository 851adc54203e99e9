"""``chakrasim.goodput``: effective training time with failures, beside what closed forms say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chakrasim.config.section import Source
from chakrasim.notes import Notes
from chakrasim.reliability.closed_form import best_interval_s, exact_parts, hpca25
from chakrasim.reliability.runs import PARTS, Runs, draw_runs
from chakrasim.reliability.spec import DAY_S, GoodputSpec, load_spec
from chakrasim.text.amounts import percent_text
from chakrasim.text.shown import Shown

INTERVAL = (0.05, 0.95)


@dataclass(frozen=True, eq=False)
class Goodput(Shown):
    """What comes of a job with failures.

    Attributes
    ----------
    ettr, low, high, error:
        Effective training time ratio: productive time over all time, the mean over runs; what nine of ten runs of that
        length lie between; and the standard error of the mean.
    interval_s, best_interval_s:
        From the begin of one period of work to the next, its checkpoint included: what was simulated, and the best by
        the exact formula (None without failures).
    exact, hpca25:
        The same ratio by Aupy, Robert and Vivien's formula (spares always there), and by that of HPCA 2025.
    parts, exact_parts, by_component:
        Shares of all time, which sum to 1; the same by the exact formula; the share lost to failures of each component.
    mtbf_s, runs, failures:
        Mean time between failures of the job (None: never); how many runs of how many failures in all were drawn.
    days_of_steps, steps_in_days, money, energy_kwh:
        Days until the wanted steps are done; steps in the run; what the run (or the wanted steps) costs. None where not
        asked.
    """

    spec: GoodputSpec
    ettr: float
    low: float
    high: float
    error: float
    interval_s: float | None
    best_interval_s: float | None
    exact_parts: Mapping[str, float]
    hpca25: float
    parts: Mapping[str, float]
    by_component: Mapping[str, float]
    mtbf_s: float | None
    runs: int
    failures: int
    days_of_steps: float | None
    steps_in_days: float
    money: float | None
    energy_kwh: float | None
    warnings: tuple[str, ...] = ()

    @property
    def exact(self) -> float:
        """The ratio by the exact formula."""
        return self.exact_parts[PARTS[0]]

    def _in_short(self) -> dict[str, str]:
        span = f"{percent_text(self.low)} to {percent_text(self.high)}"
        return {"ETTR": percent_text(self.ettr), "nine of ten runs": span, "exact formula": percent_text(self.exact)}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, by the keys of the JSON."""
        return {
            "ettr": self.ettr,
            "low": self.low,
            "high": self.high,
            "standard_error": self.error,
            "closed_form": {"exact": self.exact, "hpca25": self.hpca25},
            "interval_s": self.interval_s,
            "best_interval_s": self.best_interval_s,
            "parts": dict(self.parts),
            "parts_exact": dict(self.exact_parts),
            "by_component": dict(self.by_component),
            "mtbf_s": self.mtbf_s,
            "checkpoint_write_s": self.spec.checkpoint_write_s,
            "checkpoint_bytes": self.spec.checkpoint_bytes,
            "days": self.spec.days,
            "runs": self.runs,
            "failures": self.failures,
            "steps_in_days": self.steps_in_days,
            "days_of_steps": self.days_of_steps,
            "money": self.money,
            "energy_kwh": self.energy_kwh,
            "warnings": list(self.warnings),
        }


def goodput(spec: Source | GoodputSpec, *, notes: Notes | None = None) -> Goodput:
    """How much of a job's time is training, with failures by component, checkpoints, restarts and spares.

    ``spec`` is a file, the mapping that it holds (keys: `chakrasim.reliability.spec.SPEC`) or a `GoodputSpec`. Raises
    InputError.
    """
    notes = Notes() if notes is None else notes
    asked = spec if isinstance(spec, GoodputSpec) else load_spec(spec, notes)
    rate = asked.rate_per_s
    best = best_interval_s(asked.checkpoint_write_s, rate)
    interval = asked.checkpoint_interval_s
    if interval is None:
        interval = np.inf if best is None else max(best, asked.step_s)
    drawn = draw_runs(asked, interval)
    closed = exact_parts(interval, asked.checkpoint_write_s, asked.restart_s, asked.downtime_s, rate)
    shares = drawn.share.mean(axis=0)
    ettr = float(shares[0])
    low, high = _nine_of_ten(drawn, asked.days)
    _warn(asked, drawn, min(closed[PARTS[0]], float(shares[0])), notes)
    total = sum(asked.failures.values())
    lost = float(shares[2:].sum())
    wanted = None if asked.steps is None else (asked.steps * asked.step_s / ettr / DAY_S if ettr > 0 else np.inf)
    days = asked.days if wanted is None or not np.isfinite(wanted) else wanted
    hours = 24.0 * days * asked.nodes * asked.gpus_per_node
    return Goodput(
        spec=asked,
        ettr=ettr,
        low=low,
        high=high,
        error=float(drawn.share[:, 0].std() / np.sqrt(len(drawn.share))),
        interval_s=interval if np.isfinite(interval) else None,
        best_interval_s=best,
        exact_parts=closed,
        hpca25=hpca25(asked.checkpoint_interval_s, asked.checkpoint_write_s, asked.restart_s, rate),
        parts=dict(zip(PARTS, shares.tolist(), strict=True)),
        by_component={name: lost * own / total if total else 0.0 for name, own in asked.failures.items()},
        mtbf_s=1 / rate if rate else None,
        runs=len(drawn.share),
        failures=drawn.failures,
        days_of_steps=wanted if wanted is None or np.isfinite(wanted) else None,
        steps_in_days=ettr * asked.days * DAY_S / asked.step_s,
        money=None if asked.price_per_gpu_hour is None else asked.price_per_gpu_hour * hours,
        energy_kwh=None if asked.power is None else _kwh(asked.power, shares[0] + shares[3], hours),
        warnings=notes.warnings,
    )


def _nine_of_ten(drawn: Runs, days: float) -> tuple[float, float]:
    """What nine of ten runs of so many days lie between; of cut ones, which have a thousand failures, by the root of
    their lengths."""
    share = drawn.share[:, 0]
    low, high = share.mean() + (np.quantile(share, INTERVAL) - share.mean()) * np.sqrt(drawn.days / days)
    return float(low), float(high)


def _kwh(power: Mapping[str, float], busy: float, hours: float) -> float:
    """Work that is lost takes power all the same."""
    return float(hours * (busy * power["busy_w"] + (1 - busy) * power["idle_w"]) / 1e3)


def _warn(spec: GoodputSpec, drawn: Runs, ratio: float, notes: Notes) -> None:
    if drawn.days < spec.days * (1 - 1e-9) and spec.spares is not None:
        notes.warn(
            f"{spec.days:g} days have too many failures to draw: runs of {drawn.days:.4g} days stand for them, "
            "which begin with all spares there"
        )
    if ratio < 0.01:
        notes.warn(
            "next to nothing is ever done: failures come faster than a restart and a period of work take; what a run "
            "does comes before its first failure, and a longer run has no more of it"
        )
