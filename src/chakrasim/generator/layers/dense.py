"""Attention and the dense feed-forward part of a layer, forward and backward.

Tensor and sequence parallelism as in Megatron-LM (Shoeybi et al. 2019, arXiv:1909.08053, section 3; Korthikanti et al.
2022, arXiv:2205.05198, section 4.2): the first matrix of a part is split by columns, the last by rows. Without
sequence parallelism a part ends in an all-reduce forward and another backward; with it, it is entered through an
all-gather and left through a reduce-scatter, the opposite backward, and what was gathered is gathered again for the
gradient of the first matrix.
"""

from __future__ import annotations

from chakrasim.generator.layers.part import Part
from chakrasim.generator.layers.tape import BACKWARD, RECOMPUTE, Op
from chakrasim.trace.kinds import CollectiveType
from chakrasim.trace.work import WorkKind


class Attention(Part):
    """Norm, queries, keys and values, attention, output matrix, residual."""

    def forward(self, node: int) -> int:
        """All of it; returns the node that has the result."""
        node = self.enter("attention", self.norm("attention", node))
        node = self.matrix("qkv", self.sizes.qkv, self.sizes.hidden, node)
        node = self.matrix("attention output", self.sizes.hidden, self.sizes.queries, self.core(self._rotate(node)))
        return self.residual("attention", self.leave("attention", node))

    def backward(self, node: int) -> int:
        """Gradients of everything in `forward`; returns the node that has the gradient of the input."""
        sizes = self.sizes
        residual = node
        node = self.enter("attention gradient", self.residual_gradient("attention", node))
        gradient = self.input_gradient("attention output", sizes.hidden, sizes.queries, node)
        self.weight_gradient("attention output", sizes.hidden, sizes.queries, node)
        if self.spec.recompute == "selective" and not self.spec.flash_attention:
            gradient = self._core_again(gradient)
        gradient = self._rotate(self.core_gradient(gradient))
        left = self.first_gradients("qkv", sizes.qkv, gradient)
        return self.norm_gradient_sum("attention", left, residual)

    def core(self, node: int) -> int:
        """Attention without its matrices."""
        sizes, spec = self.sizes, self.spec
        if spec.flash_attention:
            return self._flash("attention", node)
        batch, sequence = spec.batch.micro_batch * sizes.heads, spec.model.sequence
        node = self.gemm("scores", sequence, sequence, sizes.head_size, node, batch=batch)
        node = self._softmax("softmax", 1, node)
        if spec.model.dropout:
            node = self.dropout("attention dropout", sizes.scores, 1, node)
        node = self.gemm("weighted values", sequence, sizes.head_size, sequence, node, batch=batch)
        return self._arrange("heads beside each other", sizes.queries, node)

    def core_gradient(self, node: int) -> int:
        """Gradients of queries, keys and values."""
        sizes, spec = self.sizes, self.spec
        if spec.flash_attention:
            return self._flash("attention gradient", node, backward=True)
        batch, sequence, head = spec.batch.micro_batch * sizes.heads, spec.model.sequence, sizes.head_size
        node = self._arrange("heads behind each other", sizes.queries, node)
        self.gemm("values gradient", sequence, head, sequence, node, batch=batch)
        node = self.gemm("probabilities gradient", sequence, sequence, head, node, batch=batch)
        if spec.model.dropout:
            node = self.dropout("attention dropout gradient", sizes.scores, 1, node, backward=True)
        node = self._softmax("softmax gradient", 2, node)
        self.gemm("keys gradient", sequence, head, sequence, node, batch=batch)
        node = self.gemm("queries gradient", sequence, head, sequence, node, batch=batch)
        return self._arrange("qkv gradient", sizes.qkv, node)

    def _flash(self, name: str, node: int, *, backward: bool = False) -> int:
        """Attention in one kernel, scores not written. Operations as if not causal, as PyTorch counts.

        Forward two products of queries x keys x head size; backward five, one of which repeats the scores (Dao et al.
        2022, arXiv:2205.14135, algorithm 4).
        """
        cp, keys = self.spec.parallel.cp, self.spec.model.sequence // self.spec.parallel.cp
        if cp == 1:
            return self._part_of_flash(name, keys, node, backward=backward)
        gathered = self._round(CollectiveType.ALL_GATHER, "keys and values", 1, node)
        node = self._part_of_flash(f"{name} of own keys", keys, node, backward=backward)
        self.tape.need([gathered])
        node = self._part_of_flash(f"{name} of others' keys", keys * (cp - 1), node, backward=backward)
        if not backward:
            return node
        return self._round(CollectiveType.REDUCE_SCATTER, "keys and values gradient", cp, node)

    def _round(self, kind: CollectiveType, what: str, times: int, node: int) -> int:
        """Keys and values, or their gradients, among the ranks that share a sequence."""
        sizes = self.sizes
        size = sizes.tokens * (sizes.qkv - sizes.queries) * sizes.value_bytes * times
        return self.collective(what, kind, size, node, role="cp")

    def _part_of_flash(self, name: str, keys: int, node: int, *, backward: bool) -> int:
        """Attention of this rank's queries to so many keys of each sequence."""
        sizes, model = self.sizes, self.spec.model
        queries = model.sequence // self.spec.parallel.cp
        product = 2 * (sizes.scores // model.sequence * keys) * sizes.head_size
        tokens, statistics = sizes.tokens * sizes.value_bytes, sizes.tokens * sizes.heads * 4
        inputs = tokens * sizes.queries + tokens * (sizes.qkv - sizes.queries) * keys // queries
        output = tokens * sizes.queries
        shape = (self.spec.batch.micro_batch * sizes.heads, queries, keys, sizes.head_size)
        products, again, read, written = 2, 0, inputs, output + statistics
        if backward:
            products, again, read, written = 5, product, inputs + 2 * output + statistics, inputs
        kind, dtype = WorkKind.ATTENTION, self.spec.dtype
        return self.append(Op(name, kind, products * product, read, written, shape, model.causal, dtype, again), node)

    def _softmax(self, name: str, reads: int, node: int) -> int:
        """Over materialised scores, scaled and masked in the same kernel, which does not read what is masked."""
        size = self.sizes.scores * self.sizes.value_bytes
        read = reads * size // 2 if self.spec.model.causal else reads * size
        return self.compute(name, WorkKind.SOFTMAX, 5 * self.sizes.scores, read, size, node)

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
        sizes = self.sizes
        keys = (sizes.qkv - sizes.queries) // 2
        return self.styled("rotary", "rotary", sizes.tokens * (sizes.queries + keys), node, operations=3)


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
