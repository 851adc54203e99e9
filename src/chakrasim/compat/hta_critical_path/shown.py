"""HTA's critical path as the command line shows it."""

from __future__ import annotations

from typing import Any

from chakrasim.analysis.critical_path.shown import ShownPath
from chakrasim.analysis.table.traces import RankTrace
from chakrasim.compat.hta_critical_path.arrows import compat_arrows
from chakrasim.compat.hta_critical_path.path import critical_path
from chakrasim.compat.hta_critical_path.result import compat_figures
from chakrasim.compat.hta_critical_path.sections import compat_sections


def hta_path(options: Any, trace: RankTrace) -> ShownPath:
    """The path of one rank. ``options``: those of the command. Raises InputError."""
    path = critical_path(
        trace.kineto,
        version="new" if options.compat == "hta" else "pinned",
        annotation=options.annotation,
        instance=options.instance,
        zero_weight_launch_edges=options.zero_weight_launch_edges,
        data_load_events=options.data_load_event,
    )
    figures = compat_figures(path, trace.kineto)
    if path.failure is not None:
        how = "it returns nothing" if path.failure == "None" else path.failure
        return ShownPath(figures, failure=f"HTA fails here ({how}): {path.reason}")
    if not path.success:
        warning = f"{trace.kineto.source}: HTA says that the graph is not valid, so it has no critical path"
        return ShownPath(figures, tuple(compat_sections(figures)), warnings=(warning,))
    return ShownPath(figures, tuple(compat_sections(figures)), compat_arrows(path, options.show_all))
