"""What is in front of the layers and behind them: embedding, head with loss, and the optimizer."""

from __future__ import annotations

from chakrasim.generator.layers.parameters import Held
from chakrasim.generator.layers.part import Part
from chakrasim.generator.layers.style import UPDATE
from chakrasim.generator.spec.spec import Spec
from chakrasim.trace.kinds import CollectiveType
from chakrasim.trace.work import WorkKind


class Embedding(Part):
    """Rows of a matrix split by rows over tensor-parallel ranks; learned positions; dropout."""

    def forward(self, *after: int) -> int:
        """Look up and add; returns the node that has the result."""
        sizes = self.sizes
        node = self.elementwise("embedding", sizes.tokens * sizes.hidden, 1, 1, *after, kind=WorkKind.EMBEDDING)
        node = self.leave("embedding", node)
        if self.spec.model.position == "learned" or self.spec.model.dropout:
            node = self.elementwise("positions and dropout", sizes.own_elements, 2, 1, node)
        return node

    def backward(self, node: int) -> int:
        """The gradient of the matrix, if it is trained."""
        if self.frozen:
            return node
        sizes = self.sizes
        if self.spec.model.position == "learned" or self.spec.model.dropout:
            node = self.elementwise("positions and dropout gradient", sizes.own_elements, 2, 1, node)
        node = self.enter("embedding gradient", node)
        elements = sizes.tokens * sizes.hidden
        read = elements * (sizes.value_bytes + self.spec.gradient_bytes)
        written = elements * self.spec.gradient_bytes
        return self.compute("embedding gradient", WorkKind.EMBEDDING, elements, read, written, node)


class Head(Part):
    """Norm, the matrix of the vocabulary split by columns, and the cross entropy of logits that no rank has whole.

    Ranks share each token's largest logit, its target's logit and the sum of exponentials: three all-reduces of a
    float32 for each token. Kernels as in Megatron-LM's vocab-parallel cross entropy, which computes in float32.
    """

    def forward(self, node: int) -> int:
        """Logits and loss; returns the node that has the loss."""
        sizes = self.sizes
        node = self.enter("head", self.norm("head", node))
        node = self.gemm("head", sizes.tokens, sizes.vocabulary, sizes.hidden, node)  # no bias
        low = self.sizes.value_bytes
        if self.spec.fused_loss:
            node = self._share("largest logit", self._logits("largest logit", low, 0, node))
            node = self._logits("loss", low, low, node, 4)
            return self._share("sum of exponentials", node)
        if self.spec.kernels != "fused" and not self._split:
            node = self._logits("logits in float32", low, 4, node)
            return self._logits("logarithms of probabilities", 8, 4, node, 4)
        node = self._logits("logits in float32", low, 4, node) if low < 4 else node
        node = self._logits("largest logit", 4, 0, node)
        node = self._share("largest logit", node)
        node = self._logits("logits less the largest", 4, 4, node)
        node = self._share("target logit", node)
        node = self._logits("exponentials", 4, 4, node, 2)
        node = self._logits("sum of exponentials", 4, 0, node)
        node = self._share("sum of exponentials", node)
        node = self._logits("probabilities", 4, 4, node)
        tokens = sizes.tokens
        return self.compute("loss", WorkKind.REDUCTION, 3 * tokens, 12 * tokens, 4 * tokens, node, dtype="float32")

    def backward(self, node: int) -> int:
        """Gradients of logits, matrix and norm; returns the node that has the gradient of the input."""
        low = self.sizes.value_bytes
        if self.spec.fused_loss:
            node = self._logits("logits gradient", low, low, node)
        else:
            node = self._logits("logits gradient", 8 if self.spec.kernels != "fused" else 4, 4, node, 2)
            node = self._logits(f"logits gradient in {self.spec.dtype}", 4, low, node) if low < 4 else node
        left = self.first_gradients("head", self.sizes.vocabulary, node)
        return self.norm_gradient("head", left)

    def _logits(self, name: str, reads: int, writes: int, node: int, operations: int = 1) -> int:
        """Work on this rank's logits, of each of which so many bytes are read and written."""
        elements = self.sizes.tokens * self.sizes.vocabulary
        read, written = reads * elements, writes * elements
        return self.compute(name, WorkKind.ELEMENTWISE, operations * elements, read, written, node, dtype="float32")

    def _share(self, what: str, node: int) -> int:
        if not self._split:
            return node
        return self.collective(what, CollectiveType.ALL_REDUCE, 4 * self.sizes.tokens, node, dtype="float32")


