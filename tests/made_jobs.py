"""Small host and device traces in which everything is right; tests break one thing at a time."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

US = 1_700_000_000_000_000
"""A start in microseconds, of this century."""

Event = dict[str, Any]
Document = dict[str, Any]


def event(name: str, cat: str, ts: float, dur: float, pid: Any = 100, tid: Any = 100, **args: Any) -> Event:
    """A complete event; ``ts`` counts from US."""
    shown = {key.replace("__", " "): value for key, value in args.items()}
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": US + ts, "dur": dur, "args": shown}


def device(
    rank: int = 0,
    world: int = 1,
    *,
    pid: int = 100,
    steps: int = 3,
    kernels: int = 4,
    sync: bool = True,
    collectives: int = 0,
    shift: float = 0,
    size: int = 1000,
) -> Document:
    """``steps`` steps of 1 ms: operators that launch kernels on stream 7, collectives on stream 20, then a wait."""
    events: list[Event] = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": US, "args": {"name": "python"}}
    ]
    number = correlation = 10
    for step in range(steps):
        at = 1000 * step + shift
        number += 1
        events.append(event(f"ProfilerStep#{step}", "user_annotation", at, 990, pid, pid, Record__function__id=number))
        for k in range(kernels + collectives):
            begin = at + 10 + 50 * k
            number, correlation = number + 1, correlation + 1
            comm = k >= kernels
            name = "c10d::allreduce_" if comm else "aten::mm"
            ids = {"External__id": number, "Record__function__id": number, "Input__Dims": [[8, 8]]}
            events.append(event(name, "cpu_op", begin, 40, pid, pid, **ids))
            launch = {"correlation": correlation, "External__id": number}
            events.append(event("cudaLaunchKernel", "cuda_runtime", begin + 5, 5, pid, pid, **launch))
            where = {"device": rank, "stream": 20 if comm else 7, "correlation": correlation}
            facts: dict[str, Any] = {}
            if comm:
                facts = {
                    "Collective__name": "allreduce",
                    "In__msg__nelems": size,
                    "dtype": "Float",
                    "Process__Group__Name": "0",
                    "Process__Group__Ranks": json.dumps(list(range(world))),
                }
            kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL" if comm else "gemm"
            events.append(event(kernel, "kernel", begin + 20, 20, rank, 20 if comm else 7, **where, **facts))
        correlation += 1
        waits = {"correlation": correlation}
        events.append(event("cudaDeviceSynchronize", "cuda_runtime", at + 900, 10, pid, pid, **waits))
        if sync:
            where = {"device": rank, "stream": -1, "correlation": correlation}
            events.append(event("Context Sync", "cuda_sync", at + 900, 10, rank, -1, **where))
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": n, "name": "NVIDIA H100"} for n in range(max(world, rank + 1))],
        "record_shapes": 1,
        "distributedInfo": {
            "backend": "nccl",
            "rank": rank,
            "world_size": world,
            "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": world, "ranks": list(range(world))}],
        },
        "traceEvents": events,
    }


def host(document: Document, *, schema: str = "1.1.1-chakra.0.0.4", pid: int = 100) -> Document:
    """The host trace of the same run as a device trace."""
    nodes = [_node(1, "[pytorch|profiler|execution_trace|process]", 0, 1), _node(2, "[thread]", 0, 1)]
    for found in document["traceEvents"]:
        rf_id = found.get("args", {}).get("Record function id")
        if rf_id is not None:
            nodes.append(_node(len(nodes) + 1, found["name"], rf_id, 2))
    return {"schema": schema, "pid": pid, "time": "2023-11-14 22:13:20", "start_ts": 1, "nodes": nodes, "finish_ts": 2}


def _node(number: int, name: str, rf_id: int, parent: int) -> dict[str, Any]:
    values = {"rf_id": rf_id, "fw_parent": 0, "seq_id": -1, "scope": 0, "tid": 1, "fw_tid": 0, "op_schema": ""}
    attrs = [{"name": key, "type": "uint64", "value": value} for key, value in values.items()]
    nothing: dict[str, Any] = {"values": [], "shapes": [], "types": [], "strides": []}
    return {"id": number, "name": name, "ctrl_deps": parent, "inputs": nothing, "outputs": nothing, "attrs": attrs}


def save(path: Path, document: object) -> Path:
    """Write as JSON, packed if the name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps(document).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def job(folder: Path, world: int = 2, **settings: Any) -> list[tuple[Document, Document]]:
    """``host.R.json`` and ``device.R.json`` of a whole job; returns the documents."""
    documents = []
    for rank in range(world):
        traced = device(rank, world, pid=100 + rank, collectives=2, **settings)
        documents.append((host(traced, pid=100 + rank), traced))
        save(folder / f"host.{rank}.json", documents[-1][0])
        save(folder / f"device.{rank}.json", documents[-1][1])
    return documents
