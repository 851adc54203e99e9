"""Tables of a plan."""

from __future__ import annotations

from collections.abc import Iterator

from chakrasim.report.tables.answers.sweep import refused_sections
from chakrasim.sweeps.plan import Candidate, Plan
from chakrasim.text.amounts import share_text, size_text, time_text
from chakrasim.text.layout import Section

_KEYS = ("dp", "tp", "pp", "vp", "cp", "ep", "micro_batch", "recompute", "zero")


def plan_sections(found: Plan) -> list[Section]:
    """The best split, those next to it, and what was refused."""
    return list(_sections(found))


def _sections(found: Plan) -> Iterator[Section]:
    step = found.best.step
    tokens = "" if step.tokens is None else f"{step.tokens_per_s_per_gpu:,.0f} tokens/s/GPU, "
    rows = (
        ("best", ", ".join(f"{key} {value}" for key, value in found.best.split.items())),
        ("step", f"{time_text(1e9 * step.step_s)}, 90 % interval {step.interval_text}"),
        ("speed", f"{tokens}MFU {share_text(step.mfu, 1.0)}"),
        ("memory", f"{size_text(step.memory_bytes)} of {size_text(step.memory_capacity_bytes)}"),
        ("how sure", f"intervals of {found.overlapping} of {len(found.runners_up)} runners-up overlap with it: "
         "what is wrong about one split is mostly wrong about the others, too"),
        ("tried", f"{found.tried:,} splits, {sum(found.refused.values()):,} refused"),
    )  # fmt: skip
    yield Section(f"{found.model} on {found.machine}", (), rows, (0, 1))
    own = [found.best, *found.runners_up]
    keys = [key for key in _KEYS if any(key in one.split for one in own)]
    table = tuple(_row(one, keys, step.step_s) for one in own)
    yield Section("Splits", (*keys, "step", "slower", "memory", "why"), table, (len(keys) + 3,))
    yield from refused_sections("splits", found.refused)
    if found.assumed:
        yield Section("Assumed", (), tuple((text,) for text in found.assumed), (0,))


def _row(one: Candidate, keys: list[str], best_s: float) -> tuple[str, ...]:
    step = one.step
    slower = f"{100 * (step.step_s / best_s - 1):.1f} %" if one.why else ""
    split = (str(one.split.get(key, "")) for key in keys)
    return (*split, time_text(1e9 * step.step_s), slower, size_text(step.memory_bytes), one.why)
