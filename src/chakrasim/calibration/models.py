"""Dimensions of models, which measured layer times do not state: from files like the Hugging Face hub's config.json."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from chakrasim.config.decode import decode_json, decode_yaml, read_bytes
from chakrasim.config.values import as_sequence, describe, parse_integer
from chakrasim.errors import InputError
from chakrasim.notes import Notes

_KIND = "model configuration"
_NAME_KEYS = ("name", "model", "model_name", "_name_or_path")
_LAYER_NORM = ("phimoe", "phi", "gpt2", "gpt_neox", "gptj", "opt", "bloom", "falcon")
"""Values of model_type whose normalization is PyTorch's LayerNorm."""
_SUFFIXES = (".json", ".yaml", ".yml")


@dataclass(frozen=True)
class ModelConfig:
    """Dimensions of a transformer. ``experts`` is 0 for a dense one; ``fused_norm`` says that its normalization is a
    single kernel (LayerNorm, not a root mean square in PyTorch); ``source`` says where all this is from."""

    name: str
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    experts: int
    fused_norm: bool
    source: str


def same_model(one: str, other: str) -> bool:
    """Whether two names mean the same model: case does not count, and an organisation only if both have one."""
    a, b = one.strip("/").lower(), other.strip("/").lower()
    if "/" in a and "/" in b:
        return a == b
    return a.rpartition("/")[2] == b.rpartition("/")[2]


@cache
def built_in_models() -> tuple[ModelConfig, ...]:
    """Well-known models whose dimensions are shipped."""
    path = Path(__file__).with_name("models.yaml")
    return tuple(_entries(decode_yaml(path.read_bytes(), path.name), path.name, "built in", None))


def load_model_configs(
    source: str | os.PathLike[str] | Mapping[str, Any], nameless: str | None = None
) -> tuple[ModelConfig, ...]:
    """Model configurations of a YAML or JSON file, of all such files in a folder, or of a mapping.

    A file holds a mapping of models' names to configurations, a list of configurations that state their names, or one
    configuration. One that states no name (``name``, ``model`` or ``_name_or_path``) is called after its folder if the
    file is a config.json in a folder of configurations, else ``nameless``. Raises InputError.
    """
    if isinstance(source, Mapping):
        return tuple(_entries(source, _KIND, "given", nameless))
    path = Path(source)
    if not path.is_dir():
        return tuple(_file(path, nameless))
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in _SUFFIXES and file.is_file())
    found = []
    for file in files:
        named = file.parent.name if file.stem == "config" and file.parent != path else file.stem
        found += list(_file(file, nameless if named == "config" else named))
    if not found:
        raise InputError(f"no {_KIND} in this folder", file=str(path), expected="files *.json, *.yaml or *.yml")
    return tuple(found)


def find_config(name: str, configs: Sequence[ModelConfig]) -> ModelConfig | None:
    """The configuration of a model: of those given, else built in, else None."""
    for known in (configs, built_in_models()):
        exact = [config for config in known if config.name.lower() == name.lower()]
        for config in exact or [config for config in known if same_model(config.name, name)]:
            return config
    return None


def unlike_built_in(config: ModelConfig) -> str:
    """In which dimensions a configuration is not the built-in model of its name, for people; "" if in none."""
    known = find_config(config.name, ())
    if known is None:
        return ""
    names = ("hidden", "intermediate", "heads", "kv_heads", "experts")
    pairs = ((name, getattr(config, name), getattr(known, name)) for name in names)
    return ", ".join(f"{name} {own:,} instead of {usual:,}" for name, own, usual in pairs if own != usual)


def _file(path: Path, nameless: str | None) -> Iterator[ModelConfig]:
    data, name = read_bytes(path, _KIND), str(path)
    content = decode_json(data, name, Notes()) if path.suffix.lower() == ".json" else decode_yaml(data, name)
    return _entries(content, name, name, nameless)


def _entries(content: object, file: str, source: str, nameless: str | None) -> Iterator[ModelConfig]:
    """The configurations of a file's content, whichever of the three forms it has."""
    listed = as_sequence(content)
    if listed is not None:
        for index, entry in enumerate(listed):
            yield _config(entry, None, file, f"$[{index}]", source)
    elif isinstance(content, Mapping) and ("hidden_size" in content or "text_config" in content):
        yield _config(content, nameless, file, "$", source)
    elif isinstance(content, Mapping) and content:
        nested = content.get("models")
        if len(content) == 1 and (isinstance(nested, Mapping) or as_sequence(nested) is not None):
            yield from _entries(nested, file, source, nameless)
            return
        for name, entry in content.items():
            yield _config(entry, str(name), file, f"$.{name}", source)
    else:
        expected = "a mapping of models' names to configurations, a list of them, or one configuration"
        raise InputError(f"not a {_KIND}", file=file, place="$", found=describe(content), expected=expected)


def _config(entry: object, name: str | None, file: str, place: str, source: str) -> ModelConfig:
    if not isinstance(entry, Mapping):
        expected = "a mapping with hidden_size, intermediate_size, num_attention_heads, ..."
        raise InputError(f"not a {_KIND}", file=file, place=place, found=describe(entry), expected=expected)
    stated = next((str(entry[key]) for key in _NAME_KEYS if isinstance(entry.get(key), str) and entry[key]), None)
    called = name or stated
    if called is None:
        raise InputError(
            "the configuration does not say which model it is of",
            file=file,
            place=place,
            expected="its name as the key above it, or as 'name'",
        )
    inner = entry.get("text_config")
    fields = inner if isinstance(inner, Mapping) and "hidden_size" not in entry else entry

    def number(*keys: str, default: int | None = None) -> int:
        return _number(fields, keys, default, file, place)

    heads = number("num_attention_heads")
    hidden = number("hidden_size")
    experts = number("num_local_experts", "num_experts", "n_routed_experts", default=0)
    wide = ("moe_intermediate_size", "intermediate_size") if experts else ("intermediate_size",)
    return ModelConfig(
        name=called,
        hidden=hidden,
        intermediate=number(*wide),
        heads=heads,
        kv_heads=number("num_key_value_heads", default=heads),
        head_dim=number("head_dim", default=max(hidden // heads, 1)),
        vocabulary=number("vocab_size", default=0),
        experts=experts,
        fused_norm=str(fields.get("model_type", "")).lower() in _LAYER_NORM,
        source=source,
    )


def _number(fields: Mapping[Any, Any], keys: Sequence[str], default: int | None, file: str, place: str) -> int:
    """The first of the keys that is there, a whole number above 0 (null counts as absent)."""
    for key in keys:
        value = fields.get(key)
        if value is None or (isinstance(value, str) and getattr(value, "is_null", False)):
            continue
        parsed = parse_integer(value) if isinstance(value, str) else value
        if isinstance(parsed, bool) or not isinstance(parsed, int) or not 0 < parsed < 2**31:
            raise InputError(
                "not a dimension", file=file, place=f"{place}.{key}", found=describe(value), expected="an integer > 0"
            )
        return parsed
    if default is None:
        raise InputError(f"the {_KIND} lacks {keys[0]!r}", file=file, place=place)
    return default
