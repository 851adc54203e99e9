"""The passes of a pipeline stage: forward, backward, and the optimizer's step, with all that they communicate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from chakrasim.generator.layers.blocks import blocks_of
from chakrasim.generator.layers.ends import Embedding, Head, Optimizer
from chakrasim.generator.layers.offload import Mover, update_in_parts
from chakrasim.generator.layers.parameters import (
    Held,
    embedding_parameters,
    head_parameters,
    layer_parameters,
    prediction_parameters,
    stage_parameters,
)
from chakrasim.generator.layers.part import Again
from chakrasim.generator.layers.prediction import Prediction
from chakrasim.generator.layers.sizes import Sizes
from chakrasim.generator.layers.tape import (
    BACKWARD,
    FORWARD,
    OPTIMIZER,
    RECOMPUTE,
    REDUCED,
    STREAMS,
    Op,
    Outside,
    Phase,
    Tape,
    last_on,
)
from chakrasim.generator.memory import moved_activations
from chakrasim.generator.spec.spec import Spec
from chakrasim.trace.kinds import CollectiveType, NodeType
from chakrasim.trace.work import WorkKind


@dataclass(frozen=True)
class Unit:
    """What is gathered and reduced together: the embedding, a layer, or the head."""

    name: str
    held: Held
    run: Callable[[int], int]
    """Writes the unit's nodes behind the node that has its input; returns the one that has its output."""
    moved: int = 0
    """Bytes that it keeps in the host's memory between its forward and its backward pass."""


