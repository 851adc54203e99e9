"""Compiled encoding of a Chakra file, byte for byte as the official library writes it (fields by number).

Messages are written from the end backwards, so that the length of each is known when its prefix is due.
"""

# mypy: disable-error-code="assignment"
# Compiled code knows one integer, of 64 bits; a checker sees Python's and NumPy's.

from __future__ import annotations

from typing import Any

import numpy as np

from chakrasim.jit import kernel
from chakrasim.trace.chakra.wire import _ALL, _LOW32, _ONE, _SEVEN, _WIRE, _ZERO

_SIGN64 = np.uint64(1 << 63)


@kernel
def _varint(out: Any, at: Any, value: Any) -> Any:
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
def _header(out: Any, at: Any, stop: Any, field: Any) -> Any:
    """Write tag and length of the length-delimited field whose content is ``out[at:stop]``."""
    at = _varint(out, at, np.uint64(stop - at))
    return _varint(out, at, np.uint64(field << 3 | 2))


@kernel
def _string(out: Any, at: Any, index: Any, field: Any, offsets: Any, blob: Any) -> Any:
    start, stop = offsets[index], offsets[index + 1]
    begin = at - (stop - start)
    for i in range(stop - start):
        out[begin + i] = blob[start + i]
    return _header(out, begin, at, field)


@kernel
def _scalar(out: Any, at: Any, bits: Any, kind: Any) -> Any:
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
def _attribute(
    out: Any, at: Any, name: Any, kind: Any, bits: Any, doc: Any, list_offsets: Any, items: Any, offsets: Any, blob: Any
) -> Any:
    """Write the fields of one AttributeProto."""
    if kind > 0:
        stop = at
        is_list = kind % 2 == 0
        element = kind - 1 if is_list else kind
        low, high = np.int64(0), np.int64(1)
        if is_list:
            low, high = list_offsets[np.int64(bits)], list_offsets[np.int64(bits) + 1]
        for i in range(high - 1, low - 1, -1):
            value = items[i] if is_list else bits
            if element >= 29:
                at = _string(out, at, np.int64(value), 1 if is_list else kind, offsets, blob)
            else:
                at = _scalar(out, at, value, element)
        if is_list and element < 29 and high > low:
            at = _header(out, at, stop, 1)
        if is_list:
            at = _header(out, at, stop, kind)
        elif element < 29:
            at = _varint(out, at, np.uint64(kind << 3 | _WIRE[kind]))
    for field in range(2, 0, -1):
        index = doc if field == 2 else name
        if index != 0:
            at = _string(out, at, index, field, offsets, blob)
    return at


@kernel
def encode_frames(
    out: Any, words: Any, names: Any, io: Any, deps: Any, dep_ends: Any,
    attr_ends: Any, attr_name: Any, attr_kind: Any, attr_bits: Any, attr_doc: Any,
    list_offsets: Any, items: Any, offsets: Any, blob: Any,
) -> Any:  # fmt: skip
    """Write the whole file so that it ends where ``out`` ends; returns where it begins, or -1 - row of too large a row.

    Row 0 is the metadata, with its version as name. ``words[row]`` holds id, type, start, duration; ``io[row]`` inputs,
    then outputs; ``dep_ends[0]`` and ``dep_ends[1]`` are where each row's ctrl_deps and data_deps begin in ``deps``.
    """
    at = len(out)
    for row in range(len(names) - 1, -1, -1):
        row_stop = at
        for field in range(10, 0, -1):
            stop = at
            if field == 10:
                for a in range(attr_ends[row + 1] - 1, attr_ends[row] - 1, -1):
                    stop = at
                    at = _attribute(
                        out, at, np.int64(attr_name[a]), np.int64(attr_kind[a]), attr_bits[a], np.int64(attr_doc[a]),
                        list_offsets, items, offsets, blob,
                    )  # fmt: skip
                    at = _header(out, at, stop, 10 if row > 0 else 2)
            elif field >= 8:
                first = 3 * (field - 8)
                for part in range(2, -1, -1):
                    if io[row, first + part] > 0:
                        at = _string(out, at, np.int64(io[row, first + part]), part + 1, offsets, blob)
                if io[row, first] >= 0:
                    at = _header(out, at, stop, field)
            elif field == 5 or field == 4:
                for i in range(dep_ends[field - 4, row + 1] - 1, dep_ends[field - 4, row] - 1, -1):
                    at = _varint(out, at, deps[i])
                if at < stop:
                    at = _header(out, at, stop, field)
            elif field == 2:
                if names[row] != 0:
                    at = _string(out, at, np.int64(names[row]), 2 if row > 0 else 1, offsets, blob)
            else:
                value = words[row, field // 2 if field < 6 else field - 4]
                if value != _ZERO:
                    at = _varint(out, at, value)
                    at = _varint(out, at, np.uint64(field << 3))
        if row_stop - at > 0x7FFFFFFF:
            return -1 - row
        at = _varint(out, at, np.uint64(row_stop - at))
    return at
