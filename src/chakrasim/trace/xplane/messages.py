"""Messages of an XSpace: their fields as columns, and what is in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.files.inputs import Bound
from chakrasim.trace.kineto.columns import Ints

NUMBER, BYTES = 0, 2
"""Wire types: integers; texts and messages."""
_ROW_BYTES: Final = 64  # of a field, with what is made of it on the way

Parts = tuple[NDArray[np.int32], Ints, Ints]
"""Texts or messages inside others: owner, begin and end of each."""


def tag(number: int, wire: int) -> int:
    """How `Fields.tag` has a field of this number and wire type."""
    return number << 3 | wire


@dataclass(frozen=True, eq=False)
class Fields:
    """The fields of ``count`` messages, in the order of the file; columns as `split_fields` writes them."""

    count: int
    owner: NDArray[np.int32]
    tag: NDArray[np.uint8]
    value: Ints
    stop: Ints

    def last(self, number: int, default: int = 0, wire: int = NUMBER) -> Ints:
        """int64[count]: the last such field of each message, as the official parser has it."""
        chosen = np.flatnonzero(self.tag == tag(number, wire))
        found = np.full(self.count, default, np.int64)
        found[self.owner[chosen]] = self.value[chosen]
        return found

    def parts(self, number: int) -> Parts:
        """Owner, begin and end of each such text or message."""
        chosen = np.flatnonzero(self.tag == tag(number, BYTES))
        return self.owner[chosen], self.value[chosen], self.stop[chosen]

    def span(self, number: int) -> tuple[Ints, Ints]:
        """int64[count], twice: begin and end of the last such text of each message; 0, 0 where there is none."""
        owner, first, last = self.parts(number)
        begin, end = np.zeros((2, self.count), np.int64)
        begin[owner], end[owner] = first, last
        return begin, end


class Decoder:
    """Decodes one file. Damage raises InputError unless ``lenient``; then ``damaged`` counts messages that are read up
    to their first fault."""

    def __init__(self, data: bytes, path: str, limit: Bound, lenient: bool) -> None:
        self.data, self.path, self.limit, self.lenient = data, path, limit, lenient
        self.buffer = np.frombuffer(data, np.uint8)
        self.damaged = 0

    def fields(self, begin: Ints, end: Ints) -> Fields:
        """The fields of messages. Raises InputError."""
        from chakrasim.trace.xplane.split import CODE, DAMAGED, PLACE, split_fields

        def run(room: int) -> tuple[int, list[NDArray[Any]], Ints]:
            faults = np.zeros(3, np.int64)
            rows = [np.empty(room, kind) for kind in (np.int32, np.uint8, np.int64, np.int64)]
            found = split_fields(self.buffer, begin, end, rows[0], rows[1], rows[2], rows[3], faults)
            return int(found), rows, faults

        begin, end = (np.ascontiguousarray(side, np.int64) for side in (begin, end))
        room, _, faults = run(0)
        if faults[DAMAGED] and not self.lenient:
            raise self._refused(int(faults[PLACE]), int(faults[CODE]))
        self.damaged += int(faults[DAMAGED])
        self.limit.check(_ROW_BYTES * room, self.path)
        _, rows, _ = run(room)
        return Fields(len(begin), *rows)

    def of(self, parts: Parts) -> tuple[NDArray[np.int32], Fields]:
        """The owners of messages, and their fields."""
        return parts[0], self.fields(parts[1], parts[2])

    def text(self, begin: int, end: int) -> str:
        """The text between two places."""
        return self.data[begin:end].decode("utf-8", "replace")

    def _refused(self, place: int, code: int) -> InputError:
        what = _FAULTS.get(code, "a field's tag is malformed")
        return InputError(
            f"the profile is damaged: {what}",
            file=self.path,
            place=f"byte {place}",
            found=f"bytes {self.data[place : place + 8].hex(' ')}",
            expected="an XSpace (tsl/profiler/protobuf/xplane.proto)",
            remedy="copy or record the file again, or read it leniently (--lenient) to keep what is intact",
        )


_FAULTS: Final = {-3: "a number is malformed", -4: "a field reaches beyond the end of its message"}
"""By the codes of the decoder (`chakrasim.trace.chakra.wire`)."""
