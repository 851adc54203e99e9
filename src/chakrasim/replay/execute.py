"""One rank's part of a replay, on ``torch.distributed``. Only here is torch used."""

from __future__ import annotations

import gzip
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from chakrasim.collectives.kinds import KINDS_BY_NAME, MESSAGE
from chakrasim.errors import InputError
from chakrasim.files.outputs import write_whole
from chakrasim.replay.operators import OperatorRunner
from chakrasim.replay.plan import (
    BARRIER,
    COMPUTE,
    RECV,
    SEND,
    Operation,
    ReplayPlan,
    describe,
)
from chakrasim.replay.received import fill, part_of, received, sent, wrong_part

START_S = 120.0
"""Importing torch may take long on a machine that is busy."""
_SPIN_NS = 2_000_000
"""The last stretch of a wait, in which the clock is watched instead of sleeping."""


@dataclass(frozen=True)
class Settings:
    """How a replay runs; see `chakrasim.replay.replay`."""

    backend: str
    warmup: int
    iterations: int
    pipelined: bool
    timeout_s: float
    timestamps: bool = False
    batch: int = 0
    check: bool = False
    profile: str = ""


@dataclass
class Samples:
    """What one rank measured, in ns.

    Attributes
    ----------
    latency_ns: by position of the program, one latency for each iteration; [] for what was not run.
    pipelined_ns: the whole program, by iteration.
    batch_ns: batches of collectives begun together, one time for each iteration.
    checked: operations whose data were right.
    operators_lacking: operators that cannot be run here, with what PyTorch said.
    lacking: kinds of operations that the back end lacks, with what it said.
    device, torch: what ran it.
    """

    latency_ns: list[list[int]] = field(default_factory=list)
    pipelined_ns: list[int] = field(default_factory=list)
    batch_ns: list[list[int]] = field(default_factory=list)
    checked: int = 0
    operators_lacking: dict[str, str] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    device: str = ""
    torch: str = ""


def profile_path(folder: str, rank: int) -> Path:
    """Where the profile of a rank goes."""
    return Path(folder, f"rank-{rank}.json.gz")


class Stuck(Exception):
    """An operation failed or took longer than the timeout; says at which position, doing what."""


Mark = Callable[[str, int], None]
"""Called with what a rank is doing and the position in its program (-1: none)."""


def import_torch() -> Any:
    """PyTorch with its distributed package. Raises InputError where it is missing."""
    try:
        import torch
        import torch.distributed
    except ImportError:
        raise InputError(
            "a replay needs PyTorch",
            remedy="pip install 'chakrasim[torch]'; --dry-run shows without it what would be run",
        ) from None
    if not torch.distributed.is_available():
        raise InputError("this PyTorch is built without torch.distributed", found=torch.__version__)
    return torch


def check_backend(torch: Any, backend: str, ranks: int) -> None:
    """Raise InputError unless PyTorch has the back end, and, for NCCL, every local rank a GPU."""
    if not torch.distributed.is_backend_available(backend):
        known = [name for name in ("gloo", "nccl", "mpi", "ucc") if torch.distributed.is_backend_available(name)]
        raise InputError(
            f"this PyTorch has no back end {backend!r}", found=torch.__version__, expected=" or ".join(known)
        )
    if backend == "nccl" and torch.cuda.device_count() < ranks:
        raise InputError(
            "the back end nccl needs a GPU for each rank of a machine",
            found=f"{torch.cuda.device_count()} GPUs for {ranks} ranks",
            remedy="use --backend gloo, or fewer --ranks",
        )


