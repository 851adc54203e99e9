"""One Chakra execution trace in memory: columns, in file order, never an object per node.

Strings are interned: wherever a column holds a string it holds an index into ``Trace.strings``. Index 0 is always the
empty string, which is also what the schema means by an absent one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.text.shown import Shown
from chakrasim.trace.kinds import (
    BOOL,
    BYTES,
    DOUBLE,
    FIXED64,
    FLOAT,
    INTEGER_KINDS,
    KIND_NAMES,
    STRING,
    UINT64,
    type_name,
)

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

_INTEGER_LIKE = np.array([kind in INTEGER_KINDS for kind in range(256)])


@dataclass(frozen=True, eq=False)
class StringTable:
    """Byte strings end to end: entry ``i`` is ``blob[offsets[i]:offsets[i + 1]]``; decoded only when asked for, bytes
    that are no UTF-8 (readers of Chakra traces refuse them, those of PyTorch's do not) as replacement characters."""

    blob: NDArray[np.uint8]
    offsets: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def of(cls, texts: Sequence[bytes] = (b"",)) -> StringTable:
        """The table of these texts; the first one is the empty one."""
        return cls(np.zeros(0, np.uint8), np.zeros(1, np.int64)).and_more(texts)

    def and_more(self, texts: Sequence[bytes]) -> StringTable:
        """This table with texts behind its own."""
        ends = self.offsets[-1] + np.cumsum([len(text) for text in texts], dtype=np.int64)
        more = np.frombuffer(b"".join(texts), np.uint8)
        return StringTable(np.concatenate((self.blob, more)), np.concatenate((self.offsets, ends)))

    def raw(self, index: int) -> bytes:
        """Entry ``index`` as it stood in the file."""
        return self.blob[self.offsets[index] : self.offsets[index + 1]].tobytes()

    def __getitem__(self, index: int) -> str:
        return self.raw(index).decode("utf-8", "replace")

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(len(self)))

    def each(self, column: NDArray[Any], answer: Callable[[str], Any], kind: Any = np.bool_) -> NDArray[Any]:
        """What ``answer`` says of the text of each entry of a column of indices; each distinct text is asked about
        once."""
        used = np.zeros(len(self), np.bool_)
        used[column] = True
        answers = np.zeros(len(self), kind)
        for index in np.flatnonzero(used).tolist():
            answers[index] = kind(answer(self[index]))
        found: NDArray[Any] = answers[column]
        return found


