"""`replay`: the communication of a trace, run for real."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import pairwise

from chakrasim.collectives.kinds import KINDS, KINDS_BY_NAME, MESSAGE
from chakrasim.collectives.spelling import NOT_WORK, operation_of, plain
from chakrasim.converter.retarget.job_input import PathLike
from chakrasim.errors import InputError, StallError
from chakrasim.machine.groups import GroupSource
from chakrasim.notes import Notes, lists_too
from chakrasim.replay.environment import Launched, launched
from chakrasim.replay.execute import Samples, Settings, Stuck, check_backend, import_torch, profile_path, run_rank
from chakrasim.replay.plan import RECV as RECEIVES
from chakrasim.replay.plan import Asked, ReplayPlan
from chakrasim.replay.programs import MESSAGES, make_plan
from chakrasim.replay.result import ReplayResult, make_result
from chakrasim.replay.source import load_source
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.job import Job
from chakrasim.trace.kinds import RECV, SEND

COMPUTE = ("none", "sleep", "matmul", "operators")


@lists_too
def plan_replay(
    source: PathLike | Job | Trace,
    ranks: int | None = None,
    *,
    comm_group: GroupSource | None = None,
    compute: str = "none",
    only: Sequence[str] | None = None,
    first: int = 0,
    rebalance: bool = False,
    lenient: bool = False,
    notes: Notes | None = None,
) -> ReplayPlan:
    """What `replay` would run; needs no PyTorch."""
    said = Notes() if notes is None else notes
    asked = Asked(compute, None if only is None else _kinds(only), first, rebalance)
    job = load_source(source, comm_group, said, lenient, rebalance)
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else "<memory>"
    return make_plan(job, job.ranks if ranks is None else ranks, name, asked)


def _kinds(only: Sequence[str]) -> tuple[str, ...]:
    """Kinds of operations by the names of the schema or of PyTorch."""
    chosen = []
    for name in only:
        number = operation_of(name)
        if number in (SEND, RECV) or name == MESSAGES:
            chosen.append(MESSAGES)
        elif number in KINDS:
            chosen.append(KINDS[number].name)
        elif plain(name) not in NOT_WORK:  # PARAM's lists have waits, which are always kept
            known = ", ".join((*KINDS_BY_NAME, MESSAGES))
            raise InputError("there is no such collective", place="only", found=repr(name[:60]), expected=known)
    return tuple(chosen)


def replay(
    source: PathLike | Job | Trace,
    ranks: int | None = None,
    *,
    backend: str = "gloo",
    comm_group: GroupSource | None = None,
    compute: str = "none",
    blocking: bool = False,
    warmup: int = 2,
    iterations: int = 5,
    timeout_s: float = 60.0,
    only: Sequence[str] | None = None,
    first: int = 0,
    rebalance: bool = False,
    timestamps: bool = False,
    batch: int = 0,
    check: bool = False,
    profile: PathLike | None = None,
    dry_run: bool = False,
    lenient: bool = False,
    strict: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ReplayResult:
    """Run the communication of a trace on ``torch.distributed`` and measure it.

    Raises InputError for unusable input (and ranks that do not agree, before anything runs), StallError for a rank that
    fails or waits for longer than the timeout: it says who waits in what.

    Long because all its options are described here.

    Parameters
    ----------
    source:
        Chakra traces or PyTorch's traces, as `load_source` says, or a job in memory.
    ranks:
        Processes that run it, by default as many as the trace has ranks. Fewer are the first ranks: groups are cut to
        them, inputs that have a part for each member with them. More are refused, unless there is one trace only, which
        then stands for all ranks. A process that torchrun, SLURM or MPI started joins the others; else all are started
        here.
    backend:
        A back end of torch.distributed: gloo, or nccl with a GPU for each rank.
    comm_group:
        The groups of Chakra traces; by default the group file beside them.
    compute:
        What stands in for compute: "none", "sleep" (its recorded duration), "matmul" (a product of as many
        operations, the recorded duration where none are stated) or "operators" (the program's operators themselves,
        the topmost ones with tensors of their shapes; of traces made of PyTorch's, which hold them).
    blocking:
        Only one collective at a time, not the whole as the dependencies allow it.
    warmup, iterations:
        Runs that are not measured, and that are.
    timeout_s:
        How long an operation may take.
    only:
        These kinds of collectives alone ("all_reduce", ...; "message": sends and receives).
    first:
        Only so many collectives and messages, the first; 0: all.
    rebalance:
        All-to-alls whose ranks state different sizes get their mean, in equal parts; else the largest, or they are
        refused.
    timestamps:
        Nothing begins earlier, since the replay's begin, than it did in the trace since that of the earliest rank.
    batch:
        Measure so many collectives and messages at a time, too, begun together without dependencies; 0: do not.
    check:
        Once, after measuring, check the data that every operation delivers.
    profile:
        A folder for a profile of PyTorch of each rank, of one more run: ``rank-N.json.gz``.
    dry_run:
        Only say what would be run; needs no PyTorch.
    lenient:
        Of damaged files use what is intact, with a warning that counts what was lost.
    strict:
        Treat every warning as an error, before anything runs.
    progress:
        Called with operations begun and operations in all.
    """
    _check(compute, warmup, iterations, timeout_s)
    joined = _joined(ranks)
    notes = Notes()
    count = ranks if joined is None else joined.ranks
    plan = plan_replay(
        source, count, comm_group=comm_group, compute=compute, only=only, first=first, rebalance=rebalance,
        lenient=lenient, notes=notes,
    )  # fmt: skip
    notes.refuse(strict)
    folder = "" if profile is None else os.path.abspath(profile)
    settings = Settings(backend, warmup, iterations, not blocking, timeout_s, timestamps, batch, check, folder)
    _check_times(plan, settings)
    _check_profile(plan, settings)
    measured = None if dry_run else _run(plan, settings, joined, progress)
    return make_result(plan, settings, compute, measured, notes.warnings)


def _joined(ranks: int | None) -> Launched | None:
    """The launcher whose processes this one joins, if there is one."""
    joined = launched()
    if joined is not None and ranks not in (None, joined.ranks):
        raise InputError(
            f"{joined.launcher} started {joined.ranks} processes",
            found=f"{ranks} ranks asked for",
            remedy="make the two numbers equal, or leave --ranks out",
        )
    return joined


def _run(
    plan: ReplayPlan, settings: Settings, joined: Launched | None, progress: Callable[[int, int], None] | None
) -> list[Samples] | None:
    """What all ranks measure."""
    _check_memory(plan, joined is None and settings.backend != "nccl")
    torch = import_torch()
    check_backend(torch, settings.backend, plan.ranks if joined is None else 1)
    if joined is not None:
        return _join(plan, settings, joined)
    from chakrasim.replay.launch import run_processes

    return run_processes(plan, settings, progress)


def _join(plan: ReplayPlan, settings: Settings, joined: Launched) -> list[Samples] | None:
    """This process's part in what a launcher started; what all ranks measure, on every rank."""
    # MPI and SLURM set no address: PARAM's defaults (trace-analysis.md, 2.7).
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    port = os.environ["MASTER_PORT"]
    if not port.isascii() or not port.isdigit() or not 0 < int(port[:6]) < 1 << 16:
        raise InputError("the variable MASTER_PORT is no port", found=repr(port[:40]), expected="1 to 65535")
    try:
        _, everybody = run_rank(plan, joined.rank, joined.local_rank, settings, "env://", lambda what, at: None)
    except Stuck as fault:
        raise StallError(f"the replay cannot go on: {fault}", waits=(str(fault),)) from None
    return everybody


def _check(compute: str, warmup: int, iterations: int, timeout_s: float) -> None:
    if compute not in COMPUTE:
        raise InputError("unknown stand-in for compute", found=repr(compute), expected=", ".join(COMPUTE))
    if iterations < 1 or warmup < 0:
        raise InputError("there must be an iteration", found=f"warmup {warmup}, iterations {iterations}")
    if not 0 < timeout_s < 1e6:
        raise InputError("the timeout is out of range", found=timeout_s, expected="more than 0, less than 10^6 s")


def _check_times(plan: ReplayPlan, settings: Settings) -> None:
    """Raise InputError where times of the trace are asked for that it does not have, or that have pauses beyond the
    timeout: a begin that one operation lacks, clocks that differ."""
    if not settings.timestamps:
        return
    starts = sorted(
        (operation.start_ns, rank, at)
        for rank, program in enumerate(plan.programs)
        for at, operation in enumerate(program)
    )
    for (before, *_), (start, rank, at) in pairwise(starts):
        if start - before > settings.timeout_s * 1e9:
            operation = plan.programs[rank][at]
            raise InputError(
                f"rank {rank} would wait for longer than the timeout until {operation.name or operation.kind} began",
                file=plan.source,
                place=f"node {operation.node}" if operation.node >= 0 else None,
                found=f"{(start - before) / 1e9:.4g} s after all that began before",
                expected=f"no more than {settings.timeout_s:g} s: times of all nodes, by one clock",
                remedy="leave --timestamps out, or raise --timeout if the pause is real",
            )
    if not starts[-1][0] and plan.meetings > 1:
        raise InputError(
            "the trace does not say when its operations began",
            file=plan.source,
            remedy="leave --timestamps out, or replay a recorded trace",
        )


def _check_profile(plan: ReplayPlan, settings: Settings) -> None:
    """Raise InputError for profiles that would replace something."""
    for rank in range(plan.ranks) if settings.profile else ():
        path = profile_path(settings.profile, rank)
        if path.exists():
            raise InputError("the profile is there already", file=path, remedy="name another folder")


def buffer_bytes(plan: ReplayPlan, rank: int) -> int:
    """Memory that a rank's communication needs: equal operations share their buffers."""
    buffers: dict[tuple[str, str, int], int] = {}
    for operation in plan.programs[rank]:
        members, size, dtype = plan.members(rank, operation), operation.size_bytes, operation.dtype
        kind = KINDS_BY_NAME.get(operation.kind, MESSAGE)
        buffers["in", dtype, size] = size
        if operation.kind == RECEIVES or not kind.in_place:
            output = kind.result_bytes(size, members)
            buffers["out", dtype, output] = output
    return sum(buffers.values())


def _check_memory(plan: ReplayPlan, here: bool) -> None:
    """Raise InputError where the buffers of all ranks of this machine do not fit into its memory."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return
    needed = sum(buffer_bytes(plan, rank) for rank in range(plan.ranks))
    if here and needed > memory * 0.8:
        raise InputError(
            "the collectives do not fit into this machine's memory",
            file=plan.source,
            found=f"{needed / 2**30:.1f} GiB of buffers on {plan.ranks} ranks, {memory / 2**30:.1f} GiB in all",
            remedy="use fewer --ranks, or several machines (torchrun)",
        )
