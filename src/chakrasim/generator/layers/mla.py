"""Multi-head latent attention (DeepSeek-AI 2024, arXiv:2405.04434, section 2.1), forward and backward.

As in Megatron-LM: each tensor rank makes latents of its own tokens with whole matrices down, and heads of all tokens'
latents with its columns of the matrices up; so the latents are what sequence parallelism gathers, not the hidden state.
"""

from __future__ import annotations

from chakrasim.generator.layers.dense import Attention
from chakrasim.generator.layers.sizes import Sizes
from chakrasim.generator.layers.tape import Tape
from chakrasim.generator.spec.spec import Latents
from chakrasim.trace.kinds import CollectiveType


class LatentSizes:
    """Of latent attention on one rank, in elements of a token unless a name says otherwise."""

    def __init__(self, sizes: Sizes, latents: Latents) -> None:
        self.key_size = sizes.head_size + latents.rotary_size
        """Of a head's queries and keys."""
        self.queries = sizes.heads * self.key_size
        """Queries of this rank's heads."""
        self.keys_and_values = sizes.heads * 2 * sizes.head_size
        """Of this rank's heads, without what all keys share."""
        self.inputs = sizes.heads * (2 * self.key_size + sizes.head_size)
        """Queries, keys and values as attention takes them."""
        self.shared = latents.key_value_rank + latents.rotary_size
        """The latent of keys and values, and what all keys share."""


def latent_activations(sizes: Sizes, latents: Latents) -> int:
    """Bytes kept of everything before attention: inputs of the norms and matrices, queries, keys and values."""
    own = LatentSizes(sizes, latents)
    kept = 2 * latents.query_rank + latents.key_value_rank + own.shared
    return 2 * sizes.own_bytes + (sizes.own_tokens * kept + sizes.tokens * own.inputs) * sizes.value_bytes


class LatentAttention(Attention):
    """Norm, latents, queries, keys and values, attention, output matrix, residual."""

    def __init__(self, sizes: Sizes, tape: Tape, keys: int, latents: Latents) -> None:
        super().__init__(sizes, tape, keys)
        self.latents = latents
        self.own = LatentSizes(sizes, latents)
        self.key_size, self.queries, self.inputs = self.own.key_size, self.own.queries, self.own.inputs

    def forward(self, node: int) -> int:
        """All of it; returns the node that has the result."""
        node = self.first(self.norm("attention", node))
        return self.residual("attention", self.last(self.core(self._rotate(node))))

    def first(self, node: int) -> int:
        """Queries, keys and values."""
        sizes, ranks = self.sizes, self.latents
        inputs = self.narrowed("latents down input", sizes.own_elements, node)
        queries = self.gemm(
            "queries latents down", sizes.own_tokens, ranks.query_rank, sizes.hidden, *inputs, narrow=True
        )
        shared = self.gemm(
            "keys and values latents down", sizes.own_tokens, self.own.shared, sizes.hidden, *inputs, narrow=True
        )
        queries = self.norm("queries latent", queries, ranks.query_rank)
        queries = self._gathered("queries latent", ranks.query_rank, queries)
        queries = self._up("queries", self.own.queries, ranks.query_rank, queries)
        rotary = self._gathered("shared keys", ranks.rotary_size, shared)
        shared = self.norm("keys and values latent", shared, ranks.key_value_rank)
        shared = self._gathered("keys and values latent", ranks.key_value_rank, shared)
        self.tape.need([queries, rotary])
        return self._up("keys and values", self.own.keys_and_values, ranks.key_value_rank, shared)

    def first_backward(self, node: int) -> int:
        """Gradients of `first`; returns the node that has that of the input."""
        sizes, ranks = self.sizes, self.latents
        rotary = self._scattered("shared keys gradient", ranks.rotary_size, node)
        shared = self._up_gradients("keys and values", self.own.keys_and_values, ranks.key_value_rank, node)
        queries = self._up_gradients("queries", self.own.queries, ranks.query_rank, node)
        shared = self.norm_gradient("keys and values latent", shared, rotary, width=ranks.key_value_rank)
        queries = self.norm_gradient("queries latent", queries, width=ranks.query_rank)
        shared = self._down_gradients("keys and values latents down", self.own.shared, shared)
        queries = self._down_gradients("queries latents down", ranks.query_rank, queries)
        return self.elementwise("latents gradient sum", sizes.own_elements, 2, 1, shared, queries)

    def _down_gradients(self, name: str, n: int, node: int) -> int:
        sizes = self.sizes
        inputs = self.narrowed(f"{name} gradient", sizes.own_tokens * n, node)
        found = self.gemm(f"{name} input gradient", sizes.own_tokens, sizes.hidden, n, *inputs, narrow=True)
        self.gemm(f"{name} weight gradient", sizes.hidden, n, sizes.own_tokens, node, added=True, narrow=True)
        return found

    def _up(self, name: str, n: int, rank: int, node: int) -> int:
        """All tokens' latents times a matrix, without a bias."""
        inputs = self.narrowed(f"{name} latents up input", self.sizes.tokens * rank, node)
        return self.gemm(f"{name} latents up", self.sizes.tokens, n, rank, *inputs, narrow=True)

    def _up_gradients(self, name: str, n: int, rank: int, node: int) -> int:
        """Of a latent, summed over tensor ranks for this rank's tokens, and of the matrix that it is multiplied by."""
        overlap = self.spec.overlap.tp
        again = self._gathered_again(f"{name} latent", rank, node) if overlap else []
        found = self.input_gradient(f"{name} latents up", n, rank, node)
        left = self._scattered(f"{name} latent gradient", rank, found)
        if not overlap:
            again = self._gathered_again(f"{name} latent", rank, found)
            if left != found:
                self.tape.hold(left)
        self.weight_gradient(f"{name} latents up", n, rank, node, *again)
        return left

    def _gathered(self, what: str, elements: int, node: int) -> int:
        if not self._split:
            return node
        size = self.sizes.own_tokens * elements * self.sizes.value_bytes
        return self.collective(f"{what} gather", CollectiveType.ALL_GATHER, size, node)

    def _gathered_again(self, what: str, elements: int, behind: int) -> list[int]:
        if not self._split:
            return []
        size = self.sizes.own_tokens * elements * self.sizes.value_bytes
        return [self.collective(f"{what} second gather", CollectiveType.ALL_GATHER, size, control=[behind])]

    def _scattered(self, what: str, elements: int, node: int) -> int:
        if not self._split:
            return node
        size = self.sizes.tokens * elements * self.sizes.value_bytes
        return self.collective(f"{what} scatter", CollectiveType.REDUCE_SCATTER, size, node)

    def _rotate(self, node: int) -> int:
        """Rotary positions of a part of queries and keys; keys and values apart, keys whole (or, backward, the same of
        gradients)."""
        elements = self.sizes.tokens * (self.own.queries + self.own.keys_and_values)
        return self.styled("rotary", "rotary", elements, node, operations=3)
