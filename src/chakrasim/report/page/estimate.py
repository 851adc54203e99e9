"""The page of an estimated step, and what pages of simulated steps share with it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from chakrasim.estimation.parts import BUBBLE, WAITING
from chakrasim.report.page.parts import Bars, Fact, Page, Series, table_of
from chakrasim.report.picture.parts import COLOURS
from chakrasim.report.tables.prediction import step_sections
from chakrasim.text.amounts import number_text, share_text, size_text, time_text

if TYPE_CHECKING:
    from chakrasim.estimation.result import StepEstimate

_COLOURS: Final = {WAITING: COLOURS["waiting"], BUBBLE: COLOURS["bubble"]}


def estimate_page(found: StepEstimate, *, question: str, warnings: tuple[str, ...] = ()) -> Page:
    """The page of ``chakrasim estimate``; figures are those of `StepEstimate.to_json`."""
    head, parts, _ = step_sections(found)
    interval = f"90 % interval: {found.interval_text}"
    verdict = (Fact("a step takes", time_text(1e9 * found.step_s), interval), *step_facts(found))
    series = tuple(
        Series(name, (round(value, 9),), f"parts_s.{name}", "seconds", colour=_COLOURS.get(name, ""))
        for name, value in found.parts_s.items()
        if value
    )
    bars = Bars(
        f"Where the time goes on the rank that computes longest ({found.rank})", (f"rank {found.rank}",), series
    )
    return Page(question, verdict, (bars, table_of(parts, "Parts"), memory_bars(found), table_of(head)),
                assumed=found.assumed, warnings=warnings)  # fmt: skip


def step_facts(found: StepEstimate) -> Iterator[Fact]:
    """What a step is worth: tokens, utilization, memory, energy, the link with the most load."""
    if found.tokens is not None:
        each = found.tokens_per_s_per_gpu
        yield Fact("tokens/s", f"{each * found.gpus:,.0f}", f"{each:,.0f} of each of {found.gpus:,} GPUs")
    name, value = ("HFU", found.hfu) if found.model_flops is None else ("MFU", found.mfu)
    if not math.isnan(value):
        use = f"{found.tflops_per_gpu:.1f} of {found.peak_flops / 1e12:,.1f} TFLOP/s of each GPU"
        yield Fact(name, f"{100 * value:.1f} %", use)
    yield Fact("memory", share_text(found.memory_bytes, found.memory_capacity_bytes),
               f"{size_text(found.memory_bytes)} of {size_text(found.memory_capacity_bytes)}: "
               f"{'fits' if found.fits else 'DOES NOT FIT'}", bad=not found.fits)  # fmt: skip
    yield Fact("split", found.split, found.model)
    if found.energy is not None:
        kilojoules = found.energy.joules * found.gpus / 1e3
        yield Fact("energy of a step", f"{number_text(kilojoules)} kJ", "not validated")
    if found.link is not None:
        yield Fact("busiest link", share_text(found.link.busy_share, 1.0), f"{found.link.name}: {found.link.used_by}")


def memory_bars(found: StepEstimate) -> Bars:
    """The fullest GPU's peak against what it has."""
    used, has = found.memory_bytes, found.memory_capacity_bytes
    colour = "#4c78a8" if found.fits else "#e45756"
    series = (
        Series("used", (used, None), "memory_bytes", "bytes", colour),
        Series("of the card", (None, has), "memory_capacity_bytes", "bytes", "#bab0ac"),
    )
    lines = (
        f"{size_text(used)} of {size_text(has)}; buffers of communication and workspaces of kernels are not counted",
    )
    return Bars("Memory of the fullest GPU", ("at its peak", "the card has"), series, lines=lines)
