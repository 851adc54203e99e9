"""Linked traces in files: one JSON document of columns, compressed where the name ends in .gz."""

from __future__ import annotations

import json
import mmap
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from chakrasim.errors import InputError
from chakrasim.files.inputs import file_bound, open_input
from chakrasim.files.outputs import write_pieces
from chakrasim.files.signatures import GZIP
from chakrasim.files.storage import read_unpacked
from chakrasim.trace.chakra.graph import StringTable
from chakrasim.trace.linked.checks import MOST_NS, check, group, integers, lane, number, rank_number, step_path
from chakrasim.trace.linked.columns import Annotations, Communication, LinkedTrace, OperatorWorks, no_works
from chakrasim.trace.linked.scan import load
from chakrasim.trace.recognise import look

SCHEMA = "chakrasim-linked-1"

#: Whoever formats the document anew keeps its first member.
_BEGINS = re.compile(rb'\s*\{\s*"schema"\s*:\s*"' + SCHEMA.encode() + rb'"')
_INT32, _INT64, _UINT8 = np.int32, np.int64, np.uint8
#: What is no table and no text, as it stands in the document.
_MEMBERS = (
    *("rank", "world_size", "source", "start_offset_ns", "clock_shift_ns", "step_paths"),
    *("counts", "header", "lanes", "groups"),
)
_PAIRS = ("values", "shapes", "types")
_ROWS: dict[str, Any] = {
    "kind": _UINT8,
    **dict.fromkeys(("part", "head", "name", "lane"), _INT32),
    **dict.fromkeys(("start_ns", "wait_ns", "duration_ns", "delay_ns", "inclusive_ns"), _INT64),
    **dict.fromkeys(("parent", "step", "annotation"), _INT32),
    **dict.fromkeys(("correlation", "external_id", "rf_id", "host_id", "sequence", "forward_thread"), _INT64),
    "op_schema": _INT32,
}
_EDGES: dict[str, Any] = {"source": _INT32, "target": _INT32, "kind": _UINT8, "evidence": _UINT8, "flags": _UINT8}
_ANNOTATIONS: dict[str, Any] = {
    "name": _INT32,
    "thread": _INT32,
    "start_ns": _INT64,
    "duration_ns": _INT64,
    "step": _INT32,
}
_COMMUNICATION: dict[str, Any] = {
    **dict.fromkeys(("row", "operation", "group", "ordinal", "peer", "dtype", "evidence"), _INT32),
    **dict.fromkeys(("size_bytes", "in_bytes", "out_bytes", "sequence", "start_ns", "end_ns"), _INT64),
    **dict.fromkeys(("wait_ns", "transfer_ns"), _INT64),
}
#: A table of its own that is left out where it is empty.
_WORKS: dict[str, Any] = {
    **dict.fromkeys(("row", "name", "dtype", "problem"), _INT32),
    **dict.fromkeys(("kind", "flops", "bytes_read", "bytes_written", "kernels"), _INT64),
    **dict.fromkeys(("batch", "m", "n", "k", "causal"), _INT64),
}
#: Numbers of a column that are written at a time.
_CHUNK = 1 << 16
#: A sign, nineteen digits and a comma.
_DIGITS = 21
#: Bytes of memory for one of the document, whose long columns are small and whose other values are Python's.
_HELD = 8
_LARGE_BYTES = 1 << 26


def write_linked(path: str | os.PathLike[str], linked: LinkedTrace) -> None:
    """Write ``linked``; the file appears whole or not at all. Raises InputError if that fails."""
    target = Path(path)
    pieces = _document(linked)
    write_pieces(target, _packed(pieces) if target.name.endswith(".gz") else pieces)


