"""Kernels: nodes of a linked trace straight from its text, laid out as linkers lay it out, into Chakra's bytes.

What a function does not know to be plain (as in `compat_literals`, or fields in another order) it leaves to Python: it
returns -1.
"""

from __future__ import annotations

from typing import Final

from chakrasim.converter.compat_columns import (
    ATTRS,
    BEGIN,
    CATEGORY,
    COLUMNS,
    COUNTING_END,
    CTRL_DEPS,
    DEVICE,
    END,
    EXCLUSIVE,
    FIELDS_END,
    FLAGS,
    GROUP,
    HEAD,
    HEAD_SIZE,
    ID,
    IDENTITY,
    INPUTS,
    INTER_THREAD,
    IS_CPU_OP,
    KIND,
    LEFT_OUT,
    MAX_ID,
    NAME,
    NODES,
    OP_SCHEMA,
    OUTPUTS,
    PARENT,
    REACHED,
    RF_ID,
    SHAPES,
    STREAM,
    STRIDES,
    TAIL,
    TAIL_SIZE,
    TYPE,
    TYPES,
    USED,
    VALUE,
    VALUES,
    WAITS,
    Bytes,
    Words,
)
from chakrasim.converter.compat_literals import (
    atom,
    byte,
    copy,
    integer,
    is_digit,
    listing,
    number_end,
    put,
    put_varint,
    skip,
    text_end,
    varint_size,
    whole_time,
)
from chakrasim.jit import inner

#: The ends of names that stand for more than themselves: NCCL kernels, Optimizer.step, process_group:init, threads.
NCCL: Final = int.from_bytes(b"nccl", "little")
STEP, INIT, THREAD = (int.from_bytes(end, "little") for end in (b"zer.step", b"oup:init", b"|thread]"))
COMPUTE: Final = 4
"""The schema's number of COMP_NODE."""


@inner
def named(t: Bytes, p: int, names: Bytes, wanted: int) -> int:
    """The position after the text at ``p``, if it is the name ``wanted``; else -1."""
    if t[p] != 34:
        return -1
    for at in range(wanted + 1, wanted + 1 + names[wanted]):
        p += 1
        if t[p] != names[at]:
            return -1
    return p + 2 if t[p + 1] == 34 else -1


@inner
def named_like_one(t: Bytes, p: int, names: Bytes, begin: int, end: int) -> bool:
    """Whether the text at ``p`` is one of the names from ``begin`` to ``end``."""
    while begin < end:
        if named(t, p, names, begin) > 0:
            return True
        begin += 1 + names[begin]
    return False


@inner
def colon(t: Bytes, p: int) -> int:
    """The position of what follows a colon; -1 if there is none at ``p``."""
    p = skip(t, p)
    return skip(t, p + 1) if t[p] == 58 else -1


@inner
def field(t: Bytes, p: int, names: Bytes, wanted: int) -> int:
    """Where the value begins of the field ``wanted`` whose name begins at ``p``; -1: it is another."""
    p = named(t, p, names, wanted) if p > 0 else -1
    return colon(t, p) if p > 0 else -1


@inner
def comma(t: Bytes, p: int) -> int:
    """The position of what follows a comma; -1 if there is none at ``p``, or ``p`` is."""
    if p < 0:
        return -1
    p = skip(t, p)
    return skip(t, p + 1) if t[p] == 44 else -1


@inner
def port_list(t: Bytes, p: int, names: Bytes, wanted: int, spare: Bytes, used: int) -> tuple[int, int]:
    """Print a list of inputs or outputs behind the ``used`` bytes of ``spare``: position behind it, bytes used."""
    p = field(t, p, names, wanted)
    return listing(t, p, spare, used) if p > 0 else (-1, used)


