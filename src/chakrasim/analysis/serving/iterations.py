"""Iterations of inference servers: what was computed, how busy the device was, what the host did meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from chakrasim.analysis.serving.marks import ANNOTATED, UNKNOWN, Iterations, find_iterations
from chakrasim.analysis.table.host_waits import by_thread, host_waits
from chakrasim.analysis.table.kernel_classes import COMMUNICATION, COMPUTE, MEMORY, OTHER
from chakrasim.analysis.table.result import Ints, Reals, Result, Texts
from chakrasim.analysis.table.scopes import Scope
from chakrasim.analysis.table.statistics import sums
from chakrasim.analysis.table.traces import RankTrace, Traces, open_traces
from chakrasim.analysis.table.work import DeviceWork
from chakrasim.analysis.temporal import PARTS, SUMS, parts_of_window
from chakrasim.errors import InputError
from chakrasim.linker.evidence.blocking import calls_with
from chakrasim.notes import Notes
from chakrasim.text.amounts import time_text
from chakrasim.trace.intervals import covered_before, merge

_FORMS: Final = "execute_context_..._generation_... (vLLM) or step[...] (SGLang)"
_REMEDY: Final = (
    "record with the server's own profiler, host and device (vLLM: --profiler-config or VLLM_TORCH_PROFILER_DIR, then "
    '/start_profile; SGLang: /start_profile), or put torch.profiler.record_function("step[DECODE bs=32]") around each'
)


@dataclass(frozen=True, eq=False)
class ServingIterations(Result):
    """One row for each rank and iteration, by start.

    ``kind``: "prefill", "decode", "mixed", "idle" (no requests), "unknown" (the mark does not say). Requests and tokens
    are what the mark states, else NaN; tokens are those computed, drafts included. ``start_ns`` and ``host_ns``: start
    and duration of the mark, on the host. ``host_wait_ns``: of these, its thread stood in calls that waited for the
    device; ``host_work_ns``: the rest. ``after_wait_ns``: the thread waited so between the mark and the next.
    ``interval_ns``: until the next mark begins, NaN for the last.

    Of the device an iteration has what was launched since its mark began and before the next did. ``device_ns``: from
    first start to last end; ``busy_ns``, ``compute_ns``, ``exposed_comm_ns``, ``exposed_memory_ns`` as in
    `temporal_breakdown`. ``idle_ns``: the device stood idle before pieces of it, since all work before had ended;
    ``host_bound_ns``: of that, until the calls that launched them had returned. ``latency_ns``: from the mark's start
    until both the mark and the work have ended. ``launches``: calls that launched the work; ``graph_launches``: of
    graphs, among them.
    """

    TITLE: ClassVar[str] = "Iterations"
    NOT_IN_TABLES: ClassVar[tuple[str, ...]] = (
        *(
            "prefill_requests",
            "decode_requests",
            "start_ns",
            "host_ns",
            "after_wait_ns",
            "device_ns",
            "compute_ns",
            "exposed_memory_ns",
            "mark",
        ),
    )
    rank: Ints
    iteration: Ints
    kind: Texts
    requests: Reals
    prefill_requests: Reals
    decode_requests: Reals
    prefill_tokens: Reals
    decode_tokens: Reals
    start_ns: Ints
    interval_ns: Reals
    latency_ns: Ints
    host_ns: Ints
    host_work_ns: Ints
    host_wait_ns: Ints
    after_wait_ns: Ints
    device_ns: Ints
    busy_ns: Ints
    compute_ns: Ints
    exposed_comm_ns: Ints
    exposed_memory_ns: Ints
    idle_ns: Ints
    host_bound_ns: Ints
    launches: Ints
    graph_launches: Ints
    mark: Texts


def serving_iterations(traces: Traces, *, rank: int | None = None) -> ServingIterations:
    """The iterations of an inference server. Raises InputError, also for a trace in which nothing marks iterations."""
    notes = Notes()
    opened = open_traces(traces, rank=rank, notes=notes)
    found = [(one, find_iterations(one.kineto)) for one in opened]
    if all(iterations is None for _, iterations in found):
        raise InputError(
            "nothing in this trace marks iterations of an inference server",
            file=opened[0].kineto.source,
            expected=f"annotations {_FORMS}, calls of a model runner (with_stack), or steps of the profiler",
            remedy=_REMEDY,
        )
    parts = []
    for one, iterations in found:
        if iterations is None:
            notes.warn(f"rank {one.rank}: nothing in the trace marks iterations; the rank is left out")
            continue
        notes.note(*one.work.notes)
        parts.append(_of_rank(one, iterations, notes))
    return ServingIterations.join(notes, parts)


def _of_rank(one: RankTrace, iterations: Iterations, notes: Notes) -> ServingIterations:
    work, size = one.work, len(iterations)
    _say(one.rank, iterations, notes)
    stated: dict[str, Any] = {
        name: np.array([getattr(said, name) for said in iterations.stated], np.float64)
        for name in ("requests", "prefill_requests", "decode_requests", "prefill_tokens", "decode_tokens")
    }
    host = iterations.end_ns - iterations.start_ns
    interval = np.append(np.diff(iterations.start_ns).astype(np.float64), np.nan)
    waited, after = _waits(work, iterations, notes)
    columns, last = _device(work, iterations, notes)
    return ServingIterations(
        rank=np.full(size, one.rank),
        iteration=np.arange(size),
        kind=tuple(said.kind for said in iterations.stated),
        start_ns=iterations.start_ns,
        interval_ns=interval,
        latency_ns=np.maximum(iterations.end_ns, last) - iterations.start_ns,
        host_ns=host,
        host_work_ns=host - waited,
        host_wait_ns=waited,
        after_wait_ns=after,
        mark=work.names(iterations.row),
        **stated,
        **columns,
    )


def _say(rank: int, iterations: Iterations, notes: Notes) -> None:
    """What is guessed or not known of a rank's iterations."""
    if iterations.source != ANNOTATED:
        notes.warn(
            f"rank {rank}: no annotations {_FORMS}: {len(iterations):,} iterations are {iterations.source}, "
            "which do not say what they compute"
        )
    elif unknown := sum(stated.kind == UNKNOWN for stated in iterations.stated):
        notes.note(f"rank {rank}: {unknown:,} of {len(iterations):,} marks do not say whether they prefill or decode")
    if iterations.inside:
        notes.note(f"rank {rank}: {iterations.inside:,} marks lie within others, which count once")
    overlapping = int((iterations.start_ns[1:] < iterations.end_ns[:-1]).sum())
    if overlapping:
        notes.warn(f"rank {rank}: {overlapping:,} iterations begin before the one before has ended")


