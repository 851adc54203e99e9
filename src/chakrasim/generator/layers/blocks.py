"""What a layer is made of: parts that each have a residual around them."""

from __future__ import annotations

from typing import Protocol

from chakrasim.generator.layers.dense import Attention, FeedForward
from chakrasim.generator.layers.experts import ExpertFeedForward
from chakrasim.generator.layers.lora import AdaptedAttention
from chakrasim.generator.layers.mamba import StateSpace
from chakrasim.generator.layers.mla import LatentAttention
from chakrasim.generator.layers.part import Again
from chakrasim.generator.layers.sizes import Sizes
from chakrasim.generator.layers.tape import Phase, Tape


class Block(Protocol):
    """Writes nodes of a part of a layer to a tape."""

    again: Again | None

    def at(self, where: str, phase: Phase) -> None:
        """Say what is written from here on."""

    def forward(self, node: int) -> int:
        """All of it; returns the node that has the result."""

    def backward(self, node: int) -> int:
        """Gradients of everything in `forward`; returns the node that has the gradient of the input."""


def blocks_of(sizes: Sizes, tape: Tape, layer: int) -> list[Block]:
    """The parts of a layer, in the order of the forward pass."""
    return [_block(sizes, tape, layer, kind) for kind in sizes.spec.model.kinds(layer)]


def _block(sizes: Sizes, tape: Tape, layer: int, kind: str) -> Block:
    model = sizes.spec.model
    if kind == "attention":
        return _attention(sizes, tape, model.keys(layer))
    if kind == "mamba" and model.hybrid is not None:
        return StateSpace(sizes, tape, model.hybrid)
    if kind == "experts" and model.moe is not None:
        return ExpertFeedForward(sizes, tape, model.moe)
    return FeedForward(sizes, tape)


def _attention(sizes: Sizes, tape: Tape, keys: int) -> Attention:
    spec = sizes.spec
    if spec.model.latents is not None:
        return LatentAttention(sizes, tape, keys, spec.model.latents)
    if spec.lora is not None:
        return AdaptedAttention(sizes, tape, keys, spec.lora)
    return Attention(sizes, tape, keys)
