"""`bind`: what was measured in a recorded run, moved to the captured program of any number of ranks."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.converter.binding.calls import Calls, Size, captured_calls, recorded_calls
from chakrasim.converter.binding.matching import BY_PLACE, WHY, Matching, matched
from chakrasim.converter.binding.measure import Floats, Mask, Sample, measured_step
from chakrasim.converter.binding.recordings import Recording, recorded_ranks
from chakrasim.converter.binding.result import Bound, BoundTrace
from chakrasim.converter.binding.rows import Rows
from chakrasim.converter.retarget.job_input import load_job
from chakrasim.converter.retarget.trace_edit import Change, edited
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.trace import work as names
from chakrasim.trace.chakra.graph import Csr, Ints, Trace
from chakrasim.trace.job.job import Job
from chakrasim.trace.kinds import BOOL, INT64, NodeType

LEAST_SHARE: Final = 0.8
"""Of the compute nodes of each trace: of less is said that it is another program."""
_LONGEST_NS: Final = 1 << 62


def bind(
    captured: str | os.PathLike[str] | Job,
    measured: Recording,
    *,
    steps: Collection[int] | None = None,
    least_share: float = LEAST_SHARE,
    lenient: bool = False,
    notes: Notes | None = None,
) -> Bound:
    """The captured job with the durations that were measured in a recorded run of the same program.

    Every node is looked for among the operators of the recorded steps: by name and size in the same order, then by
    name between neighbours that are found. What a device did by other operators between two of these is shared by
    bytes among the nodes between them; such nodes count as found up to as many as are found by name. Of all steps (and
    of all recorded ranks that fit a trace equally well) a node gets the median, and all together one factor, so that
    they sum to the median step. Collectives get their time of the rank that waited least, which replays use;
    simulations take the machine's. Nodes that are not found keep what they had.

    Parameters
    ----------
    captured:
        A prefix of Chakra traces of all ranks, or a job in memory.
    measured:
        A folder of PyTorch's traces of one rank or more, a device trace, a linked trace, or Chakra traces of these.
    steps:
        Numbers of the profiler's steps to take; all that were recorded by default.
    least_share:
        The share of compute nodes, 0 to 1, that has to be found in every trace.
    lenient:
        Of damaged traces use what is intact.
    notes:
        Receives warnings.

    Raises InputError for what cannot be read, steps that were not recorded, and programs that differ.
    """
    if not 0 <= least_share <= 1:
        raise InputError("the least share is no share", found=least_share, expected="0 to 1", remedy="give --least 0.8")
    said = Notes() if notes is None else notes
    name = "<memory>" if isinstance(captured, Job) else os.fspath(captured)
    job = captured if isinstance(captured, Job) else load_job(captured, lenient=lenient, notes=said)
    targets = [_Target(trace) for trace in job.traces]
    known = {call for target in targets for call in target.calls.names}
    ranks, taken = 0, set[int]()
    for rows in recorded_ranks(measured, lenient=lenient, notes=said):
        ranks += 1
        chosen = _steps_of(rows, steps, said)
        taken |= chosen.keys()
        sizes: dict[tuple[int, ...], Size] = {}
        found = {step: recorded_calls(rows, which, known, sizes) for step, which in chosen.items()}
        for target in targets:
            target.add(rows, chosen, found)
    made = [_moved(target, job, number, least_share) for number, target in enumerate(targets)]
    warnings = [*said.warnings, *_warnings([one for _, one in made], targets)]
    said.warn(*warnings[len(said.warnings) :])
    where = os.fspath(measured if isinstance(measured, str | os.PathLike) else measured.source)
    traces, figures = zip(*made, strict=True)
    return Bound(replace(job, traces=traces), name, where, ranks, tuple(sorted(taken)), figures, tuple(warnings))


def _steps_of(rows: Rows, asked: Collection[int] | None, notes: Notes) -> dict[int, Mask]:
    """The rows of each step; all rows as step -1 where no steps were marked."""
    there = [step for step in np.unique(rows.step).tolist() if step >= 0]
    if asked is not None:
        missing = sorted({*asked} - {*there})
        if missing:
            expected = f"one of {there}" if there else "none: no steps are marked"
            message = "a step that is asked for was not recorded"
            raise InputError(message, file=rows.source, found=f"step {missing[0]}", expected=expected)
        there = sorted({*asked})
    if not there:
        notes.warn(f"{rows.source}: no steps are marked: the whole trace is taken as one step")
        return {-1: np.ones(len(rows), np.bool_)}
    return {step: rows.step == step for step in there}


@dataclass(eq=False)
class _Target:
    """A captured trace, and the samples of the recorded ranks that fit it best."""

    trace: Trace
    calls: Calls = field(init=False)
    computes: NDArray[np.bool_] = field(init=False)
    share: float = -1.0
    samples: list[Sample] = field(default_factory=list)
    best: Matching | None = None
    moved: Floats = field(init=False)
    _known: dict[tuple[object, ...], Matching | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.calls = captured_calls(self.trace)
        self.computes = self.trace.types == int(NodeType.COMP_NODE)
        read, written = (self.trace.attr(name).integers_or(0) for name in (names.BYTES_READ, names.BYTES_WRITTEN))
        self.moved = np.maximum(read, 0).astype(np.float64) + np.maximum(written, 0)

    def add(self, rows: Rows, chosen: dict[int, Mask], calls: dict[int, Calls]) -> None:
        """Take a rank's steps if they fit at least as well as those of the ranks before."""
        found = {step: one for step, own in calls.items() if (one := self._matched(own)) is not None}
        samples = [measured_step(rows, step, chosen[step], calls[step], one, self.computes, self.moved)
                   for step, one in found.items()]  # fmt: skip
        shares = [self._share(sample) for sample in samples]
        share = float(np.median([*shares, *[0.0] * (len(calls) - len(samples))]))
        if not samples or share < self.share:
            return
        if share > self.share:
            self.samples.clear()
            self.share = share
            best = samples[int(np.argmax(shares))]
            one = found[best.step]
            self.best = replace(one, captured=np.where(best.placed, BY_PLACE, one.captured))
        self.samples += samples

    def _matched(self, calls: Calls) -> Matching | None:
        key = (*calls.names, *calls.sizes)
        if key not in self._known:
            self._known[key] = matched(self.calls, calls)
        return self._known[key]

    def _share(self, sample: Sample) -> float:
        """Of the compute nodes; those found by place count as many as those found by name."""
        own = np.isfinite(sample.work_ns) & self.computes
        placed = int((own & sample.placed).sum())
        return (int(own.sum()) - placed + min(placed, int(own.sum()) - placed)) / max(int(self.computes.sum()), 1)


