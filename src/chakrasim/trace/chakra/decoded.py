"""The arrays that decoding fills: sized by estimate, enlarged when a message might not fit, cut to size at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.files.inputs import Bound
from chakrasim.trace.chakra import wire
from chakrasim.trace.chakra.graph import Attributes, Csr, StringTable, Trace

# Arrays of `wire.decode_frames` after ``st``: dtype, the counter that bounds it, entries beyond the count, zeroed.
_LAYOUT: tuple[tuple[type, int, int, bool], ...] = (
    (np.uint64, wire.FRAMES, 0, False),  # ids
    (np.uint64, wire.FRAMES, 0, False),  # start
    (np.uint64, wire.FRAMES, 0, False),  # duration
    (np.int32, wire.FRAMES, 0, False),  # names
    (np.int32, wire.FRAMES, 0, False),  # types
    (np.int32, wire.FRAMES, 0, True),  # inputs, three columns
    (np.int32, wire.FRAMES, 0, True),  # outputs, three columns
    (np.int64, wire.FRAMES, 0, False),  # ctrl_ends
    (np.uint64, wire.CTRL, 0, False),
    (np.int64, wire.FRAMES, 0, False),  # data_ends
    (np.uint64, wire.DATA, 0, False),
    (np.int64, wire.FRAMES, 0, False),  # attr_ends
    (np.int32, wire.ATTRS, 0, False),  # attr_name
    (np.uint8, wire.ATTRS, 0, False),  # attr_kind
    (np.uint64, wire.ATTRS, 0, False),  # attr_bits
    (np.int32, wire.ATTRS, 0, True),  # attr_doc
    (np.int64, wire.LISTS, 1, False),  # list_offsets
    (np.uint64, wire.ITEMS, 0, False),
    (np.int64, -1, 0, False),  # hash table
    (np.int64, wire.STRINGS, 1, False),  # string_offsets
    (np.uint8, wire.BLOB, 0, False),
)
_IO_COLUMNS = (5, 6)
_NAMES, _LIST_OFFSETS, _TABLE, _STRING_OFFSETS, _BLOB = 3, 16, 18, 19, 20
# Bytes of file that one entry of each counter takes in a usual trace; only a first guess.
_BYTES_PER_ENTRY = {
    wire.FRAMES: 64,
    wire.CTRL: 64,
    wire.DATA: 32,
    wire.ATTRS: 16,
    wire.LISTS: 256,
    wire.ITEMS: 128,
    wire.STRINGS: 100,
    wire.BLOB: 8,
}
_SMALL_BYTES = 2048  # up to here there is room for whatever the bytes may hold, so one call suffices

State = NDArray[np.int64]


class Columns:
    """The decoder's arrays and its state for one file's bytes."""

    def __init__(self, data: NDArray[np.uint8], limit: Bound, source: str) -> None:
        self.data = data
        self._limit, self._source = limit, source
        self.state: State = np.zeros(wire.STATE_SIZE, np.int64)
        size = len(data)
        for counter, width in _BYTES_PER_ENTRY.items():
            guess = size + 4 if size <= _SMALL_BYTES else size // width + 64
            self.state[wire.ROOM + counter] = guess
        limit.check(self._bytes(), source, "the trace")
        self.arrays = [self._new(slot) for slot in range(len(_LAYOUT))]
        self.arrays[_LIST_OFFSETS][0] = 0
        self.arrays[_STRING_OFFSETS][:2] = 0  # the empty string is index 0
        self.arrays[_TABLE][(wire._TEXT_SEED ^ wire._TEXT_SEED >> 15) & self._mask()] = wire._TEXT_SEED << 31
        self.state[wire.STRINGS] = 1

    def _room(self, counter: int) -> int:
        return int(self.state[wire.ROOM + counter])

    def _new(self, slot: int) -> NDArray[Any]:
        dtype, counter, extra, zeroed = _LAYOUT[slot]
        if slot == _TABLE:
            return np.full(self._mask() + 1, -1, dtype)
        shape = (self._room(counter), 3) if slot in _IO_COLUMNS else (self._room(counter) + extra,)
        return np.zeros(shape, dtype) if zeroed else np.empty(shape, dtype)

    def _mask(self) -> int:
        """Size of the hash table, less one: a power of two that leaves at least half of it free."""
        return (1 << (2 * self._room(wire.STRINGS)).bit_length()) - 1

    def _bytes(self) -> int:
        """The memory that the arrays take when there is the room that the state says."""
        widths = (
            np.dtype(kind).itemsize * (3 if slot in _IO_COLUMNS else 1) for slot, (kind, *_) in enumerate(_LAYOUT)
        )
        rooms = (self._mask() + 1 if counter < 0 else self._room(counter) for _, counter, _, _ in _LAYOUT)
        return len(self.data) + sum(width * room for width, room in zip(widths, rooms, strict=True))

    def decode(self) -> int:
        """Decode all messages; returns wire.DONE or a code of damage (the state then tells what is intact)."""
        while True:
            status = wire.decode_frames(self.data, self.state, *self.arrays)
            if status != wire.GROW:
                return int(status)
            self._grow()

    def version(self) -> str:
        """The schema version that the metadata state."""
        start, stop = self.arrays[_STRING_OFFSETS][self.arrays[_NAMES][0] :][:2] if self.state[wire.FRAMES] else (0, 0)
        return bytes(self.arrays[_BLOB][start:stop]).decode("utf-8")

    def _grow(self) -> None:
        done, need = int(self.state[wire.POS]), int(self.state[wire.NEED])
        larger = set()
        for counter in _BYTES_PER_ENTRY:
            used, room = int(self.state[counter]), self._room(counter)
            wanted = used + (1 if counter == wire.FRAMES else need) + 4
            if wanted > room:
                expected = used * len(self.data) // done if done else 0
                self.state[wire.ROOM + counter] = max(wanted, expected + expected // 20, room * 5 // 4)
                larger.add(counter)
        self._limit.check(self._bytes(), self._source, "the trace")
        for slot, (_, counter, extra, _) in enumerate(_LAYOUT):
            if counter in larger:
                room = self._room(counter)
                self.arrays[slot].resize((room, 3) if slot in _IO_COLUMNS else (room + extra,), refcheck=False)
        old = self.arrays[_TABLE]
        if len(old) <= self._mask():
            self.arrays[_TABLE] = self._new(_TABLE)
            wire.refill(old, self.arrays[_TABLE])

    def _cut(self) -> None:
        """Give back what was not used."""
        self.arrays[_TABLE] = np.empty(0, np.int64)
        for slot, (_, counter, extra, _) in enumerate(_LAYOUT):
            if slot != _TABLE:
                used = int(self.state[counter]) + extra
                self.arrays[slot].resize((used, 3) if slot in _IO_COLUMNS else (used,), refcheck=False)

    def _io(self, slot: int) -> NDArray[np.int32]:
        column = self.arrays[slot][1:]
        if not self.state[wire.HAS_IO]:
            return np.broadcast_to(np.int32(-1), column.shape)
        column -= 1
        return column

    def trace(self, source: str) -> Trace:
        """The decoded trace; the arrays are its own from here on."""
        self._cut()
        (ids, start, duration, names, types, _, _, ctrl_offsets, ctrl, data_offsets, data,
         attr_offsets, *attrs, list_offsets, items, _, string_offsets, blob) = self.arrays  # fmt: skip
        first = int(attr_offsets[0])
        if not self.state[wire.HAS_DOC]:
            attrs[3] = np.broadcast_to(np.int32(0), attrs[3].shape)
        if first:
            attr_offsets -= first
        strings = StringTable(blob, string_offsets)
        return Trace(
            ids=ids[1:],
            types=types[1:],
            name_index=names[1:],
            start_micros=start[1:],
            duration_micros=duration[1:],
            ctrl_deps=Csr(ctrl_offsets, ctrl),
            data_deps=Csr(data_offsets, data),
            inputs=self._io(_IO_COLUMNS[0]),
            outputs=self._io(_IO_COLUMNS[1]),
            attrs=Attributes(attr_offsets, *(column[first:] for column in attrs)),
            lists=Csr(list_offsets, items),
            strings=strings,
            version=strings[int(names[0])],
            meta=Attributes(np.array([0, first], np.int64), *(column[:first] for column in attrs)),
            source=source,
        )
