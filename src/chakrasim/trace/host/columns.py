"""A host trace of PyTorch (ExecutionTraceObserver) in memory: columns, in file order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.text.shown import Shown
from chakrasim.trace.chakra.graph import StringTable
from chakrasim.trace.kineto.columns import EMPTY_RARE, Ints, RareColumn

#: Attributes of a node that have a column in ``rare``: those of communication, and what a linked trace of the
#: reference linker adds to a node.
RARE_ATTRIBUTES: Final = (
    *("collective_name", "dtype", "in_msg_nelems", "out_msg_nelems", "in_split_size", "out_split_size"),
    *("global_rank_start", "global_rank_stride", "pg_name", "pg_desc", "pg_size", "tensor_range"),
    # top-level keys that chakra_trace_link adds
    *("inclusive_dur", "exclusive_dur", "ts", "inter_thread_dep", "sync_dep", "cat", "ph", "stream"),
)

#: Rows of ``HostTrace.spans``: byte ranges of parts of a node in ``HostTrace.text``.
SPAN_NODE, SPAN_ID, SPAN_PARENT, SPAN_NAME = 0, 1, 2, 3
SPAN_IN_VALUES, SPAN_IN_SHAPES, SPAN_IN_TYPES = 4, 5, 6
SPAN_OUT_VALUES, SPAN_OUT_SHAPES, SPAN_OUT_TYPES = 7, 8, 9
SPANS = 10


@dataclass(frozen=True, eq=False)
class TensorTable:
    """Tensors that nodes take and give, ``k`` rows in file order (lists of tensors flattened).

    ``node`` int32[k] row of the node; ``is_output`` bool[k]; ``argument`` int32[k] position among the node's inputs or
    outputs; ``tensor_id``, ``storage_id``, ``offset``, ``elements``, ``element_bytes`` int64[k]; ``device`` int32[k]
    string index ("cuda:0").
    """

    node: NDArray[np.int32]
    is_output: NDArray[np.bool_]
    argument: NDArray[np.int32]
    tensor_id: Ints
    storage_id: Ints
    offset: Ints
    elements: Ints
    element_bytes: Ints
    device: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.node)


@dataclass(frozen=True, eq=False)
class HostTrace(Shown):
    """The nodes of one PyTorch execution trace, ``n`` rows in file order (which is order of completion).

    Attributes
    ----------
    source: the file's name, for messages.
    strings: all names and texts; entry 0 is "".
    schema: as the file states it, for instance ``1.1.1-chakra.0.0.4``.
    header: everything of the file beside ``nodes`` (``pid``, ``time``, ``start_ts``, ``finish_ts``, ...).
    ids, parent: int64[n]; parent is ``ctrl_deps`` (``parent`` in 1.0.1), -1 where absent.
    name, op_schema, kernel_backend, kernel_file: int32[n], string index.
    rf_id, fw_parent, seq_id, scope, tid, fw_tid: int64[n]; -1 where absent.
    tensors: all tensors of all nodes.
    rare: the attributes of RARE_ATTRIBUTES that occur, by name.
    text: uint8[bytes], the file's text; spans: int64[n, SPANS, 2], byte ranges in it ([0, 0]: absent).
    counts: what was left out, repaired or guessed, by a short name, for reports.
    """

    source: str
    strings: StringTable
    schema: str
    header: dict[str, Any]
    ids: Ints
    parent: Ints
    name: NDArray[np.int32]
    op_schema: NDArray[np.int32]
    kernel_backend: NDArray[np.int32]
    kernel_file: NDArray[np.int32]
    rf_id: Ints
    fw_parent: Ints
    seq_id: Ints
    scope: Ints
    tid: Ints
    fw_tid: Ints
    tensors: TensorTable
    rare: dict[str, RareColumn]
    text: NDArray[np.uint8]
    spans: Ints
    counts: dict[str, int] = field(default_factory=dict)

    def _in_short(self) -> dict[str, str]:
        return {"nodes": f"{len(self):,}", "schema": self.schema, "source": self.source}

    def __len__(self) -> int:
        return len(self.ids)

    def rare_column(self, name: str) -> RareColumn:
        """The rare attribute ``name``; an empty column if no node has it."""
        return self.rare.get(name, EMPTY_RARE)

    def span(self, node: int, part: int) -> str:
        """The JSON text of a part (SPAN_IN_VALUES, ...) of the node in row ``node``; "" where absent."""
        begin, end = self.spans[node, part]
        return self.text[begin:end].tobytes().decode("utf-8", "replace")
