"""Published models by name, as entries of a spec's ``model``. Each says where its sizes are published."""

from __future__ import annotations

from typing import Any, Final

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
}
