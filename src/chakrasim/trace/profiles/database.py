"""SQLite databases of profilers, read without touching them, a column at a time."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np

from chakrasim.errors import InputError
from chakrasim.files.inputs import Bound, bound
from chakrasim.files.storage import Stream
from chakrasim.notes import Notes
from chakrasim.trace.kineto.columns import Ints
from chakrasim.trace.profiles.build import NONE

_ROWS = 1 << 15
_UNPACKED: ContextVar[tuple[ExitStack, dict[str, str]] | None] = ContextVar("_UNPACKED", default=None)
_FAULTS = (sqlite3.Error, UnicodeDecodeError)  # what SQLite says of damage may hold some of it


class Database:
    """A database that is open. With ``lenient`` what comes before a damaged place of a table is kept, and said."""

    def __init__(self, link: sqlite3.Connection, path: str, limit: Bound, lenient: bool, notes: Notes) -> None:
        self.link, self.path, self.limit, self.lenient, self.notes = link, path, limit, lenient, notes
        self._held = 0
        self.tables = {name for (name,) in self._all("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def columns(self, table: str) -> set[str]:
        """The columns of a table, none where there is no such table."""
        if table not in self.tables:
            return set()
        return {row[1] for row in self._all(f'PRAGMA table_info("{table}")')}

    def integers(self, table: str, wanted: Sequence[str]) -> Ints:
        """int64[len(wanted), n]: columns of a table, NONE where a column is missing or holds no integer."""
        if table not in self.tables:
            return np.zeros((len(wanted), 0), np.int64)
        have = self.columns(table) | {"rowid"}
        terms = (f'CASE WHEN typeof("{name}") = \'integer\' THEN "{name}" ELSE {NONE} END' for name in wanted)
        terms = (term if name in have else str(NONE) for name, term in zip(wanted, terms, strict=True))
        blocks = [np.zeros((0, len(wanted)), np.int64)]
        for rows in self._blocks(f'SELECT {", ".join(terms)} FROM "{table}"'):
            blocks.append(np.array(rows, np.int64))
            self._held += 3 * blocks[-1].nbytes  # as blocks, as columns, in the trace
            self.limit.check(self._held, self.path)
        return np.ascontiguousarray(np.concatenate(blocks).T)

    def distinct(self, table: str, column: str) -> set[int]:
        """The integers in a column of a table."""
        if column not in self.columns(table):
            return set()
        sql = f'SELECT DISTINCT "{column}" FROM "{table}" WHERE typeof("{column}") = \'integer\''
        return {value for rows in self._blocks(sql) for (value,) in rows}

    def texts(self, table: str, number: str, text: str) -> Iterator[tuple[int, str]]:
        """(number, text) of each row that has both."""
        return ((at, str(value)) for at, value in self.values(table, number, text))

    def values(self, table: str, number: str, column: str) -> Iterator[tuple[int, Any]]:
        """(number, value) of each row that has both."""
        if table in self.tables and {number, column} <= self.columns(table) | {"rowid"}:
            for rows in self._blocks(f'SELECT {number}, "{column}" FROM "{table}" WHERE "{column}" IS NOT NULL'):
                yield from ((at, value) for at, value in rows if isinstance(at, int))

    def pairs(self, table: str, first: str, second: str) -> list[tuple[str, str]]:
        """Two columns of texts."""
        if not {first, second} <= self.columns(table):
            return []
        return [
            (str(a), str(b)) for rows in self._blocks(f'SELECT "{first}", "{second}" FROM "{table}"') for a, b in rows
        ]

    def count(self, table: str) -> int:
        """How many rows a table has."""
        return int(self._all(f'SELECT count(*) FROM "{table}"')[0][0])

    def _all(self, sql: str) -> list[tuple[str, ...]]:
        try:
            return self.link.execute(sql).fetchall()
        except _FAULTS as fault:
            raise damaged(self.path, fault) from None

    def _blocks(self, sql: str) -> Iterator[list[tuple[int, ...]]]:
        try:
            cursor = self.link.execute(sql)
            while rows := cursor.fetchmany(_ROWS):
                yield rows
        except _FAULTS as fault:
            error = damaged(self.path, fault)
            if not self.lenient:
                raise error from None
            error.remedy = None
            self.notes.warn(f"{error}: what comes before it was kept")


@contextmanager
def unpacked_once() -> Iterator[None]:
    """Within it a packed database is unpacked once, however often it is opened; it lies on disk until the end."""
    with ExitStack() as stack:
        if _UNPACKED.get() is None:
            _UNPACKED.set((stack, {}))
            stack.callback(_UNPACKED.set, None)
        yield


@contextmanager
def open_database(path: str, expected: str, *, lenient: bool = False, notes: Notes | None = None) -> Iterator[Database]:
    """The database in a file, plain or gzip (which is unpacked beside other temporary files first).

    No file is written beside it, and none that lies there is read. Raises InputError for files that are no database.
    """
    said = Notes() if notes is None else notes
    with ExitStack() as stack:
        kept, unpacked = _UNPACKED.get() or (stack, {})
        with Stream(path, expected) as file:
            plain = unpacked.get(path, path)
            if file.packed and plain == path:
                folder = kept.enter_context(tempfile.TemporaryDirectory())
                plain = os.path.join(folder, "unpacked")
                _unpack(file, plain)
                unpacked[path] = plain
        if os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal"):
            said.warn(f"{path}-wal was left out: what it holds has not come to the database yet")
        try:
            link = sqlite3.connect(f"{Path(plain).absolute().as_uri()}?mode=ro&immutable=1", uri=True)
            stack.callback(link.close)
            link.text_factory = _decoded
            link.execute("PRAGMA trusted_schema = OFF")
            link.execute("PRAGMA cell_size_check = ON")
        except _FAULTS as fault:
            raise damaged(path, fault) from None
        yield Database(link, path, bound(os.path.getsize(plain)), lenient, said)


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _unpack(file: Stream, target: str) -> None:
    view = memoryview(bytearray(1 << 20))
    with open(target, "wb") as out:
        while size := file.fill(view):
            out.write(view[:size])
    file.refuse_damage()


def damaged(path: str, fault: Exception) -> InputError:
    """The error for what SQLite says of a database."""
    return InputError(
        "the database is damaged",
        file=path,
        found=str(fault),
        expected="an SQLite database",
        remedy="export the report again: nsys export --type sqlite REPORT.nsys-rep, or read it leniently (--lenient)",
    )
