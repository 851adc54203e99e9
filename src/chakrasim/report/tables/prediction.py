"""Predicted collectives and training steps as tables; collectives as plain values too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from chakrasim.estimation.parts import BUBBLE, WAITING
from chakrasim.estimation.result import StepEstimate
from chakrasim.report.tables.simulation import PART_MEANINGS as SIMULATED
from chakrasim.simulator.prediction import CollectivePrediction
from chakrasim.text.amounts import number_text, plural, share_text, size_text, time_text
from chakrasim.text.layout import Section

PART_MEANINGS: Final = {
    "matrices": "products with weights",
    "experts": "products with the weights of experts",
    "state_space": "products of scans of state spaces",
    "attention": "scores, softmax, weighted values",
    "other_compute": "norms, activations and the like, which memory bounds",
    "host": "while the host counts the tokens of experts",
    "optimizer": "the optimizer's kernels",
    WAITING: "for other ranks of a collective, for the host, or with nothing to do",
    BUBBLE: "for other stages of the pipeline",
}
ROLES: Final = {
    "tp": "tensor parallelism",
    "cp": "context parallelism",
    "ep": "tokens to and from experts",
    "fsdp": "sharded parameters and their gradients",
    "dp": "data parallelism",
    "expert_dp": "gradients of experts",
    "embedding": "the embedding that two stages share",
    "pp": "messages between stages",
}
LEAST: Final = 5e-4
"""Of the step: parts with a smaller share are left out."""


def prediction_json(found: Sequence[CollectivePrediction], *, one: bool) -> dict[str, Any]:
    """Plain values: of one prediction its figures, of several a list of them."""
    if one:
        return asdict(found[0])
    return {"collective": found[0].collective, "ranks": found[0].ranks, "sizes": [asdict(each) for each in found]}


def prediction_sections(found: Sequence[CollectivePrediction], *, one: bool) -> list[Section]:
    """The table that the command prints."""
    first = found[0]
    title = f"{first.collective}, {plural(first.ranks, 'rank')}"
    return [_one(first, f"{title}, {size_text(first.size_bytes)}") if one else _table(found, title)]


def _one(found: CollectivePrediction, title: str) -> Section:
    rows = [
        ("time", time_text(1e3 * found.time_us)),
        ("90 % interval", f"{time_text(1e3 * found.low_us)} to {time_text(1e3 * found.high_us)}"),
        ("algorithm bandwidth", f"{number_text(found.algbw_GBps)} GB/s"),
        ("bus bandwidth", f"{number_text(found.busbw_GBps)} GB/s"),
    ]
    if found.algorithm:
        rows += [("algorithm", found.algorithm), ("protocol", found.protocol), ("channels", f"{found.channels}")]
    return Section(title, (), (*rows, ("limited by", found.limited_by)), (0, 1))


def _table(found: Sequence[CollectivePrediction], title: str) -> Section:
    head = ("size (B)", "time (us)", "low", "high", "algbw (GB/s)", "busbw (GB/s)", "algorithm", "protocol", "channels",
            "limited by")  # fmt: skip
    rows = tuple(
        (
            f"{each.size_bytes}",
            *(f"{value:.2f}" for value in (each.time_us, each.low_us, each.high_us, each.algbw_GBps, each.busbw_GBps)),
            each.algorithm,
            each.protocol,
            f"{each.channels or ''}",
            each.limited_by,
        )
        for each in found
    )
    return Section(title, head, rows, (6, 7, 9))


def step_sections(found: StepEstimate) -> list[Section]:
    """An estimated step: its head, where the time goes, what was assumed."""
    head = Section(f"A training step of {found.model} on {plural(found.gpus, 'GPU')} of {found.machine}", (),
                   tuple(_head(found)), (0, 1))  # fmt: skip
    rows = tuple(
        (name, time_text(1e9 * seconds), share_text(seconds, found.step_s), _meaning(name))
        for name, seconds in found.parts_s.items()
        if seconds >= LEAST * found.step_s
    )
    total = ("sum", time_text(1e9 * found.step_s), share_text(1.0, 1.0), "the step")
    parts = Section(f"Where the time goes on the rank that computes longest ({found.rank})",
                    ("part", "time", "share", "meaning"), (*rows, total), (0, 3))  # fmt: skip
    return [head, parts, Section("Assumed" if found.assumed else "", lines=found.assumed)]


def _head(found: StepEstimate) -> list[tuple[str, str]]:
    each = found.tokens_per_s_per_gpu
    memory = f"{size_text(found.memory_bytes)} of {size_text(found.memory_capacity_bytes)}"
    use = f"{found.tflops_per_gpu:.1f} of {found.peak_flops / 1e12:,.1f} TFLOP/s of each GPU"
    rows = [("step", time_text(1e9 * found.step_s)), ("90 % interval", found.interval_text)]
    if found.tokens is not None:
        rows.append(("tokens", f"{found.tokens:,} a step, {each * found.gpus:,.0f}/s, {each:,.0f}/s of each GPU"))
    if found.model_flops is not None:
        rows.append(("MFU", f"{100 * found.mfu:.1f} %: {use}"))
    else:
        rows.append(("HFU", f"{100 * found.hfu:.1f} %: {use}, all operations as they run"))
    rows += [
        ("memory", f"{memory}: {'fits' if found.fits else 'DOES NOT FIT'}"),
        ("split", found.split),
    ]
    if found.energy is not None:
        joules, low, high = (number_text(value * found.gpus / 1e3) for value in
                             (found.energy.joules, found.energy.low, found.energy.high))  # fmt: skip
        watts = number_text(found.energy.joules / found.step_s)
        rows.append(("energy", f"{joules} kJ ({low} to {high} by what waiting draws), {watts} W of each GPU with its "
                     "share of the node; not validated"))  # fmt: skip
    if found.link is not None:
        used = f": {found.link.used_by}" if found.link.used_by else ""
        rows.append(("busiest link", f"{found.link.name}, {100 * found.link.busy_share:.1f} %{used}"))
    return rows


def _meaning(name: str) -> str:
    role = name.removeprefix("comm_")
    return (SIMULATED | PART_MEANINGS).get(name) or f"{ROLES.get(role, role)}: communication that nothing hides"