def offsets_of(lengths: Sequence[int] | NDArray[Any]) -> Ints:
    """int64[n + 1]: where lists of these lengths, end to end, begin and end."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, dtype=np.int64, out=offsets[1:])
    return offsets


@dataclass(frozen=True, eq=False)
class Csr:
    """Lists of different lengths end to end: list ``i`` is ``targets[offsets[i]:offsets[i + 1]]``."""

    offsets: Ints
    targets: Words

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Words:
        return self.targets[self.offsets[index] : self.offsets[index + 1]]


@dataclass(frozen=True, eq=False)
class Attributes:
    """Named, typed values, lossless: those of owner ``i`` are ``offsets[i]`` to ``offsets[i + 1]``, ``k`` in total.

    Attributes
    ----------
    offsets: int64[owners + 1]
    name: int32[k], string index.
    kind: uint8[k], field number in the schema's ``AttributeProto`` (``kinds.KIND_NAMES``); 0: no value.
    bits: uint64[k]. Integers and truth values in two's complement; floats as their IEEE bits (32 bits for ``float``);
        strings and bytes as string index; lists as index into ``Trace.lists``, whose elements follow the same rule.
    doc: int32[k], string index of the ``doc_string``.
    """

    offsets: Ints
    name: NDArray[np.int32]
    kind: NDArray[np.uint8]
    bits: Words
    doc: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, eq=False)
class AttrColumn:
    """One attribute over all ``n`` nodes; where a node repeats the name, its first occurrence (present False: none).

    ``kind`` uint8[n] and ``bits`` uint64[n] are as in `Attributes`, 0 where the attribute is absent.
    """

    name: str
    present: NDArray[np.bool_]
    kind: NDArray[np.uint8]
    bits: Words
    trace: Trace

    @property
    def is_integer(self) -> NDArray[np.bool_]:
        """bool[n]: the attribute is there and holds an integer or a truth value."""
        return _INTEGER_LIKE[self.kind]

    def integers(self, default: int = 0) -> Ints:
        """int64[n] in two's complement (a uint64 above 2**63 - 1 is negative), ``default`` where absent.

        Raises InputError at the first node whose attribute is no integer.
        """
        wrong = np.flatnonzero(self.present & ~self.is_integer)
        if len(wrong):
            self._refuse(int(wrong[0]), "an integer or bool value", "is no integer")
        values = self.bits.view(np.int64).copy()
        if default:
            values[~self.present] = default
        return values

    def integers_or(self, default: int | Ints) -> Ints:
        """int64[n] in two's complement, ``default`` where the attribute is absent or no integer."""
        return np.where(self.is_integer, self.bits.view(np.int64), default)

    def value(self, node: int) -> Any:
        """The value at one node as a Python object; None where absent or without a value."""
        return self.trace.decode(int(self.kind[node]), int(self.bits[node]))

    def string(self, node: int) -> str:
        """The text at one node, "" where absent. Raises InputError if the attribute is no string."""
        if not self.present[node]:
            return ""
        if self.kind[node] != STRING:
            self._refuse(node, "a string_val")
        return self.trace.strings[int(self.bits[node])]

    def texts(self, nodes: Ints) -> NDArray[np.str_]:
        """The texts at some nodes, of which few differ, "" where absent. Raises InputError if one is no string."""
        present = self.present[nodes]
        wrong = present & (self.kind[nodes] != STRING)
        if wrong.any():
            self._refuse(int(nodes[wrong.argmax()]), "a string_val")
        distinct, which = np.unique(np.where(present, self.bits[nodes], np.uint64(0)), return_inverse=True)
        return np.array([self.trace.strings[int(bits)] for bits in distinct] or [""], np.str_)[which]

    def texts_or_empty(self, nodes: Ints | slice = slice(None)) -> Sequence[str]:
        """The texts at some nodes, or all, "" where the attribute is absent or no string."""
        index = np.where(self.kind == STRING, self.bits, np.uint64(0))[nodes].tolist()
        known = {text: self.trace.strings[text] for text in {*index}}
        return [known[text] for text in index]

    def list(self, node: int) -> list[Any]:
        """The list at one node, [] where absent. Raises InputError if the attribute is no list."""
        if not self.present[node]:
            return []
        if self.kind[node] == 0 or self.kind[node] % 2:
            self._refuse(node, "a list value")
        values: list[Any] = self.value(node)
        return values

    def _refuse(self, node: int, expected: str, fault: str = "has the wrong type") -> None:
        raise InputError(
            f"attribute {self.name!r} {fault}",
            file=self.trace.source,
            place=self.trace.place(node),
            found=f"{KIND_NAMES[int(self.kind[node])]} {self.value(node)!r}",
            expected=expected,
        )


@dataclass(frozen=True)
class NodeView:
    """One node for people: everything decoded. ``attrs`` keeps the first of equal names."""

    index: int
    id: int
    name: str
    type: int
    ctrl_deps: tuple[int, ...]
    data_deps: tuple[int, ...]
    start_micros: int
    duration_micros: int
    inputs: dict[str, str] | None
    outputs: dict[str, str] | None
    attrs: dict[str, Any]

    @property
    def type_name(self) -> str:
        """The schema's name of the node type."""
        return type_name(self.type)


