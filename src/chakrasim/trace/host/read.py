"""Reading PyTorch host traces: one pass of a compiled scanner, straight into columns; the text is kept."""

from __future__ import annotations

import os
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.notes import Notes, lists_too
from chakrasim.trace.host import columns as h
from chakrasim.trace.host.columns import HostTrace, TensorTable
from chakrasim.trace.json.rare import RareColumns

if TYPE_CHECKING:
    from chakrasim.trace.json.records import Format, Records

_BYTES_PER_NODE: Final = 300  # only a first guess; columns that are too long cost no memory until they are used
_NEWEST: Final = (1, 1, 1)
_TENSOR_KINDS: Final = (np.int32, np.bool_, np.int32, *([np.int64] * 5), np.int32)


@lists_too
def read_host(path: str | os.PathLike[str], *, lenient: bool = False, notes: Notes | None = None) -> HostTrace:
    """The host trace in the file ``path`` (plain or gzip; all schemas from 1.0.1 on; also what a linker wrote).

    Raises InputError for damaged files; ``lenient`` recovers them, with a warning that counts what was lost and says
    where.
    """
    from chakrasim.trace.json.records import Records

    source = os.fspath(path)
    notes = Notes() if notes is None else notes
    records = Records(source, _format(), lenient=lenient, whole=True)
    with records.file:
        columns = _Columns(records, lenient=lenient)
        for _ in records.batches():
            columns.take()
    records.require_records()
    header = records.header(notes)
    trace = columns.trace(source, header, notes)
    notes.warn(*(f"{source}: {note}" for note in (*_schema_notes(trace.schema), *_notes(trace.counts))))
    return trace


@cache
def _format() -> Format:
    from chakrasim.trace import recognise
    from chakrasim.trace.host import nodes
    from chakrasim.trace.json.records import Format, vocabulary

    levels = [nodes.DOCUMENT_KEYS, nodes.NODE_KEYS, nodes.PART_KEYS, nodes.PART_KEYS, (), nodes.ATTRIBUTE_KEYS]
    words = vocabulary(
        levels, enters={"inputs": 2, "outputs": 3, "attrs": 4}, listed=4, around=[0, 0, 1, 1, 1, 4], needed="id"
    )
    return Format(record="a node", expected=recognise.HOST, vocabulary=words)


