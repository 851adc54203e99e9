"""Fewer nodes for the same step: kernels that run one after another, with nothing waiting in between, as one node.

A device profile gives their times beforehand, so that the step takes exactly as long as with a node for each kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.generator.layers.tape import DURATION, MICRO_BATCH, OPTIMIZER, TOO_LARGE, Row, Tape, too_large
from chakrasim.trace.kinds import NodeType
from chakrasim.trace.work import (
    BYTES_READ,
    BYTES_WRITTEN,
    CAUSAL,
    DTYPE,
    FLOPS,
    KERNELS,
    KIND,
    PHASE,
    SHAPE,
    STREAM,
    STREAM_RULE,
    Work,
    WorkKind,
)

Ints = NDArray[np.int64]

PARTS: Final = ("matrices", "attention", "other_compute", "optimizer")
"""What a node's time is made of, as attributes ``NAME_ns``: products with weights; products of attention scores and
softmax; the rest, which memory bounds; the optimizer."""


@dataclass(frozen=True)
class Contention:
    """Collectives take processors from kernels that run at the same time.

    Attributes
    ----------
    taken: the share of the device's processors that a collective holds.
    duration_ns: how long the collective of a row takes.
    """

    taken: float
    duration_ns: Callable[[Row], int]

    def longer_ns(self, row: Row, kernels_ns: int) -> int:
        """How much longer kernels take that begin with the collective of ``row`` and take ``kernels_ns`` alone."""
        during = self.duration_ns(row) * self.taken
        alone = kernels_ns * self.taken / (1.0 - self.taken)
        return round(min(during, alone))


def condense(tape: Tape, durations_ns: Callable[[Work], Ints], contention: Contention | None = None) -> Tape:
    """The same pass with runs of kernels as one node each.

    Parameters
    ----------
    durations_ns: the times of work, such as a device profile's.
    contention: what collectives cost the kernels beside them; None: nothing.
    """
    computes, durations = _durations(tape, durations_ns)
    times = np.zeros(len(tape.rows), np.int64)
    times[computes] = durations
    if contention is not None:
        _slow_down(tape.rows, times, contention)
    target = _targets(tape, computes)
    return _rewritten(tape, target, times)


def timed(tape: Tape, durations_ns: Callable[[Work], Ints]) -> Tape:
    """The same pass, whose compute nodes say how long they take by ``durations_ns``."""
    other = copy(tape)
    other.rows = list(tape.rows)
    for i, time_ns in zip(*_durations(tape, durations_ns), strict=True):
        other.rows[i] = replace(tape.rows[i], values={**tape.rows[i].values, DURATION: int(time_ns)})
    return other


def _durations(tape: Tape, durations_ns: Callable[[Work], Ints]) -> tuple[list[int], Ints]:
    """The compute rows, and the time of each."""
    computes = [i for i, row in enumerate(tape.rows) if row.type == NodeType.COMP_NODE]
    return computes, durations_ns(_work([tape.rows[i] for i in computes]))


def _work(rows: Sequence[Row]) -> Work:
    """What compute rows do. Raises InputError for more than a trace can state."""

    def whole(name: str) -> Ints:
        values = [int(row.values.get(name, 0)) for row in rows]
        if max(values, default=0) >= TOO_LARGE:
            raise too_large(max(values))
        return np.array(values, np.int64)

    batch, m, n, k = (whole(name) for name in SHAPE)
    return Work(
        kind=np.array([_kind(row) for row in rows], np.int64),
        flops=whole(FLOPS),
        bytes_read=whole(BYTES_READ),
        bytes_written=whole(BYTES_WRITTEN),
        batch=batch,
        m=m,
        n=n,
        k=k,
        causal=np.array([bool(row.values.get(CAUSAL, False)) for row in rows], np.bool_),
        dtype=np.array([str(row.values.get(DTYPE, "")) for row in rows] or [""], np.str_)[: len(rows)],
        kernels=np.maximum(whole(KERNELS), 1),
    )


def _kind(row: Row) -> WorkKind:
    return WorkKind[str(row.values[KIND]).upper()]


def _slow_down(rows: Sequence[Row], times: Ints, contention: Contention) -> None:
    """Add to kernels what a collective costs them: those between it and the first that waits for it."""
    alone = times.copy()
    for number, row in enumerate(rows):
        if row.type == NodeType.COMM_COLL_NODE:
            beside = list(_beside(rows, number))
            if beside:
                times[beside[0]] += contention.longer_ns(row, int(alone[beside].sum()))


def _beside(rows: Sequence[Row], collective: int) -> Iterator[int]:
    """Compute rows behind a collective, up to the first that waits for it."""
    for number in range(collective + 1, len(rows)):
        if rows[number].type == NodeType.COMP_NODE:
            if collective in rows[number].data or collective in rows[number].control:
                return
            yield number


def _targets(tape: Tape, computes: Sequence[int]) -> list[int]:
    """By row, the row at which its node ends up: its own, or for compute rows the last of their run."""
    rows = tape.rows
    waited_for = {dep for row in rows if row.type != NodeType.COMP_NODE for dep in row.data + row.control}
    waited_for |= {tape.gate}
    target = list(range(len(rows)))
    run: list[int] = []
    for number in computes:
        deps = rows[number].data + rows[number].control
        inside = all(dep >= 0 and rows[dep].type == NodeType.COMP_NODE for dep in deps)
        same = run and rows[run[-1]].values[PHASE] == rows[number].values[PHASE]
        if not (run and inside and same and run[-1] not in waited_for):
            run = []
        run.append(number)
        for member in run:
            target[member] = number
    return target


def _rewritten(tape: Tape, target: Sequence[int], times: Ints) -> Tape:
    """The pass with each row's node at its target."""
    rows = tape.rows
    members: dict[int, list[int]] = {at: [] for at in sorted(set(target))}
    for number, at in enumerate(target):
        members[at].append(number)
    position = {old: new for new, old in enumerate(members)}

    def moved(nodes: Iterable[int], own: int = -1) -> tuple[int, ...]:
        places = (node if node < 0 else position[target[node]] for node in nodes)
        return tuple(dict.fromkeys(place for place in places if place < 0 or place != own))

    new = Tape()
    new.tally = tape.tally
    for at, numbers in members.items():
        several = [rows[number] for number in numbers]
        row = _merged(several, times[numbers]) if rows[at].type == NodeType.COMP_NODE else rows[at]
        data = moved((dep for one in several for dep in one.data), position[at])
        control = moved((dep for one in several for dep in one.control), position[at])
        new.rows.append(replace(row, data=data, control=control))
    new.compute_tail, new.gate, new.sent = (moved([node])[0] for node in (tape.compute_tail, tape.gate, tape.sent))
    new.tails = {stream: moved([tail])[0] for stream, tail in tape.tails.items()}
    return new


def _merged(rows: Sequence[Row], times: Ints) -> Row:
    first = rows[0]
    kernels = sum(int(row.values.get(KERNELS, 1)) for row in rows)
    values: dict[str, int | bool | str] = {"is_cpu_op": False, DURATION: int(times.sum()), KERNELS: kernels}
    parts = dict.fromkeys(PARTS, 0)
    for row, time in zip(rows, times.tolist(), strict=True):
        parts[_part(row)] += time
    values |= {f"{name}_ns": time for name, time in parts.items() if time}
    values |= {name: first.values[name] for name in (STREAM, STREAM_RULE, PHASE, MICRO_BATCH)}
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    return Row(first.name + more, first.type, values, {MICRO_BATCH: 1}, (), ())


def _part(row: Row) -> str:
    kind = _kind(row)
    if kind == WorkKind.OPTIMIZER or row.values[PHASE] == OPTIMIZER:
        return "optimizer"
    if kind in (WorkKind.ATTENTION, WorkKind.SOFTMAX) or (kind == WorkKind.GEMM and int(row.values["batch"]) > 1):
        return "attention"
    return "matrices" if kind == WorkKind.GEMM else "other_compute"
