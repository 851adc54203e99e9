"""A pass over a piece of a model, written down once: nodes whose dependencies count from the pass's first node.

A program repeats few passes many times; `chakrasim.generator.program` puts the copies one behind another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from chakrasim.errors import InputError
from chakrasim.trace.job.job import PEER
from chakrasim.trace.kinds import CollectiveType, NodeType
from chakrasim.trace.work import (
    BYTES,
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
    WorkKind,
)

MICRO_BATCH: Final = "micro_batch"
TAG: Final = "comm_tag"
DURATION: Final = "duration_ns"
"""Of compute nodes whose time is known."""

STREAMS: Final = {
    "tp": 1,
    "ep": 2,
    "fsdp": 3,
    "dp": 4,
    "expert_dp": 5,
    "embedding": 6,
    "send on": 7,
    "send back": 8,
    "receive on": 9,
    "receive back": 10,
    "fsdp reduce": 11,
    "expert_dp reduce": 12,
    "dp reduce": 13,
    "cp": 14,
    "store": 15,
    "load": 16,
}
"""Stream of each role's communication, and of each direction to the host's memory; 0 computes. What gathers weights and
what sums gradients have streams of their own, as in PyTorch's FSDP and Megatron-LM's distributed optimizer."""
REDUCED: Final = ("dp", "fsdp", "expert_dp")
"""Roles whose sums are of gradients."""


def stream_of(role: str, kind: CollectiveType) -> int:
    """The stream of a collective."""
    sums = role in REDUCED and kind in (CollectiveType.REDUCE_SCATTER, CollectiveType.ALL_REDUCE)
    return STREAMS[f"{role} reduce" if sums else role]


TOO_LARGE: Final = 1 << 62
"""What an attribute of a node must stay below."""


def too_large(value: int) -> InputError:
    """The refusal of work that no node can state."""
    return InputError(
        "operations, bytes or the time of one node are beyond what a trace can hold",
        file="transformer spec",
        found=f"{value:.3g}",
        expected="less than 2^62",
        remedy="make the model's sizes, the sequence or the micro-batch smaller",
    )


class Outside(IntEnum):
    """A dependency on a node of another pass."""

    COMPUTE = -1
    """The last compute node before this pass."""
    FORWARD = -2
    """The last compute node of the forward pass of the same micro-batch and chunk."""
    GATE = -3
    """Where the pass before begins its last unit of layers: from there, weights of this pass may be gathered."""
    POSTED = -4
    """The last compute node before the pass before: from there, this pass's message may come."""
    SENT = -5
    """What the pass before sent."""
    STORED = -6
    """What the forward pass of the same micro-batch and chunk stored last in the host's memory."""


def last_on(stream: int) -> int:
    """A dependency on the last node of a stream of communication in the passes before."""
    return -(len(Outside) + stream)


Phase = str
FORWARD, BACKWARD, RECOMPUTE, OPTIMIZER = "forward", "backward", "recompute", "optimizer"


@dataclass(frozen=True)
class Op:
    """Work of one compute node: see `chakrasim.trace.work`.

    ``again`` of its ``flops`` repeat what the forward pass did already (attention that recomputes its scores).
    """

    name: str
    kind: WorkKind
    flops: int
    read: int
    written: int
    shape: tuple[int, int, int, int] = (0, 0, 0, 0)
    causal: bool = False
    dtype: str = ""
    again: int = 0
    kernels: int = 1


@dataclass(frozen=True)
class Row:
    """A node of a pass. ``values`` grow by ``per_micro_batch`` with each micro-batch."""

    name: str
    type: NodeType
    values: Mapping[str, int | bool | str]
    per_micro_batch: Mapping[str, int]
    data: tuple[int, ...]
    control: tuple[int, ...]


@dataclass
class Tally:
    """What the nodes of a pass add up to.

    ``matrix`` operations are those of GEMMs and attention; of them, ``again`` are recomputed because the spec says so,
    ``inside`` by kernels of attention because they keep no scores. ``bytes`` and ``counts`` of communication are by
    (what, role), ``what`` being the name of a collective in lower case, send or receive.
    """

    matrix: int = 0
    again: int = 0
    inside: int = 0
    other: int = 0
    bytes: dict[tuple[str, str], int] = field(default_factory=dict)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, other: Tally, times: int = 1) -> None:
        """Add another tally, so many times."""
        self.matrix += other.matrix * times
        self.again += other.again * times
        self.inside += other.inside * times
        self.other += other.other * times
        for mine, theirs in ((self.bytes, other.bytes), (self.counts, other.counts)):
            for key, value in theirs.items():
                mine[key] = mine.get(key, 0) + value * times


