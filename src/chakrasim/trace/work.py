"""What a compute node does, whatever the device: operations, bytes and shapes, as attributes of Chakra nodes.

Captured and generated nodes carry them; a device profile makes durations of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

FLOPS: Final = "num_ops"
"""Floating-point operations; a multiply-add is two. The name is the one that ASTRA-sim's roofline reads."""
BYTES: Final = "tensor_size"
"""Bytes read and written, at least 1. The name is the one that ASTRA-sim's roofline reads."""
BYTES_READ: Final = "bytes_read"
BYTES_WRITTEN: Final = "bytes_written"
KIND: Final = "op_kind"
"""The name of a `WorkKind` in lower case."""
DTYPE: Final = "dtype"
"""PyTorch's name of the type that is computed in, without "torch.": bfloat16, float32, ..."""
KERNELS: Final = "kernels"
"""How many kernels are launched one after another; absent: 1."""
SHAPE: Final = ("batch", "m", "n", "k")
"""Integers. GEMM: ``batch`` products of m x k by k x n. ATTENTION: ``batch`` heads in all, m queries, n keys, k the
size of a head; ``causal`` (bool) says that half is left out, which the operations still
count. CONVOLUTION: as the GEMM it amounts to."""
CAUSAL: Final = "causal"
STREAM: Final = "stream"
"""Integer: nodes of a stream run one after another."""
LAUNCH: Final = "launch_ns"
"""Integer, ns: how long after the start of the rank a host that runs ahead in program order, and waits for nothing, has
launched the node's last kernel."""
HOST_WAITS: Final = "host_waits"
"""True: the host waits for the node's end before it launches what follows."""
SLOWED: Final = "slowed_share"
"""0 to 1, absent: 1: how much of a compute node is slower while communication holds a part of the device."""
STREAM_RULE: Final = "stream_rule"
"""Why the node is on that stream, for people."""
COMPUTE_NS: Final = "compute_ns"
"""Integer, ns: what a compute node takes that no model of a device times, in place of its whole microseconds."""
RECORDED: Final = "is_recorded"
"""True: the node's duration was measured on a device, and holds unless a device profile is asked for by name."""
UNKNOWN: Final = "work_unknown"
"""Why the work of an operator is not (fully) known, in a word or two."""
PHASE: Final = "phase"
"""forward, backward, recompute, optimizer or other."""


class WorkKind(IntEnum):
    """Kinds of work that devices do at different efficiency."""

    OTHER = 0
    GEMM = 1
    ATTENTION = 2
    CONVOLUTION = 3
    ELEMENTWISE = 4
    REDUCTION = 5
    NORMALIZATION = 6
    SOFTMAX = 7
    EMBEDDING = 8
    COPY = 9
    OPTIMIZER = 10
    ROTARY = 11
    """Rotary positions by PyTorch's plain operators, on parts of heads; a kernel for them is ELEMENTWISE."""


BITS: Final = {
    **dict.fromkeys(("float64", "int64", "double"), 64.0),
    **dict.fromkeys(("float32", "tfloat32", "int32", "float"), 32.0),
    **dict.fromkeys(("float8", "float8_e4m3fn", "float8_e5m2", "int8", "uint8", "bool"), 8.0),
    **dict.fromkeys(("mxfp8", "mxfloat8"), 8.25),
    "float4": 4.0,
    "mxfp4": 4.25,
    "nvfp4": 4.5,
}
"""Of an element, by type; others have 16. The block-scaled types with their scales: one of 8 bits for 32 elements (OCP
Microscaling Formats 1.0), of nvfp4 for 16."""

WORK_KINDS: Final = {kind.name.lower(): kind for kind in WorkKind}
"""The kinds by their names in files."""


@dataclass(frozen=True, eq=False)
class Work:
    """What ``n`` compute nodes do.

    Attributes
    ----------
    kind: int64[n], `WorkKind`.
    flops, bytes_read, bytes_written: int64[n].
    batch, m, n, k: int64[n], the shape (see `SHAPE`); 0 where there is none.
    causal: bool[n].
    dtype: str[n], "" where unknown.
    kernels: int64[n], at least 1.
    """

    kind: Ints
    flops: Ints
    bytes_read: Ints
    bytes_written: Ints
    batch: Ints
    m: Ints
    n: Ints
    k: Ints
    causal: NDArray[np.bool_]
    dtype: NDArray[np.str_]
    kernels: Ints

    def __len__(self) -> int:
        return len(self.kind)
