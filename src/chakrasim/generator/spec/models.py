"""Published models by name, as entries of a spec's ``model``. Each says where its sizes are published."""

from __future__ import annotations

from typing import Any, Final

_ROUTER: Final = {"router_dtype": "float32"}
_LLAMA: Final = {"gated": True, "position": "rotary", "norm": "rms", "vocabulary": 32_000}
_GPT: Final = {
    "gated": False,
    "position": "learned",
    "norm": "layer",
    "bias": True,
    "dropout": True,
    "tied_embeddings": True,
    "sequence": 2048,
    "vocabulary": 51_200,
}


def _llama(
    layers: int, hidden: int, feed_forward: int, heads: int, kv_heads: int, sequence: int, **more: Any
) -> dict[str, Any]:
    sizes = {"layers": layers, "hidden": hidden, "feed_forward": feed_forward, "heads": heads, "kv_heads": kv_heads}
    return {**_LLAMA, **sizes, "sequence": sequence, **more}


def _gpt(layers: int, hidden: int, heads: int, **more: Any) -> dict[str, Any]:
    return {**_GPT, "layers": layers, "hidden": hidden, "feed_forward": 4 * hidden, "heads": heads, **more}


def _mpt(layers: int, hidden: int, heads: int) -> dict[str, Any]:
    more = {"position": "alibi", "bias": False, "dropout": False, "vocabulary": 50_368}
    return _gpt(layers, hidden, heads, **more)


def _deepseek(heads: int, vocabulary: int, moe: dict[str, Any], **more: Any) -> dict[str, Any]:
    latents = {"query_rank": 1536, "key_value_rank": 512, "rotary_size": 64}
    sizes = _llama(61, 7168, 18_432, heads, heads, 4096, head_size=128, vocabulary=vocabulary, latents=latents)
    return {**sizes, "moe": {"feed_forward": 2048, "shared_feed_forward": 2048, **_ROUTER, **moe}, **more}


def _qwen(layers: int, hidden: int, heads: int, feed_forward: int, of_experts: int) -> dict[str, Any]:
    moe = {"experts": 128, "top_k": 8, "feed_forward": of_experts, **_ROUTER}
    more = {"head_size": 128, "vocabulary": 151_936, "head_norms": True, "moe": moe}
    return _llama(layers, hidden, feed_forward, heads, 4, 4096, **more)


def _gpt_oss(layers: int, experts: int) -> dict[str, Any]:
    moe = {"experts": experts, "top_k": 4, "feed_forward": 2880, **_ROUTER}
    more = {"head_size": 64, "vocabulary": 201_088, "bias": True, "window": 128, "moe": moe}
    return _llama(layers, 2880, 2880, 64, 8, 4096, **more)


def _nemotron(layers: int, hidden: int, heads: int, hybrid: dict[str, int], moe: dict[str, int], **more: Any) -> Any:
    """Layers of one kind each; feed-forward parts without gates, attention without positions."""
    sizes = {"layers": layers, "hidden": hidden, "heads": 32, "kv_heads": 2, "head_size": 128, "sequence": 8192}
    plain = {"gated": False, "position": "none", "norm": "rms", "vocabulary": 131_072}
    space = {"heads": heads, "head_size": 64, "state": 128, "groups": 8, **hybrid}
    return {**plain, **sizes, "feed_forward": moe["feed_forward"], "hybrid": space, "moe": {**_ROUTER, **moe}, **more}


