"""Local memory over time as a Chrome trace: reads, writes and lifetimes of tensors, and the bytes in use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from chakrasim.errors import InputError
from chakrasim.files.outputs import write_together
from chakrasim.simulator.outcome.local_memory import Tensor, tensors_of, usage
from chakrasim.simulator.outcome.records import NodeRecord
from chakrasim.simulator.outcome.result import SimulationResult

LIFETIME_PID = 1_000_000
"""Added to the rank for the process that shows lifetimes; twice that for the counter of bytes in use."""

MEBIBYTE = 2**20


def write_memory_traces(result: SimulationResult, prefix: str) -> list[str]:
    """Write ``PREFIX.RANK.json`` for every rank, all or none; returns the paths.

    Raises InputError if the run did not track local memory.
    """
    if result.peak_memory_bytes is None:
        raise InputError(
            "local memory was not tracked", remedy="set 'track-local-mem' to 1 in the system configuration"
        )
    return write_together(_contents(result, prefix))


def _contents(result: SimulationResult, prefix: str) -> Iterator[tuple[str, bytes]]:
    by_class = [_events(record) for record in result.records]
    for rank, number in enumerate(result.classes.tolist()):
        events = [{**event, "pid": event["pid"] + rank} for event in by_class[number]]
        yield f"{prefix}.{rank}.json", json.dumps({"traceEvents": events}, indent=2).encode()


def _events(record: NodeRecord) -> list[dict[str, Any]]:
    """One rank's events, with process numbers as for rank 0."""
    tensors = tensors_of(record)
    events: list[dict[str, Any]] = []
    for thread, tensor in enumerate(tensors):
        events += _tensor_events(record, tensor, thread)
    for tick, in_use in zip(*(column.tolist() for column in usage(tensors)), strict=True):
        events.append(
            {
                "name": "GPU Memory Usage (MB)",
                "cat": "memory",
                "ph": "C",
                "ts": tick / 1000,
                "pid": 2 * LIFETIME_PID,
                "args": {"Memory_MB": in_use / MEBIBYTE},
            }
        )
    return events


def _tensor_events(record: NodeRecord, tensor: Tensor, thread: int) -> list[dict[str, Any]]:
    def pair(category: str, name: str, start_ns: int, end_ns: int, pid: int) -> list[dict[str, Any]]:
        common = {"name": name, "cat": category, "pid": pid, "tid": thread, "args": {"tensor": tensor.name}}
        return [{**common, "ph": "B", "ts": start_ns / 1000}, {**common, "ph": "E", "ts": end_ns / 1000}]

    events = pair("tensorWrite", _node_name(record, tensor.writer), *tensor.write_ns, 0)
    for start, end, number in tensor.reads:
        events += pair("tensorRead", _node_name(record, number), start, end, 0)
    if tensor.last_read_ns is not None:
        events += pair("tensorLifetime", tensor.name, tensor.write_ns[0], tensor.last_read_ns, LIFETIME_PID)
    return events


def _node_name(record: NodeRecord, number: int) -> str:
    return "UNDEFINED" if number < 0 else record.graph.trace.name(int(record.graph.order[number]))
