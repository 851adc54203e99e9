"""Driving the compiled scanner over a file: windows, the document's other members, damage."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.files import storage
from chakrasim.files.signatures import BOM
from chakrasim.notes import Notes
from chakrasim.trace import recognise
from chakrasim.trace.chakra.graph import StringTable
from chakrasim.trace.json import tokens as js
from chakrasim.trace.json.scan import scan
from chakrasim.trace.json.values import BYTES, HASHES, STRINGS

#: How much of a file is held at a time (more if a record is larger).
WINDOW_BYTES = 1 << 20
_GUARD: Final = 16  # zeros behind the text, so that the scanner need not look out for its end at every byte
_TOKENS: Final = 1 << 14
_HEAD: Final = 4096

_FAULTS: Final = {
    js.BAD_END: ("the file ends in the middle of {record}", None),
    js.BAD_KEY: ("{record} is malformed", "a name in double quotes"),
    js.BAD_COLON: ("{record} is malformed", "a colon"),
    js.BAD_VALUE: ("{record} is malformed", "a value"),
    js.BAD_NUMBER: ("{record} is malformed", "a number"),
    js.BAD_CONTROL: ("{record} has a control character in a text", "it to be escaped"),
    js.BAD_ESCAPE: ("{record} has a malformed escape in a text", 'one of \\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX'),
    js.BAD_COMMA: ("{record} is malformed: a comma is missing or too many", "one comma between two entries"),
    js.BAD_CLOSE: ("{record} is malformed: its brackets do not match", "another entry, or the matching bracket"),
    js.BAD_DEPTH: ("{record} is nested too deeply", f"at most {js.MAX_DEPTH} levels"),
    js.BAD_SIZE: ("{record} does not end", f"at most {js.MAX_RECORD_BYTES} bytes"),
    js.BAD_BEHIND: ("the file goes on after its end", "one JSON document"),
}
_REMEDY: Final = "create the file again, or read it leniently (--lenient) to keep what is intact"


@dataclass(frozen=True)
class Format:
    """What is read: how its records and whole are called, its vocabulary."""

    record: str
    expected: str
    vocabulary: NDArray[np.int16]

    @property
    def name(self) -> str:
        """The record without its article."""
        return self.record.split()[-1]


def vocabulary(
    levels: list[tuple[str, ...]], enters: dict[str, int], listed: int, around: list[int], needed: str
) -> NDArray[np.int16]:
    """The scanner's array for the keys of each level ("": the token that ends it)."""
    names = [(name.encode(), level) for level, keys in enumerate(levels) for name in keys]
    words = np.zeros(js.NAMES, np.int16)
    words[js.CLOSING : js.OFFSETS] = -1
    words[js.TABLE : js.NAMES] = -1
    words[js.AROUND : js.AROUND + len(levels)] = around
    if listed:
        words[js.LISTED + listed] = 1
    blob = b"".join(name for name, _ in names)
    assert len(names) <= js.MAX_KEYS and len(levels) <= 8
    for key, (name, level) in enumerate(names):
        words[js.OFFSETS + key + 1] = words[js.OFFSETS + key] + len(name)
        words[js.LEVELS + key] = level
        words[js.ENTERS + key] = enters.get(name.decode(), 0) if level == 1 else 0
        words[js.NEEDED + key] = level == 1 and name.decode() == needed
        if not name:
            words[js.CLOSING + level] = key
            continue
        at = js.place_of(name[0], name[len(name) >> 1], name[-1], len(name), level)
        while words[js.TABLE + at] >= 0:
            at = (at + 1) % (js.NAMES - js.TABLE)
        words[js.TABLE + at] = key
    return np.concatenate((words, np.frombuffer(blob, np.uint8).astype(np.int16)))