def run_rank(
    plan: ReplayPlan, rank: int, local_rank: int, settings: Settings, rendezvous: str, mark: Mark
) -> tuple[Samples, list[Samples] | None]:
    """Run a rank's program; its samples, and those of all ranks where ``rendezvous`` is ``env://`` (else None: it is a
    file that all ranks see).

    Raises Stuck for an operation that fails or does not end.
    """
    torch = import_torch()
    distributed = torch.distributed
    device = torch.device("cpu")
    if settings.backend == "nccl":
        device = torch.device("cuda", local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
    mark("waits for the other ranks to join", -1)
    where: dict[str, Any] = {"init_method": rendezvous}
    if rendezvous != "env://":
        where = {"store": _store(distributed, rendezvous, rank, plan.ranks)}
    timeout = timedelta(seconds=settings.timeout_s)
    try:
        distributed.init_process_group(settings.backend, rank=rank, world_size=plan.ranks, timeout=timeout, **where)
    except (OSError, RuntimeError, ValueError) as fault:
        said = (str(fault).splitlines() or [type(fault).__name__])[0]
        raise Stuck(f"rank {rank} waits for the other ranks to join: {said}") from None
    try:
        runner = _Runner(torch, plan, rank, device, settings, mark)
        samples = runner.run()
        everybody: list[Samples] | None = None
        if rendezvous == "env://":
            gathered: list[Any] = [None] * plan.ranks
            distributed.all_gather_object(gathered, samples)
            everybody = gathered
        return samples, everybody
    finally:
        distributed.destroy_process_group()


def _store(distributed: Any, path: str, rank: int, ranks: int) -> Any:
    """A store in a file, when all ranks have come to it: starting takes longer than the timeout of an operation may."""
    store = distributed.FileStore(path, ranks)
    store.set(f"here {rank}", "")
    store.wait([f"here {other}" for other in range(ranks)], timedelta(seconds=START_S))
    return store


class _Runner:
    def __init__(self, torch: Any, plan: ReplayPlan, rank: int, device: Any, settings: Settings, mark: Mark) -> None:
        self.torch, self.distributed = torch, torch.distributed
        self.plan, self.rank, self.device, self.settings, self.mark = plan, rank, device, settings, mark
        self.program = plan.programs[rank]
        self.at_meeting = {operation.meeting: at for at, operation in enumerate(self.program) if operation.meeting >= 0}
        self.groups = [self._new_group(number) for number in range(len(plan.groups))]
        self.buffers: dict[tuple[str, str, int], Any] = {}
        self.factors: dict[tuple[int, int, int, int], tuple[Any, Any]] = {}
        self.lacking: dict[str, str] = {}
        self.operators = OperatorRunner(torch, device)

    def _new_group(self, number: int) -> Any:
        """All ranks make all groups, in one order."""
        members = list(self.plan.groups[number].members)
        if number == 0:
            return self.distributed.group.WORLD
        self.mark(f"makes the group of ranks {members[:8]}", -1)
        return self.distributed.new_group(members, timeout=timedelta(seconds=self.settings.timeout_s))

    def run(self) -> Samples:
        """Everything, warm-up first."""
        settings = self.settings
        self._probe()
        result = Samples(lacking=self.lacking, device=self._device_name(), torch=self.torch.__version__)
        if settings.pipelined:
            for number in range(settings.warmup + settings.iterations):
                elapsed = self._pipelined()
                if number >= settings.warmup:
                    result.pipelined_ns.append(elapsed)
        result.latency_ns = [[] for _ in self.program]
        result.batch_ns = [[] for _ in range(-(-self.plan.meetings // settings.batch) if settings.batch else 0)]
        for number in range(settings.warmup + settings.iterations):
            measured = number >= settings.warmup
            self._blocking(result.latency_ns if measured else None)
            if settings.batch:
                self._batches(result.batch_ns if measured else None)
        if settings.check:
            result.checked = self._check_data()
        if settings.profile:
            self._profile()
        result.operators_lacking = self.operators.lacking
        return result

    def _device_name(self) -> str:
        return self.torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"

    # -- passes -----------------------------------------------------------------------------------------------------

    def _pipelined(self) -> int:
        """The program, every operation begun as soon as what it waits for has ended; in ns."""
        works: dict[int, Any] = {}
        self._together()
        begin = time.perf_counter_ns()
        for at, operation in enumerate(self.program):
            for other in operation.waits:
                self._finish(works.pop(other, None), other)
            if self.settings.timestamps:
                self._wait_until(begin + operation.start_ns)
            if operation.kind == COMPUTE:
                self._compute(operation)
            elif operation.kind not in self.lacking:
                with self._guarded("begins", at):
                    works[at] = self._post(operation)
        for at in sorted(works):
            self._finish(works[at], at)
        self._synchronize()
        return time.perf_counter_ns() - begin

    def _blocking(self, latency_ns: list[list[int]] | None) -> None:
        """Every meeting alone: all ranks come together, then its members begin and end it."""
        for meeting in range(self.plan.meetings):
            self._together()
            at = self.at_meeting.get(meeting, -1)
            if at < 0 or self.program[at].kind in self.lacking:
                continue
            begin = time.perf_counter_ns()
            with self._guarded("begins", at):
                work = self._post(self.program[at])
            self._finish(work, at)
            self._synchronize()
            if latency_ns is not None:
                latency_ns[at].append(time.perf_counter_ns() - begin)

    def _batches(self, batch_ns: list[list[int]] | None) -> None:
        """So many meetings at a time: all ranks come together, then each begins all of its own, and ends them."""
        size = self.settings.batch
        for number, low in enumerate(range(0, self.plan.meetings, size)):
            ours = [self.at_meeting[at] for at in range(low, low + size) if at in self.at_meeting]
            self._together()
            begin, works = time.perf_counter_ns(), {}
            for at in ours:
                if self.program[at].kind not in self.lacking:
                    with self._guarded("begins", at):
                        works[at] = self._post(self.program[at])
            for at, work in works.items():
                self._finish(work, at)
            self._synchronize()
            if batch_ns is not None:
                batch_ns[number].append(time.perf_counter_ns() - begin)

    def _check_data(self) -> int:
        """Every meeting alone, with data that tell whose they are; how many were right. Raises Stuck for the first that
        is not."""
        right = 0
        for meeting in range(self.plan.meetings):
            self._together()
            at = self.at_meeting.get(meeting, -1)
            if at < 0 or self.program[at].kind in self.lacking or self.program[at].kind == BARRIER:
                continue
            operation = self.program[at]
            part = part_of(self.plan, self.rank, operation)
            unit = getattr(self.torch, operation.dtype).itemsize
            inputs = self._buffer("in", operation.dtype, operation.size_bytes // unit)
            fill(inputs, sent(operation, part))
            with self._guarded("begins", at):
                work = self._post(operation)
            self._finish(work, at)
            self._synchronize()
            if expected := received(operation, part):
                kind = KINDS_BY_NAME.get(operation.kind, MESSAGE)
                outputs = inputs
                if operation.kind == RECV or not kind.in_place:
                    outputs = self._out(operation, kind.result_bytes(operation.size_bytes, part.members) // unit)
                if wrong := wrong_part(outputs, expected, part.members):
                    where = describe(self.plan, self.rank, at)
                    raise Stuck(f"rank {self.rank} received wrong data in {where}: {wrong}")
                outputs.fill_(0)
                right += 1
            inputs.fill_(0)
        return right

    def _profile(self) -> None:
        """One pass as the dependencies allow it, recorded by PyTorch's profiler."""
        profiler = self.torch.profiler
        kinds = [profiler.ProfilerActivity.CPU]
        if self.device.type == "cuda":
            kinds.append(profiler.ProfilerActivity.CUDA)
        with profiler.profile(activities=kinds, record_shapes=True) as recorded, profiler.record_function("replay"):
            self._pipelined()
        self.mark("writes its profile", -1)
        with tempfile.TemporaryDirectory() as scratch:
            whole = Path(scratch, "trace.json")
            recorded.export_chrome_trace(str(whole))
            write_whole(profile_path(self.settings.profile, self.rank), gzip.compress(whole.read_bytes()))

    def _wait_until(self, time_ns: int) -> None:
        """Let time pass, a second at most at once, so that who watches sees it."""
        while (left := time_ns - time.perf_counter_ns()) > 0:
            self.mark("waits until its next operation began in the trace", -1)
            _spend(min(left, 1_000_000_000))

    def _together(self) -> None:
        self._synchronize()
        with self._guarded("waits for all ranks to come together", -1):
            self.distributed.barrier()
        self._synchronize()

    def _finish(self, work: Any, at: int) -> None:
        if work is not None:
            with self._guarded("waits in", at):
                work.wait()

    def _synchronize(self) -> None:
        if self.device.type == "cuda":
            self.torch.cuda.synchronize(self.device)

    @contextmanager
    def _guarded(self, what: str, at: int) -> Iterator[None]:
        self.mark(what, at)
        try:
            yield
        except (RuntimeError, ValueError, NotImplementedError) as fault:
            where = describe(self.plan, self.rank, at) if at >= 0 else ""
            text = str(fault).strip().splitlines() or [type(fault).__name__]
            raise Stuck(f"rank {self.rank} {what} {where}".rstrip() + f": {text[0][:300]}") from fault

    # -- operations -------------------------------------------------------------------------------------------------

    def _probe(self) -> None:
        """Which kinds the back end has: each once, small, by all ranks."""
        self._together()
        kinds = sorted({operation.kind for program in self.plan.programs for operation in program})
        for kind in kinds:
            if kind in (COMPUTE, BARRIER, SEND, RECV):
                continue
            size = 4 * self.plan.ranks
            self.mark(f"tries {kind}", -1)
            try:
                work = self._post(Operation(kind, size, "float32", 0, 0))
                if work is not None:
                    work.wait()
            except (RuntimeError, ValueError, NotImplementedError) as fault:
                self.lacking[kind] = (str(fault).strip().splitlines() or [type(fault).__name__])[0][:200]
            self._together()

    def _buffer(self, side: str, dtype: str, count: int) -> Any:
        """A buffer of ``count`` elements, written once; equal operations share theirs. Zeros stay zeros however often
        they are added up."""
        key = (side, dtype, count)
        if key not in self.buffers:
            kind = getattr(self.torch, dtype)
            self.buffers[key] = self.torch.empty(count, dtype=kind, device=self.device).fill_(0)
        return self.buffers[key]

    def _post(self, operation: Operation) -> Any:
        """Begin an operation; its handle."""
        distributed, kind = self.distributed, operation.kind
        if kind == BARRIER:
            return distributed.barrier(group=self.groups[operation.group], async_op=True)
        unit = getattr(self.torch, operation.dtype).itemsize
        count = operation.size_bytes // unit
        given = self._buffer("in", operation.dtype, count)
        if kind == SEND:
            return distributed.isend(given, operation.peer, tag=operation.tag)
        if kind == RECV:
            return distributed.irecv(self._buffer("out", operation.dtype, count), operation.peer, tag=operation.tag)
        return self._collective(operation, given, count, self.groups[operation.group])

    def _collective(self, operation: Operation, given: Any, count: int, group: Any) -> Any:
        distributed, kind, root = self.distributed, operation.kind, operation.peer
        members = len(self.plan.groups[operation.group].members)
        more = {"group": group, "async_op": True}
        if kind == "all_reduce":
            return distributed.all_reduce(given, **more)
        if kind in ("reduce", "broadcast"):
            return getattr(distributed, kind)(given, root, **more)
        if kind == "all_gather":
            return distributed.all_gather_into_tensor(self._out(operation, count * members), given, **more)
        if kind in ("reduce_scatter", "reduce_scatter_block"):
            return distributed.reduce_scatter_tensor(self._out(operation, count // members), given, **more)
        if kind == "all_to_all":
            return distributed.all_to_all_single(self._out(operation, count), given, **more)
        if kind == "gather":
            parts = list(self._out(operation, count * members).chunk(members)) if self.rank == root else None
            return distributed.gather(given, parts, root, **more)
        parts = list(given.chunk(members)) if self.rank == root else None
        return distributed.scatter(self._out(operation, count // members), parts, root, **more)

    def _out(self, operation: Operation, count: int) -> Any:
        return self._buffer("out", operation.dtype, count)

    def _compute(self, operation: Operation) -> None:
        for product in operation.products:
            shape = (product.batch, product.m, product.n, product.k)
            if shape not in self.factors:
                rand = self.torch.rand
                first = rand((product.batch, product.m, product.k), device=self.device)
                self.factors[shape] = (first, rand((product.batch, product.k, product.n), device=self.device))
            for _ in range(product.times):
                self.mark("computes", -1)
                self.torch.bmm(*self.factors[shape])
        for call in operation.calls:
            self.mark("computes", -1)
            self.operators.run(call)
        if operation.duration_ns:
            self.mark("computes", -1)
            self._synchronize()
            _spend(operation.duration_ns)


def _spend(duration_ns: int) -> None:
    """Let so much time pass, exactly."""
    end = time.perf_counter_ns() + duration_ns
    if duration_ns > _SPIN_NS:
        time.sleep((duration_ns - _SPIN_NS) / 1e9)
    while time.perf_counter_ns() < end:
        pass
