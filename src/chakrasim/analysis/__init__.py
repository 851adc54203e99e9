"""What a trace says: where its time goes, and what determines how long it takes.

Every analysis takes traces as ``TraceLike``: Kineto files, folders of them, or traces in memory, one a rank.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chakrasim.analysis.bandwidth import bandwidth_series, memory_bandwidth
    from chakrasim.analysis.collectives import collective_split
    from chakrasim.analysis.compare import compare_traces
    from chakrasim.analysis.critical_path.path import linked_critical_path, mark_critical_path
    from chakrasim.analysis.idle import idle_breakdown
    from chakrasim.analysis.kernels import kernel_breakdown, kernel_types
    from chakrasim.analysis.launches import launch_list, launch_summary
    from chakrasim.analysis.operators import operator_kernels
    from chakrasim.analysis.overlap import comm_overlap
    from chakrasim.analysis.queue_length import queue_series, queue_summary
    from chakrasim.analysis.sequences import kernel_sequences
    from chakrasim.analysis.stragglers import find_stragglers
    from chakrasim.analysis.table.traces import open_traces
    from chakrasim.analysis.temporal import temporal_breakdown
    from chakrasim.analysis.user_annotations import annotated_work, annotation_breakdown

_HOMES = {
    "annotated_work": "user_annotations",
    "annotation_breakdown": "user_annotations",
    "bandwidth_series": "bandwidth",
    "collective_split": "collectives",
    "comm_overlap": "overlap",
    "compare_traces": "compare",
    "find_stragglers": "stragglers",
    "idle_breakdown": "idle",
    "kernel_breakdown": "kernels",
    "kernel_sequences": "sequences",
    "kernel_types": "kernels",
    "launch_list": "launches",
    "launch_summary": "launches",
    "linked_critical_path": "critical_path.path",
    "mark_critical_path": "critical_path.path",
    "memory_bandwidth": "bandwidth",
    "open_traces": "table.traces",
    "operator_kernels": "operators",
    "queue_series": "queue_length",
    "queue_summary": "queue_length",
    "temporal_breakdown": "temporal",
}

__all__ = [
    "annotated_work",
    "annotation_breakdown",
    "bandwidth_series",
    "collective_split",
    "comm_overlap",
    "compare_traces",
    "find_stragglers",
    "idle_breakdown",
    "kernel_breakdown",
    "kernel_sequences",
    "kernel_types",
    "launch_list",
    "launch_summary",
    "linked_critical_path",
    "mark_critical_path",
    "memory_bandwidth",
    "open_traces",
    "operator_kernels",
    "queue_series",
    "queue_summary",
    "temporal_breakdown",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'chakrasim.analysis' has no attribute {name!r}")
    return getattr(import_module(f"chakrasim.analysis.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
