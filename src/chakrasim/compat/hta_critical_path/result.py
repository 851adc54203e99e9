"""The critical path as HTA gives it, its breakdown, and the figures to compare."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.compat.hta.table import HtaTable, Version
from chakrasim.compat.hta_critical_path.kernels import (
    DEPENDENCY,
    KERNEL_KERNEL_DELAY,
    KERNEL_LAUNCH_DELAY,
    OPERATOR_KERNEL,
    SYNC_DEPENDENCY,
)
from chakrasim.trace.kineto.columns import KinetoTrace

EDGE_TYPES: Final = {
    OPERATOR_KERNEL: "OPERATOR_KERNEL",
    DEPENDENCY: "DEPENDENCY",
    KERNEL_LAUNCH_DELAY: "KERNEL_LAUNCH_DELAY",
    KERNEL_KERNEL_DELAY: "KERNEL_KERNEL_DELAY",
    SYNC_DEPENDENCY: "SYNC_DEPENDENCY",
}
#: The text by which HTA's files name an edge's type.
EDGE_VALUES: Final = {
    OPERATOR_KERNEL: "critical_path_operator",
    DEPENDENCY: "critical_path_dependency",
    KERNEL_LAUNCH_DELAY: "critical_path_kernel_launch_delay",
    KERNEL_KERNEL_DELAY: "critical_path_kernel_kernel_delay",
    SYNC_DEPENDENCY: "critical_path_sync_dependency",
}
_BOUND_BY_TYPE: Final = {
    KERNEL_KERNEL_DELAY: "gpu_kernel_kernel_overhead",
    KERNEL_LAUNCH_DELAY: "gpu_kernel_launch_overhead",
    DEPENDENCY: "",
    SYNC_DEPENDENCY: "",
}
_COMMUNICATION: Final = re.compile(r"nccl|hip|hccl|.*ncclKernel")
_MEMORY: Final = re.compile(r"(hip)?Memcpy|(hip)?Memset|dma")


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """HTA's graph of one window of one rank, and the heaviest path through it: ``n`` nodes, ``m`` edges.

    Attributes
    ----------
    version: which HTA.
    failure: None; or the class of the exception with which HTA ends ("None": it returns nothing), then all else is
        empty; ``reason`` says why.
    success: whether the graph is valid, so that there is a path.
    clipped_rows: rows of the window.
    node_event: int32[n], event index; node_is_end: int8[n]; node_ts: float64[n], us since the table's origin.
    graph_nodes: how many of the nodes are part of the graph.
    edge_source, edge_target: int32[m], nodes; edge_kind: int8[m], OPERATOR_KERNEL, ...; edge_weight: float64[m], us,
        as measured (negative ones count as 0 on the path); edge_event: int32[m], the event it belongs to, below 0 none.
    path_nodes: int32[p]; path_edges: int32[p - 1].
    table: the rows.
    data_load_events: as given.
    """

    version: Version
    failure: str | None
    reason: str
    success: bool
    clipped_rows: int
    node_event: NDArray[np.int32]
    node_is_end: NDArray[np.int8]
    node_ts: NDArray[np.float64]
    graph_nodes: int
    edge_source: NDArray[np.int32]
    edge_target: NDArray[np.int32]
    edge_kind: NDArray[np.int8]
    edge_weight: NDArray[np.float64]
    edge_event: NDArray[np.int32]
    path_nodes: NDArray[np.int32]
    path_edges: NDArray[np.int32]
    table: HtaTable | None
    data_load_events: tuple[str, ...] = ()

    def node(self, at: int) -> list[Any]:
        """A node as the reference files write it: event index and "S" or "E"."""
        return [int(self.node_event[at]), "E" if self.node_is_end[at] else "S"]

    def bound_by(self) -> dict[str, float]:
        """Percent of the path's weight by what bounds it; "" for edges that bind without taking time."""
        kind, weight = self.edge_kind[self.path_edges], self.edge_weight[self.path_edges]
        sums: dict[str, float] = {}
        of_type = {at: cause for at, cause in _BOUND_BY_TYPE.items() if (kind == at).any()}
        for at, cause in of_type.items():
            sums[cause] = sums.get(cause, 0.0) + float(weight[kind == at].sum())
        own = ~np.isin(kind, list(of_type))
        if own.any():
            self._by_event(self.edge_event[self.path_edges[own]], weight[own], sums)
        total = sum(sums.values())
        return {cause: 100 * weight / total if total else float("nan") for cause, weight in sorted(sums.items())}

    def _by_event(self, events: NDArray[np.int32], weight: NDArray[np.float64], sums: dict[str, float]) -> None:
        """Add the weight of edges that belong to these events to the sums of what bounds them."""
        table = self.table
        assert table is not None
        order = np.argsort(table.row_index, kind="stable")
        rows = order[np.searchsorted(table.row_index, events, sorter=order)]
        on_host = table.stream[rows] < 0
        pairs, which = np.unique(2 * table.name[rows].astype(np.int64) + on_host, return_inverse=True)
        for pair, share in zip(pairs.tolist(), np.bincount(which, weight, len(pairs)).tolist(), strict=True):
            cause = self._cause(table.kineto.strings[pair >> 1], on_host=bool(pair & 1))
            sums[cause] = sums.get(cause, 0.0) + share

    def _cause(self, text: str, *, on_host: bool) -> str:
        name = shorten(text, self.version)
        if on_host:
            loads = any(re.search(pattern, name) for pattern in self.data_load_events)
            return "data_loading" if loads else "cpu_bound"
        communicates = "ncclKernel" in name if self.version == "pinned" else _COMMUNICATION.match(name) is not None
        return "gpu_communication_bound" if communicates else "gpu_compute_bound"

    def sync_events(self) -> list[tuple[int, int]]:
        """Events at both ends of each sync edge on the path, sorted."""
        chosen = self.path_edges[self.edge_kind[self.path_edges] == SYNC_DEPENDENCY]
        source, target = self.node_event[self.edge_source[chosen]], self.node_event[self.edge_target[chosen]]
        return sorted(zip(source.tolist(), target.tolist(), strict=True))