class StringPool:
    """The table of strings that a kernel fills; ``count`` is its state, whose further slots are the kernel's."""

    def __init__(self, count: NDArray[np.int64]) -> None:
        self.count = count
        self.arrays = (np.full(1 << 11, -1, np.int64), np.zeros(1 << 10, np.int64), np.zeros(1 << 15, np.uint8))
        self.arrays[HASHES][0] = 0  # the empty string, whose hash is 0
        count[STRINGS] = 1

    def reserve(self, texts: int, size: int) -> None:
        """Have room for so many more texts of so many bytes in all."""
        from chakrasim.trace.chakra.wire import refill

        hashes, ends, blob = self.arrays
        strings = int(self.count[STRINGS]) + texts
        if 2 * strings > len(hashes):
            old, hashes = hashes, np.full(1 << (2 * strings).bit_length(), -1, np.int64)
            refill(old, hashes)
        ends = _enlarged(ends, strings + 1)
        self.arrays = (hashes, ends, _enlarged(blob, int(self.count[BYTES]) + size))

    def build(self) -> StringTable:
        """The table; the pool is of no use afterwards."""
        _, ends, blob = self.arrays
        self.arrays = (ends[:0], ends[:0], blob[:0])
        return StringTable(blob[: self.count[BYTES]].copy(), ends[: self.count[STRINGS] + 1].copy())


def _enlarged(array: NDArray[Any], room: int) -> NDArray[Any]:
    return array if room <= len(array) else enlarge(array, max(room, 2 * len(array)))


def enlarge(array: NDArray[Any], room: int) -> NDArray[Any]:
    """A copy with room for ``room`` entries, of which the new ones take no memory until they are used."""
    larger = np.empty(room, array.dtype)
    larger[: len(array)] = array
    return larger


