"""Compiled decoding of a Chakra file: length-prefixed protobuf messages straight into flat arrays.

One pass. The caller provides the arrays; when a message might not fit, ``decode_frames`` returns `GROW` and is called again
with larger arrays, continuing where it stopped. Every function here returns a position in the file, or a negative
code (`BAD_...`) with the place of the fault in ``st[ERR_POS]``.

Accepted and refused are the same bytes as by the official parser (upb): fields in any order, last one wins, unknown fields
skipped, packed or not, oneof members replacing each other, messages of the same member merged, strict UTF-8.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chakrasim.jit import kernel

# Slots of the state array ``st``: place in the file, counters, and from ROOM on how far each counter may go.
POS, FRAMES, CTRL, DATA, ATTRS, LISTS, ITEMS, STRINGS, BLOB = range(9)
UNKNOWN, HAS_IO, HAS_DOC, ERR_POS, NEED = range(9, 14)
ROOM = 14
STATE_SIZE = ROOM + 9

DONE, GROW = 0, 1
BAD_LENGTH, BAD_FRAME_END, BAD_VARINT, BAD_END, BAD_TAG, BAD_UTF8, BAD_GROUP, BAD_PACKED = range(-1, -9, -1)

_MAX_DEPTH = 100  # nesting that the official parser allows
_MAX_TAG = np.uint64(0xFFFFFFFF)
_MAX_SIZE = np.uint64(0x7FFFFFFF)
_LOW32 = np.uint64(0xFFFFFFFF)
_HIGH32 = np.uint64(0xFFFFFFFF00000000)
_SIGN32 = np.uint64(0x80000000)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_SEVEN = np.uint64(0x7F)
_TEXT_SEED = 2166136261
_BYTES_SEED = 40389

_WIRE = np.zeros(33, np.int64)  # wire type of each attribute kind
_WIRE[[3, 21, 25]] = 1
_WIRE[[5, 19, 23]] = 5
_WIRE[[1, 2, 29, 31]] = 2  # 1 and 2 are name and doc_string
_WIRE[4:33:2] = 2


@kernel
def _varint(buf: Any, pos: int, end: int) -> Any:
    """(value, next position) or (0, code)."""
    if pos < end and buf[pos] < 128:
        return np.uint64(buf[pos]), pos + 1
    value = np.uint64(0)
    for i in range(10):
        if pos + i >= end:
            return np.uint64(0), BAD_END
        byte = np.uint64(buf[pos + i])
        value |= (byte & _SEVEN) << np.uint64(7 * i)
        if byte <= _SEVEN:
            return value, pos + i + 1
    return np.uint64(0), BAD_VARINT


@kernel
def _tag(buf: Any, pos: int, end: int, st: Any) -> Any:
    """(field number, wire type, next position)."""
    value, after = _varint(buf, pos, end)
    if after < 0:
        st[ERR_POS] = pos
        return 0, 0, after
    if after - pos > 5 or value > _MAX_TAG or value < np.uint64(8):
        st[ERR_POS] = pos
        return 0, 0, BAD_TAG
    tag = np.int64(value)
    if (tag & 7) > 5:
        st[ERR_POS] = pos
        return 0, 0, BAD_TAG
    return tag >> 3, tag & 7, after


@kernel
def _block(buf: Any, pos: int, end: int, st: Any) -> Any:
    """(start, end) of a length-delimited field whose length stands at ``pos``."""
    value, after = _varint(buf, pos, end)
    if after < 0 or after - pos > 5 or value > _MAX_SIZE:
        st[ERR_POS] = pos
        return (after if after < 0 else BAD_VARINT), 0
    stop = after + np.int64(value)
    if stop > end:
        st[ERR_POS] = pos
        return BAD_END, 0
    return after, stop


@kernel
def _skip(buf: Any, pos: int, end: int, field: int, wire: int, depth: int, st: Any) -> Any:
    """Step over an unknown field whose tag has been read; groups nest, their ends must match."""
    st[UNKNOWN] += 1
    groups = np.empty(_MAX_DEPTH + 1, np.int64) if wire == 3 else np.empty(1, np.int64)
    open_groups = 0
    while True:
        if wire == 0:
            value, after = _varint(buf, pos, end)
        elif wire == 2:
            first, after = _block(buf, pos, end, st)
            after = first if first < 0 else after
        elif wire == 1 or wire == 5:
            after = pos + (8 if wire == 1 else 4)
            after = after if after <= end else BAD_END
        elif wire == 3:
            after = pos if open_groups < depth else BAD_GROUP
            if after >= 0:
                groups[open_groups] = field
                open_groups += 1
        else:
            after = pos if open_groups > 0 and groups[open_groups - 1] == field else BAD_GROUP
            open_groups -= 1
        if after < 0:
            st[ERR_POS] = pos
            return after
        pos = after
        if open_groups == 0:
            return pos
        if pos >= end:
            st[ERR_POS] = pos
            return BAD_GROUP
        field, wire, pos = _tag(buf, pos, end, st)
        if pos < 0:
            return pos


@kernel
def _is_utf8(buf: Any, pos: int, end: int) -> bool:
    """Strict UTF-8 (Unicode 15, table 3-7): no overlong forms, no surrogates, at most U+10FFFF."""
    while pos < end:
        lead = np.int64(buf[pos])
        pos += 1
        if lead < 0x80:
            continue
        low, high = 0x80, 0xBF
        if 0xC2 <= lead <= 0xDF:
            more = 1
        elif 0xE0 <= lead <= 0xEF:
            more = 2
            low = 0xA0 if lead == 0xE0 else 0x80
            high = 0x9F if lead == 0xED else 0xBF
        elif 0xF0 <= lead <= 0xF4:
            more = 3
            low = 0x90 if lead == 0xF0 else 0x80
            high = 0x8F if lead == 0xF4 else 0xBF
        else:
            return False
        if pos + more > end or buf[pos] < low or buf[pos] > high:
            return False
        for i in range(1, more):
            if buf[pos + i] < 0x80 or buf[pos + i] > 0xBF:
                return False
        pos += more
    return True


@kernel
def _intern(buf: Any, start: int, stop: int, text: bool, st: Any, table: Any, offsets: Any, blob: Any) -> int:
    """The index of the string ``buf[start:stop]``, new or known; -1 if it is ``text`` and not UTF-8.

    ``table`` is an open hash table of ``hash << 31 | index``, -1 where free. The hash is FNV-1a in 32 bits, which never
    overflows 64; it starts elsewhere for bytes, which therefore never stand for a text without having been checked.
    """
    code = np.int64(_TEXT_SEED if text else _BYTES_SEED)
    for i in range(start, stop):
        code = ((code ^ np.int64(buf[i])) * 16777619) & 0xFFFFFFFF
    mask = len(table) - 1
    slot = (code ^ (code >> 15)) & mask
    length = stop - start
    while table[slot] >= 0:
        if table[slot] >> 31 == code:
            index = table[slot] & 0x7FFFFFFF
            base = offsets[index]
            if offsets[index + 1] - base == length:
                at = 0
                while at < length and blob[base + at] == buf[start + at]:
                    at += 1
                if at == length:
                    return index
        slot = (slot + 1) & mask
    if text and not _is_utf8(buf, start, stop):
        return -1
    index = st[STRINGS]
    base = st[BLOB]
    for i in range(length):
        blob[base + i] = buf[start + i]
    st[BLOB] = base + length
    st[STRINGS] = index + 1
    offsets[index + 1] = base + length
    table[slot] = code << 31 | index
    return index


@kernel
def refill(old: Any, table: Any) -> None:
    """Enter the strings of the hash table ``old`` into the larger, empty ``table``."""
    mask = len(table) - 1
    for entry in old:
        if entry >= 0:
            code = entry >> 31
            slot = (code ^ (code >> 15)) & mask
            while table[slot] >= 0:
                slot = (slot + 1) & mask
            table[slot] = entry


@kernel
def _string(buf: Any, pos: int, end: int, text: bool, st: Any, table: Any, offsets: Any, blob: Any) -> Any:
    """(string index, next position) of a length-delimited field."""
    start, stop = _block(buf, pos, end, st)
    if start < 0:
        return 0, start
    index = _intern(buf, start, stop, text, st, table, offsets, blob)
    if index < 0:
        st[ERR_POS] = start
        return 0, BAD_UTF8
    return index, stop


@kernel
def _fixed(buf: Any, pos: int, size: int) -> Any:
    value = np.uint64(0)
    for i in range(size):
        value |= np.uint64(buf[pos + i]) << np.uint64(8 * i)
    return value


@kernel
def _scalar(buf: Any, pos: int, end: int, kind: int, st: Any) -> Any:
    """(bits, next position) of one number or truth value of attribute kind ``kind``."""
    wire = _WIRE[kind]
    if wire != 0:
        size = 8 if wire == 1 else 4
        if pos + size > end:
            st[ERR_POS] = pos
            return np.uint64(0), BAD_END
        value = _fixed(buf, pos, size)
        if kind == 23 and value & _SIGN32 != _ZERO:
            value |= _HIGH32
        return value, pos + size
    value, after = _varint(buf, pos, end)
    if after < 0:
        st[ERR_POS] = pos
        return value, after
    if kind == 27:
        return (_ONE if value != _ZERO else _ZERO), after
    if kind == 7 or kind == 11 or kind == 15:
        value &= _LOW32
        if kind == 7 and value & _SIGN32 != _ZERO:
            value |= _HIGH32
    if kind == 15 or kind == 17:
        value = (value >> _ONE) ^ (_ALL if value & _ONE != _ZERO else _ZERO)
    return value, after


@kernel
def _packed(buf: Any, pos: int, end: int, kind: int, st: Any, slot: int, values: Any) -> int:
    """Append the numbers of kind ``kind`` in the block at ``pos`` to ``values``, counted by ``st[slot]``."""
    pos, stop = _block(buf, pos, end, st)
    if pos < 0:
        return pos
    wire = _WIRE[kind]
    if (wire == 1 and (stop - pos) % 8 != 0) or (wire == 5 and (stop - pos) % 4 != 0):
        st[ERR_POS] = pos
        return BAD_PACKED
    at = st[slot]
    while pos < stop:
        bits, pos = _scalar(buf, pos, stop, kind, st)
        if pos < 0:
            return pos
        values[at] = bits
        at += 1
    st[slot] = at
    return pos


@kernel
def _list(
    buf: Any, pos: int, end: int, kind: int, depth: int, st: Any, items: Any, table: Any, offsets: Any, blob: Any
) -> int:
    """Append the elements of a list message ``buf[pos:end]`` of element kind ``kind`` to ``items``."""
    natural = _WIRE[kind]
    while pos < end:
        field, wire, pos = _tag(buf, pos, end, st)
        if pos < 0:
            return pos
        if field == 1 and wire == 2 and natural != 2:
            pos = _packed(buf, pos, end, kind, st, ITEMS, items)
        elif field == 1 and wire == natural:
            if natural == 2:
                index, pos = _string(buf, pos, end, kind == 29, st, table, offsets, blob)
                bits = np.uint64(index)
            else:
                bits, pos = _scalar(buf, pos, end, kind, st)
            if pos >= 0:
                items[st[ITEMS]] = bits
                st[ITEMS] += 1
        else:
            pos = _skip(buf, pos, end, field, wire, depth, st)
        if pos < 0:
            return pos
    return pos


@kernel
def _attribute(
    buf: Any, pos: int, end: int, st: Any, names: Any, kinds: Any, values: Any, docs: Any,
    list_offsets: Any, items: Any, table: Any, offsets: Any, blob: Any,
) -> int:  # fmt: skip
    """Append the AttributeProto whose length stands at ``pos``."""
    pos, end = _block(buf, pos, end, st)
    if pos < 0:
        return pos
    first_list, first_item = st[LISTS], st[ITEMS]
    name, doc, kind = np.int64(0), np.int64(0), np.int64(0)
    bits = np.uint64(0)
    while pos < end:
        field, wire, pos = _tag(buf, pos, end, st)
        if pos < 0:
            return pos
        if field > 32 or wire != _WIRE[field]:
            pos = _skip(buf, pos, end, field, wire, _MAX_DEPTH - 1, st)
        elif field < 3 or field == 29 or field == 31:
            index, pos = _string(buf, pos, end, field != 31, st, table, offsets, blob)
            if field == 1:
                name = index
            elif field == 2:
                doc = index
            else:
                st[LISTS], st[ITEMS] = first_list, first_item
                bits = np.uint64(index)
                kind = field
        elif field % 2 == 0:
            if kind != field:
                st[LISTS], st[ITEMS] = first_list + 1, first_item
                bits = np.uint64(first_list)
                kind = field
            pos, stop = _block(buf, pos, end, st)
            if pos >= 0:
                pos = _list(buf, pos, stop, field - 1, _MAX_DEPTH - 2, st, items, table, offsets, blob)
            list_offsets[first_list + 1] = st[ITEMS]
        else:
            st[LISTS], st[ITEMS] = first_list, first_item
            bits, pos = _scalar(buf, pos, end, field, st)
            kind = field
        if pos < 0:
            return pos
    at = st[ATTRS]
    names[at], kinds[at], values[at] = name, kind, bits
    if doc != 0:
        docs[at] = doc
        st[HAS_DOC] = 1
    st[ATTRS] = at + 1
    return pos


@kernel
def _io(buf: Any, pos: int, end: int, st: Any, io: Any, row: int, table: Any, offsets: Any, blob: Any) -> int:
    """Merge the IOInfo whose length stands at ``pos`` into ``io[row]``: string indices plus 1, 0 for an absent message."""
    pos, end = _block(buf, pos, end, st)
    if io[row, 0] == 0:
        io[row, 0], io[row, 1], io[row, 2] = 1, 1, 1
    st[HAS_IO] = 1
    while pos >= 0 and pos < end:
        field, wire, pos = _tag(buf, pos, end, st)
        if pos >= 0 and field <= 3 and wire == 2:
            index, pos = _string(buf, pos, end, True, st, table, offsets, blob)
            io[row, field - 1] = index + 1
        elif pos >= 0:
            pos = _skip(buf, pos, end, field, wire, _MAX_DEPTH - 1, st)
    return pos


@kernel
def _message(
    buf: Any, pos: int, end: int, st: Any, row: int, ids: Any, start: Any, duration: Any, names: Any, types: Any,
    inputs: Any, outputs: Any, ctrl: Any, data: Any, attr_name: Any, attr_kind: Any, attr_bits: Any, attr_doc: Any,
    list_offsets: Any, items: Any, table: Any, offsets: Any, blob: Any,
) -> int:  # fmt: skip
    """Decode ``buf[pos:end]`` into row ``row``: the Node, or in row 0 the GlobalMetadata with its version as name."""
    ids[row], start[row], duration[row], names[row], types[row] = _ZERO, _ZERO, _ZERO, 0, 0
    inputs[row, 0], outputs[row, 0] = 0, 0
    while pos < end:
        field, wire, pos = _tag(buf, pos, end, st)
        if pos < 0:
            return pos
        member = field if wire == 2 or field != 2 else 0
        if row == 0:
            member = 0 if wire != 2 or field > 2 else (2 if field == 1 else 10)
        if member == 10 and wire == 2:
            pos = _attribute(
                buf, pos, end, st, attr_name, attr_kind, attr_bits, attr_doc, list_offsets, items, table, offsets, blob
            )
        elif wire == 0 and member != 0 and member < 8:
            value, pos = _scalar(buf, pos, end, 7 if member == 3 else 13, st)
            if member == 1:
                ids[row] = value
            elif member == 3:
                types[row] = np.int64(value)
            elif member == 4 and pos >= 0:
                ctrl[st[CTRL]] = value
                st[CTRL] += 1
            elif member == 5 and pos >= 0:
                data[st[DATA]] = value
                st[DATA] += 1
            elif member == 6:
                start[row] = value
            elif member == 7:
                duration[row] = value
        elif member == 2:
            names[row], pos = _string(buf, pos, end, True, st, table, offsets, blob)
        elif (member == 4 or member == 5) and wire == 2:
            pos = _packed(buf, pos, end, 13, st, CTRL if member == 4 else DATA, ctrl if member == 4 else data)
        elif (member == 8 or member == 9) and wire == 2:
            pos = _io(buf, pos, end, st, inputs if member == 8 else outputs, row, table, offsets, blob)
        else:
            pos = _skip(buf, pos, end, field, wire, _MAX_DEPTH, st)
        if pos < 0:
            return pos
    return pos


@kernel
def _has_room(length: int, st: Any) -> bool:
    """Whether a message of ``length`` bytes surely fits: each dependency or element takes a byte, the rest at least two."""
    half = length // 2 + 1
    return (
        st[FRAMES] < st[ROOM + FRAMES]
        and st[CTRL] + length <= st[ROOM + CTRL]
        and st[DATA] + length <= st[ROOM + DATA]
        and st[ATTRS] + half <= st[ROOM + ATTRS]
        and st[LISTS] + half <= st[ROOM + LISTS]
        and st[ITEMS] + length <= st[ROOM + ITEMS]
        and st[STRINGS] + half <= st[ROOM + STRINGS]
        and st[BLOB] + length <= st[ROOM + BLOB]
    )


@kernel
def decode_frames(
    buf: Any, st: Any, ids: Any, start: Any, duration: Any, names: Any, types: Any, inputs: Any, outputs: Any,
    ctrl_ends: Any, ctrl: Any, data_ends: Any, data: Any,
    attr_ends: Any, attr_name: Any, attr_kind: Any, attr_bits: Any, attr_doc: Any,
    list_offsets: Any, items: Any, table: Any, offsets: Any, blob: Any,
) -> int:  # fmt: skip
    """Decode messages from ``st[POS]`` on: DONE, GROW (message of ``st[NEED]`` bytes may not fit), or a BAD code.

    Row 0 is the metadata; ``..._ends[row]`` is where the lists of that row end. After a BAD code the state stands where
    the damaged message begins, as if it were not there.
    """
    size = len(buf)
    while st[POS] < size:
        begin = st[POS]
        length, pos = _varint(buf, begin, size)
        st[NEED] = 0
        st[ERR_POS] = begin
        if pos < 0 or pos - begin > 5 or length > _MAX_SIZE:
            return BAD_FRAME_END if pos == BAD_END else BAD_LENGTH
        end = pos + np.int64(length)
        st[NEED] = end - pos
        if end > size:
            return BAD_FRAME_END
        if not _has_room(end - pos, st):
            return GROW
        kept_ctrl, kept_data, kept_attrs, kept_lists, kept_items = st[CTRL], st[DATA], st[ATTRS], st[LISTS], st[ITEMS]
        row = st[FRAMES]
        pos = _message(
            buf, pos, end, st, row, ids, start, duration, names, types, inputs, outputs, ctrl, data,
            attr_name, attr_kind, attr_bits, attr_doc, list_offsets, items, table, offsets, blob,
        )  # fmt: skip
        if pos < 0:
            st[CTRL], st[DATA], st[ATTRS] = kept_ctrl, kept_data, kept_attrs
            st[LISTS], st[ITEMS] = kept_lists, kept_items
            return pos
        ctrl_ends[row], data_ends[row], attr_ends[row] = st[CTRL], st[DATA], st[ATTRS]
        st[FRAMES] = row + 1
        st[POS] = end
    return DONE
