"""One training step of a transformer on 16 ranks, as Chakra traces: the workload of the demo.

Tensor parallel 4, data parallel 2, pipeline parallel 2, four micro-batches in the 1F1B order. Rank = tensor + 4 data +
8 pipeline, so tensor parallelism stays among neighbours. ``python docs/make_demo_step.py FOLDER`` writes the files
that are shipped in ``src/chakrasim/demo/step/``.

Every compute node carries ``num_ops`` and ``tensor_size`` for machines with a roofline, and a duration for those
without: the time at 400 TFLOP/s or 2500 GB/s, whichever is longer. These rates are assumptions, not measurements.

As on a GPU with one compute stream and one stream for collectives, compute nodes form a chain of control dependencies
in program order, and so do collectives. The second chain gives all ranks one order of collectives, without which two
ranks of one group could each wait for the other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chakrasim.trace import CollectiveType, NodeType, Trace, TraceBuilder, write

TENSOR, DATA, PIPELINE = 4, 2, 2
RANKS = TENSOR * DATA * PIPELINE
MICRO_BATCHES = 4
LAYERS_PER_STAGE = 4
HIDDEN = 4096
SEQUENCE = 2048
VOCABULARY = 32_000
BYTES_PER_VALUE = 2

ACTIVATION_BYTES = SEQUENCE * HIDDEN * BYTES_PER_VALUE
LAYER_BYTES = 12 * HIDDEN * HIDDEN * BYTES_PER_VALUE // TENSOR
"""Weights, and so gradients, of one layer on one rank: attention 4 h^2, feed-forward 8 h^2, split by tensor rank."""
VOCABULARY_BYTES = VOCABULARY * HIDDEN * BYTES_PER_VALUE // TENSOR
OPTIMIZER_FACTOR = 14
"""Adam moves 28 bytes for the 2 of a bf16 gradient: fp32 weight and two moments in and out, bf16 weight, gradient."""

ATTENTION_OPS = (8 * SEQUENCE * HIDDEN * HIDDEN + 4 * SEQUENCE * SEQUENCE * HIDDEN) // TENSOR
FEED_FORWARD_OPS = 16 * SEQUENCE * HIDDEN * HIDDEN // TENSOR
HEAD_OPS = 2 * SEQUENCE * HIDDEN * VOCABULARY // TENSOR

ASSUMED_OPS_PER_US = 400_000_000
ASSUMED_BYTES_PER_US = 2_500_000


@dataclass(frozen=True)
class Place:
    """Where a rank stands in the three kinds of parallelism."""

    tensor: int
    data: int
    stage: int

    @classmethod
    def of(cls, rank: int) -> Place:
        """The place of a rank."""
        return cls(rank % TENSOR, rank // TENSOR % DATA, rank // (TENSOR * DATA))

    @property
    def rank(self) -> int:
        """The rank at this place."""
        return self.tensor + TENSOR * (self.data + DATA * self.stage)

    @property
    def tensor_group(self) -> int:
        """Id of the communicator group of the ranks that share the layers' matrices."""
        return 1 + self.data + DATA * self.stage

    @property
    def data_group(self) -> int:
        """Id of the communicator group of the ranks that hold the same weights."""
        return 1 + DATA * PIPELINE + self.tensor + TENSOR * self.stage


def groups() -> dict[str, list[int]]:
    """Communicator groups as ASTRA-sim's file holds them: id to ranks."""
    members: dict[int, list[int]] = {}
    for rank in range(RANKS):
        place = Place.of(rank)
        members.setdefault(place.tensor_group, []).append(rank)
        members.setdefault(place.data_group, []).append(rank)
    return {str(group): members[group] for group in sorted(members)}


