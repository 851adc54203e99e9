"""Chakra traces as JSON text: the names and forms of protobuf's canonical JSON mapping, written node by node."""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from chakrasim.trace.chakra.graph import Attributes, Trace
from chakrasim.trace.kinds import (
    BOOL,
    BYTES,
    DOUBLE,
    FIXED64,
    FLOAT,
    INT64,
    KIND_NAMES,
    SFIXED64,
    SINT64,
    STRING,
    UINT64,
    NodeType,
)

_WIDE = (INT64, UINT64, SINT64, FIXED64, SFIXED64)
_TYPES = {kind.value: f'"{kind.name}"' for kind in NodeType}
_CACHE = 100_000
"""Texts of attributes kept at a time: traces repeat a few of them."""


def metadata_text(trace: Trace) -> str:
    """The file's GlobalMetadata as a JSON object, in one line."""
    return _Writer(trace).metadata()


def node_texts(trace: Trace) -> Iterator[str]:
    """The nodes as JSON objects, in file order, each in one line."""
    writer = _Writer(trace)
    return (writer.node(at) for at in range(len(trace)))


def document_texts(trace: Trace) -> Iterator[str]:
    """Pieces of one JSON document, ``{"metadata": {...}, "nodes": [...]}``, a node to a line."""
    yield f'{{"metadata": {metadata_text(trace)},\n"nodes": ['
    lead = "\n"
    for text in node_texts(trace):
        yield lead + text
        lead = ",\n"
    yield "\n]}\n"


class _Writer:
    """JSON text of messages; fields in order of their numbers, unset ones left out."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.attributes: dict[tuple[int, int, int, int], str] = {}
        self.texts: dict[int, str] = {}

    def metadata(self) -> str:
        trace = self.trace
        members = [f'"version": {json.dumps(trace.version)}'] if trace.version else []
        attributes = [self._attribute(trace.meta, at) for at in range(len(trace.meta))]
        return _object([*members, *_member("attr", attributes)])

    def node(self, at: int) -> str:
        trace = self.trace
        members = []
        if trace.ids[at]:
            members.append(f'"id": "{trace.ids[at]}"')
        if trace.name_index[at]:
            members.append(f'"name": {self._string(int(trace.name_index[at]))}')
        kind = int(trace.types[at])
        if kind:
            members.append(f'"type": {_TYPES.get(kind, kind)}')
        for name, deps in (("ctrlDeps", trace.ctrl_deps), ("dataDeps", trace.data_deps)):
            members += _member(name, [f'"{dep}"' for dep in deps[at].tolist()])
        for name, column in (("startTimeMicros", trace.start_micros), ("durationMicros", trace.duration_micros)):
            if column[at]:
                members.append(f'"{name}": "{column[at]}"')
        for name, io in (("inputs", trace.inputs), ("outputs", trace.outputs)):
            if io[at, 0] >= 0:
                parts = zip(("values", "shapes", "types"), io[at].tolist(), strict=True)
                content = [f'"{part}": {self._string(index)}' for part, index in parts if self._filled(index)]
                members.append(f'"{name}": {_object(content)}')
        begin, end = trace.attrs.offsets[at : at + 2].tolist()
        members += _member("attr", [self._attribute(trace.attrs, number) for number in range(begin, end)])
        return _object(members)

    def _filled(self, index: int) -> bool:
        return bool(self.trace.strings.offsets[index + 1] > self.trace.strings.offsets[index])

    def _string(self, index: int) -> str:
        text = self.texts.get(index)
        if text is None:
            if len(self.texts) >= _CACHE:
                self.texts.clear()
            text = self.texts[index] = json.dumps(self.trace.strings[index])
        return text

    def _attribute(self, attrs: Attributes, at: int) -> str:
        key = int(attrs.name[at]), int(attrs.kind[at]), int(attrs.bits[at]), int(attrs.doc[at])
        text = self.attributes.get(key)
        if text is None:
            if len(self.attributes) >= _CACHE:
                self.attributes.clear()
            text = self.attributes[key] = self._attribute_text(*key)
        return text

    def _attribute_text(self, name: int, kind: int, bits: int, doc: int) -> str:
        members = [f'"name": {self._string(name)}'] if self._filled(name) else []
        if self._filled(doc):
            members.append(f'"docString": {self._string(doc)}')
        if kind:
            key = re.sub("_(.)", lambda match: match[1].upper(), KIND_NAMES[kind])
            if kind % 2:
                members.append(f'"{key}": {self._value(kind, bits)}')
            else:
                values = [self._value(kind - 1, element) for element in self.trace.lists[bits].tolist()]
                members.append(f'"{key}": {_object(_member("values", values))}')
        return _object(members)

    def _value(self, kind: int, bits: int) -> str:
        if kind == BOOL:
            return "true" if bits else "false"
        if kind == STRING:
            return self._string(bits)
        if kind == BYTES:
            return f'"{base64.b64encode(self.trace.strings.raw(bits)).decode()}"'
        if kind == DOUBLE:
            return _real(struct.unpack("<d", struct.pack("<Q", bits))[0], float.__repr__)
        if kind == FLOAT:
            return _real(struct.unpack("<f", struct.pack("<I", bits))[0], _shortest)
        number = self.trace.decode(kind, bits)
        return f'"{number}"' if kind in _WIDE else str(number)


def _object(members: Sequence[str]) -> str:
    return f"{{{', '.join(members)}}}"


def _member(name: str, elements: Sequence[str]) -> list[str]:
    """A member whose value is an array; none for an empty one."""
    return [f'"{name}": [{", ".join(elements)}]'] if elements else []


def _real(value: float, text: Callable[[float], str]) -> str:
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return text(value)


def _shortest(value: float) -> str:
    """The fewest digits that give the same 32-bit number, as Python writes that number."""
    for digits in range(6, 9):
        short = float(f"{value:.{digits}g}")
        with np.errstate(over="ignore"):
            if float(np.float32(short)) == value:
                return repr(short)
    return repr(float(f"{value:.9g}"))
