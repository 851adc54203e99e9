"""What a model amounts to, whatever it is split into: computed from its sizes alone.

Operations: Narayanan et al. 2021 (arXiv:2104.04473, appendix), each product of matrices apart, so that grouped queries,
gates and experts have their place. Backward twice as much as forward.
"""

from __future__ import annotations

from chakrasim.generator.spec.spec import Experts, Model, Spec


def parameter_count(model: Model) -> int:
    """All different parameters."""
    bias = int(model.bias)
    hidden, norm = model.hidden, model.hidden * (2 if model.norm == "layer" else 1)
    queries, keys = model.heads * model.head_size, model.kv_heads * model.head_size
    attention = (queries + 2 * keys) * (hidden + bias) + (queries + bias) * hidden
    total = 0
    for layer in range(model.layers):
        total += 2 * norm + attention
        moe = model.moe
        if moe is not None and model.has_experts(layer):
            total += hidden * moe.experts + moe.experts * _feed_forward(model, moe.feed_forward)
            total += _feed_forward(model, moe.shared_feed_forward)
        else:
            total += _feed_forward(model, model.feed_forward)
    total += norm + model.vocabulary * hidden * (1 if model.tied_embeddings else 2)
    return total + (model.sequence * hidden if model.position == "learned" else 0)


def _feed_forward(model: Model, size: int) -> int:
    if not size:
        return 0
    bias, ways = int(model.bias), 2 if model.gated else 1
    return size * ways * (model.hidden + bias) + (size + bias) * model.hidden


def active_parameter_count(model: Model) -> int:
    """Parameters that one token meets: of the experts, those that it goes to."""
    moe = model.moe
    if moe is None:
        return parameter_count(model)
    layers = sum(model.has_experts(layer) for layer in range(model.layers))
    return parameter_count(model) - layers * (moe.experts - moe.top_k) * _feed_forward(model, moe.feed_forward)


def _matrices(model: Model, moe: Experts | None) -> int:
    """Multiply-adds of a token with a layer's matrices."""
    queries, keys = model.heads * model.head_size, model.kv_heads * model.head_size
    ways = 3 if model.gated else 2
    attention = model.hidden * (2 * queries + 2 * keys)
    if moe is None:
        return attention + ways * model.hidden * model.feed_forward
    inner = moe.top_k * moe.feed_forward + moe.shared_feed_forward
    return attention + model.hidden * (ways * inner + moe.experts)


def _products(model: Model) -> int:
    """Multiply-adds of a sequence's scores, the same for their product with the values, in a layer."""
    return model.sequence**2 * model.heads * model.head_size


def layers_forward(model: Model) -> int:
    """Operations of a sequence in all layers, forward."""
    return sum(layer_forward(model, layer) for layer in range(model.layers))


def layer_forward(model: Model, layer: int) -> int:
    """Operations of a sequence in one layer, forward."""
    per_token = _matrices(model, model.moe if model.has_experts(layer) else None)
    return 2 * (model.sequence * per_token + 2 * _products(model))


def _operators_forward(spec: Spec, layer: int) -> int:
    """The part of `layer_forward` that is computed again where only some operators are."""
    model, ways = spec.model, 2 if spec.model.gated else 1
    dense = 0 if model.has_experts(layer) else model.feed_forward
    again = 2 * _products(model) if "attention" in spec.operators else 0
    if "half_of_matrices" in spec.operators:
        keys = 2 * model.kv_heads * model.head_size
        again += model.sequence * model.hidden * (model.heads * model.head_size + keys + ways * dense) // 2
    elif "feed_forward" in spec.operators:
        again += model.sequence * model.hidden * (ways + 1) * dense
    return 2 * again


def model_operations(spec: Spec) -> int:
    """Operations of matrix products in a step, nothing computed twice."""
    model = spec.model
    head = 2 * model.sequence * model.hidden * model.vocabulary
    return 3 * spec.batch.global_batch * (layers_forward(model) + head)


def recomputed_operations(spec: Spec) -> int:
    """Operations in a step that repeat earlier ones because the spec says so.

    Selective recomputation saves nothing with flash attention, which does the same inside its kernels.
    """
    again = 0
    if spec.recompute == "full":
        again = sum(layer_forward(spec.model, layer) for layer in range(spec.model.layers) if spec.recomputes(layer))
    elif spec.operators:
        again = sum(_operators_forward(spec, layer) for layer in range(spec.model.layers))
    elif spec.recompute == "selective" and not spec.flash_attention:
        again = 4 * spec.model.layers * _products(spec.model)
    return spec.batch.global_batch * again


def operations_inside_attention(spec: Spec) -> int:
    """Operations in a step with which flash attention's backward kernels repeat the scores."""
    products = 2 * spec.model.layers * _products(spec.model)
    return spec.batch.global_batch * products if spec.flash_attention else 0
