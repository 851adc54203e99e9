"""A linked trace's file as a document whose columns of integers are arrays: no Python object for each number.

`write_linked` puts every column on a line of its own, so lines are what this goes by. Anything laid out otherwise is
left to the JSON parser.
"""

# mypy: disable-error-code="assignment"
# Compiled code knows one integer, of 64 bits; a checker sees Python's and NumPy's.

from __future__ import annotations

import json
import mmap
import secrets
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.jit import kernel

#: Bytes that are looked at together; shorter lines go to the JSON parser.
_WINDOW = 1 << 22
_SHORT = 1 << 16
#: The longest name of a column, with what stands around it.
_NAME = 64
#: Ten times a larger number, and a digit, may not fit in 64 bits.
_MOST = (2**63 - 1) // 10 - 1


def load(data: bytes | mmap.mmap) -> Any:
    """The document, as ``json.loads`` gives it but for long columns of integers, which are uint8, int32 or int64
    arrays (of no memory if all their numbers are equal). Raises ValueError for what is no JSON document."""
    columns: list[NDArray[Any]] = []
    text = bytearray()
    # What stands for columns in the rest of the document; no file can know it.
    mark = secrets.token_hex(16)
    at, size = 0, len(data)
    while at < size:
        end = data.find(b"\n", at)
        end = size if end < 0 else end + 1
        head = bytes(data[at : at + _NAME])
        begin = at + head.find(b":[") + 2
        stop = data.rfind(b"]", max(at, end - 8), end) if end - at > _SHORT else -1
        column = _column(data, begin, stop) if stop > begin > at + 1 else None
        if column is None:
            text += data[at:end]
        else:
            text += b'%s{"%s%d":0}%s' % (head[: begin - at - 1], mark.encode(), len(columns), data[stop + 1 : end])
            columns.append(column)
        if isinstance(data, mmap.mmap):
            _forget(data, at, end)
        at = end
    places = {f"{mark}{number}": column for number, column in enumerate(columns)}

    def put_back(entry: dict[str, Any]) -> Any:
        key = next(iter(entry)) if len(entry) == 1 else ""
        return places.pop(key) if key in places else entry

    return json.loads(text.decode("utf-8"), object_hook=put_back)


def _forget(data: mmap.mmap, begin: int, end: int) -> None:
    """Let go of the pages between two places of a file; they can be read again."""
    begin -= begin % mmap.PAGESIZE
    if hasattr(data, "madvise") and end - begin >= _SHORT:
        data.madvise(mmap.MADV_DONTNEED, begin, end - begin)


def _column(data: bytes | mmap.mmap, begin: int, stop: int) -> NDArray[Any] | None:
    """The integers between two places, or None for anything but integers (those next to the limits of 64 bits too)."""
    found: NDArray[Any] = np.empty((stop - begin) // 2 + 1, np.uint8)
    numbers = np.empty(_WINDOW, np.int64)
    used = 0
    while begin < stop:
        end = stop if stop - begin <= _WINDOW else data.rfind(b",", begin, begin + _WINDOW)
        if end <= begin:
            return None
        count = _parse(np.frombuffer(bytearray(data[begin:end]), np.uint8), numbers)
        if count < 0:
            return None
        some = numbers[:count]
        kind = np.result_type(found.dtype, _kind_of(int(some.min()), int(some.max())))
        if kind != found.dtype:
            wider = np.empty(len(found), kind)
            wider[:used] = found[:used]
            found = wider
            del wider
        found[used : used + count] = some
        used += count
        if isinstance(data, mmap.mmap):
            _forget(data, begin, end)
        begin = end + 1
    found.resize(used, refcheck=False)
    equal = all((found[at : at + _WINDOW] == found[0]).all() for at in range(0, used, _WINDOW))
    return np.broadcast_to(found[:1].copy(), (used,)).reshape(used) if equal else found


def _kind_of(low: int, high: int) -> Any:
    """The smallest of three types that holds numbers from ``low`` to ``high``."""
    if low >= 0 and high < 2**8:
        return np.uint8
    return np.int32 if low >= -(2**31) and high < 2**31 else np.int64


@kernel
def _parse(text: Any, numbers: Any) -> int:
    count = 0
    value = 0
    digits = 0
    negative = False
    for place in range(len(text) + 1):
        byte = 44 if place == len(text) else np.int64(text[place])
        if 48 <= byte <= 57:
            # JSON has no leading zeros.
            if value > _MOST or (digits > 0 and value == 0):
                return -1
            value = 10 * value + byte - 48
            digits += 1
        elif byte == 45 and digits == 0 and not negative:
            negative = True
        elif byte == 44 and digits > 0:
            numbers[count] = -value if negative else value
            count += 1
            value = 0
            digits = 0
            negative = False
        else:
            return -1
    return count
