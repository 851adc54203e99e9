"""A linked trace of which only a part of the rows is in memory at a time: its columns may lie in files."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from chakrasim.trace.chakra.graph import StringTable
from chakrasim.trace.linked.columns import LinkedTrace

#: Rows, or edges, that are looked at together.
CHUNK = 1 << 18
_EDGES = ("edge_source", "edge_target", "edge_kind", "edge_evidence", "edge_flags")
#: What conversion takes of rows and edges.
CONVERTED = (
    *("kind", "part", "name", "lane", "start_ns", "wait_ns", "duration_ns", "delay_ns", "step", "correlation"),
    *("rf_id", "host_id", "values", "shapes", "types", "op_schema", *_EDGES[:4]),
)


class CuttableColumn(Protocol):
    """A column that can be cut."""

    def __len__(self) -> int: ...

    def __getitem__(self, which: slice, /) -> NDArray[Any]: ...


@dataclass(frozen=True)
class StoredColumn:
    """A column in a file of plain numbers, of which only what is asked for is read."""

    path: Path
    kind: np.dtype[Any]
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: slice, /) -> NDArray[Any]:
        begin, end, _ = which.indices(len(self))
        width = self.shape[1] if len(self.shape) > 1 else 1
        offset = begin * width * self.kind.itemsize
        found = np.fromfile(self.path, self.kind, max(end - begin, 0) * width, offset=offset)
        return found.reshape(-1, *self.shape[1:])


@dataclass(frozen=True, eq=False)
class LinkedParts:
    """A linked trace of ``rows`` rows in parts.

    ``outline`` is the trace without rows and edges, with all else; ``columns`` has what there is of rows and edges, by
    the names of `LinkedTrace`.
    """

    outline: LinkedTrace
    rows: int
    edges: int
    columns: Mapping[str, CuttableColumn]

    def __len__(self) -> int:
        return self.rows

    def part(self, begin: int, end: int) -> LinkedTrace:
        """Rows ``begin`` to ``end`` (of the columns that there are), without edges. What names rows in it still counts
        from the beginning of the whole."""
        names = [name for name in self.columns if name not in _EDGES]
        own: dict[str, Any] = {name: self.columns[name][begin:end] for name in names}
        return replace(self.outline, **own)

    def parts(self) -> Iterator[LinkedTrace]:
        """All rows, a part at a time."""
        for begin in range(0, self.rows, CHUNK):
            yield self.part(begin, min(begin + CHUNK, self.rows))

    def edge_parts(self, *names: str) -> Iterator[tuple[NDArray[Any], ...]]:
        """Columns of all edges, a part at a time: "source", "target", "kind", "evidence"."""
        for begin in range(0, self.edges, CHUNK):
            yield tuple(self.columns[f"edge_{name}"][begin : begin + CHUNK] for name in names)


def in_parts(linked: LinkedTrace) -> LinkedParts:
    """The parts of a trace that is in memory."""
    columns = {name: getattr(linked, name) for name in CONVERTED}
    return LinkedParts(without_rows(linked), len(linked), len(linked.edge_source), columns)


def _columns(linked: LinkedTrace) -> dict[str, NDArray[Any]]:
    """What a trace has of rows and edges."""
    return {name: column for name, column in vars(linked).items() if isinstance(column, np.ndarray)}


def without_rows(linked: LinkedTrace) -> LinkedTrace:
    """The trace without rows and edges."""
    cut: dict[str, Any] = {
        name: np.zeros((0, *column.shape[1:]), column.dtype) for name, column in _columns(linked).items()
    }
    return replace(linked, **cut)


def begun(linked: LinkedTrace) -> LinkedTrace:
    """A trace of at most one row, which begins when the whole does, without texts and edges: with its communication,
    groups and steps enough to compare ranks."""
    cut: dict[str, Any] = {
        name: column[: 0 if name in _EDGES else 1].copy() for name, column in _columns(linked).items()
    }
    if len(linked):
        cut["start_ns"] = linked.start_ns.min(keepdims=True)
    return replace(linked, strings=StringTable.of(), **cut)


def put_away(folder: Path, linked: LinkedTrace) -> None:
    """Write what conversion needs of a trace into a new folder."""
    folder.mkdir()
    columns: dict[str, NDArray[Any] | StoredColumn] = {}
    for name in CONVERTED:
        column = getattr(linked, name)
        if 0 in column.strides or not len(column):
            columns[name] = column[:1]
            continue
        path = folder / name
        with path.open("wb") as file:
            for begin in range(0, len(column), CHUNK):
                np.ascontiguousarray(column[begin : begin + CHUNK]).tofile(file)
        columns[name] = StoredColumn(path, column.dtype, column.shape)
    with (folder / "outline").open("wb") as file:
        content = (without_rows(linked), len(linked), len(linked.edge_source), columns)
        pickle.dump(content, file, protocol=pickle.HIGHEST_PROTOCOL)


def taken_up(folder: Path) -> LinkedParts:
    """The trace that was put away there."""
    with (folder / "outline").open("rb") as file:
        outline, rows, edges, columns = pickle.load(file)
    for name, column in columns.items():
        if not isinstance(column, StoredColumn):
            count = edges if name in _EDGES else rows
            columns[name] = np.broadcast_to(column[:1], (count, *column.shape[1:])) if count else column
    return LinkedParts(outline, rows, edges, columns)
