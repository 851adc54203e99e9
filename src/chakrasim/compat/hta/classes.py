"""What HTA takes a piece of device work for, by its name (1.2)."""

from __future__ import annotations

import re

from chakrasim.analysis.table.kernel_classes import COMMUNICATION, COMPUTE, MEMORY, OTHER

_COMMUNICATION = re.compile(r"nccl|hip|hccl|.*ncclKernel")
_MEMORY = re.compile(r"(?:hip)?Mem(?:cpy|set)|dma")
_NO_COMPUTE = re.compile(
    r"nccl|hip|hccl|runFunction|job_exe|packet|pe_exe|cpum_exe_subgraph|collective_subgraph_execution"
    r"|Stream Wait Event|.*(?:Memcpy|Memset|dma|Sync)|cuda.*LaunchKernel"
)


def hta_class_of_name(name: str) -> int:
    """The newest HTA's class (1.2): hipMemcpy is communication, a compute kernel with "dma" in its name is other."""
    if _COMMUNICATION.match(name):
        return COMMUNICATION
    if _MEMORY.match(name):
        return MEMORY
    return OTHER if _NO_COMPUTE.match(name) else COMPUTE


def pinned_hta_class_of_name(name: str) -> int:
    """The pinned HTA's class (1.2): whatever is neither ncclKernel nor a copy computes, waiting too."""
    if "ncclKernel" in name:
        return COMMUNICATION
    return MEMORY if "Memcpy" in name or "Memset" in name else COMPUTE
