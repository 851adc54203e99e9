"""What a rank keeps in memory, and its peak over a step.

Activations are counted as Korthikanti et al. 2022 (arXiv:2205.05198, section 4) count them: what the backward pass
reads, one byte for each element of a dropout mask. Programs of plain PyTorch keep more than Megatron-LM, whose figures
those are: inputs of products as they were gathered, what each operator reads, copies of the logits. Communication
buffers and workspaces of kernels are left out. Of what is offloaded, three layers' (three parts' states) at most are on
the device: in use, and on the way there and back.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.generator.layers.ends import shards
from chakrasim.generator.layers.lora import adapter_activations
from chakrasim.generator.layers.mamba import state_space_activations
from chakrasim.generator.layers.mla import LatentSizes, latent_activations
from chakrasim.generator.layers.offload import IN_FLIGHT, offloaded_states
from chakrasim.generator.layers.parameters import Held, stage_parameters, stage_parts
from chakrasim.generator.layers.part import NARROW_BYTES
from chakrasim.generator.layers.prediction import projection_activations
from chakrasim.generator.layers.sizes import Sizes
from chakrasim.generator.schedule import order_of
from chakrasim.generator.spec.spec import Experts, Spec


@dataclass(frozen=True)
class Memory:
    """Bytes of a rank; those of ``activations`` and ``working`` at the peak.

    Attributes
    ----------
    parameters, gradients, optimizer: kept all the time; a float32 copy of parameters is the optimizer's.
    activations: kept from forward to backward passes.
    working: what exists for a while: activations computed again, gradients of activations, copies of logits, weights
        gathered, gradients not yet reduced.
    """

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    working: int

    @property
    def peak(self) -> int:
        """All together."""
        return self.parameters + self.gradients + self.optimizer + self.activations + self.working

    def to_mapping(self) -> dict[str, int]:
        """Plain values, names with their unit."""
        return {**{f"{name}_bytes": value for name, value in asdict(self).items()}, "peak_bytes": self.peak}


def stage_memory(spec: Spec, stage: int) -> Memory:
    """The peak of a rank of this stage, which makes its passes in the order of `chakrasim.generator.schedule`."""
    held = stage_parameters(spec, stage)
    trained = held.trained(spec)
    dense, experts = shards(spec)

    def sharded(zero: int, held: Held = trained) -> int:
        whole = spec.parallel.zero < zero
        return held.total if whole else -(-held.dense // dense) + -(-held.experts // experts)

    activations, working = _activations(spec, stage)
    working += _gathered(spec, stage)
    states = sorted(offloaded_states(spec, stage), reverse=True)
    return Memory(
        parameters=round(sharded(3, held) * _parameter_bytes(spec)),
        gradients=sharded(2) * spec.gradient_bytes,
        optimizer=max(sharded(1) * spec.state_bytes - sum(states), 0),
        activations=activations,
        working=max(working, sum(states[:IN_FLIGHT]) - activations),
    )


def _parameter_bytes(spec: Spec) -> float:
    """Of a parameter: frozen ones are kept as the products take them; PyTorch's FSDP has them but in float32, which
    the optimizer's states have."""
    if spec.keeps_parameters_as_states:
        return 0.0
    return NARROW_BYTES.get(spec.matrix_dtype, spec.value_bytes) if spec.lora is not None else spec.value_bytes


