"""What NCCL says of its calls in the payloads of NVTX ranges: sizes, communicators, numbers of ranks.

Such ranges become ``record_param_comms``, as PyTorch's profiler has them. A payload is bytes laid out by a schema,
which the export has in tables of its own, behind a header of 32 bytes (as other readers of these exports describe it;
names of fields: nvtx_payload_schemas.h of NCCL). NCCL states the size of one message.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from chakrasim.trace.kineto.columns import Ints
from chakrasim.trace.profiles.build import NONE, Part, Texts
from chakrasim.trace.profiles.database import Database

_HEADER: Final = struct.Struct("<IIIIQQ")  # domain, -, schema, -, bytes of the payload, bytes of all
_ENTRIES: Final = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
#: Types of entries (nvtxPayloadEntryType) that are whole numbers.
_TYPES: Final = {5: "<i", 6: "<I", 9: "<q", 10: "<Q", 15: "<i", 16: "<I", 17: "<q", 18: "<Q", 22: "<Q"}
_SIZE, _GROUP, _RANKS = "Message size [bytes]", "NCCL communicator ID", "No. of ranks"
_MOST_BYTES: Final = 1 << 48
#: Calls whose input, whose output, is as many messages as there are ranks.
_MANY_IN: Final = frozenset({"ReduceScatter", "AlltoAll", "AllToAll", "Scatter"})
_MANY_OUT: Final = frozenset({"AllGather", "AlltoAll", "AllToAll", "Gather"})


def payloads(base: Database, table: str) -> dict[int, dict[str, int]]:
    """The fields of each row of ``table`` that has a payload, by its rowid."""
    layouts: dict[tuple[int, int], list[tuple[int, str, str]]] = {}
    names = dict(base.texts(_ENTRIES, "rowid", "name"))
    columns = ("rowid", "domainId", "schemaId", "type", "offset")
    for row, domain, schema, kind, offset in base.integers(_ENTRIES, columns).T.tolist():
        if kind in _TYPES and 0 <= max(offset, 0) < 1 << 16:
            layouts.setdefault((domain, schema), []).append((max(offset, 0), _TYPES[kind], names.get(row, "")))
    found = {}
    for row, raw in base.values(table, "rowid", "binaryData") if layouts else ():
        if isinstance(raw, bytes) and len(raw) >= _HEADER.size:
            domain, _, schema, _, size, _ = _HEADER.unpack_from(raw)
            end = min(_HEADER.size + size, len(raw))
            found[row] = {
                name: struct.unpack_from(form, raw, _HEADER.size + offset)[0]
                for offset, form, name in layouts.get((domain, schema), ())
                if _HEADER.size + offset + struct.calcsize(form) <= end
            }
    return found


def records(ranges: Part, rows: list[int], said: dict[int, dict[str, int]], texts: Texts) -> list[Part]:
    """The ranges of calls that move data, and the others. ``rows``: the rowid of each range."""
    sizes = {fields[_GROUP]: fields[_RANKS] for fields in said.values() if fields.keys() >= {_GROUP, _RANKS}}
    table = texts.all()
    columns: dict[str, list[int]] = {name: [] for name in ("name", "group", "in", "out", "ranks")}
    moving = np.zeros(len(ranges), np.bool_)
    for at, (row, name) in enumerate(zip(rows, ranges.name.tolist(), strict=True)):
        fields, call = said.get(row, {}), table[name].rpartition(":")[2]
        size = fields.get(_SIZE, -1)
        if not call.startswith("nccl") or not 0 <= size < _MOST_BYTES:
            continue
        moving[at] = True
        kind, group = call.removeprefix("nccl"), fields.get(_GROUP)
        ranks = sizes.get(group, 0) if group is not None else 0
        many = size * ranks if 0 < ranks < 1 << 20 else NONE
        columns["name"].append(texts.place(kind))
        columns["group"].append(NONE if group is None else texts.place(f"{group:x}"))
        columns["in"].append(many if kind in _MANY_IN else size)
        columns["out"].append(many if kind in _MANY_OUT else size)
        columns["ranks"].append(ranks if ranks > 0 else NONE)
    found, rest = ranges.take(moving), ranges.take(~moving)
    arrays: dict[str, Ints] = {name: np.array(values, np.int64) for name, values in columns.items()}
    found.category, found.name = "cpu_op", np.full(len(found), texts.place("record_param_comms"))
    found.rare = {"In msg nelems": arrays["in"], "Out msg nelems": arrays["out"], "Group size": arrays["ranks"]}
    dtype = np.full(len(found), texts.place("Byte"))
    found.texts = {"Collective name": arrays["name"], "Process Group Name": arrays["group"], "dtype": dtype}
    return [found, rest]