class ChunkPass:
    """A forward or backward pass over a chunk, being written."""

    def __init__(
        self, spec: Spec, chunk: int, *, forward: bool, last: bool, layers: Sequence[int] | None = None
    ) -> None:
        self.spec = spec
        self.layers = spec.layers_of(chunk) if layers is None else layers
        self.chunk = chunk
        self.forward = forward
        self.last = last
        """The chunk's last backward pass of the step: gradients are complete."""
        self.phase: Phase = FORWARD if forward else BACKWARD
        self.tape = Tape()
        self.sizes = Sizes(spec)
        self._bucket = Held()
        self._bucket_names: list[str] = []

    def write(self) -> Tape:
        """The whole pass."""
        if not self.spec.overlap.pp:
            self.tape.hold(Outside.SENT)
        node = self._receive()
        if not self.forward:
            self.tape.need([Outside.FORWARD])
        units = self._units()
        mover, came = Mover(self.tape, self.phase), []
        if not self.forward:
            came = mover.load(units[0].name, units[0].moved, [Outside.STORED], [Outside.GATE])
        gathered = self._gather(units[0], [Outside.GATE if self.spec.overlap.fsdp else Outside.COMPUTE])
        for i, unit in enumerate(units):
            before = self.tape.compute_tail
            self.tape.gate = before
            self.tape.need(gathered)
            if gathered:
                self._copy(f"{unit.name} weights copied out", unit.held)
            gathered = []
            mover.begin()
            self.tape.need(came)
            if i + 1 < len(units) and not self.forward:
                came = mover.load(units[i + 1].name, units[i + 1].moved, [Outside.STORED], [before])
            if i + 1 < len(units) and self.spec.overlap.fsdp:
                gathered = self._gather(units[i + 1], [before])
            node = unit.run(node)
            if self.forward and unit.moved:
                mover.store(unit.name, unit.moved)
            if i + 1 < len(units) and not self.spec.overlap.fsdp:
                gathered = self._gather(units[i + 1], [self.tape.compute_tail])
            self._complete(unit)
        self._reduce_bucket()
        self._send(node)
        return self.tape

    # --- units ---

    def _units(self) -> list[Unit]:
        spec, chunk = self.spec, self.chunk
        units = [replace(self._layer(layer), moved=moved_activations(spec, layer)) for layer in self.layers]
        if chunk == 0:
            units.insert(0, Unit("embedding", embedding_parameters(spec), self._embedding))
        if chunk == spec.chunks - 1:
            units += [self._prediction(layer) for layer in spec.model.predictions]
            units.append(Unit("head", head_parameters(spec), self._head))
        return units if self.forward else units[::-1]

    def _embedding(self, node: int) -> int:
        part = Embedding(self.sizes, self.tape)
        part.at("embedding", self.phase)
        return part.forward() if self.forward else part.backward(node)

    def _head(self, node: int) -> int:
        part = Head(self.sizes, self.tape)
        part.at("head", self.phase)
        return part.forward(node) if self.forward else part.backward(node)

    def _layer(self, layer: int) -> Unit:
        spec, where = self.spec, f"layer {layer}"
        blocks = blocks_of(self.sizes, self.tape, layer)

        def through(phase: Phase, node: int) -> int:
            for part in blocks:
                part.at(where, phase)
                node = part.forward(node)
            return node

        def run(node: int) -> int:
            if self.forward:
                return through(FORWARD, node)
            if spec.recomputes(layer):
                # What is computed again needs no gradient, but a pass begins when its gradient is there.
                self.tape.need([node])
                through(RECOMPUTE, Outside.FORWARD)
            elif spec.operators:
                self.tape.need([node])
                for kind, part in zip(spec.model.kinds(layer), blocks, strict=True):
                    part.again = Again(spec.operators, kind)
                    part.at(where, RECOMPUTE)
                    part.forward(Outside.FORWARD)
                    part.again = None
            for part in blocks[::-1]:
                part.at(where, BACKWARD)
                node = part.backward(node)
            return node

        return Unit(where, layer_parameters(spec, layer), run)

    def _prediction(self, layer: int) -> Unit:
        """One more token predicted: a projection, a layer, and the shared head."""
        inner, where = self._layer(layer), f"prediction {layer - self.spec.model.layers}"
        entry, head = Prediction(self.sizes, self.tape), Head(self.sizes, self.tape)
        entry.at(where, self.phase)
        head.at(where, self.phase)

        def run(node: int) -> int:
            if self.forward:
                return head.forward(inner.run(entry.forward(node)))
            return entry.backward(inner.run(head.backward(node)), node)

        return Unit(where, inner.held + prediction_parameters(self.spec, layer), run)

    # --- messages between stages ---

    def _message(self, kind: NodeType, chunk: int, after: list[int], control: list[int]) -> int:
        """To or from a neighbouring chunk; its tag is of the two chunks, another one for each micro-batch."""
        peer, dtype = chunk % self.spec.parallel.pp, self.spec.dtype
        size, where = self.sizes.sent_bytes, f"chunk {self.chunk} {self.phase}"
        tag = 2 * min(chunk, self.chunk) + int(not self.forward), 2 * self.spec.chunks
        return self.tape.message(kind, peer, size, dtype, tag, after, control, self.phase, where)

    def _receive(self) -> int:
        """The node that has what the pass begins with."""
        first = self.chunk == 0 if self.forward else self.chunk == self.spec.chunks - 1
        if first:
            return Outside.FORWARD
        before = self.chunk - 1 if self.forward else self.chunk + 1
        node = self._message(NodeType.COMM_RECV_NODE, before, [], [Outside.POSTED])
        if self.sizes.in_parts:
            kind, size, where = CollectiveType.ALL_GATHER, self.sizes.sent_bytes, f"chunk {self.chunk} {self.phase}"
            node = self.tape.collective("gather", kind, size, "tp", self.spec.dtype, [node], self.phase, where)
        return node

    def _send(self, node: int) -> None:
        last = self.chunk == self.spec.chunks - 1 if self.forward else self.chunk == 0
        if last:
            return
        after = self.chunk + 1 if self.forward else self.chunk - 1
        sent = self._message(NodeType.COMM_SEND_NODE, after, [node], [])
        if not self.spec.overlap.pp:
            self.tape.sent = sent

    # --- weights gathered, gradients reduced ---

    def _copy(self, what: str, held: Held) -> None:
        """PyTorch's FSDP gathers into one buffer and reduces out of one, whose parts are the parameters."""
        if self.spec.kernels != "fused":
            size = held.total * self.spec.value_bytes
            op = Op(what, WorkKind.COPY, 0, size, size, dtype=self.spec.dtype)
            self.tape.compute(op, [], self.phase, f"chunk {self.chunk} {self.phase}")

    def _gather(self, unit: Unit, control: list[int]) -> list[int]:
        """With ZeRO 3, all of a unit's weights from the ranks that have a part of them."""
        if self.spec.parallel.zero != 3:
            return []
        nodes = []
        for role, held, ranks in reductions(self.spec, unit.held):
            if ranks > 1 and held:
                size = -(-held // ranks) * self.spec.value_bytes
                what = f"{unit.name} weights"
                nodes.append(self._collective(what, CollectiveType.ALL_GATHER, size, role, [], control))
        return nodes

    def _complete(self, unit: Unit) -> None:
        """A unit's backward pass is written: its gradients may be reduced."""
        if self.forward or not (self.last or self.spec.parallel.zero >= 2):
            return
        self._bucket += unit.held.trained(self.spec)
        self._bucket_names.append(unit.name)
        full = self._bucket.total * self.spec.gradient_bytes >= self.spec.overlap.bucket_bytes
        if self.spec.parallel.zero == 3 or (full and self.spec.overlap.dp):
            self._reduce_bucket()

    def _reduce_bucket(self) -> None:
        names, held = self._bucket_names, self._bucket
        self._bucket, self._bucket_names = Held(), []
        if not names:
            return
        what = (names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}") + " gradients"
        if self.spec.parallel.zero == 3:
            self._copy(f"{what} copied in", held)
        self._reduce(what, held, [self.tape.compute_tail])

    def _reduce(self, what: str, held: Held, after: list[int]) -> None:
        """Sums over replicas; each rank keeps a part of the sums with ZeRO."""
        split, value = self.spec.parallel, self.spec.gradient_bytes
        replicas = split.copies // split.fsdp
        nodes: list[int] = []
        for role, parameters, ranks in reductions(self.spec, held):
            if not parameters:
                continue
            shard = -(-parameters // ranks) * value
            if ranks > 1 and split.zero == 0:
                nodes.append(self._collective(what, CollectiveType.ALL_REDUCE, parameters * value, role, after, []))
            elif ranks > 1:
                nodes.append(self._collective(what, CollectiveType.REDUCE_SCATTER, shard * ranks, role, after, []))
            if role == "fsdp" and replicas > 1:
                scattered = nodes[-1:] or after
                self._collective(f"{what} of replicas", CollectiveType.ALL_REDUCE, shard, "dp", scattered, [])

    def _collective(
        self, what: str, kind: CollectiveType, size: int, role: str, after: list[int], control: list[int]
    ) -> int:
        dtype = self.spec.dtype if kind == CollectiveType.ALL_GATHER else self.spec.gradient_dtype
        return self.tape.collective(what, kind, size, role, dtype, after, self.phase, self.phase, control)


def reductions(spec: Spec, held: Held) -> list[tuple[str, int, int]]:
    """(role, parameters, ranks) of what is sharded or reduced together: dense parameters, and experts."""
    split = spec.parallel
    fsdp = split.zero == 3
    dense = ("fsdp", held.dense, split.fsdp) if fsdp else ("dp", held.dense, split.copies)
    if not split.experts_apart:
        return [(dense[0], held.total, dense[2])]
    return [dense, ("expert_dp", held.experts, split.expert_replicas)]


def optimizer_pass(spec: Spec, stage: int) -> Tape:
    """What comes behind all passes of a stage; gradients are reduced already."""
    tape = Tape()
    held = stage_parameters(spec, stage).trained(spec)
    part = Optimizer(Sizes(spec), tape)
    part.where = part.phase = OPTIMIZER
    reduced = [last_on(STREAMS[f"{role} reduce"]) for role in REDUCED]
    waited: list[int] = part.norm_gradients(held, reduced)
    if spec.copies_embedding and not part.frozen and stage in (0, spec.parallel.pp - 1):
        waited += part.tied_gradients(waited or reduced)
    ready = part.prepare(held, waited or reduced)
    node = update_in_parts(spec, stage, part, ready) if spec.offload.optimizer else part.step(held, ready)
    node = part.zero_gradients(held, node)
    if spec.parallel.zero in (1, 2):
        for role, parameters, ranks in reductions(spec, held):
            if ranks > 1 and parameters:
                size = -(-parameters // ranks) * spec.value_bytes
                kind = CollectiveType.ALL_GATHER
                tape.collective("weights", kind, size, role, spec.dtype, [node], OPTIMIZER, OPTIMIZER)
    return tape
