"""Reading a spec: YAML or a mapping, every key checked, every error located. `keys` has the keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from chakrasim.config.section import Section, open_section
from chakrasim.config.table import Values, names, read
from chakrasim.generator.formulas import end_layers
from chakrasim.generator.spec.checks import check_spec
from chakrasim.generator.spec.keys import SPEC, refuse_unknown, renamed
from chakrasim.generator.spec.spec import Batch, Spec, default_state_bytes


def load_spec(source: str | Path | Mapping[str, Any]) -> Spec:
    """The spec of a YAML file, or of a mapping of the same form.

    Raises InputError for a key that is not known, a value of the wrong type, and values that do not go together.
    """
    root = renamed(open_section(source, "transformer spec", "yaml", None), "")
    refuse_unknown(root, names(SPEC))
    values = read(root, SPEC)
    values["batch"] = _batch(root, values["batch"], values["parallel"].dp)
    optimizer, state_bytes = values.pop("optimizer")
    if state_bytes is None:
        state_bytes = default_state_bytes(optimizer, values["dtype"])
    if not values["parallel"].end_layers:
        values["parallel"] = replace(values["parallel"], end_layers=end_layers(values["model"]))
    spec = Spec(**values, optimizer=optimizer, state_bytes=state_bytes)
    check_spec(spec, root)
    return spec


def _batch(root: Section, size: Values, dp: int) -> Batch:
    """Any two of the three sizes give the third; one alone leaves a micro-batch of 1, or a single micro-batch."""
    micro, count, total = size["micro_batch"], size["micro_batches"], size["global_batch"]
    place = ("batch", "global_batch")
    if total is None:
        micro, count = micro or 1, count or 1
        return Batch(micro * count * dp, micro, count)
    if total % dp:
        expected = f"a multiple of {dp}"
        root.fail(place, "the global batch is not divisible by dp", found=total, expected=expected)
    each = total // dp
    if micro is None:
        micro = each // count if count is not None else 1
    if micro == 0 or each % micro:
        message = f"the sequences of a replica ({each}) do not make whole micro-batches ({micro or f'{count} of them'})"
        root.fail(place, message, found=total)
    if count is not None and micro * count != each:
        message = f"global_batch is not micro_batch x micro_batches x dp ({micro * count * dp})"
        root.fail(place, message, found=total, remedy="leave out one of the three")
    return Batch(total, micro, each // micro)
