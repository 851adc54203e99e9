"""Links over time: the run once more, looked at on its way.

Which links are the busiest is known at the end only, so a run notes nothing of them on its way; it is deterministic,
and so can be had again. What has crossed a link by a time is what the engine counts, less what is still to come of the
message that it serves (astra-network.md, 5), or plus what has come of the flows under way.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.notes import Notes
from chakrasim.simulator.arena.flow_network import FlowNetwork
from chakrasim.simulator.flow.state import ACTIVE
from chakrasim.simulator.kernels import layout as at

if TYPE_CHECKING:
    from chakrasim.simulator.arena.packet_network import PacketNetwork
    from chakrasim.simulator.outcome.result import SimulationResult

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

LOOKS: Final = 4096
"""How often the engine stops, about."""
GRID: Final = 1024
"""Times closer together than this part of the run are one."""
SAME: Final = 1e-9
"""Sums of a link may differ by this share from the bytes of its row: rounding."""


@dataclass(frozen=True, eq=False)
class LinkCourses:
    """What the busiest links of a run had carried by when.

    ``names``, ``capacity`` (float64[k], bytes per ns), ``copies`` (how many equal links each stands for); ``times_ns``
    int64[t], ascending from 0; ``carried`` float64[t, k], bytes since the begin, at the end those of the result's
    links; ``left_out``: links that carried something and are not here, and ``most_left`` the busiest share among them.
    """

    names: tuple[str, ...]
    capacity: Floats
    copies: int
    times_ns: Ints
    carried: Floats
    left_out: int
    most_left: float


def link_courses(result: SimulationResult, most: int) -> LinkCourses | str:
    """Of at most so many links, those that were busy longest; else why there are none, "" where the run has no links.

    Costs another run of the simulation.
    """
    job = result.job
    if job is None or job.context.replay is not None:
        return ""
    if job.context.packets is not None:
        return "links of a network of packets are not looked at on the way"
    if result.links is None and not result.graph_links:
        return ""
    if job.context.matrices:
        return "links of a job with all-to-alls of unequal parts are not looked at on the way"
    graph = job.context.graph
    if result.links is not None:
        share = result.links.busy_ns / max(result.makespan_ns, 1)
        order = np.argsort(-share, kind="stable")
        names, rows, copies = result.links.name, result.links.row, result.links.copies
        carries: Floats = result.links.bytes.astype(np.float64)
    else:
        assert graph is not None  # only flows have such links
        share = np.array([link.busy_share for link in result.graph_links])
        order, copies = np.arange(len(share)), 1
        names = tuple(link.name for link in result.graph_links)
        rows = np.array([graph.link_number[name] for name in names], np.int64)
        carries = np.array([link.bytes for link in result.graph_links], np.float64)
    chosen, rest = order[:most], order[most:]
    watch = _Watch(rows[chosen], result.events, result.makespan_ns)
    _run_again(result, watch)
    times, carried, capacity = watch.course()
    if len(times) < 2 or np.any(np.abs(carried[-1] - carries[chosen]) > 1 + SAME * carries[chosen]):
        return "links over time are not known: the run does not repeat itself"
    return LinkCourses(tuple(names[i] for i in chosen.tolist()), capacity, copies, times, carried,
                       len(rest), float(share[rest].max(initial=0.0)))  # fmt: skip


def _run_again(result: SimulationResult, watch: _Watch) -> None:
    from chakrasim.errors import StallError
    from chakrasim.simulator.session import Session

    assert result.job is not None
    job = result.job
    context = replace(job.context, notes=Notes(), counts=Counter())
    try:
        Session(context, list(job.graphs), job.graph_of).run(
            fold=len(result.class_ranks) < len(result.classes), watch=watch
        )
    except StallError:  # as the first time
        return


class _Watch:
    """What the links of ``rows`` have carried whenever the engine stops (`engine.Watch`)."""

    def __init__(self, rows: Ints, events: int, makespan_ns: int) -> None:
        self.steps = max(1, events // LOOKS)
        self.rows, self.grid_ns = rows, makespan_ns // GRID
        self.begin()

    def begin(self) -> None:
        self.times, self.carried = [0], [np.zeros(self.rows.size)]
        self.capacity = np.zeros(self.rows.size)
        self.entries: Ints = np.zeros(0, np.int64)
        self.known = -1

    def look(self, m: Ints, network: FlowNetwork | PacketNetwork | None) -> None:
        now = int(m[at.NOW])
        found = self._of_flows(network, now) if isinstance(network, FlowNetwork) else self._of_links(m, now)
        # The time before is kept where this one or the one before that is far: a pause is not smeared over.
        if (len(self.times) > 1 and now - self.times[-2] <= self.grid_ns) or now == self.times[-1]:
            self.times[-1], self.carried[-1] = now, found
        else:
            self.times.append(now)
            self.carried.append(found)

    def course(self) -> tuple[Ints, Floats, Floats]:
        """Times, bytes by time and link, and what links carry at most, in bytes per ns."""
        times = np.array(self.times, np.int64)
        kept = np.flatnonzero(np.diff(times, prepend=-1) > 0)
        carried = np.maximum.accumulate(np.array(self.carried)[kept], axis=0)
        return times[kept], carried, self.capacity

    def _of_links(self, m: Ints, now: int) -> Floats:
        """Links that serve one message after another."""
        own = int(m[at.LINK_TABLE]) + self.rows * at.LINK_WORDS
        reals = int(m[at.REALS]) + 2 * m[own + at.LINK_DIM] + 1
        self.capacity = m[reals].view(np.float64)
        left_ns = np.maximum(m[own + at.LINK_FREE_AT] - now, 0)
        found: Floats = np.maximum(m[own + at.LINK_BYTES] - left_ns * self.capacity, 0.0)
        return found

    def _of_flows(self, network: FlowNetwork, now: int) -> Floats:
        """Links that flows share: what has ended on each route, and what those under way have moved."""
        table, s = network.table, network.sharing
        self.capacity = network.graph.capacity[self.rows]
        place = np.full(s.links.size, -1, np.int64)
        place[self.rows] = np.arange(self.rows.size)
        if self.known != table.link.size:
            self.known = table.link.size
            self.entries = np.flatnonzero(place[table.link] >= 0)
            self.route = np.repeat(np.arange(table.latency.size), np.diff(table.first))[self.entries]
        ended = table.coefficient[self.entries] * table.sent[self.route]
        found = np.bincount(place[table.link[self.entries]], ended, self.rows.size).astype(np.float64)
        slots = s.active[: int(s.count[ACTIVE])].astype(np.int64)
        first, last = (s.slots[name][slots].astype(np.int64) for name in ("first", "last"))
        lengths = last - first
        every = np.repeat(first - np.concatenate([[0], np.cumsum(lengths)[:-1]])[: lengths.size], lengths)
        every = every + np.arange(every.size)
        owner = np.repeat(slots, lengths)
        crossing = place[s.entries["link"][every].astype(np.int64)]
        here = np.flatnonzero(crossing >= 0)
        flows = s.slots[owner[here]]
        left = np.maximum(flows["remaining"] - flows["rate"] * (now - flows["since"]), 0.0)
        moved = (flows["began"] - left) * s.entries["coefficient"][every[here]]
        found += np.bincount(crossing[here], moved, self.rows.size)
        return found
