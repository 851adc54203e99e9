"""What a captured program is told when it asks `torch.cuda` or `torch.accelerator` about GPUs."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import torch
import torch.cuda.profiler

from chakrasim.collect.capturing.pretended.device import CPU
from chakrasim.collect.capturing.pretended.patches import Patches
from chakrasim.collect.capturing.recorded import streams

_MEMORY: Final = 80 * 2**30
"""What programs that ask are told; the verdict on memory goes by the device profile."""

_PROPERTIES: Final = SimpleNamespace(
    name="captured",
    major=9,
    minor=0,
    total_memory=_MEMORY,
    multi_processor_count=132,
    warp_size=32,
    max_threads_per_block=1024,
    max_threads_per_multi_processor=2048,
    regs_per_multiprocessor=65536,
    shared_memory_per_block=48 * 1024,
    shared_memory_per_block_optin=227 * 1024,
    shared_memory_per_multiprocessor=228 * 1024,
    L2_cache_size=50 * 2**20,
    clock_rate=1_980_000,
    memory_clock_rate=2_619_000,
    memory_bus_width=5120,
    is_integrated=0,
    is_multi_gpu_board=0,
    pci_domain_id=0,
    pci_bus_id=0,
    pci_device_id=0,
    uuid="00000000-0000-0000-0000-000000000000",
    gcnArchName="",
)
"""PyTorch's fields with an H100's figures (CUDA C++ Programming Guide, compute capability 9.0)."""

_DEFAULT_CUDA: Final = "13.0"

_IGNORED: Final = (
    "_lazy_init",
    "init",
    "set_device",
    "empty_cache",
    "empty_host_cache",
    "ipc_collect",
    "reset_peak_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_accumulated_memory_stats",
    "reset_peak_host_memory_stats",
    "reset_accumulated_host_memory_stats",
    "set_per_process_memory_fraction",
    "check_error",
    "_set_allocator_settings",
    "change_current_allocator",
    "set_sync_debug_mode",
    "_record_memory_history",
    "_dump_snapshot",
    "_sleep",
    "start",
    "stop",
    "set_device_index",
    "set_device_idx",
)

_ZEROS: Final = (
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "max_memory_reserved",
    "memory_cached",
    "max_memory_cached",
    "memory_usage",
    "device_memory_used",
    "utilization",
    "temperature",
    "power_draw",
    "clock_rate",
    "get_sync_debug_mode",
    "current_blas_handle",
    "range_push",
    "range_pop",
    "range_start",
    "range_end",
    "mark",
)


def install_answers(made: Patches, local_rank: int, devices: int, with_gpu: bool) -> None:
    """Put the answers in the place of what would ask a driver, until the patches are undone."""
    _answer(
        made,
        torch.cuda,
        is_available=with_gpu,
        device_count=devices if with_gpu else 0,
        current_device=local_rank,
        is_initialized=with_gpu,
        is_bf16_supported=True,
        is_tf32_supported=True,
        is_current_stream_capturing=False,
        can_device_access_peer=True,
        get_device_properties=_PROPERTIES,
        get_device_name=_PROPERTIES.name,
        get_device_capability=(_PROPERTIES.major, _PROPERTIES.minor),
        mem_get_info=(_MEMORY, _MEMORY),
        memory_stats=Counter(),
        memory_stats_as_nested_dict={},
        memory_snapshot=[],
        memory_summary="",
        host_memory_stats=Counter(),
        list_gpu_processes="",
        get_allocator_backend="native",
        get_per_process_memory_fraction=1.0,
        cudart=_cuda_runtime(),
        **dict.fromkeys(_ZEROS, 0),
        **dict.fromkeys(_IGNORED),
    )
    made.set(torch.cuda.nccl, "version", lambda: (2, 27, 3))
    if not with_gpu:
        return
    made.set(torch.version, "cuda", cuda_version())
    made.set(torch.cuda, "default_generators", tuple(torch.Generator() for _ in range(devices)))
    _answer(
        made,
        torch.accelerator,
        is_available=True,
        device_count=devices,
        current_accelerator=torch.device("cuda"),
        current_device_index=local_rank,
        current_device_idx=local_rank,
        get_device_capability={"supported_dtypes": set()},
        get_memory_info=(_MEMORY, _MEMORY),
        memory_stats=Counter(),
        **dict.fromkeys(_ZEROS, 0),
        **dict.fromkeys(_IGNORED),
    )
    for name in ("synchronize", "current_stream", "set_stream"):
        made.set(torch.accelerator, name, getattr(streams, name))
    made.set(torch.accelerator, "device_index", DeviceContext)


def cuda_version() -> str:
    """The CUDA version that PyTorch is said to be built with: its own, or that of the extensions beside it.

    Programs look whether there is one; extensions such as torchvision refuse another one than they were built with.
    """
    if torch.version.cuda:
        return str(torch.version.cuda)
    for name in ("torchvision", "torchaudio"):
        found = re.search(r"\+cu(\d+)(\d)\b", _version_file(name))
        if found:
            return f"{found[1]}.{found[2]}"
    return _DEFAULT_CUDA


def _version_file(package: str) -> str:
    """The text of a package's version.py, without importing the package."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return ""
    try:
        return Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


class DeviceContext:
    """Stands for `torch.cuda.device(...)` and its like."""

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class HostGenerator(torch.Generator):  # type: ignore[misc]
    """A generator on the host, whatever the device asked for."""

    def __new__(cls, device: Any = None) -> HostGenerator:
        generator: HostGenerator = super().__new__(cls, CPU)
        return generator

    def graphsafe_get_state(self) -> torch.Generator:
        """A generator in the same state: the host's have no states that CUDA graphs could share."""
        return self.clone_state()

    def graphsafe_set_state(self, state: torch.Generator) -> HostGenerator:
        """Take over the state of another generator."""
        self.set_state(state.get_state())
        return self


def _answer(made: Patches, package: ModuleType, **answers: Any) -> None:
    """Each function gives its answer, whatever it is called with, in all modules of a package: they import them from
    one another."""
    inner = package.__name__ + "."
    modules = [package, *(module for name, module in sys.modules.items() if name.startswith(inner))]
    for name, value in answers.items():
        for module in modules:
            made.set(module, name, always(value))


def always(value: Any) -> Callable[..., Any]:
    """A function that takes anything and gives this."""
    return lambda *args, **kwargs: value


def _cuda_runtime() -> SimpleNamespace:
    """Stands for `torch.cuda.cudart()`: all that is asked of it succeeds."""
    names = ("cudaProfilerStart", "cudaProfilerStop", "cudaHostRegister", "cudaHostUnregister", "cudaStreamSynchronize")
    return SimpleNamespace(
        cudaMemGetInfo=always((_MEMORY, _MEMORY)),
        cudaError=SimpleNamespace(success=0),
        **dict.fromkeys(names, always(0)),
    )
