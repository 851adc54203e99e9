"""Columns of the linked trace that are copied from the traces, and one table for all texts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.jit import inner, kernel
from chakrasim.linker.rows.row_table import RowTable
from chakrasim.trace.chakra.graph import StringTable, offsets_of
from chakrasim.trace.host import columns as h
from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.kineto.columns import INTEGER, TEXT, Indices, Ints, KinetoTrace, RareColumn

#: Rows that are looked at together.
_CHUNK = 1 << 18


def constant(value: int, shape: int | tuple[int, ...], kind: Any) -> Any:
    """A column that is the same everywhere; it takes no memory, and cannot be written to."""
    return np.broadcast_to(np.asarray(value, kind), shape)


def id_columns(table: RowTable, kineto: KinetoTrace | None, host: HostTrace | None) -> dict[str, Ints]:
    """Ids of the rows by name of column: those of the device trace first, else those of the host trace."""
    n = len(table)
    names = ("correlation", "external_id", "rf_id", "host_id", "sequence", "forward_thread")
    found: dict[str, Ints] = {name: constant(-1, n, np.int64) for name in names}
    if kineto is not None:
        for name in ("correlation", "external_id", "rf_id"):
            column: Ints = getattr(kineto, name)
            if (column >= 0).any():
                found[name] = _taken(column, table.event)
        for name, rare in (("sequence", "Sequence number"), ("forward_thread", "Fwd thread id")):
            values = kineto.rare_column(rare)
            if len(values.rows):
                found[name] = _in_parts(partial(rare_at, values), table.event)
    if host is not None:
        node = table.host_node
        found["host_id"] = _taken(host.ids, node)
        for name, column in (("rf_id", host.rf_id), ("sequence", host.seq_id), ("forward_thread", host.fw_tid)):
            found[name] = np.where((found[name] < 0) & (node >= 0), column[node] if len(column) else -1, found[name])
    return found


def _taken(column: Ints, rows: Indices) -> Ints:
    if not len(column):
        return np.full(len(rows), -1, np.int64)
    return _in_parts(lambda some: np.where(some >= 0, column[some], -1), rows)


def _in_parts(value_of: Callable[[Indices], Ints], rows: Indices) -> Ints:
    """int64: the value of each row, worked out for some rows at a time."""
    found = np.empty(len(rows), np.int64)
    for at in range(0, len(rows), _CHUNK):
        found[at : at + _CHUNK] = value_of(rows[at : at + _CHUNK])
    return found


def rare_at(column: RareColumn, rows: Indices) -> Ints:
    """int64 of the same length: the integer in each of these rows, -1 where there is none."""
    whole = column.kind == INTEGER
    return look_up(column.rows[whole], column.bits[whole], rows)


def look_up(keys: NDArray[Any], values: NDArray[Any], wanted: NDArray[Any]) -> Ints:
    """int64: the value of each wanted key, -1 where there is none. Keys ascend; of equal ones the first counts."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], np.int64(-1))


def text_columns(
    table: RowTable, kineto: KinetoTrace | None, host: HostTrace | None
) -> tuple[dict[str, Any], StringTable]:
    """Columns ``values``, ``shapes``, ``types``, ``op_schema`` and all texts (``table.texts`` and those added)."""
    n = len(table)
    found: dict[str, Any] = {name: constant(0, (n, 2), np.int32) for name in ("values", "shapes", "types")}
    found["op_schema"] = constant(0, n, np.int32)
    if host is None:
        if kineto is not None:
            for name, rare in (("values", "Concrete Inputs"), ("shapes", "Input Dims"), ("types", "Input type")):
                column = kineto.rare_column(rare)
                if (column.kind >= TEXT).any():
                    found[name] = np.zeros((n, 2), np.int32)
                    dense = column.texts(len(kineto.correlation))
                    own = (table.event >= 0) & (table.part == 0)
                    found[name][own, 0] = dense[table.event[own]]
        return found, table.texts.build()
    rows = np.flatnonzero(table.host_node >= 0)
    node = table.host_node[rows]
    schemas = np.zeros(len(host.strings), np.int32)
    for index in np.unique(host.op_schema[node]).tolist():
        schemas[index] = table.texts.add(host.strings.raw(index))
    found["op_schema"] = np.zeros(n, np.int32)
    found["op_schema"][rows] = schemas[host.op_schema[node]]
    parts = (
        h.SPAN_IN_VALUES,
        h.SPAN_OUT_VALUES,
        h.SPAN_IN_SHAPES,
        h.SPAN_OUT_SHAPES,
        h.SPAN_IN_TYPES,
        h.SPAN_OUT_TYPES,
    )
    spans = host.spans[node][:, parts].reshape(-1, 2)
    strings = table.texts.build()
    index, strings = _intern(host.text, spans, strings)
    index = index.reshape(-1, 3, 2)
    for at, name in enumerate(("values", "shapes", "types")):
        found[name] = np.zeros((n, 2), np.int32)
        found[name][rows] = index[:, at]
    return found, strings


