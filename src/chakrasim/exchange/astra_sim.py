"""Jobs as ASTRA-sim reads them: whole microseconds, node types that it runs, one trace per rank and a group file.

Its rules are those of astra-system.md: metadata nodes abort a run, nodes of type INVALID are passed over; all-reduce,
all-gather, reduce-scatter and all-to-all are simulated, a broadcast takes its recorded duration, others end the run.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.exchange.times import times_ns
from chakrasim.machine.device.profile import DeviceProfile
from chakrasim.notes import Notes
from chakrasim.simulator.lowering.compute import recorded_ns
from chakrasim.trace import Job, NodeType, Trace
from chakrasim.trace.kinds import OPERATION_NAMES, CollectiveType

_RUN: Final = (
    *(CollectiveType.ALL_REDUCE, CollectiveType.ALL_GATHER, CollectiveType.REDUCE_SCATTER),
    *(CollectiveType.ALL_TO_ALL, CollectiveType.BROADCAST),
)


def astra_sim_job(job: Job, *, profile: DeviceProfile | None = None, notes: Notes) -> Job:
    """The job with times and node types as ASTRA-sim has them; `chakrasim.trace.write_job` with ``expand`` writes it.

    ``profile`` times the nodes that say what they compute; without one nodes keep the time that they have, if any.
    ``notes`` is told what is rounded, what has no time, and what ASTRA-sim does not run.
    """
    ranks = np.bincount(job.trace_of_rank, minlength=len(job.traces)).tolist()
    told: Counter[str] = Counter()
    traces = tuple(_converted(trace, profile, count, told) for trace, count in zip(job.traces, ranks, strict=True))
    if told["rounded"]:
        notes.warn(
            f"ASTRA-sim counts whole microseconds: {told['rounded']:,} computations are rounded, "
            f"{told['off']:,} ns in all, over all ranks"
        )
    if told["untimed"]:
        notes.warn(
            f"{told['untimed']:,} computations have no time, over all ranks: ASTRA-sim's roofline has to time them"
        )
    for name in sorted(set(told) - {"rounded", "off", "untimed"}):
        notes.warn(f"ASTRA-sim does not run {told[name]:,} {name}, over all ranks")
    return replace(job, traces=traces)


def _converted(trace: Trace, profile: DeviceProfile | None, ranks: int, told: Counter[str]) -> Trace:
    computing = trace.types == NodeType.COMP_NODE
    exact = times_ns(trace, profile) if profile is not None else _stated_ns(trace)
    told["untimed"] += ranks * int(np.count_nonzero(computing & (exact == 0) & ~_is_timed(trace)))
    micros = np.where(computing & (exact > 0), (exact + 500) // 1000, trace.duration_micros.astype(np.int64))
    off = np.abs(micros * 1000 - exact)[computing & (exact > 1)]
    told["rounded"] += ranks * int(np.count_nonzero(off))
    told["off"] += ranks * int(off.sum())
    kinds = trace.attr("comm_type")
    for node in np.flatnonzero((trace.types == NodeType.COMM_COLL_NODE) & ~np.isin(kinds.integers(-1), _RUN)).tolist():
        kind = int(kinds.integers(-1)[node])
        told[f"collectives of type {OPERATION_NAMES.get(kind, 'none')}"] += ranks
    types = np.where(trace.types == NodeType.METADATA_NODE, np.int32(NodeType.INVALID_NODE), trace.types)
    return replace(trace, types=types.astype(np.int32), duration_micros=micros.astype(np.uint64))


def _stated_ns(trace: Trace) -> NDArray[np.int64]:
    """int64[nodes] ns: of computations with a time of their own, 0 of all others."""
    nodes = np.flatnonzero((trace.types == NodeType.COMP_NODE) & _is_timed(trace))
    found = np.zeros(len(trace), np.int64)
    found[nodes] = recorded_ns(trace, trace.attr, nodes)
    return found


def _is_timed(trace: Trace) -> NDArray[np.bool_]:
    """bool[nodes]: those that have a time of their own."""
    return trace.attr("compute_ns").present | (trace.duration_micros > 0)
