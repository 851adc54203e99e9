"""What a workload's traces hold, counted over all ranks, without simulating anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.kinds import COLLECTIVE_KEYS
from chakrasim.linker.rows.columns import look_up
from chakrasim.trace import AttrColumn, Job, NodeType, Trace, type_name
from chakrasim.trace.kinds import STRING

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class CollectiveCount:
    """Collectives of one type, size and group.

    ``group`` is the process group's name, "" the default; ``size_bytes`` is -1 where none is stated. ``count`` and
    ``bytes`` (count times size) are over all ranks.
    """

    type: str
    size_bytes: int
    group: str
    count: int
    bytes: int


@dataclass(frozen=True)
class WorkloadInfo:
    """Counts over all ranks, unless a field says otherwise.

    Attributes
    ----------
    ranks, distinct:
        Number of ranks, and of traces that differ.
    versions: schema versions to ranks ("" where a file states none).
    nodes_by_type: the schema's names to numbers of nodes.
    compute_micros: smallest, mean and largest sum of a rank's recorded compute durations (CPU operations left out).
    compute_ops: arithmetic operations that compute nodes state (``num_ops``), for the roofline model.
    depth: nodes on the longest chain of dependencies of any rank.
    critical_path_micros: the chain of any rank with the largest sum of recorded durations.
    parallelism: all recorded durations of that rank over its critical path; 0 where none are recorded.
    duplicate_ids, unknown_dependencies, nodes_in_cycles: what a simulation refuses.
    process_groups: of a job whose ranks share traces, by role: number of groups, fewest and most members.
    """

    ranks: int
    distinct: int
    versions: dict[str, int]
    nodes: int
    nodes_by_type: dict[str, int]
    compute_micros: tuple[int, float, int]
    compute_ops: int
    collectives: tuple[CollectiveCount, ...]
    sends: int
    send_bytes: int
    receives: int
    receive_bytes: int
    depth: int
    critical_path_micros: int
    parallelism: float
    duplicate_ids: int
    unknown_dependencies: int
    nodes_in_cycles: int
    process_groups: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def to_mapping(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return asdict(self)


def job_info(job: Job) -> WorkloadInfo:
    """Count what a job holds; collectives of a role count together."""
    info = workload_info([job.traces[index] for index in np.asarray(job.trace_of_rank).tolist()])
    sizes = {role: [len(members) for members in groups] for role, groups in job.process_groups.items()}
    groups = {role: (len(own), min(own, default=0), max(own, default=0)) for role, own in sizes.items()}
    return replace(info, process_groups=groups)


def workload_info(traces: Sequence[Trace], times: int = 1) -> WorkloadInfo:
    """Count what the traces of all ranks hold, each of which ``times`` ranks run; ranks that share a trace are counted
    by multiplying."""
    copies = Counter(id(trace) for trace in traces)
    distinct = list({id(trace): trace for trace in traces}.values())
    weights = [times * copies[id(trace)] for trace in distinct]
    versions: Counter[str] = Counter()
    types: Counter[int] = Counter()
    collectives: Counter[tuple[int, int, str]] = Counter()
    for trace, weight in zip(distinct, weights, strict=True):
        versions[trace.version] += weight
        for number, count in zip(*(a.tolist() for a in np.unique(trace.types, return_counts=True)), strict=True):
            types[number] += count * weight
        for kind, count in _collectives(trace).items():
            collectives[kind] += count * weight
    chains = [_chains(trace) for trace in distinct]
    longest, work = max(
        ((chain[3], sum(trace.duration_micros.tolist())) for chain, trace in zip(chains, distinct, strict=True)),
        default=(0, 0),
    )
    compute = [_compute_micros(trace) for trace in distinct]
    sends, send_bytes = _total(distinct, weights, NodeType.COMM_SEND_NODE, "comm_size")
    receives, receive_bytes = _total(distinct, weights, NodeType.COMM_RECV_NODE, "comm_size")
    ranks = times * len(traces)
    mean = sum(c * w for c, w in zip(compute, weights, strict=True)) / ranks if ranks else 0.0
    return WorkloadInfo(
        ranks=ranks,
        distinct=len(distinct),
        versions=dict(sorted(versions.items())),
        nodes=sum(types.values()),
        nodes_by_type={type_name(number): types[number] for number in sorted(types)},
        compute_micros=(min(compute, default=0), mean, max(compute, default=0)),
        compute_ops=_total(distinct, weights, NodeType.COMP_NODE, "num_ops")[1],
        collectives=tuple(_count(kind, collectives[kind]) for kind in sorted(collectives)),
        sends=sends,
        send_bytes=send_bytes,
        receives=receives,
        receive_bytes=receive_bytes,
        depth=max((chain[0] for chain in chains), default=0),
        critical_path_micros=longest,
        parallelism=round(work / longest, 4) if longest else 0.0,
        duplicate_ids=sum(len(t) - len(np.unique(t.ids)) for t in distinct),
        unknown_dependencies=sum(chain[1] for chain in chains),
        nodes_in_cycles=sum(chain[2] for chain in chains),
    )


def _compute_micros(trace: Trace) -> int:
    on_cpu = (trace.attr("is_cpu_op").bits != 0) & trace.attr("is_cpu_op").is_integer
    return sum(trace.duration_micros[(trace.types == NodeType.COMP_NODE) & ~on_cpu].tolist())


def _total(traces: Sequence[Trace], weights: Sequence[int], kind: NodeType, attribute: str) -> tuple[int, int]:
    """Number of nodes of a type, and the sum of an attribute over them."""
    count = total = 0
    for trace, weight in zip(traces, weights, strict=True):
        chosen = trace.types == kind
        column = trace.attr(attribute)
        count += weight * int(chosen.sum())
        total += weight * sum(column.bits[chosen & column.is_integer].tolist())
    return count, total


def _collectives(trace: Trace) -> Counter[tuple[int, int, str]]:
    """Number of collectives by type, size in bytes and group; -1: not stated."""
    chosen = trace.types == NodeType.COMM_COLL_NODE
    if not chosen.any():
        return Counter()
    kinds, sizes = trace.attr("comm_type"), trace.attr("comm_size")
    names = trace.attr("pg_name")
    groups = np.where(names.present & (names.kind == STRING), names.bits, np.uint64(0))
    columns = [*_stated(kinds), *_stated(sizes), groups]
    rows, counts = np.unique(np.stack([c[chosen] for c in columns], axis=1), axis=0, return_counts=True)
    found: Counter[tuple[int, int, str]] = Counter()
    for (has_kind, kind, has_size, size, group), count in zip(rows.tolist(), counts.tolist(), strict=True):
        name = trace.strings[group]
        found[kind if has_kind else -1, size if has_size else -1, "" if name == "0" else name] += count
    return found


def _stated(column: AttrColumn) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    stated = column.is_integer
    return stated.astype(np.uint64), np.where(stated, column.bits, np.uint64(0))


def _count(kind: tuple[int, int, str], count: int) -> CollectiveCount:
    number, size, group = kind
    name = COLLECTIVE_KEYS.get(number, "no type" if number < 0 else f"type {number}")
    return CollectiveCount(name, size, group, count, max(size, 0) * count)


def _chains(trace: Trace) -> tuple[int, int, int, int]:
    """Nodes of the longest chain of dependencies, dependencies on unknown nodes, nodes that wait for themselves, and
    the largest sum of durations (microseconds) along a chain."""
    parent, child, unknown = edges(trace)
    count = len(trace)
    by_parent = np.argsort(parent, kind="stable")
    offsets = np.searchsorted(parent[by_parent], np.arange(count + 1)).tolist()
    children = child[by_parent].tolist()
    left = np.bincount(child, minlength=count).tolist()
    depth = [1] * count
    micros = trace.duration_micros.tolist()
    ended = list(micros)
    free = [node for node in range(count) if not left[node]]
    for node in free:
        below, end = depth[node] + 1, ended[node]
        for i in range(offsets[node], offsets[node + 1]):
            next_node = children[i]
            if depth[next_node] < below:
                depth[next_node] = below
            if ended[next_node] < end + micros[next_node]:
                ended[next_node] = end + micros[next_node]
            left[next_node] -= 1
            if not left[next_node]:
                free.append(next_node)
    longest = max((ended[node] for node in free), default=0)
    return max((depth[node] for node in free), default=0), unknown, count - len(free), longest


def edges(trace: Trace) -> tuple[Ints, Ints, int]:
    """Positions of parent and child of every dependency, and how many name no node of the trace."""
    order = np.argsort(trace.ids, kind="stable")
    ids = trace.ids[order]
    parents, children, unknown = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for deps in (trace.data_deps, trace.ctrl_deps):
        node = np.repeat(np.arange(len(trace)), np.diff(deps.offsets))
        parent = look_up(ids, order, deps.targets)
        unknown += int(np.count_nonzero(parent < 0))
        parents.append(parent[parent >= 0])
        children.append(node[parent >= 0])
    return np.concatenate(parents), np.concatenate(children), unknown
