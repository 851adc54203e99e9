"""`replay`: the communication of a trace, run for real."""

from __future__ import annotations

import os
from collections.abc import Callable

from chakrasim.collectives.kinds import KINDS_BY_NAME, MESSAGE
from chakrasim.converter.retarget.job_input import PathLike
from chakrasim.errors import InputError, StallError
from chakrasim.machine.groups import GroupSource
from chakrasim.notes import Notes, lists_too
from chakrasim.replay.environment import Launched, launched
from chakrasim.replay.execute import Samples, Settings, Stuck, check_backend, import_torch, run_rank
from chakrasim.replay.plan import RECV, ReplayPlan
from chakrasim.replay.programs import make_plan
from chakrasim.replay.result import ReplayResult, make_result
from chakrasim.replay.source import load_source
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.job import Job

COMPUTE = ("none", "sleep", "matmul")


@lists_too
def plan_replay(
    source: PathLike | Job | Trace,
    ranks: int | None = None,
    *,
    comm_group: GroupSource | None = None,
    compute: str = "none",
    lenient: bool = False,
    notes: Notes | None = None,
) -> ReplayPlan:
    """What `replay` would run; needs no PyTorch."""
    said = Notes() if notes is None else notes
    job = load_source(source, comm_group, said, lenient)
    name = os.fspath(source) if isinstance(source, str | os.PathLike) else "<memory>"
    return make_plan(job, job.ranks if ranks is None else ranks, name, compute=compute)


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
        What stands in for compute: "none", "sleep" (its recorded duration) or "matmul" (a product of as many
        operations, the recorded duration where none are stated).
    blocking:
        Only one collective at a time, not the whole as the dependencies allow it.
    warmup, iterations:
        Runs that are not measured, and that are.
    timeout_s:
        How long an operation may take.
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
    plan = plan_replay(source, count, comm_group=comm_group, compute=compute, lenient=lenient, notes=notes)
    notes.refuse(strict)
    settings = Settings(backend, warmup, iterations, not blocking, timeout_s)
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


def buffer_bytes(plan: ReplayPlan, rank: int) -> int:
    """Memory that a rank's communication needs: equal operations share their buffers."""
    buffers: dict[tuple[str, str, int], int] = {}
    for operation in plan.programs[rank]:
        members, size, dtype = plan.members(rank, operation), operation.size_bytes, operation.dtype
        kind = KINDS_BY_NAME.get(operation.kind, MESSAGE)
        buffers["in", dtype, size] = size
        if operation.kind == RECV or not kind.in_place:
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
