"""The pretended device of a capture: tensors with shapes and storages but without values, and a mode that runs on them.

A tensor on the device is a `FakeTensor` of PyTorch's; the mode is a leaner `FakeTensorMode`: all such tensors are on
one device, so that an operator is its meta kernel and a wrapper. Small integer tensors that no device tensor went into
stay real on the host: ranks, counts and meshes keep their values.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, Protocol

import torch
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)

from chakrasim.collect.capturing.known import ELEMENTS, absorbs, known_result
from chakrasim.collect.capturing.loops import is_foreign, own_place
from chakrasim.errors import InputError

HOST_ELEMENTS: Final = 64
"""Integer tensors of at most so many elements stay real."""
HOST_LITERALS: Final = 1 << 24
"""Integer tensors made from Python values, by `torch.arange` or `torch.randperm`: at most so many elements stay."""

CPU: Final = torch.device("cpu")
META: Final = torch.device("meta")
_COMMUNICATION: Final = frozenset({"c10d", "_c10d_functional", "_c10d_functional_autograd", "_dtensor"})
_C: Final = torch._C
Handler = Callable[[Any, Any, Any, Any], Any]


class Told(Protocol):
    """Who is told of what happens on the device."""

    def operator(self, func: Any, args: Any, kwargs: Any, inputs: list[Any], result: Any) -> None:
        """An operator ran on device tensors; ``inputs`` are these."""

    def communication(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A collective or message is asked for; returns what the program gets."""


class DeviceTensor(FakeTensor):  # type: ignore[misc]
    """A tensor on the pretended device; ``placeholder`` stands for its values where a program asks for one."""

    placeholder: bool = False
    names_gpu: bool = False
    """Of the class: whether the program has named a GPU by now."""
    _fake_device = CPU
    fake_mode: Any = None
    constant = None
    pytype = None
    dispatch_keys = None
    real_tensor = None
    _nonzero_memo = _item_memo = _unique_memo = _unique_consecutive_memo = _nested_int_memo = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """What a program makes by ``type(parameter)(...)``, which is the class of all tensors here: a parameter over a
        tensor, else a tensor of these sizes or values."""
        data = args[0] if args else kwargs.get("data")
        if isinstance(data, torch.Tensor):
            return torch.nn.Parameter(data, args[1] if len(args) > 1 else kwargs.get("requires_grad", True))
        return torch.Tensor(*args, **kwargs)

    def __init__(self, *_: Any, **__: Any) -> None:
        pass


def wrap(meta: Any) -> Any:
    """A device tensor over a meta tensor, sharing its storage."""
    return torch.Tensor._make_subclass(
        DeviceTensor, meta, meta.requires_grad, dispatch_device=True, device_for_backend_keys=CPU
    )