class _Columns:
    """The arrays that the kernel fills."""

    def __init__(self, records: Records, *, lenient: bool) -> None:
        from chakrasim.trace.host import nodes

        self.records = records
        self.strict = not lenient
        self._begin()
        self.columns: tuple[NDArray[Any], ...] = tuple(np.empty(0, kind) for kind in (np.int64, np.int32, np.int64))
        self.tensors: tuple[NDArray[Any], ...] = tuple(np.empty(0, kind) for kind in _TENSOR_KINDS)
        self.scratch = np.zeros((2, nodes.KEYS), np.int64)
        self.restarts = 0

    def _begin(self) -> None:
        from chakrasim.trace.host import nodes
        from chakrasim.trace.json.records import StringPool

        self.count = np.zeros(nodes.COUNT_SIZE, np.int64)
        self.count[nodes.STRICT] = self.strict
        self.strings = StringPool(self.count)
        self.rare = RareColumns(h.RARE_ATTRIBUTES)

    def take(self) -> None:
        """Take what the scanner has found."""
        from chakrasim.trace.host import nodes

        self._restart_at_a_second_list()
        count, records = self.count, self.records
        if not len(self.columns[0]):
            self._reserve(len(records.buffer) // _BYTES_PER_NODE + 64, len(records.buffer) // _BYTES_PER_NODE + 64)
        count[nodes.TAKEN] = 0
        while True:
            status = nodes.take_nodes(
                records.buffer, records.state, records.form.vocabulary, records.tokens, self.columns, self.tensors,
                self.rare.pool, self.strings.arrays, count, self.scratch,
            )  # fmt: skip
            if status == nodes.BAD_NODE:
                raise self._bad_node()
            if status != nodes.GROW:
                break
            self._grow()
        records.check_memory((*self.columns, *self.tensors), self.strings)
        self.rare.settle(int(count[nodes.RARES]), records.buffer)

    def _restart_at_a_second_list(self) -> None:
        if self.restarts != self.records.restarts:
            self.restarts = self.records.restarts
            self._begin()

    def _grow(self) -> None:
        """Make room for the next node."""
        from chakrasim.trace.host import nodes

        count = self.count
        tokens, size = self.records.next_record(int(count[nodes.TAKEN]))
        tensors = size // nodes.TENSOR_BYTES + 4
        self.strings.reserve(tokens + tensors, 3 * size + 16)
        if count[nodes.RARES] + tokens + 4 > len(self.rare.pool[0]):
            self.rare.settle(int(count[nodes.RARES]), self.records.buffer)
            self.rare.flush(int(count[nodes.RARES]))
            count[nodes.RARES] = 0
            self.rare.reserve(tokens + 4)
        rows, used = int(count[nodes.ROWS]), int(count[nodes.TENSORS])
        self._reserve(
            2 * rows if nodes.ROW_WORDS * (rows + 1) > len(self.columns[0]) else 0, used + max(tensors, used // 2)
        )

    def _reserve(self, rows: int, tensors: int) -> None:
        from chakrasim.trace.host import nodes
        from chakrasim.trace.json.records import enlarge

        if rows:
            widths = (nodes.ROW_WORDS, nodes.ROW_NAMES, nodes.ROW_SPANS)
            more = rows * sum(width * column.itemsize for column, width in zip(self.columns, widths, strict=True))
            self.records.check_memory((*self.columns, *self.tensors), self.strings, more)
            self.columns = tuple(
                enlarge(column, rows * width) for column, width in zip(self.columns, widths, strict=True)
            )
        if tensors > len(self.tensors[0]):
            more = tensors * sum(column.itemsize for column in self.tensors)
            self.records.check_memory((*self.columns, *self.tensors), self.strings, more)
            self.tensors = tuple(enlarge(column, tensors) for column in self.tensors)

    def _bad_node(self) -> InputError:
        from chakrasim.trace.host import nodes

        start = int(self.count[nodes.BAD_PLACE])
        return InputError(
            "an element of nodes has no id",
            file=self.records.path,
            place=self.records.place_in_buffer(start),
            found=self.records.found(start),
            expected='an object with an integer "id"',
            remedy="correct the node, or read the file leniently (--lenient) to leave it out",
        )

    def trace(self, source: str, header: dict[str, Any], notes: Notes) -> HostTrace:
        """The trace; nothing may be taken afterwards."""
        from chakrasim.trace.host import nodes
        from chakrasim.trace.json import tokens as js
        from chakrasim.trace.json.values import REPAIRED

        self._restart_at_a_second_list()
        count, state = self.count, self.records.state
        if not count[nodes.ROWS] and count[nodes.NO_ID]:
            self.records.refuse_records("a list of other things")
        self.rare.flush(int(count[nodes.RARES]))
        rows, used = int(count[nodes.ROWS]), int(count[nodes.TENSORS])
        for column in self.tensors:
            column.resize(used, refcheck=False)
        slots = {
            "elements without an id": nodes.NO_ID,
            "values of an unexpected kind": nodes.ODD_VALUES,
            "integers beyond 64 bits": nodes.LARGE,
            "texts with invalid characters": REPAIRED,
        }
        counts = {name: int(count[slot]) for name, slot in slots.items() if count[slot]}
        if state[js.NON_FINITE]:
            counts["numbers that are not finite"] = int(state[js.NON_FINITE])
        if self.restarts:
            counts["earlier lists of nodes"] = self.restarts
        self.records.report(rows, notes, counts)
        words, names, spans = self.columns
        spans.resize(rows * nodes.ROW_SPANS, refcheck=False)
        ids, parent, *integers = _columns_of(words, rows, nodes.ROW_WORDS)
        name, *texts = _columns_of(names, rows, nodes.ROW_NAMES)
        return HostTrace(
            source=source, strings=self.strings.build(), schema=str(header.get("schema", "")), header=header, ids=ids,
            parent=parent, name=name, tensors=TensorTable(*self.tensors), rare=self.rare.build(),
            text=self.records.take_text(), spans=spans.reshape(-1, h.SPANS, 2), counts=counts,
            **dict(zip(nodes.INTEGERS, integers, strict=True)), **dict(zip(nodes.TEXTS, texts, strict=True)),
        )  # fmt: skip


def _columns_of(table: NDArray[Any], rows: int, width: int) -> list[NDArray[Any]]:
    """The columns of a table that was filled row by row."""
    return [column.copy() for column in table[: rows * width].reshape(rows, width).T]


def _schema_notes(schema: str) -> list[str]:
    """What to say of the schema that a file states."""
    match = re.match(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", schema, re.ASCII)
    if not match:
        return [f"the schema of this host trace is unknown ({schema!r}): read as 1.1.1"]
    version = tuple(int(part) for part in match.groups())
    if version > _NEWEST or version[0] != 1:
        return [f"the schema of this host trace ({schema!r}) is newer than what is known here: read as 1.1.1"]
    return []


def _notes(counts: dict[str, int]) -> list[str]:
    """What of the counts deserves a warning."""
    said = {
        "elements without an id": 'left out {} elements of nodes that have no "id"',
        "values of an unexpected kind": "took {} values that should be integers for absent",
        "texts with invalid characters": "replaced invalid characters in {} texts",
        "earlier lists of nodes": "left out {} lists of nodes: the last one counts",
    }
    return [text.format(counts[name]) for name, text in said.items() if counts.get(name)]
