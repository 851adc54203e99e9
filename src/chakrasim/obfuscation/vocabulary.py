"""Words that stay in a release: those of the schema and of this program, which say what a node is to a simulator. Every
other word is somebody's own."""

from __future__ import annotations

from typing import Final

from chakrasim.trace import work
from chakrasim.trace.element_types import element_bytes
from chakrasim.trace.job.job import PEER
from chakrasim.trace.kinds import PARTS

_OF_NODES: Final = """
is_cpu_op comm_type comm_size comm_tag comm_src comm_dst comm_priority involved_dim pg_name root_rank root tensor_loc
start_ns duration_ns delay_ns wait_ns transfer_ns meeting meeting_ranks data_dep_kinds data_dep_evidence step part tid
is_start_offset is_gap correlation rf_id host_id device invisible ignore rotation micro_batch stated_bytes op_schema
runtime fw_parent seq_id scope fw_tid kernel_backend kernel_file parent_id num_links exec_time wait_on_stream
wait_on_cuda_event_record_corr_id wait_on_cuda_event_id optype irequires cpu nic
"""
_OF_TRACES: Final = """
schema source_schema rank ranks world_size start_offset_ns clock_shift_ns span_ns step_numbers step_ns step_first
step_first_ns step_last step_last_ns step_path_ns step_delay_only_ns edges_merged counts producer producer_version
format model stage parallel model_flops tokens recomputed_flops model_parameters total_flops peak_bytes placeholders
groups step source program arguments torch_version device_profile peak_bytes_parameters peak_bytes_gradients
peak_bytes_optimizer peak_bytes_buffers peak_bytes_activations peak_bytes_communication peak_bytes_temporaries
memory_parameters_bytes memory_gradients_bytes memory_optimizer_bytes memory_activations_bytes memory_working_bytes
memory_peak_bytes
"""
ATTRIBUTES: Final = frozenset(
    (
        *_OF_NODES.split(),
        *(work.FLOPS, work.BYTES, work.BYTES_READ, work.BYTES_WRITTEN, work.KIND, work.DTYPE, work.KERNELS),
        *(*work.SHAPE, work.CAUSAL, work.STREAM, work.LAUNCH, work.HOST_WAITS, work.SLOWED, work.STREAM_RULE),
        *(work.COMPUTE_NS, work.RECORDED, work.UNKNOWN, work.PHASE, PEER, PARTS),
    )
)
"""Names of nodes' attributes."""
METADATA: Final = frozenset(_OF_TRACES.split())
"""Names of what a trace says of itself."""

_VALUES: Final = {
    work.KIND: frozenset(work.WORK_KINDS),
    work.PHASE: frozenset(("forward", "backward", "recompute", "optimizer", "other")),
    "schema": frozenset(("chakrasim-1",)),
    "producer": frozenset(("chakrasim generate transformer", "chakrasim capture", "chakrasim synthesize")),
}
_BRACKETS: Final = frozenset("0123456789[](),. -")


def is_public(name: str, value: str) -> bool:
    """Whether the text of an attribute is a word that everybody knows it by."""
    return value in _VALUES.get(name, ()) or (name == work.DTYPE and is_type(value))


def is_type(word: str) -> bool:
    """Whether a word is the type of an element, as recorders write it."""
    return element_bytes(word) > 0 or word.lower() in work.BITS


_TYPES: Final = (
    "Tensor GenericList Int Bool Double None Device String Scalar Float ScalarType long unsigned signed char"
)
TYPE_WORDS: Final = frozenset(_TYPES.split())
"""What recorders call inputs and outputs, beside the types of elements."""


def is_shape(text: str) -> bool:
    """Whether a text is nothing but numbers in brackets."""
    return _BRACKETS.issuperset(text)
