"""Sizes of one micro-batch on one rank."""

from __future__ import annotations

from chakrasim.generator.spec.spec import Spec


class Sizes:
    """Of a spec. Elements, unless a name says otherwise."""

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
        self.queries_and_keys = (self.qkv + self.queries) // 2
        """The same without the values."""
        self.scores = spec.batch.micro_batch * self.heads * model.sequence**2 // parallel.cp
        """Attention scores of this rank: all its heads and queries, all keys, causal or not."""
        self.vocabulary = model.vocabulary // self.tp
        """Rows of the embedding on this rank."""
        self.own_elements = self.own_tokens * self.hidden
        """Elements of their hidden states."""
        self.own_bytes = self.own_elements * self.value_bytes
        """Bytes of a micro-batch's hidden state as this rank keeps it between layers."""
        self.full_bytes = self.tokens * self.hidden * self.value_bytes
        """Bytes of a micro-batch's whole hidden state."""
        self.in_parts = parallel.scatter_gather and not parallel.sp and self.tp > 1
        """Whether each rank sends its part of a hidden state that it has whole."""
        self.sent_bytes = -(-self.own_bytes // self.tp) if self.in_parts else self.own_bytes
        """Bytes of a message to another stage."""