class _Program:
    """Appends one rank's operations in program order."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.builder = TraceBuilder(metadata={"schema": "chakrasim demo"}, source=f"demo rank {place.rank}")
        self.compute_tail: list[int] = []
        self.collective_tail: list[int] = []

    def compute(self, name: str, ops: int, tensor_bytes: int, after: list[int]) -> int:
        """A GPU operation behind the one before it and behind ``after``."""
        micros = max(1, ops // ASSUMED_OPS_PER_US, tensor_bytes // ASSUMED_BYTES_PER_US)
        attrs = {"is_cpu_op": False, "num_ops": ops, "tensor_size": tensor_bytes}
        node = len(self.builder)
        self.builder.add(node, name, NodeType.COMP_NODE, after, self.compute_tail, micros, attrs=attrs)
        self.compute_tail = [node]
        return node

    def all_reduce(self, name: str, size: int, group: int, after: int) -> int:
        """An all-reduce in a communicator group, behind the collective before it."""
        attrs = {
            "is_cpu_op": False,
            "comm_type": int(CollectiveType.ALL_REDUCE),
            "comm_size": size,
            "pg_name": str(group),
        }
        node = len(self.builder)
        self.builder.add(node, name, NodeType.COMM_COLL_NODE, [after], self.collective_tail, attrs=attrs)
        self.collective_tail = [node]
        return node

    def send(self, name: str, stage: int, tag: int, after: int) -> int:
        """Send activations, or their gradients, to the rank of the same place in another stage."""
        return self._message(name, NodeType.COMM_SEND_NODE, self.place.stage, stage, tag, [after], [])

    def receive(self, name: str, stage: int, tag: int) -> int:
        """Receive from another stage, posted when the rank has nothing else left to compute before it."""
        return self._message(name, NodeType.COMM_RECV_NODE, stage, self.place.stage, tag, [], self.compute_tail)

    def _message(
        self, name: str, kind: NodeType, source: int, target: int, tag: int, data: list[int], control: list[int]
    ) -> int:
        ends = [Place(self.place.tensor, self.place.data, stage).rank for stage in (source, target)]
        attrs = {
            "is_cpu_op": False,
            "comm_src": ends[0],
            "comm_dst": ends[1],
            "comm_tag": tag,
            "comm_size": ACTIVATION_BYTES,
        }
        node = len(self.builder)
        self.builder.add(node, name, kind, data, control, attrs=attrs)
        return node


def schedule(stage: int) -> Iterator[tuple[str, int]]:
    """The 1F1B order of a stage: forward and backward passes with their micro-batches (Narayanan et al., SC 2021)."""
    warm_up = min(PIPELINE - 1 - stage, MICRO_BATCHES)
    for batch in range(warm_up):
        yield "forward", batch
    for batch in range(MICRO_BATCHES):
        if batch + warm_up < MICRO_BATCHES:
            yield "forward", batch + warm_up
        yield "backward", batch


def rank_trace(rank: int) -> Trace:
    """The training step of one rank."""
    program = _Program(Place.of(rank))
    activations: dict[int, int] = {}
    gradients: list[int] = []
    for direction, batch in schedule(program.place.stage):
        if direction == "forward":
            activations[batch] = _forward(program, batch)
        else:
            gradients += _backward(program, batch, activations[batch])
    _optimizer(program, gradients)
    return program.builder.build()


def _forward(program: _Program, batch: int) -> int:
    stage = program.place.stage
    name = f"forward {batch}"
    if stage > 0:
        last = program.receive(f"{name}: receive activations", stage - 1, 2 * batch)
    else:
        last = program.compute(f"{name}: embedding", SEQUENCE * HIDDEN, 2 * ACTIVATION_BYTES, [])
    for layer in range(LAYERS_PER_STAGE):
        last = _layer_half(program, f"{name}: layer {layer} attention", ATTENTION_OPS, LAYER_BYTES // 3, last)
        last = _layer_half(program, f"{name}: layer {layer} feed-forward", FEED_FORWARD_OPS, LAYER_BYTES * 2 // 3, last)
    if stage < PIPELINE - 1:
        program.send(f"{name}: send activations", stage + 1, 2 * batch, last)
        return last
    return program.compute(f"{name}: head and loss", HEAD_OPS, VOCABULARY_BYTES + ACTIVATION_BYTES, [last])


def _layer_half(program: _Program, name: str, ops: int, weight_bytes: int, after: int) -> int:
    """Compute on this rank's share of the matrices, then sum the shares' results."""
    node = program.compute(name, ops, weight_bytes + 2 * ACTIVATION_BYTES, [after])
    return program.all_reduce(f"{name} all-reduce", ACTIVATION_BYTES, program.place.tensor_group, node)


def _backward(program: _Program, batch: int, forward: int) -> list[int]:
    """Twice the operations of the forward pass; behind the last micro-batch, sums of gradients over the replicas."""
    stage = program.place.stage
    name = f"backward {batch}"
    sums: list[int] = []
    if stage < PIPELINE - 1:
        last = program.receive(f"{name}: receive gradients", stage + 1, 2 * batch + 1)
    else:
        head_bytes = 2 * (VOCABULARY_BYTES + ACTIVATION_BYTES)
        last = program.compute(f"{name}: head and loss", 2 * HEAD_OPS, head_bytes, [forward])
    for layer in reversed(range(LAYERS_PER_STAGE)):
        last = _layer_half(program, f"{name}: layer {layer} feed-forward", 2 * FEED_FORWARD_OPS, LAYER_BYTES, last)
        last = _layer_half(program, f"{name}: layer {layer} attention", 2 * ATTENTION_OPS, LAYER_BYTES, last)
        if batch == MICRO_BATCHES - 1:
            title = f"gradients of layer {layer} all-reduce"
            sums.append(program.all_reduce(title, LAYER_BYTES, program.place.data_group, last))
    if stage > 0:
        program.send(f"{name}: send gradients", stage - 1, 2 * batch + 1, last)
    return sums


def _optimizer(program: _Program, gradients: list[int]) -> None:
    touched = OPTIMIZER_FACTOR * LAYERS_PER_STAGE * LAYER_BYTES
    program.compute("optimizer", touched, touched, gradients)


def write_step(folder: Path) -> None:
    """Write ``step.RANK.et.gz`` of every rank and ``groups.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "step", [rank_trace(rank) for rank in range(RANKS)], compress=True)
    (folder / "groups.json").write_text(json.dumps(groups()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_step(Path(sys.argv[1]))
