"""Filling rare columns: kernels append to one pool of all columns, which is sorted into the columns when it is full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.trace.kineto.columns import REAL, RareColumn

#: A REAL whose bits are ``start << 31 | length`` of its text in the window, to be converted before the window moves.
PENDING: Final = 255
_KINDS: Final = (np.int32, np.uint8, np.int64)  # rows, kinds, bits
_ROOM: Final = 1 << 17


class RareColumns:
    """``pool``: row int32, column uint8, kind uint8, bits int64 of each value; its fill level is the kernel's."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self.pool = self._new(_ROOM)
        self._settled = 0
        self._columns: dict[int, tuple[list[NDArray[Any]], int]] = {}

    @staticmethod
    def _new(room: int) -> tuple[NDArray[Any], ...]:
        return tuple(np.empty(room, kind) for kind in (np.int32, np.uint8, np.uint8, np.int64))

    def reserve(self, room: int) -> None:
        """Room for so many values in the pool, which must be empty."""
        if room > len(self.pool[0]):
            self.pool = self._new(2 * room)

    def settle(self, used: int, text: NDArray[np.uint8]) -> None:
        """Convert the numbers that the kernel left to Python, as long as their text is there."""
        _, _, kinds, bits = self.pool
        for at in (np.flatnonzero(kinds[self._settled : used] == PENDING) + self._settled).tolist():
            start, size = divmod(int(bits[at]), 1 << 31)
            bits[at] = np.float64(float(text[start : start + size].tobytes())).view(np.int64)
            kinds[at] = REAL
        self._settled = used

    def flush(self, used: int) -> None:
        """Move the pool's values to their columns."""
        rows, columns, kinds, bits = (array[:used] for array in self.pool)
        self._settled = 0
        order = np.argsort(columns, kind="stable")
        ends = np.cumsum(np.bincount(columns, minlength=len(self._names)))
        begin = 0
        for column, end in enumerate(ends.tolist()):
            if end > begin:
                part = order[begin:end]
                self._append(column, (rows[part], kinds[part], bits[part]))
            begin = end

    def _append(self, column: int, values: tuple[NDArray[Any], ...]) -> None:
        arrays, used = self._columns.get(column, ([np.empty(0, kind) for kind in _KINDS], 0))
        need = used + len(values[0])
        for at, value in enumerate(values):
            if need > len(arrays[at]):
                larger = np.empty(max(need, 2 * used), _KINDS[at])
                larger[:used] = arrays[at][:used]
                arrays[at] = larger
            arrays[at][used:need] = value
        self._columns[column] = (arrays, need)

    def build(self) -> dict[str, RareColumn]:
        """The columns that occur, by name; nothing may be added afterwards."""
        found = {}
        for column, (arrays, used) in sorted(self._columns.items()):
            for array in arrays:
                array.resize(used, refcheck=False)
            found[self._names[column]] = RareColumn(*arrays)
        return found