class Optimizer(Part):
    """The update of a rank's parameters, and what has to be exchanged around it."""

    def norm_gradients(self, held: Held, after: list[int]) -> list[int]:
        """With sequence parallelism each rank has seen its tokens only: gradients of what is copied are summed."""
        dense, experts = shards(self.spec)
        copied = -(-held.copied // dense)
        if self.spec.parallel.expert_tp > 1:
            copied += -(-held.experts_copied // experts)
        if not self._split or not self.spec.parallel.sp or not copied:
            return []
        return [self._reduce("copied parameters' gradients", copied, "tp", after)]

    def tied_gradients(self, after: list[int]) -> list[int]:
        """The first and the last stage have each a part of the gradient of a matrix that they both hold."""
        parameters = -(-self.sizes.vocabulary * self.sizes.hidden // shards(self.spec)[0])
        return [self._reduce("tied embedding gradient", parameters, "embedding", after)]

    @staticmethod
    def own(spec: Spec, held: Held) -> int:
        """Of parameters, those that a rank updates: ZeRO leaves each a part of them."""
        dense, experts = shards(spec)
        return -(-held.dense // dense) + -(-held.experts // experts)

    def step(self, held: Held, after: list[int]) -> int:
        """Read gradients, weights and states, write weights and states."""
        own = self.own(self.spec, held)
        weight, gradient, state = self.spec.value_bytes, self.spec.gradient_bytes, self.spec.state_bytes
        low = self.spec.dtype != "float32"
        times = UPDATE[self.spec.kernels]
        read = round(times * own * (gradient + state + (0 if low else weight)))
        written = round(times * own * (state + weight))
        operations = 12 if self.spec.optimizer == "adamw" else 2
        name = f"{self.spec.optimizer} step"
        return self.compute(name, WorkKind.OPTIMIZER, own * operations, read, written, *after, dtype="float32")

    def zero_gradients(self, held: Held, after: int) -> int:
        """What comes behind the update."""
        count = self.own(self.spec, held) if self.spec.parallel.zero >= 2 else held.total
        return self._gradients("zero gradients", count, 0, 1, [after])

    def prepare(self, held: Held, after: list[int]) -> list[int]:
        """Passes over gradients before the update: float16 gradients were scaled; clipping takes their norm first."""
        own = self.own(self.spec, held)
        if self.spec.dtype == "float16":
            after = [self._gradients("unscale gradients", own, 1, 1, after)]
        if self.spec.clip_gradients:
            after = [self._gradients("norm of gradients", own, 1, 0, after)]
            after = [self._gradients("clip gradients", own, 1, 1, after)]
        return after

    def _gradients(self, name: str, count: int, reads: int, writes: int, after: list[int]) -> int:
        size = count * self.spec.gradient_bytes
        return self.compute(name, WorkKind.OPTIMIZER, count, reads * size, writes * size, *after, dtype="float32")

    def _reduce(self, what: str, parameters: int, role: str, after: list[int]) -> int:
        dtype, size = self.spec.gradient_dtype, parameters * self.spec.gradient_bytes
        control = [self.tape.compute_tail]
        return self.collective(what, CollectiveType.ALL_REDUCE, size, *after, role=role, dtype=dtype, control=control)


def shards(spec: Spec) -> tuple[int, int]:
    """Over how many ranks optimizer states and reduced gradients are sharded: of dense parameters, and of experts."""
    split = spec.parallel
    if split.zero == 0:
        return 1, 1
    dense = split.fsdp if split.zero == 3 else split.copies
    return dense, split.expert_replicas if split.experts_apart else dense
