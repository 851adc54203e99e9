"""The job that a process belongs to: its rank, what it runs with."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from typing import Any

from chakrasim.errors import InputError
from chakrasim.version import __version__


@dataclass(frozen=True)
class Place:
    """Where a process stands in its job. ``is_certain`` is False where nothing says so yet."""

    rank: int
    world_size: int
    is_certain: bool


def require_torch() -> Any:
    """The module torch. Raises InputError where it is not installed."""
    try:
        import torch
        import torch.profiler
    except ImportError as fault:
        raise InputError(
            f"PyTorch cannot be imported: {fault}", remedy="pip install chakrasim[torch], or install PyTorch yourself"
        ) from None
    return torch


def this_place() -> Place:
    """By the process group where there is one, else by what torchrun says."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return Place(dist.get_rank(), dist.get_world_size(), True)
    rank, world = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if rank.isascii() and rank.isdigit() and world.isascii() and world.isdigit() and int(rank) < int(world):
        return Place(int(rank), int(world), True)
    return Place(0, 1, False)


def process_groups() -> list[dict[str, Any]]:
    """What PyTorch knows of the process groups."""
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return []
    return list(dist.distributed_c10d._world.pg_config_info)


def job_facts() -> dict[str, Any]:
    """What the manifest says of a rank: versions, devices, process groups, threads."""
    import torch
    import torch.distributed as dist

    has_gpu = torch.cuda.is_available()
    versions = {
        "chakrasim": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda if has_gpu else None,
        "hip": getattr(torch.version, "hip", None) if has_gpu else None,
        "nccl": _nccl_version(torch) if has_gpu else None,
    }
    is_distributed = dist.is_available() and dist.is_initialized()
    return {
        "versions": versions,
        "device": torch.cuda.get_device_name() if has_gpu else f"cpu ({platform.machine()})",
        "devices": torch.cuda.device_count() if has_gpu else 0,
        "backend": dist.get_backend() if is_distributed else None,
        "process_groups": process_groups(),
        "threads": torch.get_num_threads(),
    }


def _nccl_version(torch: Any) -> str | None:
    try:
        return ".".join(str(part) for part in torch.cuda.nccl.version())
    except (AttributeError, RuntimeError):
        return None
