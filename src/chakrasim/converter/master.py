"""Master traces: the nodes of all ranks in one trace, and back, without loss.

Nodes stand rank after rank in the order of their files. Their ids, and those that they depend on, are moved by a number
for each rank, so that no two are equal; every node says its ``rank`` in a last attribute. The metadata hold the numbers
of nodes and by how much ids were moved, and every rank's own metadata under ``RANK/NAME``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.trace.chakra.assemble import Strings, metadata, no_metadata
from chakrasim.trace.chakra.graph import Attributes, Csr, Ints, Trace, Words
from chakrasim.trace.kinds import BYTES, INT64, STRING

SCHEMA = "chakrasim-master-1"
_KEYS = ("nodes", "id_offsets", "versions")
_AGAIN = "merge the ranks again"


def merge_traces(traces: Sequence[Trace]) -> Trace:
    """One trace with the nodes of all ranks; ``traces[r]`` is that of rank r."""
    parts = [_Part(trace) for trace in traces]
    strings = Strings()
    lists = _NO_LISTS
    for part in parts:
        part.intern(strings)
        part.lists_before = len(lists)
        lists = _joined_csr((lists, Csr(part.trace.lists.offsets, part.list_items())))
    offsets = _id_offsets(traces)
    content: dict[str, object] = {
        "schema": SCHEMA,
        "nodes": [len(trace) for trace in traces],
        "id_offsets": {"uint64_list": offsets.tolist()},
        "versions": {"string_list": [trace.version for trace in traces]},
    }
    meta, lists = metadata(content, strings, lists)
    meta = _joined_attributes(
        (meta, *(part.metadata(rank, strings) for rank, part in enumerate(parts))), one_owner=True
    )
    rank_name = strings.add("rank")
    attrs = [part.node_attributes(rank, rank_name) for rank, part in enumerate(parts)]
    return Trace(
        ids=_concatenated([t.ids + offset for t, offset in zip(traces, offsets, strict=True)], np.uint64),
        types=_concatenated([trace.types for trace in traces], np.int32),
        name_index=_concatenated([part.texts(part.trace.name_index) for part in parts], np.int32),
        start_micros=_concatenated([trace.start_micros for trace in traces], np.uint64),
        duration_micros=_concatenated([trace.duration_micros for trace in traces], np.uint64),
        ctrl_deps=_joined_csr([_moved(t.ctrl_deps, offset) for t, offset in zip(traces, offsets, strict=True)]),
        data_deps=_joined_csr([_moved(t.data_deps, offset) for t, offset in zip(traces, offsets, strict=True)]),
        inputs=_concatenated([part.ports(part.trace.inputs) for part in parts], np.int32).reshape(-1, 3),
        outputs=_concatenated([part.ports(part.trace.outputs) for part in parts], np.int32).reshape(-1, 3),
        attrs=_joined_attributes(attrs),
        lists=lists,
        strings=strings.build(),
        version="",
        meta=meta,
    )


def split_trace(master: Trace) -> list[Trace]:
    """The traces of all ranks of a master trace. Raises InputError for any other trace."""
    said = master.metadata
    if said.get("schema") != SCHEMA or any(not isinstance(said.get(key), list) for key in _KEYS):
        raise InputError(
            "this is no master trace",
            file=master.source,
            place="the metadata",
            found=f"schema {said.get('schema', '')!r}",
            expected=f"a trace made by merge_traces (chakrasim merge), schema {SCHEMA!r}",
        )
    counts, offsets, versions = (said[key] for key in _KEYS)
    numbers = all(type(value) is int for value in (*counts, *offsets))
    if not numbers or min(offsets, default=0) < 0 or not all(isinstance(version, str) for version in versions):
        raise InputError("the metadata of this master trace are damaged", file=master.source, remedy=_AGAIN)
    ends = np.cumsum([0, *(max(-1, min(count, len(master) + 1)) for count in counts)])
    ranks = _last_ranks(master)
    whole = (
        len(counts) == len(offsets) == len(versions) and int(ends[-1]) == len(master) and min(counts, default=0) >= 0
    )
    if not whole or not np.array_equal(ranks, np.repeat(np.arange(len(counts)), counts)):
        raise InputError(
            "the nodes of this master trace are not those that its metadata count",
            file=master.source,
            found=f"{len(master)} nodes",
            expected=f"{sum(counts)}, rank after rank, each with its rank as its last attribute",
            remedy=_AGAIN,
        )
    metas = _metadata_of_ranks(master, len(counts))
    return [
        _rank(master, rank, int(ends[rank]), int(ends[rank + 1]), offsets[rank], versions[rank], metas[rank])
        for rank in range(len(counts))
    ]


_NO_LISTS = Csr(np.zeros(1, np.int64), np.zeros(0, np.uint64))


class _Part:
    """One rank's trace on its way into a master trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.lists_before = 0
        self._index: NDArray[np.int64] = np.zeros(0, np.int64)

    def intern(self, strings: Strings) -> None:
        """Add all texts of the trace to a common table."""
        table = self.trace.strings
        self._index = np.array([strings.add(table.raw(at)) for at in range(len(table))], np.int64)

    def texts(self, column: NDArray[np.int32]) -> NDArray[np.int32]:
        """A column of string indices, in the common table."""
        return self._index[column].astype(np.int32)

    def ports(self, column: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.where(column >= 0, self._index[np.maximum(column, 0)], column).astype(np.int32)

    def list_items(self) -> Words:
        """The elements of the trace's lists; those of texts in the common table."""
        items = self.trace.lists.targets.copy()
        for table in (self.trace.attrs, self.trace.meta):
            for at in np.flatnonzero((table.kind == STRING + 1) | (table.kind == BYTES + 1)).tolist():
                own = int(table.bits[at])
                span = slice(int(self.trace.lists.offsets[own]), int(self.trace.lists.offsets[own + 1]))
                items[span] = self._index[self.trace.lists.targets[span].astype(np.int64)].view(np.uint64)
        return items

    def attributes(self, table: Attributes) -> Attributes:
        """A table of attributes, in the common tables of texts and lists."""
        bits = table.bits.copy()
        texts = (table.kind == STRING) | (table.kind == BYTES)
        bits[texts] = self._index[bits[texts].astype(np.int64)].view(np.uint64)
        bits[(table.kind % 2 == 0) & (table.kind > 0)] += np.uint64(self.lists_before)
        return Attributes(table.offsets, self.texts(table.name), table.kind, bits, self.texts(table.doc))

    def metadata(self, rank: int, strings: Strings) -> Attributes:
        """The rank's own metadata, under names that begin with its number."""
        own = self.attributes(self.trace.meta)
        raw = [self.trace.strings.raw(at) for at in self.trace.meta.name.tolist()]
        names = np.array([strings.add(b"%d/" % rank + name) for name in raw], np.int32)
        return Attributes(own.offsets, names, own.kind, own.bits, own.doc)

    def node_attributes(self, rank: int, rank_name: int) -> Attributes:
        """The attributes of the nodes, each node's rank behind its others."""
        own = self.attributes(self.trace.attrs)
        ends = own.offsets[1:]
        return Attributes(
            own.offsets + np.arange(len(own.offsets)),
            np.insert(own.name, ends, rank_name),
            np.insert(own.kind, ends, INT64),
            np.insert(own.bits, ends, rank),
            np.insert(own.doc, ends, 0),
        )


def _id_offsets(traces: Sequence[Trace]) -> Words:
    """By how much each rank's ids are moved: behind the greatest before them (modulo 2^64, which loses nothing)."""
    spans = [int(trace.ids.max()) + 1 if len(trace) else 0 for trace in traces]
    total = 0
    offsets = []
    for span in spans:
        offsets.append(total % (1 << 64))
        total += span
    return np.array(offsets, np.uint64)


def _moved(deps: Csr, offset: Any) -> Csr:
    return Csr(deps.offsets, deps.targets + np.uint64(offset))


def _concatenated(columns: Sequence[NDArray[Any]], dtype: type) -> NDArray[Any]:
    return np.concatenate([np.zeros((0, *columns[0].shape[1:]), dtype), *columns]) if columns else np.zeros(0, dtype)


def _joined_csr(parts: Sequence[Csr]) -> Csr:
    ends: list[Ints] = [np.zeros(1, np.int64)]
    total = 0
    for part in parts:
        ends.append(part.offsets[1:] + total)
        total += int(part.offsets[-1])
    return Csr(np.concatenate(ends), _concatenated([part.targets for part in parts], np.uint64))


def _joined_attributes(parts: Sequence[Attributes], *, one_owner: bool = False) -> Attributes:
    if not parts:
        return Attributes(np.zeros(1, np.int64), *_columns(no_metadata()))
    joined = _joined_csr([Csr(part.offsets, part.bits) for part in parts])
    offsets = joined.offsets[[0, -1]] if one_owner else joined.offsets
    name, kind, _, doc = (np.concatenate(columns) for columns in zip(*map(_columns, parts), strict=True))
    return Attributes(offsets, name, kind, joined.targets, doc)


def _columns(
    table: Attributes,
) -> tuple[NDArray[np.int32], NDArray[np.uint8], Words, NDArray[np.int32]]:
    return table.name, table.kind, table.bits, table.doc


def _last_ranks(master: Trace) -> Ints:
    """int64[nodes]: the value of each node's last attribute if that is its rank; -1 otherwise."""
    ranks = np.full(len(master), -1, np.int64)
    table = master.attrs
    filled = np.flatnonzero(np.diff(table.offsets))
    last = table.offsets[1:][filled] - 1
    named = np.array([master.strings.raw(at) == b"rank" for at in range(len(master.strings))])
    good = named[table.name[last]] & (table.kind[last] == INT64)
    ranks[filled[good]] = table.bits[last[good]].view(np.int64)
    return ranks


def _metadata_of_ranks(master: Trace, ranks: int) -> list[tuple[list[int], list[bytes]]]:
    """By rank: the places of its own metadata in those of the master trace, and their names."""
    found: list[tuple[list[int], list[bytes]]] = [([], []) for _ in range(ranks)]
    for place, index in enumerate(master.meta.name.tolist()):
        number, slash, name = master.strings.raw(index).partition(b"/")
        if slash and number.isdigit() and len(number) < 10 and int(number) < ranks:
            found[int(number)][0].append(place)
            found[int(number)][1].append(name)
    return found


def _rank(
    master: Trace, rank: int, begin: int, end: int, offset: int, version: str, own: tuple[list[int], list[bytes]]
) -> Trace:
    strings = Strings(master.strings)
    places, names = np.array(own[0], np.int64), own[1]
    table = master.meta
    meta = Attributes(
        np.array([0, len(places)], np.int64),
        np.array([strings.add(name) for name in names], np.int32),
        table.kind[places],
        table.bits[places],
        table.doc[places],
    )
    back = (1 << 64) - offset if offset else 0
    nodes = slice(begin, end)
    return Trace(
        ids=master.ids[nodes] + np.uint64(back),
        types=master.types[nodes],
        name_index=master.name_index[nodes],
        start_micros=master.start_micros[nodes],
        duration_micros=master.duration_micros[nodes],
        ctrl_deps=_moved(_cut(master.ctrl_deps, begin, end), back),
        data_deps=_moved(_cut(master.data_deps, begin, end), back),
        inputs=master.inputs[nodes],
        outputs=master.outputs[nodes],
        attrs=_without_rank(master.attrs, begin, end),
        lists=master.lists,
        strings=strings.build(),
        version=version,
        meta=meta,
        source=f"{master.source} (rank {rank})",
    )


def _cut(deps: Csr, begin: int, end: int) -> Csr:
    offsets = deps.offsets[begin : end + 1]
    return Csr(offsets - offsets[0], deps.targets[int(offsets[0]) : int(offsets[-1])])


def _without_rank(table: Attributes, begin: int, end: int) -> Attributes:
    """The attributes of nodes ``begin`` to ``end``, each node's last left out."""
    own = table.offsets[begin : end + 1]
    kept = np.ones(int(own[-1] - own[0]), np.bool_)
    kept[own[1:] - own[0] - 1] = False
    span = slice(int(own[0]), int(own[-1]))
    return Attributes(
        own - own[0] - np.arange(len(own)),
        table.name[span][kept],
        table.kind[span][kept],
        table.bits[span][kept],
        table.doc[span][kept],
    )
