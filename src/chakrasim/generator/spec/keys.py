"""The keys of a transformer spec, from which docs/reference-transformer-spec.md and the schema for editors are written
too."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Final

from chakrasim.config.kinds import as_switch, choice, number, switch, text, whole
from chakrasim.config.section import Section
from chakrasim.config.table import EMPTY, Derived, Key, Kind, Required, Table, Values, names, object_schema, read
from chakrasim.config.values import Scalar
from chakrasim.errors import near
from chakrasim.generator.spec.models import MODELS
from chakrasim.generator.spec.names import ALIASES, REMEDIES, VALUE_ALIASES
from chakrasim.generator.spec.spec import (
    BALANCES,
    BYTES_OF,
    CUDA_GRAPHS,
    KERNELS,
    MATRIX_DTYPES,
    NORMS,
    OPERATORS,
    OPTIMIZERS,
    POSITIONS,
    RECOMPUTES,
    SCHEDULES,
    Adapters,
    Experts,
    Hybrid,
    Latents,
    Model,
    Offload,
    Overlap,
    Parallel,
)
from chakrasim.text.amounts import amount_of

MOST: Final = 2**40
_WHOLE: Final = re.compile(r"[0-9]{1,3}(?:[,_][0-9]{3})+|[0-9]{1,13}")


def renamed(section: Section, aliases: str) -> Section:
    """The section with our names for keys. Raises InputError for two names of one key."""
    own_names = ALIASES.get(aliases, {})
    entries: dict[str, object] = {}
    for name, entry in section.entries.items():
        own = own_names.get(name, name)
        if own in entries or (own != name and own in section.entries):
            section.fail(name, f"this is another name of {own}, which is there too", found=entry)
        entries[own] = entry
    return Section(entries, section.file, section.notes, section.path, section.folder)


def refuse_unknown(section: Section, known: Collection[str]) -> None:
    """Raise InputError for a key that is not ``known``; the remedy says where it belongs, or what it may mean."""
    for key in section.entries:
        if key not in known:
            section.fail(key, "unknown key", expected="one of " + ", ".join(known), remedy=_remedy(key, known))


def _remedy(key: str, known: Collection[str]) -> str:
    for home, table in _HOMES.items():
        own = ALIASES.get(home, {}).get(key, key)
        if own in names(table) and names(table) != known:
            path = f"model: {home}" if home in _PARTS else home
            return f"write it under {path}" + (f", as {own}" if own != key else "")
    return REMEDIES.get(key) or near(key, known)


def child(section: Section, key: str, table: Table) -> Section:
    """The mapping below a key (empty if it is not there), its keys checked."""
    value = section.entries.get(key)
    if isinstance(value, Scalar) and value.is_null:
        section = Section({}, section.file, section.notes, section.path)
    found = renamed(section.below(key, names(table)), key)
    refuse_unknown(found, names(table))
    return found


def schema_of(table: Table, home: str, kinds: str | list[str] = "object") -> dict[str, Any]:
    """The JSON schema of a mapping with these keys, or with other programs' names for them."""
    schema = object_schema(table) | {"type": kinds}
    schema.pop("required", None)
    own = schema["properties"]
    return schema | {"properties": own | {alias: own[name] for alias, name in ALIASES.get(home, {}).items()}}


def _part(home: str, table: Table, made: Callable[[Section, Values], Any]) -> Kind:
    """A mapping with these keys or other programs' names for them; ``made`` makes of its values what is kept."""

    def reader(section: Section, key: str) -> Any:
        below = child(section, key, table)
        return made(below, read(below, table))

    return Kind(reader, "mapping", schema_of(table, home, ["object", "null"]), table)


def _digits(value: object) -> object:
    """An integer as a YAML file may write it, digits in groups of three too."""
    if isinstance(value, str) and not getattr(value, "quoted", True) and _WHOLE.fullmatch(value):
        return int(value.replace(",", "").replace("_", ""))
    return value


def word_of(value: str) -> str:
    """Our name of a value; of a model's, the organisation before it on the Hugging Face hub does not count."""
    word = value.lower().rpartition("/")[2].removesuffix("-hf")
    return VALUE_ALIASES.get(word, word)


def _one_of(choices: Collection[str]) -> Kind:
    """One of a list, in any case, or another name of it."""
    return choice(choices, word_of)


