"""Work of compute nodes with its operations and bytes.

A multiply-add is two operations. Operations of what is no matrix product are rough (a few for each element): such work
is bound by its bytes, which count each operand once.
"""

from __future__ import annotations

from chakrasim.generator.layers.tape import Op
from chakrasim.generator.spec.spec import Spec
from chakrasim.trace.work import WorkKind


class Sizes:
    """Sizes of one micro-batch on one rank of a spec. Elements, unless a name says otherwise."""

    def __init__(self, spec: Spec) -> None:
        model, parallel = spec.model, spec.parallel
        self.spec = spec
        self.tp = parallel.tp
        """Ranks that share a matrix."""
        self.tokens = spec.tokens
        """Tokens of a micro-batch."""
        self.own_tokens = self.tokens // self.tp if parallel.sp else self.tokens
        """Tokens whose norms, residuals and dropout are this rank's work: a part of them with sequence parallelism."""
        self.value_bytes = spec.value_bytes
        """Bytes of a value of the spec's dtype."""
        self.hidden = model.hidden
        """Elements of a token."""
        self.heads = model.heads // self.tp
        """Query heads of this rank."""
        self.head_size = model.head_size
        """Elements of a head."""
        self.queries = self.heads * self.head_size
        """Elements of a token's queries on this rank."""
        self.qkv = self.queries + 2 * (model.kv_heads // self.tp) * self.head_size
        """Elements of a token's queries, keys and values on this rank."""
        self.scores = spec.batch.micro_batch * self.heads * model.sequence**2
        """Attention scores of this rank: all heads, queries and keys, causal or not."""
        self.vocabulary = model.vocabulary // self.tp
        """Rows of the embedding on this rank."""
        self.own_bytes = self.own_tokens * self.hidden * self.value_bytes
        """Bytes of a micro-batch's hidden state as this rank keeps it between layers."""
        self.full_bytes = self.tokens * self.hidden * self.value_bytes
        """Bytes of a micro-batch's whole hidden state."""
        self.in_parts = parallel.scatter_gather and not parallel.sp and self.tp > 1
        """Whether each rank sends its part of a hidden state that it has whole."""
        self.sent_bytes = -(-self.own_bytes // self.tp) if self.in_parts else self.own_bytes
        """Bytes of a message to another stage."""

    # --- work ---

    def gemm(self, name: str, m: int, n: int, k: int, batch: int = 1, bias: bool = False) -> Op:
        """``batch`` products of m x k by k x n."""
        size = self.value_bytes
        read = batch * (m * k + k * n + (n if bias else 0)) * size
        shape = (batch, m, n, k)
        return Op(name, WorkKind.GEMM, 2 * batch * m * n * k, read, batch * m * n * size, shape, dtype=self.spec.dtype)

    def weight_gradient(self, name: str, m: int, n: int, k: int, batch: int = 1) -> Op:
        """``batch`` products of m x k by k x n, added to gradients in memory."""
        size, kept = self.value_bytes, self.spec.gradient_bytes
        added = batch * m * n * kept
        read = batch * (m * k + k * n) * size + added
        return Op(name, WorkKind.GEMM, 2 * batch * m * n * k, read, added, (batch, m, n, k), dtype=self.spec.dtype)

    def elementwise(
        self,
        name: str,
        elements: int,
        reads: int,
        writes: int,
        operations: int = 1,
        kind: WorkKind = WorkKind.ELEMENTWISE,
    ) -> Op:
        """Work on ``elements``, each read and written so many times (in the spec's dtype)."""
        size = self.value_bytes * elements
        return Op(name, kind, elements * operations, reads * size, writes * size, dtype=self.spec.dtype)

    def dropout(self, name: str, elements: int, reads: int, operations: int = 1, *, backward: bool = False) -> Op:
        """Work on ``elements`` that writes a mask of a byte each for the backward pass, or there reads it."""
        read, written = reads * self.value_bytes * elements, self.value_bytes * elements
        read, written = (read + elements, written) if backward else (read, written + elements)
        return Op(name, WorkKind.ELEMENTWISE, elements * operations, read, written, dtype=self.spec.dtype)

    def column_sums(self, name: str, tokens: int, columns: int) -> Op:
        """Sums over tokens, such as the gradient of a bias."""
        read, written = tokens * columns * self.value_bytes, columns * self.value_bytes
        return Op(name, WorkKind.REDUCTION, tokens * columns, read, written, dtype=self.spec.dtype)

    def norm(self, name: str) -> Op:
        """Normalisation of this rank's tokens."""
        return self.elementwise(name, self.own_tokens * self.hidden, 1, 1, 4, WorkKind.NORMALIZATION)

    def norm_backward(self, name: str) -> Op:
        """Gradient of a norm."""
        return self.elementwise(name, self.own_tokens * self.hidden, 2, 1, 8, WorkKind.NORMALIZATION)

    def attention(self, name: str, *, backward: bool = False) -> Op:
        """Attention in one kernel, scores not written. Operations as if not causal, as PyTorch counts.

        Forward two products of queries x keys x head size; backward five, one of which repeats the scores (Dao et al.
        2022, arXiv:2205.14135, algorithm 4).
        """
        product = 2 * self.scores * self.head_size
        batch = self.spec.batch.micro_batch
        tokens = self.tokens * self.value_bytes
        statistics = self.tokens * self.heads * 4
        inputs, output = tokens * self.qkv, tokens * self.queries
        sequence = self.spec.model.sequence
        shape = (batch * self.heads, sequence, sequence, self.head_size)
        causal = self.spec.model.causal
        if backward:
            read, written = inputs + 2 * output + statistics, inputs
            again = product
            return Op(name, WorkKind.ATTENTION, 5 * product, read, written, shape, causal, self.spec.dtype, again)
        return Op(name, WorkKind.ATTENTION, 2 * product, inputs, output + statistics, shape, causal, self.spec.dtype)

    def softmax(self, name: str, reads: int, writes: int) -> Op:
        """Over materialised scores, scaled and masked in the same kernel, which does not read what is masked."""
        size = self.scores * self.value_bytes
        read = reads * size // 2 if self.spec.model.causal else reads * size
        return Op(name, WorkKind.SOFTMAX, 5 * self.scores, read, writes * size, dtype=self.spec.dtype)
