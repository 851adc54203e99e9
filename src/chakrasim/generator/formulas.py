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
    return [kind for layer in _layers(model) for kind in model.kinds(layer)]


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
    found += 2 * model.head_size * _norm_ways(model) if model.head_norms else 0
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
    down = latents.query_rank + latents.key_value_rank + latents.rotary_size
    return hidden * down + _matrices_up(model) + queries * hidden


def _matrices_up(model: Model) -> int:
    """Multiply-adds of a token with the matrices that make queries, keys and values of latents."""
    latents, heads = model.latents, model.heads
    if latents is None:
        return 0
    queries = latents.query_rank * heads * (model.head_size + latents.rotary_size)
    return queries + latents.key_value_rank * heads * 2 * model.head_size


def _expert_matrices(model: Model, moe: Experts) -> int:
    hidden, ways = model.hidden, 3 if model.gated else 2
    routed = ways * (moe.latent or hidden) * moe.top_k * moe.feed_forward
    return routed + hidden * (ways * moe.shared_feed_forward + moe.experts + 2 * moe.latent)


def _layers(model: Model) -> range:
    """All layers, prediction layers included."""
    return range(model.layers + model.prediction_layers)


def _products(model: Model, layer: int) -> tuple[int, int]:
    """Multiply-adds of a sequence's scores in a layer, and of their product with the values."""
    if "attention" not in model.kinds(layer):
        return 0, 0
    scores = model.sequence * model.keys(layer)
    rotary = model.latents.rotary_size if model.latents is not None else 0
    return scores * model.heads * (model.head_size + rotary), scores * model.heads * model.head_size


def _scan(model: Model, layer: int) -> tuple[int, int]:
    """Multiply-adds of a sequence's scan in a layer; of them, those that the backward pass repeats."""
    hybrid = model.hybrid
    if hybrid is None or "mamba" not in model.kinds(layer):
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


def layer_forward(model: Model, layer: int) -> int:
    """Operations of a sequence in one layer, forward."""
    per_token = sum(_matrices(model, kind) for kind in model.kinds(layer))
    return 2 * (model.sequence * per_token + sum(_products(model, layer)) + _scan(model, layer)[0])


def end_layers(model: Model) -> int:
    """How many layers have as many operations as prediction layers and all heads; a head alone counts as one."""
    count = model.prediction_layers
    if not count:
        return 1
    heads = 2 * model.sequence * model.hidden * ((1 + count) * model.vocabulary + 2 * count * model.hidden)
    behind = heads + sum(layer_forward(model, model.layers + number) for number in range(count))
    return max(round(behind / layer_forward(model, model.layers - 1)), 1)


def _operators_forward(spec: Spec, layer: int) -> int:
    """The part of `layer_forward` that is computed again where only some operators are."""
    model, kinds = spec.model, spec.model.kinds(layer)
    again = halved = 0
    if "attention" in kinds:
        again += sum(_products(model, layer)) if "attention" in spec.operators else 0
        halved += model.hidden * (model.heads + 2 * model.kv_heads) * model.head_size
        again += model.sequence * _matrices_up(model) if spec.recomputes_alone("latents") else 0
    if "feed_forward" in kinds:
        halved += model.hidden * model.feed_forward * (2 if model.gated else 1)
        again += model.sequence * _matrices(model, "feed_forward") if spec.recomputes_alone("feed_forward") else 0
    if "experts" in kinds and spec.recomputes_alone("experts"):
        again += model.sequence * _matrices(model, "experts")
    return 2 * (again + (model.sequence * halved // 2 if "half_of_matrices" in spec.operators else 0))


def model_operations(spec: Spec) -> int:
    """Operations of matrix products in a step, nothing computed twice."""
    model = spec.model
    matrices = model.sequence * active_matrices(model) * (3 if spec.lora is None else 2)
    others = sum(sum(_products(model, layer)) + _scan(model, layer)[0] for layer in _layers(model))
    others += model.sequence * adapter_parameters(spec)
    return 2 * spec.batch.global_batch * (matrices + 3 * others)


def recomputed_operations(spec: Spec) -> int:
    """Operations in a step that repeat earlier ones because the spec says so.

    Selective recomputation saves nothing with flash attention, which does the same inside its kernels.
    """
    again = 0
    if spec.recompute == "full":
        layers = [layer for layer in _layers(spec.model) if spec.recomputes(layer)]
        adapted = sum("attention" in spec.model.kinds(layer) for layer in layers) * _adapters(spec)
        again = sum(layer_forward(spec.model, layer) for layer in layers) + 2 * spec.model.sequence * adapted
    elif spec.operators:
        again = sum(_operators_forward(spec, layer) for layer in _layers(spec.model))
    elif spec.recompute == "selective" and not spec.flash_attention:
        again = 2 * sum(sum(_products(spec.model, layer)) for layer in _layers(spec.model))
    return spec.batch.global_batch * again


def operations_inside_attention(spec: Spec) -> int:
    """Operations in a step with which backward kernels repeat what they did not keep: flash attention its scores, a
    scan its states."""
    model = spec.model
    scores = sum(_products(model, layer)[0] for layer in _layers(model)) if spec.flash_attention else 0
    return 2 * spec.batch.global_batch * (scores + sum(_scan(model, layer)[1] for layer in _layers(model)))
