"""Changing attributes of a trace: columns in, a new trace out; all else is shared with the old one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chakrasim.trace.chakra.assemble import Strings, metadata
from chakrasim.trace.chakra.graph import Attributes, Ints, Trace, offsets_of


@dataclass(frozen=True, eq=False)
class Change:
    """Attribute ``name`` of ``nodes`` (int64[k], ascending, each once) becomes ``values`` (int64[k], or one text for
    all). Nodes that have it keep its place, the others get it behind their other attributes."""

    name: str
    kind: int
    nodes: Ints
    values: Ints | str


def edited(
    trace: Trace,
    changes: Sequence[Change] = (),
    *,
    drop: Collection[str] = (),
    drop_from: Mapping[str, Ints] | None = None,
    said: Mapping[str, object] | None = None,
) -> Trace:
    """The trace with changes made, attributes left out (``drop``: everywhere, ``drop_from``: of some nodes) and
    metadata ``said`` added, replaced or (None) left out."""
    strings = Strings(trace.strings)
    attrs = _without(trace, trace.attrs, drop, drop_from or {})
    for change in changes:
        if len(change.nodes):
            attrs = _changed(trace, attrs, change, strings)
    meta, lists = trace.meta, trace.lists
    if said:
        content = {name: value for name, value in {**trace.metadata, **said}.items() if value is not None}
        meta, lists = metadata(content, strings, trace.lists)
    return replace(trace, attrs=attrs, meta=meta, lists=lists, strings=strings.build())


def _named(trace: Trace, attrs: Attributes, name: str) -> list[int]:
    """The string indices under which ``name`` is used: traces of others may hold a text twice."""
    known = len(trace.strings)
    return [index for index in np.unique(attrs.name).tolist() if index < known and trace.strings[index] == name]


def _owners(attrs: Attributes) -> Ints:
    return np.repeat(np.arange(len(attrs.offsets) - 1), np.diff(attrs.offsets))


def _without(trace: Trace, attrs: Attributes, drop: Collection[str], drop_from: Mapping[str, Ints]) -> Attributes:
    gone: NDArray[np.bool_] = np.zeros(len(attrs), np.bool_)
    for name in drop:
        gone |= np.isin(attrs.name, _named(trace, attrs, name))
    for name, nodes in drop_from.items():
        gone |= np.isin(attrs.name, _named(trace, attrs, name)) & np.isin(_owners(attrs), nodes)
    if not gone.any():
        return attrs
    left = ~gone
    offsets = offsets_of(np.bincount(_owners(attrs)[left], minlength=len(attrs.offsets) - 1))
    return Attributes(offsets, attrs.name[left], attrs.kind[left], attrs.bits[left], attrs.doc[left])


def _changed(trace: Trace, attrs: Attributes, change: Change, strings: Strings) -> Attributes:
    values = change.values
    if isinstance(values, str):
        values = np.full(len(change.nodes), strings.add(values), np.int64)
    indices = _named(trace, attrs, change.name)
    places = np.flatnonzero(np.isin(attrs.name, indices))
    owners, first = np.unique(_owners(attrs)[places], return_index=True)
    places = places[first]
    there = np.isin(change.nodes, owners)
    at = places[np.searchsorted(owners, change.nodes[there])]
    kind, bits = attrs.kind.copy(), attrs.bits.copy()
    kind[at] = change.kind
    bits[at] = values[there].astype(np.int64).view(np.uint64)
    new = change.nodes[~there]
    behind = attrs.offsets[new + 1]
    offsets = attrs.offsets.copy()
    offsets[1:] += np.cumsum(np.bincount(new, minlength=len(offsets) - 1))
    name = indices[0] if indices else strings.add(change.name)
    return Attributes(
        offsets,
        np.insert(attrs.name, behind, np.int32(name)),
        np.insert(kind, behind, np.uint8(change.kind)),
        np.insert(bits, behind, values[~there].astype(np.int64).view(np.uint64)),
        np.insert(attrs.doc, behind, np.int32(0)),
    )
