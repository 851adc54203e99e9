"""What the parts of a layer are written with: work with its operations and bytes, and tensor-parallel collectives.

A multiply-add is two operations. Operations of what is no matrix product are rough (a few for each element): such work
is bound by its bytes, which count each operand once.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from chakrasim.generator.layers.sizes import Sizes
from chakrasim.generator.layers.tape import FORWARD, Op, Phase, Tape
from chakrasim.generator.spec.spec import BYTES_OF
from chakrasim.trace.kinds import CollectiveType
from chakrasim.trace.work import WorkKind


class Part:
    """Writes nodes of a part of a layer to a tape; what appends work returns its node."""

    def __init__(self, sizes: Sizes, tape: Tape) -> None:
        self.sizes = sizes
        self.spec = sizes.spec
        self.frozen = sizes.spec.lora is not None
        """Whether matrices and norms are not trained: there are no gradients of them, only of what went in."""
        self.tape = tape
        self.phase: Phase = FORWARD
        self.where = ""

    def at(self, where: str, phase: Phase) -> None:
        """Say what is written from here on."""
        self.where, self.phase = f"{where} {phase}", phase

    def compute(
        self, name: str, kind: WorkKind, flops: int, read: int, written: int, *after: int, dtype: str = ""
    ) -> int:
        """Work without a shape, in the spec's type or another."""
        return self.append(Op(name, kind, flops, read, written, dtype=dtype or self.spec.dtype), *after)

    def append(self, op: Op, *after: int) -> int:
        """Any work."""
        return self.tape.compute(op, after, self.phase, self.where)

    # --- matrix products ---

    def gemm(
        self, name: str, m: int, n: int, k: int, *after: int, batch: int = 1, bias: bool = False, added: bool = False,
        dtype: str = "",
    ) -> int:  # fmt: skip
        """``batch`` products of m x k by k x n, perhaps ``added`` to gradients in memory."""
        size = BYTES_OF[dtype] if dtype else self.sizes.value_bytes
        written = batch * m * n * (self.spec.gradient_bytes if added else size)
        read = batch * (m * k + k * n + (n if bias else 0)) * size + (written if added else 0)
        shape = (batch, m, n, k)
        dtype = dtype or self.spec.dtype
        return self.append(Op(name, WorkKind.GEMM, 2 * prod(shape), read, written, shape, dtype=dtype), *after)

    def matrix(self, name: str, n: int, k: int, node: int) -> int:
        """Tokens times a matrix of k x n."""
        return self.gemm(name, self.sizes.tokens, n, k, node, bias=self.spec.model.bias)

    def input_gradient(self, name: str, n: int, k: int, node: int) -> int:
        """The gradient of what went into a matrix of k x n."""
        return self.gemm(f"{name} input gradient", self.sizes.tokens, k, n, node)

    def weight_gradient(self, name: str, n: int, k: int, *nodes: int) -> int:
        """The gradient of a matrix of k x n, added up, if it is trained."""
        if self.frozen:
            return nodes[0]
        return self.gemm(f"{name} weight gradient", k, n, self.sizes.tokens, *nodes, added=True)

    # --- work on elements ---

    def elementwise(
        self,
        name: str,
        elements: int,
        reads: int,
        writes: int,
        *after: int,
        operations: int = 1,
        kind: WorkKind = WorkKind.ELEMENTWISE,
    ) -> int:
        """Work on ``elements``, each read and written so many times (in the spec's dtype)."""
        size = self.sizes.value_bytes * elements
        return self.compute(name, kind, elements * operations, reads * size, writes * size, *after)

    def norm(self, name: str, node: int, width: int = 0) -> int:
        """Normalise this rank's tokens, or so many elements of each."""
        kind, elements = WorkKind.NORMALIZATION, self.sizes.own_tokens * (width or self.sizes.hidden)
        return self.elementwise(f"{name} norm", elements, 1, 1, node, operations=4, kind=kind)

    def norm_gradient(self, name: str, *nodes: int, width: int = 0) -> int:
        """The gradient of a norm's input."""
        elements, kind = self.sizes.own_tokens * (width or self.sizes.hidden), WorkKind.NORMALIZATION
        return self.elementwise(f"{name} norm gradient", elements, 2, 1, *nodes, operations=8, kind=kind)

    def norm_gradient_sum(self, name: str, *nodes: int) -> int:
        """The same, and its sum with that of the residual."""
        node = self.norm_gradient(name, *nodes)
        return self.elementwise(f"{name} gradient sum", self.sizes.own_elements, 2, 1, node)

    def bias_gradient(self, name: str, tokens: int, columns: int, node: int) -> None:
        """The gradient of a bias, if there are any: sums over tokens."""
        if self.spec.model.bias and not self.frozen:
            elements, size = tokens * columns, self.sizes.value_bytes
            self.compute(f"{name} bias gradient", WorkKind.REDUCTION, elements, elements * size, columns * size, node)

    def dropout(self, name: str, elements: int, reads: int, node: int, *, backward: bool = False) -> int:
        """Dropout, alone or with what is fused with it. It writes a mask of a byte for each of ``elements`` for the
        backward pass, or there reads it."""
        size = self.sizes.value_bytes * elements
        read, written = (reads * size + elements, size) if backward else (reads * size, size + elements)
        return self.compute(name, WorkKind.ELEMENTWISE, elements * (3 if reads > 1 else 1), read, written, node)

    def residual(self, name: str, node: int) -> int:
        """Bias, dropout and the sum with the part's input, in one kernel."""
        if self.spec.model.dropout:
            return self.dropout(f"{name} residual", self.sizes.own_elements, 2, node)
        return self.elementwise(f"{name} residual", self.sizes.own_elements, 2, 1, node)

    def residual_gradient(self, name: str, node: int) -> int:
        """The gradient of dropout, without which the gradient goes on as it is, and of the bias before it."""
        if self.spec.model.dropout:
            node = self.dropout(f"{name} dropout gradient", self.sizes.own_elements, 1, node, backward=True)
        self.bias_gradient(f"{name} output", self.sizes.own_tokens, self.sizes.hidden, node)
        return node

    # --- tensor parallelism ---

    @property
    def _split(self) -> bool:
        return self.sizes.tp > 1

    def collective(
        self, what: str, kind: CollectiveType, size: int, *after: int, role: str = "tp", dtype: str = "",
        control: Iterable[int] = (),
    ) -> int:  # fmt: skip
        """A collective in the spec's type or another."""
        dtype = dtype or self.spec.dtype
        return self.tape.collective(what, kind, size, role, dtype, after, self.phase, self.where, control)

    def _enter_again(self, what: str, behind: int) -> list[int]:
        """Gather what sequence parallelism kept in parts, once ``behind`` is done; else nothing."""
        if not self._split or not self.spec.parallel.sp:
            return []
        kind, size = CollectiveType.ALL_GATHER, self.sizes.own_bytes
        return [self.collective(f"{what} input gather", kind, size, control=[behind])]

    def enter(self, what: str, node: int) -> int:
        """The whole hidden state, of which ``node`` has this rank's tokens if there is sequence parallelism."""
        if not self._split or not self.spec.parallel.sp:
            return node
        return self.collective(f"{what} gather", CollectiveType.ALL_GATHER, self.sizes.own_bytes, node)

    def leave(self, what: str, node: int) -> int:
        """The sum of all ranks' partial results: whole, or with sequence parallelism this rank's tokens."""
        if not self._split:
            return node
        if self.spec.parallel.sp:
            return self.collective(f"{what} scatter", CollectiveType.REDUCE_SCATTER, self.sizes.full_bytes, node)
        return self.collective(f"{what} sum", CollectiveType.ALL_REDUCE, self.sizes.full_bytes, node)

    def first_gradients(self, name: str, n: int, gradient: int) -> int:
        """Gradients of the first, column-split matrix of a part: of its input, then of the matrix.

        The sum over ranks (or scatter) of the former runs during the latter, if the spec lets it; so does, during the
        former, the second gathering of the input that sequence parallelism did not keep whole.
        """
        hidden, overlap = self.sizes.hidden, self.spec.overlap.tp
        if self.frozen:
            return self.leave(f"{name} input gradient", self.input_gradient(name, n, hidden, gradient))
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