def _activations(spec: Spec, stage: int) -> tuple[int, int]:
    """Bytes kept, and passing beside them, at the moment when both together are most."""
    chunks = range(stage, spec.chunks, spec.parallel.pp)
    kept, passing = ([size(spec, chunk) for chunk in chunks] for size in (chunk_activations, _gradients))
    if chunks[-1] == spec.chunks - 1:
        passing[-1] = max(passing[-1], _loss(spec))
    beside = [working + _computed_again(spec, chunk) for working, chunk in zip(passing, chunks, strict=True)]
    forward, chunk, _ = order_of(spec, stage)
    moved = [[(moved_activations(spec, layer), count) for layer, count in spec.alike(one)] for one in chunks]
    moving = [IN_FLIGHT * max((size for size, _ in sizes), default=0) for sizes in moved]
    away = [sum(size * count for size, count in sizes) for sizes in moved]
    fits = (max(kept) + max(away)) * len(chunk) + max(beside) + max(moving) < 1 << 62
    own, more, way, out = (
        np.array(sizes, np.int64 if fits else object)[chunk // spec.parallel.pp]
        for sizes in (kept, beside, moving, away)
    )

    def under_way(sizes: NDArray[Any]) -> NDArray[Any]:
        """Of all passes forward without their way back, the one that runs among them."""
        live = np.cumsum(np.where(forward, sizes, -sizes))
        return np.where(forward, live, live + sizes)

    live, working = under_way(own), np.minimum(way, under_way(out)) + np.where(forward, 0, more)
    most = int(np.argmax(live + working))
    return int(live[most]), int(working[most])


def _loss(spec: Spec) -> int:
    """What the loss has beside the logits that it keeps, in programs of PyTorch.

    One kernel each way: the gradient. Else torch's own loss: the gradients of the logarithms of probabilities and of
    the logits, both in float32, and, of tensor parallelism (torch's loss parallel), the exponentials and their sum; an
    eager program with tensor parallelism (nanotron) has Megatron-LM's loss, which works in place on one copy. Blocks of
    16-bit logits, and of activations computed again, are too small for those in float32, so that PyTorch's allocator
    holds both at once.
    """
    sizes, split = Sizes(spec), spec.parallel.tp > 1
    if spec.kernels == "fused":
        return 0
    low = sizes.value_bytes
    copies = 4 if spec.kernels == "eager" and split else (12 if split else 8) + low
    return (low if spec.fused_loss else copies) * sizes.tokens * sizes.vocabulary


def chunk_activations(spec: Spec, chunk: int) -> int:
    """Bytes that a forward pass over a chunk keeps for the backward pass."""
    sizes = Sizes(spec)
    kept = sum(
        count * (layer_activations(spec, layer) - moved_activations(spec, layer)) for layer, count in spec.alike(chunk)
    )
    logit_bytes = sizes.value_bytes if spec.fused_loss else 4
    head = sizes.own_bytes + _input(sizes) + logit_bytes * sizes.tokens * sizes.vocabulary
    if chunk == 0 and spec.model.dropout:
        kept += sizes.own_elements
    if chunk == spec.chunks - 1:
        kept += head
        for layer in spec.model.predictions:
            kept += projection_activations(sizes) + layer_activations(spec, layer) + head
    return kept


def moved_activations(spec: Spec, layer: int) -> int:
    """Of what a layer keeps, the bytes that wait in the host's memory."""
    return round(spec.offload.activations * layer_activations(spec, layer)) if spec.offload.activations else 0


def layer_activations(spec: Spec, layer: int, recompute: str | None = None) -> int:
    """Bytes that a layer keeps, as the spec recomputes or as ``recompute`` says."""
    sizes = Sizes(spec)
    mode = spec.recompute if recompute is None else recompute
    if mode == "full" and spec.recomputes(layer):
        return sizes.own_bytes
    again = () if mode == "none" else spec.operators
    if "half_of_matrices" in again:
        return _half_of_matrices(sizes)
    return sum(_block(sizes, kind, mode, again) for kind in spec.model.kinds(layer))


def _half_of_matrices(sizes: Sizes) -> int:
    """The layer's input, what attention gives, and every other product, as torchtitan's recomputation by operator has
    it; the backward pass has no use for the last product, which torch.compile finds and an eager program does not.
    What tensor-parallel ranks sum is kept, too."""
    model = sizes.spec.model
    inner = [model.feed_forward // sizes.tp] * (2 if model.gated else 1)
    keys = (sizes.qkv - sizes.queries) // 2
    last = 0 if sizes.spec.kernels == "compiled" else sizes.hidden
    products = [sizes.queries, keys, keys, sizes.hidden, *inner, last]
    outputs = sizes.queries + sum(products[::2])
    own = 2 if sizes.tp > 1 else 1
    return own * sizes.own_bytes + sizes.tokens * (outputs * sizes.value_bytes + 4 * sizes.heads)


def _block(sizes: Sizes, kind: str, mode: str, again: tuple[str, ...]) -> int:
    """Bytes that a part of a layer keeps; ``again``: what is computed again alone."""
    model = sizes.spec.model
    if kind == "attention":
        return _attention(sizes, mode, again)
    if kind == "mamba" and model.hybrid is not None:
        return state_space_activations(sizes, model.hybrid)
    if kind == "experts" and model.moe is not None:
        return sizes.own_bytes if "experts" in again else _experts(sizes, model.moe, again)
    mask = sizes.own_elements if model.dropout else 0
    if "feed_forward" in again:
        return sizes.own_bytes + mask
    return _entrance(sizes, again) + _inner(sizes, model.feed_forward, again) + mask


def _operand_bytes(sizes: Sizes) -> float:
    """Of an element that a product with weights keeps for their gradient."""
    return NARROW_BYTES.get(sizes.spec.matrix_dtype, sizes.value_bytes)


def _input(sizes: Sizes, element_bytes: float = 0.0) -> int:
    """Of a matrix behind a norm: Megatron-LM keeps a rank's part and gathers it again, PyTorch keeps all of it."""
    elements = sizes.own_elements if sizes.spec.kernels == "fused" else sizes.tokens * sizes.hidden
    return round(elements * (element_bytes or sizes.value_bytes))


def _entrance(sizes: Sizes, again: tuple[str, ...]) -> int:
    """Inputs of a norm and of the first matrix behind it, if that is trained."""
    kept = sizes.spec.lora is None and "norm" not in again
    return sizes.own_bytes + (_input(sizes, _operand_bytes(sizes)) if kept else 0)


def _attention(sizes: Sizes, mode: str, again: tuple[str, ...]) -> int:
    """Inputs of norm and matrices, queries, keys and values, and what core attention keeps."""
    spec = sizes.spec
    size, dropout, latents = sizes.value_bytes, spec.model.dropout, spec.model.latents
    entrance = _entrance(sizes, again) if spec.lora is None else 2 * sizes.own_bytes
    kept = entrance + sizes.tokens * sizes.qkv * size
    if latents is not None:
        made = sizes.tokens * LatentSizes(sizes, latents).inputs * size if "latents" in again else 0
        kept = latent_activations(sizes, latents) - 2 * sizes.own_bytes + entrance - made
    if spec.matrix_dtype != "none":
        kept += round(sizes.tokens * sizes.queries * _operand_bytes(sizes))
    if spec.lora is not None:
        kept += adapter_activations(sizes, spec.lora)
    if spec.model.head_norms:
        kept += sizes.tokens * sizes.queries_and_keys * size
    kept += sizes.tokens * sizes.queries * size
    if spec.copied_heads:
        turned = sizes.queries if spec.batch.micro_batch > 1 else 0
        kept += sizes.tokens * (sizes.qkv - sizes.queries + turned) * size
    if dropout:
        kept += sizes.own_elements
    if spec.flash_attention:
        return kept + 4 * sizes.tokens * sizes.heads
    if mode == "selective":
        return kept
    return kept + sizes.scores * (2 * size + 1 if dropout else size)


def _inner(sizes: Sizes, inner: int, again: tuple[str, ...]) -> int:
    """What a dense feed-forward part keeps inside: inputs of activation and last matrix."""
    return round(sizes.tokens * (inner // sizes.tp) * _inner_bytes(sizes, again))


def _inner_bytes(sizes: Sizes, again: tuple[str, ...]) -> float:
    """Of inputs of activation and last matrix, for an element of the inner size; a frozen matrix keeps none. Operator
    by operator, a gate is kept before and behind its function."""
    last = _operand_bytes(sizes) if sizes.spec.lora is None and "activation" not in again else 0.0
    gated = sizes.spec.model.gated
    inputs = 3 if gated and sizes.spec.kernels == "eager" and "activation" not in again else 2 if gated else 1
    return inputs * sizes.value_bytes + last


def _experts(sizes: Sizes, moe: Experts, again: tuple[str, ...]) -> int:
    """Inputs of norm, router, first matrices, activation, last matrices, and what is put together."""
    spec = sizes.spec
    model, size, expert_tp = spec.model, sizes.value_bytes, spec.parallel.expert_tp
    width, part = moe.latent or sizes.hidden, sizes.tokens // sizes.tp
    kept = _entrance(sizes, again) + (sizes.own_elements if model.dropout else 0) + 4 * part * moe.experts
    inputs = width * _operand_bytes(sizes) if spec.lora is None else 0.0
    inner = moe.feed_forward // expert_tp * _inner_bytes(sizes, again)
    kept += round(part * expert_tp * moe.top_k * (inputs + inner))
    kept += part * (moe.top_k * width + moe.latent) * size
    return kept + _inner(sizes, moe.shared_feed_forward, again)


def _computed_again(spec: Spec, chunk: int) -> int:
    """What the backward pass of a layer computes again and keeps for a while: the most of any layer."""
    if spec.recompute == "none":
        return 0
    again = (layer_activations(spec, layer, "none") - layer_activations(spec, layer) for layer, _ in spec.alike(chunk))
    return max(again, default=0)


def _gradients(spec: Spec, chunk: int) -> int:
    """Of a part's activations, as large as these: the most of any part."""
    sizes, kinds = Sizes(spec), {kind for layer, _ in spec.alike(chunk) for kind in spec.model.kinds(layer)}
    return max((_block(sizes, kind, "none", ()) for kind in kinds), default=0)


def _gathered(spec: Spec, stage: int) -> int:
    """With ZeRO 3 (2), two units' whole weights (one unit's or bucket's whole gradients). Of a pipeline, PyTorch's FSDP
    keeps all weights gathered and all gradients whole from micro-batch to micro-batch."""
    if spec.parallel.zero < 2:
        return 0
    parts = stage_parts(spec, stage)
    sizes = sorted((part.total for part in parts), reverse=True)
    gradients = [part.trained(spec).total for part in parts]
    if spec.parallel.zero == 3 and spec.parallel.pp > 1 and spec.kernels != "fused":
        return sum(sizes) * spec.value_bytes + sum(gradients) * spec.gradient_bytes
    if spec.parallel.zero == 2:
        return max(gradients) * spec.gradient_bytes
    return sum(sizes[: 2 if spec.overlap.fsdp else 1]) * spec.value_bytes + max(gradients) * spec.gradient_bytes