class Tape:
    """Nodes of one pass, in program order.

    Compute nodes run one after another, as on a stream. So do the collectives of each role: it is the order in which a
    host issues them, the same on all ranks of their groups. Messages keep no such order.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.tally = Tally()
        self.compute_tail: int = Outside.COMPUTE
        self.tails: dict[int, int] = {}
        """By stream of communication, the last collective of this pass."""
        self.gate: int = Outside.COMPUTE
        self.sent: int = Outside.SENT
        self._also: list[int] = []
        self._waiting: list[int] = []

    def compute(self, op: Op, after: Iterable[int], phase: Phase, where: str) -> int:
        """Append work behind the compute node before it; ``after`` are the nodes whose results it reads."""
        values: dict[str, int | bool | str] = {
            "is_cpu_op": False,
            FLOPS: max(op.flops, 1),
            BYTES: max(op.read + op.written, 1),
            BYTES_READ: op.read,
            BYTES_WRITTEN: op.written,
            KIND: op.kind.name.lower(),
            DTYPE: op.dtype,
        }
        if op.shape[1]:
            values.update(zip(SHAPE, op.shape, strict=True))
        if op.causal:
            values[CAUSAL] = True
        if op.kernels > 1:
            values[KERNELS] = op.kernels
        values |= {STREAM: 0, STREAM_RULE: "compute in program order", PHASE: phase, MICRO_BATCH: 0}
        data, control = (*after, *self._waiting), (self.compute_tail, *self._also)
        self._waiting, self._also = [], []
        node = self._append(f"{where}: {op.name}", NodeType.COMP_NODE, values, {MICRO_BATCH: 1}, data, control)
        self.compute_tail = node
        self._count(op, phase)
        return node

    def collective(
        self, what: str, kind: CollectiveType, size: int, role: str, dtype: str, after: Iterable[int], phase: Phase,
        where: str, control: Iterable[int] = (),
    ) -> int:  # fmt: skip
        """Append a collective of ``size`` bytes (an all-gather: of the part of one rank; else: of a rank's input)."""
        stream = stream_of(role, kind)
        values: dict[str, int | bool | str] = {
            "is_cpu_op": False,
            "comm_type": int(kind),
            "comm_size": size,
            "pg_name": role,
            DTYPE: dtype,
            STREAM: stream,
            STREAM_RULE: f"collectives of role {role}, issued in program order",
            PHASE: phase,
            MICRO_BATCH: 0,
        }
        name = f"{where}: {what}"
        order = (self.tails.get(stream, last_on(stream)), *control)
        node = self._append(name, NodeType.COMM_COLL_NODE, values, {MICRO_BATCH: 1}, after, order)
        self.tails[stream] = node
        self._moved(kind.name.lower(), role, size)
        return node

    def message(
        self, kind: NodeType, peer: int, size: int, dtype: str, tag: tuple[int, int], after: Iterable[int],
        control: Iterable[int], phase: Phase, where: str,
    ) -> int:  # fmt: skip
        """Append a send or receive; ``tag``: its number for micro-batch 0, and how far those of the next are apart."""
        sending = kind == NodeType.COMM_SEND_NODE
        way = f"{'send' if sending else 'receive'} {'on' if phase == FORWARD else 'back'}"
        values: dict[str, int | bool | str] = {
            "is_cpu_op": False,
            "pg_name": "pp",
            PEER: peer,
            "comm_size": size,
            TAG: tag[0],
            DTYPE: dtype,
            STREAM: STREAMS[way],
            STREAM_RULE: "messages between pipeline stages",
            PHASE: phase,
            MICRO_BATCH: 0,
        }
        name = f"{where}: {'send' if sending else 'receive'}"
        self._moved("send" if sending else "receive", "pp", size)
        return self._append(name, kind, values, {TAG: tag[1], MICRO_BATCH: 1}, after, control)

    def access(
        self, kind: NodeType, what: str, size: int, after: Iterable[int], control: Iterable[int], phase: Phase
    ) -> int:
        """Append a load or store of the host's memory, behind the one before it in this direction."""
        way = "store" if kind == NodeType.MEM_STORE_NODE else "load"
        stream = STREAMS[way]
        values: dict[str, int | bool | str] = {
            "is_cpu_op": False,
            BYTES: size,
            STREAM: stream,
            STREAM_RULE: f"{way}s of the host's memory in program order",
            PHASE: phase,
            MICRO_BATCH: 0,
        }
        order = (self.tails.get(stream, last_on(stream)), *control)
        node = self._append(f"{what}: {way}", kind, values, {MICRO_BATCH: 1}, after, order)
        self.tails[stream] = node
        self._moved(way, "host", size)
        return node

    def hold(self, node: int) -> None:
        """Let the next compute node come behind ``node`` although it reads nothing of it."""
        self._also.append(node)

    def need(self, nodes: Iterable[int]) -> None:
        """Let the next compute node read what ``nodes`` give."""
        self._waiting += nodes

    def _append(
        self, name: str, kind: NodeType, values: Mapping[str, int | bool | str], growing: Mapping[str, int],
        data: Iterable[int], control: Iterable[int],
    ) -> int:  # fmt: skip
        self.rows.append(Row(name, kind, values, growing, tuple(dict.fromkeys(data)), tuple(dict.fromkeys(control))))
        return len(self.rows) - 1

    def _count(self, op: Op, phase: Phase) -> None:
        if op.kind not in (WorkKind.GEMM, WorkKind.ATTENTION):
            self.tally.other += op.flops
            return
        self.tally.matrix += op.flops
        self.tally.again += op.flops if phase == RECOMPUTE else 0
        self.tally.inside += op.again

    def _moved(self, what: str, role: str, size: int) -> None:
        key = (what, role)
        self.tally.bytes[key] = self.tally.bytes.get(key, 0) + size
        self.tally.counts[key] = self.tally.counts.get(key, 0) + 1
