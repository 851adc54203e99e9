"""Iterations of inference servers by kind: time per output token, tokens a second, what the host holds up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from chakrasim.analysis.serving.iterations import ServingIterations, serving_iterations
from chakrasim.analysis.serving.marks import DECODING, KINDS
from chakrasim.analysis.table.result import Ints, Reals, Result, Texts, percentage
from chakrasim.analysis.table.traces import Traces
from chakrasim.trace.kineto.columns import Mask

ALL: Final = "all"


@dataclass(frozen=True, eq=False)
class ServingSummary(Result):
    """One row for each rank and kind that occurs, then one for "all".

    ``latency_median_ns``, ``interval_median_ns``: as in `ServingIterations`. ``token_*_ns``: time per output token,
    from the start of an iteration that decodes ("decode", "mixed") until the next that decodes begins; quantiles
    between two values are interpolated. ``tokens_per_s``: tokens computed in iterations that state them, over the time
    until the next ones began. ``host_bound_pct``: of the time of the device, busy or idle before work, it stood idle
    because the host had not launched it. ``host_wait_pct``: of the marks' time, their thread waited for the device.
    NaN where no iteration has the figure.
    """

    TITLE: ClassVar[str] = "Iterations by kind"
    rank: Ints
    kind: Texts
    iterations: Ints
    prefill_tokens: Reals
    decode_tokens: Reals
    latency_median_ns: Reals
    interval_median_ns: Reals
    token_median_ns: Reals
    token_p90_ns: Reals
    token_p99_ns: Reals
    tokens_per_s: Reals
    host_bound_pct: Reals
    host_wait_pct: Reals


def serving_summary(traces: Traces | ServingIterations, *, rank: int | None = None) -> ServingSummary:
    """The iterations by kind, of traces or as `serving_iterations` found them. Raises InputError."""
    found = traces if isinstance(traces, ServingIterations) else serving_iterations(traces, rank=rank)
    kinds = np.array(found.kind)
    token = _token_times(found, kinds)
    rows = []
    for number in np.unique(found.rank).tolist():
        here = found.rank == number
        for kind in (*(kind for kind in KINDS if (here & (kinds == kind)).any()), ALL):
            rows.append((number, kind, *_figures(found, token, here & ((kinds == kind) | (kind == ALL)))))
    return ServingSummary.of_rows(found.notes, rows)


def _token_times(found: ServingIterations, kinds: Any) -> Reals:
    """From each iteration that decodes to the next of its rank that does; NaN elsewhere."""
    time = np.full(len(found), np.nan)
    decoding = np.flatnonzero(np.isin(kinds, DECODING))
    here, after = decoding[:-1], decoding[1:]
    same = found.rank[here] == found.rank[after]
    time[here[same]] = (found.start_ns[after] - found.start_ns[here])[same]
    return time


def _figures(found: ServingIterations, token: Reals, chosen: Mask) -> tuple[float, ...]:
    tokens = found.prefill_tokens + found.decode_tokens
    timed = chosen & np.isfinite(tokens) & np.isfinite(found.interval_ns)
    seconds = float(found.interval_ns[timed].sum()) / 1e9
    device = int((found.busy_ns + found.idle_ns)[chosen].sum())
    return (
        int(chosen.sum()),
        _sum(found.prefill_tokens[chosen]),
        _sum(found.decode_tokens[chosen]),
        _quantile(found.latency_ns[chosen].astype(np.float64), 50),
        _quantile(found.interval_ns[chosen], 50),
        *(_quantile(token[chosen], share) for share in (50, 90, 99)),
        float(tokens[timed].sum()) / seconds if seconds else np.nan,
        float(percentage(int(found.host_bound_ns[chosen].sum()), device)),
        float(percentage(int(found.host_wait_ns[chosen].sum()), int(found.host_ns[chosen].sum()))),
    )


def _sum(values: Reals) -> float:
    """Of the values that are known; NaN if none is."""
    known = values[np.isfinite(values)]
    return float(known.sum()) if len(known) else np.nan


def _quantile(values: Reals, share: float) -> float:
    known = values[np.isfinite(values)]
    return float(np.percentile(known, share)) if len(known) else np.nan
