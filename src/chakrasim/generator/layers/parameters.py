"""Which parameters there are, and which of them a rank holds."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from chakrasim.generator.spec.spec import Spec


@dataclass(frozen=True)
class Held:
    """Parameters of a rank.

    Attributes
    ----------
    split: a part of what the tensor-parallel ranks share.
    copied: the same on each of these (norms, biases of row-split matrices, positions, routers).
    experts: of this rank's experts; their gradients are reduced among fewer ranks.
    experts_copied: of ``experts``, what is the same on all tensor-parallel ranks.
    """

    split: int = 0
    copied: int = 0
    experts: int = 0
    experts_copied: int = 0

    def __add__(self, other: Held) -> Held:
        return Held(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    @property
    def dense(self) -> int:
        """All but the experts."""
        return self.split + self.copied

    @property
    def total(self) -> int:
        """All."""
        return self.dense + self.experts

    def distinct(self, tp: int, ep: int) -> int:
        """How many different parameters all ranks of one replica and stage hold together."""
        return self.split * tp + self.copied + ((self.experts - self.experts_copied) * tp + self.experts_copied) * ep


def layer_parameters(spec: Spec, layer: int) -> Held:
    """Of one layer."""
    model, tp = spec.model, spec.parallel.tp
    hidden, bias = model.hidden, int(model.bias)
    norms = 2 * norm_parameters(spec)
    qkv = (model.heads + 2 * model.kv_heads) // tp * model.head_size
    split = qkv * (hidden + bias) + model.heads // tp * model.head_size * hidden
    copied = norms + bias * hidden
    moe = model.moe
    if moe is None or not model.has_experts(layer):
        split_ff, copied_ff = _feed_forward(spec, model.feed_forward)
        return Held(split + split_ff, copied + copied_ff)
    inner, outer = _feed_forward(spec, moe.feed_forward)
    shared, shared_copied = _feed_forward(spec, moe.shared_feed_forward) if moe.shared_feed_forward else (0, 0)
    local = moe.experts // spec.parallel.ep
    router = hidden * moe.experts
    return Held(split + shared, copied + shared_copied + router, local * (inner + outer), local * outer)


def _feed_forward(spec: Spec, size: int) -> tuple[int, int]:
    """Split and copied parameters of a feed-forward part."""
    own, bias, hidden = size // spec.parallel.tp, int(spec.model.bias), spec.model.hidden
    ways = 2 if spec.model.gated else 1
    return own * (ways * (hidden + bias) + hidden), bias * hidden


def norm_parameters(spec: Spec) -> int:
    """Of one norm."""
    return spec.model.hidden * (2 if spec.model.norm == "layer" else 1)


def embedding_parameters(spec: Spec) -> Held:
    """Of the embedding and learned positions."""
    model = spec.model
    positions = model.sequence * model.hidden if model.position == "learned" else 0
    return Held(model.vocabulary // spec.parallel.tp * model.hidden, positions)


def head_parameters(spec: Spec) -> Held:
    """Of the last norm and the head's matrix. A tied one counts if the embedding is on another stage: it is a copy."""
    model = spec.model
    alone = not model.tied_embeddings or spec.parallel.pp > 1
    return Held(model.vocabulary // spec.parallel.tp * model.hidden if alone else 0, norm_parameters(spec))


def stage_parts(spec: Spec, stage: int) -> list[Held]:
    """Of each layer that a pipeline stage holds, and of the ends that it has."""
    chunks = range(stage, spec.chunks, spec.parallel.pp)
    parts = [layer_parameters(spec, layer) for chunk in chunks for layer in spec.layers_of(chunk)]
    if stage == 0:
        parts.append(embedding_parameters(spec))
    if stage == spec.parallel.pp - 1:
        parts.append(head_parameters(spec))
    return parts


def stage_parameters(spec: Spec, stage: int) -> Held:
    """Of all that a pipeline stage holds."""
    return sum(stage_parts(spec, stage), Held())
