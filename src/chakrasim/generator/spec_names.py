"""Other people's names of a spec's keys: Hugging Face's config.json, Megatron-LM's arguments, Calculon's files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ALIASES: Final[Mapping[str, Mapping[str, str]]] = {
    "model": {
        **dict.fromkeys(("num_layers", "num_hidden_layers", "num_blocks"), "layers"),
        **dict.fromkeys(("hidden_size", "d_model"), "hidden"),
        **dict.fromkeys(("ffn_hidden_size", "intermediate_size", "feedforward"), "feed_forward"),
        **dict.fromkeys(("num_attention_heads", "num_heads", "attn_heads"), "heads"),
        **dict.fromkeys(("num_key_value_heads", "num_query_groups"), "kv_heads"),
        **dict.fromkeys(("head_dim", "kv_channels", "attn_size"), "head_size"),
        "vocab_size": "vocabulary",
        **dict.fromkeys(("seq_length", "sequence_length", "seq_len", "seq_size"), "sequence"),
        "tie_word_embeddings": "tied_embeddings",
        "swiglu": "gated",
    },
    "moe": {
        **dict.fromkeys(("num_experts", "num_local_experts"), "experts"),
        **dict.fromkeys(("num_experts_per_tok", "moe_router_topk", "topk"), "top_k"),
        **dict.fromkeys(("moe_ffn_hidden_size", "moe_intermediate_size"), "feed_forward"),
    },
    "parallel": {
        **dict.fromkeys(("data_parallel", "data_parallel_size"), "dp"),
        **dict.fromkeys(("tensor_parallel", "tensor_model_parallel_size", "tensor_parallel_size"), "tp"),
        **dict.fromkeys(("pipeline_parallel", "pipeline_model_parallel_size", "pipeline_parallel_size"), "pp"),
        "sequence_parallel": "sp",
        **dict.fromkeys(("expert_parallel", "expert_model_parallel_size", "expert_parallel_size"), "ep"),
        "zero_stage": "zero",
    },
    "batch": {
        "global_batch_size": "global_batch",
        "micro_batch_size": "micro_batch",
        **dict.fromkeys(("num_microbatches", "num_micro_batches"), "micro_batches"),
    },
}
"""By section: another name, and ours."""

VALUE_ALIASES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("bf16", "torch.bfloat16"), "bfloat16"),
    **dict.fromkeys(("fp16", "half", "torch.float16"), "float16"),
    **dict.fromkeys(("fp32", "float", "torch.float32"), "float32"),
    "rmsnorm": "rms",
    "layernorm": "layer",
    "adam": "adamw",
    "rope": "rotary",
    "attn_only": "selective",
}
"""Another name of a value, and ours. Case does not count."""