def _waits(work: DeviceWork, iterations: Iterations, notes: Notes) -> tuple[Ints, Ints]:
    """How long the thread of each mark waited for the device within it, and after it until the next."""
    waits = host_waits(work)
    if waits.unseen_ns:
        notes.note(
            f"rank {work.rank}: {time_text(waits.unseen_ns)} in calls that synchronise while no recorded work of a "
            "device ended count as work of the host"
        )
    inside, after = np.zeros(len(iterations), np.int64), np.zeros(len(iterations), np.int64)
    until = np.maximum(iterations.until_ns, iterations.end_ns)
    for at, union in by_thread(work, waits, iterations.row):
        start, end, later = (
            covered_before(union, times[at]) for times in (iterations.start_ns, iterations.end_ns, until)
        )
        inside[at], after[at] = end - start, later - end
    return inside, after


def _device(work: DeviceWork, iterations: Iterations, notes: Notes) -> tuple[dict[str, Any], Ints]:
    """The columns of the device, and the last end of each iteration's work (its start if it has none)."""
    size = len(iterations)
    busy = np.flatnonzero(work.busy)
    at = np.full(len(busy), -1, np.int64)
    known = work.launch[busy] >= 0
    called = work.kineto.ts_ns[work.launch[busy[known]]]
    at[known] = iterations.holding(called)
    outside = int((at[known] < 0).sum())
    between = int((called >= iterations.end_ns[at[known]])[at[known] >= 0].sum())
    if outside:
        notes.note(f"rank {work.rank}: {outside:,} pieces of device work were launched before the first iteration")
    if between:
        notes.note(
            f"rank {work.rank}: {between:,} pieces of device work were launched between marks and count with the "
            "iteration before"
        )
    if len(np.unique(work.device[busy])) > 1:
        notes.note(f"rank {work.rank}: its devices are taken as one, busy when any of them is")
    columns, last = _parts(work, busy, at, iterations)
    idle, bound = _gaps(work, busy)
    ours = at >= 0
    calls, first = np.unique(work.launch[busy[ours]], return_index=True)
    of = at[ours][first]
    graph = calls_with(work.kineto, calls, "graphlaunch")
    columns |= {
        "idle_ns": sums(idle[ours], at[ours], size),
        "host_bound_ns": sums(bound[ours], at[ours], size),
        "launches": np.bincount(of, minlength=size).astype(np.int64),
        "graph_launches": np.bincount(of[graph], minlength=size).astype(np.int64),
    }
    return columns, last


def _gaps(work: DeviceWork, busy: Ints) -> tuple[Ints, Ints]:
    """How long no device worked before each piece, and how much of that passed before the call that launches it had
    returned; the later pieces of a call (a graph) wait for others of it, not for the host."""
    start, launch = work.start_ns[busy], work.launch[busy]
    before = np.maximum.accumulate(np.append(start[:1], work.end_ns[busy]))[: len(start)]
    returned = work.kineto.ts_ns[launch] + np.maximum(work.kineto.dur_ns[launch], 0)
    first = np.zeros(len(busy), np.bool_)
    first[np.unique(launch, return_index=True)[1]] = True
    bound = np.where(first & (launch >= 0), np.minimum(start, returned) - before, 0)
    return np.maximum(start - before, 0), np.maximum(bound, 0)


def _parts(work: DeviceWork, busy: Ints, at: Ints, iterations: Iterations) -> tuple[dict[str, Any], Ints]:
    """What the work of each iteration, of which ``at`` are the positions, does with its time."""
    wanted = {"span": "device_ns", "busy": "busy_ns", "compute": "compute_ns"}
    wanted |= {"exposed_comm": "exposed_comm_ns", "exposed_memory": "exposed_memory_ns"}
    columns = {name: np.zeros(len(iterations), np.int64) for name in wanted.values()}
    last = iterations.start_ns.copy()
    order = np.argsort(at, kind="stable")
    bounds = np.searchsorted(at[order], np.arange(len(iterations) + 1))
    for number in range(len(iterations)):
        mine = busy[order[bounds[number] : bounds[number + 1]]]
        if not len(mine):
            continue
        start, end, kind = work.start_ns[mine], work.end_ns[mine], work.kind[mine]
        unions = [merge(start[kind == one], end[kind == one]) for one in (COMPUTE, COMMUNICATION, MEMORY, OTHER)]
        last[number] = end.max()
        times = parts_of_window(unions, Scope(number, int(start.min()), int(end.max())))
        for name, time in zip(PARTS + SUMS, times, strict=True):
            if name in wanted:
                columns[wanted[name]][number] = time
    return columns, last
