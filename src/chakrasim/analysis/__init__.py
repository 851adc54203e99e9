"""What a trace says: where its time goes, and what determines how long it takes.

Every analysis takes traces as ``TraceLike``: Kineto files, folders of them, or traces in memory, one a rank.
"""

from typing import TYPE_CHECKING

from chakrasim.lazy import lazily

if TYPE_CHECKING:
    from chakrasim.analysis.bandwidth import bandwidth_series, memory_bandwidth
    from chakrasim.analysis.collectives import collective_split
    from chakrasim.analysis.compare import compare_traces
    from chakrasim.analysis.critical_path.path import linked_critical_path, mark_critical_path
    from chakrasim.analysis.idle import idle_breakdown
    from chakrasim.analysis.kernels import kernel_breakdown, kernel_types
    from chakrasim.analysis.launches import launch_list, launch_summary
    from chakrasim.analysis.memory import memory_series, memory_summary
    from chakrasim.analysis.operators import operator_kernels
    from chakrasim.analysis.overlap import comm_overlap
    from chakrasim.analysis.queue_length import queue_series, queue_summary
    from chakrasim.analysis.sequences import kernel_sequences
    from chakrasim.analysis.serving.iterations import serving_iterations
    from chakrasim.analysis.serving.summary import serving_summary
    from chakrasim.analysis.stragglers import find_stragglers
    from chakrasim.analysis.table.traces import open_traces
    from chakrasim.analysis.temporal import temporal_breakdown
    from chakrasim.analysis.user_annotations import annotated_work, annotation_breakdown

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
    "memory_series",
    "memory_summary",
    "open_traces",
    "operator_kernels",
    "queue_series",
    "queue_summary",
    "serving_iterations",
    "serving_summary",
    "temporal_breakdown",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "bandwidth": ("bandwidth_series", "memory_bandwidth"),
        "collectives": ("collective_split",),
        "compare": ("compare_traces",),
        "critical_path.path": ("linked_critical_path", "mark_critical_path"),
        "idle": ("idle_breakdown",),
        "kernels": ("kernel_breakdown", "kernel_types"),
        "launches": ("launch_list", "launch_summary"),
        "memory": ("memory_series", "memory_summary"),
        "operators": ("operator_kernels",),
        "overlap": ("comm_overlap",),
        "queue_length": ("queue_series", "queue_summary"),
        "sequences": ("kernel_sequences",),
        "serving.iterations": ("serving_iterations",),
        "serving.summary": ("serving_summary",),
        "stragglers": ("find_stragglers",),
        "table.traces": ("open_traces",),
        "temporal": ("temporal_breakdown",),
        "user_annotations": ("annotated_work", "annotation_breakdown"),
    },
)
