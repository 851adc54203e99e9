"""Random host and device traces that are hard to link: ties, colliding ids, straddling operators, several threads."""

from __future__ import annotations

import random
from typing import Any

SCHEMAS = [f"{version}-chakra.0.0.4" for version in ("1.0.2", "1.0.3", "1.0.4", "1.1.0", "1.1.1")]
THREAD = "[pytorch|profiler|execution_trace|thread]"


def _attrs(rf_id: int) -> list[dict[str, Any]]:
    values = {"rf_id": rf_id, "fw_parent": 0, "seq_id": -1, "scope": 7, "tid": 1, "fw_tid": 0, "op_schema": ""}
    return [{"name": name, "type": "uint64", "value": value} for name, value in values.items()]


def made_host(draw: random.Random, nodes: int) -> dict[str, Any]:
    """A host trace of up to ``nodes`` nodes below node 1, not in the order of their ids."""
    schema = draw.choice(SCHEMAS)
    port: dict[str, Any] = {
        "values": [[1, 2, 0, 4, 4, "cuda:0"], 1.5],
        "shapes": [[4], []],
        "types": ["Tensor(float)", "Double"],
    }
    if schema.startswith("1.1.1"):
        port["strides"] = []
    made = [(1, "[pytorch|profiler|execution_trace|process]", 1, 0)]
    for position in range(nodes):
        identity = made[-1][0] + draw.choice([1, 1, 1, 3])
        known = [node[0] for node in made[-6:]]
        parent = draw.choice([*known, 1]) if draw.random() < 0.93 else draw.choice([0, 998, 999])
        name = THREAD if parent == 1 and draw.random() < 0.6 else "aten::add"
        made.append((identity, name, parent, draw.choice([0, position + 1, position + 1, draw.randint(1, 8)])))
    draw.shuffle(made)
    listed = [
        {"id": identity, "name": name, "ctrl_deps": parent, "inputs": port, "outputs": port, "attrs": _attrs(rf_id)}
        for identity, name, parent, rf_id in made
    ]
    return {"schema": schema, "pid": 1, "time": "t", "start_ts": 1, "nodes": listed, "finish_ts": 2}


def made_device(draw: random.Random, operators: int, launches: int) -> dict[str, Any]:
    """A device trace of these many operators and launched kernels, in no order."""
    base = draw.choice([0, 100, 4458676522690.655, 1700000000123456.25])
    span = draw.choice([10, 100, 5000])
    whole = draw.random() < 0.4
    tids = draw.sample([0, 7, 8, "s", 12345], draw.randint(1, 4))

    def time(value: float) -> float:
        return int(value) if whole else round(value, 3)

    events: list[dict[str, Any]] = []
    for position in range(operators):
        begin = base + draw.uniform(0, span) if draw.random() < 0.7 else base + draw.randint(0, 5)
        args: dict[str, Any] = {}
        if draw.random() < 0.8:
            args["External id"] = draw.choice([position, draw.randint(0, 6)])
        if draw.random() < 0.8:
            args["Record function id"] = draw.choice([position, position, draw.randint(0, 6)])
        name = draw.choice(["aten::add", "nccl:coalesced", "aten::mm", "ProfilerStep#1"])
        length = draw.choice([0, draw.uniform(0, 3), draw.uniform(0, span)])
        kind = draw.choice(["cpu_op", "cpu_op", "user_annotation", "python_function"])
        events.append({"ph": "X", "cat": kind, "name": name, "pid": 1, "tid": draw.choice(tids), "ts": time(begin)})
        events[-1] |= {"dur": time(length), "args": args}
    for correlation in draw.sample(range(100), launches):
        begin = base + draw.uniform(0, span)
        args = {"correlation": correlation, "External id": draw.randint(0, 8)}
        call = draw.choice(["cudaLaunchKernel", "cudaMemcpyAsync", "cudaGraphLaunch", "cuLaunchKernel"])
        event = {"ph": "X", "cat": "cuda_runtime", "name": call, "pid": 1, "tid": draw.choice(tids), "ts": time(begin)}
        events.append({**event, "dur": time(2.0), "args": args})
        args = {**args, "stream": draw.choice([7, 7, 20]), "Process Group Name": draw.choice(["0", ""])}
        args["External id"] = draw.choice([args["External id"], draw.randint(0, 8)])
        kernel = draw.choice(["gemm", "ncclDevKernel_AllReduce", "ncclKernel_SendRecv", "NCCLx"])
        category = draw.choice(["kernel", "kernel", "gpu_memcpy", "gpu_memset"])
        event = {"ph": "X", "cat": category, "name": kernel, "pid": 0, "tid": 7, "ts": time(begin + 3)}
        events.append({**event, "dur": time(draw.uniform(0, 9)), "args": args})
    events.append({"ph": "M", "name": "process_name", "ts": time(base), "pid": 1, "tid": 0, "args": {"name": "x"}})
    draw.shuffle(events)
    return {"schemaVersion": 1, "traceEvents": events}


def made_table(draw: random.Random) -> dict[int, list[int]]:
    """A table of synchronisation dependencies between External ids."""
    table: dict[int, list[int]] = {}
    for _ in range(draw.randint(0, 5)):
        table.setdefault(draw.randint(0, 8), []).append(draw.randint(0, 8))
    return table
