"""Fewer nodes for the same step: kernels that run one after another, with nothing waiting in between, as one node.

A device profile gives their times beforehand, so that the step takes exactly as long as with a node for each kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.generator.layers.run import Run, run_of
from chakrasim.generator.layers.tape import (
    DURATION,
    MICRO_BATCH,
    OPTIMIZER,
    TOO_LARGE,
    Row,
    Tape,
    last_on,
    too_large,
)
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

PARTS: Final = ("matrices", "experts", "attention", "state_space", "other_compute", "host", "optimizer")
"""What a node's time is made of, as attributes ``NAME_ns``: products with weights; those of experts; products of
attention scores and softmax; those of scans of state spaces; the rest, which memory bounds; waits for the host, which
counts the tokens of experts; the optimizer."""


@dataclass(frozen=True)
class Alone:
    """A collective with which nothing else shares links.

    Attributes
    ----------
    duration_ns: how long it takes.
    held: the share of the device's processors that it holds meanwhile.
    """

    duration_ns: int
    held: float = 0.0


AloneOf = Callable[[Row], Alone | None]
"""What the collective of a row takes alone; None where it may meet others on its links."""


def condense(tape: Tape, durations_ns: Callable[[Work], Ints], alone: AloneOf = lambda row: None) -> Tape:
    """The same pass with runs of kernels, and of collectives whose time is known, as one node each.

    Parameters
    ----------
    durations_ns: the times of work, such as a device profile's.
    alone: the times of collectives that go into the nodes, each on the stream of its role beside the kernels, which are
        slower by what it holds. What is under way when a run ends is waited for.
    """
    inner: dict[int, Alone] = {
        number: Alone(int(time)) for number, time in zip(*durations_of(tape, durations_ns), strict=True)
    }
    for number, row in enumerate(tape.rows):
        if row.type == NodeType.COMM_COLL_NODE:
            found = alone(row)
            if found is not None:
                inner[number] = found
    return _rewritten(tape, _targets(tape, inner), inner)


def runs_of(tape: Tape, inner: Collection[int]) -> list[list[int]]:
    """The rows of each node that ``inner`` rows become, in order."""
    target = _targets(tape, inner)
    runs: dict[int, list[int]] = {}
    for number in sorted(inner):
        runs.setdefault(target[number], []).append(number)
    return [runs[at] for at in sorted(runs)]


def timed(tape: Tape, durations_ns: Callable[[Work], Ints]) -> Tape:
    """The same pass, whose compute nodes say how long they take by ``durations_ns``."""
    other = copy(tape)
    other.rows = list(tape.rows)
    for i, time_ns in zip(*durations_of(tape, durations_ns), strict=True):
        other.rows[i] = replace(tape.rows[i], values={**tape.rows[i].values, DURATION: int(time_ns)})
    return other


def durations_of(tape: Tape, durations_ns: Callable[[Work], Ints]) -> tuple[list[int], Ints]:
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


def _targets(tape: Tape, inner: Collection[int]) -> list[int]:
    """By row, the row at which its node ends up: its own, or for ``inner`` rows the last of their run."""
    rows = tape.rows
    waited_for = {dep for number, row in enumerate(rows) if number not in inner for dep in row.data + row.control}
    waited_for |= {tape.gate}
    ordered = {last_on(int(rows[number].values[STREAM])) for number in inner if _communicates(rows[number])}
    runs: list[list[int]] = []
    for number in sorted(inner):
        deps = [dep for dep in rows[number].data + rows[number].control if dep not in ordered]
        before = runs[-1][-1] if runs and all(dep in inner for dep in deps) else None
        same = before is not None and rows[before].values[PHASE] == rows[number].values[PHASE]
        if not same or before in waited_for:
            runs.append([])
        runs[-1].append(number)
    target = list(range(len(rows)))
    for run in runs:
        for member in run:
            target[member] = run[-1]
    return target


def _communicates(row: Row) -> bool:
    return row.type == NodeType.COMM_COLL_NODE


def _rewritten(tape: Tape, target: Sequence[int], inner: Mapping[int, Alone]) -> Tape:
    """The pass with each row's node at its target."""
    rows = tape.rows
    members: dict[int, list[int]] = {at: [] for at in sorted(set(target))}
    for number, at in enumerate(target):
        members[at].append(number)
    position = {old: new for new, old in enumerate(members)}
    ordered = {last_on(int(rows[number].values[STREAM])) for number in inner if _communicates(rows[number])}

    def moved(nodes: Iterable[int], own: int = -1) -> tuple[int, ...]:
        places = (node if node < 0 else position[target[node]] for node in nodes if node not in ordered)
        return tuple(dict.fromkeys(place for place in places if place < 0 or place != own))

    new = Tape()
    new.tally = tape.tally
    for at, numbers in members.items():
        several = [rows[number] for number in numbers]
        row = _merged(several, _run(rows, numbers, inner)) if at in inner else rows[at]
        data = moved((dep for one in several for dep in one.data), position[at])
        control = moved((dep for one in several for dep in one.control), position[at])
        new.rows.append(replace(row, data=data, control=control))
    new.compute_tail, new.gate, new.sent = (moved([node])[0] for node in (tape.compute_tail, tape.gate, tape.sent))
    new.tails = {stream: moved([tail])[0] for stream, tail in tape.tails.items()}
    return new


def _run(rows: Sequence[Row], numbers: Sequence[int], inner: Mapping[int, Alone]) -> Run:
    took = np.array([[inner[number].duration_ns for number in numbers]], np.float64)
    return run_of(rows, numbers, took, np.array([[inner[number].held for number in numbers]]))


def _merged(rows: Sequence[Row], run: Run) -> Row:
    first = next((row for row in rows if row.type == NodeType.COMP_NODE), rows[0])
    kernels = sum(int(row.values.get(KERNELS, 1)) for row in rows)
    values: dict[str, int | bool | str] = {"is_cpu_op": False, DURATION: round(run.duration_ns[0]), KERNELS: kernels}
    parts = dict.fromkeys(PARTS, 0.0)
    computes = (row for row in rows if row.type == NodeType.COMP_NODE)
    for row, time in zip(computes, run.kernels_ns[0].tolist(), strict=True):
        parts[_part(row)] += time
    parts |= {f"exposed_{role}": float(time[0]) for role, time in run.exposed_ns.items()}
    values |= {f"{name}_ns": round(time) for name, time in parts.items() if time}
    values |= {STREAM: 0, STREAM_RULE: "compute in program order", PHASE: first.values[PHASE], MICRO_BATCH: 0}
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    return Row(first.name + more, NodeType.COMP_NODE, values, {MICRO_BATCH: 1}, (), ())


def _part(row: Row) -> str:
    kind = _kind(row)
    if kind == WorkKind.OPTIMIZER or row.values[PHASE] == OPTIMIZER:
        return "optimizer"
    if kind == WorkKind.OTHER:
        return "host"
    if kind == WorkKind.GEMM and ": experts " in row.name:
        return "experts"
    batched = kind == WorkKind.GEMM and int(row.values["batch"]) > 1
    if batched and any(word in row.name for word in ("chunk", "states", "scan", "products gradient")):
        return "state_space"
    if batched or kind in (WorkKind.ATTENTION, WorkKind.SOFTMAX):
        return "attention"
    return "matrices" if kind == WorkKind.GEMM else "other_compute"
