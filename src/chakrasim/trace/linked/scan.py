"""A linked trace's file as a document whose columns of integers are arrays: no Python object for each number.

`write_linked` puts every column on a line of its own, so lines are what this goes by. Anything laid out otherwise is
left to the JSON parser.
"""

from __future__ import annotations

import json
import mmap
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.trace.chakra.graph import Ints, Words

#: Bytes that are looked at together: few enough for the processor's cache.
_WINDOW = 1 << 16
#: Shorter lines go to the JSON parser.
_SHORT = 1 << 16
#: The longest name of a column, with what stands around it.
_NAME = 64
#: More digits do not fit in 64 bits.
_MOST_DIGITS = 19
#: Digits that are taken together: as many as there are bytes in a word.
_WORD = 8


def load(data: bytes | mmap.mmap) -> Any:
    """The document, as ``json.loads`` gives it but for long columns of integers, which are uint8, int32 or int64
    arrays (of no memory if all their numbers are equal). Raises ValueError for what is no JSON document."""
    columns: list[NDArray[Any]] = []
    text = bytearray()
    # What stands for columns in the rest of the document; no file can know it.
    mark = os.urandom(16).hex()
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
    """The integers between two places, or None for anything but integers between -2^63 and 2^63."""
    found: NDArray[Any] = np.empty((stop - begin) // 2 + 1, np.uint8)
    used = 0
    while begin < stop:
        end = stop if stop - begin <= _WINDOW else data.rfind(b",", begin, begin + _WINDOW)
        if end <= begin:
            return None
        some = _integers(data[begin:end])
        if some is None:
            return None
        kind = np.result_type(found.dtype, _kind_of(int(some.min()), int(some.max())))
        if kind != found.dtype:
            wider = np.empty(len(found), kind)
            wider[:used] = found[:used]
            found = wider
            del wider
        found[used : used + len(some)] = some
        used += len(some)
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


def _integers(text: bytes) -> Ints | None:
    """The integers between the commas of ``text``, or None for anything but integers between -2^63 and 2^63."""
    padded = np.frombuffer(bytes(_WORD) + text + b",", np.uint8)
    byte = padded[_WORD:]
    ends = np.flatnonzero(byte == ord(","))
    begins = np.append(0, ends[:-1] + 1)
    negative = byte[begins] == ord("-")
    begins += negative
    digits = ends - begins
    others = np.count_nonzero(byte - np.uint8(ord("0")) > 9) - len(ends) - np.count_nonzero(negative)
    if others or digits.min() < 1 or digits.max() > _MOST_DIGITS:
        return None
    if (byte[begins[digits > 1]] == ord("0")).any():  # JSON has no leading zeros
        return None
    values = _last_digits(padded, ends, digits)
    for taken in range(_WORD, int(digits.max()), _WORD):
        more = np.flatnonzero(digits > taken)
        values[more] += _last_digits(padded, ends[more] - taken, digits[more] - taken) * np.uint64(10**taken)
    if values.max() >= 1 << 63:
        return None
    numbers = values.view(np.int64)
    return np.where(negative, -numbers, numbers)


def _last_digits(padded: NDArray[np.uint8], ends: Ints, digits: Ints) -> Words:
    """What the last eight of so many digits, or all, say that end before ``ends`` (counted from the eighth byte on)."""
    words: NDArray[np.uint64] = np.ndarray(len(padded) - _WORD + 1, "<u8", padded, 0, (1,))[ends]
    # The first digits stand in the low bytes. What is in front of them becomes zeros; neighbours are joined, thrice.
    before = (_WORD - np.minimum(digits, _WORD)).astype(np.uint64) * np.uint64(8)
    words = ((words >> before) << before) & np.uint64(0x0F0F0F0F0F0F0F0F)
    words = (words * np.uint64(1 + (10 << 8)) >> np.uint64(8)) & np.uint64(0x00FF00FF00FF00FF)
    words = (words * np.uint64(1 + (100 << 16)) >> np.uint64(16)) & np.uint64(0x0000FFFF0000FFFF)
    return words * np.uint64(1 + (10000 << 32)) >> np.uint64(32)
