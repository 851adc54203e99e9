"""What comes out when flows have run: when each ended, and what the links carried."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chakrasim.machine.graph.routing.routes import Routes
from chakrasim.simulator.flow.alone.flows import Floats, Flows, Longs
from chakrasim.text.amounts import first_of, plural, size_text, time_text
from chakrasim.text.shown import Shown

PERCENTILES = (0, 50, 90, 99, 100)


@dataclass(frozen=True, eq=False, repr=False)
class FlowResult(Shown):
    """When flows end on a network, and what its links carry.

    Attributes
    ----------
    finish_ns:
        float64[f]; NaN for a flow that cannot end, because it has no route, crosses a link that stays down, or follows
        such a flow.
    begin_ns:
        float64[f]: when each started: its own time, or that after the flow that it follows; NaN for those that never
        started.
    link_bytes:
        float64[l]: bytes that each link carried, those of flows that cannot end among them.
    busy_share:
        float64[l]: those bytes, of all links of its medium, over what it could carry from time 0 to the last end.
    link_names:
        Of the links.
    solves, fills, changed:
        How many times rates were sought, how many fillings that took, how many rates changed.
    classes:
        How many flows were solved in place of all, where equal ones are solved as one.
    exact:
        Whether times are doubles; else each end is a whole nanosecond.
    cut_by:
        int64[f]: the first link on the way of a flow that carries nothing in the end; -1 where all do.
    merge:
        The share of the time within which ends were taken together.
    warnings:
        What was guessed or left out.
    """

    finish_ns: Floats
    begin_ns: Floats
    link_bytes: Floats
    busy_share: Floats
    link_names: tuple[str, ...]
    flows: Flows
    routes: Routes
    solves: int
    fills: int
    changed: int
    classes: int
    exact: bool
    cut_by: Longs
    merge: float = 0.0
    warnings: tuple[str, ...] = field(default=())

    @property
    def duration_ns(self) -> Floats:
        """float64[f]: from each flow's start to its end."""
        return self.finish_ns - self.begin_ns

    @property
    def end_ns(self) -> float:
        """When the last flow that can end has ended; 0 without any."""
        ended = self.finish_ns[~np.isnan(self.finish_ns)]
        return float(ended.max(initial=0.0))

    @property
    def stuck(self) -> Longs:
        """int64: the flows that cannot end."""
        return np.flatnonzero(np.isnan(self.finish_ns))

    @property
    def stuck_text(self) -> str:
        """Which flows cannot end, and why the first of them cannot; nothing if all end."""
        if not self.stuck.size:
            return ""
        flow = first = int(self.stuck[0])
        seen = {flow}
        while (before := int(self.flows.after[flow])) >= 0 and np.isnan(self.finish_ns[before]) and before not in seen:
            seen.add(flow := before)
        why = ""
        if self.cut_by[flow] >= 0:
            why = f": flow {flow} crosses {self.link_names[self.cut_by[flow]]}, which carries nothing"
        elif self.routes.missing[flow]:
            why = f": there is no way from rank {self.flows.source[flow]} to {self.flows.destination[flow]}"
        after = f"{first} waits for the end of {flow}" if why and flow != first else ""
        chain = f" ({after})" if after else ""
        return f"{plural(self.stuck.size, 'flow')} cannot end: {first_of(self.stuck.tolist())}{chain}{why}"

    @property
    def most_loaded(self) -> Longs:
        """int64[l]: links by busy share, the busiest first; a tie goes to the lower number."""
        return np.argsort(-self.busy_share, kind="stable")

    def crossing(self, link: int) -> Longs:
        """int64: the flows that cross a link."""
        entries = np.flatnonzero(self.routes.link == link)
        return np.unique(np.searchsorted(self.routes.first, entries, side="right") - 1)

    def percentiles_ns(self, percents: tuple[float, ...] = PERCENTILES) -> Floats:
        """Durations below which these percentages of the flows that ended lie (the next one that occurs)."""
        took = self.duration_ns[~np.isnan(self.duration_ns)]
        if not took.size:
            return np.full(len(percents), np.nan)
        return np.asarray(np.percentile(took, percents, method="inverted_cdf"))

    def _in_short(self) -> dict[str, str]:
        worst = int(self.most_loaded[0]) if self.link_names else -1
        return {
            "flows": f"{len(self.finish_ns):,}",
            "end": time_text(self.end_ns),
            "bytes": size_text(float(self.flows.size_bytes.sum())),
            **({"busiest": f"{self.link_names[worst]} {100 * self.busy_share[worst]:.1f} %"} if worst >= 0 else {}),
            **({"cannot end": f"{self.stuck.size:,}"} if self.stuck.size else {}),
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values: what ``chakrasim flows --json`` writes."""
        ends = [None if np.isnan(end) else int(end) if end == int(end) else end for end in self.finish_ns.tolist()]
        links = zip(self.link_names, self.link_bytes.tolist(), self.busy_share.tolist(), strict=True)
        return {
            "finish_ns": ends,
            "end_ns": self.end_ns,
            "links": [{"name": name, "bytes": count, "busy_share": share} for name, count, share in links],
            "solves": self.solves,
            "classes": self.classes,
            "merge": self.merge,
            "warnings": list(self.warnings),
        }
