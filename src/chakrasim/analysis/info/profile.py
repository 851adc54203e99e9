"""What a trace of the PyTorch profiler holds, counted, before anything is linked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.diagnosis.device_rows import DeviceRows, busy_ns
from chakrasim.errors import InputError
from chakrasim.linker.rows.columns import look_up
from chakrasim.totals import total, totals
from chakrasim.trace.chakra.graph import StringTable
from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.kineto.columns import Ints, KinetoTrace
from chakrasim.trace.linked.columns import OPERATION_NAMES, EdgeKind, Evidence, LinkedTrace, RowKind


@dataclass(frozen=True)
class Amount:
    """A kind of event: how many, and their summed durations (0 where a trace has none)."""

    name: str
    count: int
    total_ns: int


@dataclass(frozen=True)
class Calls:
    """Collectives of one operation, size (-1: not stated) and process group ("" the default or not stated)."""

    operation: str
    size_bytes: int
    group: str
    count: int
    total_ns: int


@dataclass(frozen=True)
class ProfileInfo:
    """Counts over one file.

    Attributes
    ----------
    file, kind: the file's name, and "Kineto device trace" (or whose profiler's), "PyTorch host trace", "linked trace".
    schema: as the file states it, "" for device traces.
    elements: events or nodes; by_kind: the same by category (device) or by sort of node (host), most first.
    top: the names that take most time (host: that occur most).
    threads, streams: of the host, of all devices.
    steps: numbers of the profiler's steps.
    depth: operators on top of each other at most; of a linked trace the rows on its longest chain of dependencies.
    edges: of a linked trace its dependencies by kind and evidence.
    span_ns: from the first start to the last end; busy_ns: some device worked.
    parallelism: summed durations of outermost host events and device work, over the span (of a linked trace: of all
        rows, over the longest chain of dependencies by durations).
    tensors, tensor_bytes: distinct tensors of a host trace, and bytes of their distinct storages' used parts.
    collectives: most time first.
    """

    file: str
    kind: str
    schema: str = ""
    elements: int = 0
    by_kind: tuple[Amount, ...] = ()
    top: tuple[Amount, ...] = ()
    threads: int = 0
    streams: int = 0
    steps: tuple[int, ...] = ()
    depth: int = 0
    span_ns: int = 0
    busy_ns: int = 0
    parallelism: float = 0.0
    tensors: int = 0
    tensor_bytes: int = 0
    collectives: tuple[Calls, ...] = ()
    edges: tuple[Amount, ...] = ()

    def to_mapping(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return asdict(self) | {"steps": list(self.steps)}


def kineto_info(trace: KinetoTrace) -> ProfileInfo:
    """Count what a device trace holds."""
    rows = DeviceRows(trace)
    busy = rows.operators | rows.calls | rows.work
    starts, ends = trace.ts_ns[busy], rows.end_ns[busy]
    span = int(ends.max() - starts.min()) if len(starts) else 0
    named = rows.work if rows.work.any() else rows.operators
    depth, outermost_ns = _nesting(rows)
    work_ns = int(trace.dur_ns[rows.work].sum())
    streams = np.stack([trace.device[rows.work].astype(np.int64), trace.stream[rows.work]], axis=1)
    return ProfileInfo(
        file=trace.source,
        kind=str(trace.header.get("format", "Kineto device trace")),
        elements=trace.event_count,
        by_kind=_amounts(trace.strings, trace.category, trace.dur_ns, "(none)"),
        top=_amounts(trace.strings, trace.name[named], trace.dur_ns[named], "(none)")[:10],
        threads=len(np.unique(trace.tid[rows.operators | rows.calls])),
        streams=len(np.unique(streams, axis=0)),
        steps=tuple(rows.steps[1].tolist()),
        depth=depth,
        span_ns=span,
        busy_ns=busy_ns(trace.ts_ns[rows.work], rows.end_ns[rows.work]),
        parallelism=round((outermost_ns + work_ns) / span, 4) if span else 0.0,
        collectives=_calls(None, trace),
    )


def _amounts(
    names: Sequence[str] | StringTable, column: NDArray[Any], durations: Ints, nameless: str
) -> tuple[Amount, ...]:
    """Counts and durations by the names of a column, most time first, then most."""
    keys, at = np.unique(column, return_inverse=True)
    sums = totals(at, durations, len(keys))
    counts = np.bincount(at, minlength=len(keys)).tolist()
    found = [
        Amount(names[key] or nameless, count, spent)
        for key, count, spent in zip(keys.tolist(), counts, sums, strict=True)
    ]
    return tuple(sorted(found, key=lambda amount: (-amount.total_ns, -amount.count, amount.name)))


def _nesting(rows: DeviceRows) -> tuple[int, int]:
    """How many operators and calls are open at once on a thread at most, and the time of the outermost ones."""
    trace = rows.trace
    host = np.flatnonzero(rows.operators | rows.calls)
    deepest = outermost_ns = 0
    for pid, tid in np.unique(np.stack([trace.pid[host], trace.tid[host]], axis=1), axis=0).tolist():
        mine = host[(trace.pid[host] == pid) & (trace.tid[host] == tid)]
        start, end = trace.ts_ns[mine], rows.end_ns[mine]
        times, change = np.concatenate([start, end]), np.repeat(np.array([1, -1]), len(mine))
        # At equal times what ends makes room first, except that an event of no length is open at its moment.
        order = np.lexsort((change, times))
        deepest = max(deepest, int(np.cumsum(change[order]).max(initial=0)))
        outermost_ns += busy_ns(start, end)
    return deepest, outermost_ns


def _calls(host: HostTrace | None, device: KinetoTrace | None) -> tuple[Calls, ...]:
    """The collectives and messages, as linking finds them; none in a trace that cannot be linked."""
    from chakrasim.linker.api import link

    try:
        linked = link(host, device)
    except InputError:
        return ()
    return _of_communication(linked, device is not None)


def _of_communication(linked: LinkedTrace, timed: bool) -> tuple[Calls, ...]:
    counts: Counter[tuple[str, int, str]] = Counter()
    times: Counter[tuple[str, int, str]] = Counter()
    found = linked.communication
    for entry in range(len(found)):
        group = linked.groups[int(found.group[entry])].name if found.group[entry] >= 0 else ""
        operation = int(found.operation[entry])
        key = OPERATION_NAMES.get(operation, str(operation)), int(found.size_bytes[entry]), group
        counts[key] += 1
        times[key] += int(found.end_ns[entry] - found.start_ns[entry]) if timed else 0
    calls = [Calls(*key, count, times[key]) for key, count in counts.items()]
    return tuple(sorted(calls, key=lambda c: (-c.total_ns, -c.count, c.operation, c.size_bytes, c.group)))


# -- host traces -------------------------------------------------------------------------------------------------------


def host_info(trace: HostTrace, kind: str = "PyTorch host trace") -> ProfileInfo:
    """Count what a host trace, or a linked one in the reference linker's form, holds."""
    names = Counter(_sort(trace.strings[int(index)]) for index in trace.name.tolist())
    keys, counts = np.unique(trace.name, return_counts=True)
    order = np.lexsort((keys, -counts))[:10]
    tensors = trace.tensors
    identities = np.stack([tensors.tensor_id, tensors.storage_id], axis=1)
    storages, first = np.unique(tensors.storage_id, return_index=True)
    used = np.zeros(len(storages), np.int64)
    np.maximum.at(used, np.searchsorted(storages, tensors.storage_id), tensors.elements * tensors.element_bytes)
    return ProfileInfo(
        file=trace.source,
        kind=kind,
        schema=trace.schema,
        elements=len(trace),
        by_kind=tuple(Amount(name, count, 0) for name, count in names.most_common()),
        top=tuple(Amount(trace.strings[int(keys[at])], int(counts[at]), 0) for at in order),
        threads=len(np.unique(trace.tid[trace.tid > 0])),
        depth=_depth(trace.ids, trace.parent),
        tensors=len(np.unique(identities, axis=0)),
        tensor_bytes=total(used) if len(first) else 0,
        collectives=_calls(trace, None),
    )


