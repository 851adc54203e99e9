"""A row of a table of training steps as what is simulated: a spec of the generator, and a machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from chakrasim.calibration.measurements.csv_rows import number_of
from chakrasim.errors import InputError
from chakrasim.estimation.recipes import usual_recipe
from chakrasim.validation.steps.rows import StepRow

if TYPE_CHECKING:
    from chakrasim.generator.spec.spec import Spec

BOARDS: Final = (
    (r"A100.*40GB", "a100-40gb"),
    (r"A100", "a100"),
    (r"H100.*96GB", "h100-96gb"),
    (r"H100", "h100"),
    (r"H200.*NVL", "h200-nvl"),
    (r"H200", "h200"),
    (r"GB200", "gb200"),
    (r"GB300", "gb300"),
    (r"B200", "b200"),
    (r"B300", "b300"),
    (r"MI250", "mi250"),
    (r"MI300X", "mi300x"),
    (r"MI325X", "mi325x"),
    (r"MI350X", "mi350x"),
    (r"MI355X", "mi355x"),
    (r"L40S", "l40s"),
    (r"V100.*16GB", "v100-16gb"),
    (r"V100", "v100-4"),
)
"""Boards by name of the GPU."""
_DTYPES: Final = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp8": "bfloat16", "fp4": "bfloat16"}
_KNOWN: Final = {
    "task": (("", "pretrain", "sft", "lora"), "the generator knows training"),
    "class": (("", "dense", "experts", "experts-hybrid"), "the generator knows these classes of models"),
    "attention": (("", "mha", "gqa", "mla", "hybrid"), "the generator knows these kinds of attention"),
    "offload": (("", "none"), "the generator keeps everything in the GPU's memory"),
    "precision": (tuple(_DTYPES), "the generator knows these precisions"),
    "recompute": (("", "none", "selective", "full", "unknown"), "the generator knows these kinds of recomputation"),
}
"""What can be simulated, by column, and why nothing else."""
_GRAPHS: Final = {"full_iteration": "full", "local": "partial", "transformer_engine": "partial", "true": "partial"}
_OPERATORS: Final = {
    "layernorm": "norm", "moe_act": "activation", "mla_up_proj": "latents", "mlp": "feed_forward",
    "core_attn": "attention", "moe": "experts", "shared_experts": "feed_forward",
}  # fmt: skip
"""What Megatron-Core computes again, and our names."""
_NAMED: Final = ((r"qwen-?3", {"head_norms": True}), (r"gpt-?oss", {"bias": True}))
"""What no column says of families of models: norms of queries and keys; biases, also of experts."""


@dataclass(frozen=True)
class Described:
    """A row that can be simulated.

    Attributes
    ----------
    row: it.
    spec: of the generator.
    board, gpus, nic: of the machine; ``nic`` empty: the board's own.
    assumed: what the row leaves open, in words.
    recipe: the name of what its framework makes of a device (`chakrasim.estimation.recipes`).
    """

    row: StepRow
    spec: Spec
    board: str
    gpus: int
    nic: str
    assumed: tuple[str, ...]
    recipe: str = ""


_FRAMEWORKS: Final = (
    (r"foundry", "foundry"),
    (r"megatron-deepspeed", "megatron-deepspeed"),
    (r"deepspeed|^megatron-lm$", "megatron-2021"),
    (r"rocm", "megatron-rocm"),
)


def described(row: StepRow) -> Described:
    """What a row says. Raises InputError, with the reason, for what cannot be simulated."""
    from chakrasim.generator.spec.file import load_spec

    for column, (known, why) in _KNOWN.items():
        if row.get(column) not in known:
            raise InputError(why, place=row.place, found=f"{column} {row.get(column) or 'blank'}",
                             expected=", ".join(filter(None, known)))  # fmt: skip
    assumed: list[str] = []
    board, gpus = _board(row), _whole(row, "gpus")
    entries = _entries(row, assumed)
    spec = load_spec(entries)
    if spec.parallel.ranks != gpus:
        raise InputError("the split does not make so many GPUs", place=row.place, found=f"{spec.parallel.ranks} ranks",
                         expected=f"{gpus} GPUs")  # fmt: skip
    return Described(row, spec, board, gpus, _nic(row, gpus, assumed), tuple(assumed), framework_of(row, spec))


def framework_of(row: StepRow, spec: Spec) -> str:
    """The recipe of the framework that the row names."""
    name = row.get("framework").lower()
    found = next((recipe for pattern, recipe in _FRAMEWORKS if re.search(pattern, name)), "")
    return found or usual_recipe(spec)


def _entries(row: StepRow, assumed: list[str]) -> Mapping[str, Any]:
    """The spec as its file would have it."""
    layers, pp, pieces = _whole(row, "layers"), _whole(row, "pp"), _whole(row, "vp") if row.get("vp") else 1
    if not row.get("vp") and pp > 1:
        assumed.append("no virtual stages")
    entries: dict[str, Any] = {
        "model": model_of(row, assumed),
        "parallel": _parallel(row, layers, pp, pieces, assumed),
        "batch": _batch(row, pp if pieces > 1 else 1, assumed),
        "dtype": _DTYPES[row.get("precision")],
        "matrix_dtype": _matrix_dtype(row, assumed),
        **_recompute(row, assumed),
        **recipe_of(row, assumed),
    }
    if row.get("task") == "lora":
        entries["lora"] = {"rank": _whole(row, "lora_rank") if row.get("lora_rank") else 16}
    if row.get("optimizer_precision").startswith("bf16"):
        entries["optimizer"] = {"kind": "adamw", "state_bytes": 8}
    return entries


def model_of(row: StepRow, assumed: list[str]) -> dict[str, Any]:
    """The model, from its dimensions."""
    tp, vocabulary = _whole(row, "tp"), _whole(row, "vocab")
    gated, experts = row.is_set("gated_ffn"), _number(row, "experts")
    of_foundry = "foundry" in row.get("framework").lower()
    padded = -(-vocabulary // (128 * tp)) * 128 * tp if vocabulary % tp else vocabulary
    if padded != vocabulary:
        assumed.append(f"vocabulary padded to {padded}")
    modern = gated or experts > 0
    assumed.append("rotary positions and RMS norms" if modern else "learned positions and layer norms")
    model: dict[str, Any] = {
        "name": row.get("model", "transformer"), "layers": _whole(row, "layers"), "hidden": _whole(row, "hidden"),
        "feed_forward": _whole(row, "ffn"), "heads": _whole(row, "heads"),
        "kv_heads": _heads_of_keys(row, tp, assumed), "vocabulary": padded, "sequence": _whole(row, "seq_len"),
        "gated": gated, "tied_embeddings": row.is_set("tied_embeddings"),
        "position": "rotary" if modern else "learned", "norm": "rms" if modern else "layer",
        "bias": not modern and not of_foundry,
    }  # fmt: skip
    if row.get("head_dim"):
        model["head_size"] = _whole(row, "head_dim")
    if experts:
        model["moe"] = {
            "experts": experts, "top_k": _whole(row, "top_k"), "feed_forward": _whole(row, "expert_ffn"),
            "shared_feed_forward": _number(row, "shared_ffn") if _number(row, "shared_experts") else 0,
            "dense_layers": _number(row, "dense_layers"), "latent": _number(row, "moe_latent"),
            "router_dtype": "float32",
        }  # fmt: skip
    if row.get("attention") == "mla":
        model["latents"] = {
            "query_rank": _whole(row, "mla_q_rank"), "key_value_rank": _whole(row, "mla_kv_rank"),
            "rotary_size": _whole(row, "mla_rope_dim"),
        }  # fmt: skip
    if _number(row, "mamba_layers"):
        model["hybrid"] = {
            "mamba_layers": _number(row, "mamba_layers"), "attention_layers": _number(row, "attn_layers"),
            "expert_layers": _number(row, "moe_layers"), "heads": _whole(row, "mamba_heads"),
            "head_size": _whole(row, "mamba_head_dim"), "state": _whole(row, "mamba_state"),
            "groups": _whole(row, "mamba_groups"),
        }  # fmt: skip
    name = model["name"].lower()
    model |= next((entries for pattern, entries in _NAMED if re.match(pattern, name)), {})
    model |= {"window": _number(row, "window")} if _number(row, "window") else {}
    model |= {"prediction_layers": _number(row, "mtp")} if _number(row, "mtp") else {}
    return model


def _heads_of_keys(row: StepRow, tp: int, assumed: list[str]) -> int:
    """Heads of keys and values; fewer than ranks that share them are repeated."""
    count = _whole(row, "kv_heads", "heads")
    if count < tp:
        assumed.append(f"heads of keys and values repeated: {tp} instead of {count}")
    return max(count, tp)


def _parallel(row: StepRow, layers: int, pp: int, pieces: int, assumed: list[str]) -> dict[str, Any]:
    tp, ep = _whole(row, "tp"), _whole(row, "ep") if row.get("ep") else 1
    split = {
        "dp": _whole(row, "dp"), "tp": tp, "pp": pp, "cp": _whole(row, "cp") if row.get("cp") else 1,
        "sp": tp > 1 and (row.is_set("sequence_parallel") or bool(_number(row, "experts"))),
        "zero": _number(row, "zero_stage"), "virtual_stages": pieces, "ep": ep,
        "balance": _balance(row, layers, pp * pieces, assumed),
    }  # fmt: skip
    if _number(row, "experts"):
        split["expert_tp"] = 1
    return split


def _batch(row: StepRow, stages: int, assumed: list[str]) -> dict[str, Any]:
    """A last micro-batch that is smaller counts as a whole one, and micro-batches in groups of ``stages`` likewise."""
    micro, total, dp = _whole(row, "micro_batch"), _whole(row, "global_batch"), _whole(row, "dp")
    each = micro * dp * stages
    whole = -(-total // each) * each
    if whole != total:
        assumed.append(f"the last micro-batches are as large as the others: {whole} sequences instead of {total}")
    return {"global_batch": whole, "micro_batch": micro}


def _matrix_dtype(row: StepRow, assumed: list[str]) -> str:
    """What the layers' products are computed in."""
    precision, kind = row.get("precision"), row.get("quant")
    if precision == "fp4":
        return "nvfp4"
    if precision != "fp8":
        return "none"
    if not kind:
        assumed.append("float8 with one scale a tensor")
    return "mxfp8" if "mxfp8" in kind else "float8"


