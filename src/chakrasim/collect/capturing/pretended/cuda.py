"""What a captured program finds under `torch.cuda`, and where "cuda" leads: to the pretended device."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from chakrasim.collect.capturing.pretended.answers import DeviceContext, HostGenerator, always, install_answers
from chakrasim.collect.capturing.pretended.attention import without_dropout
from chakrasim.collect.capturing.pretended.cuda_graphs import install_cuda_graphs
from chakrasim.collect.capturing.pretended.device import CPU, DeviceTensor, program_place
from chakrasim.collect.capturing.pretended.patches import Patches
from chakrasim.collect.capturing.pretended.types import install_types
from chakrasim.collect.capturing.recorded import streams


def redirect_cuda(made: Patches, local_rank: int, devices: int, with_gpu: bool) -> None:
    """`torch.cuda` without a GPU: there are ``devices`` of them if ``with_gpu``, else the program is told of none."""
    made.set(torch, "Generator", HostGenerator)
    install_answers(made, local_rank, devices, with_gpu)
    install_cuda_graphs(made)
    made.around(
        torch.utils._device.DeviceContext, "__init__", lambda original, self, device: original(self, here(device))
    )
    made.set(torch.cuda, "device", DeviceContext)
    for module in (torch.cuda, torch.cpu):
        made.set(module, "Stream", streams.DeviceStream)
        made.set(module, "Event", streams.DeviceEvent)
        made.set(module, "StreamContext", streams.StreamContext)
        made.set(module, "stream", streams.StreamContext)
        made.set(module, "current_stream", streams.current_stream)
        made.set(module, "default_stream", streams.default_stream)
        made.set(module, "synchronize", streams.synchronize)
    made.set(torch.cuda, "set_stream", streams.set_stream)
    _tensors(made)
    _modes(made, with_gpu)
    if with_gpu:
        made.set(torch, "Stream", streams.DeviceStream)
        made.set(torch, "Event", streams.DeviceEvent)
        install_types(made)


def _tensors(made: Patches) -> None:
    """Methods of tensors, and generators, that need the real thing."""
    made.set(torch.Tensor, "record_stream", always(None))
    made.set(torch.Tensor, "pin_memory", lambda self, *_: self)
    made.set(torch.Tensor, "is_pinned", always(False))
    made.set(torch.Tensor, "cuda", lambda self, *_, **__: self.to(CPU))
    for owner in (torch.Tensor, torch.nn.Module):
        made.around(owner, "to", _to)
    made.around(torch.Tensor, "numpy", _zeros)
    made.around(torch.Tensor, "__format__", _format)


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
                if kwargs["device"] is not device:
                    with DeviceTensor.fake_mode.naming_gpu():
                        return self.__torch_function__(func, types, args, kwargs)
        if func in _WITH_DEVICE and len(args) > 1:
            args = (args[0], *map(here, args[1:]))
        elif func in _FROM_VALUES:
            args, kwargs = _with_values(args, kwargs or {})
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

_FROM_VALUES = frozenset({torch.tensor, torch.as_tensor, torch.Tensor.new_tensor})


def _with_values(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments with the values of device tensors in lists, which PyTorch would read from memory; their type stays."""
    held: list[Any] = []
    args = tuple(_listed(value, held) if isinstance(value, (list, tuple)) else value for value in args)
    if held and kwargs.get("dtype") is None:
        kwargs = {**kwargs, "dtype": functools.reduce(torch.promote_types, (tensor.dtype for tensor in held))}
    return args, kwargs


def _listed(values: Any, held: list[Any]) -> Any:
    """Nested lists with what the device tensors in them hold, which are put into ``held``."""
    if not any(isinstance(value, (list, tuple, DeviceTensor)) for value in values):
        return values
    found = []
    for value in values:
        if isinstance(value, DeviceTensor):
            held.append(value)
            value = value.tolist()
        elif isinstance(value, (list, tuple)):
            value = _listed(value, held)
        found.append(value)
    return found


_WITH_DEVICE = frozenset({torch.Tensor.to, torch._C._nn._parse_to})


def here(value: Any) -> Any:
    """The pretended device in the place of a GPU; other values as they are."""
    if isinstance(value, torch.device):
        named = value.type not in ("cpu", "meta")
    else:
        named = type(value) is int or (isinstance(value, str) and value.partition(":")[0] in ("cuda", "xpu", "hip"))
    if named:
        DeviceTensor.names_gpu = True
    return CPU if named else value
