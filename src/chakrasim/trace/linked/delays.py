"""Time on a recorded critical path that no dependency explains: where most of it lies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrasim.text.amounts import percent_text, time_text
from chakrasim.trace.linked.columns import ON_CRITICAL_PATH, EdgeKind, LinkedTrace, RowKind


@dataclass(frozen=True)
class LongestDelay:
    """The longest delay on the critical path of a trace, ``share`` (0 to 1) of all that are on it: before ``name`` on
    ``lane``. ``begins_stream``: that is the first work of its stream in the trace, which cannot say what kept it."""

    delay_ns: int
    share: float
    name: str
    lane: str
    begins_stream: bool

    def __str__(self) -> str:
        first = ", the first work of that stream in the trace" if self.begins_stream else ""
        much = f"{time_text(self.delay_ns)} ({percent_text(self.share)} of all)"
        return f"{much} before {self.name[:60]} on {self.lane}{first}"


def longest_delay(linked: LinkedTrace) -> LongestDelay | None:
    """The first of the longest; None if there is none."""
    rows = linked.edge_target[(linked.edge_flags & ON_CRITICAL_PATH) > 0]
    if not len(rows) or not linked.delay_ns[rows].any():
        return None
    delays = linked.delay_ns[rows]
    row = int(rows[np.argmax(delays)])
    follows = (linked.edge_target == row) & (linked.edge_kind == EdgeKind.STREAM)
    on_device = int(linked.kind[row]) in (RowKind.KERNEL, RowKind.MEMCPY, RowKind.MEMSET)
    name, lane = linked.strings[int(linked.name[row])], linked.lanes[int(linked.lane[row])].name
    share = float(delays.max() / delays.sum(dtype=np.float64))
    return LongestDelay(int(delays.max()), share, name, lane, on_device and not follows.any())
