"""A linked trace: what one rank did, host and device together, with every dependency and its evidence.

Rows are pieces of work that can be run again. An operator whose own time is interrupted by other operators has one row
for each uninterrupted piece: part 0 stands for the operator, the others follow it. Time of a host thread that no event
explains is a row of its own (GAP). So the rows of a thread, in order, fill its time without holes or overlaps, and if
every row starts when all that it depends on have ended, ``delay_ns`` later, the recorded times come out again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.text.amounts import time_text
from chakrasim.text.shown import Shown
from chakrasim.trace.chakra.graph import Ints, StringTable
from chakrasim.trace.kinds import COALESCED as COALESCED
from chakrasim.trace.kinds import OPERATION_NAMES as OPERATION_NAMES
from chakrasim.trace.kinds import RECV as RECV
from chakrasim.trace.kinds import SEND as SEND
from chakrasim.trace.kinds import UNKNOWN as UNKNOWN


class RowKind(IntEnum):
    """What a row of a linked trace is."""

    OPERATOR = 0
    """A host operator, or a later piece of one (``part`` > 0)."""
    RUNTIME = 1
    """A call of the device's runtime or driver: launch, copy, synchronisation."""
    GAP = 2
    """Host time that no event explains."""
    KERNEL = 3
    MEMCPY = 4
    MEMSET = 5
    HOST_COLLECTIVE = 6
    """A collective or point-to-point message that the host carries out (gloo, MPI)."""


DEVICE_KINDS = (RowKind.KERNEL, RowKind.MEMCPY, RowKind.MEMSET)


class EdgeKind(IntEnum):
    """Why one row waits for another. All but CONTROL delay the target until the source has ended."""

    CONTROL = 0
    """Caller to callee (part 0 to part 0); orders, but the callee runs inside its caller."""
    THREAD = 1
    """The next row of the same host thread."""
    DATA = 2
    """The target takes a tensor (or storage) that the source gave."""
    INTER_THREAD = 3
    """Work handed from one host thread to another, or its end that the other waits for."""
    LAUNCH = 4
    """Runtime call to the work that it launched."""
    STREAM = 5
    """The next work of the same stream of the same device."""
    EVENT_WAIT = 6
    """A stream waits for an event that another stream recorded."""
    SYNC_EVENT = 7
    """Device to host: a call waited for an event."""
    SYNC_STREAM = 8
    """Device to host: a call waited for a stream."""
    SYNC_CONTEXT = 9
    """Device to host: a call waited for the whole device."""
    SYNC_COPY = 10
    """Device to host: a blocking copy."""
    COMMUNICATION = 11
    """Host: a call waits for a collective of the host, or hands it over."""


class Evidence(IntEnum):
    """What proves an edge."""

    NESTING = 0
    """One event lies inside, or directly after, another on the same thread or stream."""
    HOST_TRACE = 1
    """The host trace says so (parent, tensor, storage)."""
    CORRELATION = 2
    """Both events carry the same correlation id, or record-function ids that prove which belongs to which."""
    SYNC_RECORD = 3
    """A synchronisation record of the profiler (category cuda_sync)."""
    FLOW = 4
    """A flow arrow of the profiler, or equal sequence numbers (forward and backward)."""
    INFERRED = 5
    """Times only: a call that blocks by its name returned just after the work had ended, or a thread that was idle
    went on just after another had finished."""


#: ``LinkedTrace.edge_flags``.
ON_CRITICAL_PATH = 1


@dataclass(frozen=True)
class ProcessGroup:
    """A process group. ``name`` is PyTorch's ("0", "1", ... or a hash); ``ranks`` are global ranks in group order,
    empty where unknown; ``size`` is 0 where unknown."""

    name: str
    description: str = ""
    ranks: tuple[int, ...] = ()
    size: int = 0
    backend: str = ""


