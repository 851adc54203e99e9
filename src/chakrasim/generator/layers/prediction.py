"""What is in front of a layer that predicts one more token (DeepSeek-AI 2024, arXiv:2412.19437, section 2.2)."""

from __future__ import annotations

from chakrasim.generator.layers.ends import Embedding
from chakrasim.generator.layers.part import Part
from chakrasim.generator.layers.sizes import Sizes
from chakrasim.generator.layers.tape import Phase, Tape
from chakrasim.trace.kinds import CollectiveType
from chakrasim.trace.work import WorkKind


def projection_activations(sizes: Sizes) -> int:
    """Bytes that the norms and the projection keep."""
    return 4 * sizes.own_bytes


class Prediction(Part):
    """The next token's embedding and the hidden state, each with a norm, and a matrix that makes one of the two.

    The matrix is split by columns, and what comes of it is gathered.
    """

    def __init__(self, sizes: Sizes, tape: Tape) -> None:
        super().__init__(sizes, tape)
        self.embedding = Embedding(sizes, tape)
        self.columns = sizes.hidden // sizes.tp

    def at(self, where: str, phase: Phase) -> None:
        """Say what is written from here on."""
        super().at(where, phase)
        self.embedding.at(where, phase)

    def forward(self, node: int) -> int:
        """All of it; returns the node that has the input of the layer."""
        sizes = self.sizes
        token = self.norm("token", self.embedding.forward(node))
        node = self.norm("hidden", node)
        node = self.elementwise("token beside hidden", 2 * sizes.own_elements, 1, 1, node, token, kind=WorkKind.COPY)
        if self._split and self.spec.parallel.sp:
            node = self.collective("projection gather", CollectiveType.ALL_GATHER, 2 * sizes.own_bytes, node)
        inputs = self.narrowed("projection input", 2 * sizes.tokens * sizes.hidden, node)
        node = self.gemm("projection", sizes.tokens, self.columns, 2 * sizes.hidden, *inputs, narrow=True)
        if not self._split:
            return node
        size = sizes.tokens * self.columns * sizes.value_bytes
        return self.collective("projection columns gather", CollectiveType.ALL_GATHER, size, node)

    def backward(self, node: int, hidden: int) -> int:
        """Gradients of everything in `forward`; ``hidden`` is another gradient of the hidden state, which is added."""
        sizes, width = self.sizes, 2 * self.sizes.hidden
        node = self.enter("projection gradient", node)
        again: list[int] = []
        if self._split and self.spec.parallel.sp and not self.frozen:
            kind, size = CollectiveType.ALL_GATHER, 2 * sizes.own_bytes
            again = [self.collective("projection second gather", kind, size, control=[node])]
        found = self.input_gradient("projection", self.columns, width, node)
        if self._split:
            kind = CollectiveType.REDUCE_SCATTER if self.spec.parallel.sp else CollectiveType.ALL_REDUCE
            found = self.collective("projection input gradient sum", kind, 2 * sizes.full_bytes, found)
        self.weight_gradient("projection", self.columns, width, node, *again)
        self.embedding.backward(self.norm_gradient("token", found))
        return self.norm_gradient_sum("hidden", found, hidden)
