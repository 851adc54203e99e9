"""Device traces of a small run, made event by event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

KERNEL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def event(category: str, name: str, begin_us: float, length_us: float, stream: int = -1, **args: Any) -> dict[str, Any]:
    """A complete event: of thread 7, or of a stream of device 0."""
    place = {"pid": 1, "tid": 7} if stream < 0 else {"pid": 0, "tid": stream}
    said = args if stream < 0 else {"device": 0, "stream": stream} | args
    return {"ph": "X", "cat": category, "name": name, "ts": begin_us, "dur": length_us, "args": said, **place}


def device_trace(rank: int, ranks: int, clock_us: float, late_us: float) -> dict[str, Any]:
    """One step: an operator, then an all-reduce that this rank comes ``late_us`` later to, and a wait for it."""
    start = 1_000_000 + clock_us
    begin = start + 100 + late_us
    length = 200 - late_us
    said = {
        "Collective name": "allreduce",
        "In msg nelems": 250 + 10 * rank,
        "Out msg nelems": 250 + 10 * rank,
        "dtype": "Float",
        "Group size": ranks,
        "Process Group Name": "0",
        "Process Group Description": "default_pg",
        "Process Group Ranks": str(list(range(ranks))),
    }
    events = [
        event("user_annotation", "ProfilerStep#3", start, 400),
        event("cpu_op", "aten::mm", start, 50 + late_us),
        event("cpu_op", "record_param_comms", begin - 20, 15, **said),
        event("cuda_runtime", "cudaLaunchKernelExC", begin - 15, 5, correlation=90),
        event("kernel", KERNEL, begin, length, stream=20, correlation=90),
        event("cuda_runtime", "cudaStreamSynchronize", begin + 20, length - 10, correlation=91),
    ]
    header = {"distributedInfo": {"rank": rank, "world_size": ranks, "backend": "nccl"}, "schemaVersion": 1}
    return {**header, "traceEvents": events}


def record(folder: Path, ranks: int = 2, late_us: float = 30) -> Path:
    """A folder with the traces of some ranks, each later than the one before, their clocks milliseconds apart."""
    folder.mkdir()
    for rank in range(ranks):
        trace = device_trace(rank, ranks, 5_000 * rank, late_us * rank)
        (folder / f"device.{rank}.json").write_text(json.dumps(trace))
    return folder
