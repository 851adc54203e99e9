"""What one job is, without simulating it: validity, structure, work, names, over all its ranks."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.analysis.info.workload import WorkloadInfo, edges, job_info
from chakrasim.collectives.kinds import COLLECTIVE_KEYS
from chakrasim.trace import work as names
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.job import Job
from chakrasim.trace.kinds import NodeType, type_name

Ints = NDArray[np.int64]

_DIGITS: Final = re.compile(r"\d+")
_MESSAGES: Final = {int(NodeType.COMM_SEND_NODE): "send", int(NodeType.COMM_RECV_NODE): "receive"}


@dataclass(frozen=True, eq=False)
class Measures:
    """One job, over all its ranks.

    Attributes
    ----------
    info: counts, and what a simulation refuses.
    roles: nodes by type and name without digits.
    in_degrees, out_degrees: nodes by how many they wait for, and how many wait for them.
    width: most nodes of a rank at one depth.
    flops, moved: operations and bytes read and written, by kind of work.
    sent: bytes of collectives and messages, by kind and group; ``calls``: how many.
    names: distinct names of nodes; ``works``: distinct (name, operations, bytes, bytes sent).
    """

    info: WorkloadInfo
    roles: Counter[str]
    in_degrees: Counter[int]
    out_degrees: Counter[int]
    width: int
    flops: Counter[str]
    moved: Counter[str]
    sent: Counter[str]
    calls: Counter[str]
    names: frozenset[str]
    works: frozenset[tuple[str, int, int, int]]

    @property
    def faults(self) -> int:
        """Nodes and dependencies that a simulation refuses."""
        return self.info.duplicate_ids + self.info.unknown_dependencies + self.info.nodes_in_cycles


def measures(job: Job) -> Measures:
    """Go through the distinct traces of a job."""
    roles, flops, moved, sent, calls = (Counter[str]() for _ in range(5))
    taking, giving = Counter[int](), Counter[int]()
    width = 0
    called: set[str] = set()
    works: set[tuple[str, int, int, int]] = set()
    copies = np.bincount(np.asarray(job.trace_of_rank), minlength=len(job.traces)).tolist()
    for trace, ranks in zip(job.traces, copies, strict=True):
        own = [trace.name(at) for at in range(len(trace))]
        amounts = [_amounts(trace, name).tolist() for name in (names.FLOPS, names.BYTES, "comm_size")]
        if ranks:
            roles.update({role: ranks * count for role, count in _roles(trace, own).items()})
            _add_work(trace, ranks, amounts, (flops, moved, sent, calls))
            width = max(width, _shape(trace, ranks, taking, giving))
            called.update(own)
            works.update(zip(own, *amounts, strict=True))
    return Measures(job_info(job), roles, taking, giving, width, flops, moved, sent, calls, frozenset(called),
                    frozenset(works))  # fmt: skip


def _roles(trace: Trace, named: list[str]) -> Counter[str]:
    return Counter(f"{type_name(kind)} {plain(name)}" for kind, name in zip(trace.types.tolist(), named, strict=True))


def _add_work(trace: Trace, ranks: int, amounts: list[list[int]], counters: tuple[Counter[str], ...]) -> None:
    """Add the work of a trace that so many ranks run."""
    flops, moved, sent, calls = counters
    kinds, groups = (trace.attr(name).texts_or_empty() for name in (names.KIND, "pg_name"))
    collectives = trace.attr("comm_type").integers_or(-1).tolist()
    for at, number in enumerate(trace.types.tolist()):
        if number == NodeType.COMP_NODE:
            kind = kinds[at] or "not stated"
            flops[kind] += ranks * amounts[0][at]
            moved[kind] += ranks * amounts[1][at]
        elif number == NodeType.COMM_COLL_NODE or number in _MESSAGES:
            what = _MESSAGES.get(number) or COLLECTIVE_KEYS.get(collectives[at], "no type")
            key = f"{what}, {groups[at] if groups[at] not in ('', '0') else 'all ranks'}"
            sent[key] += ranks * amounts[2][at]
            calls[key] += ranks


@lru_cache(maxsize=100_000)
def plain(name: str) -> str:
    """A name without what counts: layers, numbers of calls."""
    return _DIGITS.sub("#", name)


def _amounts(trace: Trace, name: str) -> Ints:
    return np.maximum(trace.attr(name).integers_or(0), 0)


def _shape(trace: Trace, ranks: int, taking: Counter[int], giving: Counter[int]) -> int:
    """Add the degrees of a trace; its width is returned."""
    parent, child, _ = edges(trace)
    count = len(trace)
    pairs = np.unique(parent * count + child) if count else parent
    parent, child = pairs // max(count, 1), pairs % max(count, 1)
    for degrees, ends in ((taking, child), (giving, parent)):
        for degree, nodes in zip(*np.unique(np.bincount(ends, minlength=count), return_counts=True), strict=True):
            degrees[int(degree)] += ranks * int(nodes)
    depth = np.zeros(count, np.int64)
    left = np.bincount(child, minlength=count)
    order = np.argsort(parent, kind="stable")
    first = np.searchsorted(parent[order], np.arange(count + 1)).tolist()
    children = child[order].tolist()
    free = np.flatnonzero(left == 0).tolist()
    waiting, deep = left.tolist(), depth.tolist()
    for node in free:
        for next_node in children[first[node] : first[node + 1]]:
            deep[next_node] = max(deep[next_node], deep[node] + 1)
            waiting[next_node] -= 1
            if not waiting[next_node]:
                free.append(next_node)
    return max(Counter(deep[node] for node in free).values(), default=0)