@dataclass(frozen=True, eq=False)
class Communication:
    """Collectives and messages of one rank, ``k`` entries in the order of their start on the device.

    Attributes
    ----------
    row: int32[k], the row of the linked trace that carries it out (kernel or HOST_COLLECTIVE). Messages (or coalesced
        collectives) under one kernel are entries that share a row; a record that several kernels carry out has an entry
        for each, with its share of the bytes.
    operation: int32[k], a `CollectiveType`, SEND, RECV, COALESCED or UNKNOWN.
    size_bytes: int64[k], what the simulator takes as ``comm_size`` (astra-system.md, 8.6): of an all-gather or gather
        the part of one rank (the input of an all-gather, as Chakra's converter writes it too), of a scatter all that
        the root has, of others the whole input of this rank; -1 where unknown.
    in_bytes, out_bytes: int64[k], of this rank; -1 where unknown.
    group: int32[k], index into ``LinkedTrace.groups``; -1 where unknown.
    sequence: int64[k], number of the collective in its group as PyTorch counts; -1 where unknown.
    ordinal: int32[k], k-th use of this group on this rank by this trace (for messages: of this group, peer and
        direction), from 0, in launch order.
    peer: int32[k], global rank of the other side of a message, or root of a rooted collective; -1 where unknown.
    start_ns, end_ns: int64[k], as recorded.
    dtype: int32[k], string index.
    evidence: int32[k], string index of how the entry was joined ("record_param_comms", "kernel arguments", ...).
    wait_ns, transfer_ns: int64[k], the split that comparing ranks gives; -1 before.
    """

    row: NDArray[np.int32]
    operation: NDArray[np.int32]
    size_bytes: Ints
    in_bytes: Ints
    out_bytes: Ints
    group: NDArray[np.int32]
    sequence: Ints
    ordinal: NDArray[np.int32]
    peer: NDArray[np.int32]
    start_ns: Ints
    end_ns: Ints
    dtype: NDArray[np.int32]
    evidence: NDArray[np.int32]
    wait_ns: Ints
    transfer_ns: Ints

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, eq=False)
class Annotations:
    """Spans that name work without being work (user annotations, profiler steps), ``k`` entries by start.

    ``name`` int32[k] string index; ``thread`` int32[k] index into ``LinkedTrace.lanes``; ``start_ns``,
    ``duration_ns`` int64[k]; ``step`` int32[k]: N of ``ProfilerStep#N``, -1 for others.
    """

    name: NDArray[np.int32]
    thread: NDArray[np.int32]
    start_ns: Ints
    duration_ns: Ints
    step: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, eq=False)
class OperatorWorks:
    """What rows compute, by the shapes that the host trace has: ``k`` entries by row, a row at most once.

    Attributes
    ----------
    row: int32[k], a kernel; without a device trace, the operator (not those that it calls).
    name: int32[k], string index, the operator's.
    kind: int64[k], a `WorkKind`.
    flops, bytes_read, bytes_written: int64[k]; of an operator with several kernels, each has its share by duration.
        ``flops`` is -1 where nothing is known of the work.
    batch, m, n, k, causal: int64[k], the shape (`chakrasim.trace.work.SHAPE`) of the whole operator; 0: none.
    dtype: int32[k], string index.
    kernels: int64[k], how many kernels a GPU launches for the row.
    problem: int32[k], string index of why the work, or its operations, are not known; 0: they are.
    """

    row: NDArray[np.int32]
    name: NDArray[np.int32]
    kind: Ints
    flops: Ints
    bytes_read: Ints
    bytes_written: Ints
    batch: Ints
    m: Ints
    n: Ints
    k: Ints
    causal: Ints
    dtype: NDArray[np.int32]
    kernels: Ints
    problem: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.row)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OperatorWorks):
            return NotImplemented
        return all(np.array_equal(getattr(self, field.name), getattr(other, field.name)) for field in fields(self))


def no_works() -> OperatorWorks:
    """Nothing known of any row."""
    none, wide = np.zeros(0, np.int32), np.zeros(0, np.int64)
    return OperatorWorks(none, none, *(wide,) * 9, none, wide, none)


@dataclass(frozen=True)
class StepPath:
    """The critical path of a profiler step as recorded (``step`` -1: of the whole of a trace without steps).

    It ends with the row of the step that ends last, and goes back from each row to what it waited for last, as long as
    that is of the step. ``path_ns`` is the sum of the rows' own durations and of the delays before them;
    ``delay_ns`` that of the delays alone: time on the path that no row fills and no edge explains.
    """

    step: int
    path_ns: int
    delay_ns: int

    @property
    def delay_only_share(self) -> float:
        """The share of the path that is delay, 0 to 1."""
        return self.delay_ns / self.path_ns if self.path_ns else 0.0


#: Above this ``delay_only_share`` a replay of the recorded times proves little, and people are warned.
MOST_DELAY_ONLY = 0.1


@dataclass(frozen=True)
class Lane:
    """A host thread (``device`` -1; ``identity`` is the tid as text) or a stream of a device."""

    name: str
    pid: int
    identity: str
    device: int = -1
    stream: int = -1


def shares_by_step(linked: LinkedTrace) -> dict[str, float]:
    """`StepPath.delay_only_share` by the step's number as text, as JSON has it."""
    return {str(path.step): round(path.delay_only_share, 6) for path in linked.step_paths}


