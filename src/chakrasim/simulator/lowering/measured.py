"""Replay of measured durations: what nodes took where the trace was recorded, instead of what a machine makes of them.

A node runs as soon as what it depends on has ended, whatever else runs: the order that the hardware's queues forced is
in the dependencies. ``recorded``: collectives and messages take their recorded time by themselves. ``transfer``: they
begin when the last of their ranks has come, and take the part of the recorded time that was not waiting. A rank that
ended its part before the last had come (a buffered send, the root of a broadcast) waited for nobody: it takes its
recorded time, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.simulator.context import Context
from chakrasim.simulator.kernels import layout as at
from chakrasim.trace import CollectiveType, NodeType, Trace

if TYPE_CHECKING:
    from chakrasim.simulator.lowering.graph import Graph

Ints = NDArray[np.int64]

LONGEST_NS = 1 << 62

_FROM_ROOT = (CollectiveType.BROADCAST, CollectiveType.SCATTER)
_TO_ROOT = (CollectiveType.REDUCE, CollectiveType.GATHER)


@dataclass(frozen=True, eq=False)
class Measured:
    """By node, in file order: int64 ns of its own work, of the delay before it, and of its transfer (-1: none), and the
    number of the meeting that it takes part in (-1: none)."""

    duration_ns: Ints
    delay_ns: Ints
    transfer_ns: Ints
    meeting: Ints


def measured(trace: Trace, *, common_start: bool) -> Measured:
    """The measured times of a trace, in whole microseconds where the attributes to the nanosecond are missing.

    ``common_start`` leaves out what a rank started later than the earliest. Raises InputError with the node at fault.
    """
    micros = trace.duration_micros
    if len(micros) and int(micros.max()) >= LONGEST_NS // 1000:
        _refuse(trace, int(np.argmax(micros)), "the duration is beyond the clock's range")
    duration = _times(trace, "duration_ns", micros.astype(np.int64) * 1000)
    delay = _times(trace, "delay_ns", np.zeros(len(trace), np.int64))
    if common_start:
        duration[trace.attr("is_start_offset").integers() != 0] = 0
    communicates = trace.types >= int(NodeType.COMM_SEND_NODE)
    transfer = trace.attr("transfer_ns").integers(-1)
    meeting = np.where(communicates & (transfer >= 0), trace.attr("meeting").integers(-1), -1)
    return Measured(duration, delay, transfer, meeting)


def _times(trace: Trace, name: str, default: Ints) -> Ints:
    column = trace.attr(name)
    times = np.where(column.present, column.integers(), default)
    wrong = np.flatnonzero((times < 0) | (times >= LONGEST_NS))
    if len(wrong):
        _refuse(trace, int(wrong[0]), f"attribute {name!r} is no time", int(times[wrong[0]]))
    return times


def _refuse(trace: Trace, node: int, message: str, found: int | None = None) -> None:
    raise InputError(message, file=trace.source, place=trace.place(node), found=found, expected="0 to 2^62 - 1 ns")


def hold_meetings(
    graphs: Sequence[Graph], graph_of: Ints, context: Context
) -> tuple[list[Graph], Ints, tuple[int, ...]]:
    """Give every rank a graph of its own in which meetings are numbered from 0; last comes, for each meeting, how many
    ranks its others wait for. Raises InputError where communication has no transfer time at all.
    """
    own = [graphs[g] for g in graph_of.tolist()]
    _check_transfers(own, context)
    nodes = [np.flatnonzero(graph.kind == at.RUN_MEETING) for graph in own]
    rank = np.repeat(np.arange(len(own)), [len(numbers) for numbers in nodes])
    given = np.concatenate([graph.a[numbers] for graph, numbers in zip(own, nodes, strict=True)])
    distinct, meeting = np.unique(given, return_inverse=True)
    kind, root, ranks = (
        np.concatenate([_attribute(graph, numbers, name) for graph, numbers in zip(own, nodes, strict=True)])
        for name in ("comm_type", "root_rank", "meeting_ranks")
    )
    transfer = np.concatenate([graph.b[numbers] for graph, numbers in zip(own, nodes, strict=True)])
    role = _roles(rank, meeting, kind, root)
    role[transfer == 0] &= ~at.WAITS
    size = np.zeros(len(distinct), np.int64)
    np.maximum.at(size, meeting, ranks)
    counting = np.bincount(meeting[role & at.COUNTS > 0], minlength=len(distinct))
    following = np.bincount(meeting[role == at.WAITS], minlength=len(distinct)) > 0
    # A rank that never comes is waited for all the same.
    meetings = tuple(np.where(following, counting, np.maximum(counting, size)).tolist())
    made = []
    for r, (graph, numbers) in enumerate(zip(own, nodes, strict=True)):
        a, b, d = graph.a.copy(), graph.b.copy(), graph.d.copy()
        a[numbers], d[numbers] = meeting[rank == r], role[rank == r]
        hasty = numbers[d[numbers] & at.WAITS == 0]
        b[hasty] = measured(graph.trace, common_start=False).duration_ns[graph.order[hasty]]
        made.append(replace(graph, a=a, b=b, d=d, shared=None))
    return made, np.arange(len(own)), meetings


def _attribute(graph: Graph, numbers: Ints, name: str) -> Ints:
    return graph.trace.attr(name).integers(-1)[graph.order[numbers]]


def _roles(rank: Ints, meeting: Ints, kind: Ints, root: Ints) -> Ints:
    """Who waits for whom: all for the root, the root for all, or (also where the root is not there) all for all."""
    role = np.full(len(rank), at.COUNTS | at.WAITS, np.int64)
    is_root = rank == root
    has_root = np.isin(meeting, meeting[is_root])
    from_root = np.isin(kind, [int(one) for one in _FROM_ROOT]) & has_root
    role[from_root] = np.where(is_root[from_root], at.COUNTS, at.WAITS)
    role[np.isin(kind, [int(one) for one in _TO_ROOT]) & has_root & ~is_root] = at.COUNTS
    return role


def _check_transfers(graphs: Sequence[Graph], context: Context) -> None:
    """Count communication without a transfer time; none at all is an error."""
    with_transfer = without = 0
    example = None
    for graph in graphs:
        communicates = graph.trace.types[graph.order] >= int(NodeType.COMM_SEND_NODE)
        lacking = np.flatnonzero(communicates & (graph.kind != at.RUN_MEETING))
        with_transfer += int((graph.kind == at.RUN_MEETING).sum())
        without += len(lacking)
        if len(lacking) and example is None:
            example = (graph, int(lacking[0]))
    if example is not None and not with_transfer:
        graph, number = example
        raise InputError(
            "no collective or message has a transfer time",
            file=graph.trace.source,
            place=graph.place(number),
            expected="attributes transfer_ns and meeting, which comparing all ranks gives",
            remedy="convert all ranks together, from traces that record process groups (see chakrasim doctor DIR), or "
            "replay recorded durations",
        )
    context.counts["collectives and messages without a transfer time (their recorded duration is used)"] += without
