"""Conversion of plain linked traces, which nearly all are, by kernels that take no time to start.

Nodes that the kernels leave to Python are few (NCCL kernels, threads, texts with escapes), and are read one by one.
"""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import dataclass
from json import JSONDecoder
from typing import Any

from chakrasim.compat.chakra_convert.graph import THREADS
from chakrasim.compat.chakra_convert.nodes import FAULTS, Encoder, LinkedNode
from chakrasim.compat.chakra_convert.read import check_schema, read_nodes
from chakrasim.compat.chakra_convert.types import communication
from chakrasim.converter.compat_columns import (
    BEGIN,
    COLUMNS,
    DEVICE,
    END,
    FLAGS,
    HEAD,
    HEAD_SIZE,
    ID,
    KIND,
    LEFT_OUT,
    MAX_ID,
    METADATA,
    NAMES,
    NODES,
    PARENT,
    REACHED,
    TAIL,
    TAIL_SIZE,
    THREAD,
    USED,
    WAITS,
    work_size,
)
from chakrasim.errors import InputError
from chakrasim.native import Native
from chakrasim.trace.kinds import NodeType

_scan = Native(f"{__package__}.compat_text", "scan", "bytes", "int", "bytes", "bytes", "bytes", "words", "int", "words")
_arrange = Native(f"{__package__}.compat_order", "arrange", "words", "int", "int", "bytes", "bytes", "words", "words")
#: No node that a kernel can read is shorter, and none needs more bytes in Chakra's form than this many times its text.
_SHORTEST = 64
_GROWTH = 2
#: Bytes of a node's dependencies and lengths.
_FRAME = 64
#: Ids may be sparse, up to so many for each node.
_SPARSE = 64
_LARGE = 1 << 62


def is_cold() -> bool:
    """Whether `convert_plain` compiles first."""
    return _scan.is_cold() or _arrange.is_cold()


@dataclass(frozen=True)
class PlainConversion:
    """``header`` of the linked trace, how many nodes were kept, and their bytes in Chakra's form."""

    header: dict[str, Any]
    nodes: int
    data: memoryview


def convert_plain(data: bytes, source: str) -> PlainConversion | None:
    """Convert the linked trace ``data``; None if there is anything unusual about it."""
    begin = data.find(b'"nodes"')
    at = data.find(b"[", begin) + 1
    if begin < 0 or data[begin + 7 : at - 1].strip() != b":":
        return None
    while data[at : at + 1].isspace():
        at += 1
    trace = _Plain(data)
    if not trace.scan(at):
        return None
    try:
        # The rest is a linked trace without nodes.
        header, _ = read_nodes((data[:begin] + b'"nodes": []' + data[trace.state[REACHED] :]).decode(), source)
        check_schema(header, source)
        if not trace.read_left_out():
            return None
    except (InputError, RecursionError, *FAULTS):
        return None
    return PlainConversion(header, *kept) if (kept := trace.arrange()) else None


class _Plain:
    """Tables of one conversion, as large as they may have to be: memory that is not used costs nothing."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.capacity = len(data) // _SHORTEST + 1
        self.columns = _words(self.capacity * COLUMNS)
        self.bytes = _bytes(len(data) * _GROWTH + self.capacity * _FRAME)
        self.state = (ctypes.c_int64 * 4)()
        self._encoder = Encoder()
        self._row_of: dict[int, int] | None = None

    def scan(self, at: int) -> bool:
        """Read all nodes."""
        spare = _bytes(len(self.data) * _GROWTH + _FRAME)
        return bool(_scan(self.data, at, NAMES, self.bytes, spare, self.columns, self.capacity, self.state))

    def read_left_out(self) -> bool:
        """Read what the kernel left to Python; whether that gave plain nodes as well."""
        left_out = [row for row in self._rows() if self.columns[row + FLAGS] == LEFT_OUT]
        nodes = {row: self._node(row) for row in left_out}
        for row, node in nodes.items():
            if node.fault is not None or not all(map(_is_plain, (node.id, node.parent, node.waits_for or 0))):
                return False
            self.columns[row + ID] = node.id
        for row, node in nodes.items():
            self._set(row, node)
        return True

    def _rows(self) -> range:
        return range(0, self.state[NODES] * COLUMNS, COLUMNS)

    def _node(self, row: int) -> LinkedNode:
        """A node as the decoder reads it. Raises ValueError and the like if it is none."""
        text = self.data[self.columns[row + BEGIN] : self.columns[row + END]].decode()
        return self._encoder.node(JSONDecoder().decode(text))

    def _set(self, row: int, node: LinkedNode) -> None:
        kind, more = communication(node, self) if node.inputs is not None else (NodeType.COMP_NODE, b"")
        if node.is_metadata:
            kind = NodeType.METADATA_NODE
        columns, used, tail = self.columns, self.state[USED], node.tail + more
        end = used + len(node.head) + len(tail)
        self.bytes[used:end] = node.head + tail
        columns[row + PARENT], columns[row + WAITS], columns[row + KIND] = node.parent, node.waits_for or 0, kind
        columns[row + HEAD], columns[row + HEAD_SIZE] = used, len(node.head)
        columns[row + TAIL], columns[row + TAIL_SIZE] = end - len(tail), len(tail)
        columns[row + FLAGS] = DEVICE * node.is_gpu | METADATA * node.is_metadata | THREAD * (node.name in THREADS)
        self.state[USED], self.state[MAX_ID] = end, max(self.state[MAX_ID], node.id)

    def __getitem__(self, identity: int) -> LinkedNode:
        """The node of an id, for the few that need another."""
        if self._row_of is None:
            self._row_of = {self.columns[row + ID]: row for row in self._rows()}
        return self._node(self._row_of[identity])

    def arrange(self) -> tuple[int, memoryview] | None:
        """How many nodes were kept, and their bytes."""
        nodes, ids = self.state[NODES], self.state[MAX_ID] + 1
        if ids > nodes * _SPARSE:
            return None
        out = _bytes(self.state[USED] + nodes * _FRAME)
        work = _words(work_size(nodes, ids))
        if not _arrange(self.columns, nodes, ids, self.bytes, out, work, self.state):
            return None
        return self.state[NODES], memoryview(out)[: self.state[USED]]


def _is_plain(number: Any) -> bool:
    return type(number) is int and 0 <= number < _LARGE


def _bytes(size: int) -> Any:
    return (ctypes.c_uint8 * size).from_buffer(mmap.mmap(-1, size))


def _words(size: int) -> Any:
    return (ctypes.c_int64 * size).from_buffer(mmap.mmap(-1, 8 * size))
