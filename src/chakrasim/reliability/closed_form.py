"""What is known of checkpoints without simulating them."""

from __future__ import annotations

import math

import numpy as np

from chakrasim.reliability.runs import PARTS


def exact(interval_s: float, write_s: float, restart_s: float, downtime_s: float, rate_per_s: float) -> float:
    """The share of time that is work, with failures at any time but in the downtime, exponentially apart (Aupy, Robert,
    Vivien 2013): (T - C) / ((mu + D) e^(R/mu) (e^(T/mu) - 1)), which is (T - C) / T without failures."""
    if rate_per_s == 0:
        return 1 - write_s / interval_s
    exponent = (interval_s + restart_s) * rate_per_s
    if exponent > 700:
        return 0.0
    whole = (1 / rate_per_s + downtime_s) * math.exp(restart_s * rate_per_s) * math.expm1(interval_s * rate_per_s)
    return (interval_s - write_s) / whole


def exact_parts(
    interval_s: float, write_s: float, restart_s: float, downtime_s: float, rate_per_s: float
) -> dict[str, float]:
    """Shares of all time beside `exact`, by the names of `chakrasim.reliability.runs.PARTS`; they sum to 1.

    Of the same model: failures come once each mu of the time that is not downtime, each is followed by D and by an
    attempt at a restart, which takes mu (1 - e^(-R/mu)) in the mean until it is done or fails; what is left was lost.
    """
    productive = exact(interval_s, write_s, restart_s, downtime_s, rate_per_s)
    saving = productive * write_s / (interval_s - write_s)
    each = 1 / (1 + downtime_s * rate_per_s)
    restoring = -math.expm1(-restart_s * rate_per_s) * each
    recovering = downtime_s * rate_per_s * each
    wasted = max(1 - productive - saving - restoring - recovering, 0.0)
    return dict(zip(PARTS, (productive, saving, restoring, wasted, recovering, 0.0), strict=True))


def best_interval_s(write_s: float, rate_per_s: float) -> float | None:
    """The interval T for which `exact` is largest: 1 - e^(-T/mu) = (T - C) / mu; None without failures: checkpoints
    only cost then."""
    if rate_per_s == 0:
        return None
    if write_s == 0:
        return 0.0
    cost = write_s * rate_per_s
    low, high = cost, cost + 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle - cost < -math.expm1(-middle):
            low = middle
        else:
            high = middle
    return high / rate_per_s


def hpca25(interval_s: float | None, write_s: float, restart_s: float, rate_per_s: float) -> float:
    """Kokolis et al., HPCA 2025: (1 - N r (u0 + dt/2)) / (1 + w/dt), first order in the failures, with dt between
    checkpoints; None: their best, sqrt(2 w / (N r)). Not below 0."""
    if rate_per_s == 0:
        return 1.0 if interval_s is None else 1 / (1 + write_s / interval_s)
    between = math.sqrt(2 * write_s / rate_per_s) if interval_s is None else interval_s
    overhead = 1 + write_s / between if between else 1.0
    return float(np.maximum((1 - rate_per_s * (restart_s + between / 2)) / overhead, 0.0))