def shorten(name: str, version: Version) -> str:
    """A name without brackets and what precedes the last blank, as HTA shows it."""
    if version == "new" and (_MEMORY.match(name) or ("<" not in name and "(" not in name)):
        return name
    kept: list[str] = []
    opening = {">": "<", ")": "("}
    for letter in name.replace("->", ""):
        if letter not in opening:
            kept.append(letter)
            continue
        while kept and kept.pop() != opening[letter]:
            pass
    return "".join(kept).rsplit(" ", 1)[-1]


def chakra_sync_dependencies(path: CriticalPath, kineto: KinetoTrace) -> tuple[dict[str, list[int]], int]:
    """What Chakra's linker takes from the path (1.4.14): external ids of what a waiting event waited for, by its own
    external id; and how many sync edges lack one."""
    size = int(kineto.index.max(initial=-1)) + 1
    external = np.full(size, -1, np.int64)
    external[kineto.index] = kineto.external_id
    dependencies: dict[str, list[int]] = {}
    missing = 0
    for source, target in path.sync_events():
        before, after = int(external[source]), int(external[target])
        if before == -1 or after == -1:
            missing += 1
        elif before != after:
            dependencies.setdefault(str(after), []).append(before)
    return dependencies, missing


def compat_figures(path: CriticalPath, kineto: KinetoTrace) -> dict[str, Any]:
    """The figures by which two implementations are compared. Empty but for ``ok`` and ``error`` where HTA fails."""
    if path.failure is not None:
        return {"ok": False, "error": path.failure, "message": path.reason}
    every = np.arange(len(path.edge_kind), dtype=np.int32)
    figures: dict[str, Any] = {
        "ok": path.success,
        "clipped_rows": path.clipped_rows,
        "nodes_list": len(path.node_event),
        "nx_nodes": path.graph_nodes,
        "nx_edges": len(path.edge_kind),
        "edges_by_type": _by_type(path, every),
        "weight_by_type": _by_type(path, every, path.edge_weight),
        "negative_edges": int(np.sum(path.edge_weight < 0)),
        "all_sync_edges": _sync_nodes(path),
        "edges_sha1": _edges_digest(path),
    }
    if not path.success:
        return figures
    dependencies, missing = chakra_sync_dependencies(path, kineto)
    letters = ["SE"[end] for end in path.node_is_end[path.path_nodes].tolist()]
    nodes = list(zip(path.node_event[path.path_nodes].tolist(), letters, strict=True))
    return figures | {
        "cp_nodes": len(path.path_nodes),
        "cp_events": len(np.unique(path.node_event[path.path_nodes])),
        "cp_edges": len(path.path_edges),
        "cp_edges_by_type": _by_type(path, path.path_edges),
        "cp_weight": float(path.edge_weight[path.path_edges].sum()),
        "cp_path_sha1": hashlib.sha1(json.dumps(nodes).encode()).hexdigest(),
        "cp_sync_edges": [list(pair) for pair in path.sync_events()],
        "bound_by_pct": {cause: round(share, 6) for cause, share in path.bound_by().items()},
        "chakra_sync_dependencies": dependencies,
        "chakra_missing_ext": missing,
    }


def _by_type(path: CriticalPath, edges: NDArray[np.int32], weight: NDArray[np.float64] | None = None) -> dict[str, Any]:
    """Number (or weight) of these edges by type, types in the order in which they first occur."""
    kinds: Sequence[int] = path.edge_kind[edges].tolist()
    counts = np.bincount(kinds, None if weight is None else weight[edges], minlength=5).tolist()
    return {EDGE_TYPES[kind]: counts[kind] for kind in dict.fromkeys(kinds)}


def _sync_nodes(path: CriticalPath) -> list[list[list[Any]]]:
    edges = np.flatnonzero(path.edge_kind == SYNC_DEPENDENCY).tolist()
    return sorted([path.node(path.edge_source[at]), path.node(path.edge_target[at])] for at in edges)


def _edges_digest(path: CriticalPath) -> str:
    """SHA-1 of the JSON text of all edges, sorted: [event, "S" or "E", event, "S" or "E", type, weight]."""
    names = [EDGE_TYPES[kind] for kind in range(len(EDGE_TYPES))]
    rank = np.argsort(np.argsort(names))
    columns: list[NDArray[Any]] = []
    for nodes in (path.edge_source, path.edge_target):
        columns += [path.node_event[nodes], 1 - path.node_is_end[nodes]]  # "E" is before "S"
    columns += [rank[path.edge_kind], path.edge_weight]
    order = np.lexsort(columns[::-1])
    digest = hashlib.sha1(b"[")
    step = 1 << 16
    for at in range(0, len(order), step):
        part = order[at : at + step]
        values = [column[part].tolist() for column in (*columns[:4], path.edge_kind, path.edge_weight)]
        lines = (
            f'[{first}, "{"ES"[begins]}", {second}, "{"ES"[reaches]}", "{names[kind]}", {weight!r}]'
            for first, begins, second, reaches, kind, weight in zip(*values, strict=True)
        )
        digest.update(((", " if at else "") + ", ".join(lines)).encode())
    digest.update(b"]")
    return digest.hexdigest()
