"""Tables of CSV files: columns by name, and values read with file, line and column at hand."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from chakrasim.errors import InputError, near, shown
from chakrasim.files.storage import read_unpacked

BLANKS: Final = frozenset({"", "nan", "none", "null", "unknown", "n/a", "na", "-", "?"})
MOST: Final = 1 << 60
_HELD: Final = 40  # bytes of memory for a byte of CSV, as lists of strings


@dataclass(frozen=True, eq=False)
class CsvTable:
    """The rows of a CSV file under their header, and the line that each ends on."""

    file: str
    header: tuple[str, ...]
    rows: list[list[str]]
    lines: list[int]

    def require(self, *names: str) -> None:
        """Raise InputError unless all of these columns are there."""
        for name in names:
            if name not in self.header:
                raise InputError(
                    f"no column {name}",
                    file=self.file,
                    place="line 1",
                    found=", ".join(self.header)[:160] or "no columns",
                    expected=", ".join(names),
                    remedy=near(name, self.header) or None,
                )

    def texts(self, name: str) -> list[str]:
        """A column, without blanks around; of a column that is missing each is empty."""
        if name not in self.header:
            return [""] * len(self.rows)
        at = self.header.index(name)
        return [row[at].strip() for row in self.rows]

    def fail(self, row: int, column: str, message: str, found: object, expected: object) -> NoReturn:
        """Raise the InputError for a value."""
        place = f"line {self.lines[row]}, column {column}"
        told = repr(found[:40]) if isinstance(found, str) else found
        raise InputError(message, file=self.file, place=place, found=told, expected=expected)

    def whole(self, row: int, column: str, text: str, low: int = 1, most: int = MOST) -> int:
        """A value that is a whole number; ``8.0`` is one, too."""
        if text.isascii() and text.isdigit() and len(text) < 19:
            value = int(text)
        else:
            number = number_of(text)
            value = int(number) if abs(number) < MOST and number == int(number) else low - 1
        if not low <= value <= most:
            expected = f"a whole number of {low} or more" if most == MOST else f"a whole number from {low} to {most:,}"
            self.fail(row, column, "this is no such number", text, expected)
        return value

    def amount(self, row: int, column: str, text: str, positive: bool = True) -> float:
        """A value that is a number above 0, or not below it; NaN where it is blank."""
        value = number_of(text)
        if 0 < value < math.inf or (value == 0 and not positive):
            return value
        if text.lower() in BLANKS:
            return math.nan
        self.fail(
            row, column, "this is no such number", text, f"a number {'above 0' if positive else '>= 0'}, or blank"
        )


def number_of(text: str) -> float:
    """A decimal number; NaN for what is none. Python alone would take ``1_000`` and other scripts' digits."""
    if not text.isascii() or "_" in text:
        return math.nan
    try:
        return float(text)
    except ValueError:
        return math.nan


def read_csv(path: str, names: Sequence[str], expected: str) -> CsvTable:
    """The table of a CSV file, plain or gzip, that has at least the columns ``names``.

    Raises InputError if there is no such file, for what is no CSV, and for rows with another number of fields.
    """
    raw = read_unpacked(path, expected=expected, held=_HELD)
    return table_of(path, decoded(path, raw, expected), names)


def decoded(path: str, raw: bytes, expected: str) -> str:
    """The text of a file. Raises InputError for bytes that are none, with what they look like."""
    from chakrasim.trace.recognise import look

    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = look(raw) or f"bytes {raw[error.start : error.start + 4].hex(' ')}"
        raise InputError(
            "this is not text", file=path, place=f"byte {error.start}", found=found, expected=expected
        ) from None
    if "\0" in text:
        found = look(raw) or "a zero byte"
        raise InputError("this is not text", file=path, found=found, expected=expected)
    return text


def table_of(path: str, text: str, names: Sequence[str]) -> CsvTable:
    """The table in the text of a CSV file."""
    reader = csv.reader(io.StringIO(text, newline=""))
    rows, lines = [], []
    header: tuple[str, ...] | None = None
    try:
        for row in reader:
            if not any(row):
                continue
            if header is None:
                header = tuple(shown(name.strip()) for name in row)
                continue
            if len(row) != len(header):
                raise InputError(
                    "the row has another number of fields than the header",
                    file=path,
                    place=f"line {reader.line_num}",
                    found=len(row),
                    expected=len(header),
                )
            rows.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise InputError(f"this is not CSV: {error}", file=path, place=f"line {reader.line_num}") from None
    if header is None:
        raise InputError("the file is empty", file=path, expected="a header with " + ", ".join(names))
    table = CsvTable(path, header, rows, lines)
    twice = next((name for name in header if name and header.count(name) > 1), None)
    if twice is not None:
        raise InputError("two columns have one name", file=path, place="line 1", found=twice, expected="each name once")
    table.require(*names)
    return table