@inner
def port(t: Bytes, p: int, names: Bytes, wanted: int, tag: int, out: Bytes, o: int, spare: Bytes) -> tuple[int, int]:
    """The field ``wanted``, inputs or outputs, as a message with its tag, and the comma behind it; both positions."""
    p = field(t, p, names, wanted)
    if p < 0 or t[p] != 123:
        return -1, o
    p, values = port_list(t, skip(t, p + 1), names, VALUES, spare, 0)
    p, shapes = port_list(t, comma(t, p), names, SHAPES, spare, values)
    p, types = port_list(t, comma(t, p), names, TYPES, spare, shapes)
    if p < 0:
        return -1, o
    p = skip(t, p)
    if t[p] == 44:
        p, _ = port_list(t, comma(t, p), names, STRIDES, spare, types)
        p = skip(t, max(p, 0))
    if t[p] != 125:
        return -1, o
    a, b, c = values, shapes - values, types - shapes
    o = put(out, o, tag)
    o = put_varint(out, o, 3 + varint_size(a) + varint_size(b) + varint_size(c) + types)
    o = put_varint(out, put(out, o, 10), a)
    o = copy(spare, 0, values, out, o)
    o = put_varint(out, put(out, o, 18), b)
    o = copy(spare, values, shapes, out, o)
    o = put_varint(out, put(out, o, 26), c)
    return comma(t, p + 1), copy(spare, shapes, types, out, o)


@inner
def entry_value(t: Bytes, p: int, names: Bytes) -> int:
    """Where the value begins of an entry of attrs whose name ends at ``p``."""
    p = field(t, comma(t, p), names, TYPE)
    p = text_end(t, p) if p > 0 else -1
    return field(t, comma(t, p + 1), names, VALUE) if p > 0 else -1


@inner
def entry(t: Bytes, p: int, names: Bytes, wanted: int) -> int:
    """Where the value begins of the entry of attrs at ``p``, if it is called ``wanted``; else -1."""
    if p < 0 or t[p] != 123:
        return -1
    p = field(t, skip(t, p + 1), names, NAME)
    p = named(t, p, names, wanted) if p > 0 else -1
    return entry_value(t, p, names) if p > 0 else -1


@inner
def put_name(out: Bytes, o: int, names: Bytes, wanted: int) -> int:
    """A name, with its tag and its length."""
    return copy(names, wanted, wanted + 1 + names[wanted], out, put(out, o, 10))


@inner
def put_integer(out: Bytes, o: int, names: Bytes, wanted: int, value: int) -> int:
    """An attribute with an int64_val."""
    o = put(out, o, 82)
    o = put(out, o, 3 + names[wanted] + (10 if value < 0 else varint_size(value)))
    o = put_name(out, o, names, wanted)
    return put_varint(out, put(out, o, 72), value)


@inner
def integer_entries(t: Bytes, p: int, names: Bytes, out: Bytes, o: int) -> tuple[int, int]:
    """The six integers that attrs begin with, as attributes; both positions."""
    wanted = RF_ID
    while wanted < OP_SCHEMA:
        p = entry(t, p, names, wanted)
        if p < 0:
            return -1, o
        value, p = integer(t, p)
        p = skip(t, max(p, 0))
        if t[p] != 125:
            return -1, o
        p = comma(t, p + 1)
        o = put_integer(out, o, names, wanted, value)
        wanted += 1 + names[wanted]
    return p, o


@inner
def attributes(t: Bytes, p: int, names: Bytes, out: Bytes, o: int, spare: Bytes) -> tuple[int, int]:
    """The field attrs: six integers, op_schema, and others that do not count; both positions."""
    p = field(t, p, names, ATTRS)
    if p < 0 or t[p] != 91:
        return -1, o
    p, o = integer_entries(t, skip(t, p + 1), names, out, o)
    p = entry(t, p, names, OP_SCHEMA)
    end = text_end(t, p) if p > 0 else -1
    if end < 0:
        return -1, o
    size = end - p - 1
    o = put(out, o, 82)
    o = put_varint(out, o, 13 + varint_size(size) + size)
    o = put_name(out, o, names, OP_SCHEMA)
    o = put_varint(out, put(out, put(out, o, 234), 1), size)
    o = copy(t, p + 1, end, out, o)
    p = skip(t, end + 1)
    while t[p] == 125:
        p = skip(t, p + 1)
        if t[p] == 93:
            return p + 1, o
        p = other_entry(t, comma(t, p), names, spare)
        if p < 0:
            return -1, o
    return -1, o


