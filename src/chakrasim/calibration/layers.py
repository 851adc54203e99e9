"""What measured layers of transformers compute: from a layer's name, the model's dimensions and the number of tokens.

Names are those of vLLM's and Hugging Face's modules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.calibration.models import ModelConfig
from chakrasim.errors import InputError
from chakrasim.trace.work import Work, WorkKind

Ints = NDArray[np.int64]

PROJECTIONS: Final = frozenset(
    (
        *("q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj"),
        *("gate_proj", "up_proj", "gate_up_proj", "down_proj", "w1", "w2", "w3"),
    )
)
"""Layers that are one matrix product each, whose error is reported as that of GEMMs."""


ITEMSIZE: Final = {"float16": 2, "bfloat16": 2, "float32": 4, "tfloat32": 4, "float8": 1, "int8": 1, "float64": 8}
"""Bytes of an element, by type."""


@dataclass(frozen=True)
class LayerWork:
    """Work of a layer for a single token, or for all: ``per_token`` bytes and operations grow with the tokens.

    ``n``, ``k``: of a matrix product with as many rows as tokens, else 0. ``kernels``: how many the layer launches;
    ``fitted``: whether that is known well enough to fit efficiencies to the layer's times.
    """

    kind: WorkKind
    n: int = 0
    k: int = 0
    bytes_per_token: int = 0
    flops_per_token: int = 0
    kernels: int = 1
    fitted: bool = True


def plain_name(layer: str) -> str:
    """A layer's name without what stands before it: "expert.w1" is "w1"."""
    return layer.rpartition(".")[2].lower()


def layer_work(layer: str, config: ModelConfig, parts: int, itemsize: int) -> LayerWork | None:
    """What a layer does on one of ``parts`` devices that share it; None for layers that are not modelled.

    A router ("gate" of a model with experts) is none of the matrix products: its time is that of choosing experts.
    Traffic and kernels of layers that are no matrix product are those of the plain PyTorch modules of Hugging Face's
    transformers: the root-mean-square normalization as eight kernels with float32 in between (another one is one
    kernel), the rotation of queries and keys as twelve, the activation as two. Attention is not among them: a time
    under its name does not say which kernel ran.
    """
    name = plain_name(layer)
    dense_gate = name == "gate" and not config.experts
    queries = config.heads * config.head_dim
    keys = config.kv_heads * config.head_dim
    own_keys = max(keys // parts, config.head_dim)
    wide = config.intermediate
    products = {
        "q_proj": (queries // parts, config.hidden),
        "k_proj": (own_keys, config.hidden),
        "v_proj": (own_keys, config.hidden),
        "qkv_proj": (queries // parts + 2 * own_keys, config.hidden),
        "o_proj": (config.hidden, queries // parts),
        "gate_up_proj": (2 * wide // parts, config.hidden),
        "lm_head": (config.vocabulary // parts, config.hidden),
        **dict.fromkeys(("gate_proj", "up_proj", "w1", "w3"), (wide // parts, config.hidden)),
        **dict.fromkeys(("down_proj", "w2"), (config.hidden, wide // parts)),
    }
    if name in products or dense_gate:
        n, k = products["gate_proj" if dense_gate else name]
        return LayerWork(WorkKind.GEMM, n, k) if n and k else None
    if name.endswith(("layernorm", "rmsnorm")) or name == "norm":
        per_element, kernels = (2 * itemsize, 1) if config.fused_norm else (6 * itemsize + 24, 8)
        return LayerWork(WorkKind.NORMALIZATION, 0, 0, per_element * config.hidden, 4 * config.hidden, kernels)
    if name == "act_fn":
        return LayerWork(WorkKind.ELEMENTWISE, 0, 0, 5 * itemsize * wide // parts, 5 * wide // parts, 2)
    if name == "rope":
        elements = queries // parts + own_keys
        return LayerWork(WorkKind.ROTARY, 0, 0, 10 * itemsize * elements, 3 * elements, 12)
    if name == "embedding":
        return LayerWork(WorkKind.EMBEDDING, 0, 0, 2 * itemsize * config.hidden)
    return None


def _check_size(where: str, *amounts: int) -> None:
    """Raise InputError for operations or bytes that 64 bits do not hold."""
    if max(amounts) >= 1 << 62:
        raise InputError(
            "operations or bytes of a layer are beyond 2^62",
            file=where,
            found=f"{max(amounts):.3g}",
            remedy="check the model's dimensions (--model-config) and the numbers of tokens",
        )


def work_for(layer: LayerWork, tokens: Ints, dtype: str, where: str = "layer") -> Work:
    """The layer's work at each number of tokens. Raises InputError, about ``where``, for work beyond 64 bits."""
    itemsize = ITEMSIZE[dtype]
    rows = int(tokens.max(initial=0))
    _check_size(where, 8 * rows * layer.n * layer.k, 8 * (rows + layer.n) * (layer.k + layer.n))
    _check_size(where, rows * max(layer.bytes_per_token, layer.flops_per_token))
    n, k = layer.n, layer.k
    if n:
        read, written, flops = itemsize * (tokens * k + n * k), itemsize * tokens * n, 2 * tokens * n * k
        return _work(layer.kind, flops, read, written, dtype, m=tokens, n=n, k=k, kernels=layer.kernels)
    half = layer.bytes_per_token // 2
    flops, read, written = tokens * layer.flops_per_token, tokens * half, tokens * (layer.bytes_per_token - half)
    return _work(layer.kind, flops, read, written, dtype, kernels=layer.kernels)


def _work(
    kind: WorkKind, flops: Ints, read: Ints, written: Ints, dtype: str, *, batch: int = 1, m: Ints | int = 0,
    n: Ints | int = 0, k: int = 0, kernels: int = 1,
) -> Work:  # fmt: skip
    def column(value: Ints | int) -> Ints:
        return np.full(len(flops), value, np.int64)

    shape = {"batch": column(batch), "m": column(m), "n": column(n), "k": column(k)}
    causal, types = np.zeros(len(flops), np.bool_), np.full(len(flops), dtype)
    return Work(column(kind), flops, read, written, **shape, causal=causal, dtype=types, kernels=column(kernels))


def attention_work(
    config: ModelConfig, parts: int, queries: Ints, keys: Ints, dtype: str, where: str = "attention"
) -> Work:
    """One sequence's attention of ``queries`` new tokens to ``keys``, all of them, on one of ``parts`` devices.

    Queries, keys, values and the result move through memory once, as in FlashAttention. Raises InputError as `work_for`
    does.
    """
    itemsize = ITEMSIZE[dtype]
    heads = max(config.heads // parts, 1)
    kv_heads = max(config.kv_heads // parts, 1)
    longest = int(max(queries.max(initial=0), keys.max(initial=0)))
    _check_size(where, 4 * heads * config.head_dim * longest**2, 24 * config.head_dim * heads * longest)
    flops = 4 * heads * config.head_dim * queries * keys
    read = itemsize * config.head_dim * (heads * queries + 2 * kv_heads * keys)
    written = itemsize * config.head_dim * heads * queries
    return _work(WorkKind.ATTENTION, flops, read, written, dtype, batch=heads, m=queries, n=keys, k=config.head_dim)
