"""ASTRA-sim's own lines, so that scripts that read its log can read ours (astra-system.md 1.3, 13.1, 16).

Ranks follow each other in the order of finishing. The names of spdlog's logger, level and time are left out. As in the
reference, a rank's statistics end after their first line when a CPU, remote-memory or invalid node ran on it. Metadata
nodes, on which the reference aborts, count as no type.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.custom.hash_order import HashOrder
from chakrasim.machine import System
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.outcome.records import NodeRecord
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.trace import NodeType

Ints = NDArray[np.int64]

_MEMORY_UNITS = ("B", "KB", "MB", "GB", "TB")
_WORD = 1 << 64


def compat_log(result: SimulationResult) -> Iterator[str]:
    """The lines, rank by rank; only the first of each rank where the times of single nodes were not kept.

    The exposed communication is printed as the reference prints it, an unsigned 64-bit number: a negative one wraps.
    """
    statistics = [
        _statistics(record, result.system, int(result.gpu_ns[rank]), int(result.comm_ns[rank]))
        for record, rank in zip(result.records, result.class_ranks.tolist(), strict=False)
    ]
    peaks = result.peak_memory_bytes
    for rank in result.finish_order.tolist():
        exposed = int(result.exposed_comm_ns[rank]) % _WORD
        yield f"sys[{rank}] finished, {int(result.finish_ns[rank])} cycles, exposed communication {exposed} cycles."
        if not statistics:
            continue
        lines = statistics[int(result.classes[rank])]
        yield from (f"sys[{rank}]{line}" for line in lines)
        if peaks is not None and len(lines) > 1:
            yield f"sys[{rank}] peak memory usage: {_memory_text(int(peaks[rank]))}"


def _statistics(record: NodeRecord, system: System, gpu_ns: int, comm_ns: int) -> list[str]:
    """What follows ``sys[I]`` in the statistics of a rank."""
    lines = [". Post statistics processing start."]
    graph = record.graph
    ran = graph.category[record.issued]
    invalid = graph.trace.types[graph.order[record.issued]] == NodeType.INVALID_NODE
    if invalid.any() or np.isin(ran, (at.CAT_CPU, at.CAT_MEMORY)).any():
        return lines
    wall_ns = int(record.end_ns.max(initial=0))
    lines += [". Post statistics processing end.", f", Wall time: {wall_ns}"]
    times = {at.CAT_GPU: ("GPU", gpu_ns), at.CAT_COMM: ("Comm", comm_ns)}
    types = _types_in_hash_order(record)
    lines += [f", {times[category][0]} time: {times[category][1]}" for category in types]
    overlap = (gpu_ns + comm_ns - wall_ns) % _WORD if len(types) == 2 else 0
    if overlap:
        lines.append(f", Total compute-communication overlap: {overlap}")
    return lines + (_roofline_lines(record, system) if system.roofline_enabled else [])


def _types_in_hash_order(record: NodeRecord) -> list[int]:
    """GPU and communication, as far as they ran, in the order in which the reference's hash map first shows them."""
    category = record.graph.category[record.issued]
    present = [kind for kind in (at.CAT_GPU, at.CAT_COMM) if (category == kind).any()]
    if len(present) < 2:
        return present
    ids = record.graph.trace.ids[record.graph.order[record.issued]].tolist()
    by_id = dict(zip(ids, category.tolist(), strict=True))
    first = next(by_id[key] for key in HashOrder(ids) if by_id[key] in present)
    return present if first == at.CAT_GPU else present[::-1]


def _roofline_lines(record: NodeRecord, system: System) -> list[str]:
    """Averages over the GPU nodes, weighted by duration; 1 is added to the sum of durations, as the reference does."""
    graph = record.graph
    numbers = np.flatnonzero((graph.category == at.CAT_GPU) & (record.end_ns >= 0))
    duration = (record.end_ns - record.start_ns)[numbers]
    total = int(duration.sum()) + 1
    if system.replay_only:
        numbers, duration = numbers[:0], duration[:0]
    intensity, perf = _roofline(record, numbers, system)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = int(duration[perf >= system.peak_perf_flops].sum()) / total
        compute = _mean(perf / np.float64(system.peak_perf_flops), duration, total)
        memory = _mean(perf / intensity / np.float64(system.local_mem_bw), duration, total)
        operation = _mean(intensity, duration, total)
    return [
        f", Compute bound percentage: {bound * 100:.3f}%",
        f", Average compute utilization: {compute * 100:.3f}%",
        f", Average memory utilization: {memory * 100:.3f}%",
        f", Average operation intensity: {operation:.3f}",
    ]


def _roofline(record: NodeRecord, numbers: Ints, system: System) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Operations per byte and FLOP/s of nodes, in the reference's doubles (astra-system.md 7)."""
    trace, nodes = record.graph.trace, record.graph.order[numbers]
    ops = trace.attr("num_ops").integers()[nodes].astype(np.float64)
    size = trace.attr("tensor_size").integers()[nodes].astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        intensity = ops / size
        return intensity, np.minimum(system.local_mem_bw * intensity, system.peak_perf_flops)


def _mean(values: NDArray[np.float64], weights: Ints, total: int) -> float:
    """Nodes that take no time do not count, whatever their value."""
    timed = weights > 0
    return float(np.dot(values[timed], weights[timed].astype(np.float64))) / total


def _memory_text(count: int) -> str:
    size = np.float32(count)
    power = 0
    while size >= 1024 and power < len(_MEMORY_UNITS) - 1:
        size = np.float32(size / np.float32(1024))
        power += 1
    return f"{size:.2f} {_MEMORY_UNITS[power]}"
