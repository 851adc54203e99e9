"""Attention and the dense feed-forward part of a layer, forward and backward.

Tensor and sequence parallelism as in Megatron-LM (Shoeybi et al. 2019, arXiv:1909.08053, section 3; Korthikanti et al.
2022, arXiv:2205.05198, section 4.2): the first matrix of a part is split by columns, the last by rows. Without
sequence parallelism a part ends in an all-reduce forward and another backward; with it, it is entered through an
all-gather and left through a reduce-scatter, the opposite backward, and what was gathered is gathered again for the
gradient of the first matrix.
"""

from __future__ import annotations

from chakrasim.generator.layers.part import Part
from chakrasim.generator.layers.sizes import Sizes
from chakrasim.generator.layers.tape import BACKWARD, RECOMPUTE, Op, Tape
from chakrasim.trace.kinds import CollectiveType
from chakrasim.trace.work import WorkKind


class Attention(Part):
    """Norm, queries, keys and values, attention, output matrix, residual."""

    def __init__(self, sizes: Sizes, tape: Tape, keys: int) -> None:
        """``keys``: how many tokens a token attends to."""
        super().__init__(sizes, tape)
        self.keys = keys
        self.scores = sizes.scores // self.spec.model.sequence * keys
        """Attention scores of this rank: all heads, queries and keys, causal or not."""
        self.key_size = self.value_size = sizes.head_size
        """Elements of a head's queries and keys, and of its values."""
        self.queries, self.inputs, self.outputs = sizes.queries, sizes.qkv, sizes.queries
        """Elements of a token's queries, of these and keys and values, and of what comes of them, on this rank."""

    def forward(self, node: int) -> int:
        """All of it; returns the node that has the result."""
        node = self.first(self.enter("attention", self.norm("attention", node)))
        node = self.last(self.core(self._rotate(self._normed(node))))
        return self.residual("attention", node)

    def first(self, node: int) -> int:
        """Queries, keys and values."""
        return self.matrix("qkv", self.sizes.qkv, self.sizes.hidden, node)

    def last(self, node: int) -> int:
        """The output matrix and the sum over tensor-parallel ranks."""
        return self.leave("attention", self.matrix("attention output", self.sizes.hidden, self.outputs, node))

    def last_backward(self, node: int) -> int:
        """Gradients of `last`, but the sum; returns the node that has that of the input."""
        gradient = self.input_gradient("attention output", self.sizes.hidden, self.outputs, node)
        self.weight_gradient("attention output", self.sizes.hidden, self.outputs, node)
        return gradient

    def first_backward(self, node: int) -> int:
        """Gradients of `first`; returns the node that has that of the input, summed over ranks."""
        return self.first_gradients("qkv", self.sizes.qkv, node)

    def backward(self, node: int) -> int:
        """Gradients of everything in `forward`; returns the node that has the gradient of the input."""
        residual = node
        node = self.enter("attention gradient", self.residual_gradient("attention", node))
        gradient = self.last_backward(node)
        if self.spec.recompute == "selective" and not self.spec.flash_attention:
            gradient = self._core_again(gradient)
        gradient = self._normed(self._rotate(self.core_gradient(gradient)), " gradient")
        return self.norm_gradient_sum("attention", self.first_backward(gradient), residual)

    def core(self, node: int) -> int:
        """Attention without its matrices."""
        sizes, spec = self.sizes, self.spec
        if spec.flash_attention:
            return self._laid_out("heads", self._flash("attention", self._laid_out("qkv", node)))
        batch, sequence = spec.batch.micro_batch * sizes.heads, spec.model.sequence
        node = self.gemm("scores", sequence, sequence, self.key_size, node, batch=batch)
        node = self._softmax("softmax", 1, node)
        if spec.model.dropout:
            node = self.dropout("attention dropout", self.scores, 1, node)
        node = self.gemm("weighted values", sequence, self.value_size, sequence, node, batch=batch)
        return self._arrange("heads beside each other", self.outputs, node)

    def core_gradient(self, node: int) -> int:
        """Gradients of queries, keys and values."""
        sizes, spec = self.sizes, self.spec
        if spec.flash_attention:
            gradient = self._flash("attention gradient", self._laid_out("heads gradient", node), backward=True)
            return self._laid_out("qkv gradient", gradient)
        batch, sequence = spec.batch.micro_batch * sizes.heads, spec.model.sequence
        node = self._arrange("heads behind each other", self.outputs, node)
        self.gemm("values gradient", sequence, self.value_size, sequence, node, batch=batch)
        node = self.gemm("probabilities gradient", sequence, sequence, self.value_size, node, batch=batch)
        if spec.model.dropout:
            node = self.dropout("attention dropout gradient", self.scores, 1, node, backward=True)
        node = self._softmax("softmax gradient", 2, node)
        self.gemm("keys gradient", sequence, self.key_size, sequence, node, batch=batch)
        node = self.gemm("queries gradient", sequence, self.key_size, sequence, node, batch=batch)
        return self._arrange("qkv gradient", self.inputs, node)

    def _laid_out(self, what: str, node: int) -> int:
        """Copies into the layout that a kernel of attention takes, which eager programs make."""
        if self.spec.kernels != "eager":
            return node
        return self._arrange(f"{what} laid out", self.inputs if what.startswith("qkv") else self.outputs, node)

    def _flash(self, name: str, node: int, *, backward: bool = False) -> int:
        """Attention in one kernel, scores not written. Operations as if not causal, as PyTorch counts.

        Forward two products of queries x keys x head size; backward five, one of which repeats the scores (Dao et al.
        2022, arXiv:2205.14135, algorithm 4). A window leaves nothing out of the scores that are counted.
        """
        cp = self.spec.parallel.cp
        if cp == 1:
            return self._part_of_flash(name, self.keys, node, backward=backward)
        own = min(self.spec.model.sequence // cp, self.keys)
        gathered = self._round(CollectiveType.ALL_GATHER, "keys and values", 1, node)
        node = self._part_of_flash(f"{name} of own keys", own, node, backward=backward)
        self.tape.need([gathered])
        if self.keys > own:
            node = self._part_of_flash(f"{name} of others' keys", self.keys - own, node, backward=backward)
        if not backward:
            return node
        return self._round(CollectiveType.REDUCE_SCATTER, "keys and values gradient", cp, node)

    def _round(self, kind: CollectiveType, what: str, times: int, node: int) -> int:
        """Keys and values, or their gradients, among the ranks that share a sequence."""
        sizes = self.sizes
        size = sizes.tokens * (self.inputs - self.queries) * sizes.value_bytes * times
        return self.collective(what, kind, size, node, role="cp")

    def _part_of_flash(self, name: str, keys: int, node: int, *, backward: bool) -> int:
        """Attention of this rank's queries to so many keys of each sequence."""
        sizes, model = self.sizes, self.spec.model
        queries, scores = model.sequence // self.spec.parallel.cp, sizes.scores // model.sequence * keys
        by_keys, by_values = 2 * scores * self.key_size, 2 * scores * self.value_size
        tokens, statistics = sizes.tokens * sizes.value_bytes, sizes.tokens * sizes.heads * 4
        inputs = tokens * self.queries + tokens * (self.inputs - self.queries) * max(keys, queries) // queries
        output = tokens * self.outputs
        head = (self.key_size + self.value_size) // 2
        shape = (self.spec.batch.micro_batch * sizes.heads, queries, keys, head)
        flops, again, read, written = by_keys + by_values, 0, inputs, output + statistics
        if backward:
            flops, again = 3 * by_keys + 2 * by_values, by_keys
            read, written = inputs + 2 * output + statistics, inputs
        kind, causal = WorkKind.ATTENTION, model.causal and self.keys == model.sequence
        return self.append(Op(name, kind, flops, read, written, shape, causal, self.spec.dtype, again), node)

    def _softmax(self, name: str, reads: int, node: int) -> int:
        """Over materialised scores, scaled and masked in the same kernel, which does not read what is masked."""
        size = self.scores * self.sizes.value_bytes
        read = reads * size // 2 if self.spec.model.causal else reads * size
        return self.compute(name, WorkKind.SOFTMAX, 5 * self.scores, read, size, node)

    def _arrange(self, name: str, elements: int, node: int) -> int:
        """Copy tokens' ``elements`` from the layout of batched products to that of matrices, or back."""
        kind = WorkKind.COPY
        return self.elementwise(name, self.sizes.tokens * elements, 1, 1, node, operations=0, kind=kind)

    def _core_again(self, gradient: int) -> int:
        """Selective recomputation: what core attention did not keep."""
        self.at(self.where.removesuffix(f" {BACKWARD}"), RECOMPUTE)
        self.core(gradient)
        self.at(self.where.removesuffix(f" {RECOMPUTE}"), BACKWARD)
        return gradient

    def _rotate(self, node: int) -> int:
        """Rotary positions of queries and keys (or, backward, of their gradients)."""
        if self.spec.model.position != "rotary":
            return node
        return self.styled("rotary", "rotary", self.sizes.tokens * self.sizes.queries_and_keys, node, operations=3)

    def _normed(self, node: int, gradient: str = "") -> int:
        """Norms of the heads of queries and keys, or their gradients."""
        if not self.spec.model.head_norms:
            return node
        elements, kind = self.sizes.tokens * self.sizes.queries_and_keys, WorkKind.NORMALIZATION
        name, operations = f"heads norm{gradient}", 8 if gradient else 4
        return self.styled(name, f"norm{gradient}", elements, node, operations=operations, kind=kind)


class FeedForward(Part):
    """Norm, one or two matrices up, activation, a matrix down, residual."""

    def forward(self, node: int) -> int:
        """All of it; returns the node that has the result."""
        node = self.enter("feed-forward", self.norm("feed-forward", node))
        node = self.inner(self.spec.model.feed_forward // self.sizes.tp, node)
        return self.residual("feed-forward", self.leave("feed-forward", node))

    def backward(self, node: int) -> int:
        """Gradients of everything in `forward`; returns the node that has the gradient of the input."""
        residual = node
        node = self.enter("feed-forward gradient", self.residual_gradient("feed-forward", node))
        left = self.inner_backward(self.spec.model.feed_forward // self.sizes.tp, node)
        return self.norm_gradient_sum("feed-forward", left, residual)

    def inner(self, size: int, node: int, name: str = "") -> int:
        """The matrices and what is between them; ``size`` is this rank's part of the inner size."""
        width = 2 * size if self.spec.model.gated else size
        node = self.matrix(f"{name}up", width, self.sizes.hidden, node)
        node = self.styled(f"{name}activation", "activation", self.sizes.tokens * size, node, operations=8)
        return self.matrix(f"{name}down", self.sizes.hidden, size, node)

    def inner_backward(self, size: int, node: int, name: str = "") -> int:
        """Gradients of `inner`; returns the node that has the gradient of its input, summed over ranks."""
        width = 2 * size if self.spec.model.gated else size
        gradient = self.input_gradient(f"{name}down", self.sizes.hidden, size, node)
        self.weight_gradient(f"{name}down", self.sizes.hidden, size, node)
        elements, what = self.sizes.tokens * size, "activation gradient"
        gradient = self.styled(f"{name}{what}", what, elements, gradient, operations=8)
        return self.first_gradients(f"{name}up", width, gradient)