def _recompute(row: StepRow, assumed: list[str]) -> dict[str, Any]:
    """What is computed again."""
    kind, detail = row.get("recompute", "none"), row.get("recompute_detail")
    if kind == "unknown":
        assumed.append("nothing is computed again")
        return {"recompute": "none"}
    if kind == "full":
        first = re.search(r"first (\d+) layers", detail)
        return {"recompute": "full", "recompute_layers": int(first[1]) if first else 0}
    if kind != "selective":
        return {"recompute": "none"}
    if detail.startswith("per operator"):
        return {"recompute": "half_of_matrices"}
    words = detail.replace(",", " ").split()
    unknown = [word for word in words if word not in _OPERATORS]
    if unknown:
        raise InputError("the generator knows no such recomputation", place=row.place, found=detail[:60],
                         expected=", ".join(_OPERATORS))  # fmt: skip
    if not words:
        assumed.append("selective recomputation is of core attention")
    return {"recompute": ",".join(dict.fromkeys(_OPERATORS[word] for word in words)) or "attention"}


def recipe_of(row: StepRow, assumed: list[str]) -> dict[str, Any]:
    """What the framework does with kernels, the loss, gradients and overlap."""
    name = row.get("framework").lower()
    of_torch = re.search("foundry|torch|hugging|nanotron", name) or "fsdp" in row.get("dp_kind").lower()
    old = "deepspeed" in name or name == "megatron-lm"
    kernels = ("compiled" if row.is_set("compiled") else "eager") if of_torch and "megatron" not in name else "fused"
    reduced = row.get("grad_reduce_precision")
    gradient = next((_DTYPES[word] for word in ("bf16", "fp16") if reduced.startswith(word)), "float32")
    if not reduced:
        assumed.append("gradients are reduced in float32")
    fused = not old and (kernels != "eager" or "foundry" in name)
    fused = row.is_set("fused_loss") if row.get("fused_loss") else fused
    graphs = _GRAPHS.get(row.get("cuda_graph"), "none")
    return {
        "kernels": kernels,
        "fused_loss": fused,
        "copied_heads": "nanotron" in name,
        "flash_attention": not old,
        "gradient_dtype": gradient,
        "cuda_graphs": graphs,
        "clip_gradients": True,
        "overlap": {"dp": not old, "pp": not old, "tp": row.get("tp_overlap") != "none"},
    }


