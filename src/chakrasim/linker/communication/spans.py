"""The host events of a device trace that speak of communication, by thread and nesting."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.spelling import DEVICE_BACKENDS
from chakrasim.trace.host.group_marks import marked_ddp_group, marked_group
from chakrasim.trace.kineto.columns import Ints, KinetoTrace

_WORK = ("cpu_op", "user_annotation")


class SpanKind(IntEnum):
    """What an event says of a collective, from the outside in."""

    FUNCTIONAL = 0
    """``_c10d_functional::all_reduce``: takes its group by name."""
    OPERATOR = 1
    """``c10d::allreduce_``: hands a collective to the back end."""
    RECORD = 2
    """``record_param_comms``: PyTorch's own description."""
    ANNOTATION = 3
    """``nccl:all_reduce``: the back end at work."""
    GROUP = 4
    """What `chakrasim.collect.observe` writes around the call of a collective: it names the process group."""
    NOTHING = 255


def span_kind(name: str) -> SpanKind:
    """What an event of this name says of communication."""
    if name == "record_param_comms":
        return SpanKind.RECORD
    if name.startswith("c10d::"):
        return SpanKind.OPERATOR
    if name.startswith(("_c10d_functional", "c10d_functional")):
        return SpanKind.FUNCTIONAL
    if marked_group(name) or marked_ddp_group(name):
        return SpanKind.GROUP
    head, colon, tail = name.partition(":")
    if colon and head in DEVICE_BACKENDS and not tail.startswith(":"):
        return SpanKind.ANNOTATION
    return SpanKind.NOTHING


@dataclass(frozen=True, eq=False)
class CommunicationSpans:
    """``k`` events by thread, then start, then the longer first.

    ``event`` int32[k], rows of the trace; ``kind`` uint8[k], `SpanKind`; ``name`` the names; ``thread`` int32[k];
    ``start_ns``, ``end_ns`` int64[k]; ``around`` int32[k], position of the innermost event of these around it, -1:
    none. ``threads``: the number of each (pid, tid). ``first`` int32[threads + 1]: where each thread begins.
    """

    event: NDArray[np.int32]
    kind: NDArray[np.uint8]
    name: list[str]
    thread: NDArray[np.int32]
    start_ns: Ints
    end_ns: Ints
    around: NDArray[np.int32]
    threads: dict[tuple[int, int], int]
    first: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.event)

    def innermost(self, thread: int, time_ns: int) -> int:
        """The position of the innermost event around a moment of a thread (-1 for a thread without any); -1: none."""
        if thread < 0:
            return -1
        low, high = int(self.first[thread]), int(self.first[thread + 1])
        at = low + int(np.searchsorted(self.start_ns[low:high], time_ns, side="right")) - 1
        if at < low:
            return -1
        while at >= 0 and self.end_ns[at] < time_ns:
            at = int(self.around[at])
        return at

    def chain(self, at: int) -> list[int]:
        """``at`` and what is around it, from the inside out."""
        found = []
        while at >= 0:
            found.append(at)
            at = int(self.around[at])
        return found

    def inside(self, at: int) -> range:
        """The positions of the events inside ``at``."""
        last = int(self.first[self.thread[at] + 1])
        end = at + 1 + int(np.searchsorted(self.start_ns[at + 1 : last], self.end_ns[at], side="right"))
        return range(at + 1, end)


def communication_spans(kineto: KinetoTrace) -> CommunicationSpans:
    """Find them."""
    rows = np.flatnonzero(kineto.where(kineto.category, *_WORK))
    kind = kineto.strings.each(kineto.name[rows], span_kind, np.uint8)
    rows, kind = rows[kind != SpanKind.NOTHING], kind[kind != SpanKind.NOTHING]
    pids, tids = kineto.pid[rows], kineto.tid[rows]
    pairs = sorted(set(zip(pids.tolist(), tids.tolist(), strict=True)))
    threads = {pair: index for index, pair in enumerate(pairs)}
    thread = np.array([threads[pair] for pair in zip(pids.tolist(), tids.tolist(), strict=True)], np.int32)
    duration = np.maximum(kineto.dur_ns[rows], 0)
    order = np.lexsort((-duration, kineto.ts_ns[rows], thread))
    rows, thread = rows[order], thread[order]
    start = kineto.ts_ns[rows]
    end = start + duration[order]
    return CommunicationSpans(
        rows.astype(np.int32),
        kind[order],
        [kineto.strings[index] for index in kineto.name[rows].tolist()],
        thread,
        start,
        end,
        _around(thread, start, end),
        threads,
        np.searchsorted(thread, np.arange(len(threads) + 1)).astype(np.int32),
    )


def _around(thread: NDArray[np.int32], start: Ints, end: Ints) -> NDArray[np.int32]:
    """The innermost earlier event of the same thread that lasts beyond the start of each."""
    around = np.full(len(thread), -1, np.int32)
    open_events: list[int] = []
    threads, starts, ends = thread.tolist(), start.tolist(), end.tolist()
    for at in range(len(threads)):
        while open_events and (threads[open_events[-1]] != threads[at] or ends[open_events[-1]] <= starts[at]):
            open_events.pop()
        around[at] = open_events[-1] if open_events else -1
        open_events.append(at)
    return around
