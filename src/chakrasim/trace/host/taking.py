"""Taking the nodes of a host trace into columns."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.notes import Notes
from chakrasim.trace import recognise
from chakrasim.trace.host import columns as h
from chakrasim.trace.host import nodes
from chakrasim.trace.host.columns import HostTrace, TensorTable
from chakrasim.trace.json.records import Format, Records, enlarge, vocabulary
from chakrasim.trace.json.taking import Taker
from chakrasim.trace.json.values import REPAIRED

_BYTES_PER_NODE: Final = 300  # only a first guess; columns that are too long cost no memory until they are used
_NEWEST: Final = (1, 1, 1)
_COLUMN_KINDS: Final = (np.int64, np.int32, np.int64)
_COLUMN_WIDTHS: Final = (nodes.ROW_WORDS, nodes.ROW_NAMES, nodes.ROW_SPANS)
_TENSOR_KINDS: Final = (np.int32, np.bool_, np.int32, *([np.int64] * 5), np.int32)
_COUNTED: Final = {
    "elements without an id": nodes.NO_ID,
    "values of an unexpected kind": nodes.ODD_VALUES,
    "integers beyond 64 bits": nodes.LARGE,
    "texts with invalid characters": REPAIRED,
}
FORM: Final = Format(
    record="a node",
    expected=recognise.HOST,
    vocabulary=vocabulary(
        [nodes.DOCUMENT_KEYS, nodes.NODE_KEYS, nodes.PART_KEYS, nodes.PART_KEYS, (), nodes.ATTRIBUTE_KEYS],
        enters={"inputs": 2, "outputs": 3, "attrs": 4},
        listed=4,
        around=[0, 0, 1, 1, 1, 4],
        needed="id",
    ),
)


class NodeTaker(Taker[HostTrace]):
    """Takes nodes."""

    refusal = "an element of nodes has no id", 'an object with an integer "id"', 60
    said: ClassVar = {
        "elements without an id": 'left out {} elements of nodes that have no "id"',
        "values of an unexpected kind": "took {} values that should be integers for absent",
        "texts with invalid characters": "replaced invalid characters in {} texts",
        "earlier lists of nodes": "left out {} lists of nodes: the last one counts",
    }

    def __init__(self, records: Records, *, lenient: bool) -> None:
        super().__init__(records, nodes, h.RARE_ATTRIBUTES, {nodes.STRICT: not lenient})
        self.columns: tuple[NDArray[Any], ...] = tuple(np.empty(0, kind) for kind in _COLUMN_KINDS)
        self.tensors: tuple[NDArray[Any], ...] = tuple(np.empty(0, kind) for kind in _TENSOR_KINDS)
        self.scratch = np.zeros((2, nodes.KEYS), np.int64)

    def arrays(self) -> tuple[NDArray[Any], ...]:
        return *self.columns, *self.tensors

    def take(self) -> None:
        if not len(self.columns[0]):
            guess = len(self.records.buffer) // _BYTES_PER_NODE + 64
            self._reserve(guess, guess)
        super().take()

    def run(self) -> Any:
        records = self.records
        return nodes.take_nodes(
            records.buffer, records.state, records.form.vocabulary, records.tokens, self.columns, self.tensors,
            self.rare.pool, self.strings.arrays, self.count, self.scratch,
        )  # fmt: skip

    def grow(self, tokens: int, size: int) -> None:
        tensors = size // nodes.TENSOR_BYTES + 4
        self.reserve_values(tokens, tokens + tensors, size)
        rows, used = int(self.count[nodes.ROWS]), int(self.count[nodes.TENSORS])
        is_full = nodes.ROW_WORDS * (rows + 1) > len(self.columns[0])
        self._reserve(2 * rows if is_full else 0, used + max(tensors, used // 2))

    def _reserve(self, rows: int, tensors: int) -> None:
        if rows:
            rooms = [rows * width for width in _COLUMN_WIDTHS]
            more = sum(room * column.itemsize for column, room in zip(self.columns, rooms, strict=True))
            self.records.check_memory(self.arrays(), self.strings, more)
            self.columns = tuple(map(enlarge, self.columns, rooms))
        if tensors > len(self.tensors[0]):
            more = tensors * sum(column.itemsize for column in self.tensors)
            self.records.check_memory(self.arrays(), self.strings, more)
            self.tensors = tuple(enlarge(column, tensors) for column in self.tensors)

    def build(self, header: dict[str, Any], notes: Notes) -> HostTrace:
        count = self.count
        if not count[nodes.ROWS] and count[nodes.NO_ID]:
            self.records.refuse_records()
        self.empty_rare_pool()
        rows, used = int(count[nodes.ROWS]), int(count[nodes.TENSORS])
        for column in self.tensors:
            column.resize(used, refcheck=False)
        counts = self.report(notes, _COUNTED, "earlier lists of nodes")
        schema = str(header.get("schema", ""))
        self.tell(notes, counts, *_schema_notes(schema))
        words, names, spans = self.columns
        spans.resize(rows * nodes.ROW_SPANS, refcheck=False)
        ids, parent, *integers = _columns_of(words, rows, nodes.ROW_WORDS)
        name, *texts = _columns_of(names, rows, nodes.ROW_NAMES)
        return HostTrace(
            source=self.records.path, strings=self.strings.build(), schema=schema, header=header, ids=ids,
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
