"""What the parts of a layer are written with: work with its operations and bytes, and tensor-parallel collectives.

A multiply-add is two operations. Operations of what is no matrix product are rough (a few for each element): such work
is bound by its bytes, which count each operand once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Final

from chakrasim.generator.layers.sizes import Sizes
from chakrasim.generator.layers.style import passes_of
from chakrasim.generator.layers.tape import FORWARD, Op, Phase, Tape
from chakrasim.generator.spec.spec import BYTES_OF
from chakrasim.trace.kinds import CollectiveType
from chakrasim.trace.work import WorkKind

NARROW_BYTES: Final = {"float8": 1.0, "mxfp8": 1 + 1 / 32, "nvfp4": 0.5 + 1 / 16}
"""Of an element with its share of the scales: one of a byte for 32 elements (OCP MX formats 1.0) or for 16 (NVFP4)."""


@dataclass(frozen=True)
class Again:
    """What is computed again alone: names of `chakrasim.generator.spec.spec.OPERATORS`."""

    operators: tuple[str, ...]
    part: str
    """"attention", "feed_forward", "experts" or "mamba"."""

    @property
    def halves(self) -> bool:
        """Half of the matrix products are computed again."""
        return "half_of_matrices" in self.operators

    @property
    def whole(self) -> bool:
        """The whole part is computed again, but its norm; experts with all that they send."""
        return not self.halves and self.part in self.operators and self.part in ("feed_forward", "experts")

    def holds(self, op: Op) -> bool:
        """Whether an operation is computed again. Behind the last product of a part nothing needs to be."""
        if self.halves:
            last = op.name in ("attention output", "down") or "residual" in op.name or "adapter" in op.name
            return self.part in ("attention", "feed_forward") and op.kind != WorkKind.ATTENTION and not last
        if self.whole:
            return op.kind != WorkKind.NORMALIZATION and "residual" not in op.name
        return (
            ("norm" in self.operators and op.kind == WorkKind.NORMALIZATION)
            or ("activation" in self.operators and op.name.endswith("activation"))
            or ("attention" in self.operators and op.kind == WorkKind.ATTENTION)
            or ("latents" in self.operators and "latents up" in op.name)
        )


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
        self.again: Again | None = None
        """Which of the work is written, while only some of it is computed again."""

    def at(self, where: str, phase: Phase) -> None:
        """Say what is written from here on."""
        self.where, self.phase = f"{where} {phase}", phase

    def compute(
        self, name: str, kind: WorkKind, flops: int, read: int, written: int, *after: int, dtype: str = ""
    ) -> int:
        """Work without a shape, in the spec's type or another."""
        return self.append(Op(name, kind, flops, read, written, dtype=dtype or self.spec.dtype), *after)

    def append(self, op: Op, *after: int) -> int:
        """Any work; of what is computed again alone, what belongs to it."""
        if self.again is not None and not self.again.holds(op):
            return after[0]
        return self.tape.compute(op, after, self.phase, self.where)

    # --- matrix products ---

    def gemm(
        self, name: str, m: int, n: int, k: int, *after: int, batch: int = 1, bias: bool = False, added: bool = False,
        narrow: bool = False, dtype: str = "",
    ) -> int:  # fmt: skip
        """``batch`` products of m x k by k x n, perhaps ``added`` to gradients in memory; ``narrow``: of operands in
        the spec's type of the layers' matrices; else in the spec's type or another."""
        dtype = dtype or self.spec.dtype
        size = BYTES_OF[dtype]
        operands: float = size
        if narrow and self.spec.matrix_dtype != "none":
            dtype = self.spec.matrix_dtype
            operands = NARROW_BYTES[dtype]
        n = n // 2 if self.again is not None and self.again.halves else n
        written = batch * m * n * (self.spec.gradient_bytes if added and self.spec.parallel.zero != 3 else size)
        read = round(batch * (m * k + k * n) * operands) + batch * (n if bias else 0) * size
        shape = (batch, m, n, k)
        # Sharded gradients are of one micro-batch, else they are added to those of the others.
        read += written if added and self.spec.parallel.zero != 3 else 0
        return self.append(Op(name, WorkKind.GEMM, 2 * prod(shape), read, written, shape, dtype=dtype), *after)

    def narrowed(self, name: str, elements: int, *after: int) -> tuple[int, ...]:
        """What goes into a product, converted to the spec's type of matrices, by rows and by columns: one direction is
        for the product now, the other for that of the weight's gradient. Nothing where there is no such type."""
        if self.spec.matrix_dtype == "none":
            return after
        size, narrow = self.sizes.value_bytes, NARROW_BYTES[self.spec.matrix_dtype]
        read, written = elements * size, round(2 * elements * narrow)
        kind = WorkKind.ELEMENTWISE
        return (self.compute(f"{name} in {self.spec.matrix_dtype}", kind, 2 * elements, read, written, *after),)

    def matrix(self, name: str, n: int, k: int, node: int) -> int:
        """Tokens times a matrix of k x n."""
        tokens = self.sizes.tokens
        inputs = self.narrowed(f"{name} input", tokens * k, node)
        return self.gemm(name, tokens, n, k, *inputs, bias=self.spec.model.bias, narrow=True)

    def input_gradient(self, name: str, n: int, k: int, node: int) -> int:
        """The gradient of what went into a matrix of k x n."""
        narrow = name != "head"
        gradients = self.narrowed(f"{name} gradient", self.sizes.tokens * n, node) if narrow else (node,)
        return self.gemm(f"{name} input gradient", self.sizes.tokens, k, n, *gradients, narrow=narrow)

    def weight_gradient(self, name: str, n: int, k: int, *nodes: int) -> int:
        """The gradient of a matrix of k x n, added up, if it is trained."""
        if self.frozen:
            return nodes[0]
        tokens, narrow = self.sizes.tokens, name != "head"
        return self.gemm(f"{name} weight gradient", k, n, tokens, *nodes, added=True, narrow=narrow)

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

    def styled(
        self, name: str, what: str, elements: int, *after: int, operations: int, kind: WorkKind = WorkKind.ELEMENTWISE
    ) -> int:
        """Work on ``elements`` whose traffic depends on how programs are run (`chakrasim.generator.layers.style`)."""
        passes, size = passes_of(self.spec, what), self.sizes.value_bytes
        read, written = passes.read(elements, size), passes.written(elements, size)
        op = Op(name, kind, elements * operations, read, written, dtype=self.spec.dtype, kernels=passes.kernels)
        return self.append(op, *after)

    def norm(self, name: str, node: int, width: int = 0) -> int:
        """Normalise this rank's tokens, or so many elements of each."""
        kind, elements = WorkKind.NORMALIZATION, self.sizes.own_tokens * (width or self.sizes.hidden)
        return self.styled(f"{name} norm", "norm", elements, node, operations=4, kind=kind)

    def norm_gradient(self, name: str, *nodes: int, width: int = 0) -> int:
        """The gradient of a norm's input."""
        elements, kind = self.sizes.own_tokens * (width or self.sizes.hidden), WorkKind.NORMALIZATION
        return self.styled(f"{name} norm gradient", "norm gradient", elements, *nodes, operations=8, kind=kind)

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
        """A collective in the spec's type or another; for what is computed again alone, those of experts."""
        if self.again is not None and not (self.again.whole and self.again.part == "experts"):
            return next(iter(after))
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