def _moved(target: _Target, job: Job, number: int, least_share: float) -> tuple[Trace, BoundTrace]:
    """The trace with what was measured. Raises InputError where too little is."""
    ranks = np.flatnonzero(np.asarray(job.trace_of_rank) == number)
    computing = int(target.computes.sum())
    if target.best is None or (computing and target.share < least_share):
        raise InputError(
            "the recorded run is not one of the captured program, or not of these sizes",
            file=target.trace.source,
            place=f"rank {int(ranks[0])}" if len(ranks) else None,
            found=_fares(target, computing),
            expected=f"at least {least_share:.0%} of its compute nodes in the recorded step",
            remedy="record the same program with the same sizes for a rank, shapes included, or allow less: --least",
        )
    work, scale = _typical([sample.work_ns for sample in target.samples])
    launch, _ = _typical([sample.launch_ns for sample in target.samples])
    transfer = _transfers(target.samples)
    gap = np.median([float(np.nansum(sample.gap_ns)) for sample in target.samples])
    figures = BoundTrace(
        ranks=len(ranks),
        first=int(ranks[0]) if len(ranks) else -1,
        recorded=tuple(sorted({sample.rank for sample in target.samples})),
        samples=len(target.samples),
        computing=computing,
        matched=int(np.isfinite(work).sum()),
        captured=_counted(target.best.captured[target.computes]),
        recorded_calls=_counted(target.best.recorded),
        work_ns=int(np.nansum(work)),
        gap_ns=int(gap),
        left_ns=int(np.median([sample.left_ns for sample in target.samples])),
        without_kernel=int(np.median([sample.without_kernel for sample in target.samples])),
        launches=int(np.isfinite(launch).sum()),
        transfers=int(np.isfinite(transfer).sum()),
        scale=scale,
    )
    made = _with_times(target.trace, work, launch, transfer)
    return (made if figures.launches else one_line(made)), figures


