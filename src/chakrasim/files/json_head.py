"""The beginning of a JSON document, plain or gzip, read only as far as it is looked at."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from chakrasim.files.signatures import BOM
from chakrasim.files.storage import Stream

MOST = 1 << 22
_STEP = 1 << 16
_BLANK = " \t\r\n"
_BETWEEN = re.compile(r"\{\s*,\s*(?=\})")  # two objects of a list, read backwards
_ALONE = 256


class Unreadable(ValueError):
    """The text is no JSON, or ends early."""


class JsonHead:
    """Text of a file that grows while a value does not fit into what has been read.

    A value longer than MOST characters is Unreadable.
    """

    def __init__(self, file: Stream) -> None:
        self._file = file
        self._scanner = json.JSONDecoder()
        self._pending = b""
        self._text = ""
        self.head = self._read(_STEP)
        self._ended = not self.head
        self._take(self.head.removeprefix(BOM))
        self.at = 0

    def _read(self, size: int) -> bytes:
        """The next bytes, as many as asked for if there are so many."""
        room = memoryview(bytearray(size))
        used = 0
        while used < size and (got := self._file.fill(room[used:])):
            used += got
        if not used and self._file.fault:
            raise Unreadable(f"the gzip data are damaged ({self._file.fault})")
        return bytes(room[:used])

    def _take(self, data: bytes) -> None:
        """Append bytes; a character cut in two waits for its rest."""
        data = self._pending + data
        cut = len(data)
        while cut and len(data) - cut < 4 and data[cut - 1] & 0xC0 == 0x80:
            cut -= 1
        if cut and data[cut - 1] >= 0xC0:
            cut -= 1
        else:
            cut = len(data)
        self._text += data[:cut].decode("utf-8", "replace")
        self._pending = data[cut:]

    def more(self) -> bool:
        """Read on, twice as much as is held; False at the end of the file."""
        if self._ended:
            return False
        if len(self._text) - self.at > MOST:
            raise Unreadable("one value fills more than is looked at")
        self._text = self._text[self.at :]
        self.at = 0
        data = self._read(max(_STEP, len(self._text)))
        self._ended = not data
        self._take(data)
        return not self._ended

    def peek(self) -> str:
        """The next character that is no blank, "" at the end."""
        while True:
            while self.at < len(self._text) and self._text[self.at] in _BLANK:
                self.at += 1
            if self.at < len(self._text):
                return self._text[self.at]
            if not self.more():
                return ""

    def expect(self, *characters: str) -> str:
        """Step over the next character, which must be one of these."""
        found = self.peek()
        if not found or found not in characters:
            raise Unreadable(f"expected {' or '.join(characters)}, found {found or 'the end'}")
        self.at += 1
        return found

    def value(self) -> Any:
        """The next value, whole."""
        self.peek()
        while True:
            try:
                value, end = self._scanner.raw_decode(self._text, self.at)
            except (ValueError, RecursionError):
                if not self.more():
                    raise Unreadable("a value is no JSON or ends early") from None
                continue
            if end == len(self._text) and isinstance(value, (int, float)) and self.more():
                continue
            self.at = end
            return value

    def members(self) -> Iterator[str]:
        """The keys of the object that begins here; the caller takes the value after each key."""
        for _ in self.entries("{", "}"):
            key = self.value()
            if not isinstance(key, str):
                raise Unreadable("a key is no string")
            self.expect(":")
            yield key

    def elements(self) -> Iterator[Any]:
        """The values of the array that begins here."""
        for _ in self.entries("[", "]"):
            yield self.value()

    def blocks(self) -> Iterator[list[Any]]:
        """The values of the array that begins here, many at once where they are objects."""
        alone = 0  # so many are taken one by one where something else than a list of objects comes next
        for _ in self.entries("[", "]"):
            cut = None if alone else _BETWEEN.search(self._text[: self.at : -1])
            values, alone = None, max(0, alone - 1)
            if cut:
                end = len(self._text) - cut.end()
                try:
                    values, self.at = json.loads(f"[{self._text[self.at : end]}]"), end
                except (ValueError, RecursionError):
                    alone = _ALONE
            yield [self.value()] if values is None else values

    def skip(self) -> None:
        """Step over the next value, however large an object or array at its top is."""
        opening = self.peek()
        if opening == "{":
            for _ in self.members():
                self.skip()
        elif opening == "[":
            for _ in self.elements():
                pass
        else:
            self.value()

    def entries(self, opening: str, closing: str) -> Iterator[None]:
        """Once for each entry of what begins here; the caller takes the entry."""
        self.expect(opening)
        if self.peek() == closing:
            self.at += 1
            return
        yield
        while self.expect(",", closing) == ",":
            yield
