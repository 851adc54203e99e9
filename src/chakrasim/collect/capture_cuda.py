"""What a captured program finds under `torch.cuda`, and where "cuda" leads: to the pretended device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from chakrasim.collect import capture_streams as streams
from chakrasim.collect.capture_attention import without_dropout
from chakrasim.collect.capture_device import CPU, DeviceTensor, program_place
from chakrasim.collect.capture_patches import Patches

_MEMORY = 80 * 2**30
"""What programs that ask are told; the verdict on memory goes by the device profile."""


def redirect_cuda(made: Patches, local_rank: int, devices: int, with_gpu: bool) -> None:
    """`torch.cuda` without a GPU: there are ``devices`` of them if ``with_gpu``, else the program is told of none."""
    _answers(made, local_rank, devices, with_gpu)
    for module in (torch.cuda, torch.cpu):
        made.set(module, "Stream", streams.DeviceStream)
        made.set(module, "Event", streams.DeviceEvent)
        made.set(module, "StreamContext", streams.StreamContext)
        made.set(module, "stream", streams.StreamContext)
        made.set(module, "current_stream", streams.current_stream)
        made.set(module, "default_stream", streams.default_stream)
        made.set(module, "synchronize", streams.synchronize)
    made.set(torch.cuda, "set_stream", _set_stream)
    _tensors(made)
    _modes(made, with_gpu)


def _set_stream(stream: Any) -> None:
    streams.DeviceStream.streams.current = stream.stream


def _answers(made: Patches, local_rank: int, devices: int, with_gpu: bool) -> None:
    """Functions that ask something, or tell a device something that a capture ignores."""
    cuda = torch.cuda
    properties = SimpleNamespace(
        name="captured", major=9, minor=0, total_memory=_MEMORY, multi_processor_count=132, warp_size=32
    )
    fixed = {
        "is_available": with_gpu,
        "device_count": devices if with_gpu else 0,
        "current_device": local_rank,
        "is_initialized": with_gpu,
        "is_bf16_supported": True,
        "is_current_stream_capturing": False,
        "get_device_properties": properties,
        "get_device_name": properties.name,
        "get_device_capability": (9, 0),
        "mem_get_info": (_MEMORY, _MEMORY),
        "memory_stats": Counter(),
        "memory_summary": "",
        **dict.fromkeys(("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"), 0),
    }
    ignored = (
        "_lazy_init init set_device empty_cache ipc_collect reset_peak_memory_stats reset_max_memory_allocated"
        " manual_seed manual_seed_all seed seed_all reset_accumulated_memory_stats set_per_process_memory_fraction"
        " set_rng_state set_rng_state_all"
    )
    for name, value in fixed.items():
        made.set(cuda, name, _always(value))
    for name in ignored.split():
        made.set(cuda, name, _always(None))
    made.set(cuda, "get_rng_state", lambda *_: torch.get_rng_state())
    made.set(cuda, "get_rng_state_all", lambda: [torch.get_rng_state()] * cuda.device_count())
    for name in ("_record_memory_history", "_dump_snapshot"):
        made.set(cuda.memory, name, _always(None))
    made.around(
        torch.utils._device.DeviceContext, "__init__", lambda original, self, device: original(self, here(device))
    )
    made.set(cuda, "device", _DeviceContext)
    made.set(cuda.nccl, "version", _always((2, 27, 3)))
    if with_gpu:
        made.set(torch.version, "cuda", "12.8")
    for name in ("range_push", "range_pop", "mark"):
        made.set(cuda.nvtx, name, _always(0))
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None and with_gpu:
        answers = {"is_available": True, "device_count": devices, "current_device_index": local_rank}
        for name, value in answers.items():
            made.set(accelerator, name, _always(value))
        made.set(accelerator, "current_accelerator", _always(torch.device("cuda")))
        made.set(accelerator, "set_device_index", _always(None))
        made.set(accelerator, "synchronize", streams.synchronize)
        made.set(accelerator, "current_stream", streams.current_stream)


def _always(value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: value


class _DeviceContext:
    """Stands for `torch.cuda.device(...)`."""

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def _tensors(made: Patches) -> None:
    """Methods of tensors, and generators, that need the real thing."""
    made.set(torch.Tensor, "record_stream", _always(None))
    made.set(torch.Tensor, "pin_memory", lambda self, *_: self)
    made.set(torch.Tensor, "is_pinned", _always(False))
    made.set(torch.Tensor, "cuda", lambda self, *_, **__: self.to(CPU))
    for owner in (torch.Tensor, torch.nn.Module):
        made.around(owner, "to", _to)
    made.around(torch.Tensor, "numpy", _zeros)
    made.around(torch.Tensor, "__format__", _format)
    original = torch.Generator

    class Generator(original):  # type: ignore[valid-type,misc]
        """A generator on the host, whatever the device asked for."""

        def __new__(cls, device: Any = None) -> Any:
            return original.__new__(cls, CPU)

    made.set(torch, "Generator", Generator)


def _zeros(original: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """A tensor's values as NumPy's: zeros stand for those of a device tensor."""
    if not isinstance(tensor, DeviceTensor):
        return original(tensor, *args, **kwargs)
    tensor.fake_mode.placeholders[f"numpy() = zeros at {program_place()}"] += 1
    return np.zeros(tensor.shape, str(tensor.dtype).removeprefix("torch."))


def _to(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    """PyTorch refuses the number of a GPU before `Redirect` sees it."""
    if "device" in kwargs:
        kwargs["device"] = here(kwargs["device"])
    return original(self, *map(here, args), **kwargs)


def _format(original: Any, tensor: Any, form: str) -> str:
    is_number = isinstance(tensor, DeviceTensor) and tensor.dim() == 0
    return format(tensor.item(), form) if is_number else original(tensor, form)


def _modes(made: Patches, with_gpu: bool) -> None:
    """Autocast and optimizers as they are on a GPU."""

    def autocast(
        original: Any, self: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None
    ) -> None:
        if device_type != "cpu":
            dtype = dtype or torch.float16
        original(self, "cpu", dtype, enabled, cache_enabled)

    made.around(torch.amp.autocast_mode.autocast, "__init__", autocast)
    made.around(torch, "get_autocast_dtype", lambda original, device: original("cpu"))
    made.around(torch, "is_autocast_enabled", lambda original, *device: original("cpu"))
    from torch.optim import optimizer

    types = getattr(optimizer, "_foreach_supported_types", None)
    if isinstance(types, list):
        made.set(optimizer, "_foreach_supported_types", [*types, DeviceTensor])
    if with_gpu:
        for name in ("_get_foreach_kernels_supported_devices", "_get_fused_kernels_supported_devices"):
            made.around(optimizer, name, lambda original: [*original(), "cpu"])


class Redirect(TorchFunctionMode):  # type: ignore[misc]
    """Sends what a program asks of "cuda" to the pretended device, in every function of PyTorch's."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if kwargs:
            device = kwargs.get("device")
            if device is not None:
                kwargs = {**kwargs, "device": here(device)}
        if func in _WITH_DEVICE and len(args) > 1:
            args = (args[0], *map(here, args[1:]))
        elif func is torch._C._nn.scaled_dot_product_attention:
            args, kwargs = without_dropout(args, kwargs or {})
        elif func is torch.Tensor.backward:
            with self:
                return _backward(*args, **(kwargs or {}))
        elif func in _FINITE:
            result = func(*args, **(kwargs or {}))
            if isinstance(result, DeviceTensor) and (func not in _ALL or args[0].placeholder):
                result.placeholder = True
            return result
        return func(*args, **(kwargs or {}))


def _backward(
    tensor: Any, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False, inputs: Any = None
) -> None:
    torch.autograd.backward(tensor, gradient, retain_graph, create_graph, inputs=inputs)


_ALL = frozenset({torch.all, torch.Tensor.all})
_FINITE = _ALL | {torch.isfinite, torch.Tensor.isfinite}
"""Values are taken for finite: programs skip steps whose gradients are not."""

_WITH_DEVICE = frozenset({torch.Tensor.to, torch._C._nn._parse_to})


def here(value: Any) -> Any:
    """The pretended device in the place of a GPU; other values as they are."""
    if isinstance(value, torch.device):
        return value if value.type in ("cpu", "meta") else CPU
    if isinstance(value, str) and value.partition(":")[0] in ("cuda", "xpu", "hip"):
        return CPU
    if type(value) is int:  # the number of a GPU
        return CPU
    return value
