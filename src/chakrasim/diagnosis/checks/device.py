"""What can be wrong with one device trace: what it holds, and what links kernels to operators."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from chakrasim.diagnosis.checks.findings import Finding
from chakrasim.diagnosis.checks.host import profiler_steps
from chakrasim.diagnosis.checks.subject import ERROR, NOTE, TOLERANCE_NS, WARNING, Subject
from chakrasim.diagnosis.checks.time import check_time
from chakrasim.diagnosis.device_rows import DeviceRows
from chakrasim.diagnosis.facts import step_kernels
from chakrasim.text import remedies
from chakrasim.trace.kineto.columns import Ints

#: A step whose kernels differ by more from the median is called partial.
STEP_TOLERANCE: Final = 0.05
#: Where more of the kernels are lost, nothing is left to trust.
MOST_LOST: Final = 0.5


def check_device(subject: Subject) -> Iterator[Finding]:
    """All findings about one device trace."""
    if not len(subject.rows.trace) or not subject.rows.timed.any():
        yield subject.finding(
            "empty-trace",
            ERROR,
            f"the device trace has no events with a duration ({len(subject.rows.trace):,} events)",
            "there is nothing to link",
            f"record iterations between start and stop: {remedies.PROFILE}",
            events=len(subject.rows.trace),
        )
        return
    if (subject.rows.trace.where(subject.rows.trace.category, "Trace") | ~subject.rows.timed).all():
        yield never_active(subject)
        return
    for check in _CHECKS:
        yield from check(subject)


def never_active(subject: Subject) -> Finding:
    """The finding for a device trace in which the profiler marks itself and nothing else."""
    steps = profiler_steps(subject.host) if subject.host is not None else 0
    seen = f", though the observer saw {steps:,} profiler steps" if steps else ""
    return subject.finding(
        "schedule-never-active",
        ERROR,
        "the profiler was on and recorded nothing: no step, operator, call or kernel" + seen,
        "its schedule never became active, so there are no times and nothing to link",
        remedies.LONGER,
        profiler_steps=steps,
    )


# -- what was recorded -------------------------------------------------------------------------------------------------


def _device_work(subject: Subject) -> Iterator[Finding]:
    rows = subject.rows
    if rows.work.any():
        return
    launches = int(rows.launches.sum())
    signs = [f"{launches:,} kernel launches"] if launches else []
    if not launches and rows.calls.any():
        signs.append(f"{int(rows.calls.sum()):,} calls of the device's runtime")
    if subject.host is not None:
        devices = {subject.host.strings[index] for index in np.unique(subject.host.tensors.device).tolist()}
        signs += [f"tensors on {device}" for device in sorted(devices) if re.match(r"(cuda|hip|xpu|mtia)", device)][:1]
    info = subject.rows.trace.header.get("distributedInfo")
    backend = str(info.get("backend", "")) if isinstance(info, dict) else ""
    if "nccl" in backend:
        signs.append(f"the back end {backend}")
    if not signs:
        return
    yield subject.finding(
        "no-device-events",
        ERROR,
        f"the window holds no kernels although a device was in use ({', '.join(signs)})",
        "all device time is missing: the step would seem to be host work alone",
        f"{remedies.ACTIVITIES}; on ROCm record fewer warm-up steps, they fill the buffers",
        launches=launches,
        backend=backend,
    )


def _lost_kernels(subject: Subject) -> Iterator[Finding]:
    """Launches without device work: at the window's beginning, in between, at its end."""
    rows = subject.rows
    if not rows.work.any():
        return
    launches = np.flatnonzero(rows.launches)
    launches = launches[np.argsort(rows.trace.ts_ns[launches], kind="stable")]
    missing = ~rows.has_work[launches]
    if not missing.any():
        return
    linked = np.flatnonzero(~missing)
    first, last = (int(linked[0]), int(linked[-1])) if len(linked) else (len(launches), len(launches))
    total, lost = len(launches), int(missing.sum())
    at_start, at_end = int(missing[:first].sum()), int(missing[last + 1 :].sum())
    by_step = _by_step(rows, rows.trace.ts_ns[launches[missing]])
    yield subject.finding(
        "lost-kernels",
        ERROR if lost > MOST_LOST * total else WARNING,
        f"{lost:,} of {total:,} kernel launches have no kernel: {at_start:,} at the beginning of the window, "
        f"{lost - at_start - at_end:,} in between, {at_end:,} at its end" + _steps_text(by_step),
        "their device time is missing, so the steps concerned look too short",
        f"{remedies.SCHEDULE}; leave out the steps named",
        launches=total,
        lost=lost,
        lost_at_start=at_start,
        lost_at_end=at_end,
        lost_by_step=by_step,
        **_out_of_range(rows),
    )


