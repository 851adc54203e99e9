"""Making a trace node by node, from Python."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.trace.chakra.graph import Attributes, Csr, StringTable, Trace
from chakrasim.trace.kinds import (
    BOOL,
    BYTES,
    DOUBLE,
    FLOAT,
    INT64,
    INTEGER_KINDS,
    INTEGER_RANGES,
    KIND_NUMBERS,
    STRING,
    UINT64,
    NodeType,
)

_MASK: Final = (1 << 64) - 1
# In this order: a bool is an int too.
_KIND_OF: Final[dict[type, int]] = {bool: BOOL, int: INT64, float: DOUBLE, str: STRING, bytes: BYTES}


class _Table:
    """Attributes of several owners, growing."""

    def __init__(self) -> None:
        self.offsets = [0]
        self.name: list[int] = []
        self.kind: list[int] = []
        self.bits: list[int] = []

    def build(self) -> Attributes:
        return Attributes(
            np.array(self.offsets, np.int64),
            np.array(self.name, np.int32),
            np.array(self.kind, np.uint8),
            np.array(self.bits, np.uint64),
            np.zeros(len(self.name), np.int32),
        )


class TraceBuilder:
    """Collects nodes, then makes a `Trace` of them.

    Attribute values: bool, int, float, str, bytes become ``bool_val``, ``int64_val`` (``uint64_val`` above 2**63 - 1),
    ``double_val``, ``string_val``, ``bytes_val``; a list or tuple of one of those the list of that kind (an empty one
    ``int64_list``); None an attribute without value. A mapping ``{kind: value}`` such as ``{"bool_list": [True]}``
    states the kind. NumPy scalars count as the Python type they stand for.
    """

    def __init__(
        self, version: str = "", metadata: Mapping[str, object] | None = None, source: str = "<memory>"
    ) -> None:
        self._source = source
        self._version = _text(version, source, "the version")
        self._string_index: dict[bytes, int] = {b"": 0}
        self._list_offsets = [0]
        self._items: list[int] = []
        self._ids: list[int] = []
        self._names: list[int] = []
        self._types: list[int] = []
        self._starts: list[int] = []
        self._durations: list[int] = []
        self._deps: tuple[list[int], list[int]] = ([], [])
        self._dep_offsets: tuple[list[int], list[int]] = ([0], [0])
        self._io: tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]] = ([], [])
        self._attrs = _Table()
        self._meta = _Table()
        self._append(self._meta, metadata or {}, "the metadata")

    def __len__(self) -> int:
        return len(self._ids)

    def add(
        self,
        id: int,
        name: str = "",
        type: int = NodeType.COMP_NODE,
        data_deps: Iterable[int] = (),
        ctrl_deps: Iterable[int] = (),
        duration_micros: int = 0,
        start_micros: int = 0,
        attrs: Mapping[str, object] | None = None,
        inputs: Mapping[str, str] | None = None,
        outputs: Mapping[str, str] | None = None,
    ) -> None:
        """Append a node. Raises InputError, and appends nothing, if a value does not fit the schema.

        Dependencies are node ids. ``inputs`` and ``outputs`` may give ``values``, ``shapes``, ``types``.
        """
        place = f"node {id!r}"
        number = self._word(id, place, "the id")
        title = self._intern(_text(name, self._source, f"{place}, the name"))
        kind = self._integer(type, -(2**31), 2**31 - 1, place, "the type")
        start = self._word(start_micros, place, "start_micros")
        duration = self._word(duration_micros, place, "duration_micros")
        ctrl = [self._word(dep, place, "ctrl_deps") for dep in ctrl_deps]
        data = [self._word(dep, place, "data_deps") for dep in data_deps]
        ports = [self._port(io, place) for io in (inputs, outputs)]
        self._append(self._attrs, attrs or {}, place)
        self._ids.append(number)
        self._names.append(title)
        self._types.append(kind)
        self._starts.append(start)
        self._durations.append(duration)
        for column, offsets, values in zip(self._deps, self._dep_offsets, (ctrl, data), strict=True):
            column += values
            offsets.append(len(column))
        for column_io, port in zip(self._io, ports, strict=True):
            column_io.append(port)

    def build(self) -> Trace:
        """The trace of all nodes added so far."""
        raw = list(self._string_index)
        offsets = np.zeros(len(raw) + 1, np.int64)
        np.cumsum([len(text) for text in raw], out=offsets[1:])
        blob = np.frombuffer(bytearray(b"".join(raw)), np.uint8)
        ctrl, data = (
            Csr(np.array(ends, np.int64), np.array(deps, np.uint64))
            for ends, deps in zip(self._dep_offsets, self._deps, strict=True)
        )
        inputs, outputs = (np.array(rows, np.int32).reshape(-1, 3) for rows in self._io)
        return Trace(
            ids=np.array(self._ids, np.uint64),
            types=np.array(self._types, np.int32),
            name_index=np.array(self._names, np.int32),
            start_micros=np.array(self._starts, np.uint64),
            duration_micros=np.array(self._durations, np.uint64),
            ctrl_deps=ctrl,
            data_deps=data,
            inputs=inputs,
            outputs=outputs,
            attrs=self._attrs.build(),
            lists=Csr(np.array(self._list_offsets, np.int64), np.array(self._items, np.uint64)),
            strings=StringTable(blob, offsets),
            version=self._version.decode(),
            meta=self._meta.build(),
            source=self._source,
        )

    def _intern(self, text: bytes) -> int:
        return self._string_index.setdefault(text, len(self._string_index))

    def _integer(self, value: object, low: int, high: int, place: str, what: str) -> int:
        number = value.item() if isinstance(value, np.generic) else value
        if not isinstance(number, int) or not low <= number <= high:
            raise self._wrong(f"{what} does not fit the schema", place, repr(value), f"an integer from {low} to {high}")
        return int(number)

    def _word(self, value: object, place: str, what: str) -> int:
        return self._integer(value, 0, _MASK, place, what)

    def _port(self, io: Mapping[str, str] | None, place: str) -> tuple[int, int, int]:
        if io is None:
            return -1, -1, -1
        wrong = set(io) - {"values", "shapes", "types"}
        if wrong:
            found = ", ".join(sorted(map(repr, wrong)))
            raise self._wrong("inputs and outputs have no such part", place, found, "values, shapes, types")
        values, shapes, types = (
            self._intern(_text(io.get(part, ""), self._source, f"{place}, {part}"))
            for part in ("values", "shapes", "types")
        )
        return values, shapes, types

    def _append(self, table: _Table, attrs: Mapping[str, object], place: str) -> None:
        size, lists, items = len(table.name), len(self._list_offsets), len(self._items)
        try:
            for name, value in attrs.items():
                spot = f"{place}, attribute {name!r}"
                index = self._intern(_text(name, self._source, spot))
                kind, bits = self._value(value, spot)
                table.name.append(index)
                table.kind.append(kind)
                table.bits.append(bits)
        except InputError:
            del table.name[size:], table.kind[size:], table.bits[size:]
            del self._list_offsets[lists:], self._items[items:]
            raise
        table.offsets.append(len(table.name))

    def _value(self, value: object, place: str) -> tuple[int, int]:
        """(kind, bits) of an attribute value."""
        if value is None:
            return 0, 0
        if isinstance(value, Mapping):
            if len(value) != 1 or next(iter(value)) not in KIND_NUMBERS:
                raise self._refused(place, value, "a mapping of one kind, such as {'uint64_val': 5}")
            name, content = next(iter(value.items()))
            kind = KIND_NUMBERS[name]
        else:
            kind, content = self._kind_of(value, place), value
        if kind == 0:
            return 0, 0
        if kind % 2:
            return kind, self._bits(kind, content, place)
        elements = _elements(content)
        if elements is None:
            raise self._refused(place, content, "a list")
        self._items += [self._bits(kind - 1, element, place) for element in elements]
        self._list_offsets.append(len(self._items))
        return kind, len(self._list_offsets) - 2

    def _kind_of(self, value: object, place: str) -> int:
        elements = _elements(value)
        if elements is None:
            kind = next((_KIND_OF[base] for base in _KIND_OF if isinstance(_plain(value), base)), None)
            if kind is None:
                raise self._refused(place, value, "bool, int, float, str, bytes, a list of one of them, or None")
            return UINT64 if kind == INT64 and int(value) > 2**63 - 1 else kind  # type: ignore[call-overload]
        kinds = {self._kind_of(element, place) for element in elements} or {INT64}
        if kinds == {INT64, UINT64} and min(elements) >= 0:
            kinds = {UINT64}
        if kinds == {INT64, DOUBLE}:
            kinds = {DOUBLE}
        if len(kinds) != 1 or min(kinds) % 2 == 0:
            raise self._refused(place, value, "list elements of one type")
        return kinds.pop() + 1

    def _bits(self, kind: int, value: object, place: str) -> int:
        value = _plain(value)
        if kind in INTEGER_KINDS:
            low, high = INTEGER_RANGES[kind]
            return self._integer(value, low, high, place, "the value") & _MASK
        if kind == STRING:
            return self._intern(_text(value, self._source, place))
        if kind == BYTES:
            if not isinstance(value, bytes):
                raise self._refused(place, value, "bytes")
            return self._intern(value)
        if not isinstance(value, (int, float)):
            raise self._refused(place, value, "a number")
        try:
            if kind == FLOAT:
                return int(struct.unpack("<I", struct.pack("<f", value))[0])
            return int(struct.unpack("<Q", struct.pack("<d", value))[0])
        except (OverflowError, struct.error):
            raise self._refused(place, value, "a number that this kind of float can hold") from None

    def _refused(self, place: str, value: object, expected: str) -> InputError:
        return self._wrong("this attribute value cannot be stored", place, repr(value)[:80], expected)

    def _wrong(self, message: str, place: str, found: str, expected: str) -> InputError:
        return InputError(message, file=self._source, place=place, found=found, expected=expected)


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value


def _elements(value: object) -> list[Any] | None:
    if isinstance(value, np.ndarray):
        listed: list[Any] = value.ravel().tolist()
        return listed
    return list(value) if isinstance(value, (list, tuple)) else None


def _text(value: object, source: str, place: str) -> bytes:
    if not isinstance(value, str):
        raise InputError("this must be text", file=source, place=place, found=repr(value)[:80], expected="a str")
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(
            "this text cannot be written as UTF-8", file=source, place=place, found=ascii(value)[:80]
        ) from None
