"""Flows that find their ways on the way: adaptive ones when they start, others when links go down or come back.

One event after another, in Python: the loop of the kernels (`solve`) is for flows whose ways never change.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.machine.graph.changes import Change
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import Routing, Ways, find_routes, find_ways
from chakrasim.machine.graph.routing.routes import Routes
from chakrasim.machine.graph.routing.ways import start_all
from chakrasim.simulator.flow.alone.flows import CapacityChanges, Floats, Flows, Ints, Longs
from chakrasim.simulator.flow.alone.solve import ALL_ABOVE, How, Solved
from chakrasim.simulator.flow.events import can_enter, end_due, enter, next_end, settle, take_out
from chakrasim.simulator.flow.fill import SLACK_NS
from chakrasim.simulator.flow.links import change_capacity
from chakrasim.simulator.flow.loop import SAME
from chakrasim.simulator.flow.state import ACTIVE, CHANGED, FILLS, SOLVES, grown, new_sharing
from chakrasim.simulator.network_changes import LinkStates
from chakrasim.trace.chakra.graph import offsets_of

START: Final = 0
JOIN: Final = 1
"""What a flow does: it takes its way, and, when its latency is over, its bytes move."""
TOGETHER: Final = 1024
"""Ends taken out at a time."""


def capacities_over_time(graph: NetworkGraph, changes: Sequence[Change]) -> CapacityChanges:
    """The capacities that links have after changes, those of the graph's own schedule among them."""
    states, found = LinkStates(graph, changes), []
    while states.next_ns is not None:
        now = states.next_ns
        found += [(now, link, states.capacity[link]) for link in states.advance(now).links.tolist()]
    return CapacityChanges(*np.array(found).reshape(-1, 3).T)


def run_moving(
    graph: NetworkGraph, flows: Flows, routing: Routing, changes: Sequence[Change], how: How
) -> tuple[Solved, Routes, Floats]:
    """When the flows end, the links that each crossed last, and float64[l]: the bytes that crossed each link."""
    course = _Course(graph, flows, routing, changes, how)
    course.run()
    lengths = np.array([links.size for links, _ in course.taken], np.int64)
    routes = Routes(
        offsets_of(lengths),
        np.concatenate([np.zeros(0, np.int32), *(links for links, _ in course.taken)]),
        np.concatenate([np.zeros(0), *(parts for _, parts in course.taken)]),
    )
    count = course.sharing.count
    work = (int(count[SOLVES]), int(count[FILLS]), int(count[CHANGED]))
    return Solved(course.finish_ns, course.carried, *work, len(flows)), routes, course.link_bytes


