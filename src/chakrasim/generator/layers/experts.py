"""A feed-forward part made of experts.

Tokens go to their experts through an all-to-all among the ranks that share them (``ep``), and back. Under tensor
parallelism each rank sends the tokens of its part of the sequence, and what arrives is gathered over the tensor ranks,
which share each expert's matrices as they share all others; so no token is sent or routed twice. This is Megatron-LM's
all-to-all dispatcher; without sequence parallelism the parts are cut before and gathered after, as in DeepSpeed-TED
(Singh et al. 2023, arXiv:2303.06318). Tokens are spread evenly over experts.
"""

from __future__ import annotations

from chakrasim.generator.layers.dense import FeedForward
from chakrasim.generator.layers.tape import Op, Tape
from chakrasim.generator.layers.work import Sizes
from chakrasim.generator.spec.spec import Experts
from chakrasim.trace.kinds import CollectiveType
from chakrasim.trace.work import WorkKind


class ExpertFeedForward(FeedForward):
    """Norm, router, dispatch, experts, combine, residual."""

    def __init__(self, sizes: Sizes, tape: Tape, moe: Experts) -> None:
        super().__init__(sizes, tape)
        self.moe = moe
        self.local = moe.experts // self.spec.parallel.ep
        self.routed = sizes.tokens * moe.top_k
        """Tokens that this rank's experts work on, with every one of their copies."""
        self.part = sizes.tokens // sizes.tp
        """Tokens that this rank routes."""

    def forward(self, node: int) -> int:
        """All of it; returns the node that has the result."""
        normed = self.norm("feed-forward", node)
        node = self._route(normed)
        node = self._exchange("dispatch", self._permute("permute", node))
        node = self._gather("dispatch", node)
        node = self._experts(node)
        node = self._exchange("combine", self._scatter("combine", node))
        node = self._permute("unpermute", node)
        if self.moe.shared_feed_forward:
            shared = self.enter("shared experts", normed)
            shared = self.inner(self.moe.shared_feed_forward // self.sizes.tp, shared, "shared ")
            self.tape.need([self.leave("shared experts", shared)])
        return self.residual("feed-forward", self._whole("feed-forward", node))

    def backward(self, node: int) -> int:
        """Gradients of everything in `forward`; returns the node that has the gradient of the input."""
        residual = node
        incoming = self.residual_gradient("feed-forward", node)
        inputs: list[int] = []
        if self.moe.shared_feed_forward:
            shared = self.enter("shared experts gradient", incoming)
            inputs.append(self.inner_backward(self.moe.shared_feed_forward // self.sizes.tp, shared, "shared "))
        node = self._exchange("combine gradient", self._permute("unpermute gradient", incoming))
        node = self._gather("combine gradient", node)
        node = self._experts_backward(node)
        node = self._exchange("dispatch gradient", self._scatter("dispatch gradient", node))
        node = self._route_gradient(self._permute("permute gradient", node))
        node = self._whole("feed-forward gradient", node)
        return self.norm_gradient("feed-forward", node, *inputs, residual)

    def _route(self, node: int) -> int:
        hidden, experts = self.sizes.hidden, self.moe.experts
        router = self.sizes.gemm("router", self.part, experts, hidden)
        node = self.tape.compute(router, [node], self.phase, self.where)
        choice = self.sizes.elementwise("top experts", self.part * experts, 1, 1, 5, WorkKind.SOFTMAX)
        return self.tape.compute(choice, [node], self.phase, self.where)

    def _route_gradient(self, node: int) -> int:
        hidden, experts = self.sizes.hidden, self.moe.experts
        node = self.elementwise("top experts gradient", self.part * experts, 2, 1, node, 5)
        gradient = self.sizes.gemm("router input gradient", self.part, hidden, experts)
        found = self.tape.compute(gradient, [node], self.phase, self.where)
        weights = self.sizes.weight_gradient("router weight gradient", hidden, experts, self.part)
        self.tape.compute(weights, [node], self.phase, self.where)
        return found

    def _permute(self, name: str, node: int) -> int:
        """Copies of tokens in the order of their experts, or back."""
        op = self.sizes.elementwise(name, self.part * self.moe.top_k * self.sizes.hidden, 1, 1, 1, WorkKind.COPY)
        return self.tape.compute(op, [node], self.phase, self.where)

    @property
    def _sent_bytes(self) -> int:
        return self.part * self.moe.top_k * self.sizes.hidden * self.sizes.value_bytes

    def _exchange(self, what: str, node: int) -> int:
        if self.spec.parallel.ep == 1:
            return node
        kind, size = CollectiveType.ALL_TO_ALL, self._sent_bytes
        return self.tape.collective(what, kind, size, "ep", self.spec.dtype, [node], self.phase, self.where)

    def _gather(self, what: str, node: int) -> int:
        """All tensor ranks' tokens of this rank's experts."""
        if not self._split:
            return node
        return self._tp(f"{what} gather", CollectiveType.ALL_GATHER, self._sent_bytes, node)

    def _scatter(self, what: str, node: int) -> int:
        """The sums over tensor ranks, each rank with its own tokens."""
        if not self._split:
            return node
        return self._tp(f"{what} scatter", CollectiveType.REDUCE_SCATTER, self._sent_bytes * self.sizes.tp, node)

    def _whole(self, what: str, node: int) -> int:
        """Without sequence parallelism, all tensor ranks continue with all tokens."""
        if not self._split or self.spec.parallel.sp:
            return node
        size = self.part * self.sizes.hidden * self.sizes.value_bytes
        return self._tp(f"{what} gather", CollectiveType.ALL_GATHER, size, node)

    def _grouped(self, name: str, n: int, k: int, *, weights: bool = False) -> list[Op]:
        """All local experts' products of tokens with a k x n matrix; two nodes if tokens do not come out even."""
        each, more = divmod(self.routed, self.local)
        ops = []
        for batch, tokens in ((more, each + 1), (self.local - more, each)):
            if batch and tokens:
                if weights:
                    ops.append(self.sizes.weight_gradient(name, k, n, tokens, batch))
                else:
                    ops.append(self.sizes.gemm(name, tokens, n, k, batch))
        return ops

    def _all(self, ops: list[Op], *after: int) -> int:
        node = after[0]
        for op in ops:
            node = self.tape.compute(op, after, self.phase, self.where)
        return node

    @property
    def _widths(self) -> tuple[int, int]:
        size = self.moe.feed_forward // self.sizes.tp
        return size, 2 * size if self.spec.model.gated else size

    def _experts(self, node: int) -> int:
        hidden, (size, width) = self.sizes.hidden, self._widths
        node = self._all(self._grouped("experts up", width, hidden), node)
        node = self.elementwise("experts activation", self.routed * size, 2 if self.spec.model.gated else 1, 1, node, 8)
        return self._all(self._grouped("experts down", hidden, size), node)

    def _experts_backward(self, node: int) -> int:
        hidden, (size, width) = self.sizes.hidden, self._widths
        gradient = self._all(self._grouped("experts down input gradient", size, hidden), node)
        self._all(self._grouped("experts down weight gradient", hidden, size, weights=True), node)
        reads, writes = (3, 2) if self.spec.model.gated else (2, 1)
        gradient = self.elementwise("experts activation gradient", self.routed * size, reads, writes, gradient, 8)
        found = self._all(self._grouped("experts up input gradient", hidden, width), gradient)
        self._all(self._grouped("experts up weight gradient", width, hidden, weights=True), gradient)
        return found
