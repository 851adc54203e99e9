"""Compiled decoding of a Chakra file: length-prefixed protobuf messages straight into flat arrays.

One pass, without an object per node. The caller provides the arrays; when a message might not fit, ``decode_frames``
returns `GROW` and is called again with larger arrays, continuing where it stopped.

Accepted and refused are the same bytes as by the official parser (upb): fields in any order, last one wins, unknown
fields skipped, packed or not, oneof members replacing each other, messages of the same member merged, strict UTF-8.
"""

# mypy: disable-error-code="assignment"
# Compiled code knows one integer, of 64 bits; a checker sees Python's and NumPy's.

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.jit import kernel

# Slots of the state array ``st``: place in the file, counters, and from ROOM on how far each counter may go.
POS, FRAMES, CTRL, DATA, ATTRS, LISTS, ITEMS, STRINGS, BLOB = range(9)
UNKNOWN, HAS_IO, HAS_DOC, ERR_POS, NEED = range(9, 14)
ROOM = 14
GROUPS = ROOM + 9  # field numbers of the unknown groups that are open
GUESSES = GROUPS + 101  # the string last seen as a node's first attribute name, second, ...
STATE_SIZE = GUESSES + 32

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

# Where decoding stands: in a node, in an attribute, in an attribute's list, in inputs or outputs, in the metadata.
NODE, ATTR, LIST, IO, META = range(5)
# What to do with a field.
UNKNOWN_FIELD, TEXT, RAW, WORD, SCALAR, PACKED, ENTER_ATTR, ENTER_LIST, ENTER_IO = range(9)

_WIRE = np.zeros(33, np.int64)  # wire type of each attribute kind
_WIRE[[3, 21, 25]] = 1
_WIRE[[5, 19, 23]] = 5
_WIRE[[1, 2, 29, 31]] = 2  # 1 and 2 are name and doc_string
_WIRE[4:33:2] = 2


def _actions() -> NDArray[np.uint8]:
    """What to do with a field, by place, field number and wire type. (Numeric lists depend on their kind too.)"""
    actions = np.zeros((5, 33, 6), np.uint8)
    actions[NODE, [1, 3, 4, 5, 6, 7], 0] = WORD
    actions[NODE, [4, 5], 2] = PACKED
    actions[NODE, 2, 2] = TEXT
    actions[NODE, [8, 9], 2] = ENTER_IO
    actions[NODE, 10, 2] = ENTER_ATTR
    actions[META, 1, 2] = TEXT
    actions[META, 2, 2] = ENTER_ATTR
    actions[IO, 1:4, 2] = TEXT
    for kind in range(3, 29, 2):
        actions[ATTR, kind, _WIRE[kind]] = SCALAR
    actions[ATTR, [1, 2, 29], 2] = TEXT
    actions[ATTR, 31, 2] = RAW
    actions[ATTR, 4:33:2, 2] = ENTER_LIST
    return actions


_ACTION = _actions()
_DEPTH = np.array(
    [_MAX_DEPTH, _MAX_DEPTH - 1, _MAX_DEPTH - 2, _MAX_DEPTH - 1, _MAX_DEPTH]
)  # groups that may still nest


@kernel
def _varint(buf: Any, pos: Any, end: Any, longest: Any) -> Any:
    """(value, next position), or (0, code) if the number takes more than ``longest`` bytes or reaches ``end``."""
    value = np.uint64(0)
    for i in range(longest):
        if pos + i >= end:
            return np.uint64(0), BAD_END
        byte = np.uint64(buf[pos + i])
        value |= (byte & _SEVEN) << np.uint64(7 * i)
        if byte <= _SEVEN:
            return value, pos + i + 1
    return np.uint64(0), BAD_VARINT


@kernel
def _skip_group(buf: Any, pos: Any, end: Any, field: Any, depth: Any, st: Any) -> Any:
    """The position after the unknown group ``field`` whose content begins at ``pos``, or a code. Groups nest."""
    st[GROUPS] = field
    count = 1
    while count > 0:
        value, pos = _varint(buf, pos, end, 5)
        if pos < 0 or value < np.uint64(8) or value > _MAX_TAG:
            return BAD_GROUP if pos < 0 else BAD_TAG
        wire = np.int64(value) & 7
        number = np.int64(value) >> 3
        if wire == 0:
            value, pos = _varint(buf, pos, end, 10)
        elif wire == 2:
            value, pos = _varint(buf, pos, end, 5)
            if pos >= 0:
                pos = pos + np.int64(value) if value <= _MAX_SIZE else BAD_END
        elif wire == 1 or wire == 5:
            pos += 8 if wire == 1 else 4
        elif wire == 3:
            if count >= depth:
                return BAD_GROUP
            st[GROUPS + count] = number
            count += 1
        elif wire == 4:
            count -= 1
            if st[GROUPS + count] != number:
                return BAD_GROUP
        else:
            return BAD_TAG
        if pos < 0 or pos > end:
            return BAD_END if pos > end else pos
    return pos


