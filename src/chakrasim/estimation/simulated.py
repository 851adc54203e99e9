"""A simulated job that says what step of training it is, as an estimate of that step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from chakrasim.estimation.parts import BUBBLE, slowest
from chakrasim.estimation.result import LimitingLink, StepEstimate
from chakrasim.estimation.uncertainty import ALL, Doubts
from chakrasim.simulator.outcome.records import PARTS
from chakrasim.trace.work import DTYPE, FLOPS

if TYPE_CHECKING:
    from chakrasim.machine import Machine
    from chakrasim.simulator.outcome.result import SimulationResult
    from chakrasim.trace import Trace

_NEEDED: Final = ("model", "parallel", "ranks", "tokens", "model_flops", "memory_peak_bytes")
"""Metadata of generated traces that say what they are a step of."""


def step_of(result: SimulationResult, machine: Machine) -> StepEstimate | None:
    """What the result says of a step of training; None for jobs that do not say what they are, and for machines without
    a device profile. The parts are those of the simulation. There is no interval: published steps say how far off
    predictions are that know what frameworks make of a device, as those of `chakrasim.estimate` do."""
    profile, known = machine.profile, [record.graph.trace.metadata for record in result.records]
    if profile is None or not known or any(name not in one for one in known for name in _NEEDED):
        return None
    told: dict[str, Any] = known[0]
    if told["ranks"] != len(result.finish_ns) or not result.makespan_ns:
        return None
    rank, seconds = slowest(result), result.makespan_ns / 1e9
    parts = {name: ns / 1e9 for name, ns in zip(PARTS, result.parts_ns[rank].tolist(), strict=True) if ns}
    doubts = Doubts(ALL, profile.name, 0, parts.get("exposed_comm", 0.0) / seconds, parts.get(BUBBLE, 0.0) / seconds)
    return StepEstimate(
        model=told["model"],
        machine=machine.name,
        split=told["parallel"],
        gpus=len(result.finish_ns),
        step_s=seconds,
        low_s=math.nan,
        high_s=math.nan,
        tokens=told["tokens"],
        model_flops=int(told["model_flops"]),
        peak_flops=profile.peak_of(_usual_type(result.records[0].graph.trace)),
        memory_bytes=max(one["memory_peak_bytes"] for one in known),
        memory_capacity_bytes=profile.memory_bytes,
        parts_s=parts,
        rank=rank,
        link=busiest(result),
        doubts=doubts,
    )


def busiest(result: SimulationResult) -> LimitingLink | None:
    """The link of a graph with the most load."""
    if not result.graph_links:
        return None
    first = result.graph_links[0]
    return LimitingLink(first.name, first.busy_share, first.users[0].name if first.users else "")


def _usual_type(trace: Trace) -> str:
    """The type in which most operations are."""
    flops = trace.attr(FLOPS).integers()
    working = np.flatnonzero(flops > 0)
    types, which = np.unique(trace.attr(DTYPE).texts(working), return_inverse=True)
    return str(types[np.argmax(np.bincount(which, flops[working].astype(np.float64)))]) if len(working) else ""