def _by_step(rows: DeviceRows, times_ns: Ints) -> dict[str, int]:
    step = rows.step_of(times_ns)
    numbers = rows.steps[1]
    counts = np.bincount(step[step >= 0], minlength=len(numbers)).tolist()
    return {str(number): count for number, count in zip(numbers.tolist(), counts, strict=True) if count}


def _steps_text(by_step: dict[str, int]) -> str:
    if not by_step:
        return ""
    shown = ", ".join(f"{count:,} in step {step}" for step, count in list(by_step.items())[:4])
    return f" ({shown}{', ...' if len(by_step) > 4 else ''})"


def _out_of_range(rows: DeviceRows) -> dict[str, int]:
    """What Kineto's own log in the file says it dropped."""
    lines = rows.trace.header.get("INFO")
    text = "\n".join(map(str, lines)) if isinstance(lines, list) else str(lines or "")
    found = re.search(r"Out-of-range = ([0-9]{1,18})", text)
    return {"out_of_range_records": int(found[1])} if found else {}


def _odd_steps(rows: DeviceRows) -> tuple[float, dict[int, int]]:
    """The usual number of kernels of a step (median; of two steps the larger), and the steps that differ from it."""
    numbers = rows.steps[1].tolist()
    if len(numbers) < 2 or not rows.work.any():
        return 0.0, {}
    counts = step_kernels(rows)
    usual = float(np.median(counts) if len(counts) > 2 else counts.max())
    odd = np.abs(counts - usual) > max(1.0, STEP_TOLERANCE * usual)
    return usual, {numbers[at]: int(counts[at]) for at in np.flatnonzero(odd).tolist()}


def partial_steps(rows: DeviceRows) -> tuple[int, ...]:
    """Numbers of the steps whose kernels differ from the usual by more than STEP_TOLERANCE, or lack some."""
    lost = _by_step(rows, rows.trace.ts_ns[rows.launches & ~rows.has_work])
    odd = _odd_steps(rows)[1]
    return tuple(number for number in rows.steps[1].tolist() if number in odd or str(number) in lost)


def _uneven_steps(subject: Subject) -> Iterator[Finding]:
    usual, odd = _odd_steps(subject.rows)
    if odd:
        shown = ", ".join(f"step {number}: {count:,}" for number, count in list(odd.items())[:4])
        yield subject.finding(
            "uneven-steps",
            WARNING,
            f"{len(odd)} of {len(subject.rows.steps[1])} steps launch another number of kernels than the usual "
            f"{usual:,.0f} ({shown}{', ...' if len(odd) > 4 else ''})",
            "kernels of these steps were lost, or they did something else; averages leave them out",
            f"choose a step with the usual number; {remedies.SCHEDULE}",
            usual=usual,
            steps={str(number): count for number, count in odd.items()},
        )


def _no_steps(subject: Subject) -> Iterator[Finding]:
    if not len(subject.rows.steps[0]):
        yield subject.finding(
            "no-profiler-step",
            NOTE,
            "there is no ProfilerStep",
            "the whole recorded span is taken as one step",
            "call profiler.step() after every iteration",
        )


