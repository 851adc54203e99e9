"""The result as JSON: the same input gives the same bytes, whatever the folder, the time or the machine it ran on."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chakrasim.simulator.outcome.records import LinkFigures
from chakrasim.simulator.outcome.steps import StepTime

FORMAT = "chakrasim-result/1"
"""Changes with the meaning of a key, not with the version of the program."""

UNITS = {
    "*_ns": "nanoseconds (one cycle of ASTRA-sim is 1 ns)",
    "*_bytes": "bytes",
    "algbw": "bytes per ns, which is GB/s with GB = 10^9",
    "busbw": "bytes per ns, which is GB/s with GB = 10^9",
    "lists": "by rank, but for finish_order (ranks in the order of finishing), collectives, links and jobs",
}
_FILE_PREFIX = re.compile(r"^(?:(?!: )[^\n])*?[/\\]([^/\\\n]+\.\w+)(?=: )")


def json_text(figures: Mapping[str, Any], warnings: Sequence[str]) -> str:
    """The figures of a result as one JSON object, its keys sorted, one line for each.

    Of a file that a warning names only the last part of the path is kept.
    """
    kept = [_FILE_PREFIX.sub(r"\1", warning) for warning in warnings]
    content = {**figures, "format": FORMAT, "units": UNITS, "warnings": kept}
    encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_plain).encode
    lines = [f'"{key}": {encode(content[key])}' for key in sorted(content)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _plain(value: object) -> object:
    """Columns as lists, records as objects."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, StepTime):
        return {**vars(value), "error_pct": value.error_pct}
    if isinstance(value, LinkFigures):
        return {name: own for name, own in vars(value).items() if name != "row"}
    return vars(value)
