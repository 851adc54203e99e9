"""Other people's names of a spec's keys: Hugging Face's config.json, Megatron-LM's arguments, Calculon's files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ALIASES: Final[Mapping[str, Mapping[str, str]]] = {
    "": {
        "parallelism": "parallel",
        "precision": "dtype",
        **dict.fromkeys(("recomputation", "recompute_granularity"), "recompute"),
    },
    "model": {
        **dict.fromkeys(("num_layers", "num_hidden_layers", "num_blocks", "n_layers", "n_layer"), "layers"),
        **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim"), "hidden"),
        **dict.fromkeys(("ffn_hidden_size", "intermediate_size", "feedforward", "d_ff", "n_inner"), "feed_forward"),
        **dict.fromkeys(("num_attention_heads", "num_heads", "attn_heads", "n_heads", "n_head"), "heads"),
        **dict.fromkeys(("num_key_value_heads", "num_query_groups", "num_kv_heads", "n_kv_heads"), "kv_heads"),
        **dict.fromkeys(("head_dim", "kv_channels", "attn_size"), "head_size"),
        **dict.fromkeys(("vocab_size", "vocab", "padded_vocab_size"), "vocabulary"),
        **dict.fromkeys(("seq_length", "sequence_length", "seq_len", "seq_size", "seq"), "sequence"),
        "tie_word_embeddings": "tied_embeddings",
        **dict.fromkeys(("mtp_num_layers", "num_nextn_predict_layers"), "prediction_layers"),
        "sliding_window": "window",
        **dict.fromkeys(("qk_norm", "qk_layernorm"), "head_norms"),
        "swiglu": "gated",
    },
    "moe": {
        **dict.fromkeys(("num_experts", "num_local_experts"), "experts"),
        **dict.fromkeys(("num_experts_per_tok", "moe_router_topk", "topk"), "top_k"),
        **dict.fromkeys(("moe_ffn_hidden_size", "moe_intermediate_size"), "feed_forward"),
        "moe_shared_expert_intermediate_size": "shared_feed_forward",
        "first_k_dense_replace": "dense_layers",
        "moe_latent_size": "latent",
        "moe_router_dtype": "router_dtype",
    },
    "latents": {
        "q_lora_rank": "query_rank",
        "kv_lora_rank": "key_value_rank",
        **dict.fromkeys(("qk_rope_head_dim", "qk_pos_emb_head_dim"), "rotary_size"),
    },
    "parallel": {
        "expert_tensor_parallel_size": "expert_tp",
        **dict.fromkeys(("data_parallel", "data_parallel_size"), "dp"),
        **dict.fromkeys(("tensor_parallel", "tensor_model_parallel_size", "tensor_parallel_size"), "tp"),
        **dict.fromkeys(("pipeline_parallel", "pipeline_model_parallel_size", "pipeline_parallel_size"), "pp"),
        "sequence_parallel": "sp",
        **dict.fromkeys(("context_parallel", "context_parallel_size"), "cp"),
        **dict.fromkeys(("expert_parallel", "expert_model_parallel_size", "expert_parallel_size"), "ep"),
        "zero_stage": "zero",
        **dict.fromkeys(("vpp", "virtual_pipeline_model_parallel_size"), "virtual_stages"),
    },
    "batch": {
        "global_batch_size": "global_batch",
        "micro_batch_size": "micro_batch",
        **dict.fromkeys(("num_microbatches", "num_micro_batches", "microbatches"), "micro_batches"),
    },
}
"""By section ("": the spec itself): another name, and ours."""

REMEDIES: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("max_position_embeddings", "n_positions", "max_seq_len"),
        "that is the longest sequence; write how long the step's are: sequence",
    ),
    **dict.fromkeys(("activation_checkpointing", "gradient_checkpointing"), "write recompute: full or selective"),
    **dict.fromkeys(("world_size", "ranks", "num_gpus", "gpus"), "there are dp x tp x pp ranks: write these"),
    "gradient_accumulation_steps": "write it under batch, as micro_batches",
}
"""What to write for keys of other programs that have no equal here."""

VALUE_ALIASES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("bf16", "torch.bfloat16"), "bfloat16"),
    **dict.fromkeys(("fp16", "half", "torch.float16"), "float16"),
    **dict.fromkeys(("fp32", "float", "torch.float32"), "float32"),
    "rmsnorm": "rms",
    "layernorm": "layer",
    "adam": "adamw",
    "rope": "rotary",
    "attn_only": "selective",
    "moe_act": "activation",
    "mlp": "feed_forward",
    "mla_up_proj": "latents",
    "core_attn": "selective",
    **dict.fromkeys(("fp8", "float8_e4m3fn"), "float8"),
    **dict.fromkeys(("fp4", "float4"), "nvfp4"),
    "mixtral-8x7b-v0.1": "mixtral-8x7b",
    "bloom": "bloom-176b",
    "deepseek-v3-base": "deepseek-v3",
    **dict.fromkeys(("kimi-k2-base", "kimi-k2-instruct"), "kimi-k2"),
    "nvidia-nemotron-3-nano-30b-a3b-bf16": "nemotron-3-nano",
    "nvidia-nemotron-3-super-120b-a12b-bf16": "nemotron-3-super",
    **{f"{other}-{size}": f"llama-{size}" for other in ("llama2", "llama-2") for size in ("7b", "13b", "70b")},
    **{
        f"{other}-{size}": f"llama3-{size}"
        for other in ("llama-3", "llama3.1", "llama-3.1", "meta-llama-3", "meta-llama-3.1")
        for size in ("8b", "70b", "405b")
    },
}
"""Another name of a value, and ours. Case does not count."""
