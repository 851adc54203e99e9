"""A call of an operator as a host trace holds it, in the form that `chakrasim.operators.describe` describes calls in.

Recorded are the operator's schema and, of every argument and result, shape, type, storage, offset and (in newer traces)
strides. That is all that the rules ask for, so that they give the same for a recorded call as for a captured one.
PyTorch is not needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from math import prod
from typing import Any, Final

from chakrasim.operators import kinds
from chakrasim.operators.describe import OperatorWork, describe
from chakrasim.operators.tables import COMPOSITE, POINTWISE

_NO_LIMIT: Final = 1 << 62
"""Bytes of a storage of which only views without strides are known."""


@dataclass(frozen=True)
class RecordedType:
    """A type of elements with PyTorch's name."""

    name: str
    itemsize: int
    is_floating_point: bool = False
    is_complex: bool = False

    def __str__(self) -> str:
        return f"torch.{self.name}"


def _floats(*types: tuple[str, str, int]) -> dict[str, RecordedType]:
    return {recorded: RecordedType(name, size, True) for recorded, name, size in types}


_TYPES: Final[Mapping[str, RecordedType]] = {
    **_floats(("float", "float32", 4), ("double", "float64", 8), ("c10::Half", "float16", 2)),
    **_floats(("c10::BFloat16", "bfloat16", 2), ("c10::Float8_e4m3fn", "float8_e4m3fn", 1)),
    **_floats(("c10::Float8_e5m2", "float8_e5m2", 1), ("c10::Float8_e4m3fnuz", "float8_e4m3fnuz", 1)),
    **_floats(("c10::Float8_e5m2fnuz", "float8_e5m2fnuz", 1), ("c10::Float8_e8m0fnu", "float8_e8m0fnu", 1)),
    "long int": RecordedType("int64", 8),
    "long": RecordedType("int64", 8),
    "int": RecordedType("int32", 4),
    "short int": RecordedType("int16", 2),
    "short": RecordedType("int16", 2),
    "signed char": RecordedType("int8", 1),
    "unsigned char": RecordedType("uint8", 1),
    "bool": RecordedType("bool", 1),
    "c10::complex<float>": RecordedType("complex64", 8, is_complex=True),
    "c10::complex<double>": RecordedType("complex128", 16, is_complex=True),
    "c10::complex<c10::Half>": RecordedType("complex32", 4, is_complex=True),
}

_WRAPPED: Final = ("float64", "int64", "bool", "complex128")


@dataclass
class _Storage:
    """A storage as far as the tensors of one call show it."""

    _cdata: int
    size: int = 0

    def nbytes(self) -> int:
        return self.size


@dataclass(frozen=True)
class RecordedTensor:
    """A tensor of a recorded call: what the rules ask of a tensor."""

    shape: tuple[int, ...]
    dtype: RecordedType
    strides: tuple[int, ...]
    offset: int
    storage: _Storage

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def storage_offset(self) -> int:
        return self.offset

    def untyped_storage(self) -> _Storage:
        return self.storage

    def numel(self) -> int:
        return prod(self.shape)

    def dim(self) -> int:
        return len(self.shape)

    def element_size(self) -> int:
        return self.dtype.itemsize

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point


@dataclass(frozen=True)
class _Alias:
    is_write: bool


@dataclass(frozen=True)
class _Argument:
    name: str
    takes_tensors: bool
    alias_info: _Alias | None
    is_out: bool
    default: str | None

    def has_default_value(self) -> bool:
        return self.default is not None

    @property
    def default_value(self) -> object:
        return _literal(self.default or "None")


@dataclass(frozen=True)
class _Schema:
    name: str
    overload: str
    arguments: tuple[_Argument, ...]


@dataclass(frozen=True)
class _Tag:
    name: str


@dataclass(frozen=True)
class RecordedOperator:
    """An operator by the text of its schema: ``aten::mm(Tensor self, Tensor mat2) -> Tensor``."""

    _schema: _Schema

    @property
    def namespace(self) -> str:
        return self._schema.name.partition("::")[0]

    @property
    def plain_name(self) -> str:
        return self._schema.name.partition("::")[2]

    @property
    def is_composite(self) -> bool:
        """Whether it only calls other operators, which do the work."""
        name = self.plain_name
        return self.namespace == "aten" and not COMPOSITE.isdisjoint({name, f"{name}.{self._schema.overload}"})

    @property
    def takes_tensors(self) -> bool:
        return any(argument.takes_tensors for argument in self._schema.arguments)

    @property
    def is_view(self) -> bool:
        """As PyTorch tells: arguments that are aliased, none of them to be written."""
        aliases = [argument.alias_info for argument in self._schema.arguments if argument.alias_info is not None]
        return bool(aliases) and not any(alias.is_write for alias in aliases)

    @property
    def tags(self) -> tuple[_Tag, ...]:
        if self.plain_name in POINTWISE:
            return (_Tag("pointwise"),)
        return (_Tag("view_copy"),) if self.plain_name.endswith("_copy") else ()