@kernel
def _is_utf8(buf: Any, pos: Any, end: Any) -> Any:
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
def _fixed(buf: Any, pos: Any, width: Any) -> Any:
    """The ``width`` bytes at ``pos``, least significant first."""
    value = np.uint64(0)
    for i in range(width):
        value |= np.uint64(buf[pos + i]) << np.uint64(8 * i)
    return value


@kernel
def _convert(value: Any, kind: Any) -> Any:
    """The 64 bits that stand for a number of attribute kind ``kind`` that is ``value`` on the wire."""
    if kind == 27:
        return _ONE if value != _ZERO else _ZERO
    if kind == 7 or kind == 11 or kind == 15:
        value &= _LOW32
    if kind == 15 or kind == 17:
        return (value >> _ONE) ^ (_ALL if value & _ONE != _ZERO else _ZERO)
    if (kind == 7 or kind == 23) and value & _SIGN32 != _ZERO:
        return value | _HIGH32
    return value


@kernel
def _is_string(buf: Any, pos: Any, stop: Any, index: Any, offsets: Any, blob: Any) -> Any:
    """Whether ``buf[pos:stop]`` is string ``index``."""
    base = offsets[index]
    if offsets[index + 1] - base != stop - pos:
        return False
    for i in range(stop - pos):  # noqa: SIM110, which does not compile
        if blob[base + i] != buf[pos + i]:
            return False
    return True


@kernel
def _intern(buf: Any, pos: Any, stop: Any, text: Any, st: Any, table: Any, offsets: Any, blob: Any) -> Any:
    """The index of the string ``buf[pos:stop]``, new or known; -1 if it is ``text`` and not UTF-8.

    ``table`` is an open hash table of ``hash << 31 | string index``, -1 where free. The hash is FNV-1a in 32 bits,
    which never overflows 64; it starts elsewhere for bytes, so that they are never taken for a checked text.
    """
    hashed = np.int64(_TEXT_SEED if text else _BYTES_SEED)
    for i in range(pos, stop):
        hashed = ((hashed ^ np.int64(buf[i])) * 16777619) & 0xFFFFFFFF
    mask = len(table) - 1
    slot = (hashed ^ (hashed >> 15)) & mask
    while table[slot] >= 0:
        index = table[slot] & 0x7FFFFFFF
        if table[slot] >> 31 == hashed and _is_string(buf, pos, stop, index, offsets, blob):
            return index
        slot = (slot + 1) & mask
    if text and not _is_utf8(buf, pos, stop):
        return -1
    index = st[STRINGS]
    base = st[BLOB]
    for i in range(stop - pos):
        blob[base + i] = buf[pos + i]
    st[BLOB] = base + stop - pos
    st[STRINGS] = index + 1
    offsets[index + 1] = base + stop - pos
    table[slot] = hashed << 31 | index
    return index


@kernel
def refill(old: Any, table: Any) -> None:
    """Enter the strings of the hash table ``old`` into the larger, empty ``table``."""
    mask = len(table) - 1
    for entry in old:
        if entry >= 0:
            slot = ((entry >> 31) ^ (entry >> 46)) & mask
            while table[slot] >= 0:
                slot = (slot + 1) & mask
            table[slot] = entry


@kernel
def _field(buf: Any, pos: Any, end: Any, depth: Any, st: Any) -> Any:
    """(number, wire type, value, start, stop) of the field at ``pos``; ``stop`` is a code if it is malformed.

    ``value`` is the number or the fixed-width bits; for a block, ``start`` to ``stop`` is its content.
    """
    st[ERR_POS] = pos
    tag = np.int64(buf[pos])
    pos += 1
    if tag > 127 and pos < end and buf[pos] < 128:
        tag = (tag & 127) | np.int64(buf[pos]) << 7
        pos += 1
    elif tag > 127:
        value, pos = _varint(buf, pos - 1, end, 5)
        tag = np.int64(value & _LOW32) if value <= _MAX_TAG else 0
    number, wire = tag >> 3, tag & 7
    value = _ZERO
    stop = pos
    if pos >= 0 and (number == 0 or wire > 5 or wire == 4):
        stop = BAD_GROUP if wire == 4 and number != 0 else BAD_TAG
    elif pos >= 0 and (wire == 0 or wire == 2):
        if pos < end and buf[pos] < 128:
            value = np.uint64(buf[pos])
            pos += 1
        else:
            value, pos = _varint(buf, pos, end, 10 if wire == 0 else 5)
        stop = pos
        if pos >= 0 and wire == 2:
            stop = pos + np.int64(value) if value <= _MAX_SIZE else BAD_END
    elif pos >= 0 and wire == 3:
        stop = _skip_group(buf, pos, end, number, depth, st)
    elif pos >= 0:
        width = 8 if wire == 1 else 4
        stop = pos + width
        if stop <= end:
            value = _fixed(buf, pos, width)
    return number, wire, value, pos, stop if stop <= end else BAD_END


