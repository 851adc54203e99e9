"""Places of a transformer spec, such as ``overlap.dp`` or ``model.moe.top_k``, and values put there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from chakrasim.config.table import Table
from chakrasim.errors import InputError
from chakrasim.generator.spec.keys import SPEC, word_of
from chakrasim.generator.spec.models import MODELS

OTHER_NAMES: Final = {
    "parallel.dp": "dp", "parallel.tp": "tp", "parallel.pp": "pp", "parallel.cp": "cp", "parallel.ep": "ep",
    "parallel.virtual_stages": "vp", "parallel.zero": "zero", "batch.micro_batch": "micro_batch",
    "batch.global_batch": "batch", "model.sequence": "seq", "model.preset": "model",
}  # fmt: skip
"""Places that `chakrasim.estimation.request.Request` has under names of its own."""
BESIDE: Final = {"kernels": ("compile",), "matrix_dtype": ("dtype",), "parallel.fsdp": ("zero", "dp_kind")}
"""Places with what would say the same thing another way."""


def _places(table: Table, before: str = "") -> list[str]:
    """Where single values stand; a key that may be a mapping or a word is a place, too, but for the sections."""
    found = []
    for key in table:
        place = before + key.name
        if not key.kind.keys or key.name == "optimizer":
            found.append(place)
        found += _places(key.kind.keys, place + ".")
    return found


PLACES: Final = tuple(place for place in _places(SPEC) if place not in OTHER_NAMES)


def placed(entries: Mapping[str, Any], places: Mapping[str, Any]) -> dict[str, Any]:
    """A spec's entries, under our names, with values in these places. Raises InputError where there can be none."""
    found = dict(entries)
    # A whole value before what stands in it: an optimizer by name, then its bytes.
    for place, value in sorted(places.items(), key=lambda pair: pair[0].count(".")):
        *above, last = place.split(".")
        inner = found
        for at, step in enumerate(above):
            held = inner.get(step, _of_preset(found, step) if above[:at] == ["model"] else {})
            if step == "optimizer" and isinstance(held, str):
                held = {"kind": held}
            if not isinstance(held, Mapping):
                raise InputError(f"{'.'.join(above[: at + 1])} is no mapping here", place=place)
            inner[step] = inner = dict(held)
        inner[last] = value
    return found


def _of_preset(entries: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """What a model's preset says of a part of it, which a mapping in its place would hide."""
    preset = MODELS.get(word_of(str(entries["model"].get("preset", ""))), {})
    own = preset.get(part, {})
    return own if isinstance(own, Mapping) else {}