@inner
def other_entry(t: Bytes, p: int, names: Bytes, spare: Bytes) -> int:
    """The end of an entry of attrs that does not count, where its brace closes."""
    if p < 0 or t[p] != 123:
        return -1
    p = field(t, skip(t, p + 1), names, NAME)
    if p < 0 or named_like_one(t, p, names, 0, COUNTING_END):
        return -1
    group = named(t, p, names, GROUP) > 0
    p = text_end(t, p)
    p = entry_value(t, p + 1, names) if p > 0 else -1
    if p < 0 or (group and t[p] != 34):
        return -1
    p, _ = atom(t, p, spare, 0)
    return skip(t, p) if p > 0 else -1


@inner
def title(t: Bytes, p: int) -> tuple[int, bool]:
    """Where the name at the quote ``p`` ends (-1: it is not plain, or stands for more than itself), and whether it is
    one of NCCL."""
    end = text_end(t, p)
    window, special, nccl = 0, False, False
    for q in range(p + 1, end):
        window = (window >> 8) + (byte(t, q) << 56)
        special |= window in (STEP, INIT, THREAD)
        nccl |= window >> 32 == NCCL
    return -1 if special else end, nccl


@inner
def added(t: Bytes, p: int, names: Bytes, spare: Bytes) -> tuple[int, int, int, int, int]:
    """The fields behind attrs, up to the node's closing brace: duration, category (0: none), stream, node waited for,
    and the position of the brace; -1 if something is not plain."""
    duration, device, stream, waits = 0, 0, 0, 0
    p = skip(t, p)
    while t[p] == 44:
        key = skip(t, p + 1)
        end = text_end(t, key)
        q = colon(t, end + 1) if end > 0 else -1
        if q < 0 or t[q] == 91 or t[q] == 123 or named_like_one(t, key, names, 0, FIELDS_END):
            return 0, 0, 0, 0, -1
        null = t[q] == 110
        if named(t, key, names, EXCLUSIVE) > 0:
            duration, p = whole_time(t, q)
        elif named(t, key, names, STREAM) > 0:
            stream, p = integer(t, q)
        elif named(t, key, names, INTER_THREAD) > 0 and not null:
            waits, p = integer(t, q)
        elif t[q] == 45 or is_digit(t[q]):
            p = number_end(t, q)
        else:
            p, _ = atom(t, q, spare, 0)
        if named(t, key, names, INTER_THREAD) > 0 and null:
            waits = 0
        if named(t, key, names, CATEGORY) > 0:
            device = 0 if null else 1
        if p < 0:
            return 0, 0, 0, 0, -1
        p = skip(t, p)
    return duration, device, stream, waits, p if t[p] == 125 and waits >= 0 else -1


@inner
def beginning(t: Bytes, p: int, names: Bytes, out: Bytes, o: int) -> tuple[int, int, int, int, bool]:
    """Id, name and parent of the node at the brace ``p``: position of what follows (-1: not plain), bytes used, id,
    parent, whether the name is one of NCCL."""
    p = field(t, skip(t, p + 1), names, IDENTITY)
    if p < 0:
        return -1, o, 0, 0, False
    identity, p = integer(t, p)
    begin = field(t, comma(t, p), names, NAME)
    if begin < 0 or identity < 0:
        return -1, o, 0, 0, False
    end, nccl = title(t, begin)
    p = field(t, comma(t, end + 1), names, CTRL_DEPS) if end > 0 else -1
    if p < 0:
        return -1, o, 0, 0, False
    parent, p = integer(t, p)
    if identity:
        o = put_varint(out, put(out, o, 8), identity)
    if end > begin + 1:
        o = put_varint(out, put(out, o, 18), end - begin - 1)
        o = copy(t, begin + 1, end, out, o)
    return comma(t, p) if parent >= 0 else -1, o, identity, parent, nccl


