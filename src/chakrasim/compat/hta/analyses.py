"""The tables that HTA gives, by the analysis's name on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from chakrasim.analysis.table.traces import RankTrace
from chakrasim.compat.hta.breakdown import (
    hta_annotations,
    hta_kernel_types,
    hta_kernels,
    hta_labelled_kernels,
    hta_overlap,
    hta_temporal,
)
from chakrasim.compat.hta.compare import hta_compare, hta_profiler_steps, hta_stragglers
from chakrasim.compat.hta.launches import hta_aten_operators, hta_launch_counts, hta_launch_stats
from chakrasim.compat.hta.ranks import HtaRank, hta_ranks, table_of
from chakrasim.compat.hta.sequences import hta_sequences
from chakrasim.compat.hta.streams import (
    hta_bandwidth_series,
    hta_bandwidth_summary,
    hta_blocked,
    hta_idle,
    hta_queue_series,
    hta_queue_summary,
)
from chakrasim.compat.hta.summary import hta_summary
from chakrasim.errors import InputError

Tables = Mapping[str, Any]
Ranks = list[HtaRank]


def hta_tables(options: Any, traces: list[RankTrace]) -> Tables:
    """The tables of ``options.analysis`` for these traces. ``options``: those of the command. Raises HtaFailure."""
    return TABLES[options.analysis](options, hta_ranks(traces, options.compat, rank=getattr(options, "rank", None)))


def hta_comparison(options: Any, a: list[RankTrace], b: list[RankTrace]) -> Tables:
    """What changed from ``a`` to ``b``, of whole traces. Raises HtaFailure."""
    ranks = [hta_ranks(traces, options.compat, step_filter=False) for traces in (a, b)]
    steps = (options.step_a, options.step_b)
    return {"trace_diff": hta_compare(*ranks, iterations=steps, side=options.side, short_names=options.short_names)}


def _annotations(options: Any, ranks: Ranks) -> Tables:
    if options.work:
        return {"gpu_kernels_with_user_annotations": hta_labelled_kernels(ranks)}
    return {"cpu_annotations": hta_annotations(ranks, device=False), "gpu_annotations": hta_annotations(ranks)}


def _bandwidth(options: Any, ranks: Ranks) -> Tables:
    if options.counters is not None:
        raise InputError(
            "--counters has no --compat", remedy="leave --compat out: the counters are the same but for rounding"
        )
    if options.series:
        return {"memory_bw": hta_bandwidth_series(ranks)}
    return {"memory_bw_summary": hta_bandwidth_summary(ranks)}


def _idle(options: Any, ranks: Ranks) -> Tables:
    table, statistics = hta_idle(ranks, options.kernel_gap_us)
    return {"idle": table, "idle_stats": statistics}


def _kernels(options: Any, ranks: Ranks) -> Tables:
    return {"kernel": hta_kernels(ranks, num_kernels=options.top or 10), "kernel_type": hta_kernel_types(ranks)}


def _launches(options: Any, ranks: Ranks) -> Tables:
    stats = hta_launch_stats(ranks, memory=not options.no_copies)
    counts = hta_launch_counts(stats, options.long_call_us, options.long_delay_us)
    return {"launch": stats} if options.all else {"launch_counts": counts, "launch": stats}


def _queue(options: Any, ranks: Ranks) -> Tables:
    if options.series:
        return {"queue_length": hta_queue_series(ranks)}
    return {"queue_length_summary": hta_queue_summary(ranks), "blocked": hta_blocked(ranks, options.full)}


def _sequences(options: Any, ranks: Ranks) -> Tables:
    if not options.operator:
        raise InputError("HTA needs the name of an operator", remedy="give --operator")
    # HTA takes one rank; the tables of several have their ranks in their names.
    if len(ranks) == 1:
        return {"sequences": hta_sequences(ranks[0], options.operator, options.least)}
    return {f"sequences {one.rank}": hta_sequences(one, options.operator, options.least) for one in ranks}


def _stragglers(options: Any, ranks: Ranks) -> Tables:
    found = hta_stragglers(ranks, options.candidates, options.step)
    table = table_of("stragglers", ("rank",), [(rank,) for rank in found])
    return {"stragglers": table, "stragglers_list": found, "profiler_steps": hta_profiler_steps(ranks)}


TABLES: Final[dict[str, Callable[[Any, Ranks], Tables]]] = {
    "summary": lambda options, ranks: hta_summary(ranks),
    "temporal": lambda options, ranks: {"temporal": hta_temporal(ranks)},
    "overlap": lambda options, ranks: {"overlap": hta_overlap(ranks)},
    "kernels": _kernels,
    "idle": _idle,
    "queue": _queue,
    "launches": _launches,
    "bandwidth": _bandwidth,
    "annotations": _annotations,
    "operators": lambda options, ranks: {"aten_op_kernels": hta_aten_operators(ranks)},
    "sequences": _sequences,
    "stragglers": _stragglers,
}
