"""Tables of a critical path."""

from __future__ import annotations

import numpy as np

from chakrasim.analysis.critical_path.path import CAUSES, LinkedPath
from chakrasim.report.tables.cut import brief
from chakrasim.text.amounts import share_text, time_text
from chakrasim.text.layout import Section
from chakrasim.trace.linked.columns import EdgeKind, LinkedTrace, RowKind

MOST_PARTS = 10


def path_sections(linked: LinkedTrace, path: LinkedPath) -> list[Section]:
    """What the path's time went into: causes, the names with the largest shares, and synchronisations."""
    total = path.total_ns
    causes = [
        (name, time_text(time), share_text(time, total)) for name, time in path.breakdown_ns().items() if time > 0
    ]
    return [
        Section(f"Critical path: {time_text(total)}, {len(path)} pieces of work", ("cause", "time", "share"),
                tuple(causes)),
        Section("Largest parts", ("name", "time", "share", "pieces", "cause"), _largest(linked, path), (0, 4)),
        Section("Synchronisations", ("kind", "all", "on the path"), _syncs(linked, path)),
    ]  # fmt: skip


def _largest(linked: LinkedTrace, path: LinkedPath) -> tuple[tuple[str, ...], ...]:
    sums: dict[tuple[str, int], list[int]] = {}
    for row, time, cause in zip(path.rows.tolist(), path.duration_ns.tolist(), path.cause.tolist(), strict=True):
        name = "(host gap)" if linked.kind[row] == RowKind.GAP else linked.strings[int(linked.name[row])]
        entry = sums.setdefault((name, cause), [0, 0])
        entry[0] += time
        entry[1] += 1
    largest = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))[:MOST_PARTS]
    return tuple(
        (brief(name, 60), time_text(time), share_text(time, path.total_ns), str(count), CAUSES[cause])
        for (name, cause), (time, count) in largest
    )


def _syncs(linked: LinkedTrace, path: LinkedPath) -> tuple[tuple[str, ...], ...]:
    kinds = linked.edge_kind[path.sync_edges]
    return tuple(
        (
            EdgeKind(kind).name.lower().replace("_", " "),
            str(int(np.sum(kinds == kind))),
            str(int(np.sum(path.on_path[kinds == kind]))),
        )
        for kind in np.unique(kinds).tolist()
    )
