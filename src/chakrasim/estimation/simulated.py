"""A simulated job that says what step of training it is, as an estimate of that step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.estimation.parts import BUBBLE, slowest
from chakrasim.estimation.result import LimitingLink, StepEstimate
from chakrasim.estimation.uncertainty import ALL, Doubts
from chakrasim.simulator.outcome.records import PARTS
from chakrasim.text.amounts import plural, share_text
from chakrasim.trace.work import DTYPE, FLOPS, PHASE

if TYPE_CHECKING:
    from chakrasim.machine import Machine
    from chakrasim.notes import Notes
    from chakrasim.simulator.outcome.result import SimulationResult
    from chakrasim.trace import Job, Trace

_GENERATED: Final = ("model", "parallel", "ranks", "tokens", "model_flops", "memory_peak_bytes")
"""Metadata of generated traces that say what they are a step of."""
_CAPTURED: Final = ("program", "ranks", "peak_bytes")
"""The same of captured ones; ``tokens`` where somebody said them."""


def estimate_job(
    job: Job, machine: Machine, assumed: Sequence[str] = (), *, notes: Notes | None = None
) -> StepEstimate:
    """A generated or captured job, simulated, as an estimate of its step; ``assumed`` is added to what that assumes.

    Raises InputError for jobs that are no such step and for machines without a device profile.
    """
    from chakrasim.simulator.api import simulate

    result = simulate(job, machine=machine)
    found = step_of(result, machine, assumed)
    if found is None:
        raise InputError("this job on this machine is no step of training", file=machine.name or "machine",
                         expected="all ranks of a generated or captured job, and a device profile")  # fmt: skip
    if notes is not None:
        notes.warn(*result.warnings)
    return found


def step_of(result: SimulationResult, machine: Machine, assumed: Sequence[str] = ()) -> StepEstimate | None:
    """What the result says of a step of training; None for jobs that do not say what they are, and for machines without
    a device profile. The parts are those of the simulation. There is no interval: published steps say how far off
    predictions are that know what frameworks make of a device, as those of `chakrasim.estimate` do. Captured jobs say
    what operations ran, not which the model needs, and know tokens where whoever captured them said so."""
    profile, known = machine.profile, [record.graph.trace.metadata for record in result.records]
    captured = all(name in one for one in known for name in _CAPTURED)
    if profile is None or not known or not (captured or all(name in one for one in known for name in _GENERATED)):
        return None
    told: dict[str, Any] = known[0]
    if told["ranks"] != len(result.finish_ns) or not result.makespan_ns:
        return None
    flops = _run_flops(result) if captured else (0, 0)
    rank, seconds = slowest(result), result.makespan_ns / 1e9
    parts = _parts(result, rank)
    moving = sum(value for name, value in parts.items() if name.startswith(("comm_", "exposed_comm")))
    groups = f", groups: {told['groups']}" if told.get("groups") else ""
    return StepEstimate(
        model=told["program" if captured else "model"],
        machine=machine.name,
        split=f"captured: {plural(told['ranks'], 'rank')}{groups}" if captured else told["parallel"],
        gpus=len(result.finish_ns),
        step_s=seconds,
        low_s=math.nan,
        high_s=math.nan,
        tokens=told.get("tokens"),
        model_flops=None if captured else int(told["model_flops"]),
        peak_flops=profile.peak_of(usual_type(result.records[0].graph.trace)),
        memory_bytes=max(one["peak_bytes" if captured else "memory_peak_bytes"] for one in known),
        memory_capacity_bytes=profile.memory_bytes,
        parts_s=parts,
        rank=rank,
        link=busiest(result),
        doubts=Doubts(ALL, profile.name, 0, moving / seconds, parts.get(BUBBLE, 0.0) / seconds),
        assumed=(*(_of_capture(result, told, flops) if captured else ()), *assumed),
        run_flops=flops[0] if captured else None,
        power=profile.power,
    )


def _parts(result: SimulationResult, rank: int) -> dict[str, float]:
    """Seconds of the rank by part of `PARTS`, which sum to the makespan. Exposed communication is told by role, as
    ``comm_ROLE``, where that is known; roles that move bytes at one time share it by what each exposes."""
    exposed = {one.role: int(one.exposed_ns[rank]) for one in result.roles}
    whole, found = sum(exposed.values()), dict[str, float]()
    for name, ns in zip(PARTS, result.parts_ns[rank].tolist(), strict=True):
        if name == "exposed_comm" and whole:
            found |= {f"comm_{role}": ns / 1e9 * own / whole for role, own in exposed.items() if own}
        elif ns:
            found[name] = ns / 1e9
    return found


def _run_flops(result: SimulationResult) -> tuple[int, int]:
    """Operations of all ranks as they run, and how many of them activation checkpointing computes again."""
    whole = again = 0
    for trace, copies in Counter(result.records[one].graph.trace for one in result.classes.tolist()).items():
        flops = trace.attr(FLOPS).integers()
        whole += copies * int(flops.sum())
        again += copies * int(flops[trace.attr(PHASE).texts(np.arange(len(flops))) == "recompute"].sum())
    return whole, again


def _of_capture(result: SimulationResult, told: Mapping[str, Any], flops: tuple[int, int]) -> Iterator[str]:
    """What of a captured step is not known or taken for granted."""
    if told.get("tokens") is None:
        yield "nobody said how many tokens a step has (capture --tokens)"
    if told.get("step") == 0:
        yield "all that the program does is one step"
    again = f"{share_text(flops[1], flops[0])} of them computed again" if flops[1] else "none computed again"
    yield f"operations as operators count them, {again}; attention of all scores, whatever a mask leaves out"
    replayed = result.counts.get("broadcasts replayed with their recorded duration", 0)
    if replayed:
        yield f"{plural(replayed, 'broadcast')} take no time"


def busiest(result: SimulationResult) -> LimitingLink | None:
    """The link of a graph with the most load."""
    if not result.graph_links:
        return None
    first = result.graph_links[0]
    return LimitingLink(first.name, first.busy_share, first.users[0].name if first.users else "")


def usual_type(trace: Trace) -> str:
    """The type in which most operations are."""
    flops = trace.attr(FLOPS).integers()
    working = np.flatnonzero(flops > 0)
    types, which = np.unique(trace.attr(DTYPE).texts(working), return_inverse=True)
    return str(types[np.argmax(np.bincount(which, flops[working].astype(np.float64)))]) if len(working) else ""
