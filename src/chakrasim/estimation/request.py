"""What is asked for, as entries of a transformer spec: a model, how ranks share it, one step."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from chakrasim.config.section import Section, open_section
from chakrasim.config.values import describe
from chakrasim.errors import InputError, near
from chakrasim.estimation.places import placed
from chakrasim.generator.spec.keys import renamed, word_of
from chakrasim.generator.spec.models import MODELS
from chakrasim.generator.spec.spec import MATRIX_DTYPES

ModelLike = str | os.PathLike[str] | Mapping[str, Any]
Entries = dict[str, Any]
DP_KINDS: Final = ("ddp", "fsdp", "hsdp")


@dataclass(frozen=True)
class Request:
    """What may be asked for beside model and machine; None: as the spec's file has it, else by default.

    Attributes
    ----------
    tp, pp, vp, cp, ep: ranks that share matrices, pipeline stages, pieces of the model on a stage, ranks that share a
        sequence, ranks that share experts.
    dp_kind: "ddp"; "fsdp", parameters sharded over all replicas; "hsdp", over those of a node.
    zero: what data parallelism shards: 0 nothing, 1 optimizer states, 2 gradients too, 3 parameters too.
    batch, micro_batch, seq: sequences of the whole job's step, sequences of a replica at a time, tokens of a sequence.
    recompute: as in a spec.
    dtype: as in a spec, or one of its ``matrix_dtype``, with which all else is bfloat16.
    compile: whether element-wise kernels are fused by torch.compile, or each operator is a kernel; None: fused as by
        Megatron-LM.
    """

    tp: int | None = None
    pp: int | None = None
    vp: int | None = None
    cp: int | None = None
    ep: int | None = None
    dp_kind: str | None = None
    zero: int | None = None
    batch: int | None = None
    micro_batch: int | None = None
    seq: int | None = None
    recompute: str | None = None
    dtype: str | None = None
    compile: bool | None = None

    def __post_init__(self) -> None:
        for name in (one.name for one in fields(self)):
            value = getattr(self, name)
            low = 0 if name == "zero" else 1
            if name in ("dp_kind", "recompute", "dtype", "compile") or value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= 1 << 40:
                raise InputError("out of range", place=name, found=value, expected=f"a whole number of {low} or more")
        if self.dtype is not None and not isinstance(self.dtype, str):
            raise InputError("not a data type", place="dtype", found=describe(self.dtype), expected="a name: bfloat16")
        if self.dp_kind is not None and self.dp_kind not in DP_KINDS:
            raise InputError("no such kind of data parallelism", place="dp_kind", found=repr(self.dp_kind),
                             expected=", ".join(DP_KINDS))  # fmt: skip


_PLACES: Final = {
    "tp": ("parallel", "tp"), "pp": ("parallel", "pp"), "vp": ("parallel", "virtual_stages"), "cp": ("parallel", "cp"),
    "ep": ("parallel", "ep"), "micro_batch": ("batch", "micro_batch"), "batch": ("batch", "global_batch"),
    "seq": ("model", "sequence"),
}  # fmt: skip
"""Where a spec has what is asked for."""


def entries_of(model: ModelLike, request: Request, places: Mapping[str, Any] | None = None) -> tuple[Entries, str]:
    """A spec's entries, its sections among them, with values in `chakrasim.estimation.places`, and where they come
    from. Raises InputError for an unknown model."""
    root = renamed(_opened(model), "")
    entries: Entries = {name: value for name, value in root.entries.items() if value is not None}
    named = {place.partition(".")[0] for place in places or () if "." in place} - {"optimizer", "lora"}
    for name in dict.fromkeys(("model", "parallel", "batch", *sorted(named))):
        entries[name] = _below(root, name)
    for name, (home, key) in _PLACES.items():
        value = getattr(request, name)
        if value is not None:
            entries[home][key] = value
    if request.batch is not None:
        entries["batch"].pop("micro_batches", None)
    if request.recompute is not None:
        entries["recompute"] = request.recompute
    if request.dtype is not None:
        narrow = word_of(request.dtype) in MATRIX_DTYPES
        entries["dtype"] = "bfloat16" if narrow else request.dtype
        entries["matrix_dtype"] = request.dtype if narrow else "none"
    if request.compile is not None:
        entries["kernels"] = "compiled" if request.compile else "eager"
    if request.vp is not None:
        entries.pop("schedule", None)
    return placed(entries, places or {}), root.file


def _opened(model: ModelLike) -> Section:
    if isinstance(model, Mapping):
        return open_section(model, "transformer spec", "yaml", None)
    if not isinstance(model, str | os.PathLike):
        raise InputError(
            "this is no model", place="model", found=repr(model)[:80], expected="a name, a file, or entries"
        )
    name = os.fspath(model)
    if word_of(name) in MODELS and not isinstance(model, os.PathLike):
        return open_section({"model": {"preset": name}}, "transformer spec", "yaml", None)
    if not os.path.exists(name):
        known = ", ".join(MODELS)
        raise InputError("neither a model that is built in nor a spec's file", place="model", found=repr(name[:80]),
                         expected=f"one of {known}", remedy=near(word_of(name), MODELS) or None)  # fmt: skip
    return open_section(Path(name), "transformer spec", "yaml", None)


def _below(root: Section, name: str) -> Entries:
    """A section's entries under our names."""
    value = root.entries.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        return {"preset": value} if name == "model" else root.refuse(name, "not a mapping", "keys and values")
    section = Section(value, root.file, root.notes, root.at(name), root.folder)
    return dict(renamed(section, name).entries)
