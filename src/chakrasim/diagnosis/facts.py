"""What one rank's traces say of the run: for the table, and to compare ranks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from chakrasim.diagnosis.device_rows import DeviceRows, busy_ns
from chakrasim.diagnosis.files.pairing import RankFiles
from chakrasim.diagnosis.files.sniff import distributed_rank
from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.kineto.columns import KinetoTrace
from chakrasim.trace.linked.delays import LongestDelay


@dataclass(frozen=True)
class RankFacts:
    """One rank.

    Attributes
    ----------
    rank, host, device, paired_by, rank_from: as in `RankFiles`, files by their paths.
    program: the process's name, "" where not stated.
    pytorch: what the files state of PyTorch, CUDA, NCCL.
    schema: of the host trace.
    gpu: name of the devices used; gpus: how many are used.
    world_size: -1 where not stated.
    steps: numbers of the profiler's steps; step_kernels: kernels launched in each.
    partial_steps: steps whose kernels are not complete, to be left out of averages.
    events, operators, kernels, copies, collectives, nodes: counts (nodes: of the host trace).
    delay_only_share: of each step by its number ("-1": of the whole), once linked, the share of its critical path that
        is delay and explained by no dependency (`StepPath`); longest_delay: of these on the path of the whole.
    start_ns, span_ns: of all that has a duration, clock of the trace; busy_ns: the device did something.
    """

    rank: int
    host: str = ""
    device: str = ""
    paired_by: str = ""
    rank_from: str = ""
    program: str = ""
    pytorch: str = ""
    schema: str = ""
    gpu: str = ""
    gpus: int = 0
    world_size: int = -1
    steps: tuple[int, ...] = ()
    step_kernels: tuple[int, ...] = ()
    partial_steps: tuple[int, ...] = ()
    events: int = 0
    operators: int = 0
    kernels: int = 0
    copies: int = 0
    collectives: int = 0
    nodes: int = 0
    start_ns: int = 0
    span_ns: int = 0
    busy_ns: int = 0
    delay_only_share: dict[str, float] = field(default_factory=dict)
    longest_delay: LongestDelay | None = None

    def to_mapping(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def rank_facts(
    files: RankFiles, host: HostTrace | None, rows: DeviceRows | None, partial_steps: tuple[int, ...] = ()
) -> RankFacts:
    """The facts of a rank whose traces are read; None where there is none."""
    facts: dict[str, Any] = {
        "rank": files.rank,
        "host": str(files.host or ""),
        "device": str(files.device or ""),
        "paired_by": files.paired_by,
        "rank_from": files.rank_from,
    }
    if host is not None:
        facts |= {"schema": host.schema, "nodes": len(host)}
    if rows is not None:
        facts |= _device_facts(rows) | {"partial_steps": partial_steps}
    return RankFacts(**facts)


def _device_facts(rows: DeviceRows) -> dict[str, Any]:
    trace = rows.trace
    kernels, copies = rows.kernels, rows.work & ~rows.kernels
    chosen = rows.operators | rows.calls | rows.work | rows.annotations
    start, end = trace.ts_ns[chosen], rows.end_ns[chosen]
    step_rows, numbers = rows.steps
    first = int(start.min()) if len(start) else 0
    return {
        "program": _process_name(trace),
        "pytorch": _versions(trace.header),
        "gpu": _gpu_name(trace, rows),
        "gpus": len(np.unique(trace.device[rows.work & (trace.device >= 0)])),
        "world_size": distributed_rank(trace.header)[1],
        "steps": tuple(numbers.tolist()),
        "step_kernels": tuple(step_kernels(rows).tolist()) if len(step_rows) else (),
        "events": trace.event_count,
        "operators": int(rows.operators.sum()),
        "kernels": int(kernels.sum()),
        "copies": int(copies.sum()),
        "collectives": int(rows.collectives.sum()),
        "start_ns": first,
        "span_ns": int(end.max()) - first if len(end) else 0,
        "busy_ns": busy_ns(trace.ts_ns[rows.work], rows.end_ns[rows.work]),
    }


def step_kernels(rows: DeviceRows) -> np.ndarray[Any, np.dtype[np.int64]]:
    """int64[steps]: device work launched in each step; of work without a launch, its own start counts."""
    work = np.flatnonzero(rows.work)
    launch = rows.launch_of[work]
    times = np.where(launch >= 0, rows.trace.ts_ns[np.maximum(launch, 0)], rows.trace.ts_ns[work])
    step = rows.step_of(times)
    return np.bincount(step[step >= 0], minlength=len(rows.steps[0])).astype(np.int64)


def _process_name(trace: KinetoTrace) -> str:
    """The name of the process that the operators belong to, of the file's metadata events."""
    column = trace.rare_column("name")
    labels = column.texts(len(trace))
    named = np.flatnonzero((labels > 0) & trace.where(trace.name, "process_name"))
    names = [trace.strings[int(labels[row])] for row in named if int(trace.pid[row]) > 0]
    return names[0] if names else ""


def _versions(header: dict[str, Any]) -> str:
    """What the file states of the software, in its own words."""
    info = header.get("distributedInfo")
    stated = {**header, **(info if isinstance(info, dict) else {})}
    names = {
        "pytorch_version": "PyTorch",
        "torch_version": "PyTorch",
        "cuda_runtime_version": "CUDA runtime",
        "cuda_driver_version": "CUDA driver",
        "nccl_version": "NCCL",
    }
    return ", ".join(f"{word} {stated[key]}" for key, word in names.items() if isinstance(stated.get(key), (str, int)))


def _gpu_name(trace: KinetoTrace, rows: DeviceRows) -> str:
    """The name of the device in use, or of the first described one."""
    described = trace.header.get("deviceProperties")
    if not isinstance(described, list):
        return ""
    used = set(np.unique(trace.device[rows.work & (trace.device >= 0)]).tolist())
    devices = [device for device in described if isinstance(device, dict)]
    names = [str(device.get("name", "")) for device in devices if not used or _is_used(device.get("id"), used)]
    return names[0] if names else ""


def _is_used(number: object, used: set[int]) -> bool:
    return isinstance(number, int) and number in used