@dataclass(frozen=True, eq=False)
class Trace(Shown):
    """A Chakra execution trace of ``n`` nodes in file order.

    Attributes
    ----------
    ids: uint64[n], as in the file (not checked for being unique).
    types: int32[n], `NodeType` or any other number that the file holds.
    name_index: int32[n], string index.
    start_micros, duration_micros: uint64[n], microseconds.
    ctrl_deps, data_deps: node ids that each node waits for.
    inputs, outputs: int32[n, 3], string index of values, shapes, types; all three -1 where the message is absent.
    attrs: the nodes' attributes.
    lists: elements of list-valued attributes, node or metadata.
    strings: all strings and byte strings.
    version: of the schema, as the file states it ("" where it does not).
    meta: the attributes of the file's GlobalMetadata (one owner).
    source: the file's name, for messages.
    """

    ids: Words
    types: NDArray[np.int32]
    name_index: NDArray[np.int32]
    start_micros: Words
    duration_micros: Words
    ctrl_deps: Csr
    data_deps: Csr
    inputs: NDArray[np.int32]
    outputs: NDArray[np.int32]
    attrs: Attributes
    lists: Csr
    strings: StringTable
    version: str
    meta: Attributes
    source: str = "<memory>"

    def __len__(self) -> int:
        return len(self.ids)

    def _in_short(self) -> dict[str, str]:
        return {
            "nodes": f"{len(self):,}",
            "attributes": f"{len(self.attrs):,}",
            "schema": self.version or "not stated",
            "source": self.source,
        }

    @cached_property
    def _attr_names(self) -> dict[str, int]:
        used = np.flatnonzero(np.bincount(self.attrs.name, minlength=1))
        return {self.strings[index]: index for index in used.tolist()}

    def attr_names(self) -> list[str]:
        """All attribute names that occur on nodes."""
        return list(self._attr_names)

    def attr(self, name: str) -> AttrColumn:
        """The attribute ``name`` over all nodes (present nowhere if no node has it)."""
        count = len(self)
        kind = np.zeros(count, np.uint8)
        bits = np.zeros(count, np.uint64)
        present = np.zeros(count, np.bool_)
        index = self._attr_names.get(name)
        if index is not None:
            places = np.flatnonzero(self.attrs.name == index)
            owners = np.searchsorted(self.attrs.offsets, places, side="right") - 1
            if len(owners) > 1:
                first = np.empty(len(owners), np.bool_)
                first[0] = True
                np.not_equal(owners[1:], owners[:-1], out=first[1:])
                places, owners = places[first], owners[first]
            present[owners] = True
            kind[owners] = self.attrs.kind[places]
            bits[owners] = self.attrs.bits[places]
        return AttrColumn(name, present, kind, bits, self)

    def name(self, node: int) -> str:
        """The name of the node at position ``node``."""
        return self.strings[int(self.name_index[node])]

    def place(self, node: int) -> str:
        """How a message names the node at position ``node``."""
        return f"node {int(self.ids[node])} ({self.name(node)!r}, number {node} in the file)"

    def decode(self, kind: int, bits: int) -> Any:
        """An attribute's value as a Python object: bool, int, float, str, bytes, list of those, or None (kind 0)."""
        if kind == 0:
            return None
        if kind % 2 == 0:
            return [self.decode(kind - 1, element) for element in self.lists[bits].tolist()]
        if kind == BOOL:
            return bits != 0
        if kind == STRING:
            return self.strings[bits]
        if kind == BYTES:
            return self.strings.raw(bits)
        if kind == DOUBLE:
            return struct.unpack("<d", struct.pack("<Q", bits))[0]
        if kind == FLOAT:
            return struct.unpack("<f", struct.pack("<I", bits))[0]
        return bits if kind in (UINT64, FIXED64) or bits < 1 << 63 else bits - (1 << 64)

    def _decode_all(self, table: Attributes, owner: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for at in range(int(table.offsets[owner]), int(table.offsets[owner + 1])):
            values.setdefault(self.strings[int(table.name[at])], self.decode(int(table.kind[at]), int(table.bits[at])))
        return values

    def _io(self, column: NDArray[np.int32], node: int) -> dict[str, str] | None:
        if column[node, 0] < 0:
            return None
        return {
            field: self.strings[int(index)]
            for field, index in zip(("values", "shapes", "types"), column[node], strict=True)
        }

    def node(self, index: int) -> NodeView:
        """The node at position ``index`` of the file (negative: from the end), decoded. For people, not for loops."""
        at = range(len(self))[index]
        return NodeView(
            index=at,
            id=int(self.ids[at]),
            name=self.name(at),
            type=int(self.types[at]),
            ctrl_deps=tuple(self.ctrl_deps[at].tolist()),
            data_deps=tuple(self.data_deps[at].tolist()),
            start_micros=int(self.start_micros[at]),
            duration_micros=int(self.duration_micros[at]),
            inputs=self._io(self.inputs, at),
            outputs=self._io(self.outputs, at),
            attrs=self._decode_all(self.attrs, at),
        )

    @property
    def metadata(self) -> dict[str, Any]:
        """The attributes of the file's GlobalMetadata, the first of equal names."""
        return self._decode_all(self.meta, 0)
