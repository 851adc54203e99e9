"""What a model amounts to, whatever it is split into: computed from its sizes alone.

Operations: Narayanan et al. 2021 (arXiv:2104.04473, appendix), each product of matrices apart, so that grouped queries,
latents, gates, experts and state spaces have their place. Backward twice as much as forward; of frozen matrices, as
much.
"""

from __future__ import annotations

from chakrasim.generator.spec.spec import Experts, Hybrid, Model, Spec


def parameter_count(model: Model) -> int:
    """All different parameters, adapters apart."""
    hidden, norm = model.hidden, model.hidden * _norm_ways(model)
    total = sum(norm + _block_parameters(model, kind) for kind in _blocks(model))
    total += model.prediction_layers * (3 * norm + 2 * hidden**2)
    total += norm + model.vocabulary * hidden * (1 if model.tied_embeddings else 2)
    return total + (model.sequence * hidden if model.position == "learned" else 0)


def adapter_parameters(spec: Spec) -> int:
    """Of adapters: one beside queries, keys and values, and one beside attention's output matrix, in each layer."""
    return _blocks(spec.model).count("attention") * _adapters(spec)


def _adapters(spec: Spec) -> int:
    model = spec.model
    if spec.lora is None:
        return 0
    queries, keys = model.heads * model.head_size, model.kv_heads * model.head_size
    return spec.lora.rank * (2 * model.hidden + 2 * queries + 2 * keys)


def active_parameter_count(model: Model) -> int:
    """Parameters that one token meets: of the experts, those that it goes to."""
    moe = model.moe
    if moe is None:
        return parameter_count(model)
    idle = (moe.experts - moe.top_k) * _feed_forward(model, moe.feed_forward, moe.latent)
    return parameter_count(model) - _blocks(model).count("experts") * idle


def _blocks(model: Model) -> list[str]:
    """What all layers are made of, prediction layers included."""
    return [kind for layer in range(model.layers + model.prediction_layers) for kind in model.kinds(layer)]


def _norm_ways(model: Model) -> int:
    return 2 if model.norm == "layer" else 1


def _block_parameters(model: Model, kind: str) -> int:
    bias, hidden, moe, hybrid = int(model.bias), model.hidden, model.moe, model.hybrid
    if kind == "attention":
        return _attention_parameters(model)
    if kind == "mamba" and hybrid is not None:
        small = hybrid.convolved * (hybrid.convolution + 1) + 3 * hybrid.heads + hybrid.inner
        biases = bias * (hybrid.inner + hybrid.convolved + hybrid.heads + hidden)
        return _matrices(model, kind) + small + biases
    if kind == "experts" and moe is not None:
        whole = moe.experts * _feed_forward(model, moe.feed_forward, moe.latent) + 2 * hidden * moe.latent
        return hidden * moe.experts + whole + _feed_forward(model, moe.shared_feed_forward)
    return _feed_forward(model, model.feed_forward)


def _attention_parameters(model: Model) -> int:
    bias, hidden, latents = int(model.bias), model.hidden, model.latents
    found = _matrices(model, "attention") + bias * hidden
    if latents is not None:
        return found + (latents.query_rank + latents.key_value_rank) * _norm_ways(model)
    return found + bias * (model.heads + 2 * model.kv_heads) * model.head_size


def _feed_forward(model: Model, size: int, width: int = 0) -> int:
    if not size:
        return 0
    bias, ways, hidden = int(model.bias), 2 if model.gated else 1, width or model.hidden
    return size * ways * (hidden + bias) + (size + bias) * hidden


def _matrices(model: Model, kind: str) -> int:
    """Multiply-adds of a token with the matrices of a part of a layer."""
    hidden, ways = model.hidden, 3 if model.gated else 2
    if kind == "attention":
        return _attention_matrices(model)
    if kind == "mamba" and model.hybrid is not None:
        return hidden * (2 * model.hybrid.inner + model.hybrid.convolved + model.hybrid.heads)
    if kind == "experts" and model.moe is not None:
        return _expert_matrices(model, model.moe)
    return ways * hidden * model.feed_forward


def _attention_matrices(model: Model) -> int:
    latents, hidden = model.latents, model.hidden
    queries, keys = model.heads * model.head_size, model.kv_heads * model.head_size
    if latents is None:
        return hidden * (2 * queries + 2 * keys)
    ranks, rotary = latents.query_rank + latents.key_value_rank, latents.rotary_size
    up = latents.query_rank * (queries + model.heads * rotary) + latents.key_value_rank * 2 * queries
    return hidden * (ranks + rotary) + up + queries * hidden


def _expert_matrices(model: Model, moe: Experts) -> int:
    hidden, ways = model.hidden, 3 if model.gated else 2
    routed = ways * (moe.latent or hidden) * moe.top_k * moe.feed_forward
    return routed + hidden * (ways * moe.shared_feed_forward + moe.experts + 2 * moe.latent)


