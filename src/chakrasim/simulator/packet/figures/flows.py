"""How flows fared against what they would have taken alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from chakrasim.simulator.packet.network import Network
from chakrasim.simulator.packet.observed.ideal import times_alone
from chakrasim.simulator.packet.state import Longs, Net, Reals
from chakrasim.text.shown import data_frame

if TYPE_CHECKING:
    import pandas

PERCENTILES: Final = (50, 90, 99, 99.9, 100)
CLASSES: Final = (1 << 14, 1 << 18, 1 << 22)
"""Classes of sizes end with so many bytes; the last has no end."""


@dataclass(frozen=True, eq=False)
class FlowFigures:
    """Figures of all flows, a row a flow.

    Attributes
    ----------
    source, target, size_bytes, start_ns
        int64[f]
    completion_ns
        int64[f]: from the start to the last acknowledgement; -1 where that did not come
    ideal_ns
        int64[f]: the same on an empty network, at full speed, whatever window and control say; after a link has gone
        down, on the way around it; -1 where there is none
    slowdown
        float64[f]: completion over ideal; nan where one is not known
    resent_bytes
        int64[f]: what the sender went back over
    rate_bps
        int64[f]: what the control allowed at the end
    """

    source: Longs
    target: Longs
    size_bytes: Longs
    start_ns: Longs
    completion_ns: Longs
    ideal_ns: Longs
    slowdown: Reals
    resent_bytes: Longs
    rate_bps: Longs

    def columns(self) -> dict[str, Any]:
        """The columns by name."""
        return dict(vars(self))

    def to_frame(self) -> pandas.DataFrame:
        """A row a flow. Raises InputError where pandas is not installed."""
        return data_frame(self.columns()).rename_axis("flow")

    def classes(self) -> dict[int | None, FlowSpread]:
        """By the largest size of a class, None for all sizes: completion and slowdown of the flows that completed."""
        done = self.completion_ns >= 0
        found: dict[int | None, FlowSpread] = {None: self._spread(done)}
        low = -1
        for high in (*CLASSES, 1 << 62):
            own = done & (self.size_bytes > low) & (self.size_bytes <= high)
            if own.any():
                found[high] = self._spread(own)
            low = high
        return found

    def _spread(self, chosen: Any) -> FlowSpread:
        return FlowSpread(
            int(np.count_nonzero(chosen)), percentiles(self.completion_ns[chosen]), percentiles(self.slowdown[chosen])
        )


@dataclass(frozen=True)
class FlowSpread:
    """Of so many flows: the times and the slowdowns that `PERCENTILES` of them do not exceed; empty without flows."""

    flows: int
    completion_ns: tuple[float, ...]
    slowdown: tuple[float, ...]


def percentiles(values: Any) -> tuple[float, ...]:
    """The values that `PERCENTILES` of those that are known do not exceed: each is one of them."""
    ordered = np.sort(values[~np.isnan(values)])
    places = [-(-round(10 * p) * ordered.size // 1000) - 1 for p in PERCENTILES]
    return tuple(float(ordered[place]) for place in places) if ordered.size else ()


def flow_figures(net: Net, network: Network, flows: Longs, completion_ns: Longs) -> FlowFigures:
    """Figures of flows 1, 2, ... of a run: int64[f, 6] of source, target, priority, target's port, bytes, start."""
    found = np.zeros(len(flows) + 1, np.int64)
    times_alone(net, found)
    ideal = found[1:]
    source, target, size = flows[:, 0], flows[:, 1], flows[:, 4]
    ideal[size == 0] = network.ways.delay_ns[source, target][size == 0]
    done = (completion_ns >= 0) & (ideal > 0)
    slowdown = np.full(len(flows), np.nan)
    slowdown[done] = completion_ns[done] / ideal[done]
    own = net.flows[1 : len(flows) + 1]
    return FlowFigures(
        source=source,
        target=target,
        size_bytes=size,
        start_ns=flows[:, 5],
        completion_ns=completion_ns,
        ideal_ns=ideal,
        slowdown=slowdown,
        resent_bytes=own.resent.astype(np.int64),
        rate_bps=own.rate.astype(np.int64),
    )