def _fares(target: _Target, computing: int) -> str:
    if target.best is None:
        return "two programs that have too little in common to be aligned"
    why = _counted(target.best.captured[target.computes])
    listed = ", ".join(f"{count:,} {what}" for what, count in why.items())
    return f"{target.share:.1%} of {computing:,} compute nodes ({listed})"


def _counted(how: Ints) -> dict[str, int]:
    found = Counter(how.tolist())
    return {WHY[code]: found[code] for code in WHY if found[code]}


def _typical(samples: list[Floats]) -> tuple[Floats, float]:
    """The medians of nodes over samples, times one factor so that they sum to what the median sample sums to: the times
    of a node are skewed, and medians of many skewed parts sum to less than the whole."""
    every = np.array(samples)
    there = np.isfinite(every)
    median = np.full(every.shape[1], np.nan)
    some = there.any(axis=0)
    median[some] = np.nanmedian(every[:, some], axis=0)
    sums = [(np.nansum(one), np.nansum(median[own])) for one, own in zip(every, there, strict=True)]
    ratios = [whole / parts for whole, parts in sums if parts > 0]
    scale = float(np.median(ratios)) if ratios else 1.0
    return median * scale, scale


def _transfers(samples: list[Sample]) -> Floats:
    """The median over steps of the time of the rank that took least: it came last, and waited for nobody."""
    by_step: dict[int, list[Floats]] = {}
    for sample in samples:
        by_step.setdefault(sample.step, []).append(sample.transfer_ns)
    least = np.array([np.fmin.reduce(own) for own in by_step.values()])
    found = np.full(least.shape[1], np.nan)
    some = np.isfinite(least).any(axis=0)
    found[some] = np.nanmedian(least[:, some], axis=0)
    return found


def _with_times(trace: Trace, work: Floats, launch: Floats, transfer: Floats) -> Trace:
    """The trace with durations, in ns and, rounded so that their sums stay, in whole us."""
    times = np.where(np.isfinite(work), work, transfer)
    nodes = np.flatnonzero(np.isfinite(times))
    ns = np.rint(np.minimum(times[nodes], _LONGEST_NS)).astype(np.int64)
    micros = trace.duration_micros.copy()
    ends = np.cumsum(ns)
    micros[nodes] = (ends // 1000 - (ends - ns) // 1000).astype(np.uint64)
    computed = np.flatnonzero(np.isfinite(work))
    launched = np.flatnonzero(np.isfinite(launch) & np.isfinite(work))
    changes = [
        Change("duration_ns", INT64, nodes, ns),
        Change(names.RECORDED, BOOL, computed, np.ones(len(computed), np.int64)),
        Change(names.LAUNCH, INT64, launched, np.rint(launch[launched]).astype(np.int64)),
    ]
    return replace(edited(trace, changes), duration_micros=micros)


def one_line(trace: Trace) -> Trace:
    """The trace of a host that does all computing itself: on one stream, each compute node behind the one before."""
    computing = np.flatnonzero(trace.types == int(NodeType.COMP_NODE))
    before, behind = computing[:-1], computing[1:]
    offsets = trace.ctrl_deps.offsets
    targets = np.insert(trace.ctrl_deps.targets, offsets[behind + 1], trace.ids[before])
    more = np.zeros(len(offsets), np.int64)
    more[behind + 1] = 1
    trace = edited(trace, [Change(names.STREAM, INT64, computing, np.zeros(len(computing), np.int64))])
    return replace(trace, ctrl_deps=Csr(offsets + np.cumsum(more), targets))


def _warnings(made: list[BoundTrace], targets: list[_Target]) -> list[str]:
    found = []
    left = sum(one.ranks * (one.computing - one.matched) for one in made)
    if left:
        bare = any(
            not (target.trace.attr("duration_ns").present | (target.trace.duration_micros > 0))[target.computes].all()
            for target in targets
        )
        kept = (
            "a simulation takes the time of the machine's device profile for them, and none without one"
            if bare
            else "they keep the duration that they had"
        )
        found.append(f"{left:,} compute nodes of all ranks are not measured: {kept}")
    lost = max((one.left_ns for one in made), default=0)
    if lost:
        found.append(f"kernels of {lost / 1e6:,.3f} ms in a recorded step belong to no captured node and are left out")
    return found
