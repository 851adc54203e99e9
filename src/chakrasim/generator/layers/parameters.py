"""Which parameters there are, and which of them a rank holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from chakrasim.generator.layers.mamba import StateSpaceSizes
from chakrasim.generator.layers.mla import LatentSizes
from chakrasim.generator.layers.sizes import Sizes
from chakrasim.generator.spec.spec import Parallel, Spec


@dataclass(frozen=True)
class Held:
    """Parameters of a rank.

    Attributes
    ----------
    split: a part of what the tensor-parallel ranks share.
    copied: the same on each of these (norms, biases of row-split matrices, positions, routers).
    experts: of this rank's experts; their gradients are reduced among fewer ranks.
    experts_copied: of ``experts``, what is the same on all ranks that share them.
    adapters: of ``split``, what is trained where all else is frozen.
    """

    split: int = 0
    copied: int = 0
    experts: int = 0
    experts_copied: int = 0
    adapters: int = 0

    def __add__(self, other: Held) -> Held:
        return Held(
            self.split + other.split,
            self.copied + other.copied,
            self.experts + other.experts,
            self.experts_copied + other.experts_copied,
            self.adapters + other.adapters,
        )

    @property
    def dense(self) -> int:
        """All but the experts."""
        return self.split + self.copied

    @property
    def total(self) -> int:
        """All."""
        return self.dense + self.experts

    def trained(self, spec: Spec) -> Held:
        """What has gradients."""
        return self if spec.lora is None else Held(split=self.adapters, adapters=self.adapters)

    def distinct(self, split: Parallel) -> int:
        """How many different parameters all ranks of one replica and stage hold together."""
        experts = (self.experts - self.experts_copied) * split.expert_tp + self.experts_copied
        return self.split * split.tp + self.copied + experts * split.ep


def layer_parameters(spec: Spec, layer: int) -> Held:
    """Of one layer."""
    return sum((_BLOCKS[kind](spec) for kind in spec.model.kinds(layer)), Held())


def _attention(spec: Spec) -> Held:
    model, tp = spec.model, spec.parallel.tp
    hidden, bias = model.hidden, int(model.bias)
    outputs, copied = model.heads // tp * model.head_size, norm_parameters(spec) + bias * hidden
    if model.latents is not None:
        own, ranks = LatentSizes(Sizes(spec), model.latents), model.latents
        up = own.queries * ranks.query_rank + own.keys_and_values * ranks.key_value_rank
        down = hidden * (ranks.query_rank + own.shared)
        norms = (ranks.query_rank + ranks.key_value_rank) * _norm_ways(spec)
        return Held(up + outputs * hidden, copied + down + norms)
    qkv = (model.heads + 2 * model.kv_heads) // tp * model.head_size
    rank = spec.lora.rank if spec.lora is not None else 0
    adapters = rank * (hidden // tp + qkv) + rank * (outputs + hidden // tp)
    copied += 2 * model.head_size * _norm_ways(spec) if model.head_norms else 0
    return Held(qkv * (hidden + bias) + outputs * hidden + adapters, copied, adapters=adapters)


def _dense(spec: Spec) -> Held:
    split, copied = _feed_forward(spec, spec.model.feed_forward, spec.parallel.tp)
    return Held(split, copied + norm_parameters(spec))


def _experts(spec: Spec) -> Held:
    moe, hidden, parallel = spec.model.moe, spec.model.hidden, spec.parallel
    if moe is None:
        return Held()
    width = moe.latent or hidden
    inner, outer = _feed_forward(spec, moe.feed_forward, parallel.expert_tp, width)
    shared, copied = _feed_forward(spec, moe.shared_feed_forward, parallel.tp) if moe.shared_feed_forward else (0, 0)
    local = moe.experts // parallel.ep
    copied += hidden * moe.experts + 2 * hidden * moe.latent + norm_parameters(spec)
    return Held(shared, copied, local * (inner + outer), local * outer)


def _state_space(spec: Spec) -> Held:
    model, hybrid, bias = spec.model, spec.model.hybrid, int(spec.model.bias)
    if hybrid is None:
        return Held()
    own = StateSpaceSizes(Sizes(spec), hybrid)
    matrices = own.entered * (model.hidden + bias) + own.inner * model.hidden
    small = own.convolved * (hybrid.convolution + 1) + 3 * own.heads + own.inner
    return Held(matrices + small, norm_parameters(spec) + bias * model.hidden)


_BLOCKS: Final[Mapping[str, Callable[[Spec], Held]]] = {
    "attention": _attention,
    "feed_forward": _dense,
    "experts": _experts,
    "mamba": _state_space,
}
"""Parameters by what a layer is made of."""


def _feed_forward(spec: Spec, size: int, ranks: int, width: int = 0) -> tuple[int, int]:
    """Split and copied parameters of a feed-forward part that so many ranks share."""
    own, bias, hidden = size // ranks, int(spec.model.bias), width or spec.model.hidden
    ways = 2 if spec.model.gated else 1
    return own * (ways * (hidden + bias) + hidden), bias * hidden


def norm_parameters(spec: Spec) -> int:
    """Of one norm."""
    return spec.model.hidden * _norm_ways(spec)


def _norm_ways(spec: Spec) -> int:
    return 2 if spec.model.norm == "layer" else 1


def prediction_parameters(spec: Spec, layer: int) -> Held:
    """Of a prediction layer, beside the layer: three norms, the projection, and, with the first of them, the copy of
    the embedding of another stage."""
    model, tp = spec.model, spec.parallel.tp
    copy = spec.copies_embedding and not model.tied_embeddings and layer == model.layers
    split = 2 * model.hidden * (model.hidden // tp) + (model.vocabulary // tp * model.hidden if copy else 0)
    return Held(split, 3 * norm_parameters(spec))


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
    alike = (sort for chunk in chunks for sort in spec.alike(chunk))
    parts = [part for layer, count in alike for part in [layer_parameters(spec, layer)] * count]
    if stage == spec.parallel.pp - 1:
        for layer in spec.model.predictions:
            parts.append(layer_parameters(spec, layer) + prediction_parameters(spec, layer))
    if stage == 0:
        parts.append(embedding_parameters(spec))
    if stage == spec.parallel.pp - 1:
        parts.append(head_parameters(spec))
    return parts


def stage_parameters(spec: Spec, stage: int) -> Held:
    """Of all that a pipeline stage holds."""
    return sum(stage_parts(spec, stage), Held())