@lru_cache(maxsize=10_000)
def recorded_operator(schema: str) -> RecordedOperator | None:
    """The operator with this schema; None where the text is none."""
    match = re.match(r"([A-Za-z_]\w*::\w+)(?:\.(\w+))?\((.*)\)\s*->", schema, re.DOTALL)
    if match is None:
        return None
    arguments = []
    by_name_only = False
    for text in _split(match[3]):
        if text == "*":
            by_name_only = True
            continue
        parts = re.fullmatch(r"(.+?)\s+(\w+)(?:\s*=\s*(.*))?", text, re.DOTALL)
        if parts is None:
            return None
        alias = re.search(r"\((\w+(?:\|\w+)*)(!?)", parts[1]) if "Tensor(" in parts[1] else None
        written = alias is not None and alias[2] == "!"
        arguments.append(
            _Argument(
                parts[2],
                parts[1].startswith("Tensor"),
                _Alias(written) if alias is not None else None,
                by_name_only and written,
                parts[3],
            )
        )
    return RecordedOperator(_Schema(match[1], match[2] or "default", tuple(arguments)))


def _split(text: str) -> Iterator[str]:
    """The parts between commas that stand in no brackets."""
    depth, begin = 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            yield text[begin:at].strip()
            begin = at + 1
    if text[begin:].strip():
        yield text[begin:].strip()


def _literal(text: str) -> object:
    """A default value of a schema."""
    if text in ("None", "True", "False"):
        return {"None": None, "True": True, "False": False}[text]
    if text.startswith("["):
        return [_literal(part) for part in _split(text[1:-1])]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip("\"'")


@dataclass(frozen=True)
class RecordedSide:
    """Inputs or outputs of a node: lists that correspond; ``strides`` may be empty."""

    values: list[Any]
    shapes: list[Any]
    types: list[Any]
    strides: list[Any]


def describe_recorded(operator: RecordedOperator, inputs: RecordedSide, outputs: RecordedSide) -> OperatorWork:
    """What a recorded call does, by the rules for captured ones.

    Raises ValueError, TypeError, KeyError, IndexError or AttributeError where the two sides are no description of a
    call of this operator.
    """
    storages: dict[int, _Storage] = {}
    arguments, results = (_arguments(side, storages) for side in (inputs, outputs))
    if operator.plain_name in POINTWISE | kinds.POINTWISE:
        arguments[1:] = map(_number, arguments[1:], inputs.values[1:])
    result = results[0] if len(results) == 1 else tuple(results)
    # PyTorch's own formulas need PyTorch; ours give the same.
    return describe(operator, tuple(arguments), {}, result, registered=lambda *call: None)


def _number(argument: Any, value: Any) -> Any:
    """A number that PyTorch wrapped in a tensor for the call (2 in ``x * 2``): a kernel takes it as it is."""
    wrapped = isinstance(argument, RecordedTensor) and not argument.shape and argument.dtype.name in _WRAPPED
    return None if wrapped and value[-1] == "cpu" else argument


def _arguments(side: RecordedSide, storages: dict[int, _Storage]) -> list[Any]:
    rows = zip_longest(side.values, side.shapes, side.types, side.strides)
    return [_value(*row, storages) for row in rows]


def _value(value: Any, shape: Any, kind: Any, strides: Any, storages: dict[int, _Storage]) -> Any:
    """A value, tensors as `RecordedTensor`, missing ones as None."""
    if kind.startswith("Tensor("):
        return _tensor(value, shape, kind[len("Tensor(") : -1], strides, storages)
    if kind.startswith("GenericList["):
        inner = list(_split(kind[len("GenericList[") : -1]))
        if not any(one.startswith(("Tensor(", "GenericList[")) for one in inner):
            return value
        return [_value(*row, storages) for row in zip_longest(value, shape, inner, strides or [])]
    return None if kind == "None" or value == "<None>" else value


def _tensor(value: Any, shape: Any, kind: str, strides: Any, storages: dict[int, _Storage]) -> RecordedTensor | None:
    if kind.startswith("nullptr"):
        return None
    dtype = _TYPES[kind]
    sizes = tuple(int(size) for size in shape)
    _, storage_id, offset, elements, *_ = value
    if prod(sizes) != elements or len(strides or sizes) != len(sizes):
        raise ValueError("the shape is not that of the tensor")
    storage = storages.setdefault(storage_id, _Storage(storage_id))
    if not strides:
        steps = tuple(prod(sizes[at + 1 :]) for at in range(len(sizes)))
        storage.size = _NO_LIMIT
    else:
        steps = tuple(int(step) for step in strides)
        last = sum((size - 1) * step for size, step in zip(sizes, steps, strict=True)) if elements else -1
        storage.size = max(storage.size, (offset + last + 1) * dtype.itemsize)
    return RecordedTensor(sizes, dtype, steps, offset, storage)
