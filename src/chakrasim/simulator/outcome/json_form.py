"""The result as JSON: the same input gives the same bytes, whatever the folder, the time or the machine it ran on."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.simulator.outcome.result import PARTS, CollectiveFigures, LinkFigures, SimulationResult
from chakrasim.simulator.outcome.steps import StepTime

FORMAT = "chakrasim-result/1"
"""Changes with the meaning of a key, not with the version of the program."""

UNITS = {
    "*_ns": "nanoseconds (one cycle of ASTRA-sim is 1 ns)",
    "*_bytes": "bytes",
    "algbw": "bytes per ns, which is GB/s with GB = 10^9",
    "busbw": "bytes per ns, which is GB/s with GB = 10^9",
    "lists": "by rank, but for finish_order (ranks in the order of finishing), collectives and links",
}
_FILE_PREFIX = re.compile(r"^(?:(?!: )[^\n])*?[/\\]([^/\\\n]+\.\w+)(?=: )")


def result_json(result: SimulationResult) -> str:
    """The figures of a result as one JSON object, its keys sorted, one line for each.

    ``exposed_comm_ns`` is signed: ASTRA-sim prints a negative one modulo 2^64. Of a file that a warning names only the
    last part of the path is kept.
    """
    content = _content(result)
    encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
    lines = [f'"{key}": {encode(content[key])}' for key in sorted(content)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _content(result: SimulationResult) -> dict[str, Any]:
    return {
        **_measured(result),
        "bytes_sent": _list(result.bytes_sent),
        "classes": _list(result.classes),
        "collectives": [_collective(figures) for figures in result.collectives],
        "comm_ns": _list(result.comm_ns),
        "congestion": result.congestion,
        "counts": result.counts,
        "events": result.events,
        "exposed_comm_ns": _list(result.exposed_comm_ns),
        "finish_ns": _list(result.finish_ns),
        "finish_order": _list(result.finish_order),
        "fold_reason": result.fold_reason,
        "format": FORMAT,
        "gpu_ns": _list(result.gpu_ns),
        "links": None if result.links is None else _links(result.links),
        "makespan_ns": result.makespan_ns,
        "message_bytes": result.message_bytes,
        "messages": result.messages,
        "parts_ns": {name: _list(result.parts_ns[:, i]) for i, name in enumerate(PARTS)},
        "peak_memory_bytes": None if result.peak_memory_bytes is None else _list(result.peak_memory_bytes),
        "ranks": len(result.finish_ns),
        "simulated": len(result.finish_order) > 0,
        "units": UNITS,
        "warnings": [_without_folder(warning) for warning in result.warnings],
    }


def _measured(result: SimulationResult) -> dict[str, Any]:
    """What only converted traces have: their steps, and that measured durations were replayed."""
    content: dict[str, Any] = {}
    if result.steps:
        content["steps"] = [_step(time) for time in result.steps]
    if result.replay is not None:
        content["replay"] = result.replay
    return content


def _step(time: StepTime) -> dict[str, Any]:
    return {
        "delay_only_share": time.delay_only_share,
        "error_pct": time.error_pct,
        "measured_ns": time.measured_ns,
        "rank": time.rank,
        "simulated_ns": time.simulated_ns,
        "step": time.step,
    }


def _list(values: NDArray[np.int64]) -> list[int]:
    listed: list[int] = values.tolist()
    return listed


def _collective(figures: CollectiveFigures) -> dict[str, Any]:
    return {
        "algbw": figures.algbw,
        "algorithm": figures.algorithm,
        "busbw": figures.busbw,
        "calls": figures.calls,
        "groups": figures.groups,
        "mean_ns": figures.mean_ns,
        "members": figures.members,
        "size_bytes": figures.size_bytes,
        "type": figures.type,
    }


def _links(links: LinkFigures) -> dict[str, Any]:
    return {
        "busy_ns": _list(links.busy_ns),
        "bytes": _list(links.bytes),
        "copies": links.copies,
        "dim": _list(links.dim),
        "messages": _list(links.messages),
        "most_queued": _list(links.most_queued),
        "name": list(links.name),
    }


def _without_folder(warning: str) -> str:
    """A warning whose leading file name has lost its folder."""
    return _FILE_PREFIX.sub(r"\1", warning)