class _Course:
    """The flows of a run, the ways that are open to them, and where they are."""

    def __init__(
        self, graph: NetworkGraph, flows: Flows, routing: Routing, changes: Sequence[Change], how: How
    ) -> None:
        self.graph, self.flows, self.routing, self.how = graph, flows, routing, how
        self.states = LinkStates(graph, changes)
        self.states.advance(0)
        self.sharing = new_sharing(self.states.capacity)
        self.capacity = graph.capacity.copy()
        """As a flow that starts knows it."""
        self.on_link = np.zeros(graph.links, np.int64)
        count = len(flows)
        self.finish_ns: Floats = np.full(count, np.nan)
        self.carried: Floats = np.zeros(count)
        self.link_bytes: Floats = np.zeros(graph.links)
        nothing = np.zeros(0, np.int32), np.zeros(0)
        self.taken: list[tuple[Ints, Floats]] = [nothing] * count
        self.stage = np.full(count, START)
        self._books: list[Ways] = []
        self._book, self._place = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self._look(np.arange(count), self._down())
        self._heap = [(float(flows.start_ns[i]), i, START) for i in np.flatnonzero(flows.after < 0).tolist()]
        heapq.heapify(self._heap)
        self._followers: dict[int, list[int]] = {}
        for i in np.flatnonzero(flows.after >= 0).tolist():
            self._followers.setdefault(int(flows.after[i]), []).append(i)

    def run(self) -> None:
        """One instant after another: ends, then links, then starts, then rates once."""
        ended = np.zeros(TOGETHER, np.int32)
        above = ALL_ABOVE if self.how.all_above is None else self.how.all_above
        while True:
            now = min(
                float(next_end(self.sharing)),
                self._heap[0][0] if self._heap else math.inf,
                math.inf if self.states.next_ns is None else float(self.states.next_ns),
            )
            if now == math.inf:
                break
            limit = now * (1.0 + SAME) if self.how.exact else now
            while (many := int(end_due(self.sharing, limit, ended))) > 0:
                for flow in ended[:many].tolist():
                    self._carry(flow, float(self.flows.size_bytes[flow]) - self.carried[flow])
                    self._end(flow, now)
            if self.states.next_ns is not None and self.states.next_ns <= now:
                self._change(now)
            while self._heap and self._heap[0][0] <= now:
                _, flow, stage = heapq.heappop(self._heap)
                (self._start if stage == START else self._join)(flow, now)
            settle(self.sharing, now, not self.how.exact, int(above * self.sharing.count[ACTIVE]))
        for slot in self._slots():
            flow = int(self.sharing.slots[slot].flow)
            self._carry(flow, float(self.sharing.slots[slot].began - self.sharing.slots[slot].remaining))

    def _end(self, flow: int, now: float) -> None:
        self.finish_ns[flow] = now
        self._count(self.taken[flow][0], -1)
        for other in self._followers.get(flow, ()):
            heapq.heappush(self._heap, (now + float(self.flows.start_ns[other]), other, START))

    def _count(self, links: Ints, by: int) -> None:
        """Add to the flows on links, which adaptive ones choose by."""
        np.add.at(self.on_link, self.graph.medium[links], by)

    def _carry(self, flow: int, bytes_more: float) -> None:
        """Note what has gone the present way of a flow."""
        links, parts = self.taken[flow]
        self.carried[flow] += bytes_more
        self.link_bytes[links] += parts * bytes_more

    def _start(self, flow: int, now: float) -> None:
        """A flow takes its way; its bytes move when the latency is over."""
        self.taken[flow] = self._way(flow)
        self.stage[flow] = JOIN
        links, parts = self.taken[flow]
        itself = self.flows.source[flow] == self.flows.destination[flow]
        latency = 0.0 if itself else float(parts @ self.graph.latency[links])
        heapq.heappush(self._heap, (now + latency, flow, JOIN))

    def _join(self, flow: int, now: float) -> None:
        links = self.taken[flow][0]
        size = float(self.flows.size_bytes[flow])
        if links.size == 0 or (size == 0 and (self.states.capacity[links] > 0).all()):
            self._end(flow, now if self.how.exact else math.floor(now) + math.ceil(now % 1.0 - SLACK_NS))
            return
        self._enter(flow, size, now)

    def _enter(self, flow: int, size: float, now: float) -> None:
        links, parts = self.taken[flow]
        while not can_enter(self.sharing, links.size):
            self.sharing = grown(self.sharing, links.size)
        weight = float(self.flows.weight[flow])
        enter(self.sharing, flow, weight, size, self.graph.medium[links], parts, now)

    # -- ways ----------------------------------------------------------------------------------------------------------

    def _down(self) -> NDArray[np.bool_] | None:
        return self.states.known_down if self.states.known_down.any() else None

    def _look(self, which: Longs, down: NDArray[np.bool_] | None) -> None:
        """Find the ways open to flows, as links are known to be; those that are cut get what they would have."""
        if not which.size:
            return
        ends = self.flows.source[which], self.flows.destination[which], self.flows.label[which]
        if self.routing.rule == "adaptive":
            ways = find_ways(self.graph, *ends, self.routing, down, refuse=down is None)
        else:
            found = find_routes(self.graph, *ends, self.routing, down, refuse=down is None)
            there = np.setdiff1d(np.arange(which.size), found.missing)
            first = offsets_of(np.isin(np.arange(which.size), there).astype(np.int64))
            no_detours = np.zeros(there.size, np.bool_)
            ways = Ways(first, found.take(there), no_detours, np.zeros(which.size, np.int64), found.missing)
        self._book[which], self._place[which] = len(self._books), np.arange(which.size)
        self._books.append(ways)
        self._look(which[ways.missing], None)

    def _way(self, flow: int) -> tuple[Ints, Floats]:
        """The way that a flow takes which starts now; it counts on its links from now on."""
        ways, place = self._books[int(self._book[flow])], int(self._place[flow])
        taken = np.zeros(1, np.int64)
        start_all(
            ways.first[place : place + 2], ways.routes.first, ways.routes.link, ways.detour,
            ways.tie[place : place + 1], self.routing.threshold, self.graph.medium, self.capacity, self.on_link, taken,
        )  # fmt: skip
        return ways.routes.of(int(taken[0]))

    def _slots(self) -> list[int]:
        """Those of the flows under way, in order of their numbers."""
        slots = self.sharing.active[: int(self.sharing.count[ACTIVE])]
        found: list[int] = slots[np.argsort(self.sharing.slots["flow"][slots], kind="stable")].tolist()
        return found

    def _change(self, now: float) -> None:
        """Apply what is due; what is on links that are known to be down takes another way, if there is one."""
        news = self.states.advance(math.floor(now))
        capacity = self.states.capacity[news.links]
        change_capacity(self.sharing, news.links, capacity)
        self.capacity[news.links[capacity > 0]] = capacity[capacity > 0]
        if not (news.known or news.rehash_all):
            return
        self._look(np.flatnonzero(np.isnan(self.finish_ns)), self._down())
        slot_of = {int(self.sharing.slots[slot].flow): slot for slot in self._slots()}
        for flow in np.flatnonzero((self.stage == JOIN) & np.isnan(self.finish_ns)).tolist():
            if news.rehash_all or self.states.known_down[self.taken[flow][0]].any():
                self._move(flow, slot_of.get(flow), now)

    def _move(self, flow: int, slot: int | None, now: float) -> None:
        """Give a flow the way that is open now: with its remaining bytes, if it is under way."""
        before = self.taken[flow][0]
        self._count(before, -1)
        way = self._way(flow)
        if self.states.known_down[way[0]].any():
            self._count(way[0], -1)
            self._count(before, 1)
            return
        if slot is not None:
            left = float(take_out(self.sharing, slot, now))
            self._carry(flow, float(self.flows.size_bytes[flow]) - self.carried[flow] - left)
        self.taken[flow] = way
        if slot is not None:
            self._enter(flow, left, now)
