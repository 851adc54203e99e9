"""Reading a spec: YAML or a mapping, every key checked, every error located. docs/reference-transformer-spec.md."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from chakrasim.config.decode import Scalar
from chakrasim.config.section import Section, open_section
from chakrasim.errors import near
from chakrasim.generator.spec.checks import check_spec
from chakrasim.generator.spec.models import MODELS
from chakrasim.generator.spec.names import ALIASES, REMEDIES, VALUE_ALIASES
from chakrasim.generator.spec.spec import (
    BYTES_OF,
    NORMS,
    OPTIMIZERS,
    POSITIONS,
    RECOMPUTES,
    SCHEDULES,
    Batch,
    Experts,
    Model,
    Overlap,
    Parallel,
    Spec,
    default_state_bytes,
)
from chakrasim.notes import Notes

MOST: Final = 2**40
_TOP: Final = (
    "model", "parallel", "batch", "schedule", "recompute", "dtype", "gradient_dtype", "optimizer", "clip_gradients",
    "flash_attention", "overlap",
)  # fmt: skip
_MODEL: Final = (
    "name", "preset", "layers", "hidden", "feed_forward", "heads", "kv_heads", "head_size", "vocabulary", "sequence",
    "gated", "tied_embeddings", "causal", "bias", "position", "norm", "dropout", "moe",
)  # fmt: skip
_MOE: Final = ("experts", "top_k", "every", "feed_forward", "shared_feed_forward")
_PARALLEL: Final = ("dp", "tp", "pp", "sp", "ep", "zero", "fsdp", "virtual_stages", "scatter_gather")
_BATCH: Final = ("global_batch", "micro_batch", "micro_batches")
_OVERLAP: Final = ("tp", "dp", "pp", "fsdp", "bucket")
_SECTIONS: Final = {"model": _MODEL, "parallel": _PARALLEL, "batch": _BATCH, "overlap": _OVERLAP, "moe": _MOE}
_WHOLE: Final = re.compile(r"[0-9]{1,3}(?:[,_][0-9]{3})+|[0-9]{1,13}")
_SIZE: Final = re.compile(r"([0-9]{1,12}) ?([kMG]?i?B)?")
_SIZES: Final = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "kiB": 2**10, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def load_spec(source: str | Path | Mapping[str, Any]) -> Spec:
    """The spec of a YAML file, or of a mapping of the same form.

    Raises InputError for a key that is not known, a value of the wrong type, and values that do not go together.
    """
    root = _renamed(open_section(source, "transformer spec", "yaml", Notes()), ALIASES[""])
    _known(root, _TOP)
    model_section = _model_section(root)
    model = _model(model_section)
    parallel_section = _child(root, "parallel", _PARALLEL)
    parallel = _parallel(parallel_section)
    batch_section = _child(root, "batch", _BATCH)
    batch = _batch(batch_section, parallel.dp)
    dtype = _choice(root, "dtype", "bfloat16", list(BYTES_OF))
    optimizer, state_bytes = _optimizer(root, dtype)
    interleaved = parallel.virtual_stages > 1
    spec = Spec(
        model=model,
        parallel=parallel,
        batch=batch,
        schedule=_choice(root, "schedule", "interleaved" if interleaved else "1f1b", SCHEDULES),
        recompute=_choice(root, "recompute", "none", RECOMPUTES),
        dtype=dtype,
        gradient_dtype=_choice(root, "gradient_dtype", "float32", list(BYTES_OF)),
        optimizer=optimizer,
        state_bytes=state_bytes,
        clip_gradients=_switch(root, "clip_gradients", False),
        flash_attention=_switch(root, "flash_attention", True),
        overlap=_overlap(_child(root, "overlap", _OVERLAP)),
    )
    check_spec(spec, root, model_section, parallel_section, batch_section)
    return spec


def _known(section: Section, keys: tuple[str, ...]) -> None:
    for key in section.entries:
        if key not in keys:
            remedy = _remedy(key, keys)
            section.fail(key, "unknown key", expected="one of " + ", ".join(keys), remedy=remedy)


def _remedy(key: str, keys: tuple[str, ...]) -> str:
    """Where a key belongs that is not among ``keys``, or what it is perhaps meant to be."""
    for home, inner in _SECTIONS.items():
        own = ALIASES.get(home, {}).get(key, key)
        if own in inner and inner is not keys:
            path = "model: moe" if home == "moe" else home
            return f"write it under {path}" + (f", as {own}" if own != key else "")
    return REMEDIES.get(key) or near(key, keys)


def _renamed(section: Section, aliases: Mapping[str, str]) -> Section:
    """The section with our names for keys. Raises InputError for two names of one key."""
    renamed: dict[str, object] = {}
    for name, entry in section.entries.items():
        own = aliases.get(name, name)
        if own in renamed or (own != name and own in section.entries):
            section.fail(name, f"this is another name of {own}, which is there too", found=entry)
        renamed[own] = entry
    return Section(renamed, section.file, section.notes, section.path, section.folder)


def _child(section: Section, key: str, keys: tuple[str, ...]) -> Section:
    """The mapping below a key (empty if it is not there), its keys checked."""
    value = section.entries.get(key)
    if isinstance(value, Scalar) and value.is_null:
        section = replace(section, entries={})
    child = _renamed(section.below(key, keys), ALIASES.get(key, {}))
    _known(child, keys)
    return child


def _model_section(root: Section) -> Section:
    """The entries of ``model``, those of its preset below them."""
    if "model" not in root:
        root.fail("model", "the key is missing", expected="a model's name, or a mapping of " + ", ".join(_MODEL))
    value = root.entries["model"]
    if isinstance(value, str):
        entries: dict[str, object] = {"preset": value}
        section = Section(entries, root.file, root.notes, root.at("model"), root.folder)
        if _word(value) not in MODELS:
            names = "one of " + ", ".join(MODELS)
            root.fail("model", "no such model", found=value, expected=names, remedy=near(value, MODELS))
    else:
        section = _child(root, "model", _MODEL)
    if "preset" not in section:
        return section
    name = _choice(section, "preset", "", list(MODELS))
    return Section({**MODELS[name], "name": name, **section.entries}, section.file, section.notes, section.path)


def _model(section: Section) -> Model:
    for key in ("layers", "hidden", "heads", "vocabulary", "sequence"):
        if key not in section:
            section.fail(key, "the key is missing", remedy="write it, or start from a preset")
    hidden, heads = _integer(section, "hidden", 1), _integer(section, "heads", 1)
    if "head_size" not in section and hidden % heads:
        remedy = "change one of them, or write head_size"
        section.fail("heads", "hidden is not divisible by heads", found=heads, remedy=remedy)
    return Model(
        layers=_integer(section, "layers", 1),
        hidden=hidden,
        feed_forward=_integer(section, "feed_forward", 1, 4 * hidden),
        heads=heads,
        vocabulary=_integer(section, "vocabulary", 1),
        sequence=_integer(section, "sequence", 1),
        kv_heads=_integer(section, "kv_heads", 1, heads),
        head_size=_integer(section, "head_size", 1, max(hidden // heads, 1)),
        gated=_switch(section, "gated", False),
        tied_embeddings=_switch(section, "tied_embeddings", False),
        causal=_switch(section, "causal", True),
        bias=_switch(section, "bias", False),
        position=_choice(section, "position", "rotary", POSITIONS),
        norm=_choice(section, "norm", "rms", NORMS),
        dropout=_switch(section, "dropout", False),
        moe=_experts(section, 4 * hidden),
        name=section.text("name", "transformer"),
    )


def _experts(section: Section, usual: int) -> Experts | None:
    value = section.entries.get("moe")
    if value is None or (isinstance(value, Scalar) and not value.quoted and (value.is_null or value == "false")):
        return None
    moe = _child(section, "moe", _MOE)
    for key in ("experts", "top_k"):
        if key not in moe:
            moe.fail(key, "the key is missing", expected="an integer")
    return Experts(
        experts=_integer(moe, "experts", 1),
        top_k=_integer(moe, "top_k", 1),
        every=_integer(moe, "every", 1, 1),
        feed_forward=_integer(moe, "feed_forward", 1, _integer(section, "feed_forward", 1, usual)),
        shared_feed_forward=_integer(moe, "shared_feed_forward", 0, 0),
    )


def _parallel(section: Section) -> Parallel:
    dp = _integer(section, "dp", 1, 1)
    zero = _integer(section, "zero", 0, 0)
    fsdp = dp if zero == 3 else 1
    if "fsdp" in section:
        switched = _maybe_switch(section, "fsdp")
        fsdp = _integer(section, "fsdp", 1) if switched is None else dp if switched else 1
        sharded = switched is not False
        if sharded and "zero" in section and zero != 3:
            remedy = "leave out one of the two"
            section.fail("zero", "fsdp shards parameters, which is zero: 3", found=zero, remedy=remedy)
        zero = 3 if sharded else zero
    return Parallel(
        dp=dp,
        tp=_integer(section, "tp", 1, 1),
        pp=_integer(section, "pp", 1, 1),
        sp=_switch(section, "sp", False),
        ep=_integer(section, "ep", 1, 1),
        zero=zero,
        fsdp=fsdp,
        virtual_stages=_integer(section, "virtual_stages", 1, 1),
        scatter_gather=_switch(section, "scatter_gather", False),
    )


def _batch(section: Section, dp: int) -> Batch:
    """Any two of the three sizes give the third; one alone leaves a micro-batch of 1, or a single micro-batch."""
    size = {key: _integer(section, key, 1) for key in _BATCH if key in section}
    micro = size.get("micro_batch")
    count = size.get("micro_batches")
    total = size.get("global_batch")
    if total is None:
        micro, count = micro or 1, count or 1
        return Batch(micro * count * dp, micro, count)
    if total % dp:
        expected = f"a multiple of {dp}"
        section.fail("global_batch", "the global batch is not divisible by dp", found=total, expected=expected)
    each = total // dp
    if micro is None:
        micro = each // count if count is not None else 1
    if micro == 0 or each % micro:
        message = f"the sequences of a replica ({each}) do not make whole micro-batches ({micro or f'{count} of them'})"
        section.fail("global_batch", message, found=total)
    if count is not None and micro * count != each:
        message = f"global_batch is not micro_batch x micro_batches x dp ({micro * count * dp})"
        section.fail("global_batch", message, found=total, remedy="leave out one of the three")
    return Batch(total, micro, each // micro)


def _optimizer(root: Section, dtype: str) -> tuple[str, int]:
    value = root.entries.get("optimizer", "adamw")
    if isinstance(value, str):
        kind = _choice(root, "optimizer", "adamw", OPTIMIZERS)
        return kind, default_state_bytes(kind, dtype)
    section = _child(root, "optimizer", ("kind", "state_bytes"))
    kind = _choice(section, "kind", "adamw", OPTIMIZERS)
    return kind, _integer(section, "state_bytes", 0, default_state_bytes(kind, dtype))


def _overlap(section: Section) -> Overlap:
    usual = Overlap()
    switches = {key: _switch(section, key, getattr(usual, key)) for key in ("tp", "dp", "pp", "fsdp")}
    return Overlap(**switches, bucket_bytes=_bytes(section, "bucket", usual.bucket_bytes))


def _bytes(section: Section, key: str, default: int) -> int:
    if key not in section:
        return default
    value = section.entries[key]
    match = _SIZE.fullmatch(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
    if match is None or (match[2] or "B") not in _SIZES or int(match[1]) == 0:
        section.fail(key, "not a size", found=value, expected="bytes, or a size such as 25 MiB")
    return int(match[1]) * _SIZES[match[2] or "B"]


def _word(value: str) -> str:
    """Our name of a value; of a model's, the organisation before it on the Hugging Face hub does not count."""
    word = value.lower().rpartition("/")[2].removesuffix("-hf")
    return VALUE_ALIASES.get(word, word)


