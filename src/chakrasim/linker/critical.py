"""Which edges are on the critical path: what the last row to end waited for last, and so on back to the start."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakrasim.jit import kernel
from chakrasim.linker.edges import Edges
from chakrasim.linker.rows import RowTable
from chakrasim.trace.kineto import Ints
from chakrasim.trace.linked import ON_CRITICAL_PATH, EdgeKind

#: Edges that are looked at together.
_CHUNK = 1 << 18


def critical_flags(table: RowTable, edges: Edges, delay_ns: Ints) -> NDArray[np.uint8]:
    """uint8[m], ``LinkedTrace.edge_flags``: of each row on the path, the edge from the source that ended last. Delays
    are part of the path; of equal ends the later edge counts."""
    flags = np.zeros(len(edges), np.uint8)
    if not len(table):
        return flags
    ends = table.end_ns
    binding = np.full(len(table), -1, np.int32)
    for at in range(0, len(edges), _CHUNK):
        target, source = edges.target[at : at + _CHUNK], edges.source[at : at + _CHUNK]
        freed = table.start_ns[target] + table.wait_ns[target] - delay_ns[target]
        binds = np.flatnonzero((ends[source] >= freed) & (edges.kind[at : at + _CHUNK] != EdgeKind.CONTROL))
        binding[target[binds]] = (binds + at).astype(np.int32)
    _walk(binding, np.ascontiguousarray(edges.source), int(np.argmax(ends)), flags)
    return flags


@kernel
def _walk(binding: NDArray[np.int32], source: NDArray[np.int32], row: int, flags: NDArray[np.uint8]) -> None:
    edge = binding[row]
    while edge >= 0:
        flags[edge] |= ON_CRITICAL_PATH
        edge = binding[source[edge]]