@kernel
def _packed(buf: Any, pos: Any, stop: Any, kind: Any, st: Any, values: Any, count: Any) -> Any:
    """Append the numbers of kind ``kind`` in ``buf[pos:stop]`` to ``values[count:]``; the new count, or a code."""
    width = 8 if _WIRE[kind] == 1 else 4
    if _WIRE[kind] != 0 and (stop - pos) % width != 0:
        return BAD_PACKED
    while pos < stop:
        if _WIRE[kind] != 0:
            value = _fixed(buf, pos, width)
            pos += width
        elif buf[pos] < 128:
            value = np.uint64(buf[pos])
            pos += 1
        else:
            st[ERR_POS] = pos
            value, pos = _varint(buf, pos, stop, 10)
            if pos < 0:
                return pos
        values[count] = _convert(value, kind)
        count += 1
    return count


@kernel
def _has_room(length: Any, st: Any) -> Any:
    """Whether a message of ``length`` bytes surely fits: a dependency or element takes a byte, all else two."""
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
def _message(
    buf: Any, pos: Any, end: Any, row: Any, st: Any,
    ids: Any, start: Any, duration: Any, names: Any, types: Any, inputs: Any, outputs: Any, ctrl: Any, data: Any,
    attr_name: Any, attr_kind: Any, attr_bits: Any, attr_doc: Any,
    list_offsets: Any, items: Any, table: Any, offsets: Any, blob: Any,
) -> Any:  # fmt: skip
    """Decode the message ``buf[pos:end]`` into row ``row``; DONE, with the counters moved on, or a code.

    One loop over the fields of all levels: a submessage is entered by making its end the next one to reach. Long
    because its branches change some twelve local variables, which no function that they called could.
    """
    n_ctrl, n_data, n_attrs, n_lists, n_items = st[CTRL], st[DATA], st[ATTRS], st[LISTS], st[ITEMS]
    outer, outer_end, attr_end = (META if row == 0 else NODE), end, end
    level = outer
    port, name, doc, kind, first_list, first_item, bits = 0, 0, 0, 0, n_lists, n_items, _ZERO
    while True:
        if pos == end:
            if level == LIST:
                list_offsets[first_list + 1] = n_items
                level, end = ATTR, attr_end
            elif level == ATTR:
                attr_name[n_attrs], attr_kind[n_attrs], attr_bits[n_attrs] = name, kind, bits
                if doc != 0:
                    attr_doc[n_attrs] = doc
                    st[HAS_DOC] = 1
                n_attrs += 1
                level, end = outer, outer_end
            elif level == IO:
                level, end = outer, outer_end
            else:
                st[CTRL], st[DATA], st[ATTRS], st[LISTS], st[ITEMS] = n_ctrl, n_data, n_attrs, n_lists, n_items
                return DONE
            continue
        tag = np.int64(buf[pos])
        if 7 < tag < 128 and tag & 5 == 0 and pos + 1 < end and buf[pos + 1] < 128:
            # The usual field, small number or short block, without the cost of a call.
            field, wire, value = tag >> 3, tag & 7, np.uint64(buf[pos + 1])
            pos += 2
            stop = pos + np.int64(value) if wire == 2 else pos
            if stop > end:
                st[ERR_POS] = pos - 2
                return BAD_END
        else:
            field, wire, value, pos, stop = _field(buf, pos, end, _DEPTH[level], st)
            if stop < 0:
                return stop
        action = np.int64(_ACTION[level, field, wire]) if field < 33 and wire != 3 else UNKNOWN_FIELD
        if level == LIST and field == 1:
            if wire == _WIRE[kind - 1]:
                action = SCALAR if wire != 2 else (TEXT if kind == 30 else RAW)
            elif wire == 2:
                action = PACKED

        if action == UNKNOWN_FIELD:
            st[UNKNOWN] += 1
        elif action <= RAW:
            guess = GUESSES + ((n_attrs - st[ATTRS]) & 31)
            if level == ATTR and field == 1 and _is_string(buf, pos, stop, st[guess], offsets, blob):
                index = st[guess]
            else:
                index = _intern(buf, pos, stop, action == TEXT, st, table, offsets, blob)
            if index < 0:
                st[ERR_POS] = pos
                return BAD_UTF8
            if level == LIST:
                items[n_items] = np.uint64(index)
                n_items += 1
            elif level == IO and port == 8:
                inputs[row, field - 1] = index + 1
            elif level == IO:
                outputs[row, field - 1] = index + 1
            elif level != ATTR:
                names[row] = index
            elif field == 1:
                name = index
                st[guess] = index
            elif field == 2:
                doc = index
            else:
                n_lists, n_items = first_list, first_item
                bits, kind = np.uint64(index), field
        elif action == SCALAR and level == LIST:
            items[n_items] = _convert(value, kind - 1)
            n_items += 1
        elif action == SCALAR:
            n_lists, n_items = first_list, first_item
            bits, kind = _convert(value, field), field
        elif action == ENTER_ATTR:
            level, end, attr_end, stop = ATTR, stop, stop, pos
            name, doc, kind, first_list, first_item, bits = 0, 0, 0, n_lists, n_items, _ZERO
        elif action == ENTER_LIST:
            if kind != field:
                n_lists, n_items = first_list + 1, first_item
                bits, kind = np.uint64(first_list), field
            level, end, stop = LIST, stop, pos
        elif action == ENTER_IO:
            level, end, stop, port = IO, stop, pos, field
            st[HAS_IO] = 1
            for part in range(3):
                if field == 8:
                    inputs[row, part] = max(inputs[row, part], 1)
                else:
                    outputs[row, part] = max(outputs[row, part], 1)
        elif action == PACKED:
            if level == LIST:
                count = n_items = _packed(buf, pos, stop, kind - 1, st, items, n_items)
            elif field == 4:
                count = n_ctrl = _packed(buf, pos, stop, 13, st, ctrl, n_ctrl)
            else:
                count = n_data = _packed(buf, pos, stop, 13, st, data, n_data)
            if count < 0:
                return count
        elif field == 1:
            ids[row] = value
        elif field == 3:
            types[row] = np.int64(_convert(value, 7))
        elif field == 4:
            ctrl[n_ctrl] = value
            n_ctrl += 1
        elif field == 5:
            data[n_data] = value
            n_data += 1
        elif field == 6:
            start[row] = value
        else:
            duration[row] = value
        pos = stop


