"""What determines how long a trace takes: the longest path through the work and the dependencies of a linked trace.

Every row waits until all that it depends on has ended, then for its ``delay_ns``; a call that waited for the device
counts with the part of its time that was no waiting. So the path is a chain of work and latencies without holes, from
some beginning to the last end, and shortening anything that is not on it does not shorten the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.analysis.critical_path.longest import longest_chain
from chakrasim.errors import InputError
from chakrasim.text.amounts import share_text, time_text
from chakrasim.text.shown import Shown
from chakrasim.trace.kineto.columns import Ints
from chakrasim.trace.linked.columns import ON_CRITICAL_PATH, EdgeKind, LinkedTrace, RowKind

Indices = NDArray[np.int32]
Instance = int | tuple[int, int] | None

#: What time on the path was spent on.
CAUSES: Final = (
    "host",
    "host gap",
    "kernel",
    "communication",
    "memory copy",
    "launch latency",
    "kernel-kernel gap",
    "synchronisation",
)
HOST, HOST_GAP, KERNEL, COMMUNICATION, MEMORY_COPY, LAUNCH_LATENCY, KERNEL_GAP, SYNCHRONISATION = range(len(CAUSES))
SYNC_KINDS: Final = (EdgeKind.SYNC_EVENT, EdgeKind.SYNC_STREAM, EdgeKind.SYNC_CONTEXT, EdgeKind.SYNC_COPY)

_CAUSE_OF_ROW: Final = {
    RowKind.OPERATOR: HOST,
    RowKind.RUNTIME: HOST,
    RowKind.GAP: HOST_GAP,
    RowKind.KERNEL: KERNEL,
    RowKind.MEMCPY: MEMORY_COPY,
    RowKind.MEMSET: MEMORY_COPY,
    RowKind.HOST_COLLECTIVE: COMMUNICATION,
}


@dataclass(frozen=True, eq=False)
class LinkedPath(Shown):
    """The critical path of a linked trace: ``p`` rows in the order of time.

    Attributes
    ----------
    rows: int32[p], rows of the linked trace.
    edges: int32[p], the edge of the linked trace by which each row was reached; -1 for the first.
    delay_ns, delay_cause: int64[p], int8[p], the latency before each row, and its number in CAUSES.
    duration_ns, cause: int64[p], int8[p], the time that each row took, and its number in CAUSES.
    window_ns: when the window begins and ends (the path may end later: work begun in it counts).
    start_ns, end_ns: when the path begins and ends; what precedes it in the window is no part of it.
    sync_edges: int32[k], all edges from a device to the host, or between streams by an event, of the window.
    on_path: bool[k], which of them are on the path.
    """

    rows: Indices
    edges: Indices
    delay_ns: Ints
    delay_cause: NDArray[np.int8]
    duration_ns: Ints
    cause: NDArray[np.int8]
    window_ns: tuple[int, int]
    start_ns: int
    end_ns: int
    sync_edges: Indices
    on_path: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.rows)

    def _in_short(self) -> dict[str, str]:
        causes = sorted(self.breakdown_ns().items(), key=lambda cause: -cause[1])
        return {"length": time_text(self.total_ns), "rows": f"{len(self):,}"} | {
            cause.replace("_", " "): share_text(ns, self.total_ns) for cause, ns in causes if ns
        }

    @property
    def total_ns(self) -> int:
        """Length of the path; the breakdown adds up to it."""
        return self.end_ns - self.start_ns

    def breakdown_ns(self) -> dict[str, int]:
        """Time on the path by cause, each of CAUSES."""
        cause = np.concatenate([self.cause, self.delay_cause])
        time = np.concatenate([self.duration_ns, self.delay_ns])
        return {name: int(time[cause == number].sum()) for number, name in enumerate(CAUSES)}


def linked_critical_path(linked: LinkedTrace, *, annotation: str = "", instance: Instance = None) -> LinkedPath:
    """The critical path of one rank.

    A host row is in the window if it starts in it, a device row if its launch does. Raises InputError if there is no
    such annotation or instance, or nothing in the window, or if the trace has no times.

    Parameters
    ----------
    linked: host and device together, with all dependencies.
    annotation: the part of a name of the annotations that bound the window; "" for the whole trace.
    instance: which of these annotations, counted from 0 by their start; a pair for several, both ends included; None
        for all, from the first one's start to the last one's end.
    """
    _check(linked)
    window = _window(linked, annotation, instance)
    use = _inside(linked, window)
    if not use.any():
        raise InputError("nothing starts in the window", file=linked.source, found=f"{window[0]} to {window[1]} ns")
    waits = linked.edge_kind != EdgeKind.CONTROL
    kept = np.flatnonzero(waits).astype(np.int32)
    order = kept[np.argsort(linked.edge_target[kept], kind="stable")]
    slot = np.searchsorted(linked.edge_target[order], np.arange(len(linked) + 1)).astype(np.int64)
    by_edge = np.full(len(linked), -1, np.int32)
    last = longest_chain(
        slot,
        order,
        np.ascontiguousarray(linked.edge_source, np.int32),
        use.astype(np.int8),
        linked.start_ns + linked.wait_ns,
        np.ascontiguousarray(linked.delay_ns, np.int64),
        np.ascontiguousarray(linked.duration_ns, np.int64),
        np.zeros(len(linked), np.int64),
        by_edge,
    )
    edges = [int(by_edge[last])]
    rows = [int(last)]
    while edges[-1] >= 0:
        rows.append(int(linked.edge_source[edges[-1]]))
        edges.append(int(by_edge[rows[-1]]))
    return _path(linked, window, use, np.array(rows[::-1], np.int32), np.array(edges[::-1], np.int32))


def mark_critical_path(linked: LinkedTrace, path: LinkedPath) -> LinkedTrace:
    """The same trace, the edges on the path flagged ON_CRITICAL_PATH, and no others."""
    flags = linked.edge_flags & np.uint8(255 ^ ON_CRITICAL_PATH)
    flags[path.edges[path.edges >= 0]] |= np.uint8(ON_CRITICAL_PATH)
    return replace(linked, edge_flags=flags)


def _check(linked: LinkedTrace) -> None:
    if not len(linked) or not (linked.duration_ns.any() or linked.start_ns.any()):
        raise InputError(
            "the trace has no times, so there is no critical path", file=linked.source, remedy="link a device trace"
        )
    if np.any(linked.edge_source >= linked.edge_target):
        raise InputError("an edge of the linked trace goes backwards", file=linked.source)


def _window(linked: LinkedTrace, annotation: str, instance: Instance) -> tuple[int, int]:
    if annotation == "":
        return int(linked.start_ns.min()), int(linked.end_ns.max())
    notes = linked.annotations
    found = np.flatnonzero(linked.strings.each(notes.name, lambda name: annotation in name))
    found = found[np.argsort(notes.start_ns[found], kind="stable")]
    if not len(found):
        raise InputError(
            f"no annotation contains {annotation!r}",
            file=linked.source,
            found=_some(linked, notes.name),
            remedy="name another one, or '' for the whole trace",
        )
    if isinstance(instance, int):
        instance = instance, instance
    first, last = (0, len(found) - 1) if instance is None else instance
    if not 0 <= first <= last < len(found):
        raise InputError(
            f"there is no instance {first if first == last else f'{first}:{last}'} of {annotation!r}",
            file=linked.source,
            expected=f"0 to {len(found) - 1}",
        )
    chosen = found[first : last + 1]
    return int(notes.start_ns[chosen].min()), int((notes.start_ns[chosen] + notes.duration_ns[chosen]).max())


def _some(linked: LinkedTrace, names: Indices, most: int = 6) -> str:
    """A few of these names, for a message."""
    distinct = list(dict.fromkeys(names.tolist()))
    texts = [repr(linked.strings[index]) for index in distinct[:most]]
    return ", ".join(texts) + (", ..." if len(distinct) > most else "") if texts else "no annotations"


def _inside(linked: LinkedTrace, window: tuple[int, int]) -> NDArray[np.bool_]:
    inside = (linked.start_ns >= window[0]) & (linked.start_ns <= window[1])
    launches = np.flatnonzero((linked.edge_kind == EdgeKind.LAUNCH) & linked.is_device[linked.edge_target])
    inside[linked.edge_target[launches]] = inside[linked.edge_source[launches]]
    return np.asarray(inside, np.bool_)


def _path(
    linked: LinkedTrace, window: tuple[int, int], use: NDArray[np.bool_], rows: Indices, edges: Indices
) -> LinkedPath:
    """Times and causes of the chain."""
    reached = np.append(linked.edge_kind, np.uint8(EdgeKind.THREAD))[edges]  # of the first row: any
    cause = np.zeros(len(rows), np.int8)
    for kind, number in _CAUSE_OF_ROW.items():
        cause[linked.kind[rows] == kind] = number
    cause[np.isin(rows, linked.communication.row)] = COMMUNICATION
    waited = np.isin(reached, SYNC_KINDS)
    cause[waited & (cause == HOST)] = SYNCHRONISATION  # the call returns: what it did while it waited does not count
    delay_cause = np.full(len(rows), SYNCHRONISATION, np.int8)
    delay_cause[reached == EdgeKind.LAUNCH] = LAUNCH_LATENCY
    delay_cause[reached == EdgeKind.STREAM] = KERNEL_GAP
    delay_cause[np.isin(reached, (EdgeKind.THREAD, EdgeKind.DATA, EdgeKind.INTER_THREAD))] = HOST_GAP
    delay = np.where(edges >= 0, linked.delay_ns[rows], 0)
    duration = linked.duration_ns[rows]
    start = int(linked.start_ns[rows[0]] + linked.wait_ns[rows[0]])
    syncs = np.flatnonzero(np.isin(linked.edge_kind, (*SYNC_KINDS, EdgeKind.EVENT_WAIT)))
    within = use[linked.edge_source[syncs]] & use[linked.edge_target[syncs]]
    sync_edges: Indices = np.asarray(syncs[within], np.int32)
    return LinkedPath(
        rows=rows,
        edges=edges,
        delay_ns=delay,
        delay_cause=delay_cause,
        duration_ns=duration,
        cause=cause,
        window_ns=window,
        start_ns=start,
        end_ns=start + int(delay.sum() + duration.sum()),
        sync_edges=sync_edges,
        on_path=np.isin(sync_edges, edges),
    )


def path_figures(linked: LinkedTrace, path: LinkedPath) -> dict[str, Any]:
    """The path as plain values: totals, the breakdown, its rows, and all synchronisations of the window."""
    return {
        "window_ns": list(path.window_ns),
        "start_ns": path.start_ns,
        "total_ns": path.total_ns,
        "breakdown_ns": path.breakdown_ns(),
        "rows": _row_figures(linked, path),
        "sync_edges": _sync_figures(linked, path),
    }


def _row_figures(linked: LinkedTrace, path: LinkedPath) -> list[dict[str, Any]]:
    figures = []
    start = path.start_ns
    for at, row in enumerate(path.rows.tolist()):
        start += int(path.delay_ns[at])
        edge = int(path.edges[at])
        figures.append(
            {
                "row": row,
                "name": linked.strings[int(linked.name[row])],
                "lane": linked.lanes[int(linked.lane[row])].name,
                "start_ns": start,
                "duration_ns": int(path.duration_ns[at]),
                "cause": CAUSES[int(path.cause[at])],
                "delay_ns": int(path.delay_ns[at]),
                "delay_cause": CAUSES[int(path.delay_cause[at])] if path.delay_ns[at] else "",
                "reached_by": EdgeKind(int(linked.edge_kind[edge])).name.lower() if edge >= 0 else "",
            }
        )
        start += int(path.duration_ns[at])
    return figures


def _sync_figures(linked: LinkedTrace, path: LinkedPath) -> list[dict[str, Any]]:
    ends: Sequence[tuple[str, Indices]] = (("from", linked.edge_source), ("to", linked.edge_target))
    figures = []
    for edge, on_path in zip(path.sync_edges.tolist(), path.on_path.tolist(), strict=True):
        entry: dict[str, Any] = {"kind": EdgeKind(int(linked.edge_kind[edge])).name.lower(), "on_path": on_path}
        for side, column in ends:
            row = int(column[edge])
            entry[f"{side}_row"] = row
            entry[f"{side}_name"] = linked.strings[int(linked.name[row])]
            entry[f"{side}_correlation"] = int(linked.correlation[row])
            entry[f"{side}_external_id"] = int(linked.external_id[row])
        figures.append(entry)
    return figures
