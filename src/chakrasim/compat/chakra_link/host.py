"""The host trace as the reference linker sees it: what it accepts, and which nodes it knows."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.compat.chakra_link.crash import crash
from chakrasim.errors import InputError
from chakrasim.trace.host.columns import SPAN_ID, SPAN_NODE, SPAN_PARENT, HostTrace
from chakrasim.trace.kineto.columns import Ints

#: Schemas that the reference linker loads.
SCHEMAS: Final = (
    "1.0.1",
    "1.0.2-chakra.0.0.4",
    "1.0.3-chakra.0.0.4",
    "1.0.4-chakra.0.0.4",
    "1.1.0-chakra.0.0.4",
    "1.1.1-chakra.0.0.4",
)
#: Attributes that every node of schema 1.0.2 or later must have.
MANDATORY: Final = ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid", "op_schema")


def check_host(trace: HostTrace, text: bytes) -> None:
    """Raise InputError where the reference linker stops at this host trace. ``text`` is ``trace.text`` as bytes."""
    if trace.schema not in SCHEMAS:
        raise crash(
            "the reference linker does not know this schema",
            "ValueError",
            file=trace.source,
            place="schema",
            found=repr(trace.schema),
        )
    if trace.schema == "1.0.1":
        return
    for row in np.flatnonzero(trace.spans[:, SPAN_PARENT, 1] == 0)[:1].tolist():
        raise crash("a node has no ctrl_deps", "KeyError", file=trace.source, place=node_place(trace, row))
    check_attributes(trace, text, "ValueError")
    if trace.schema.startswith("1.1.1"):
        spans = trace.spans[:, SPAN_NODE].tolist()
        for row, (begin, end) in enumerate(spans):
            if text.count(b'"strides"', begin, end) < 2:
                raise crash(
                    "inputs or outputs of a node of schema 1.1.1 have no strides",
                    "KeyError",
                    file=trace.source,
                    place=node_place(trace, row),
                )


def check_attributes(trace: HostTrace, text: bytes, kind: str) -> None:
    """Raise InputError at the first node without one of the mandatory attributes."""
    spans = trace.spans[:, SPAN_NODE]
    for name in MANDATORY:
        column = getattr(trace, name)
        doubtful = np.flatnonzero(column == (0 if name == "op_schema" else -1))
        quoted = f'"{name}"'.encode()
        for row, (begin, end) in zip(doubtful.tolist(), spans[doubtful].tolist(), strict=True):
            if text.find(quoted, begin, end) < 0:
                raise crash(f"a node has no attribute {name!r}", kind, file=trace.source, place=node_place(trace, row))


def reachable(trace: HostTrace, rows: Ints) -> NDArray[np.bool_]:
    """bool[n], for the nodes ``rows`` (by id): which the reference linker finds by walking from node 1."""
    ids = trace.ids[rows]
    root = int(np.searchsorted(ids, 1))
    if root == len(ids) or ids[root] != 1:
        raise crash("there is no node with id 1", "KeyError", file=trace.source)
    parent = trace.parent[rows]
    at = np.minimum(np.searchsorted(ids, parent), len(ids) - 1)
    nowhere = len(ids)
    up = np.append(np.where(ids[at] == parent, at, nowhere), nowhere)
    up[root] = root
    step = up.copy()
    # Each round doubles the distance: after the last one every node points to where its way up ends.
    for _ in range(len(ids).bit_length()):
        up = up[up]
    endless = np.flatnonzero(step[up] != up)
    if len(endless):
        raise InputError(
            "the parents of nodes form a cycle (here the reference linker never ends)",
            file=trace.source,
            place=node_place(trace, int(rows[endless[0]])),
            remedy="leave out --compat chakra",
        )
    found: NDArray[np.bool_] = up[:-1] == root
    return found


def node_place(trace: HostTrace, row: int) -> str:
    """How a message names a node."""
    identity = "without id" if trace.spans[row, SPAN_ID, 1] == 0 else str(int(trace.ids[row]))
    return f"node {identity} ({trace.strings[int(trace.name[row])]!r}, number {row} in the file)"
