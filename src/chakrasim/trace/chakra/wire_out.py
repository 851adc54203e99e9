"""Protobuf messages side by side: many of one form are encoded together, a field of all of them at a time.

First the messages are put together (`Messages`), which gives their sizes; then all goes to its place in one array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.trace.chakra.graph import Ints, StringTable, Words

Bytes = NDArray[np.uint8]
Indices = Ints | NDArray[np.int32]

VARINT, WORD8, DELIMITED, WORD4 = 0, 1, 2, 5
"""How a field is written, as its tag says."""
#: Longer texts are copied in blocks of this size, the last of which overlaps the one before it.
_BLOCK = 32


def tag(field: int, form: int) -> bytes:
    """What stands in front of a field."""
    return varint(field << 3 | form)


def text_field(field: int, text: bytes) -> bytes:
    """A whole field with a text."""
    return tag(field, DELIMITED) + varint(len(text)) + text


def varint(value: int) -> bytes:
    """A number that is not negative."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


class Messages:
    """``count`` messages that grow; ``size`` int64[count] is how many bytes each has.

    Fields are added in the order in which they stand in a message. ``owners``, ascending, are the messages that get a
    field, one that stands there more than once as often. Each begins with ``head``, its tag.
    """

    def __init__(self, count: int) -> None:
        self.size = np.zeros(count, np.int64)
        self._writers: list[Callable[[Bytes, Ints], None]] = []

    def constant(self, head: bytes, owners: Ints) -> None:
        """Add the head alone."""
        self._add(head, owners, np.zeros(len(owners), np.int64), lambda out, at: None)

    def numbers(self, head: bytes, owners: Ints, values: Words) -> None:
        """Add varints."""
        sizes = varint_sizes(values)
        self._add(head, owners, sizes, lambda out, at: _put_varints(out, at, values, sizes))

    def words(self, head: bytes, owners: Ints, values: Words, width: int) -> None:
        """Add numbers of ``width`` bytes, 4 or 8."""
        self._add(head, owners, np.full(len(owners), width), lambda out, at: _put_words(out, at, values, width))

    def texts(self, head: bytes, owners: Ints, table: StringTable, indices: Indices) -> None:
        """Add entries of a table of strings."""
        froms = table.offsets[indices]
        lengths = table.offsets[indices + 1] - froms
        prefixes = varint_sizes(lengths)

        def write(out: Bytes, at: Ints) -> None:
            _put_varints(out, at, lengths, prefixes)
            _copy(out, at + prefixes, table.blob, froms, lengths)

        self._add(head, owners, prefixes + lengths, write)

    def nested(self, head: bytes, owners: Ints, inner: Messages) -> None:
        """Add messages, which are complete: ``inner`` has one for each of ``owners``."""
        prefixes = varint_sizes(inner.size)

        def write(out: Bytes, at: Ints) -> None:
            _put_varints(out, at, inner.size, prefixes)
            inner._write(out, at + prefixes)

        self._add(head, owners, prefixes + inner.size, write)

    def packed(self, head: bytes, counts: Ints, values: Words, width: int = 0) -> None:
        """Add a list of numbers to each message that has some: ``counts`` int64[count], ``values`` of all, end to end.
        They are varints, or of ``width`` bytes."""
        owners = np.flatnonzero(counts)
        inner = Messages(len(owners))
        lists = np.repeat(np.arange(len(owners)), counts[owners])
        if width:
            inner.words(b"", lists, values, width)
        else:
            inner.numbers(b"", lists, values)
        self.nested(head, owners, inner)

    def framed(self, head: bytes = b"") -> memoryview:
        """All messages, each behind ``head`` and its size."""
        prefixes = varint_sizes(self.size)
        ends = np.cumsum(len(head) + prefixes + self.size)
        out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
        if head and len(out):
            _windows(out, len(head))[ends - self.size - prefixes - len(head)] = np.void(head)
        _put_varints(out, ends - self.size - prefixes, self.size, prefixes)
        self._write(out, ends - self.size)
        return out.data

    def _write(self, out: Bytes, begins: Ints) -> None:
        """Put every message where it begins."""
        for write in self._writers:
            write(out, begins)

    def _add(self, head: bytes, owners: Ints, sizes: Ints, write: Callable[[Bytes, Ints], None]) -> None:
        """Add fields of ``sizes`` bytes behind their heads, which ``write`` puts where they begin."""
        if not len(owners):
            return
        places = self._take(owners, sizes + len(head))

        def put(out: Bytes, begins: Ints) -> None:
            at = begins[owners] + places
            if head:
                _windows(out, len(head))[at] = np.void(head)
                at += len(head)
            write(out, at)

        self._writers.append(put)

    def _take(self, owners: Ints, sizes: Ints) -> Ints:
        """Make messages so much longer; returns where in its message each of the new fields begins."""
        places = self.size[owners]
        another = owners[1:] != owners[:-1]
        if another.all():
            self.size[owners] = places + sizes
            return places
        first = np.flatnonzero(np.append(True, another))
        counts = np.diff(np.append(first, len(owners)))
        ends = np.cumsum(sizes)
        before = ends - sizes
        self.size[owners[first]] += ends[first + counts - 1] - before[first]
        return places + before - np.repeat(before[first], counts)


def varint_sizes(values: Words | Ints) -> Ints:
    """How many bytes each number takes; none is negative."""
    sizes = np.ones(len(values), np.int64)
    top, limit = int(values.max(initial=0)), 1 << 7
    while limit <= top:
        sizes += values >= values.dtype.type(limit)
        limit <<= 7
    return sizes


def _put_varints(out: Bytes, at: Ints, values: Words | Ints, sizes: Ints) -> None:
    seven = values.dtype.type(7)
    more = sizes > 1
    while more.any():
        out[at] = values.astype(np.uint8) | (more.view(np.uint8) << np.uint8(7))
        rest = np.flatnonzero(more)
        at, values, sizes = at[rest] + 1, values[rest] >> seven, sizes[rest] - 1
        more = sizes > 1
    out[at] = values


def _put_words(out: Bytes, at: Ints, values: Words, width: int) -> None:
    _windows(out, width)[at] = values.astype(f"<u{width}").view((np.void, width))


def _copy(out: Bytes, to: Ints, blob: Bytes, froms: Ints, lengths: Ints) -> None:
    """Copy ``lengths`` bytes each from places in ``blob`` to places in ``out``."""
    counts = np.bincount(np.minimum(lengths, _BLOCK))
    for length in (np.flatnonzero(counts[1:_BLOCK]) + 1).tolist():
        some = np.flatnonzero(lengths == length)
        _windows(out, length)[to[some]] = _windows(blob, length)[froms[some]]
    if len(counts) > _BLOCK:
        some = np.flatnonzero(lengths >= _BLOCK)
        blocks = -(-lengths[some] // _BLOCK)
        owner = np.repeat(some, blocks)
        number = np.arange(len(owner)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
        place = np.minimum(number * _BLOCK, lengths[owner] - _BLOCK)
        _windows(out, _BLOCK)[to[owner] + place] = _windows(blob, _BLOCK)[froms[owner] + place]


def _windows(array: Bytes, width: int) -> NDArray[Any]:
    """All runs of ``width`` bytes of an array, each as one value."""
    return np.ndarray(len(array) - width + 1, np.dtype((np.void, width)), array, 0, (1,))
