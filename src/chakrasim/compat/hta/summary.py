"""All of HTA's tables at once, under the names that the comparison with it uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chakrasim.compat.hta.breakdown import (
    hta_annotations,
    hta_kernel_types,
    hta_kernels,
    hta_overlap,
    hta_temporal,
)
from chakrasim.compat.hta.compare import hta_profiler_steps, hta_stragglers
from chakrasim.compat.hta.launches import hta_launch_counts, hta_launch_stats
from chakrasim.compat.hta.ranks import HtaRank
from chakrasim.compat.hta.streams import (
    hta_bandwidth_summary,
    hta_blocked,
    hta_idle,
    hta_queue_series,
    hta_queue_summary,
)
from chakrasim.compat.hta.table import HtaFailure


def hta_summary(ranks: Sequence[HtaRank]) -> dict[str, Any]:
    """Every table that needs no further input, by name; ``{"error": ...}`` where HTA fails, None where it has none."""
    found: dict[str, Any] = {
        "ranks": [one.rank for one in ranks],
        "rows": {str(one.rank): len(one.table) for one in ranks},
        "min_ts": min((one.table.origin for one in ranks if len(one.table)), default=0),
        "iterations": {str(one.rank): _iterations(one) for one in ranks},
        "device_type": ranks[0].table.device_type,
    }
    tables: dict[str, Callable[[], Any]] = {
        "temporal": lambda: hta_temporal(ranks),
        "idle": lambda: hta_idle(ranks)[0],
        "idle_stats": lambda: hta_idle(ranks)[1],
        "kernel_type": lambda: hta_kernel_types(ranks),
        "kernel": lambda: hta_kernels(ranks),
        "overlap": lambda: hta_overlap(ranks),
        "queue_length_summary": lambda: hta_queue_summary(ranks),
        "memory_bw_summary": lambda: hta_bandwidth_summary(ranks),
        "blocked_half_of_max_queue": lambda: _half_blocked(ranks),
        "launch": lambda: hta_launch_counts(hta_launch_stats(ranks)),
        "cpu_annotations": lambda: hta_annotations(ranks, device=False),
        "gpu_annotations": lambda: hta_annotations(ranks, device=True),
        "profiler_steps": lambda: hta_profiler_steps(ranks),
        "stragglers2": lambda: hta_stragglers(ranks, 2),
    }
    return found | {name: _attempt(make) for name, make in tables.items()}


def _attempt(make: Callable[[], Any]) -> Any:
    try:
        made = make()
    except HtaFailure as failure:
        return {"error": str(failure)}
    return made.to_mapping() if hasattr(made, "to_mapping") else made


def _iterations(one: HtaRank) -> list[int]:
    return [number for number in np.unique(one.table.iteration).tolist() if number >= 0]


def _half_blocked(ranks: Sequence[HtaRank]) -> Any:
    """Time with at least half of the longest queue of all ranks."""
    length = hta_queue_series(ranks).data["queue_length"]
    if not len(length):
        return None
    return hta_blocked(ranks, max(int(length.max()) // 2, 1))
