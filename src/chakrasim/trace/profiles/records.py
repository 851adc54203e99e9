"""Records of a JSON document, read one after another: rows of integers, texts by number."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.files.json_head import JsonHead, Unreadable
from chakrasim.files.storage import Stream
from chakrasim.notes import Notes
from chakrasim.trace.kineto.columns import Ints

FAULTS: Final = (LookupError, TypeError, ValueError, AttributeError, OverflowError)
"""What taking a record apart raises where it is not as its profiler writes it."""
_COPIES: Final = 4  # rows are held as they were read, as columns, by start, and in the trace


class Rows:
    """Rows of ``width`` integers, which ``take`` makes of a record; ``odd``: how many records it could not take."""

    def __init__(self, width: int, take: Callable[[Any], list[int]], file: Stream) -> None:
        self._width, self._take, self._file = width, take, file
        self._held = array("q")
        self.odd = 0

    def add(self, records: list[Any]) -> None:
        """Take records."""
        try:
            self._held.fromlist([value for record in records for value in self._take(record)])
        except FAULTS:
            for record in records:
                self._add(record)
        self._file.check(_COPIES * 8 * len(self._held), "what is in the file")

    def _add(self, record: Any) -> None:
        try:
            self._held.fromlist([_signed(value) for value in self._take(record)])
        except FAULTS:
            self.odd += 1

    def columns(self) -> Ints:
        """int64[width, rows]."""
        return np.ascontiguousarray(np.frombuffer(self._held, np.int64).reshape(-1, self._width).T)


def _signed(value: Any) -> int:
    """A whole number in 64 bits; of unsigned ones beyond 63 only equality counts."""
    if type(value) is not int or not -(1 << 63) <= value < 1 << 64:
        raise ValueError
    return value if value < 1 << 63 else value - (1 << 64)


@contextmanager
def document(path: str, expected: str, *, lenient: bool, notes: Notes) -> Iterator[tuple[JsonHead, Stream]]:
    """A JSON document, to be read from its beginning. Damage raises InputError; with ``lenient`` it ends the reading,
    with a warning: what came before it counts."""
    with Stream(path, expected) as file:
        try:
            text = JsonHead(file)
            yield text, file
            if text.peek():
                raise Unreadable("there is more after the document's end")
        except (Unreadable, RecursionError) as fault:
            found = file.fault or (str(fault) if isinstance(fault, Unreadable) else "it is nested too deep")
            error = InputError(
                "the profile is damaged",
                file=path,
                place=f"about byte {file.taken:,} of {file.size:,}",
                found=found,
                expected="one whole JSON document",
                remedy="create the file again, or read it leniently (--lenient) to keep what comes before",
            )
            if not lenient:
                raise error from None
            error.remedy = None
            notes.warn(f"{error}: what comes before it was kept")