def _choice(section: Section, key: str, default: str, choices: Collection[str]) -> str:
    """One of a list, in any case, or another name of it."""
    value = section.entries.get(key, default)
    if isinstance(value, str):
        word = _word(value)
        if word in choices:
            return word
    return section.choice(key, default, choices)


def _integer(section: Section, key: str, low: int, default: int | None = None) -> int:
    """An integer of ``low`` or more; without a default the key must be there."""
    if key not in section:
        if default is None:
            section.fail(key, "the key is missing", expected=f"an integer of {low} or more")
        return default
    value = section.entries[key]
    if isinstance(value, str) and not getattr(value, "quoted", True) and _WHOLE.fullmatch(value):
        value = int(value.replace(",", "").replace("_", ""))
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= MOST:
        section.fail(key, "not a valid number", found=value, expected=f"an integer from {low} to {MOST}")
    return int(value)


def _maybe_switch(section: Section, key: str) -> bool | None:
    value = section.entries[key]
    if isinstance(value, bool):
        return value
    if isinstance(value, Scalar) and not value.quoted and value in ("true", "false"):
        return value == "true"
    return None


def _switch(section: Section, key: str, default: bool) -> bool:
    if key not in section:
        return default
    switched = _maybe_switch(section, key)
    if switched is None:
        section.fail(key, "not a switch", found=section.entries[key], expected="true or false")
    return switched
