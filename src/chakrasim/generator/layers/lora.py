"""Attention whose matrices are frozen, with low-rank adapters beside them (Hu et al. 2021, arXiv:2106.09685).

An adapter is a matrix down to ``rank`` elements and one up, whose product is added to that of the frozen matrix. Tensor
ranks split both: beside queries, keys and values both by columns; beside the output matrix the first by rows, as it
takes this rank's heads, the second by columns, whose parts go to the ranks of the tokens through an all-to-all.
"""

from __future__ import annotations

from chakrasim.generator.layers.dense import Attention
from chakrasim.generator.layers.sizes import Sizes
from chakrasim.generator.layers.tape import Tape
from chakrasim.generator.spec.spec import Adapters
from chakrasim.trace.kinds import CollectiveType


def adapter_activations(sizes: Sizes, lora: Adapters) -> int:
    """Bytes kept of what is between the matrices of a layer's adapters."""
    return 2 * sizes.tokens * lora.rank * sizes.value_bytes


class AdaptedAttention(Attention):
    """Norm, queries, keys and values, attention, output matrix, residual; adapters beside the matrices."""

    def __init__(self, sizes: Sizes, tape: Tape, keys: int, lora: Adapters) -> None:
        super().__init__(sizes, tape, keys)
        self.rank = lora.rank
        self.part = lora.rank // sizes.tp
        """Columns of the first matrix beside queries, keys and values on this rank."""
        self.columns = sizes.hidden // sizes.tp
        """Of the second matrix beside the output matrix."""

    def first(self, node: int) -> int:
        """Queries, keys and values."""
        sizes = self.sizes
        frozen = super().first(node)
        low = self.gemm("qkv adapter down", sizes.tokens, self.part, sizes.hidden, node)
        low = self._tensor("qkv adapter gather", CollectiveType.ALL_GATHER, sizes.tokens * self.part, low)
        low = self.gemm("qkv adapter up", sizes.tokens, sizes.qkv, self.rank, low)
        return self._sum("qkv adapter sum", sizes.tokens * sizes.qkv, frozen, low)

    def first_backward(self, node: int) -> int:
        """Gradients of `first`; returns the node that has that of the input, summed over ranks."""
        sizes = self.sizes
        again = self._enter_again("qkv", node)
        self.gemm("qkv adapter up weight gradient", self.rank, sizes.qkv, sizes.tokens, node, added=True)
        low = self.gemm("qkv adapter up input gradient", sizes.tokens, self.rank, sizes.qkv, node)
        low = self._tensor("qkv adapter scatter", CollectiveType.REDUCE_SCATTER, sizes.tokens * self.rank, low)
        frozen = self.input_gradient("qkv", sizes.qkv, sizes.hidden, node)
        found = self.gemm("qkv adapter down input gradient", sizes.tokens, sizes.hidden, self.part, low)
        found = self._sum("qkv input gradient sum", sizes.tokens * sizes.hidden, frozen, found)
        left = self.leave("qkv input gradient", found)
        name = "qkv adapter down weight gradient"
        self.gemm(name, sizes.hidden, self.part, sizes.tokens, low, *again, added=True)
        return left

    def last(self, node: int) -> int:
        """The output matrix and the sum over tensor-parallel ranks."""
        sizes = self.sizes
        frozen = super().last(node)
        low = self._summed(self.gemm("output adapter down", sizes.tokens, self.rank, self.outputs, node))
        found = self.gemm("output adapter up", sizes.tokens, self.columns, self.rank, low)
        kind = CollectiveType.ALL_TO_ALL if self.spec.parallel.sp else CollectiveType.ALL_GATHER
        found = self._tensor("output adapter exchange", kind, sizes.tokens * self.columns, found)
        return self._sum("output adapter sum", sizes.own_elements, frozen, found)

    def last_backward(self, node: int) -> int:
        """Gradients of `last`, but the sum; returns the node that has that of the input."""
        sizes = self.sizes
        frozen = super().last_backward(node)
        name = "output adapter up weight gradient"
        self.gemm(name, self.rank, self.columns, sizes.tokens, node, added=True)
        low = self._summed(self.gemm("output adapter up input gradient", sizes.tokens, self.rank, self.columns, node))
        name = "output adapter down weight gradient"
        self.gemm(name, self.outputs, self.rank, sizes.tokens, low, added=True)
        found = self.gemm("output adapter down input gradient", sizes.tokens, self.outputs, self.rank, low)
        return self._sum("attention output input gradient sum", sizes.tokens * self.outputs, frozen, found)

    def _summed(self, node: int) -> int:
        """What is between the matrices beside the output matrix: the sum over tensor ranks, for all tokens."""
        elements = self.sizes.tokens * self.rank
        return self._tensor("output adapter sum over ranks", CollectiveType.ALL_REDUCE, elements, node)

    def _sum(self, name: str, elements: int, *nodes: int) -> int:
        return self.elementwise(name, elements, 2, 1, *nodes, operations=2)

    def _tensor(self, what: str, kind: CollectiveType, elements: int, node: int) -> int:
        if not self._split:
            return node
        return self.collective(what, kind, elements * self.sizes.value_bytes, node)
