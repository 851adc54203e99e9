"""Tables of HTA's critical path."""

from __future__ import annotations

from typing import Any

from chakrasim.text.amounts import time_text
from chakrasim.text.layout import Section


def compat_sections(figures: dict[str, Any]) -> list[Section]:
    """HTA's figures."""
    rows = [
        ("rows in the window", str(figures["clipped_rows"])),
        ("nodes", str(figures["nx_nodes"])),
        ("edges", str(figures["nx_edges"])),
        ("synchronisation edges", str(len(figures["all_sync_edges"]))),
    ]
    if not figures["ok"]:
        return [Section("Critical path as HTA: the graph is not valid", (), tuple(rows))]
    rows += [
        ("nodes on the path", str(figures["cp_nodes"])),
        ("synchronisation edges on the path", str(len(figures["cp_sync_edges"]))),
        ("weight of the path", time_text(figures["cp_weight"] * 1000)),
    ]
    shares = figures["bound_by_pct"].items()
    bound = tuple((cause or "(dependencies)", f"{share:.2f} %") for cause, share in shares)
    return [
        Section("Critical path as HTA", (), tuple(rows)),
        Section("Bound by", ("cause", "share"), bound),
    ]
