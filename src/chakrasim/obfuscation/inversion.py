"""The attack on level behaviour: which specs of a transformer give the same release? All of a grid of some 10^6.

The attacker has the release, this program, and knows all of the spec but seven sizes: layers, hidden, size of a head,
feed-forward, vocabulary, sequence, micro-batch. Conditions that every such spec has to meet rule most of the grid out;
of the others the nearest are generated and made a release of, and those count that give the same one, to the byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Any, Final

import numpy as np

from chakrasim.errors import ChakrasimError
from chakrasim.generator import transformer_job
from chakrasim.machine.device.profile import DeviceProfile
from chakrasim.obfuscation.behaviour import Grid, only_behaviour
from chakrasim.trace.chakra.encode import encode_trace
from chakrasim.trace.job.job import Job, Parameter

AXES: Final[Mapping[str, tuple[int, ...]]] = {
    "layers": (12, 16, 22, 24, 26, 28, 32, 36, 40, 48, 60, 64, 80, 96),
    "hidden": (768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192, 9216, 12288, 16384),
    "head_size": (64, 80, 96, 128, 256),
    "widening": (256, 267, 269, 350, 400),
    "vocabulary": (32000, 32768, 50304, 51200, 65536, 100352, 128256, 151936),
    "sequence": (1024, 2048, 4096, 8192, 16384, 32768),
    "micro_batch": (1, 2, 4, 8),
}
"""What published models have; ``widening`` is the feed-forward's size in hundredths of the hidden one, in whole 64s.
The job's own values are added."""
SIZES: Final = ("layers", "hidden", "head_size", "feed_forward", "vocabulary", "sequence", "micro_batch")
"""What the attacker does not know, in the order of the axes."""
MOST_TRIED: Final = 96
"""So many specs are generated at most."""
_SLACK: Final = 0.25
"""How far the logarithm of operations may be off beyond the grid's ratio: their speed depends on their shape."""

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Inversion:
    """``same`` specs, the true one among them, were found to give the same release: A. None: not known, since the job
    says no spec, or not the one that made it. ``specs`` are in the grid, ``likely`` meet the conditions, ``tried``.
    ``told``: of `SIZES` those that have one value in all the same specs, so that the release tells them."""

    same: int | None
    specs: int = 0
    likely: int = 0
    tried: int = 0
    told: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"same": self.same, "specs": self.specs, "likely": self.likely, "tried": self.tried,
                "told": list(self.told)}  # fmt: skip


def inversion(job: Job, released: Job, grid: Grid, profile: DeviceProfile | None) -> Inversion:
    """How many specs give this release of a job."""
    shown = _shown(released)
    try:
        spec = _spec(job.parameters)
        own = _own(spec)
        if _release(spec, own, grid, profile) != shown:
            return Inversion(None)
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError):
        return Inversion(None)
    axes = _axes(own)
    specs = int(np.prod([len(axis) for axis in axes]))
    likely = _likely(spec, own, axes, grid.ratio)
    tried = [sizes for sizes in likely[:MOST_TRIED] if sizes != own]
    same = [own, *(sizes for sizes in tried if _release(spec, sizes, grid, profile) == shown)]
    told = tuple(name for name, values in zip(SIZES, zip(*same, strict=True), strict=True) if len({*values}) == 1)
    return Inversion(len(same), specs, len(likely), 1 + len(tried), told)