MODELS: Final[dict[str, dict[str, Any]]] = {
    # Touvron et al. 2023, arXiv:2302.13971 (table 2) and arXiv:2307.09288.
    "llama-7b": _llama(32, 4096, 11_008, 32, 32, 4096),
    "llama-13b": _llama(40, 5120, 13_824, 40, 40, 4096),
    "llama-70b": _llama(80, 8192, 28_672, 64, 8, 4096),
    # Grattafiori et al. 2024, arXiv:2407.21783 (table 3).
    "llama3-8b": _llama(32, 4096, 14_336, 32, 8, 8192, vocabulary=128_256),
    "llama3-70b": _llama(80, 8192, 28_672, 64, 8, 8192, vocabulary=128_256),
    "llama3-405b": _llama(126, 16_384, 53_248, 128, 8, 8192, vocabulary=128_256),
    # Jiang et al. 2024, arXiv:2401.04088 (table 1).
    "mixtral-8x7b": _llama(32, 4096, 14_336, 32, 8, 4096, moe={"experts": 8, "top_k": 2}),
    # Radford et al. 2019; the vocabulary of 50,257 is padded to a multiple of 128 as by Megatron-LM.
    "gpt2-xl": _gpt(48, 1600, 25, sequence=1024, vocabulary=50_304),
    # Brown et al. 2020, arXiv:2005.14165 (table 2.1), with Megatron-LM's vocabulary of 51,200.
    "gpt3-13b": _gpt(40, 5120, 40),
    "gpt3-175b": _gpt(96, 12_288, 96),
    # Korthikanti et al. 2022, arXiv:2205.05198 (table 3).
    "megatron-22b": _gpt(48, 6144, 64),
    "megatron-530b": _gpt(105, 20_480, 128),
    "megatron-1t": _gpt(128, 25_600, 160),
    # LLM Foundry (mosaicml/llm-foundry, scripts/train/yamls/pretrain); positions as MPT-7B and MPT-30B have them.
    "mpt-125m": _mpt(12, 768, 12),
    "mpt-350m": _mpt(24, 1024, 16),
    "mpt-760m": _mpt(24, 1536, 12),
    "mpt-1b": _mpt(24, 2048, 16),
    "mpt-3b": _mpt(32, 2560, 20),
    "mpt-7b": _mpt(32, 4096, 32),
    "mpt-13b": _mpt(40, 5120, 40),
    "mpt-30b": _mpt(48, 7168, 56),
    "mpt-70b": _mpt(80, 8192, 64),
    # BigScience 2022, arXiv:2211.05100 (section 3.2; bigscience/bloom, config.json).
    "bloom-176b": _gpt(70, 14_336, 112, position="alibi", dropout=False, vocabulary=250_880),
    # DeepSeek-AI 2024, arXiv:2412.19437 (section 4.2; deepseek-ai/DeepSeek-V3, config.json).
    "deepseek-v3": _deepseek(128, 129_280, {"experts": 256, "top_k": 8, "dense_layers": 3}, prediction_layers=1),
    # Kimi Team 2025, arXiv:2507.20534 (table 2; moonshotai/Kimi-K2-Base, config.json).
    "kimi-k2": _deepseek(64, 163_840, {"experts": 384, "top_k": 8, "dense_layers": 1}),
    # Qwen Team 2025, arXiv:2505.09388 (table 2; Qwen/Qwen3-30B-A3B and Qwen3-235B-A22B, config.json).
    "qwen3-30b-a3b": _qwen(48, 2048, 32, 6144, 768),
    "qwen3-235b-a22b": _qwen(94, 4096, 64, 12_288, 1536),
    # OpenAI 2025, arXiv:2508.10925 (section 2; openai/gpt-oss-20b and gpt-oss-120b, config.json).
    "gpt-oss-20b": _gpt_oss(24, 32),
    "gpt-oss-120b": _gpt_oss(36, 128),
    # NVIDIA 2025: config.json of nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 and NVIDIA-Nemotron-3-Super-120B-A12B-BF16.
    "nemotron-3-nano": _nemotron(
        52,
        2688,
        64,
        {"mamba_layers": 23, "attention_layers": 6, "expert_layers": 23},
        {"experts": 128, "top_k": 6, "feed_forward": 1856, "shared_feed_forward": 3712},
    ),
    "nemotron-3-super": _nemotron(
        88,
        4096,
        128,
        {"mamba_layers": 40, "attention_layers": 8, "expert_layers": 40},
        {"experts": 512, "top_k": 22, "feed_forward": 2688, "shared_feed_forward": 5376, "latent": 1024},
        prediction_layers=2,
    ),
}
