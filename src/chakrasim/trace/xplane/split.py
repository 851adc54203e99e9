"""Compiled: messages of Protocol Buffers to rows, one for each field, a level at a time."""

# mypy: disable-error-code="assignment"
# Compiled code knows one integer, of 64 bits; a checker sees Python's and NumPy's.

from __future__ import annotations

from typing import Any

import numpy as np

from chakrasim.jit import kernel
from chakrasim.trace.chakra.wire import _MAX_SIZE, BAD_END, BAD_TAG, _fixed, _varint

# Slots of ``faults``: messages that are damaged, where the first of these is, and the decoder's code of it.
DAMAGED, PLACE, CODE = range(3)
#: A field that is passed over: its number is beyond those that anybody asks for.
OTHER = 0


@kernel
def split_fields(buf: Any, begin: Any, end: Any, owner: Any, tag: Any, value: Any, stop: Any, faults: Any) -> Any:
    """How many fields the messages ``begin[i]`` to ``end[i]`` have; they are written too, if the arrays have room.

    ``owner``: the message; ``tag``: 8 times the field's number (below 32) and its wire type, else OTHER; ``value``:
    the number's 64 bits, or where the bytes begin, which end at ``stop``. A damaged message ends at its first fault; a
    field that reaches beyond it is cut off there, which is a fault too. Groups, which no schema of today has, are
    faults.
    """
    rows = 0
    for message in range(len(begin)):
        at, last = begin[message], end[message]
        while at < last:
            here = at
            word, at = _varint(buf, at, last, 5)
            wire = np.int64(word) & 7
            number = np.int64(word) >> 3
            found, until, code = np.int64(0), np.int64(0), np.int64(0)
            if at < 0:
                code = at
            elif number == 0 or number > 536870911:
                code = BAD_TAG
            elif wire == 0:
                word, at = _varint(buf, at, last, 10)
                found = np.int64(word)
                code = at if at < 0 else 0
            elif wire == 2:
                word, at = _varint(buf, at, last, 5)
                if at < 0 or word > _MAX_SIZE:
                    code = at if at < 0 else BAD_END
                else:
                    found, until = at, at + np.int64(word)
                    at = until
                    if until > last:
                        until, at, faults[CODE] = last, last, BAD_END
                        faults[PLACE] = here if faults[DAMAGED] == 0 else faults[PLACE]
                        faults[DAMAGED] += 1
            elif (wire == 1 or wire == 5) and at + (8 if wire == 1 else 4) <= last:
                width = 8 if wire == 1 else 4
                found = np.int64(_fixed(buf, at, width))
                at += width
            else:
                code = BAD_END if wire == 1 or wire == 5 else BAD_TAG
            if code < 0:
                faults[PLACE] = here if faults[DAMAGED] == 0 else faults[PLACE]
                faults[CODE] = code if faults[DAMAGED] == 0 else faults[CODE]
                faults[DAMAGED] += 1
                break
            if rows < len(owner):
                owner[rows], value[rows], stop[rows] = message, found, until
                tag[rows] = (number << 3 | wire) if number < 32 else OTHER
            rows += 1
    return rows
