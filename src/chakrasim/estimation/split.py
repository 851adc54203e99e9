"""How ranks share a model where nobody says it: the smallest split that fits in memory. What was chosen is told."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from chakrasim.config.section import Section
from chakrasim.errors import InputError
from chakrasim.estimation.request import Entries, ModelLike, Request, entries_of
from chakrasim.generator.memory import stage_memory
from chakrasim.generator.spec.file import load_spec
from chakrasim.generator.spec.keys import BATCH, PARALLEL, word_of
from chakrasim.generator.spec.models import MODELS
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.generator.spec.spec import Model, Spec
    from chakrasim.machine import Machine

USUAL_TOKENS: Final = 1 << 22
"""Of a step, where no batch is given: what Llama 2 was trained with (arXiv:2307.09288, section 2.2)."""
MOST_MICRO_BATCHES: Final = 32
"""Of a replica, where no batch is given: more of them repeat what these do."""
FILLED: Final = 0.9
"""Of the memory, at most, where a split is chosen: buffers of communication and workspaces of kernels come on top."""


@dataclass(frozen=True)
class _Asked:
    """The request with what does not depend on the split."""

    entries: Entries
    request: Request
    model: Model
    gpus: int
    node: int
    named: bool

    def free(self, key: str) -> bool:
        """Whether the split leaves a key open."""
        return key not in self.entries["parallel"]


def spec_of(
    model: ModelLike, machine: Machine, request: Request, places: Mapping[str, Any] | None = None
) -> tuple[Spec, tuple[str, ...]]:
    """The step as a spec, and what was assumed, in words.

    ``model`` is a model's name, a spec's file, or the mapping that it holds; ``places`` has values of
    `chakrasim.estimation.places`. Raises InputError for a model that is not
    known and for what does not go together.
    """
    entries = _checked(*entries_of(model, request, places))
    alone = {key: value for key, value in entries.items() if key in ("model", "dtype", "gradient_dtype", "recompute")}
    named = isinstance(model, str) and word_of(model) in MODELS
    sizes = _named(json.dumps(alone)) if named else load_spec(alone).model
    node = node_ranks(machine)
    asked = _Asked(entries, request, sizes, machine.ranks, node, named)
    capacity = FILLED * (machine.profile.memory_bytes if machine.profile is not None else 0)
    spec, assumed, peak = _smallest(asked, capacity)
    if peak <= capacity or "recompute" in entries:
        return spec, assumed
    again = _smallest(replace(asked, entries={**entries, "recompute": "full"}), capacity)
    return (again[0], (*again[1], "all of each layer is computed again")) if again[2] < peak else (spec, assumed)


def _checked(entries: Entries, file: str) -> Entries:
    """A spec's entries, those that a split is worked out from as the numbers and words that they are."""
    sizes = {}
    for name, table in (("parallel", PARALLEL), ("batch", BATCH)):
        section = Section(entries[name], file, Notes(), f"$.{name}")
        own = {key.name: key.kind.read(section, key.name) for key in table if key.name in section}
        sizes[name] = {**entries[name], **own}
    return {**entries, **sizes}


@lru_cache(maxsize=64)
def _named(entries: str) -> Model:
    """What a spec's entries say of the model."""
    return load_spec(json.loads(entries)).model


def _smallest(asked: _Asked, capacity: float) -> tuple[Spec, tuple[str, ...], int]:
    """The first split that needs no more than ``capacity``, else that which needs least; and what it needs."""
    best, refused = None, None
    for tp, pp in _splits(asked):
        try:
            spec, assumed = _with(asked, tp, pp)
        except InputError as error:
            refused = refused or error
            continue
        peak = peak_bytes(spec)
        if best is None or peak < best[2]:
            best = spec, assumed, peak
        if peak <= capacity:
            break
    if best is None:
        raise refused or InputError("the GPUs do not make whole replicas", place="gpus", found=asked.gpus,
                                    expected=_multiple(asked))  # fmt: skip
    return best


@lru_cache(maxsize=64)
def peak_bytes(spec: Spec) -> int:
    """What the fullest rank has in memory at its peak."""
    few = _as_full(spec)
    return max(stage_memory(few, stage).peak for stage in dict.fromkeys(few.first_stage_alike))


def _as_full(spec: Spec) -> Spec:
    """The same with no more micro-batches than fill the memory: where passes alternate, further ones find what those
    before them left."""
    most = 4 * spec.parallel.pp
    if spec.schedule == "gpipe" or spec.batch.micro_batches <= most:
        return spec
    return replace(spec, batch=replace(spec.batch, micro_batches=most))


def _splits(asked: _Asked) -> Iterator[tuple[int, int]]:
    """Splits into tp and pp, those over fewest ranks first; of equal ones those with fewer stages."""
    split, gpus = asked.entries["parallel"], asked.gpus // asked.entries["parallel"].get("cp", 1)
    tps = [split["tp"]] if "tp" in split else [tp for tp in powers(asked.node) if asked.model.kv_heads % tp == 0]
    pps = [split["pp"]] if "pp" in split else range(1, min(asked.model.layers, gpus) + 1)
    pairs = ((tp, pp) for tp in tps for pp in pps if gpus % (tp * pp) == 0)
    yield from sorted(pairs, key=lambda pair: (pair[0] * pair[1], pair[1]))


def node_ranks(machine: Machine) -> int:
    """How many ranks are on the first one's node."""
    return int(np.bincount(machine.places)[machine.places[0]])


def powers(most: int) -> list[int]:
    """Those of two, up to ``most``."""
    return [1 << power for power in range(most.bit_length()) if 1 << power <= most]


