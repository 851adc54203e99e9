"""What HTA draws of its critical path into the trace."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from chakrasim.analysis.critical_path.overlay import Arrow
from chakrasim.compat.hta_critical_path.kernels import DEPENDENCY, KERNEL_LAUNCH_DELAY, SYNC_DEPENDENCY
from chakrasim.compat.hta_critical_path.result import EDGE_VALUES, CriticalPath

#: Types of edges that the newest HTA draws unless told otherwise.
_DRAWN: Final = (DEPENDENCY, KERNEL_LAUNCH_DELAY, SYNC_DEPENDENCY)


def compat_arrows(path: CriticalPath, all_edges: bool = False) -> tuple[set[int], list[Arrow]]:
    """What HTA marks and draws (1.4.10): critical events, and arrows along the path, or along ``all_edges`` of the
    graph but for launches without weight."""
    on_path = set(path.path_edges.tolist())
    if all_edges:
        hidden = (path.edge_kind == KERNEL_LAUNCH_DELAY) & (path.edge_weight == 0)
        edges = np.flatnonzero(~hidden).tolist()
    else:
        edges = path.path_edges.tolist()
        if path.version == "new":
            edges = [edge for edge in edges if path.edge_kind[edge] in _DRAWN]
    arrows = []
    for edge in edges:
        kind = EDGE_VALUES[int(path.edge_kind[edge])]
        details: dict[str, Any] = {"weight": int(path.edge_weight[edge]), "critical": edge in on_path}
        if path.version == "new":
            details["type"] = kind
        source, target = int(path.edge_source[edge]), int(path.edge_target[edge])
        arrows.append(
            Arrow(
                int(path.node_event[source]),
                bool(path.node_is_end[source]),
                int(path.node_event[target]),
                bool(path.node_is_end[target]),
                "critical_path" if path.version == "new" else kind,
                details,
            )
        )
    return set(path.node_event[path.path_nodes].tolist()), arrows
