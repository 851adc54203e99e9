"""Jobs as ASTRA-sim reads them: whole microseconds, node types that it runs, one trace per rank and a group file.

Its rules are those of astra-system.md: metadata nodes abort a run, and what waits for nodes of type INVALID may never
begin, so that both are left out; all-reduce, all-gather, reduce-scatter and all-to-all are simulated, a broadcast takes
its recorded duration, others end the run.
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
from chakrasim.trace.chakra.graph import Csr, offsets_of
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
    if told["left out"]:
        notes.warn(
            f"{told['left out']:,} metadata nodes are left out, over all ranks: what waits for one waits for what it "
            "waits for"
        )
    if told["broadcasts"]:
        notes.warn(f"ASTRA-sim has {told['broadcasts']:,} broadcasts without a duration take 1 ns, over all ranks")
    for name in sorted(set(told) - {"rounded", "off", "untimed", "left out", "broadcasts"}):
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
    kinds = trace.attr("comm_type").integers(-1)[trace.types == NodeType.COMM_COLL_NODE]
    for kind in kinds[~np.isin(kinds, _RUN)].tolist():
        told[f"collectives of type {OPERATION_NAMES.get(kind, 'none')}"] += ranks
    broadcasts = kinds == CollectiveType.BROADCAST
    told["broadcasts"] += ranks * int((broadcasts & (micros[trace.types == NodeType.COMM_COLL_NODE] == 0)).sum())
    left_out = np.isin(trace.types, (NodeType.METADATA_NODE, NodeType.INVALID_NODE))
    told["left out"] += ranks * int(left_out.sum())
    if left_out.all():
        told["traces without work"] += ranks
    return _without(replace(trace, duration_micros=micros.astype(np.uint64)), left_out)


def _without(trace: Trace, left_out: NDArray[np.bool_]) -> Trace:
    """The trace without these nodes; what waits for one waits for what that waits for."""
    if not left_out.any():
        return trace
    kept, behind, attrs = ~left_out, _behind(trace, left_out), trace.attrs
    counts = np.diff(attrs.offsets)
    columns = ("ids", "types", "name_index", "start_micros", "duration_micros", "inputs", "outputs")
    own = {name: getattr(attrs, name)[np.repeat(kept, counts)] for name in ("name", "kind", "bits", "doc")}
    return replace(
        trace,
        **{name: getattr(trace, name)[kept] for name in columns},
        ctrl_deps=_bridged(trace.ctrl_deps, kept, behind),
        data_deps=_bridged(trace.data_deps, kept, behind),
        attrs=replace(attrs, offsets=offsets_of(counts[kept]), **own),
    )


def _behind(trace: Trace, left_out: NDArray[np.bool_]) -> dict[int, list[int]]:
    """By id of each node that is left out: ids of the others that it waits for, through any that are left out."""
    waits = {
        int(trace.ids[at]): [*trace.ctrl_deps[at].tolist(), *trace.data_deps[at].tolist()]
        for at in np.flatnonzero(left_out).tolist()
    }
    found: dict[int, list[int]] = {}
    for node in waits:
        ahead, seen, ends = [node], {node}, dict[int, None]()
        while ahead:
            for one in waits[ahead.pop()]:
                if one in found:
                    ends.update(dict.fromkeys(found[one]))
                elif one not in waits:
                    ends[one] = None
                elif one not in seen:
                    seen.add(one)
                    ahead.append(one)
        found[node] = list(ends)
    return found


def _bridged(waits: Csr, kept: NDArray[np.bool_], behind: dict[int, list[int]]) -> Csr:
    """Dependencies of the nodes that are kept, with what is behind those that are not."""
    through = np.flatnonzero(np.isin(waits.targets, np.fromiter(behind, np.uint64, len(behind))))
    lengths = np.ones(len(waits.targets), np.int64)
    lengths[through] = [len(behind[one]) for one in waits.targets[through].tolist()]
    places, targets = offsets_of(lengths), np.repeat(waits.targets, lengths)
    for at in through.tolist():
        targets[places[at] : places[at + 1]] = behind[int(waits.targets[at])]
    counts = np.diff(places[waits.offsets])
    return Csr(offsets_of(counts[kept]), targets[np.repeat(kept, counts)])


def _stated_ns(trace: Trace) -> NDArray[np.int64]:
    """int64[nodes] ns: of computations with a time of their own, 0 of all others."""
    nodes = np.flatnonzero((trace.types == NodeType.COMP_NODE) & _is_timed(trace))
    found = np.zeros(len(trace), np.int64)
    found[nodes] = recorded_ns(trace, trace.attr, nodes)
    return found


def _is_timed(trace: Trace) -> NDArray[np.bool_]:
    """bool[nodes]: those that have a time of their own."""
    return trace.attr("compute_ns").present | (trace.duration_micros > 0)
