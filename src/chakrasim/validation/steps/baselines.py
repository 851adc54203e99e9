"""What a table alone says of a step: utilisation as of others on the same GPU, or the most similar row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from chakrasim.validation.steps.rows import StepRow


def flops_of(row: StepRow) -> float:
    """Model FLOPs of one step on one GPU, by the table's own column; NaN where that is blank."""
    try:
        each = float(row.get("gflops_per_token", "nan")) * 1e9
        tokens = float(row.get("seq_len")) * float(row.get("global_batch"))
        return each * tokens / float(row.get("gpus"))
    except ValueError:
        return math.nan


def constant_rate(rows: Sequence[StepRow], measured_s: Sequence[float]) -> list[float]:
    """Seconds of each row at the median rate of operations of the others' measured steps: of other models on the same
    GPU with the same precision and class; NaN where there are none."""
    rates = [flops_of(row) / seconds for row, seconds in zip(rows, measured_s, strict=True)]
    found = []
    for row in rows:
        kind = _kind(row)
        others = [
            rate
            for other, rate in zip(rows, rates, strict=True)
            if _kind(other) == kind and other.get("model") != row.get("model") and rate > 0
        ]
        found.append(flops_of(row) / median(others) if others else math.nan)
    return found


def nearest_row(rows: Sequence[StepRow], measured_s: Sequence[float]) -> list[float]:
    """Seconds of the row of another model on the same GPU that is most alike, scaled by FLOPs; NaN where there is
    none. Alike are size, sequence and number of GPUs, as logarithms."""
    found = []
    for row in rows:
        best, least = math.nan, math.inf
        for other, seconds in zip(rows, measured_s, strict=True):
            if _kind(other) != _kind(row) or other.get("model") == row.get("model") or not seconds > 0:
                continue
            apart = _apart(row, other)
            if apart < least:
                best, least = seconds * flops_of(row) / flops_of(other), apart
        found.append(best)
    return found


def _kind(row: StepRow) -> tuple[str, ...]:
    return tuple(row.get(column) for column in ("gpu", "precision", "class"))


def _apart(one: StepRow, other: StepRow) -> float:
    pairs = ((one.get(name), other.get(name)) for name in ("active_params_b", "seq_len", "gpus", "tp", "pp"))
    return sum(abs(math.log(float(a) / float(b))) if a and b else 1.0 for a, b in pairs)