class Records:
    """The records of one file. ``batches`` fills ``tokens`` for its caller again and again."""

    def __init__(self, path: str, form: Format, *, lenient: bool, whole: bool = False) -> None:
        self.path = path
        self.form = form
        self.file = storage.Stream(path, form.expected)
        self.state = np.zeros(js.STATE_SIZE, np.int64)
        self.state[js.STRICT] = not lenient
        self.state[js.REPAIR_POS] = -1
        window = self.file.likely_bytes + 1 if whole else WINDOW_BYTES
        if self.file.packed:
            window = max(window, WINDOW_BYTES)
        self.file.check(window)
        self.buffer = np.zeros(window + _GUARD, np.uint8)
        self.whole = whole
        self.tokens = np.empty(_TOKENS * js.TOKEN, np.int64)
        self.stack = np.zeros(js.MAX_DEPTH + 1, np.uint8)
        self.members: list[bytes] = []
        self.damage: InputError | None = None
        #: How many lists of records have been followed by another one, which then counts instead.
        self.restarts = 0

    def batches(self) -> Iterator[None]:
        """Yield each time ``tokens`` hold new records (positions in ``buffer``), until the file's end.

        The first token to take is always number 0.
        """
        state = self.state
        state[js.POS] = self._recognise()
        self._more()
        while self.whole and not state[js.FINAL]:
            self._more()
        status = js.FULL
        while status != js.DONE:
            status = scan(self.buffer, state, self.form.vocabulary, self.tokens, self.stack)
            if state[js.TOKENS]:
                yield
                state[js.TOKENS] = 0
            if status == js.MORE:
                self._more()
            elif status == js.GROW:
                self.tokens = np.empty(2 * len(self.tokens), np.int64)
            elif status == js.PAIR:
                start, stop = state[js.PAIR_START], state[js.PAIR_STOP]
                self.members.append(self.buffer[start:stop].tobytes())
            elif status == js.AGAIN and not state[js.DAMAGES]:
                self.restarts += 1
            elif status < 0 and self._note(status):
                break

    def _more(self) -> None:
        """Move on: what is not yet read to the front, and more behind it."""
        state = self.state
        begin, end = int(state[js.POS]), int(state[js.END])
        if end == 0:
            begin = 0
        rest = end - begin
        if rest + _GUARD >= len(self.buffer):
            self.file.check(2 * len(self.buffer))
            self.buffer = enlarge(self.buffer, 2 * len(self.buffer))
        if begin:
            self.buffer[:rest] = self.buffer[begin:end]
            state[js.BASE] += begin
            state[js.POS] = 0
        room = len(self.buffer) - _GUARD
        while rest < room:
            size = self.file.fill(self.buffer.data[rest:room])
            rest += size
            if not size:
                state[js.FINAL] = 1
                self.file.close()
                if self.file.fault and state[js.STRICT]:
                    raise self._gzip_damage()
                break
        self.buffer[rest : rest + _GUARD] = 0
        state[js.END] = rest

    def check_memory(self, columns: Iterable[NDArray[Any]], texts: StringPool, more_bytes: int = 0) -> None:
        """Raise InputError if what is held for the file, and ``more_bytes``, are more than reading it may take."""
        arrays: list[NDArray[Any]] = [self.buffer, self.tokens, *columns, *texts.arrays]
        self.file.check(more_bytes + sum(array.nbytes for array in arrays))

    def _recognise(self) -> int:
        """Raise InputError if the file is surely another one; how many bytes before the document can be passed over."""
        head = np.empty(_HEAD, np.uint8)
        with storage.Stream(self.path, self.form.expected) as file:
            text = head[: file.fill(head.data)].tobytes()
            self.file.fault = file.fault
        if not text and self.file.fault:
            raise self._gzip_damage()
        recognise.refuse_unless_json(text, self.path, self.form.expected)
        return len(BOM) if text.startswith(BOM) else 0

    def _gzip_damage(self) -> InputError:
        return InputError(
            "the gzip data are damaged",
            file=self.path,
            place=f"after {int(self.state[js.BASE] + self.state[js.END])} uncompressed bytes",
            found=self.file.fault,
            expected="complete gzip data",
            remedy=_REMEDY,
        )

    def _note(self, status: int) -> bool:
        """Raise what cannot be passed over, keep the first damage; whether reading ends here."""
        error = self.error(status, int(self.state[js.ERR_POS]))
        if self.state[js.STRICT] or status == js.BAD_DOCUMENT:
            error.remedy = _REMEDY
            raise error
        if self.damage is None or status == js.BAD_BEHIND:
            self.damage = error
        return status == js.BAD_BEHIND

    def found(self, position: int, size: int = 60) -> str:
        """What stands at a position in ``buffer``, for a message."""
        stop = min(position + size, int(self.state[js.END]))
        raw = self.buffer[position:stop].tobytes()
        if len(raw) < size and not self.state[js.FINAL]:  # it goes on in the next window
            _, raw = self._look(int(self.state[js.BASE]) + position, size)
        text = raw.decode("utf-8", "replace")
        return repr(text) if text else "the end of the file"

    def next_record(self, token: int) -> tuple[int, int]:
        """(tokens, bytes) of the record whose first token is number ``token``."""
        tokens = self.tokens.reshape(-1, js.TOKEN)[token : int(self.state[js.TOKENS])]
        last = int(np.argmax(tokens[:, js.KIND] == js.RECORD))
        return last + 1, int(tokens[last, js.STOP] - tokens[last, js.START])

    def take_text(self) -> NDArray[np.uint8]:
        """The text that was read, if all of it was held; the buffer is of no use afterwards."""
        text, self.buffer = self.buffer, self.buffer[:0].copy()
        text.resize(int(self.state[js.END]), refcheck=False)
        return text

    def error(self, status: int, position: int) -> InputError:
        """The error of a scanner's code at a position in ``buffer``."""
        message, expected = _FAULTS.get(status, ("{record} is malformed", None))
        found = self.found(position, 32)
        if status == js.BAD_BEHIND and found[1:2] in ("{", "["):
            message = "a second document follows the first: did several ranks write to this file?"
        return InputError(
            message.format(record=self.form.record),
            file=self.path,
            place=self.place_in_buffer(position),
            found=found,
            expected=expected,
        )

    def place_in_buffer(self, position: int) -> str:
        """Where a position in ``buffer`` is in the file."""
        return self.place(int(self.state[js.BASE]) + position)

    def place(self, at: int) -> str:
        """Where byte ``at`` of the (uncompressed) text is."""
        if self.state[js.BASE] == 0:
            lines = int(np.count_nonzero(self.buffer[:at] == 10))
        else:
            lines, _ = self._look(at, 0)
        return f"byte {at} (line {lines + 1})"

    def _look(self, at: int, size: int) -> tuple[int, bytes]:
        """(line breaks before byte ``at``, the ``size`` bytes there), from the file itself."""
        lines, left, part = 0, at, np.empty(1 << 20, np.uint8)
        with storage.Stream(self.path, self.form.expected) as file:
            while left and (got := file.fill(part.data[: min(left, len(part))])):
                lines += int(np.count_nonzero(part[:got] == 10))
                left -= got
            text = b""
            while len(text) < size and (got := file.fill(part.data[: size - len(text)])):
                text += part[:got].tobytes()
        return lines, text

    def header(self, notes: Notes) -> dict[str, Any]:
        """All members of the document but the list of records."""
        document: dict[str, Any] = {}
        for raw in self.members:
            try:
                document.update(_member(raw))
            except (ValueError, RecursionError):
                name = raw[:40].decode("utf-8", "replace")
                notes.warn(f"{self.path}: left out a member of the document that cannot be read: {name!r}")
        return document

    def report(self, kept: int, notes: Notes, counts: dict[str, int]) -> None:
        """Say what was lost or repaired."""
        state, record = self.state, self.form.name
        if self.file.fault:
            damage = self._gzip_damage()
            damage.remedy = None
            notes.warn(str(damage))
        if self.damage is not None:
            damages, lost = int(state[js.DAMAGES]), int(state[js.LOST])
            counts["damaged places"], counts["lost bytes"] = damages, lost
            more = f" (and at {damages - 1} more places)" if damages > 1 else ""
            notes.warn(f"{self.damage}{more}: kept {kept} {record}s, left out {lost} bytes")
        repairs = {
            "missing or superfluous commas": js.COMMAS,
            "unescaped control characters": js.CONTROLS,
            "malformed escapes": js.ESCAPES,
        }
        found = {name: int(state[slot]) for name, slot in repairs.items() if state[slot]}
        if found:
            counts.update(found)
            where = f", the first in {self.place(int(state[js.REPAIR_POS]))}" if state[js.REPAIR_POS] >= 0 else ""
            listed = ", ".join(f"{count} {name}" for name, count in found.items())
            notes.warn(f"{self.path}: repaired {listed}{where}")

    def require_records(self) -> None:
        """Raise InputError if there is no list of records, or nothing in it but damage."""
        if self.damage is not None and not self.state[js.RECORDS]:
            self.damage.remedy = "nothing can be recovered: create the file again"
            raise self.damage
        if self.file.fault and not self.state[js.RECORDS]:
            raise self._gzip_damage()
        if not self.state[js.LISTS]:
            names = [match[1].decode("utf-8", "replace") for raw in self.members if (match := _NAME.match(raw))]
            raise recognise.wrong_document(names, self.path, self.form.expected)

    def refuse_records(self) -> NoReturn:
        """Raise InputError: what the list holds is not what it should be."""
        expected = self.form.expected
        raise InputError(f"this is not {expected}", file=self.path, found="a list of other things", expected=expected)


_NAME: Final = re.compile(rb'"([^"\\]+)"')
_ESCAPE: Final = re.compile(rb'(\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|\\')


def _member(raw: bytes) -> dict[str, Any]:
    """A member of the document, ``"name": value``. Raises ValueError if it is malformed."""
    text = _ESCAPE.sub(lambda match: match[1] or rb"\\", raw).decode("utf-8", "replace")
    member: dict[str, Any] = json.loads("{" + text + "}", strict=False)
    return _without_surrogates(member) if "\\u" in text else member


def _without_surrogates(value: Any) -> Any:
    """The value with U+FFFD for half characters, which cannot be written anywhere."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_without_surrogates(part) for part in value]
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(part) for name, part in value.items()}
    return value
