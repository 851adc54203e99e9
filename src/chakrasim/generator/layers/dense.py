"""Attention and the dense feed-forward part of a layer, forward and backward.

Tensor and sequence parallelism as in Megatron-LM (Shoeybi et al. 2019, arXiv:1909.08053, section 3; Korthikanti et al.
2022, arXiv:2205.05198, section 4.2): the first matrix of a part is split by columns, the last by rows. Without
sequence parallelism a part ends in an all-reduce forward and another backward; with it, it is entered through an
all-gather and left through a reduce-scatter, the opposite backward, and what was gathered is gathered again for the
gradient of the first matrix.
"""

from __future__ import annotations

from chakrasim.generator.layers.tape import BACKWARD, FORWARD, Phase, Tape
from chakrasim.generator.layers.work import Sizes
from chakrasim.trace.kinds import CollectiveType
from chakrasim.trace.work import WorkKind


class Part:
    """What the parts of a layer share: sizes, the tape that they are written to, and tensor-parallel collectives."""

    def __init__(self, sizes: Sizes, tape: Tape) -> None:
        self.sizes = sizes
        self.spec = sizes.spec
        self.tape = tape
        self.phase: Phase = FORWARD
        self.where = ""

    def at(self, where: str, phase: Phase) -> None:
        """Say what is written from here on."""
        self.where, self.phase = f"{where} {phase}", phase

    @property
    def _split(self) -> bool:
        return self.sizes.tp > 1

    def _tp(self, what: str, kind: CollectiveType, size: int, after: int) -> int:
        return self.tape.collective(what, kind, size, "tp", self.spec.dtype, [after], self.phase, self.where)

    def _enter_again(self, what: str, behind: int) -> list[int]:
        """Gather what sequence parallelism kept in parts, once ``behind`` is done; else nothing."""
        if not self._split or not self.spec.parallel.sp:
            return []
        kind, size = CollectiveType.ALL_GATHER, self.sizes.own_bytes
        name = f"{what} input gather"
        return [self.tape.collective(name, kind, size, "tp", self.spec.dtype, [], self.phase, self.where, [behind])]

    def enter(self, what: str, node: int) -> int:
        """The whole hidden state, of which ``node`` has this rank's tokens if there is sequence parallelism."""
        if not self._split or not self.spec.parallel.sp:
            return node
        return self._tp(f"{what} gather", CollectiveType.ALL_GATHER, self.sizes.own_bytes, node)

    def leave(self, what: str, node: int) -> int:
        """The sum of all ranks' partial results: whole, or with sequence parallelism this rank's tokens."""
        if not self._split:
            return node
        if self.spec.parallel.sp:
            return self._tp(f"{what} scatter", CollectiveType.REDUCE_SCATTER, self.sizes.full_bytes, node)
        return self._tp(f"{what} sum", CollectiveType.ALL_REDUCE, self.sizes.full_bytes, node)

    def matrix(self, name: str, n: int, k: int, node: int) -> int:
        """Tokens times a matrix of k x n."""
        op = self.sizes.gemm(name, self.sizes.tokens, n, k, bias=self.spec.model.bias)
        return self.tape.compute(op, [node], self.phase, self.where)

    def input_gradient(self, name: str, n: int, k: int, node: int) -> int:
        """The gradient of what went into a matrix of k x n."""
        op = self.sizes.gemm(f"{name} input gradient", self.sizes.tokens, k, n)
        return self.tape.compute(op, [node], self.phase, self.where)

    def weight_gradient(self, name: str, n: int, k: int, *nodes: int) -> int:
        """The gradient of a matrix of k x n, added up."""
        op = self.sizes.weight_gradient(f"{name} weight gradient", k, n, self.sizes.tokens)
        return self.tape.compute(op, nodes, self.phase, self.where)

    def elementwise(self, name: str, elements: int, reads: int, writes: int, node: int, operations: int = 1) -> int:
        """Work on elements."""
        op = self.sizes.elementwise(name, elements, reads, writes, operations)
        return self.tape.compute(op, [node], self.phase, self.where)

    def norm(self, name: str, node: int) -> int:
        """Normalise this rank's tokens."""
        return self.tape.compute(self.sizes.norm(f"{name} norm"), [node], self.phase, self.where)

    def norm_gradient(self, name: str, *nodes: int) -> int:
        """The gradient of a norm's input, and its sum with that of the residual."""
        node = self.tape.compute(self.sizes.norm_backward(f"{name} norm gradient"), nodes, self.phase, self.where)
        return self.elementwise(f"{name} gradient sum", self.sizes.own_tokens * self.sizes.hidden, 2, 1, node)

    def bias_gradient(self, name: str, tokens: int, columns: int, node: int) -> None:
        """The gradient of a bias, if there are any."""
        if self.spec.model.bias:
            op = self.sizes.column_sums(f"{name} bias gradient", tokens, columns)
            self.tape.compute(op, [node], self.phase, self.where)

    def dropout(self, name: str, elements: int, reads: int, node: int, *, backward: bool = False) -> int:
        """Dropout, alone or with what is fused with it."""
        op = self.sizes.dropout(name, elements, reads, 3 if reads > 1 else 1, backward=backward)
        return self.tape.compute(op, [node], self.phase, self.where)

    def residual(self, name: str, node: int) -> int:
        """Bias, dropout and the sum with the part's input, in one kernel."""
        elements = self.sizes.own_tokens * self.sizes.hidden
        if self.spec.model.dropout:
            return self.dropout(f"{name} residual", elements, 2, node)
        return self.elementwise(f"{name} residual", elements, 2, 1, node)

    def residual_gradient(self, name: str, node: int) -> int:
        """The gradient of dropout, without which the gradient goes on as it is, and of the bias before it."""
        tokens, hidden = self.sizes.own_tokens, self.sizes.hidden
        if self.spec.model.dropout:
            node = self.dropout(f"{name} dropout gradient", tokens * hidden, 1, node, backward=True)
        self.bias_gradient(f"{name} output", tokens, hidden, node)
        return node

    def first_gradients(self, name: str, n: int, gradient: int) -> int:
        """Gradients of the first, column-split matrix of a part: of its input, then of the matrix.

        The sum over ranks (or scatter) of the former runs during the latter, if the spec lets it; so does, during the
        former, the second gathering of the input that sequence parallelism did not keep whole.
        """
        hidden, overlap = self.sizes.hidden, self.spec.overlap.tp
        again = self._enter_again(name, gradient) if overlap else []
        node = self.input_gradient(name, n, hidden, gradient)
        left = self.leave(f"{name} input gradient", node)
        if not overlap:
            again = self._enter_again(name, node)
            if left != node:
                self.tape.hold(left)
        self.weight_gradient(name, n, hidden, gradient, *again)
        if name != "head":
            self.bias_gradient(name, self.sizes.tokens, n, gradient)
        return left


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
        return self.norm_gradient("attention", left, residual)

    def core(self, node: int) -> int:
        """Attention without its matrices."""
        sizes, spec = self.sizes, self.spec
        if spec.flash_attention:
            return self.tape.compute(sizes.attention("attention"), [node], self.phase, self.where)
        batch, sequence = spec.batch.micro_batch * sizes.heads, spec.model.sequence
        scores = sizes.gemm("scores", sequence, sequence, sizes.head_size, batch)
        node = self.tape.compute(scores, [node], self.phase, self.where)
        node = self.tape.compute(sizes.softmax("softmax", 1, 1), [node], self.phase, self.where)
        if spec.model.dropout:
            node = self.dropout("attention dropout", sizes.scores, 1, node)
        weighted = sizes.gemm("weighted values", sequence, sizes.head_size, sequence, batch)
        node = self.tape.compute(weighted, [node], self.phase, self.where)
        return self._arrange("heads beside each other", sizes.queries, node)

    def core_gradient(self, node: int) -> int:
        """Gradients of queries, keys and values."""
        sizes, spec = self.sizes, self.spec
        if spec.flash_attention:
            op = sizes.attention("attention gradient", backward=True)
            return self.tape.compute(op, [node], self.phase, self.where)
        batch, sequence, head = spec.batch.micro_batch * sizes.heads, spec.model.sequence, sizes.head_size

        def product(name: str, m: int, n: int, k: int, after: int) -> int:
            return self.tape.compute(sizes.gemm(name, m, n, k, batch), [after], self.phase, self.where)

        node = self._arrange("heads behind each other", sizes.queries, node)
        product("values gradient", sequence, head, sequence, node)
        node = product("probabilities gradient", sequence, sequence, head, node)
        if spec.model.dropout:
            node = self.dropout("attention dropout gradient", sizes.scores, 1, node, backward=True)
        node = self.tape.compute(sizes.softmax("softmax gradient", 2, 1), [node], self.phase, self.where)
        product("keys gradient", sequence, head, sequence, node)
        node = product("queries gradient", sequence, head, sequence, node)
        return self._arrange("qkv gradient", sizes.qkv, node)

    def _arrange(self, name: str, elements: int, node: int) -> int:
        """Copy tokens' ``elements`` from the layout of batched products to that of matrices, or back."""
        op = self.sizes.elementwise(name, self.sizes.tokens * elements, 1, 1, 0, WorkKind.COPY)
        return self.tape.compute(op, [node], self.phase, self.where)

    def _core_again(self, gradient: int) -> int:
        """Selective recomputation: what core attention did not keep."""
        self.at(self.where.removesuffix(f" {BACKWARD}"), "recompute")
        self.core(gradient)
        self.at(self.where.removesuffix(" recompute"), BACKWARD)
        return gradient

    def _rotate(self, node: int) -> int:
        """Rotary positions of queries and keys (or, backward, of their gradients)."""
        if self.spec.model.position != "rotary":
            return node
        sizes = self.sizes
        keys = (sizes.qkv - sizes.queries) // 2
        return self.elementwise("rotary", sizes.tokens * (sizes.queries + keys), 1, 1, node, 3)


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
        return self.norm_gradient("feed-forward", left, residual)

    def inner(self, size: int, node: int, name: str = "") -> int:
        """The matrices and what is between them; ``size`` is this rank's part of the inner size."""
        width = 2 * size if self.spec.model.gated else size
        node = self.matrix(f"{name}up", width, self.sizes.hidden, node)
        reads = 2 if self.spec.model.gated else 1
        node = self.elementwise(f"{name}activation", self.sizes.tokens * size, reads, 1, node, 8)
        return self.matrix(f"{name}down", self.sizes.hidden, size, node)

    def inner_backward(self, size: int, node: int, name: str = "") -> int:
        """Gradients of `inner`; returns the node that has the gradient of its input, summed over ranks."""
        width = 2 * size if self.spec.model.gated else size
        gradient = self.input_gradient(f"{name}down", self.sizes.hidden, size, node)
        self.weight_gradient(f"{name}down", self.sizes.hidden, size, node)
        reads, writes = (3, 2) if self.spec.model.gated else (2, 1)
        gradient = self.elementwise(f"{name}activation gradient", self.sizes.tokens * size, reads, writes, gradient, 8)
        return self.first_gradients(f"{name}up", width, gradient)