@dataclass(frozen=True, eq=False)
class LinkedTrace(Shown):
    """One rank, linked: ``n`` rows in an order in which every edge goes forward, ``m`` edges.

    Attributes
    ----------
    rank, world_size: -1 where the files do not say.
    source: the files' names, for messages.
    strings: all texts; entry 0 is "".
    kind: uint8[n], `RowKind`.
    part: int32[n], 0 for the first (or only) row of an event, 1, 2, ... for later pieces.
    head: int32[n], the row of part 0 (itself where part is 0).
    name: int32[n], string index ("" for gaps).
    lane: int32[n], index into ``lanes``.
    start_ns: int64[n], recorded start of the row's span.
    wait_ns: int64[n], how much of the span was waiting for edges into this row (0 unless a call synchronised).
    duration_ns: int64[n], own work: the span is start_ns to start_ns + wait_ns + duration_ns.
    delay_ns: int64[n], time between the last end of what the row depends on and its start (or end of wait) that
        nothing explains (launch latency); 0 for host rows.
    inclusive_ns: int64[n], length of the whole event for part 0, 0 for others.
    parent: int32[n], row of the enclosing operator's part 0; -1 at the top.
    step: int32[n], N of the ``ProfilerStep#N`` it belongs to (a device row: that of its launch); -1 outside.
    annotation: int32[n], innermost annotation around it (its launch); -1 where none.
    correlation, external_id, rf_id, host_id: int64[n], -1 where absent. ``host_id`` is the id in the host trace.
    sequence, forward_thread: int64[n], of autograd; -1 where absent.
    values, shapes, types: int32[n, 2], string index of the inputs' and outputs' texts (part 0 of operators); 0: none.
    op_schema: int32[n], string index.
    communication: collectives and messages; ``row`` points back here.
    groups: the process groups that the rank knows.
    edge_source, edge_target: int32[m], rows; edge_kind, edge_evidence, edge_flags: uint8[m].
    annotations, lanes: see there.
    works: what rows compute, as far as shapes tell.
    start_offset_ns: how much later than the earliest rank this one starts, clocks corrected; 0 alone.
    clock_shift_ns: what was added to this rank's clock to compare it with the others.
    counts: what was dropped, repaired, rejected or guessed, by a short name, for reports.
    step_paths: the critical path of each step, by the step's number; of the whole trace if it has no steps.
    header: what the files say of themselves (schema, PyTorch, devices, distributedInfo).
    """

    rank: int
    world_size: int
    source: str
    strings: StringTable
    kind: NDArray[np.uint8]
    part: NDArray[np.int32]
    head: NDArray[np.int32]
    name: NDArray[np.int32]
    lane: NDArray[np.int32]
    start_ns: Ints
    wait_ns: Ints
    duration_ns: Ints
    delay_ns: Ints
    inclusive_ns: Ints
    parent: NDArray[np.int32]
    step: NDArray[np.int32]
    annotation: NDArray[np.int32]
    correlation: Ints
    external_id: Ints
    rf_id: Ints
    host_id: Ints
    sequence: Ints
    forward_thread: Ints
    values: NDArray[np.int32]
    shapes: NDArray[np.int32]
    types: NDArray[np.int32]
    op_schema: NDArray[np.int32]
    communication: Communication
    groups: tuple[ProcessGroup, ...]
    edge_source: NDArray[np.int32]
    edge_target: NDArray[np.int32]
    edge_kind: NDArray[np.uint8]
    edge_evidence: NDArray[np.uint8]
    edge_flags: NDArray[np.uint8]
    annotations: Annotations
    lanes: tuple[Lane, ...]
    works: OperatorWorks = field(default_factory=no_works)
    start_offset_ns: int = 0
    clock_shift_ns: int = 0
    step_paths: tuple[StepPath, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)

    def _in_short(self) -> dict[str, str]:
        span_ns = int(self.end_ns.max() - self.start_ns.min()) if len(self) else 0
        return {
            "rank": str(self.rank) if self.rank >= 0 else "not stated",
            "rows": f"{len(self):,}",
            "edges": f"{len(self.edge_source):,}",
            "collectives": f"{len(self.communication):,}",
            "span": time_text(span_ns),
        }

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def end_ns(self) -> Ints:
        """int64[n]: recorded end of each row."""
        return self.start_ns + self.wait_ns + self.duration_ns

    @property
    def is_device(self) -> NDArray[np.bool_]:
        """bool[n]: rows that a device carries out."""
        return np.isin(self.kind, DEVICE_KINDS)