def _balance(row: StepRow, layers: int, pieces: int, assumed: list[str]) -> str:
    """How stages share layers: as the row says, else evenly, or so that embedding and head make them even."""
    predicts = pieces > 1 and _number(row, "mtp") > 0
    if "products" in row.get("stage_balance"):
        return "products"
    if layers % pieces == 0 and "embeddings" not in row.get("stage_balance") and not predicts:
        return "even"
    balance = "ends" if (layers + 2) % pieces == 0 or predicts else "layers"
    if row.get("stage_balance"):
        return "ends" if "embeddings" in row.get("stage_balance") else "layers"
    assumed.append("stages share layers, embedding and head evenly" if balance == "ends" else "stages share layers as "
                   "evenly as it goes")  # fmt: skip
    return balance


def _board(row: StepRow) -> str:
    name = row.get("gpu")
    found = next((board for pattern, board in BOARDS if re.search(pattern, name)), None)
    if found is None:
        known = ", ".join(pattern for pattern, _ in BOARDS)
        raise InputError("no device profile of this GPU", place=row.place, found=name or "blank", expected=known)
    return found


def _nic(row: StepRow, gpus: int, assumed: list[str]) -> str:
    """The speed of a GPU's port between nodes, where there are several."""
    if gpus <= (_whole(row, "gpus_per_node") if row.get("gpus_per_node") else 8):
        return ""
    text = row.get("nic_gbps_per_gpu")
    if not text:
        assumed.append("the board's usual NICs")
        return ""
    if not number_of(text) > 0:
        raise _no_number(row, "nic_gbps_per_gpu", text, "Gb/s above 0")
    return f"{number_of(text):g}G"


def _whole(row: StepRow, column: str, instead: str = "", least: int = 1) -> int:
    """A whole number; of a blank column that ``instead`` of it."""
    text = row.get(column) or (row.get(instead) if instead else "")
    if not text.isascii() or not text.isdigit() or len(text) > 19 or not least <= int(text) < 1 << 60:
        raise _no_number(row, column, text, f"a whole number of {least} or more")
    return int(text)


def _number(row: StepRow, column: str) -> int:
    """A whole number; 0 where the column is blank."""
    return _whole(row, column, least=0) if row.get(column) else 0


def _no_number(row: StepRow, column: str, text: str, expected: str) -> InputError:
    place = f"{row.place}, column {column}"
    return InputError("this is no such number", place=place, found=repr(text[:40]), expected=expected)