# -- what links kernels to operators -----------------------------------------------------------------------------------


def _unlinked_kernels(subject: Subject) -> Iterator[Finding]:
    rows = subject.rows
    work = np.flatnonzero(rows.work)
    orphans = work[rows.launch_of[work] < 0]
    if not len(orphans):
        return
    trace = rows.trace
    time = int(trace.dur_ns[orphans].sum())
    share = time / max(1, int(trace.dur_ns[work].sum()))
    host = rows.operators | rows.calls
    first = int(trace.ts_ns[host].min()) if host.any() else np.iinfo(np.int64).min
    early = int((trace.ts_ns[orphans] < first).sum())
    unknown = int((trace.correlation[orphans] <= 0).sum())
    yield subject.finding(
        "unlinked-kernels",
        ERROR if share > MOST_LOST else WARNING,
        f"{len(orphans):,} of {len(work):,} kernels and copies have no launch ({100 * share:.1f}% of device time; "
        f"{unknown:,} without a correlation id)",
        "they keep their place in their stream, but no operator causes them",
        "record CPU activity too, and from before the first launch: " + remedies.SCHEDULE,
        unlinked=len(orphans),
        work=len(work),
        share_of_device_time=round(share, 6),
        without_correlation=unknown,
    )
    if early:
        yield subject.finding(
            "warm-up-leakage",
            WARNING,
            f"{early:,} kernels or copies start before the first operator or call of the window",
            "work of the warm-up is in the trace; the first step seems longer and busier than it was",
            remedies.SCHEDULE,
            kernels=early,
        )


def _before_launch(subject: Subject) -> Iterator[Finding]:
    rows = subject.rows
    work = np.flatnonzero(rows.launch_of >= 0)
    early = rows.trace.ts_ns[rows.launch_of[work]] - rows.trace.ts_ns[work]
    count = int((early > 0).sum())
    if not count:
        return
    worst = int(early.max())
    yield subject.finding(
        "kernel-before-launch",
        WARNING if worst > TOLERANCE_NS else NOTE,
        f"{count:,} of {len(work):,} kernels and copies start before their launch, by up to {worst / 1000:,.3f} us",
        "the clocks of host and device differ; launch latencies of these are taken as 0",
        "nothing below a few us; above, record again with a newer driver or PyTorch",
        kernels=count,
        worst_ns=worst,
    )


def _correlations(subject: Subject) -> Iterator[Finding]:
    rows, trace = subject.rows, subject.rows.trace
    calls = trace.correlation[rows.calls & (trace.correlation > 0)]
    doubled = len(calls) - len(np.unique(calls))
    if doubled:
        yield subject.finding(
            "duplicated-correlation",
            WARNING,
            f"{doubled:,} calls of the device's runtime repeat a correlation id",
            "the first call in the file counts as the launch, the kernels of the others are not told apart",
            "do not join traces of several processes into one file",
            calls=doubled,
        )
    launched = rows.launch_of[rows.work & (rows.launch_of >= 0)]
    _, counts = np.unique(launched, return_counts=True)
    graphs = counts[counts > 1]
    if len(graphs):
        yield subject.finding(
            "cuda-graphs",
            NOTE,
            f"{len(graphs):,} launches start several kernels, {int(graphs.sum()):,} in all (graphs)",
            "the kernels of a graph depend on one launch and on their streams; their operators are not known",
            "none is needed; run without graphs where operators matter",
            launches=len(graphs),
            kernels=int(graphs.sum()),
        )