def _bytes(section: Section, key: str) -> int:
    value = section.entries[key]
    size = amount_of(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
    if size is None or size.denominator != 1 or not 0 < size < 1 << 62:
        section.refuse(key, "not a size", "bytes, or a size such as 25 MiB")
    return int(size)


def _whole(low: int) -> Kind:
    return whole(low, MOST, _digits)


def _fsdp(section: Section, key: str) -> bool | int:
    switched = as_switch(section.entries[key])
    return int(_COUNT.read(section, key)) if switched is None else switched


def _optional(home: str, table: Table, made: Callable[..., Any]) -> Kind:
    """A mapping with these keys, made an object of; or none, as ``null`` or ``false``."""

    def reader(section: Section, key: str) -> Any:
        value = section.entries[key]
        if value is None or (isinstance(value, Scalar) and not value.quoted and (value.is_null or value == "false")):
            return None
        return made(**read(child(section, key, table), table))

    return Kind(reader, "mapping", {"anyOf": [schema_of(table, home), {"enum": [None, False]}]}, table)


def _model(section: Section, values: Values) -> Model:
    if "head_size" not in section and values["hidden"] % values["heads"]:
        remedy = "change one of them, or write head_size"
        section.fail("heads", "hidden is not divisible by heads", found=values["heads"], remedy=remedy)
    del values["preset"]
    model = Model(**values)
    if model.hybrid is not None:
        _check_hybrid(section, model, model.hybrid)
    if model.moe is None or model.moe.feed_forward:
        return model
    return replace(model, moe=replace(model.moe, feed_forward=model.feed_forward))


def _check_hybrid(section: Section, model: Model, hybrid: Hybrid) -> None:
    """Raise InputError for layers of one kind that are more than there are layers."""
    named = hybrid.mamba_layers + hybrid.attention_layers + hybrid.expert_layers
    if named > model.layers:
        section.fail("hybrid", "its layers are more than the model's", found=named, expected=f"at most {model.layers}")


def _model_entries(root: Section, key: str) -> Section:
    """The entries of ``model``, those of its preset below them."""
    value = root.entries[key]
    if isinstance(value, str):
        section = Section({"preset": value}, root.file, root.notes, root.at(key))
        if word_of(value) not in MODELS:
            root.refuse(key, "no such model", "one of " + ", ".join(MODELS), near(value, MODELS))
    else:
        section = child(root, key, MODEL)
    if "preset" not in section:
        return section
    name = _PRESET.read(section, "preset")
    return Section({**MODELS[name], "name": name, **section.entries}, root.file, root.notes, root.at(key))


def _read_model(root: Section, key: str) -> Model:
    section = _model_entries(root, key)
    return _model(section, read(section, MODEL))


def _parallel(section: Section, values: Values) -> Parallel:
    zero, fsdp, copies = values.pop("zero"), values.pop("fsdp"), values["dp"] * values["cp"]
    if fsdp is None:
        return Parallel(**values, zero=zero, fsdp=copies if zero == 3 else 1)
    if fsdp is False:
        return Parallel(**values, zero=zero, fsdp=1)
    if "zero" in section and zero != 3:
        remedy = "leave out one of the two"
        section.fail("zero", "fsdp shards parameters, which is zero: 3", found=zero, remedy=remedy)
    return Parallel(**values, zero=3, fsdp=copies if fsdp is True else fsdp)


def _optimizer(section: Section, key: str) -> tuple[str, int | None]:
    if isinstance(section.entries[key], str):
        return str(_OPTIMIZER_KIND.read(section, key)), None
    values = read(child(section, key, _OPTIMIZER), _OPTIMIZER)
    return values["kind"], values["state_bytes"]


def _recompute(section: Section, key: str) -> str:
    """One of `RECOMPUTES`, or names of `OPERATORS`."""
    text_of = str(section.entries[key]).lower()
    names_of = [word_of(name.strip()) for name in text_of.replace("[", "").replace("]", "").split(",")]
    alone = len(names_of) == 1 and names_of[0] in RECOMPUTES
    if not alone and not set(names_of) <= set(OPERATORS):
        section.refuse(key, "no such recomputation", f"{', '.join(RECOMPUTES)}, or some of {', '.join(OPERATORS)}")
    return ",".join(dict.fromkeys(names_of))


_RECOMPUTE: Final = Kind(_recompute, "`none`, `selective`, `full` or names", {"type": "string"})
_PRESET: Final = replace(_one_of(MODELS), shown="name")
_DTYPE: Final = _one_of(BYTES_OF)
_OPTIMIZER_KIND: Final = _one_of(OPTIMIZERS)
_COUNT: Final = _whole(1)
_SIZE_NEEDED: Final = Required(remedy="write it, or start from a preset")
_USUAL: Final = Overlap()

MOE: Final = (
    Key("experts", _COUNT, Required("an integer"), "how many experts there are"),
    Key("top_k", _COUNT, Required("an integer"), "to how many of them each token goes; tokens are spread evenly"),
    Key("every", _COUNT, 1, "every how many layers the feed-forward part is made of experts"),
    Key("feed_forward", _COUNT, 0, "inner size of an expert", shown="the model's"),
    Key("shared_feed_forward", _whole(0), 0, "inner size of a dense part beside the experts, for all tokens"),
    Key("dense_layers", _whole(0), 0, "leading layers without experts, from behind which `every` counts"),
    Key("latent", _whole(0), 0, "elements of a token as experts see it, between a matrix down before they are sent and "
        "one up behind; 0: the hidden state itself"),
    Key("router_dtype", _DTYPE, "", "what the router computes in", shown="the spec's `dtype`"),
)  # fmt: skip

LATENTS: Final = (
    Key("query_rank", _COUNT, Required("an integer"), "elements of the latent from which queries are made"),
    Key("key_value_rank", _COUNT, Required("an integer"), "of that from which keys and values are made"),
    Key("rotary_size", _COUNT, Required("an integer"),
        "elements of a head's queries and keys with rotary positions, beside `head_size` without"),
)  # fmt: skip

HYBRID: Final = (
    Key("mamba_layers", _COUNT, Required("an integer"), "layers that are a state space (Mamba-2)"),
    Key("attention_layers", _whole(0), 0, "layers that are attention"),
    Key("expert_layers", _whole(0), 0, "layers that are experts; the rest are dense feed-forward parts"),
    Key("heads", _COUNT, Required("an integer"), "heads of the state space"),
    Key("head_size", _COUNT, 64, "elements of such a head"),
    Key("state", _COUNT, 128, "elements of the state for each of these"),
    Key("groups", _COUNT, 1, "groups of heads with the same inputs and outputs of states"),
    Key("convolution", _COUNT, 4, "tokens that the convolution in front sees"),
    Key("chunk", _COUNT, 256, "tokens that are computed as matrix products"),
)  # fmt: skip

MODEL: Final = (
    Key("name", text, "transformer", "for reports", shown="the preset's"),
    Key("preset", _PRESET, None, "where to start from: the other keys replace what it says"),
    Key("layers", _COUNT, _SIZE_NEEDED, "attention and a feed-forward part each, or, of a hybrid, one thing each"),
    Key("hidden", _COUNT, _SIZE_NEEDED, "elements of the hidden state"),
    Key("feed_forward", _COUNT, Derived(lambda model: 4 * model["hidden"], "4 x hidden"),
        "inner size of the feed-forward part"),
    Key("heads", _COUNT, _SIZE_NEEDED, "heads of attention"),
    Key("kv_heads", _COUNT, Derived(lambda model: model["heads"], "heads"),
        "heads of keys and values (grouped-query attention)"),
    Key("head_size", _COUNT, Derived(lambda model: max(model["hidden"] // model["heads"], 1), "hidden / heads"),
        "elements of a head"),
    Key("vocabulary", _COUNT, _SIZE_NEEDED, "tokens that there are"),
    Key("sequence", _COUNT, _SIZE_NEEDED, "length of the step's sequences, in tokens"),
    Key("gated", switch, False, "a gate in the feed-forward part: three matrices (SwiGLU) instead of two"),
    Key("tied_embeddings", switch, False, "the head uses the embedding's matrix"),
    Key("causal", switch, True, "tokens attend to earlier ones only"),
    Key("bias", switch, False, "matrices have biases"),
    Key("position", _one_of(POSITIONS), "rotary", "how tokens know their position"),
    Key("norm", _one_of(NORMS), "rms", "`rms` (a weight) or `layer` (a weight and a bias)"),
    Key("dropout", switch, False, "behind embedding, attention and feed-forward part, and on attention probabilities"),
    Key("moe", _optional("moe", MOE, Experts), None, "experts: a mapping, below"),
    Key("latents", _optional("latents", LATENTS, Latents), None,
        "multi-head latent attention (MLA): a mapping, below"),
    Key("window", _whole(0), 0, "tokens that those of every other layer, from the first, attend to; 0: all"),
    Key("hybrid", _optional("hybrid", HYBRID, Hybrid), None, "layers of one kind each: a mapping, below"),
    Key("head_norms", switch, False, "queries and keys are normalised, each head by itself (QK norm)"),
    Key("prediction_layers", _whole(0), 0,
        "layers behind the others that predict one more token each, with the shared head (MTP)"),
)  # fmt: skip

PARALLEL: Final = (
    Key("dp", _COUNT, 1, "replicas, each with its part of the batch"),
    Key("tp", _COUNT, 1, "ranks that share every matrix, as in Megatron-LM"),
    Key("pp", _COUNT, 1, "pipeline stages"),
    Key("cp", _COUNT, 1, "ranks that share a sequence; keys and values go round for attention"),
    Key("sp", switch, False, "sequence parallelism, over the ranks of `tp`"),
    Key("ep", _COUNT, 1, "ranks that share a layer's experts. They are ranks of `dp`: there are not more of them, and "
        "attention is not repeated"),
    Key("expert_tp", _COUNT, Derived(lambda parallel: parallel["tp"], "tp"),
        "ranks that share an expert's matrices: `tp`, or 1: experts are whole, and `ep` divides `dp` x `tp`"),
    Key("zero", _whole(0), 0, "what data parallelism shards: 1 optimizer states, 2 gradients too, 3 parameters too"),
    Key("fsdp", Kind(_fsdp, "switch or integer", {"anyOf": [switch.schema, _COUNT.schema]}), None,
        "`true`: the same as `zero: 3`; a number: shard over so many ranks of `dp`, the others are replicas of these",
        shown="off"),
    Key("virtual_stages", _COUNT, 1, "pieces of the model on each pipeline rank (interleaved schedule)"),
    Key("balance", _one_of(BALANCES), "even", "how layers are shared among stages and their pieces: `even`; `layers`, "
        "as evenly as it goes; `ends`, the same with the embedding and the head counted as a layer each; `products`, "
        "each takes layers until it has more than its share of the products, the head's among them, as nanotron does"),
    Key("end_layers", _whole(0), 0, "with `ends`, how many layers what is behind the last one counts as; 0: 1, or, "
        "where prediction layers are there too, as many as have so many operations", shown="0"),
    Key("scatter_gather", switch, False,
        "without `sp`, a rank of `tp` sends a part of what goes to another stage, and it is gathered there"),
)  # fmt: skip

BATCH: Final = (
    Key("global_batch", _COUNT, None, "sequences of a step", shown="from the others"),
    Key("micro_batch", _COUNT, None, "sequences that a replica computes at a time", shown="from the others, else 1"),
    Key("micro_batches", _COUNT, None, "how many of these a replica computes", shown="from the others, else 1"),
)  # fmt: skip

OVERLAP: Final = (
    Key("tp", switch, _USUAL.tp,
        "sums (or scatters) of input gradients run during the computation of weight gradients"),
    Key("dp", switch, _USUAL.dp,
        "gradients are reduced as soon as those of a bucket are there, else behind the chunk's last backward pass"),
    Key("pp", switch, _USUAL.pp, "a stage computes on while it sends"),
    Key("fsdp", switch, _USUAL.fsdp, "weights of the next layer are gathered while this one computes"),
    Key("bucket", Kind(_bytes, "size", {"type": ["string", "integer"]}), _USUAL.bucket_bytes,
        "size of a bucket of gradients; a bucket ends with a layer", "bucket_bytes", shown="25 MiB"),
)  # fmt: skip

_OPTIMIZER: Final = (
    Key("kind", _OPTIMIZER_KIND, "adamw", "the optimizer"),
    Key("state_bytes", _whole(0), None, "of each parameter, the float32 copy included"),
)  # fmt: skip

_LORA: Final = (Key("rank", _COUNT, Required("an integer"), "elements between an adapter's two matrices"),)

_SHARE: Final = number(0.0, 1.0, "a share, 0 to 1", "number, 0 to 1")
OFFLOAD: Final = (
    Key("optimizer", _SHARE, 0.0, "share of the optimizer's states, which come for the update and go back"),
    Key("activations", _SHARE, 0.0, "share of what a layer keeps for its backward pass, which goes behind its forward "
        "pass and comes back"),
)  # fmt: skip

_PARTS: Final = {"moe": MOE, "latents": LATENTS, "hybrid": HYBRID}
_HOMES: Final = {"model": MODEL, "parallel": PARALLEL, "batch": BATCH, "overlap": OVERLAP, "offload": OFFLOAD, **_PARTS}

SPEC: Final = (
    Key("model", Kind(_read_model, "name or mapping", {"anyOf": [_PRESET.schema, schema_of(MODEL, "model")]}, MODEL),
        Required("a model's name, or a mapping of " + ", ".join(names(MODEL))), "a preset's name, or sizes, below"),
    Key("parallel", _part("parallel", PARALLEL, _parallel), EMPTY, "how ranks share the work, below"),
    Key("batch", _part("batch", BATCH, lambda section, values: values), EMPTY, "sequences of a step, below"),
    Key("schedule", _one_of(SCHEDULES),
        Derived(lambda spec: "interleaved" if spec["parallel"].virtual_stages > 1 else "1f1b", "1f1b"),
        "order of the passes of a pipeline; `interleaved` with `virtual_stages`"),
    Key("recompute", _RECOMPUTE, "none",
        "`selective`: scores, softmax and their product with the values; `full`: all of each layer but its input; or "
        "names, comma-separated, of what is computed again alone: " + ", ".join(f"`{name}`" for name in OPERATORS)),
    Key("recompute_layers", _whole(0), 0, "with `full`, of so many layers of each piece of the model; 0: of all"),
    Key("dtype", _DTYPE, "bfloat16", "what is computed in and sent"),
    Key("matrix_dtype", _one_of(MATRIX_DTYPES), "none", "what the layers' products with weights are computed in, where "
        "it is not `dtype`; what goes into them is converted", shown="dtype"),
    Key("gradient_dtype", _DTYPE, "float32", "what gradients are kept and reduced in"),
    Key("optimizer", Kind(_optimizer, "`adamw`, `sgd` or mapping",
        {"anyOf": [_OPTIMIZER_KIND.schema, schema_of(_OPTIMIZER, "optimizer")]}, _OPTIMIZER), ("adamw", None),
        "the optimizer, or `{kind: adamw, state_bytes: 12}`: bytes of each parameter, the float32 copy included",
        shown="adamw"),
    Key("clip_gradients", switch, False, "the norm of the gradients is taken, and they are scaled by it"),
    Key("flash_attention", switch, True, "scores stay inside one kernel; else they are written to memory"),
    Key("kernels", _one_of(KERNELS), "fused", "element-wise work: `fused` as by Megatron-LM and Transformer Engine, "
        "`compiled` as by torch.compile, `eager`: a kernel for each of PyTorch's operators"),
    Key("fused_loss", switch, False, "the cross entropy is one kernel each way, without logits in float32"),
    Key("copied_heads", switch, False, "attention takes copies of keys and values and the product that they came from "
        "stays in memory, as in nanotron"),
    Key("launch_ns", _whole(0), 0, "the host's time for each kernel, in nanoseconds; 0: the host is never behind"),
    Key("cuda_graphs", _one_of(CUDA_GRAPHS), "none", "how much of the step is launched at once: `partial`: layers, or "
        "parts of them; estimates take the gaps between kernels from it"),
    Key("overlap", _part("overlap", OVERLAP, lambda section, values: Overlap(**values)), EMPTY,
        "what compute does not wait for, below", shown="all true"),
    Key("lora", _optional("lora", _LORA, Adapters), None,
        "`{rank: 16}`: adapters of so many elements beside queries, keys and values and beside attention's output "
        "matrix; all else is frozen"),
    Key("offload", _part("offload", OFFLOAD, lambda section, values: Offload(**values)), EMPTY,
        "what is kept in the host's memory, below", shown="nothing"),
)  # fmt: skip
"""The keys of a spec."""
