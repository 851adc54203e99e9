"""A linked trace run again with its recorded durations: the check that its edges explain its times."""

from __future__ import annotations

from typing import Any

import numpy as np

from chakrasim.jit import kernel
from chakrasim.linker.rows.edges import Edges
from chakrasim.trace.chakra.graph import offsets_of
from chakrasim.trace.kineto.columns import Indices, Ints, Mask
from chakrasim.trace.linked.columns import EdgeKind, LinkedTrace

#: Edges that delay the work of their target, but not its start: the target itself waits.
_WAITED_FOR = (EdgeKind.SYNC_EVENT, EdgeKind.SYNC_STREAM, EdgeKind.SYNC_CONTEXT, EdgeKind.SYNC_COPY)


def replay(linked: LinkedTrace) -> tuple[Ints, Ints]:
    """int64[n], int64[n]: start and end of every row, if each begins to work ``delay_ns`` after all that it depends on
    has ended (rows that depend on nothing: after the first start), and then takes ``duration_ns``."""
    edges = Edges(linked.edge_source, linked.edge_target, linked.edge_kind, linked.edge_evidence)
    first = int(linked.start_ns.min()) if len(linked) else 0
    begin, ready, end = run(edges, linked.duration_ns, linked.delay_ns, first)
    return np.where(linked.wait_ns > 0, np.minimum(ready, begin), begin), end


def run(edges: Edges, duration_ns: Ints, delay_ns: Ints, first_ns: int) -> tuple[Ints, Ints, Ints]:
    """When each row begins to work, when it could have begun but for what it waits for in a call, and when it ends."""
    offsets, source, waited = incoming(edges, len(duration_ns))
    begin, ready, end = (np.empty(len(duration_ns), np.int64) for _ in range(3))
    if len(begin):
        delay, duration = np.ascontiguousarray(delay_ns), np.ascontiguousarray(duration_ns)
        _run(offsets, source, waited, duration, delay, first_ns, begin, ready, end)
    return begin, ready, end


def incoming(edges: Edges, rows: int) -> tuple[Ints, Indices, Mask]:
    """The edges that delay, by target: offsets int64[rows + 1], sources, and whether the target waits in a call."""
    delays = edges.kind != EdgeKind.CONTROL
    source, target, kind = edges.source[delays], edges.target[delays], edges.kind[delays]
    order = np.argsort(target, kind="stable")
    offsets = offsets_of(np.bincount(target, minlength=rows))
    return offsets, source[order], np.isin(kind[order], _WAITED_FOR)


@kernel
def _run(
    offsets: Any, source: Any, waited: Any, duration: Any, delay: Any, first: Any, begin: Any, ready: Any, end: Any
) -> None:
    for row in range(len(duration)):
        could = first
        can = first
        for edge in range(offsets[row], offsets[row + 1]):
            ended = end[source[edge]]
            can = max(can, ended)
            if not waited[edge]:
                could = max(could, ended)
        ready[row] = could
        begin[row] = can + delay[row]
        end[row] = begin[row] + duration[row]