def _sync_events(subject: Subject) -> Iterator[Finding]:
    rows, trace = subject.rows, subject.rows.trace
    if not rows.work.any():
        return
    if not rows.sync_records.any():
        waits = rows.calls & rows.named(lambda text: "StreamWaitEvent" in text)
        blocking, waiting = int(rows.blocking.sum()), int(waits.sum())
        if blocking or waiting:
            yield subject.finding(
                "missing-sync-events",
                # The profiler itself waits once, when it stops.
                WARNING if blocking > 1 or waiting else NOTE,
                f"synchronisation was not recorded, though the host waits for the device {blocking:,} times and "
                f"streams wait for each other {waiting:,} times",
                "these dependencies are inferred from the names of calls and from times",
                remedies.SYNC_EVENTS,
                blocking_calls=blocking,
                stream_waits=waiting,
            )
        return
    waits = rows.sync_records & trace.where(trace.name, "Stream Wait Event", "Event Sync")
    sources = trace.rare_column("wait_on_cuda_event_record_corr_id").integers(len(trace))
    unresolved = int((waits & (sources < 0)).sum())
    if unresolved:
        total = int(waits.sum())
        yield subject.finding(
            "unresolved-sync-events",
            WARNING if unresolved > total // 2 else NOTE,
            f"{unresolved:,} of {total:,} waits for an event do not say where it was recorded (CUDA 12.9 and newer, or "
            "recorded before the window)",
            "their dependencies come from calls of cudaEventRecord and cudaStreamWaitEvent, or are missing",
            "use a PyTorch whose Kineto resolves them; record from before the first event",
            unresolved=unresolved,
            waits=total,
        )


def _shapes(subject: Subject) -> Iterator[Finding]:
    rows, trace = subject.rows, subject.rows.trace
    if not rows.operators.any() or trace.header.get("record_shapes") == 1 or len(trace.rare_column("Input Dims").rows):
        return
    has_host = subject.host is not None
    yield subject.finding(
        "missing-record-shapes",
        NOTE if has_host else WARNING,
        "operators have no shapes (record_shapes was off)",
        "the host trace has them"
        if has_host
        else "sizes of collectives and of work are unknown where only shapes tell them",
        remedies.SHAPES,
    )


def _identifiers(subject: Subject) -> Iterator[Finding]:
    rows, trace = subject.rows, subject.rows.trace
    operators = rows.operators
    if not operators.any():
        return
    external = int((operators & (trace.external_id >= 0)).sum())
    recorded = int((operators & (trace.rf_id > 0)).sum())
    if subject.host is not None and not recorded:
        yield subject.finding(
            "missing-record-function-ids",
            WARNING,
            f"operators of the device trace carry no record function ids ({external:,} carry an External id)",
            "operators of both traces are matched by External id, or by name and time",
            f"the observer must be active while the profiler records: {remedies.OBSERVER}",
            operators=int(operators.sum()),
            external_ids=external,
        )
    elif not external and not recorded:
        yield subject.finding(
            "missing-ids",
            NOTE,
            "operators carry neither External ids nor record function ids",
            "kernels find their operators through their launches and the nesting of calls",
            "none is needed",
            operators=int(operators.sum()),
        )


def _process_groups(subject: Subject) -> Iterator[Finding]:
    rows, trace = subject.rows, subject.rows.trace
    count = int(rows.collectives.sum())
    if not count:
        return
    info = trace.header.get("distributedInfo")
    stated = bool(isinstance(info, dict) and info.get("pg_config"))
    stated |= bool(len(trace.rare_column("Process Group Ranks").rows))
    if subject.host is not None:
        stated |= any("process_group:init" in text for text in subject.host.strings)
    if not stated:
        yield subject.finding(
            "missing-process-groups",
            WARNING,
            f"there are {count:,} collectives, but no record of the process groups",
            "collectives count as collectives of all ranks; those of subgroups are then wrong",
            remedies.GROUPS,
            collectives=count,
        )


_CHECKS: Final[tuple[Callable[[Subject], Iterator[Finding]], ...]] = (
    _device_work,
    _lost_kernels,
    _uneven_steps,
    _no_steps,
    _unlinked_kernels,
    _before_launch,
    _correlations,
    _sync_events,
    _shapes,
    _identifiers,
    _process_groups,
    check_time,
)
