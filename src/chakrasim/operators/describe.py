"""What one call of a PyTorch operator does, whatever the device: FLOPs, bytes, kind and shape.

`describe` looks at shapes only, so that fake, meta and real tensors give the same. Equal calls are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from chakrasim.operators.contractions import CONTRACTIONS, Product
from chakrasim.operators.flops import FlopSource, is_matrix_like, registered_flops
from chakrasim.operators.kinds import FREE, RATES, kind_by_name
from chakrasim.operators.traffic import storage_key, tensors_in, traffic
from chakrasim.trace.work import WorkKind


@dataclass(frozen=True)
class OperatorWork:
    """What a call does.

    Attributes
    ----------
    name: "aten::mm", without overload.
    kind: see `WorkKind`.
    flops: operations; a multiply-add is two.
    flops_from: where the FLOPs come from; `FlopSource.UNKNOWN` is to be reported.
    bytes_read, bytes_written: see `chakrasim.operators.traffic.traffic`.
    batch, m, n, k, causal: the shape, see `chakrasim.trace.work.SHAPE`; 0 where there is none.
    dtype: what is computed in ("bfloat16"), "" without a tensor.
    kernels: how many kernels a GPU launches for it, at least 1.
    is_free: a view, an allocation, a question about a tensor: no kernel, no node.
    """

    name: str
    kind: WorkKind
    flops: int
    flops_from: FlopSource
    bytes_read: int
    bytes_written: int
    batch: int
    m: int
    n: int
    k: int
    causal: bool
    dtype: str
    kernels: int
    is_free: bool


_CACHE: Final[dict[Any, OperatorWork]] = {}
_CACHE_LIMIT: Final = 100_000


Registered = Callable[[Any, Any, Any, Any], int | None]
"""FLOPs of a call by a formula that was registered for its operator; None where there is none."""


def describe(func: Any, args: Any, kwargs: Any, result: Any, registered: Registered = registered_flops) -> OperatorWork:
    """What the call ``func(*args, **kwargs)`` that gave ``result`` does.

    ``func`` is what a dispatch mode is given (an `OpOverload`, or a higher-order operator), the tensors are plain ones:
    subclasses such as DTensor must have been taken apart. Both may be of `chakrasim.operators.recorded_calls`, too.
    """
    key = (func, _signature((args, kwargs, result), {}))
    try:
        work = _CACHE.get(key)
    except TypeError:  # an argument that cannot be a key
        return _describe(func, args, kwargs, result, registered)
    if work is None:
        if len(_CACHE) >= _CACHE_LIMIT:
            _CACHE.clear()
        work = _CACHE[key] = _describe(func, args, kwargs, result, registered)
    return work


def _signature(value: Any, storages: dict[int, int]) -> Any:
    """A key of an argument: views by shape, strides and which of them share storage; others by value."""
    if hasattr(value, "untyped_storage"):
        try:
            place = storages.setdefault(storage_key(value), len(storages))
            layout = value.stride(), value.storage_offset(), value.untyped_storage().nbytes()
        except (NotImplementedError, RuntimeError):
            place, layout = -1, ((), 0, 0)
        return value.shape, *layout, value.dtype, place
    if isinstance(value, list | tuple):
        return tuple(_signature(item, storages) for item in value)
    if isinstance(value, Mapping):
        return tuple((name, _signature(item, storages)) for name, item in value.items())
    # 1, 1.0 and True are equal keys, and are different arguments.
    return type(value), value


def operator_name(func: Any) -> tuple[str, str]:
    """Namespace and name without overload: ("aten", "mm")."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return "higher_order", str(getattr(func, "__name__", func))
    namespace, _, name = str(schema.name).partition("::")
    return namespace, name


def _describe(func: Any, args: Any, kwargs: Any, result: Any, registered: Registered) -> OperatorWork:
    namespace, name = operator_name(func)
    full = f"{namespace}::{name}"
    inputs = list(tensors_in((args, kwargs)))
    outputs = list(tensors_in(result))
    dtype = _dtype(inputs, outputs)
    if _is_free(func, name, inputs, outputs):
        return OperatorWork(full, WorkKind.OTHER, 0, FlopSource.ELEMENTS, 0, 0, 0, 0, 0, 0, False, dtype, 1, True)
    read, written = traffic(func, name, args, kwargs, result)
    product, source = _product(func, namespace, name, args, kwargs, result), FlopSource.CONTRACTION
    counted = registered(func, args, kwargs, result)
    if product is None:
        kind, flops, source, kernels = _elements(func, name, args, kwargs, inputs, outputs)
        # What PyTorch counts is an operator of the user's, registered with it.
        product = Product(kind if counted is None else WorkKind.GEMM, flops, 0, 0, 0, 0, kernels=kernels)
    flops = product.flops
    if counted is not None:
        flops, source = counted, FlopSource.PYTORCH
    shape = product.batch, product.m, product.n, product.k, product.causal
    return OperatorWork(
        full, product.kind, flops, source, read, written, *shape, dtype, kernels=product.kernels, is_free=False
    )


