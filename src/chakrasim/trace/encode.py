"""Encoding of a trace as a Chakra file, byte for byte as the official library writes it (fields by number).

Messages are written from the end backwards, so that the length of each is known when its prefix is due.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.jit import kernel
from chakrasim.trace.graph import Attributes, Trace
from chakrasim.trace.wire import _WIRE

_ZERO = np.uint64(0)
_SEVEN = np.uint64(0x7F)
_LOW32 = np.uint64(0xFFFFFFFF)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_SIGN64 = np.uint64(1 << 63)


@kernel
def _varint(out: Any, at: int, value: Any) -> int:
    """Write ``value`` so that it ends before ``at``; like all functions here, returns where it begins."""
    size = 1
    rest = value >> np.uint64(7)
    while rest != _ZERO:
        size += 1
        rest >>= np.uint64(7)
    begin = at - size
    for i in range(size - 1):
        out[begin + i] = (value >> np.uint64(7 * i)) & _SEVEN | np.uint64(0x80)
    out[at - 1] = (value >> np.uint64(7 * (size - 1))) & _SEVEN
    return begin


@kernel
def _header(out: Any, at: int, stop: int, field: int) -> int:
    """Write tag and length of the length-delimited field whose content is ``out[at:stop]``."""
    at = _varint(out, at, np.uint64(stop - at))
    return _varint(out, at, np.uint64(field << 3 | 2))


@kernel
def _string(out: Any, at: int, index: int, field: int, offsets: Any, blob: Any) -> int:
    start, stop = offsets[index], offsets[index + 1]
    begin = at - (stop - start)
    for i in range(stop - start):
        out[begin + i] = blob[start + i]
    return _header(out, begin, at, field)


@kernel
def _scalar(out: Any, at: int, bits: Any, kind: int) -> int:
    """Write a number of attribute kind ``kind`` without a tag."""
    wire = _WIRE[kind]
    if wire != 0:
        size = 8 if wire == 1 else 4
        for i in range(size):
            out[at - size + i] = (bits >> np.uint64(8 * i)) & np.uint64(0xFF)
        return at - size
    if kind == 15 or kind == 17:
        bits = (bits << _ONE) ^ (_ALL if bits & _SIGN64 != _ZERO else _ZERO)
        if kind == 15:
            bits &= _LOW32
    return _varint(out, at, bits)


@kernel
def _attributes(
    out: Any, at: int, first: int, last: int, field: int,
    name: Any, kind: Any, bits: Any, doc: Any, list_offsets: Any, items: Any, offsets: Any, blob: Any,
) -> int:  # fmt: skip
    """Write attributes ``first`` to ``last`` (excluded) as messages of field number ``field``."""
    for a in range(last - 1, first - 1, -1):
        stop = at
        member = np.int64(kind[a])
        value = bits[a]
        if member > 0 and member % 2 == 0:
            low, high = list_offsets[np.int64(value)], list_offsets[np.int64(value) + 1]
            for i in range(high - 1, low - 1, -1):
                if member >= 30:
                    at = _string(out, at, np.int64(items[i]), 1, offsets, blob)
                else:
                    at = _scalar(out, at, items[i], member - 1)
            if member < 30 and high > low:
                at = _header(out, at, stop, 1)
            at = _header(out, at, stop, member)
        elif member >= 29:
            at = _string(out, at, np.int64(value), member, offsets, blob)
        elif member > 0:
            at = _scalar(out, at, value, member)
            at = _varint(out, at, np.uint64(member << 3 | _WIRE[member]))
        if doc[a] != 0:
            at = _string(out, at, np.int64(doc[a]), 2, offsets, blob)
        if name[a] != 0:
            at = _string(out, at, np.int64(name[a]), 1, offsets, blob)
        at = _header(out, at, stop, field)
    return at


@kernel
def _number(out: Any, at: int, value: Any, field: int) -> int:
    """Write a number field, which is left out when zero."""
    if value != _ZERO:
        at = _varint(out, at, value)
        at = _varint(out, at, np.uint64(field << 3))
    return at


@kernel
def _deps(out: Any, at: int, targets: Any, low: int, high: int, field: int) -> int:
    stop = at
    for i in range(high - 1, low - 1, -1):
        at = _varint(out, at, targets[i])
    return _header(out, at, stop, field) if high > low else at


@kernel
def _io(out: Any, at: int, io: Any, row: int, field: int, offsets: Any, blob: Any) -> int:
    if io[row, 0] < 0:
        return at
    stop = at
    for part in range(2, -1, -1):
        if io[row, part] > 0:
            at = _string(out, at, np.int64(io[row, part]), part + 1, offsets, blob)
    return _header(out, at, stop, field)


@kernel
def _encode(
    out: Any, ids: Any, start: Any, duration: Any, names: Any, types: Any, inputs: Any, outputs: Any,
    ctrl_offsets: Any, ctrl: Any, data_offsets: Any, data: Any,
    attr_offsets: Any, attr_name: Any, attr_kind: Any, attr_bits: Any, attr_doc: Any,
    version: int, meta_name: Any, meta_kind: Any, meta_bits: Any, meta_doc: Any,
    list_offsets: Any, items: Any, offsets: Any, blob: Any,
) -> int:  # fmt: skip
    """Write the whole file so that it ends where ``out`` ends."""
    at = len(out)
    for row in range(len(ids) - 1, -1, -1):
        stop = at
        at = _attributes(
            out, at, attr_offsets[row], attr_offsets[row + 1], 10,
            attr_name, attr_kind, attr_bits, attr_doc, list_offsets, items, offsets, blob,
        )  # fmt: skip
        at = _io(out, at, outputs, row, 9, offsets, blob)
        at = _io(out, at, inputs, row, 8, offsets, blob)
        at = _number(out, at, duration[row], 7)
        at = _number(out, at, start[row], 6)
        at = _deps(out, at, data, data_offsets[row], data_offsets[row + 1], 5)
        at = _deps(out, at, ctrl, ctrl_offsets[row], ctrl_offsets[row + 1], 4)
        at = _number(out, at, np.uint64(np.int64(types[row])), 3)
        if names[row] != 0:
            at = _string(out, at, np.int64(names[row]), 2, offsets, blob)
        at = _number(out, at, ids[row], 1)
        at = _varint(out, at, np.uint64(stop - at))
    stop = at
    at = _attributes(
        out, at, 0, len(meta_name), 2,
        meta_name, meta_kind, meta_bits, meta_doc, list_offsets, items, offsets, blob,
    )  # fmt: skip
    if version != 0:
        at = _string(out, at, version, 1, offsets, blob)
    return _varint(out, at, np.uint64(stop - at))


def _plain(column: NDArray[Any]) -> NDArray[Any]:
    """A contiguous, writable array: the one form that the kernel is compiled for."""
    return np.require(column, requirements=("C", "W"))


def _text_bytes(trace: Trace) -> int:
    """Bytes of all strings, each as often as it is written."""
    sizes = np.diff(trace.strings.offsets)
    total = int(sizes[trace.name_index].sum()) + len(trace.version.encode())
    for io in (trace.inputs, trace.outputs):
        present = io[io[:, 0] >= 0]
        total += int(sizes[present].sum())
    for table in (trace.attrs, trace.meta):
        total += int(sizes[table.name].sum()) + int(sizes[table.doc].sum())
        for kind in (29, 31):
            total += int(sizes[table.bits[table.kind == kind].astype(np.int64)].sum())
        for kind in (30, 32):
            for index in table.bits[table.kind == kind].tolist():
                total += int(sizes[trace.lists[index].astype(np.int64)].sum())
    return total


def _with_version(trace: Trace) -> tuple[NDArray[np.int64], NDArray[np.uint8], int]:
    """The string table, with the version string added at its end."""
    strings = trace.strings
    if not trace.version:
        return strings.offsets, strings.blob, 0
    extra = np.frombuffer(trace.version.encode("utf-8"), np.uint8)
    offsets = np.append(strings.offsets, strings.offsets[-1] + len(extra))
    return offsets, np.concatenate((strings.blob, extra)), len(strings)


def _columns(table: Attributes) -> tuple[NDArray[Any], ...]:
    return tuple(_plain(column) for column in (table.name, table.kind, table.bits, table.doc))


def encode_trace(trace: Trace) -> bytes:
    """The uncompressed bytes of the Chakra file that holds ``trace``; the same trace gives the same bytes.

    Raises InputError for a message of more than 2 GiB, which no reader accepts.
    """
    offsets, blob, version = _with_version(trace)
    items = len(trace.lists.targets)
    deps = len(trace.ctrl_deps.targets) + len(trace.data_deps.targets)
    bound = 32 + 120 * len(trace) + 10 * deps + 36 * (len(trace.attrs) + len(trace.meta)) + 10 * items
    out = np.empty(bound + _text_bytes(trace), np.uint8)
    begin = _encode(
        out,
        *map(_plain, (trace.ids, trace.start_micros, trace.duration_micros, trace.name_index, trace.types)),
        _plain(trace.inputs),
        _plain(trace.outputs),
        *map(_plain, (trace.ctrl_deps.offsets, trace.ctrl_deps.targets)),
        *map(_plain, (trace.data_deps.offsets, trace.data_deps.targets)),
        _plain(trace.attrs.offsets),
        *_columns(trace.attrs),
        version,
        *_columns(trace.meta),
        *map(_plain, (trace.lists.offsets, trace.lists.targets, offsets, blob)),
    )
    _check_sizes(trace, len(out) - int(begin))
    return out[begin:].tobytes()


def _check_sizes(trace: Trace, total: int) -> None:
    if total < 1 << 31:
        return
    spans = np.diff(trace.data_deps.offsets) + np.diff(trace.ctrl_deps.offsets)
    if len(trace) == 0 or int(spans.max()) * 10 >= 1 << 31:
        raise InputError("a message of the trace exceeds 2 GiB", file=trace.source, expected="nodes below 2 GiB each")