@inner
def node(t: Bytes, p: int, names: Bytes, out: Bytes, o: int, spare: Bytes, columns: Words, row: int) -> tuple[int, int]:
    """The node at the brace ``p`` into its row and its bytes; position after it (-1: left to Python), bytes used."""
    head = o
    p, o, identity, parent, nccl = beginning(t, p, names, out, o)
    body = o + 11  # room for the duration, which comes last
    after = body
    p, after = port(t, p, names, INPUTS, 66, out, after, spare)
    p, after = port(t, p, names, OUTPUTS, 74, out, after, spare)
    p, after = attributes(t, p, names, out, after, spare)
    if p < 0:
        return -1, head
    duration, device, stream, waits, p = added(t, p, names, spare)
    if p < 0 or (device and nccl):
        return -1, head
    after = put_name(out, put(out, put(out, after, 82), 14), names, IS_CPU_OP)
    after = put(out, put(out, put(out, after, 216), 1), 1 - device)
    after = put_integer(out, after, names, STREAM, stream)
    tail = body
    if duration:
        tail = body - 1 - varint_size(duration)
        put_varint(out, put(out, tail, 56), duration)
    columns[row + ID], columns[row + PARENT], columns[row + WAITS] = identity, parent, waits
    columns[row + HEAD], columns[row + HEAD_SIZE] = head, o - head
    columns[row + TAIL], columns[row + TAIL_SIZE] = tail, after - tail
    columns[row + FLAGS], columns[row + KIND] = device * DEVICE, COMPUTE
    return p + 1, after


@inner
def object_end(t: Bytes, p: int) -> int:
    """The position after the object at the brace ``p``, whatever is in it; -1 if it does not end."""
    depth = 0
    while t[p] != 0:
        c = t[p]
        if c == 34:
            p += 1
            while t[p] != 34 and t[p] != 0:
                p += 2 if t[p] == 92 and t[p + 1] != 0 else 1
            if t[p] == 0:
                return -1
        elif c == 123 or c == 91:
            depth += 1
        elif c == 125 or c == 93:
            depth -= 1
            if depth == 0:
                return p + 1
        p += 1
    return -1


def scan(
    text: Bytes, at: int, names: Bytes, out: Bytes, spare: Bytes, columns: Words, capacity: int, state: Words
) -> int:
    """Read the nodes of an array from the first at ``at`` on; 1, or 0 if they are none or more than ``capacity``.

    What is found stands in ``state``: how many `NODES`, the position `REACHED` behind the array, bytes `USED` of
    ``out``, and the largest id `MAX_ID`. ``names`` are `NAMES`. Nodes left to Python (`LEFT_OUT`) have only the flag
    and where they stand.
    """
    p, o, nodes, highest = at, 0, 0, 0
    while text[p] == 123 and nodes < capacity:
        row = nodes * COLUMNS
        columns[row + BEGIN] = p
        q, o = node(text, p, names, out, o, spare, columns, row)
        if q < 0:
            q = object_end(text, p)
            columns[row + FLAGS] = LEFT_OUT
            if q < 0:
                return 0
        else:
            highest = max(highest, columns[row + ID])
        columns[row + END] = q
        nodes += 1
        p = skip(text, q)
        if text[p] == 93:
            state[NODES], state[REACHED], state[USED], state[MAX_ID] = nodes, p + 1, o, highest
            return 1
        p = comma(text, p)
        if p < 0:
            return 0
    return 0