class DeviceMode(FakeTensorMode):  # type: ignore[misc]
    """Runs a program's operators on `DeviceTensor`; one at a time in a process.

    Attributes
    ----------
    listener: who is told; None: nobody.
    asked: is called when the program asks for a value that is not known.
    pinned: is called with each tensor that the program asks for in pinned memory.
    placeholders: how often which value was made up, by what and where.
    gpu_named: whether the function that runs now was given a GPU as its device.
    """

    avoid_device_init = True
    """PyTorch then puts a guard that does nothing in the place of CUDA's."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self.listener: Told | None = None
        self.asked: Callable[[], None] = lambda: None
        self.pinned: Callable[[Any], None] = lambda tensor: None
        self.placeholders: Counter[str] = Counter()
        self.gpu_named = False
        #: What `torch.empty` and its like make of integers stays real up to so many elements.
        self.host_elements = HOST_ELEMENTS
        self._plans: dict[Any, Handler] = {}
        self._twins: Any = torch.utils.weak.WeakIdKeyDictionary()
        self._depth = 0
        DeviceTensor.fake_mode = self
        DeviceTensor.names_gpu = False

    @contextmanager
    def naming_gpu(self) -> Iterator[None]:
        """While a function runs that was given a GPU as its device, which nobody below it sees."""
        before, self.gpu_named = self.gpu_named, True
        try:
            yield
        finally:
            self.gpu_named = before

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for kind in types:
            if kind not in (DeviceTensor, torch.Tensor) and not issubclass(kind, (FakeTensor, torch.nn.Parameter)):
                return NotImplemented
        plan = self._plans.get(func)
        if plan is None:
            plan = self._plans[func] = self._plan(func)
        return plan(func, types, args, kwargs or {})

    def _plan(self, func: Any) -> Handler:
        """How an operator is run."""
        if not isinstance(func, torch._ops.OpOverload):
            return self._stock
        if func.namespace in _COMMUNICATION:
            return self._communicate
        if func is torch.ops.prim.device.default:
            return lambda func, types, args, kwargs: CPU
        if func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default):
            return self._item
        if func in (torch.ops.aten.equal.default, torch.ops.aten.allclose.default):
            return self._agree
        if func in (torch.ops.aten.bincount.default, torch.ops.aten.histc.default):
            return self._histogram
        if fake_impls._is_tensor_constructor(func) or func in fake_impls._like_tensor_constructors:
            return self._construct
        if func in (torch.ops.aten._to_copy.default, torch.ops.aten.to.device):
            return self._copy_to
        if func in _DIRECT or func.name().startswith("aten::_foreach_"):
            return self._run
        if any(check(func) for check, _ in fake_impls.op_implementations_checks) or not fake_impls.has_meta(func):
            return self._stock
        if absorbs(func):
            return self._absorb
        return self._run

    def _absorb(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """As `_run`; a result whose values follow from the real operands' stays real."""
        result = self._run(func, types, args, kwargs)
        if "out" in kwargs or not isinstance(result, DeviceTensor):
            return result
        real = [value for value in _tensors(args, kwargs, []) if is_host_value(value)]
        known = known_result(func, real, result)
        return result if known is None else known

    def _run(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """By the meta kernel; for real if all tensors are."""
        inputs: list[Any] = []
        real = _tensors(args, kwargs, inputs)
        if real:
            if not inputs and stays_on_host(real):
                return func(*args, **kwargs)
            args, kwargs, inputs = self._with_twins(args, kwargs)
        try:
            result = _wrapped(self._meta_kernel(func, args, kwargs))
        except NotImplementedError:
            self._plans[func] = self._stock
            return self._stock(func, types, args, kwargs)
        if self._depth == 0 and self.listener is not None:
            self.listener.operator(func, args, kwargs, inputs, result)
        return result

    def _meta_kernel(self, func: Any, args: Any, kwargs: Any) -> Any:
        before = getattr(self, "in_kernel_invocation")  # noqa: B009  (mypy without PyTorch does not know it)
        with _C._DisableTorchDispatch(), _C._PreserveDispatchKeyGuard():
            self.in_kernel_invocation = True
            _C._set_meta_in_tls_dispatch_include(True)
            try:
                return func(*args, **kwargs)
            finally:
                self.in_kernel_invocation = before

    def _stock(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """By `FakeTensorMode`: what has rules of its own there."""
        inputs: list[Any] = []
        real = _tensors(args, kwargs, inputs)
        if real and not inputs and stays_on_host(real):
            return func(*args, **kwargs)
        if isinstance(func, torch._ops.OpOverload) and (inputs or real):
            args, kwargs, inputs = self._with_twins(args, kwargs)
        self._depth += 1
        try:
            result = self.dispatch(func, types, args, kwargs)
        except (DynamicOutputShapeException, DataDependentOutputException) as error:
            raise self._data_dependent(func) from error
        except UnsupportedOperatorException as error:
            raise InputError(
                f"the operator {func} has no shape rule, so that it cannot be captured",
                place=blamed_place(),
                remedy="register one with torch.library.register_fake, or leave the operator out",
            ) from error
        finally:
            self._depth -= 1
        result = _rewrapped(result)
        if self._depth == 0 and self.listener is not None:
            self.listener.operator(func, args, kwargs, inputs, result)
        return result

    def _construct(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """A new tensor: small integers on the host, what is asked for on "meta" there, all others on the device."""
        inputs: list[Any] = []
        real = _tensors(args, kwargs, inputs)
        device = kwargs.get("device")
        if device is None and real:
            device = real[0].device
        if device is not None and torch.device(device).type == "meta":
            return func(*args, **{**kwargs, "device": META})
        if "out" not in kwargs and not inputs and self._belongs_on_host(func, args, kwargs, real):
            return func(*args, **({**kwargs, "device": CPU} if "device" in kwargs else kwargs))
        pinned = bool(kwargs.get("pin_memory"))
        kwargs = {name: value for name, value in kwargs.items() if name not in ("pin_memory", "generator")}
        if any(a.name == "device" for a in func._schema.arguments):
            kwargs["device"] = META
        plain = func if "generator" not in {a.name for a in func._schema.arguments} else _without_generator(func)
        if inputs:
            args, kwargs, inputs = self._with_twins(args, kwargs)
            result = _wrapped(self._meta_kernel(plain, args, kwargs))
        else:
            result = _wrapped(plain(*args, **kwargs))
        if pinned:
            self.pinned(result)
        if self._depth == 0 and self.listener is not None:
            # What is made on a GPU by name is there, wherever the tensor is that it is made like.
            self.listener.operator(func, args, kwargs, [] if self.gpu_named else inputs, result)
        return result

    def _belongs_on_host(self, func: Any, args: Any, kwargs: Any, real: list[Any]) -> bool:
        shape = func(*args, **{**kwargs, "device": META}) if not real else real[0]
        if shape.dtype.is_floating_point or shape.dtype.is_complex or not hasattr(shape, "numel"):
            return False
        listed = func.name().startswith(("aten::arange", "aten::randperm"))
        if shape.dtype is torch.bool and shape.dim() == 1 and func.name().startswith("aten::full"):
            return bool(shape.numel() <= ELEMENTS)
        return bool(shape.numel() <= (HOST_LITERALS if listed else self.host_elements))

    def _copy_to(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """A copy in another type or place: of a host tensor to the device if it is large."""
        source = args[0]
        target = kwargs.get("device")
        to_meta = target is not None and torch.device(target).type == "meta"
        if isinstance(source, DeviceTensor):
            if to_meta:
                return self._meta_kernel(func, args, kwargs)
            kwargs = {name: value for name, value in kwargs.items() if name not in ("device", "pin_memory")}
            return self._run(func, types, args, kwargs)
        if to_meta:
            return func(*args, **kwargs)
        if source.device.type == "meta" or not is_host_value(source):
            return self._copy_to(func, types, (self.on_device(source), *args[1:]), kwargs)
        return func(*args, **kwargs)

    def _item(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """A value of a tensor: 0 stands for those of device tensors."""
        source = args[0]
        if not isinstance(source, FakeTensor):
            return func(*args, **kwargs)
        self.asked()
        if getattr(source, "placeholder", False):
            self.placeholders[f"item() = True (all is finite) at {program_place()}"] += 1
            return True
        self.placeholders[f"item() = 0 at {program_place()}"] += 1
        if source.dtype is torch.bool:
            return False
        return 0.0 if source.dtype.is_floating_point else 0

    def _agree(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Whether two tensors are equal: programs that ask expect it of device tensors."""
        if not any(isinstance(tensor, FakeTensor) for tensor in args[:2]):
            return func(*args, **kwargs)
        self.placeholders[f"{func.name()[6:]}() = True at {program_place()}"] += 1
        return True

    def _histogram(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Counts by bin: of device tensors as if every bin had the same."""
        source = args[0]
        if not isinstance(source, FakeTensor):
            return func(*args, **kwargs)
        names = [a.name for a in func._schema.arguments]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        counts = "bincount" in func.name()
        bins = given.get("minlength", 0) if counts else given.get("bins", 100)
        if not bins:
            raise self._data_dependent(func)
        self.placeholders[f"{func.name()[6:]}() with equal bins at {program_place()}"] += 1
        each, more = divmod(source.numel(), bins)
        values = torch.full((bins,), each, dtype=torch.int64)
        values[:more] += 1
        return values if counts else values.to(source.dtype)

    def _communicate(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if self.listener is None:
            return self.shapes_of(func, args, kwargs)
        return self.listener.communication(func, args, kwargs)

    def shapes_of(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What an operator gives by its meta kernel, unrecorded; all tensors are on the device."""
        return _wrapped(self._meta_kernel(func, args, kwargs))

    def _data_dependent(self, func: Any) -> InputError:
        return InputError(
            f"the shape of the result of {func} depends on values, which a capture does not have",
            place=blamed_place(),
            remedy="use shapes that are known beforehand there: masks with torch.where, routing with a fixed capacity",
        )

    def on_device(self, tensor: Any) -> Any:
        """The device tensor that stands for a real (or meta) one: always the same."""
        if isinstance(tensor, FakeTensor):
            return tensor
        twin = self._twins.get(tensor)
        if twin is None:
            with _C._DisableTorchDispatch():
                meta = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=META)
            twin = self._twins[tensor] = wrap(meta)
            if tensor.requires_grad and tensor.is_leaf:
                twin.requires_grad_()
        return twin

    def _with_twins(self, args: Any, kwargs: Any) -> tuple[Any, Any, list[Any]]:
        """Arguments with device tensors in the place of real ones, and these."""
        inputs: list[Any] = []
        args = tuple(self._with_twin(value, inputs) for value in args)
        return args, {name: self._with_twin(value, inputs) for name, value in kwargs.items()}, inputs

    def _with_twin(self, value: Any, inputs: list[Any]) -> Any:
        # A function inside the other would be in a cycle with itself and keep the tensors alive.
        if isinstance(value, torch.Tensor):
            value = self.on_device(value)
            inputs.append(value)
        elif type(value) in (list, tuple):
            return type(value)(self._with_twin(item, inputs) for item in value)
        return value


_DIRECT: Final = frozenset(
    {
        torch.ops.aten.view.default,
        torch.ops.aten._unsafe_view.default,
        torch.ops.aten.select.int,
        torch.ops.aten.slice.Tensor,
        torch.ops.aten.copy_.default,
        torch.ops.aten.copy.default,
        torch.ops.aten.embedding.default,
        torch.ops.aten._reshape_copy.default,
        torch.ops.aten.slice_scatter.default,
    }
)
"""Operators whose rules in `FakeTensorMode` are about several devices or unknown sizes, which there are not here."""


def is_host_value(tensor: Any) -> bool:
    """Whether a real tensor is one that stays so: integers, and single numbers."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return bool(tensor.dim() == 0)
    return bool(tensor.numel() <= HOST_LITERALS)


def stays_on_host(tensors: list[Any]) -> bool:
    """Whether an operator on these real tensors, and no others, is run for real: on values, or on the device "meta"."""
    return all(tensor.device.type == "meta" for tensor in tensors) or all(map(is_host_value, tensors))


def program_place() -> str:
    """File and line of the program that is captured, from where PyTorch was called."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_foreign(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def blamed_place() -> str:
    """As `program_place`; within a library also the line of the program's own that called it."""
    place, own = program_place(), own_place(sys._getframe(1))
    return place if own == place else f"{own}, in {place}"


def _without_generator(func: Any) -> Any:
    """A random operator's form without a generator: values do not matter, and generators are of a device."""
    packet = func._overloadpacket
    name = func._overloadname
    plain = {"generator": "default", "low_generator": "low", "float_generator": "float"}.get(name)
    return getattr(packet, plain) if plain else func


def _tensors(args: Any, kwargs: Any, inputs: list[Any]) -> list[Any]:
    """Put the device tensors among the arguments into ``inputs``; the others are returned."""
    real: list[Any] = []
    for value in args if not kwargs else (*args, *kwargs.values()):
        kind = type(value)
        if kind is DeviceTensor:
            inputs.append(value)
        elif kind is list or kind is tuple:
            for item in value:
                if type(item) is DeviceTensor:
                    inputs.append(item)
                elif isinstance(item, torch.Tensor):
                    (inputs if isinstance(item, FakeTensor) else real).append(item)
        elif isinstance(value, torch.Tensor):
            (inputs if isinstance(value, FakeTensor) else real).append(value)
    return real


def _wrapped(result: Any) -> Any:
    """The result of a meta kernel with device tensors."""
    kind = type(result)
    if kind is torch.Tensor:
        return wrap(result) if result.device.type == "meta" else result
    if kind is tuple or kind is list:
        return kind(_wrapped(item) for item in result)
    return result


def _rewrapped(result: Any) -> Any:
    """Device tensors in the place of the stock mode's tensors."""
    if type(result) is FakeTensor:
        return wrap(result)
    if type(result) in (tuple, list):
        return type(result)(_rewrapped(item) for item in result)
    return result
