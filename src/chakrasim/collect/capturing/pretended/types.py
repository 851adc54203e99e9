"""Types of tensors by their old names, "torch.cuda.HalfTensor": classes that make tensors, and what `type()` says."""

from __future__ import annotations

from typing import Any, Final

import torch

from chakrasim.collect.capturing.pretended.device import CPU, DeviceTensor
from chakrasim.collect.capturing.pretended.patches import Patches

_DTYPES: Final = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "ShortTensor": torch.int16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "BoolTensor": torch.bool,
}
_NAMES: Final = {dtype: name for name, dtype in _DTYPES.items()}


class _OldType(type):
    """The class of `torch.cuda.FloatTensor` and its like."""

    dtype: torch.dtype

    def __call__(cls, *args: Any, **_: Any) -> Any:
        if args and isinstance(args[0], (list, tuple, torch.Tensor)) and not isinstance(args[0], torch.Size):
            return torch.as_tensor(args[0], dtype=cls.dtype).to(CPU)
        return torch.empty(*args or (0,), dtype=cls.dtype, device=CPU)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch.Tensor) and value.dtype is cls.dtype


def install_types(made: Patches) -> None:
    """Make the old names known until the patches are undone."""
    for name, dtype in _DTYPES.items():
        made.set(torch.cuda, name, _OldType(name, (), {"dtype": dtype, "__module__": "torch.cuda"}))
    made.around(torch.Tensor, "type", _type)
    made.around(torch, "set_default_tensor_type", _set_default)


def _type(original: Any, tensor: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    """A tensor's type, or a copy in another one."""
    if dtype is None:
        name = _NAMES.get(tensor.dtype)
        return f"torch.cuda.{name}" if isinstance(tensor, DeviceTensor) and name else original(tensor)
    return original(tensor, _dtype_of(dtype), *args, **kwargs)


def _set_default(original: Any, kind: Any) -> None:
    torch.set_default_dtype(_dtype_of(kind)) if _dtype_of(kind) is not kind else original(kind)


def _dtype_of(kind: Any) -> Any:
    """The type of elements that a GPU's old type stands for; anything else as it is."""
    if isinstance(kind, _OldType):
        return kind.dtype
    if isinstance(kind, str) and kind.startswith("torch.cuda."):
        return _DTYPES.get(kind.removeprefix("torch.cuda."), kind)
    return kind
