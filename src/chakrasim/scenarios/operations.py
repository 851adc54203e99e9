"""Operations of recorded training steps: the rows of any source, and the same in the order of a replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError

Ints = NDArray[np.int64]
Floats = NDArray[Any]

KINDS: Final = (
    "forward-compute",
    "backward-compute",
    "forward-send",
    "forward-recv",
    "backward-send",
    "backward-recv",
    "params-all-gather",
    "grads-reduce-scatter",
    "separate-grads-all-reduce",
    "layernorm-grads-all-reduce",
    "embedding-grads-all-reduce",
    "gc",
    "optimizer-clip-main-grad",
    "optimizer",
)
"""The kinds of operation, by the names of the open straggler traces (ByteDance, OSDI 2025)."""

COMPUTATION: Final = ("forward-compute", "backward-compute", "gc", "optimizer")
COMMUNICATION: Final = tuple(kind for kind in KINDS if kind not in COMPUTATION)


@dataclass(frozen=True, eq=False)
class Operations:
    """Operations of some training steps, a row each, in any order.

    Every step and every replica (dp rank) has the same operations. An operation is told from the others of its step and
    worker, which is a stage of a replica, by its ``kind``, an index into `KINDS`, and its ``sequence``, 0 for the first
    of its kind. ``chunk`` is the piece of the model that it works on, of those that the worker has, -1 for none.

    Attributes
    ----------
    dp_rank, stage, rank, step, kind, sequence, chunk:
        int[rows].
    start_s, duration_s:
        float[rows], seconds from any origin that a step's operations share; float32 or float64. Communication lasts
        from when a member of it is ready until it has ended.
    data_parallel:
        Whether parameters and gradients are shared between replicas, or between the ranks of one.
    file:
        Where they come from, for messages.
    """

    dp_rank: Ints
    stage: Ints
    rank: Ints
    step: Ints
    kind: Ints
    sequence: Ints
    chunk: Ints
    start_s: Floats
    duration_s: Floats
    data_parallel: bool = True
    file: str = "operations"

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True, eq=False)
class Steps:
    """The same, arranged: ``a`` operations of each of ``d`` replicas in ``t`` steps.

    Attributes
    ----------
    step, rank:
        int64[t], ids of the steps in their order; int64[d, stages], the rank of each worker.
    stage, kind, sequence, chunk:
        int64[a]: what the operations of a replica are.
    start_s, end_s:
        float[t, d, a]: seconds, in the precision of the source.
    """

    step: Ints
    rank: Ints
    stage: Ints
    kind: Ints
    sequence: Ints
    chunk: Ints
    start_s: Floats
    duration_s: Floats
    end_s: Floats
    data_parallel: bool
    file: str

    def measured_s(self) -> NDArray[np.float64]:
        """float64[t]: from the first start of a step to its last end."""
        span: NDArray[np.float64] = (self.end_s.max(axis=(1, 2)) - self.start_s.min(axis=(1, 2))).astype(np.float64)
        return span


def arranged(rows: Operations) -> Steps:
    """Check the rows and put them in order. Raises `InputError` for what is no set of equal steps and replicas."""
    if not len(rows):
        _fail(rows, "there is no operation", expected="a row for each operation")
    _check_values(rows)
    step, step_of = np.unique(rows.step, return_inverse=True)
    replicas, stages = _count(rows, "dp_rank"), _count(rows, "stage")
    # One number says which operation a row is: rows of equal numbers are the same, and sorting arranges them.
    longest = int(rows.sequence.max()) + 1
    own = (rows.stage * len(KINDS) + rows.kind) * longest + rows.sequence
    if len(step) * replicas * stages * len(KINDS) * longest >= 1 << 62:
        _fail(rows, "too many operations to tell apart", place="seq_id", found=f"{longest - 1}")
    key = (step_of * replicas + rows.dp_rank) * (stages * len(KINDS) * longest) + own
    order = np.argsort(key, kind="stable")
    key = key[order]
    twice = np.flatnonzero(key[1:] == key[:-1])
    if len(twice):
        row, other = int(order[twice[0] + 1]), int(order[twice[0]])
        _fail(
            rows, "an operation stands there twice", place=f"row {row}",
            found=f"{_named(rows, row)}, as in row {other}", expected="each seq_id once for a kind, worker and step",
        )  # fmt: skip
    own = own[order]
    _check_equal(rows, step_of[order], rows.dp_rank[order], own, len(step), replicas)
    shape = len(step), replicas, len(rows) // (len(step) * replicas)
    first = order[: shape[2]]
    start, duration = rows.start_s[order].reshape(shape), rows.duration_s[order].reshape(shape)
    kinds = rows.stage[first], rows.kind[first], rows.sequence[first], rows.chunk[first]
    if (rows.chunk[order].reshape(shape) != kinds[3]).any():
        bad = int(order[np.flatnonzero((rows.chunk[order].reshape(shape) != kinds[3]).ravel())[0]])
        _fail(rows, "an operation belongs to another chunk than in the first step and replica", place=f"row {bad}",
              found=f"{_named(rows, bad)} of chunk {rows.chunk[bad]}")  # fmt: skip
    ranks = _workers(rows, replicas, stages)
    return Steps(step, ranks, *kinds, start, duration, start + duration, rows.data_parallel, rows.file)


def _check_values(rows: Operations) -> None:
    for name, values, least in (
        ("dp_rank", rows.dp_rank, 0), ("stage", rows.stage, 0), ("rank", rows.rank, 0), ("seq_id", rows.sequence, 0),
        ("mc", rows.chunk, -1),
    ):  # fmt: skip
        low, high = int(values.min()), int(values.max())
        if low < least or high >= 1 << 31:
            row = int(np.argmin(values) if low < least else np.argmax(values))
            _fail(rows, "no such number", place=f"row {row}: {name}", found=f"{values[row]}",
                  expected=f"{least} or more")  # fmt: skip
    for name, times in (("start_ts", rows.start_s), ("duration", rows.duration_s)):
        good = np.isfinite(times) & (times >= 0) if name == "duration" else np.isfinite(times)
        if not good.all():
            row = int(np.argmin(good))
            _fail(rows, "no such time", place=f"row {row}: {name}", found=f"{times[row]}",
                  expected="seconds, finite" + (", 0 or more" if name == "duration" else ""))  # fmt: skip


def _count(rows: Operations, name: str) -> int:
    """How many dp ranks or stages there are. Raises InputError if a number is left out."""
    values = np.unique(getattr(rows, name))
    if len(values) <= int(values[-1]):
        missing = int(np.flatnonzero(values != np.arange(len(values)))[0])
        _fail(rows, f"no row has {name} {missing}", found=f"{name} up to {values[-1]}",
              expected="all numbers from 0 on")  # fmt: skip
    return len(values)


def _check_equal(rows: Operations, step: Ints, replica: Ints, own: Ints, steps: int, replicas: int) -> None:
    """Raise InputError unless each step and replica, side by side, has the operations of the first."""
    group, counts = np.unique(step * replicas + replica, return_counts=True)
    ids = np.unique(rows.step)
    if len(group) < steps * replicas:
        missing = int(np.argmax(np.append(group, -1) != np.arange(len(group) + 1)))
        _fail(
            rows, "a step lacks a replica", place=f"step {ids[missing // replicas]}, dp_rank {missing % replicas}",
            found="no operation", remedy="leave out steps that were recorded in part",
        )  # fmt: skip
    like = own[: counts[0]]
    if (counts == counts[0]).all() and (own.reshape(-1, counts[0]) == like).all():
        return
    begin = np.concatenate(([0], np.cumsum(counts)))
    for which in range(steps * replicas):
        mine = own[begin[which] : begin[which + 1]]
        if not np.array_equal(mine, like):
            odd = [*np.setdiff1d(mine, like)[:1], *np.setdiff1d(like, mine)[:1]]
            longest = int(rows.sequence.max()) + 1
            kind, stage = int(odd[0] // longest % len(KINDS)), int(odd[0] // longest // len(KINDS))
            has = "has" if odd[0] in mine else "lacks"
            _fail(
                rows, "steps or replicas differ in their operations",
                place=f"step {ids[which // replicas]}, dp_rank {which % replicas}",
                found=f"{len(mine)} operations; it {has} {KINDS[kind]} {odd[0] % longest} of stage {stage}",
                expected=f"those {len(like)} of step {ids[0]}, dp_rank 0",
                remedy="leave out steps that were recorded in part",
            )  # fmt: skip


def _workers(rows: Operations, replicas: int, stages: int) -> Ints:
    ranks = np.full((replicas, stages), -1, np.int64)
    ranks[rows.dp_rank, rows.stage] = rows.rank
    other = np.flatnonzero(ranks[rows.dp_rank, rows.stage] != rows.rank)
    if len(other):
        row = int(other[0])
        _fail(rows, "a worker has two ranks", place=f"row {row}", found=f"{_named(rows, row)} of rank {rows.rank[row]}",
              expected=f"rank {ranks[rows.dp_rank[row], rows.stage[row]]}, as in other rows")  # fmt: skip
    if len(np.unique(ranks)) < ranks.size:
        _fail(rows, "two workers have the same rank", place="rank", expected="a rank for each dp_rank and stage")
    return ranks


def _named(rows: Operations, row: int) -> str:
    return (
        f"{KINDS[rows.kind[row]]} {rows.sequence[row]} of step {rows.step[row]}, dp_rank {rows.dp_rank[row]}, "
        f"stage {rows.stage[row]}"
    )


def _fail(rows: Operations, message: str, **parts: str) -> NoReturn:
    raise InputError(message, file=rows.file, **parts)
