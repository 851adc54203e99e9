"""Encoding of a trace as the bytes of a Chakra file, as the official library writes it (fields by number)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.trace.chakra.graph import Attributes, Csr, Ints, StringTable, Trace, Words
from chakrasim.trace.chakra.wire_out import DELIMITED, VARINT, WORD4, WORD8, Messages, tag, text_field
from chakrasim.trace.kinds import DOUBLE, FIXED32, FIXED64, FLOAT, SFIXED32, SFIXED64, SINT32, SINT64, STRING

_LARGEST = 0x7FFFFFFF
#: Nodes that are encoded together: few enough for the processor's cache.
_NODES = 1 << 13
_WIDTHS = {DOUBLE: 8, FIXED64: 8, SFIXED64: 8, FLOAT: 4, FIXED32: 4, SFIXED32: 4}


def encode_trace(trace: Trace) -> bytes:
    """The uncompressed bytes of the Chakra file that holds ``trace``; the same trace gives the same bytes.

    Raises InputError for a message of 2 GiB or more, which no reader accepts.
    """
    return b"".join((encode_metadata(trace), *encode_nodes(trace)))


def encode_metadata(trace: Trace) -> memoryview:
    """The first message of the file. Raises InputError if it is too large."""
    message = Messages(1)
    if trace.version:
        message.constant(text_field(1, trace.version.encode()), np.zeros(1, np.int64))
    _attributes(message, 2, trace, trace.meta, slice(0, 1))
    if message.size[0] > _LARGEST:
        raise _too_large(trace, "the metadata")
    return message.framed()


def encode_nodes(trace: Trace) -> Iterator[memoryview]:
    """The messages of the nodes, some at a time. Raises InputError for one that is too large."""
    for begin in range(0, len(trace), _NODES):
        rows = slice(begin, min(begin + _NODES, len(trace)))
        message = _nodes(trace, rows)
        large = np.flatnonzero(message.size > _LARGEST)
        if len(large):
            raise _too_large(trace, trace.place(begin + int(large[0])))
        yield message.framed()


def _too_large(trace: Trace, place: str) -> InputError:
    return InputError(
        "this message is too large for a trace", file=trace.source, place=place, expected="less than 2 GiB"
    )


def _nodes(trace: Trace, rows: slice) -> Messages:
    message = Messages(rows.stop - rows.start)
    _numbers(message, 1, trace.ids[rows])
    _texts(message, 2, trace.strings, trace.name_index[rows])
    _numbers(message, 3, trace.types[rows].astype(np.int64).view(np.uint64))
    for field, deps in ((4, trace.ctrl_deps), (5, trace.data_deps)):
        offsets = deps.offsets[rows.start : rows.stop + 1]
        message.packed(tag(field, DELIMITED), np.diff(offsets), deps.targets[offsets[0] : offsets[-1]])
    _numbers(message, 6, trace.start_micros[rows])
    _numbers(message, 7, trace.duration_micros[rows])
    for field, ports in ((8, trace.inputs[rows]), (9, trace.outputs[rows])):
        owners = np.flatnonzero(ports[:, 0] >= 0)
        inner = Messages(len(owners))
        for part in range(3):
            _texts(inner, part + 1, trace.strings, ports[owners, part])
        message.nested(tag(field, DELIMITED), owners, inner)
    _attributes(message, 10, trace, trace.attrs, rows)
    return message


def _numbers(message: Messages, field: int, values: Words) -> None:
    """Zeros are left out."""
    owners = np.flatnonzero(values)
    message.numbers(tag(field, VARINT), owners, values[owners])


def _texts(message: Messages, field: int, table: StringTable, indices: NDArray[np.int32]) -> None:
    """Texts that are not there are left out."""
    owners = np.flatnonzero(indices > 0)
    message.texts(tag(field, DELIMITED), owners, table, indices[owners])


def _attributes(message: Messages, field: int, trace: Trace, table: Attributes, rows: slice) -> None:
    """Add the attributes of the owners ``rows`` of a table: together those that differ in their values only."""
    offsets = table.offsets[rows.start : rows.stop + 1]
    some = slice(int(offsets[0]), int(offsets[-1]))
    names, docs, kinds, bits = table.name[some], table.doc[some], table.kind[some], table.bits[some]
    inner = Messages(len(names))
    for owners in _equal(names, docs, kinds):
        at, head = int(owners[0]), b""
        for number, text in ((1, int(names[at])), (2, int(docs[at]))):
            head += text_field(number, trace.strings.raw(text)) if text else b""
        _values(inner, head, int(kinds[at]), owners, bits[owners], trace)
    message.nested(tag(field, DELIMITED), np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), inner)


def _equal(*columns: NDArray[Any]) -> list[Ints]:
    """The places, ascending, of each set of equal values in columns of small numbers."""
    keys, count = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        seen = np.bincount(column) > 0
        there = int(np.count_nonzero(seen))
        if there > 1:
            keys = keys * there + (np.cumsum(seen) - 1)[column]
            count *= there
    order = np.argsort(keys.astype(np.min_scalar_type(count)), kind="stable")
    return np.split(order, np.flatnonzero(np.diff(keys[order])) + 1) if len(order) else []


def _values(message: Messages, head: bytes, kind: int, owners: Ints, bits: Words, trace: Trace) -> None:
    """Add values of one kind of attribute behind ``head`` and their tag."""
    width = _WIDTHS.get(kind - 1 + kind % 2, 0)
    if kind == 0:
        message.constant(head, owners)
    elif kind % 2 == 0:
        counts, items = _items(trace.lists, bits.view(np.int64))
        inner, packed = Messages(len(owners)), tag(1, DELIMITED)
        if kind > STRING:
            inner.texts(packed, np.repeat(np.arange(len(owners)), counts), trace.strings, items.view(np.int64))
        else:
            inner.packed(packed, counts, _as_written(kind - 1, items), width)
        message.nested(head + tag(kind, DELIMITED), owners, inner)
    elif kind >= STRING:
        message.texts(head + tag(kind, DELIMITED), owners, trace.strings, bits.view(np.int64))
    elif width:
        message.words(head + tag(kind, WORD8 if width == 8 else WORD4), owners, bits, width)
    else:
        message.numbers(head + tag(kind, VARINT), owners, _as_written(kind, bits))


def _items(lists: Csr, which: Ints) -> tuple[Ints, Words]:
    """How many elements each of the lists has, and the elements, end to end."""
    begins = lists.offsets[which]
    counts = lists.offsets[which + 1] - begins
    places = np.arange(int(counts.sum())) + np.repeat(begins - (np.cumsum(counts) - counts), counts)
    return counts, lists.targets[places]


def _as_written(kind: int, bits: Words) -> Words:
    """Numbers in zigzag where the schema has them so."""
    if kind not in (SINT32, SINT64):
        return bits
    signs = (bits.view(np.int64) >> 63).view(np.uint64)
    turned = bits << np.uint64(1) ^ signs
    return turned & np.uint64(0xFFFFFFFF) if kind == SINT32 else turned