def _products(model: Model) -> tuple[int, int]:
    """Multiply-adds of a sequence's scores in all layers, and of their product with the values."""
    layers = range(model.layers + model.prediction_layers)
    found = [_products_of(model, layer) for layer in layers if "attention" in model.kinds(layer)]
    return sum(scores for scores, _ in found), sum(values for _, values in found)


def _products_of(model: Model, layer: int) -> tuple[int, int]:
    """The same in one layer that has attention."""
    scores = model.sequence * model.keys(layer) * model.heads
    rotary = model.latents.rotary_size if model.latents is not None else 0
    return scores * (model.head_size + rotary), scores * model.head_size


def _scans(model: Model) -> tuple[int, int]:
    """Multiply-adds of a sequence's scans in all layers; of them, those that the backward pass repeats."""
    whole, repeated = _scan(model)
    count = model.hybrid.mamba_layers if model.hybrid is not None else 0
    return count * whole, count * repeated


def _scan(model: Model) -> tuple[int, int]:
    """The same in one layer."""
    hybrid = model.hybrid
    if hybrid is None:
        return 0, 0
    repeated = _within(model, hybrid) * hybrid.groups * hybrid.state + model.sequence * hybrid.inner * hybrid.state
    rest = _within(model, hybrid) * hybrid.inner + model.sequence * hybrid.inner * hybrid.state
    return repeated + rest, repeated


def _within(model: Model, hybrid: Hybrid) -> int:
    """Pairs of tokens of a sequence that are in one chunk."""
    return model.sequence * min(hybrid.chunk, model.sequence)


def _all_matrices(model: Model) -> int:
    """Multiply-adds of a token with the matrices of all layers."""
    return sum(_matrices(model, kind) for kind in _blocks(model))


def active_matrices(model: Model) -> int:
    """Multiply-adds of a token with all matrices: the parameters of those that it meets, each as often as it does."""
    heads = (1 + model.prediction_layers) * model.vocabulary * model.hidden
    return _all_matrices(model) + heads + 2 * model.prediction_layers * model.hidden**2


def layers_forward(model: Model) -> int:
    """Operations of a sequence in all layers, forward."""
    layers = range(model.layers + model.prediction_layers)
    return sum(layer_forward(model, layer) for layer in layers)


def layer_forward(model: Model, layer: int) -> int:
    """Operations of a sequence in one layer, forward."""
    kinds = model.kinds(layer)
    per_token = sum(_matrices(model, kind) for kind in kinds)
    scores = sum(_products_of(model, layer)) if "attention" in kinds else 0
    return 2 * (model.sequence * per_token + scores + (_scan(model)[0] if "mamba" in kinds else 0))


def _operators_forward(spec: Spec, layer: int) -> int:
    """The part of `layer_forward` that is computed again where only some operators are."""
    model, kinds, operators, again = spec.model, spec.model.kinds(layer), spec.operators, 0
    ways, keys, latents = 2 if model.gated else 1, 2 * model.kv_heads * model.head_size, model.latents
    if "half_of_matrices" in operators:
        inner = ways * model.feed_forward if "feed_forward" in kinds else 0
        return model.sequence * model.hidden * (model.heads * model.head_size + keys + inner)
    if "attention" in kinds:
        again += sum(_products_of(model, layer)) if "attention" in operators else 0
        if "latents" in operators and latents is not None:
            queries = model.heads * (model.head_size + latents.rotary_size)
            up = latents.query_rank * queries + latents.key_value_rank * 2 * model.heads * model.head_size
            again += model.sequence * up
    for kind in ("feed_forward", "experts"):
        again += model.sequence * _matrices(model, kind) if kind in operators and kind in kinds else 0
    return 2 * again


def model_operations(spec: Spec) -> int:
    """Operations of matrix products in a step, nothing computed twice."""
    model = spec.model
    matrices = model.sequence * active_matrices(model) * (3 if spec.lora is None else 2)
    others = sum(_products(model)) + _scans(model)[0] + model.sequence * adapter_parameters(spec)
    return 2 * spec.batch.global_batch * (matrices + 3 * others)


def recomputed_operations(spec: Spec) -> int:
    """Operations in a step that repeat earlier ones because the spec says so.

    Selective recomputation saves nothing with flash attention, which does the same inside its kernels.
    """
    again = 0
    if spec.recompute == "full":
        layers = range(spec.model.layers + spec.model.prediction_layers)
        again = sum(layer_forward(spec.model, layer) for layer in layers if spec.recomputes(layer))
        again += 2 * spec.model.sequence * adapter_parameters(spec) * sum(map(spec.recomputes, layers)) // len(layers)
    elif spec.operators:
        again = sum(_operators_forward(spec, layer) for layer in range(spec.model.layers))
    elif spec.recompute == "selective" and not spec.flash_attention:
        again = 2 * sum(_products(spec.model))
    return spec.batch.global_batch * again


def operations_inside_attention(spec: Spec) -> int:
    """Operations in a step with which backward kernels repeat what they did not keep: flash attention its scores, a
    scan its states."""
    scores = _products(spec.model)[0] if spec.flash_attention else 0
    return 2 * spec.batch.global_batch * (scores + _scans(spec.model)[1])