def _multiple(asked: _Asked) -> str:
    split = asked.entries["parallel"]
    named = {name: split[name] for name in ("tp", "pp", "cp") if name in split}
    return f"a multiple of {' x '.join(f'{name} {value}' for name, value in named.items()) or '1'}"


def _with(asked: _Asked, tp: int, pp: int) -> tuple[Spec, tuple[str, ...]]:
    """The spec with this split. Raises InputError where it does not go together."""
    split, batch, model = (dict(asked.entries[name]) for name in ("parallel", "batch", "model"))
    assumed = []
    dp = asked.gpus // (tp * pp * split.get("cp", 1))
    for key, value in (("tp", tp), ("pp", pp)):
        if asked.free(key):
            split[key] = value
            assumed.append(f"{key} {value}")
    split["dp"] = dp
    if tp > 1 and asked.free("sp"):
        split["sp"] = True
        assumed.append("sequence parallelism over the ranks of tp")
    assumed += _sharded(asked, split, tp, dp) + _shared_experts(asked, split, tp, dp)
    pieces = pp * split.get("virtual_stages", 1)
    if asked.free("balance") and (asked.model.layers % pieces or (pieces > 1 and asked.model.prediction_layers)):
        split["balance"] = balance_of(asked.model, pieces)
        assumed.append(BALANCE_WORDS[split["balance"]])
    assumed += _sequences(asked, batch, dp, pp if pieces > pp else 1)
    if asked.model.vocabulary % tp:
        model["vocabulary"] = padded(asked.model.vocabulary, tp)
        assumed.append(f"vocabulary padded to {model['vocabulary']:,}")
    usual, said = _as_usual(asked, split)
    spec = load_spec({**usual, **asked.entries, "model": model, "parallel": split, "batch": batch})
    return spec, (*assumed, *said)


def _as_usual(asked: _Asked, split: Entries) -> tuple[Entries, list[str]]:
    """What frameworks do of themselves, of a model given by its name: keys of a spec that nobody was asked for."""
    if not asked.named:
        return {}, []
    usual: Entries = {"clip_gradients": True}
    said = []
    if "kernels" not in asked.entries and (split.get("fsdp") or split.get("zero") == 3):
        usual["kernels"] = "eager"
        said.append("PyTorch runs operator by operator: no torch.compile")
    if str({**usual, **asked.entries}.get("kernels", "fused")) != "eager":
        usual["fused_loss"] = True
        said.append("the loss is one kernel each way")
    return usual, said


BALANCE_WORDS: Final = {
    "ends": "stages share layers, embedding and head evenly",
    "layers": "stages share layers as evenly as it goes",
}


def balance_of(model: Model, pieces: int) -> str:
    """How pieces share layers that do not divide: so that what is at the ends makes them even, if it does."""
    return "ends" if model.prediction_layers or (model.layers + 2) % pieces == 0 else "layers"


def padded(vocabulary: int, tp: int) -> int:
    """A vocabulary that ranks can share, as training frameworks pad it."""
    return -(-vocabulary // (128 * tp)) * 128 * tp


def _sharded(asked: _Asked, split: Entries, tp: int, dp: int) -> list[str]:
    """What data parallelism shards, by kind and stage of ZeRO."""
    kind, zero = asked.request.dp_kind, asked.request.zero
    if kind is None and zero is None:
        if {"zero", "fsdp"} & split.keys() or dp == 1:
            if split.get("fsdp") not in (None, True, False) and dp % split["fsdp"]:
                split["fsdp"] = dp
            return []
        split["zero"] = 1
        return ["optimizer states are sharded over replicas (zero 1)"]
    for key in ("zero", "fsdp"):
        split.pop(key, None)
    if zero is None:
        zero = 0 if kind == "ddp" else 3
    least, most = (0, 2) if kind == "ddp" else (0, 3) if kind is None else (2, 3) if kind == "fsdp" else (3, 3)
    if not least <= zero <= most:
        raise InputError(f"zero does not go with {kind or 'data parallelism'}", place="zero", found=zero,
                         expected=f"{least} to {most}" if least < most else str(most))  # fmt: skip
    split["zero"] = zero
    if kind == "hsdp":
        split["fsdp"] = max(min(asked.node // tp, dp * split.get("cp", 1)), 1)
        return [f"parameters are sharded over {split['fsdp']} replicas of a node"]
    return []


def _shared_experts(asked: _Asked, split: Entries, tp: int, dp: int) -> list[str]:
    """Where nobody says it, the ranks of a node share experts."""
    moe = asked.model.moe
    if moe is None or not asked.free("ep"):
        return []
    most = max(asked.node // tp, 1)
    split["ep"] = max(ep for ep in range(1, most + 1) if moe.experts % ep == 0 and dp % ep == 0)
    return [f"ep {split['ep']}"]


def _sequences(asked: _Asked, batch: Entries, dp: int, multiple: int) -> list[str]:
    """Fill in the sizes of a step; ``multiple``: what the number of micro-batches is a multiple of."""
    assumed = []
    if "micro_batch" not in batch and not {"micro_batches", "global_batch"} <= batch.keys():
        batch["micro_batch"] = 1
        assumed.append("micro-batches of 1 sequence")
    if "global_batch" not in batch and "micro_batches" not in batch:
        each = dp * batch["micro_batch"]
        count = min(max(round(USUAL_TOKENS / (each * asked.model.sequence)), 1), MOST_MICRO_BATCHES)
        count = -(-count // multiple) * multiple
        batch["global_batch"] = each * count
        assumed.append(f"a batch of {each * count:,} sequences")
    return assumed
