"""Making a trace out of columns: for converters that never hold an object per node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Attributes, Csr, Ints, StringTable, offsets_of
from chakrasim.trace.kinds import BYTES, DOUBLE, FLOAT, STRING


class Strings:
    """The texts of a table under the same indices, and more behind them; a text added twice stands there once."""

    def __init__(self, base: StringTable | None = None) -> None:
        self._base = StringTable.of() if base is None else base
        self._more: dict[bytes, int] = {b"": 0}
        self._extra: list[bytes] = []
        self._built = self._base

    def __len__(self) -> int:
        return len(self._base) + len(self._extra)

    def add(self, text: str | bytes) -> int:
        """The index of ``text``. Texts of the table that was there first are not looked through."""
        raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
        known = self._more.get(raw)
        if known is None:
            known = self._more[raw] = len(self)
            self._extra.append(raw)
        return known

    def build(self) -> StringTable:
        """All texts as one table."""
        if len(self._built) != len(self):
            self._built = self._base.and_more(self._extra)
        return self._built


@dataclass(frozen=True, eq=False)
class Column:
    """One attribute of many nodes: ``owners`` int64[k], ascending node positions (None: all nodes), ``bits`` [k] values
    as in `Attributes` (signed integers count as their two's complement, truth values as 0 and 1)."""

    name: str
    kind: int
    owners: Ints | None
    bits: NDArray[np.int64] | NDArray[np.uint64] | NDArray[np.int32] | NDArray[np.bool_]


def attributes(nodes: int, columns: Sequence[Column], strings: Strings) -> Attributes:
    """The columns as the attributes of ``nodes`` nodes; each node has them in the order of ``columns``."""
    counts = np.zeros(nodes, np.int64)
    for column in columns:
        if column.owners is None:
            counts += 1
        else:
            counts[column.owners] += 1
    offsets = offsets_of(counts)
    total = int(offsets[-1])
    name, kind, bits = np.empty(total, np.int32), np.empty(total, np.uint8), np.empty(total, np.uint64)
    cursor = offsets[:-1].copy()
    for column in columns:
        if column.kind in (FLOAT, DOUBLE):
            raise ValueError(f"column {column.name!r}: floats have no column form")
        owners = slice(None) if column.owners is None else column.owners
        places = cursor[owners]
        name[places] = strings.add(column.name)
        kind[places] = column.kind
        bits[places] = column.bits.astype(np.int64).view(np.uint64)
        cursor[owners] += 1
    return Attributes(offsets, name, kind, bits, np.zeros(total, np.int32))


def metadata(content: Mapping[str, object], strings: Strings, lists: Csr) -> tuple[Attributes, Csr]:
    """``content`` (values as `TraceBuilder` takes them) as a trace's metadata, and ``lists`` with its lists added."""
    own = TraceBuilder(metadata=content).build()
    index = np.array([strings.add(own.strings.raw(at)) for at in range(len(own.strings))], np.int64)
    bits = own.meta.bits.copy()
    texts = (own.meta.kind == STRING) | (own.meta.kind == BYTES)
    bits[texts] = index[bits[texts].astype(np.int64)].view(np.uint64)
    listed = (own.meta.kind % 2 == 0) & (own.meta.kind > 0)
    items = own.lists.targets.copy()
    for at in np.flatnonzero((own.meta.kind == STRING + 1) | (own.meta.kind == BYTES + 1)).tolist():
        place = int(own.meta.bits[at])
        span = slice(int(own.lists.offsets[place]), int(own.lists.offsets[place + 1]))
        items[span] = index[items[span].astype(np.int64)].view(np.uint64)
    bits[listed] += np.uint64(len(lists))
    offsets = np.concatenate((lists.offsets, lists.offsets[-1] + own.lists.offsets[1:]))
    meta = Attributes(own.meta.offsets, index[own.meta.name].astype(np.int32), own.meta.kind, bits, own.meta.doc)
    return meta, Csr(offsets, np.concatenate((lists.targets, items)))


def no_metadata() -> Attributes:
    """The metadata of a trace that has none."""
    none = np.zeros(0, np.int32)
    return Attributes(np.zeros(2, np.int64), none, np.zeros(0, np.uint8), np.zeros(0, np.uint64), none)