@kernel
def decode_frames(
    buf: Any, st: Any, ids: Any, start: Any, duration: Any, names: Any, types: Any, inputs: Any, outputs: Any,
    ctrl_ends: Any, ctrl: Any, data_ends: Any, data: Any,
    attr_ends: Any, attr_name: Any, attr_kind: Any, attr_bits: Any, attr_doc: Any,
    list_offsets: Any, items: Any, table: Any, offsets: Any, blob: Any,
) -> Any:  # fmt: skip
    """Decode messages from ``st[POS]`` on: DONE, GROW (the message of ``st[NEED]`` bytes may not fit), or a BAD code.

    Row 0 is the metadata, with its version as name; ``..._ends[row]`` is where the lists of that row end; inputs and
    outputs hold string indices plus 1, or 0 for an absent message. After a BAD code the state stands where the damaged
    message begins, as if it were not there, and ``st[ERR_POS]`` tells the place of the fault.
    """
    size = len(buf)
    while st[POS] < size:
        begin = st[POS]
        st[NEED], st[ERR_POS] = 0, begin
        value, pos = _varint(buf, begin, size, 5)
        if pos < 0 or value > _MAX_SIZE:
            return BAD_FRAME_END if pos == BAD_END else BAD_LENGTH
        end = pos + np.int64(value)
        st[NEED] = end - begin
        if end > size:
            return BAD_FRAME_END
        if not _has_room(end - pos, st):
            return GROW
        row = st[FRAMES]
        ids[row], start[row], duration[row], names[row], types[row] = _ZERO, _ZERO, _ZERO, 0, 0
        code = _message(
            buf, pos, end, row, st, ids, start, duration, names, types, inputs, outputs, ctrl, data,
            attr_name, attr_kind, attr_bits, attr_doc, list_offsets, items, table, offsets, blob,
        )  # fmt: skip
        if code != DONE:
            return code
        ctrl_ends[row], data_ends[row], attr_ends[row] = st[CTRL], st[DATA], st[ATTRS]
        st[FRAMES] = row + 1
        st[POS] = end
    return DONE
