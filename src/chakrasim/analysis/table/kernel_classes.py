"""What a piece of device work is: compute, communication, memory traffic, waiting."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.kernel_names import is_communication_kernel

Classes = NDArray[np.uint8]

COMPUTE, COMMUNICATION, MEMORY, WAIT, OTHER = range(5)
CLASS_NAMES: Final = ("compute", "communication", "memory", "wait", "other")

#: Categories of events that are work (or waiting) of a device, whatever their stream.
KERNEL_CATEGORIES: Final = ("kernel", "Kernel", "concurrent_kernel", "mtia_ccp_events")
COPY_CATEGORIES: Final = ("gpu_memcpy", "gpu_memset", "Memcpy", "Memset")
SYNC_CATEGORIES: Final = ("cuda_sync",)

_MEMORY = re.compile(r"(?:hip)?Mem(?:cpy|set)|dma|\[?CUDA mem(?:cpy|set)|__amd_rocclr_(?:copyBuffer|fillBuffer)")
_WAIT = re.compile(r"(?:Stream|Event|Context|Device) Sync|Stream Wait Event|(?:cuda|hip)\w*Synchronize")
# Spans that MTIA records around its kernels; counting them as compute would count that twice.
_SPAN = re.compile(r"runFunction|job_exe|packet|pe_exe|cpum_exe_subgraph|collective_subgraph_execution")


def class_of_name(name: str) -> int:
    """The class of a kernel by its name alone. One that computes and communicates (`is_fused_kernel`) computes."""
    if _WAIT.match(name):
        return WAIT
    if _MEMORY.match(name):
        return MEMORY
    if is_communication_kernel(name):
        return COMMUNICATION
    return OTHER if _SPAN.match(name) else COMPUTE
