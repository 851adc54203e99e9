"""Whether a trace that was read equals the slow readers' one: texts by content, not by their index."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np

from chakrasim.trace.chakra.graph import StringTable
from chakrasim.trace.host import columns as h
from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.kineto import columns as k
from chakrasim.trace.kineto.columns import KinetoTrace, RareColumn

_EXACT = ("index", "phase", "ts_ns", "dur_ns", "flags", "device", "stream", "correlation", "external_id", "rf_id")


def texts(strings: StringTable, indices: Any) -> list[str]:
    """The strings with these indices."""
    known = {index: strings[index] for index in set(np.asarray(indices).tolist())}
    return [known[index] for index in np.asarray(indices).tolist()]


def rare_values(strings: StringTable, column: RareColumn, name: str) -> list[tuple[int, int, Any]]:
    """(row, kind, value) of a rare column; JSON as parsed, floats by their bits, exact texts of times as numbers."""
    assert column.rows.dtype == np.int32 and column.kind.dtype == np.uint8 and column.bits.dtype == np.int64
    values: list[tuple[int, int, Any]] = []
    for row, kind, bits in zip(column.rows.tolist(), column.kind.tolist(), column.bits.tolist(), strict=True):
        value: Any = bits
        if kind == k.JSON:
            value = repr(json.loads(strings[bits]))
        elif kind == k.TEXT:
            value = Decimal(strings[bits]) if name in ("ts text", "dur text") else strings[bits]
        values.append((row, kind, value))
    return values


def assert_same_kineto(found: KinetoTrace, wanted: KinetoTrace) -> None:
    """All that the two traces say is equal."""
    for name in _EXACT:
        column, other = getattr(found, name), getattr(wanted, name)
        assert column.dtype == other.dtype, name
        assert column.tolist() == other.tolist(), name
    for name in ("category", "name"):
        assert getattr(found, name).dtype == np.int32
        assert texts(found.strings, getattr(found, name)) == texts(wanted.strings, getattr(wanted, name)), name
    for name, bit in (("pid", k.PID_IS_TEXT), ("tid", k.TID_IS_TEXT)):
        one, two = getattr(found, name), getattr(wanted, name)
        assert one.dtype == np.int64
        text = found.has(bit)
        assert one[~text].tolist() == two[~text].tolist(), name
        assert texts(found.strings, -2 - one[text]) == texts(wanted.strings, -2 - two[text]), name
    assert set(found.rare) == set(wanted.rare)
    for name in found.rare:
        assert rare_values(found.strings, found.rare[name], name) == rare_values(
            wanted.strings, wanted.rare[name], name
        )
    assert repr(found.header) == repr(wanted.header)
    assert found.event_count == wanted.event_count
    assert sorted(found.strings) == sorted(set(found.strings)), "a string is there twice"
    assert _used(found) == set(range(len(found.strings))), "a string that no event uses"


def _used(trace: KinetoTrace) -> set[int]:
    used = {0, *trace.category.tolist(), *trace.name.tolist()}
    for column, bit in ((trace.pid, k.PID_IS_TEXT), (trace.tid, k.TID_IS_TEXT)):
        used.update((-2 - column[trace.has(bit)]).tolist())
    for rare in trace.rare.values():
        used.update(rare.bits[rare.kind >= k.TEXT].tolist())
    return used


_HOST_EXACT = ("ids", "parent", "rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid")
_TENSOR_EXACT = (*("node", "is_output", "argument", "tensor_id", "storage_id", "offset", "elements", "element_bytes"),)


def assert_same_host(found: HostTrace, wanted: HostTrace) -> None:
    """All that the two traces say is equal; spans by what stands there."""
    for name in _HOST_EXACT:
        column, other = getattr(found, name), getattr(wanted, name)
        assert column.dtype == other.dtype == np.int64 and column.flags.c_contiguous, name
        assert column.tolist() == other.tolist(), name
    for name in ("name", "op_schema", "kernel_backend", "kernel_file"):
        assert getattr(found, name).dtype == np.int32
        assert texts(found.strings, getattr(found, name)) == texts(wanted.strings, getattr(wanted, name)), name
    for name in _TENSOR_EXACT:
        column, other = getattr(found.tensors, name), getattr(wanted.tensors, name)
        assert column.dtype == other.dtype and column.tolist() == other.tolist(), name
    assert texts(found.strings, found.tensors.device) == texts(wanted.strings, wanted.tensors.device)
    assert set(found.rare) == set(wanted.rare)
    for name in found.rare:
        values = rare_values(found.strings, found.rare[name], name)
        assert values == rare_values(wanted.strings, wanted.rare[name], name)
    assert repr(found.header) == repr(wanted.header)
    assert found.schema == wanted.schema
    assert found.spans.shape == wanted.spans.shape and found.spans.dtype == np.int64
    assert found.text.dtype == np.uint8
    for row in range(len(found)):
        for part in range(h.SPANS):
            one, two = found.span(row, part), wanted.span(row, part)
            assert one == two or (one and two and repr(json.loads(one)) == repr(json.loads(two))), (row, part, one, two)
