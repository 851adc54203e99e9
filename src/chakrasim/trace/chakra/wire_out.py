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

#: Longer texts are copied in blocks of this size, the last of which overlaps the one before it.
_BLOCK = 32
_DELIMITED = 2


class Messages:
    """``count`` messages that grow; ``size`` int64[count] is how many bytes each has.

    Fields are added in the order in which they stand in a message. ``owners``, ascending, are the messages that a field
    is added to; one that stands there more than once gets it as often.
    """

    def __init__(self, count: int) -> None:
        self.size = np.zeros(count, np.int64)
        self._writers: list[Callable[[Bytes, Ints], None]] = []

    def numbers(self, field: int, owners: Ints, values: Words) -> None:
        """Add varints."""
        sizes, tag = varint_sizes(values), field << 3
        places = self._take(owners, sizes + _tag_size(tag))

        def write(out: Bytes, begins: Ints) -> None:
            at = begins[owners] + places
            _put_varints(out, _put_tag(out, at, tag), values, sizes)

        self._writers.append(write)

    def words(self, field: int, owners: Ints, values: Words, width: int) -> None:
        """Add numbers of a fixed ``width``, 4 or 8 bytes."""
        tag = field << 3 | (1 if width == 8 else 5)
        places = self._take(owners, np.full(len(owners), width + _tag_size(tag)))

        def write(out: Bytes, begins: Ints) -> None:
            _put_words(out, _put_tag(out, begins[owners] + places, tag), values, width)

        self._writers.append(write)

    def texts(self, field: int, owners: Ints, table: StringTable, indices: Ints | NDArray[np.int32]) -> None:
        """Add entries of a table of strings."""
        tag, froms = field << 3 | _DELIMITED, table.offsets[indices]
        lengths = table.offsets[indices + 1] - froms
        prefixes = varint_sizes(lengths)
        places = self._take(owners, lengths + prefixes + _tag_size(tag))

        def write(out: Bytes, begins: Ints) -> None:
            at = _put_tag(out, begins[owners] + places, tag)
            _put_varints(out, at, lengths, prefixes)
            _copy(out, at + prefixes, table.blob, froms, lengths)

        self._writers.append(write)

    def nested(self, field: int, owners: Ints, inner: Messages) -> None:
        """Add a message each; ``inner`` has as many as there are owners, and is complete."""
        tag, prefixes = field << 3 | _DELIMITED, varint_sizes(inner.size)
        places = self._take(owners, inner.size + prefixes + _tag_size(tag))

        def write(out: Bytes, begins: Ints) -> None:
            at = _put_tag(out, begins[owners] + places, tag)
            _put_varints(out, at, inner.size, prefixes)
            inner._write(out, at + prefixes)

        self._writers.append(write)

    def packed(self, field: int, counts: Ints, values: Words, width: int = 0) -> None:
        """Add a list of numbers to each message that has some: ``counts`` int64[count], ``values`` of all, end to end.
        They are varints, or with a ``width`` as in `words`."""
        owners = np.flatnonzero(counts)
        inner = Messages(len(owners))
        inner._bare(np.repeat(np.arange(len(owners)), counts[owners]), values, width)
        self.nested(field, owners, inner)

    def framed(self) -> memoryview:
        """All messages, each behind its size."""
        prefixes = varint_sizes(self.size)
        ends = np.cumsum(self.size + prefixes)
        out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
        begins = ends - self.size
        _put_varints(out, begins - prefixes, self.size, prefixes)
        self._write(out, begins)
        return out.data

    def _bare(self, owners: Ints, values: Words, width: int) -> None:
        """Add numbers without tags."""
        sizes = np.full(len(owners), width) if width else varint_sizes(values)
        places = self._take(owners, sizes)

        def write(out: Bytes, begins: Ints) -> None:
            at = begins[owners] + places
            if width:
                _put_words(out, at, values, width)
            else:
                _put_varints(out, at, values, sizes)

        self._writers.append(write)

    def _write(self, out: Bytes, begins: Ints) -> None:
        """Put every message where it begins."""
        for write in self._writers:
            write(out, begins)

    def _take(self, owners: Ints, sizes: Ints) -> Ints:
        """Make the owners' messages so much longer; returns where in its message each field begins."""
        if not len(owners):
            return sizes
        first = np.flatnonzero(np.append(True, owners[1:] != owners[:-1]))
        places = self.size[owners]
        if len(first) == len(owners):
            self.size[owners] += sizes
            return places
        before = np.cumsum(sizes) - sizes
        self.size[owners[first]] += np.add.reduceat(sizes, first)
        return places + before - np.repeat(before[first], np.diff(np.append(first, len(owners))))


def varint_sizes(values: Words | Ints) -> Ints:
    """How many bytes each number takes; the numbers are not negative."""
    sizes = np.ones(len(values), np.int64)
    top, limit = int(values.max(initial=0)), 1 << 7
    while limit <= top:
        sizes += values >= values.dtype.type(limit)
        limit <<= 7
    return sizes


def _tag_size(tag: int) -> int:
    return 1 if tag < 1 << 7 else 2


def _put_tag(out: Bytes, at: Ints, tag: int) -> Ints:
    """Write a tag; returns what stands behind."""
    if tag < 1 << 7:
        out[at] = tag
        return at + 1
    out[at] = tag & 0x7F | 0x80
    out[at + 1] = tag >> 7
    return at + 2


def _put_varints(out: Bytes, at: Ints, values: Words | Ints, sizes: Ints) -> None:
    seven = values.dtype.type(7)
    while len(at):
        more = sizes > 1
        out[at] = values.astype(np.uint8) & np.uint8(0x7F) | more.view(np.uint8) << np.uint8(7)
        at, values, sizes = at[more] + 1, values[more] >> seven, sizes[more] - 1


def _put_words(out: Bytes, at: Ints, values: Words, width: int) -> None:
    if len(at):
        _windows(out, width)[at] = values.astype(f"<u{width}").view((np.void, width))


def _copy(out: Bytes, to: Ints, blob: Bytes, froms: Ints, lengths: Ints) -> None:
    """Copy ``lengths`` bytes each from places in ``blob`` to places in ``out``."""
    counts = np.bincount(np.minimum(lengths, _BLOCK), minlength=_BLOCK + 1)
    for length in np.flatnonzero(counts[1:_BLOCK]) + 1:
        which = np.flatnonzero(lengths == length)
        _windows(out, int(length))[to[which]] = _windows(blob, int(length))[froms[which]]
    which = np.flatnonzero(lengths >= _BLOCK)
    blocks = -(-lengths[which] // _BLOCK)
    place = np.arange(int(blocks.sum())) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    owner = np.repeat(which, blocks)
    place = np.minimum(place * _BLOCK, lengths[owner] - _BLOCK)
    if len(owner):
        _windows(out, _BLOCK)[to[owner] + place] = _windows(blob, _BLOCK)[froms[owner] + place]


def _windows(array: Bytes, width: int) -> NDArray[Any]:
    """All runs of ``width`` bytes of an array, each as one value."""
    return np.ndarray(len(array) - width + 1, np.dtype((np.void, width)), array, 0, (1,))