def _intern(text: NDArray[np.uint8], spans: Ints, strings: StringTable) -> tuple[Indices, StringTable]:
    """The string index of each byte range of ``text``; equal ones once, empty ones 0; ``strings`` with them added."""
    spans = np.ascontiguousarray(spans, np.int64)
    text = _writable(text)
    places = np.full(1 << (2 * len(spans)).bit_length(), -1, np.int32)
    keys, first = np.empty(len(spans), np.int64), np.empty(len(spans), np.int32)
    index = np.empty(len(spans), np.int32)
    used = _find_equal(text, spans, places, keys, first, index)
    # Texts in the order of their keys: any order that does not hang on the table's size will do.
    order = np.argsort(keys[:used], kind="stable")
    place = np.zeros(used + 1, np.int32)
    place[order] = np.arange(len(strings), len(strings) + used)
    spans = spans[first[order]]
    ends = np.cumsum(spans[:, 1] - spans[:, 0])
    more = np.empty(int(ends[-1]) if used else 0, np.uint8)
    _copy(text, spans, ends - (spans[:, 1] - spans[:, 0]), more)
    offsets = np.concatenate((strings.offsets, strings.offsets[-1] + ends))
    return place[index], StringTable(np.concatenate((strings.blob, more)), offsets)


def _writable(array: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The array, or a copy of one that cannot be written to: a kernel is compiled for one kind of array."""
    return array if array.flags.writeable and array.flags.c_contiguous else array.copy()


@kernel
def _find_equal(text: Any, spans: Any, places: Any, keys: Any, first: Any, index: Any) -> int:
    """Number the different texts that are not empty; ``first``: the first span of each, ``keys``: its hash,
    ``index``: the number of each span's text, -1 for empty ones, ``places``: an empty hash table."""
    used = 0
    for at in range(len(spans)):
        begin, end = spans[at, 0], spans[at, 1]
        index[at] = -1
        key = end - begin
        for byte in range(begin, end):
            # Below 2 ** 42, so that the product stays below 2 ** 62.
            key = (key * 1000003 + text[byte] + 1) & 4398046511103
        place = key & (len(places) - 1)
        while end > begin and index[at] < 0:
            number = places[place]
            if number < 0:
                places[place], keys[used], first[used] = used, key, at
                index[at] = used
                used += 1
            elif keys[number] == key and _are_equal(text, begin, end, spans[first[number], 0], spans[first[number], 1]):
                index[at] = number
            place = (place + 1) & (len(places) - 1)
    return used


@inner
def _are_equal(text: Any, begin: Any, end: Any, other: Any, other_end: Any) -> Any:
    if end - begin != other_end - other:
        return False
    while begin < end and text[begin] == text[other]:
        begin += 1
        other += 1
    return begin == end


@kernel
def _copy(text: Any, spans: Any, begins: Any, more: Any) -> None:
    for at in range(len(spans)):
        begin = begins[at]
        for byte in range(spans[at, 1] - spans[at, 0]):
            more[begin + byte] = text[spans[at, 0] + byte]


def only_used(strings: StringTable, columns: list[Any]) -> tuple[StringTable, list[Any]]:
    """The texts that columns use, and the columns with indices of those."""
    used = np.zeros(len(strings), np.bool_)
    used[0] = True
    for column in columns:
        used[column if 0 not in column.strides else column.flat[:1]] = True
    length = np.diff(strings.offsets)[used]
    begins = strings.offsets[:-1][used]
    offsets = offsets_of(length)
    blob = np.empty(int(offsets[-1]), np.uint8)
    _copy(_writable(strings.blob), np.stack((begins, begins + length), axis=1), offsets[:-1].copy(), blob)
    index = (np.cumsum(used) - 1).astype(np.int32)
    moved = [index[column] if 0 not in column.strides else column for column in columns]
    return StringTable(blob, offsets), moved