def _sort(name: str) -> str:
    """What sort of node a name means: the part before ``::`` or ``:``."""
    if name.startswith("[pytorch|"):
        return "process and threads"
    if "##" in name:
        return "records"
    if name == "record_param_comms" or name.startswith(("nccl:", "gloo:", "c10d::")):
        return "communication"
    head, colon, _ = name.partition("::")
    return head if colon and head.isidentifier() else "annotations and others"


def _depth(ids: Ints, parent: Ints) -> int:
    """Nodes on the longest chain of parents; chains that run in a circle do not count."""
    order = np.argsort(ids, kind="stable")
    above = look_up(ids[order], order, parent)
    above[above == np.arange(len(ids))] = -1
    depth, front = 0, np.flatnonzero(above < 0)
    level = np.full(len(ids), -1, np.int64)
    level[front] = 0
    while len(front):
        depth += 1
        below = (level < 0) & (above >= 0)
        below &= level[np.maximum(above, 0)] == depth - 1
        front = np.flatnonzero(below)
        level[front] = depth
    return depth


# -- linked traces -----------------------------------------------------------------------------------------------------


def linked_info(linked: LinkedTrace, file: str) -> ProfileInfo:
    """Count what a linked trace of ours holds."""
    depth, longest_ns = _longest_chain(linked)
    work_ns = total(linked.duration_ns)
    device = np.flatnonzero(linked.is_device)
    span = int(linked.end_ns.max() - linked.start_ns.min()) if len(linked) else 0
    pairs = np.stack([linked.edge_kind, linked.edge_evidence], axis=1)
    edges, counts = np.unique(pairs, axis=0, return_counts=True)
    return ProfileInfo(
        file=file,
        kind="linked trace",
        elements=len(linked),
        by_kind=_amounts([kind.name.lower() for kind in RowKind], linked.kind, linked.duration_ns, "(gap)"),
        top=_amounts(linked.strings, linked.name, linked.duration_ns, "(gap)")[:10],
        threads=sum(lane.device < 0 for lane in linked.lanes),
        streams=sum(lane.device >= 0 for lane in linked.lanes),
        steps=tuple(np.unique(linked.step[linked.step >= 0]).tolist()),
        depth=depth,
        span_ns=span,
        busy_ns=busy_ns(linked.start_ns[device], linked.end_ns[device]),
        parallelism=round(work_ns / longest_ns, 4) if longest_ns else 0.0,
        collectives=_of_communication(linked, True),
        edges=tuple(
            Amount(f"{EdgeKind(kind).name.lower()} by {Evidence(evidence).name.lower()}", count, 0)
            for (kind, evidence), count in zip(edges.tolist(), counts.tolist(), strict=True)
        ),
    )


def _longest_chain(linked: LinkedTrace) -> tuple[int, int]:
    """Rows and ns of the longest chains of edges that delay. Edges go forward, so one pass by source is enough."""
    delays = linked.edge_kind != EdgeKind.CONTROL
    source, target = linked.edge_source[delays], linked.edge_target[delays]
    order = np.argsort(source, kind="stable")
    own = linked.duration_ns.tolist()
    rows, ends = [1] * len(linked), list(own)
    for a, b in zip(source[order].tolist(), target[order].tolist(), strict=True):
        if rows[b] <= rows[a]:
            rows[b] = rows[a] + 1
        if ends[b] < ends[a] + own[b]:
            ends[b] = ends[a] + own[b]
    return max(rows, default=0), max(ends, default=0)
