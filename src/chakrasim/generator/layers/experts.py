"""A feed-forward part made of experts.

Tokens go to their experts through an all-to-all among the ranks that share them (``ep``), and back. Under tensor
parallelism each rank sends the tokens of its part of the sequence, and what arrives is gathered over the tensor ranks,
which share each expert's matrices as they share all others; so no token is sent or routed twice. Where experts are
whole (``expert_tp`` 1), each tensor rank sends and gets its own tokens, and nothing is gathered. This is Megatron-LM's
all-to-all dispatcher; without sequence parallelism the parts are cut before and gathered after, as in DeepSpeed-TED
(Singh et al. 2023, arXiv:2303.06318). Tokens are spread evenly over experts.
"""

from __future__ import annotations

from chakrasim.generator.layers.dense import FeedForward
from chakrasim.generator.layers.sizes import Sizes
from chakrasim.generator.layers.tape import Tape
from chakrasim.generator.spec.spec import Experts
from chakrasim.trace.kinds import CollectiveType
from chakrasim.trace.work import WorkKind


class ExpertFeedForward(FeedForward):
    """Norm, router, dispatch, experts, combine, residual."""

    def __init__(self, sizes: Sizes, tape: Tape, moe: Experts) -> None:
        super().__init__(sizes, tape)
        self.moe = moe
        self.local = moe.experts // self.spec.parallel.ep
        self.part = sizes.tokens // sizes.tp
        """Tokens that this rank routes."""
        self.routed = self.part * self.spec.parallel.expert_tp * moe.top_k
        """Tokens that this rank's experts work on, with every one of their copies."""
        self.width = moe.latent or sizes.hidden
        """Elements of a token as the experts see it."""

    def forward(self, node: int) -> int:
        """All of it; returns the node that has the result."""
        normed = self.norm("feed-forward", node)
        node = self._count("tokens of experts", self._route(normed))
        if self.moe.latent:
            node = self.gemm("latent down", self.part, self.width, self.sizes.hidden, node)
        node = self._exchange("dispatch", self._permute("permute", node))
        node = self._gather("dispatch", node)
        node = self._experts(node)
        node = self._exchange("combine", self._scatter("combine", node))
        node = self._permute("unpermute", node)
        if self.moe.latent:
            node = self.gemm("latent up", self.part, self.sizes.hidden, self.width, node)
        if self.moe.shared_feed_forward:
            shared = self.enter("shared experts", normed)
            shared = self.inner(self.moe.shared_feed_forward // self.sizes.tp, shared, "shared ")
            self.tape.need([self.leave("shared experts", shared)])
        return self.residual("feed-forward", self._whole("feed-forward", node))

    def backward(self, node: int) -> int:
        """Gradients of everything in `forward`; returns the node that has the gradient of the input."""
        residual = node
        incoming = self._count("gradients of experts", self.residual_gradient("feed-forward", node))
        inputs: list[int] = []
        if self.moe.shared_feed_forward:
            shared = self.enter("shared experts gradient", incoming)
            inputs.append(self.inner_backward(self.moe.shared_feed_forward // self.sizes.tp, shared, "shared "))
        node = incoming
        if self.moe.latent:
            node = self._latent_gradients("latent up", self.sizes.hidden, self.width, node)
        node = self._exchange("combine gradient", self._permute("unpermute gradient", node))
        node = self._gather("combine gradient", node)
        node = self._experts_backward(node)
        node = self._exchange("dispatch gradient", self._scatter("dispatch gradient", node))
        node = self._permute("permute gradient", node)
        if self.moe.latent:
            node = self._latent_gradients("latent down", self.width, self.sizes.hidden, node)
        node = self._route_gradient(node)
        node = self._whole("feed-forward gradient", node)
        return self.norm_gradient_sum("feed-forward", node, *inputs, residual)

    def _latent_gradients(self, name: str, n: int, k: int, node: int) -> int:
        """Of what went into a whole matrix of k x n on this rank's tokens, and of the matrix."""
        found = self.gemm(f"{name} input gradient", self.part, k, n, node)
        if not self.frozen:
            self.gemm(f"{name} weight gradient", k, n, self.part, node, added=True)
        return found

    def _count(self, what: str, node: int) -> int:
        """How many there are for each expert, which the host has to know: a device waits for it meanwhile."""
        read, written = 4 * self.part * self.moe.top_k, 4 * self.moe.experts
        return self.compute(f"{what} counted", WorkKind.OTHER, 0, read, written, node)

    def _route(self, node: int) -> int:
        experts = self.moe.experts
        node = self.gemm("router", self.part, experts, self.sizes.hidden, node, dtype=self.moe.router_dtype)
        kind = WorkKind.SOFTMAX
        return self.elementwise("top experts", self.part * experts, 1, 1, node, operations=5, kind=kind)

    def _route_gradient(self, node: int) -> int:
        hidden, experts, dtype = self.sizes.hidden, self.moe.experts, self.moe.router_dtype
        node = self.elementwise("top experts gradient", self.part * experts, 2, 1, node, operations=5)
        found = self.gemm("router input gradient", self.part, hidden, experts, node, dtype=dtype)
        if not self.frozen:
            self.gemm("router weight gradient", hidden, experts, self.part, node, added=True, dtype=dtype)
        return found

    def _permute(self, name: str, node: int) -> int:
        """Copies of tokens in the order of their experts, or back."""
        elements = self.part * self.moe.top_k * self.width
        return self.elementwise(name, elements, 1, 1, node, kind=WorkKind.COPY)

    @property
    def _sent_bytes(self) -> int:
        return self.part * self.moe.top_k * self.width * self.sizes.value_bytes

    def _exchange(self, what: str, node: int) -> int:
        if self.spec.parallel.ep == 1:
            return node
        return self.collective(what, CollectiveType.ALL_TO_ALL, self._sent_bytes, node, role="ep")

    def _gather(self, what: str, node: int) -> int:
        """All tensor ranks' tokens of this rank's experts."""
        if self.spec.parallel.expert_tp == 1:
            return node
        return self.collective(f"{what} gather", CollectiveType.ALL_GATHER, self._sent_bytes, node)

    def _scatter(self, what: str, node: int) -> int:
        """The sums over tensor ranks, each rank with its own tokens."""
        if self.spec.parallel.expert_tp == 1:
            return node
        return self.collective(f"{what} scatter", CollectiveType.REDUCE_SCATTER, self._sent_bytes * self.sizes.tp, node)

    def _whole(self, what: str, node: int) -> int:
        """Without sequence parallelism, all tensor ranks continue with all tokens."""
        if not self._split or self.spec.parallel.sp:
            return node
        size = self.part * self.sizes.hidden * self.sizes.value_bytes
        return self.collective(f"{what} gather", CollectiveType.ALL_GATHER, size, node)

    def _grouped(self, name: str, n: int, k: int, node: int, *, weights: bool = False) -> int:
        """All local experts' products of tokens with a k x n matrix, or gradients of that; two nodes if tokens do not
        come out even, the last of which is returned."""
        each, more = divmod(self.routed, self.local)
        last = node
        if weights and self.frozen:
            return last
        for batch, tokens in ((more, each + 1), (self.local - more, each)):
            if batch and tokens:
                sizes = (k, n, tokens) if weights else (tokens, n, k)
                last = self.gemm(name, *sizes, node, batch=batch, added=weights, narrow=True)
        return last

    @property
    def _widths(self) -> tuple[int, int]:
        size = self.moe.feed_forward // self.spec.parallel.expert_tp
        return size, 2 * size if self.spec.model.gated else size

    def _experts(self, node: int) -> int:
        hidden, (size, width) = self.width, self._widths
        (node,) = self.narrowed("experts up input", self.routed * hidden, node)
        node = self._grouped("experts up", width, hidden, node)
        node = self.styled("experts activation", "activation", self.routed * size, node, operations=8)
        (node,) = self.narrowed("experts down input", self.routed * size, node)
        return self._biased("experts bias", self._grouped("experts down", hidden, size, node))

    def _biased(self, what: str, node: int) -> int:
        """What experts give with their biases, each token's times its weight, or the gradient of that. The bias of what
        goes into the activation is added with the product."""
        if not self.spec.model.bias:
            return node
        return self.styled(what, what, self.routed * self.width, node, operations=2)

    def _experts_backward(self, node: int) -> int:
        hidden, (size, width) = self.width, self._widths
        node = self._biased("experts bias gradient", node)
        (node,) = self.narrowed("experts down gradient", self.routed * hidden, node)
        gradient = self._grouped("experts down input gradient", size, hidden, node)
        self._grouped("experts down weight gradient", hidden, size, node, weights=True)
        elements, what = self.routed * size, "activation gradient"
        gradient = self.styled(f"experts {what}", what, elements, gradient, operations=8)
        (gradient,) = self.narrowed("experts up gradient", self.routed * width, gradient)
        found = self._grouped("experts up input gradient", hidden, width, gradient)
        self._grouped("experts up weight gradient", width, hidden, gradient, weights=True)
        return found
