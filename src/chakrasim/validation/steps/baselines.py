"""What a table alone says of a step: utilisation as of others on the same GPU, or the most similar row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import median

from chakrasim.calibration.measurements.csv_rows import number_of
from chakrasim.validation.steps.rows import StepRow

_Kind = tuple[str, str, str]
_Size = tuple[float, ...]


def flops_of(row: StepRow) -> float:
    """Model FLOPs of one step on one GPU, by the table's own column; NaN where that is blank."""
    each, length, sequences, gpus = (
        number_of(row.get(name)) for name in ("gflops_per_token", "seq_len", "global_batch", "gpus")
    )
    return each * 1e9 * length * sequences / gpus if gpus > 0 else math.nan


def constant_rate(rows: Sequence[StepRow], measured_s: Sequence[float]) -> list[float]:
    """Seconds of each row at the median rate of operations of the others' measured steps: of other models on the same
    GPU with the same precision and class; NaN where there are none."""
    rates: dict[_Kind, dict[str, list[float]]] = {}
    for row, seconds in zip(rows, measured_s, strict=True):
        if seconds > 0 and (rate := flops_of(row) / seconds) > 0:
            rates.setdefault(_kind(row), {}).setdefault(row.get("model"), []).append(rate)

    @cache
    def usual(kind: _Kind, model: str) -> float:
        others = [rate for name, known in rates.get(kind, {}).items() if name != model for rate in known]
        return median(others) if others else math.nan

    return [flops_of(row) / usual(_kind(row), row.get("model")) for row in rows]


def nearest_row(rows: Sequence[StepRow], measured_s: Sequence[float]) -> list[float]:
    """Seconds of the row of another model on the same GPU that is most alike, scaled by FLOPs; NaN where there is
    none. Alike are size, sequence and number of GPUs, as logarithms."""
    known: dict[_Kind, dict[tuple[str, _Size], float]] = {}
    for row, seconds in zip(rows, measured_s, strict=True):
        if seconds > 0 and flops_of(row) != 0:
            known.setdefault(_kind(row), {}).setdefault((row.get("model"), _size(row)), seconds / flops_of(row))

    @cache
    def nearest(kind: _Kind, model: str, size: _Size) -> float:
        others = (one for one in known.get(kind, {}).items() if one[0][0] != model)
        return min(others, key=lambda one: _apart(size, one[0][1]), default=(None, math.nan))[1]

    return [flops_of(row) * nearest(_kind(row), row.get("model"), _size(row)) for row in rows]


def _kind(row: StepRow) -> _Kind:
    return row.get("gpu"), row.get("precision"), row.get("class")


def _size(row: StepRow) -> _Size:
    """Logarithms; NaN of what is blank or no number."""
    columns = (number_of(row.get(name)) for name in ("active_params_b", "seq_len", "gpus", "tp", "pp"))
    return tuple(math.log(value) if value > 0 else math.nan for value in columns)


def _apart(one: _Size, other: _Size) -> float:
    return sum(1.0 if math.isnan(a - b) else abs(a - b) for a, b in zip(one, other, strict=True))