def _packed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """gzip data that depend on nothing but the pieces."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def _document(linked: LinkedTrace) -> Iterator[bytes]:
    """The JSON document in pieces: a value or part of a column each."""
    yield f'{{"schema":"{SCHEMA}"'.encode()
    for name in _MEMBERS:
        value = getattr(linked, name)
        value = [asdict(one) for one in value] if isinstance(value, tuple) else value
        yield f',\n"{name}":{json.dumps(value, separators=(",", ":"))}'.encode()
    yield b',\n"strings":['
    yield from _texts(linked.strings)
    yield b"]"
    rows = {name: getattr(linked, name) for name in _ROWS}
    for name in _PAIRS:
        pair = getattr(linked, name)
        rows |= {f"{name}_in": pair[:, 0], f"{name}_out": pair[:, 1]}
    tables = {
        "rows": rows,
        "edges": {name: getattr(linked, f"edge_{name}") for name in _EDGES},
        "annotations": {name: getattr(linked.annotations, name) for name in _ANNOTATIONS},
        "communication": {name: getattr(linked.communication, name) for name in _COMMUNICATION},
    }
    if len(linked.works):
        tables["works"] = {name: getattr(linked.works, name) for name in _WORKS}
    for table, columns in tables.items():
        yield f',\n"{table}":{{'.encode()
        for at, (name, column) in enumerate(columns.items()):
            yield f'{"," if at else ""}\n"{name}":['.encode()
            yield from _numbers(column)
            yield b"]"
        yield b"}"
    yield b"}\n"


def _texts(strings: StringTable) -> Iterator[bytes]:
    for begin in range(0, len(strings), _CHUNK):
        ends = strings.offsets[begin : begin + _CHUNK + 1]
        blob, places = strings.blob[ends[0] : ends[-1]].tobytes(), (ends - ends[0]).tolist()
        # Bytes that are no UTF-8 become lone surrogates, and those the character in place of others when it is read.
        texts = [blob[start:end].decode("utf-8", "surrogateescape") for start, end in pairwise(places)]
        yield (("," if begin else "") + json.dumps(texts, separators=(",", ":"))[1:-1]).encode()


def _numbers(column: Any) -> Iterator[bytes]:
    from chakrasim.trace.linked.digits import print_numbers

    room = np.empty(_CHUNK * _DIGITS, np.uint8)
    for begin in range(0, len(column), _CHUNK):
        some = np.ascontiguousarray(column[begin : begin + _CHUNK], np.int64)
        used = print_numbers(some, room)
        # Each number has a comma behind it; the last of the column loses its own.
        yield room[: used if begin + _CHUNK < len(column) else used - 1].tobytes()


def read_linked(path: str | os.PathLike[str]) -> LinkedTrace:
    """The linked trace in a file that `write_linked` wrote, plain or gzip (told by content).

    Raises InputError if the file cannot be read, is of another kind, or does not hold together.
    """
    source = os.fspath(path)
    data = _content(source)
    if _BEGINS.match(data) is None:
        raise _refused(data, source)
    try:
        document = load(data)
        return _linked(document)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError) as fault:
        raise InputError(
            "the linked trace is damaged",
            file=source,
            found=f"{type(fault).__name__}: {fault}"[:200],
            expected=f"a whole document of schema {SCHEMA}",
            remedy="link the traces again",
        ) from None


def _content(source: str) -> bytes | mmap.mmap:
    """The uncompressed bytes; those of a large file as a map of it."""
    expected = "a linked trace"
    with suppress(OSError, ValueError), open_input(source, expected) as file:
        size = os.fstat(file.fileno()).st_size
        if _LARGE_BYTES < size <= file_bound(file).bytes and file.read(2) != GZIP:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return read_unpacked(source, expected=expected, held=_HELD)


def _refused(data: bytes | mmap.mmap, source: str) -> InputError:
    data = bytes(data[: 1 << 16])
    found = look(data) if data else "an empty file"
    return InputError(
        "this is no linked trace",
        file=source,
        found=found or "something else",
        expected=f"a JSON document of schema {SCHEMA}",
        remedy="make one with chakrasim link",
    )


def _linked(document: dict[str, Any]) -> LinkedTrace:
    escaped = (text.encode("utf-8", "surrogateescape") for text in document["strings"])
    texts = [raw.decode("utf-8", "replace").encode() for raw in escaped]
    rows = _columns(document["rows"], _ROWS | {f"{name}_{side}": _INT32 for name in _PAIRS for side in ("in", "out")})
    edges, notes, said = (
        _columns(document[name], kinds)
        for name, kinds in (("edges", _EDGES), ("annotations", _ANNOTATIONS), ("communication", _COMMUNICATION))
    )
    works = _columns(document["works"], _WORKS) if "works" in document else vars(no_works())
    tables = {"rows": rows, "edges": edges, "annotations": notes, "communication": said, "works": works}
    columns = {name: rows[name] for name in _ROWS}
    for name in _PAIRS:
        columns[name] = _pair(rows.pop(f"{name}_in"), rows.pop(f"{name}_out"))
    linked = LinkedTrace(
        rank=rank_number(document["rank"]),
        world_size=rank_number(document["world_size"]),
        source=str(document["source"]),
        strings=StringTable.of(texts),
        **columns,
        communication=Communication(**said),
        groups=tuple(group(entry) for entry in document["groups"]),
        **{f"edge_{name}": values for name, values in edges.items()},
        annotations=Annotations(**notes),
        lanes=tuple(lane(entry) for entry in document["lanes"]),
        works=OperatorWorks(**works),
        start_offset_ns=number(document["start_offset_ns"], -MOST_NS, MOST_NS),
        clock_shift_ns=number(document["clock_shift_ns"], -MOST_NS, MOST_NS),
        step_paths=tuple(step_path(entry) for entry in document.get("step_paths", ())),
        counts={str(name): number(count) for name, count in document["counts"].items()},
        header=dict(document["header"]),
    )
    check(linked, {name: list(table.values()) for name, table in tables.items()})
    return linked


def _columns(table: dict[str, Any], kinds: dict[str, Any]) -> dict[str, Any]:
    """The columns of a table, which is emptied: they are large."""
    return {name: integers(table.pop(name), kind) for name, kind in kinds.items()}


def _pair(inputs: Any, outputs: Any) -> Any:
    """Two columns side by side. Raises ValueError if they differ in length."""
    if len(inputs) != len(outputs):
        raise ValueError("the columns of the rows differ in length")
    if len(inputs) and inputs.strides == outputs.strides == (0,):
        return np.broadcast_to(np.stack([inputs[0], outputs[0]]), (len(inputs), 2))
    return np.stack([inputs, outputs], axis=1)