def _is_free(func: Any, name: str, inputs: list[Any], outputs: list[Any]) -> bool:
    """Whether a call launches nothing: listed, a view, or without any tensor."""
    if name in FREE or getattr(func, "is_view", False):
        return True
    if not inputs and not outputs:
        return True
    schema = getattr(func, "_schema", None)
    if schema is not None and any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments):
        return not inputs
    if not outputs:
        return False
    if name in RATES:  # work on an argument that its schema does not own up to (FSDP2's copy-in)
        return False
    storages = {storage_key(tensor) for tensor in inputs}
    return all(storage_key(tensor) in storages for tensor in outputs)


def _dtype(inputs: list[Any], outputs: list[Any]) -> str:
    """The type computed in: of the first floating-point input, else output, else of the first tensor."""
    tensors = [*inputs, *outputs]
    for tensor in tensors:
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            return str(tensor.dtype).removeprefix("torch.")
    return str(tensors[0].dtype).removeprefix("torch.") if tensors else ""


def _product(func: Any, namespace: str, name: str, args: Any, kwargs: Any, result: Any) -> Product | None:
    """The product that a contraction of ATen amounts to; None for other operators."""
    plain = name.removesuffix("_") if name not in CONTRACTIONS else name
    contraction = CONTRACTIONS.get(plain) if namespace in ("aten", "higher_order") else None
    if contraction is None:
        return None
    schema = getattr(func, "_schema", None)
    names = [a.name for a in schema.arguments] if schema is not None else ["query", "key", "value"]
    arguments = {**dict(zip(names, args, strict=False)), **kwargs}
    if schema is not None:
        for argument in schema.arguments:
            if argument.has_default_value():
                arguments.setdefault(argument.name, argument.default_value)
    return contraction.product(arguments, result)


def _elements(
    func: Any, name: str, args: Any, kwargs: Any, inputs: list[Any], outputs: list[Any]
) -> tuple[WorkKind, int, FlopSource, int]:
    """Kind, FLOPs, their source and kernels of an operator that is no contraction we know."""
    rate = RATES.get(name) or RATES.get(name.removesuffix("_"))
    kind = rate.kind if rate is not None else kind_by_name(name, getattr(func, "tags", ()))
    lists = _tensor_lists(name, args, kwargs)
    kernels = _multi_tensor_launches(lists) if lists else 1
    if rate is None:
        wide = sum(1 for tensor in inputs if tensor.dtype.is_floating_point and tensor.dim() >= 2)
        if is_matrix_like(name, kind is not WorkKind.OTHER, wide):
            return WorkKind.OTHER, 0, FlopSource.UNKNOWN, kernels
    if lists:
        elements = sum(tensor.numel() for tensor in lists[0])
    else:
        elements = _elements_of(rate.of if rate else "output", inputs, outputs)
    return kind, int(elements) * (rate.per_element if rate else 1), FlopSource.ELEMENTS, kernels


def _elements_of(of: str, inputs: list[Any], outputs: list[Any]) -> int:
    if of == "source":
        floats = [tensor for tensor in inputs[1:] if tensor.dtype.is_floating_point]
        return int(floats[-1].numel()) if floats else sum(tensor.numel() for tensor in outputs)
    tensors = inputs or outputs if of == "input" else outputs or inputs
    return int(tensors[0].numel()) if tensors else 0


def _tensor_lists(name: str, args: Any, kwargs: Any) -> list[list[Any]]:
    """The lists of tensors that a multi-tensor operator takes; all are as long as the first."""
    if not name.startswith(("_foreach_", "_fused_ad", "_fused_sgd")):
        return []
    lists = [list(value) for value in (*args, *kwargs.values()) if isinstance(value, list | tuple)]
    return [tensors for tensors in lists if tensors and hasattr(tensors[0], "untyped_storage")]


# ATen/native/cuda/MultiTensorApply.cuh: tensors and blocks of 65,536 elements that one launch takes, by lists.
_CHUNK: Final = 65_536
_BLOCKS: Final = 320
_TENSORS: Final = {1: 110, 2: 64, 3: 48, 4: 36, 5: 30}


def _multi_tensor_launches(lists: list[list[Any]]) -> int:
    """How many kernels an operator over lists of tensors launches on a GPU."""
    blocks = sum(-(-int(tensor.numel()) // _CHUNK) for tensor in lists[0])
    return max(1, -(-len(lists[0]) // _TENSORS[min(5, len(lists))]), -(-blocks // _BLOCKS))