def _spec(parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """The spec that a generated job states. Raises errors of whatever kind for parameters that are none."""
    nested: dict[str, Any] = {}
    for name, value in parameters.items():
        *path, last = name.split(".")
        place = nested
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    split, overlap, optimizer = nested["parallel"], nested.get("overlap", {}), nested.get("optimizer")
    split.pop("zero" if split.get("zero") == 3 else "fsdp", None)
    if "bucket_bytes" in overlap:
        overlap["bucket"] = overlap.pop("bucket_bytes")
    nested["optimizer"] = {"kind": optimizer, "state_bytes": nested.pop("state_bytes", None)}
    return nested


def _own(spec: Mapping[str, Any]) -> Sizes:
    """The sizes of a spec."""
    return (*(int(spec["model"][name]) for name in SIZES[:-1]), int(spec["batch"][SIZES[-1]]))


def _axes(own: Sizes) -> list[tuple[int, ...]]:
    values = list(zip(own, AXES.values(), strict=True))
    values[3] = (_widening(own), values[3][1])
    return [tuple(sorted({value, *axis})) for value, axis in values]


def _columns(own: Sizes, axes: list[tuple[int, ...]]) -> list[Any]:
    """All specs of the grid, int64[specs] by size."""
    columns = [part.ravel() for part in np.meshgrid(*map(np.array, axes), indexing="ij")]
    widening = columns[3]
    columns[3] = _wide(columns[1], widening)
    columns[3][(columns[1] == own[1]) & (widening == _widening(own))] = own[3]
    return columns


def _widening(own: Sizes) -> int:
    return round(100 * own[3] / own[1])


def _wide(hidden: Any, widening: Any) -> Any:
    return (hidden * widening // 100 + 63) // 64 * 64


def _likely(spec: Mapping[str, Any], own: Sizes, axes: list[tuple[int, ...]], ratio: float) -> list[Sizes]:
    """Specs that meet the conditions, the nearest first. Items of a release that are in the same cells are within the
    ratio of one another, and so are their sums: bytes of activations, where any are sent, and of gradients."""
    columns = _columns(own, axes)
    kept = columns[1] % columns[2] == 0
    amounts = _amounts(columns)
    true = _amounts([np.array([value]) for value in own])
    apart = [np.abs(np.log(amount / other)) for amount, other in zip(amounts, true, strict=True)]
    split, limit = spec["parallel"], log(ratio) + 1e-9
    sends = split["tp"] > 1 or split["pp"] > 1
    if sends:
        kept &= (apart[0] <= limit) & (columns[0] == own[0])
    if split["dp"] > 1:
        kept &= apart[1] <= limit
    kept &= apart[2] <= limit + _SLACK
    at = np.flatnonzero(kept)
    order = at[np.argsort(sum(one[at] for one in apart), kind="stable")]
    return list(dict.fromkeys(zip(*(column[order].tolist() for column in columns), strict=True)))


def _amounts(columns: list[Any]) -> tuple[Any, Any, Any]:
    """Values of activations, parameters, operations, up to constants: Narayanan et al. 2021 (arXiv:2104.04473)."""
    layers, hidden, _, wide, words, sequence, micro = (np.asarray(one, np.float64) for one in columns)
    tokens = sequence * micro
    parameters = layers * (4 * hidden**2 + 2 * hidden * wide) + 2 * words * hidden
    return tokens * hidden, parameters, tokens * (parameters + layers * sequence * hidden)


def _release(spec: Mapping[str, Any], sizes: Sizes, grid: Grid, profile: DeviceProfile | None) -> object:
    """What is released of a job of these sizes; None for sizes that make no job."""
    layers, hidden, head, wide, words, sequence, micro = sizes
    model = {**spec["model"], "layers": layers, "hidden": hidden, "head_size": head, "heads": hidden // head,
             "feed_forward": wide, "vocabulary": words, "sequence": sequence}  # fmt: skip
    if spec["model"]["kv_heads"] == spec["model"]["heads"]:
        model["kv_heads"] = model["heads"]
    batch = {"micro_batches": spec["batch"]["micro_batches"], "micro_batch": micro}
    try:
        job = transformer_job({**spec, "model": model, "batch": batch})
        return _shown(only_behaviour(job, grid, profile))
    except ChakrasimError:
        return None


def _shown(job: Job) -> object:
    """All that a release has."""
    return [*map(encode_trace, job.traces)], job.trace_of_rank.tolist(), dict(job.process_groups)
