"""The flow network beside the arena: tables that grow, routes that are found when they are first asked for, changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chakrasim.machine.graph.changes import Change
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import Routes, Routing, find_routes, find_ways
from chakrasim.simulator.flow.links import change_capacity
from chakrasim.simulator.flow.state import ACTIVE, grown, new_sharing
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.flows import (
    RouteTable,
    change_at,
    drop,
    note_routes,
    other_route,
    routes_of,
    run_flows,
    take_other_way,
)
from chakrasim.simulator.kernels.layout import PAIR_BITS
from chakrasim.simulator.lowering.activities import Activities
from chakrasim.simulator.lowering.channels import Channels, WaysOfMessages
from chakrasim.simulator.network_changes import LinkStates

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class FlowNetwork:
    """Links, flows under way and known routes of one run; the first routes are those of the activities.

    ``history`` has the capacities that changed on the way: ns, link, bytes per ns.
    ``pairs`` (int64[p], source << PAIR_BITS | destination) will send messages: their routes are found together.
    ``channels`` has the ways of messages on rings.
    ``job_of`` (int64[ranks]) is the number of each rank's job, which stops when one of its ranks goes down.
    """

    def __init__(
        self,
        graph: NetworkGraph,
        routing: Routing,
        activities: Activities,
        changes: Sequence[Change] = (),
        pairs: Ints | None = None,
        job_of: Ints | None = None,
        channels: Channels | None = None,
    ) -> None:
        self.graph, self.routing, self.activities = graph, routing, activities
        self.job_of = np.zeros(graph.ranks, np.int64) if job_of is None else job_of
        self.states = LinkStates(graph, changes)
        self.lost_at_ns: dict[int, int] = {}
        """By rank that went down and took its job with it: when it did."""
        self.rerouted = 0
        """How often flows under way took another way."""
        self.waited: set[int] = set()
        """Numbers of the flows under way that found no other way when links on theirs went down."""
        self.history: list[tuple[int, int, float]] = []
        self._asked = False
        self._pairs = 0
        self._longest = 0
        """Crossings of the longest route."""
        self.user: Ints = np.zeros(0, np.int64)
        """int64[r], of each route: source << PAIR_BITS | destination, or -1 less the number of the activity."""
        ways = channels.ways() if channels else None
        caps = np.concatenate([activities.caps(), np.zeros(0) if ways is None else ways.cap])
        capped = np.flatnonzero(np.isfinite(caps))
        self._cap_of: Ints = np.full(caps.size, -1, np.int64)
        """int64[a + h]: a limit of each activity's own, and of each own way of messages, which stands behind the links;
        -1: it has none."""
        self._cap_of[capped] = graph.links + np.arange(capped.size)
        self._medium = np.concatenate([graph.medium, self._cap_of[capped].astype(np.int32)])
        self.table = _no_routes(graph, routing, len(activities), self._medium, caps[capped])
        news = self.states.advance(0)
        self.history += [(0, link, float(self.states.capacity[link])) for link in news.links.tolist()]
        self.sharing = new_sharing(np.concatenate([self.states.capacity, caps[capped]]))
        self._stop(news.lost)
        self._note_activities(np.arange(len(activities)), self._down())
        if pairs is not None:
            self._note_pairs(pairs, self._down())
        self._ways = np.zeros((2, 0), np.int64)
        if ways is not None:
            self._add_ways(ways)

    def run(self, m: Ints, steps: int) -> int:
        """Run at most about so many events; returns why it stopped, where that is not for the tables' sake."""
        if not self._asked:
            self._ask(m)
        while True:
            reason: int = run_flows(m, self.sharing, self.table, steps)
            if reason == at.NEED_ROUTES:
                self._find_routes(m)
            elif reason == at.NEED_SLOTS:
                self._grow()
            elif reason == at.NEED_CHANGES:
                self._change(m)
            else:
                return reason

    def bytes_sent(self) -> Ints:
        """int64[ranks]: what each rank has sent for collectives that are activities."""
        sent = np.zeros(self.graph.ranks)
        for route in np.flatnonzero((self.user < 0) & (self.table.sent > 0)).tolist():
            self.activities.bytes_sent(-1 - int(self.user[route]), float(self.table.sent[route]), sent)
        return np.rint(sent).astype(np.int64)

    def ranks_of_routes(self) -> Ints:
        """int64[r]: one of the ranks that each route serves."""
        ranks = self.user >> PAIR_BITS
        own = np.flatnonzero(self.user < 0)
        ranks[own] = [self.activities.a_member_of(-1 - user) for user in self.user[own].tolist()]
        return ranks

    def _ask(self, m: Ints) -> None:
        """Have the arena stop when links change next."""
        self._asked = True
        if self.states.next_ns is not None:
            change_at(m, self.states.next_ns)

    def _find_routes(self, m: Ints) -> None:
        """Find the routes of all that is about to start."""
        pairs, activities = set(), set()
        message = int(m[at.STARTING])
        while message:
            source, target = int(m[message + at.MSG_AT]), int(m[message + at.MSG_TO])
            if source < 0:
                activities.add(target)
            else:
                pairs.add(source << PAIR_BITS | target)
            message = int(m[message + at.MSG_NEXT])
        self._find(pairs, activities)

    def _find(self, pairs: set[int], activities: set[int]) -> None:
        """Find the routes of pairs and activities, as far as they are not known, as links are known to be."""
        asked, wanted = np.array(sorted(pairs), np.int64), np.array(sorted(activities), np.int64)
        self._note_pairs(asked[self._routes_of(asked) < 0], self._down())
        self._note_activities(wanted[self.table.of_activity[wanted] < 0], self._down())

    def _down(self) -> Bools | None:
        """The links that are known to be down."""
        return self.states.known_down if self.states.known_down.any() else None

    def _routes_of(self, keys: Ints) -> NDArray[np.int32]:
        found = np.empty(keys.size, np.int32)
        routes_of(self.table, keys, found)
        return found

    def _note_activities(self, new: Ints, down: Bools | None) -> None:
        """Find the routes of activities; those that are cut get the way that they would have, and wait on it."""
        if not new.size:
            return
        routes, latency_ns, weight = self.activities.charges(new.tolist(), down)
        there = np.setdiff1d(np.arange(new.size), routes.missing)
        ways = with_own_limits(routes.take(there), self._cap_of[new[there]])
        number = self._append(-1 - new[there], ways, latency_ns[there], weight[there])
        self.table.of_activity[new[there]] = number + np.arange(there.size)
        self._note_activities(new[routes.missing], None)

    def _note_pairs(self, new: Ints, down: Bools | None) -> None:
        """The same of messages between pairs that are not in the table."""
        if not new.size:
            return
        source, target = (new >> PAIR_BITS).astype(np.int32), (new & ((1 << PAIR_BITS) - 1)).astype(np.int32)
        if self.table.on_link.size:
            ways = find_ways(self.graph, source, target, None, self.routing, down, refuse=down is None)
            there, missing = np.setdiff1d(np.arange(new.size), ways.missing), ways.missing
            users = np.repeat(new, np.diff(ways.first))
            number = self._append(users, ways.routes, ways.routes.latency_ns(self.graph), detour=ways.detour)
            ends = np.stack([ways.first[:-1], ways.first[1:]], 1)[there]
            values = self.table.tie.size + 2 * np.arange(there.size)
            self.table = self.table._replace(
                way_first=np.concatenate([self.table.way_first, number + ends.ravel()]),
                tie=np.concatenate([self.table.tie, np.repeat(ways.tie[there], 2)]),
            )
        else:
            routes = find_routes(self.graph, source, target, None, self.routing, down, refuse=down is None)
            there, missing = np.setdiff1d(np.arange(new.size), routes.missing), routes.missing
            number = self._append(new[there], routes.take(there), routes.latency_ns(self.graph)[there])
            values = number + np.arange(there.size)
        self._make_room(there.size)
        self._pairs += there.size
        note_routes(self.table, new[there], values.astype(np.int32))
        self._note_pairs(new[missing], None)

    def _add_ways(self, ways: WaysOfMessages) -> None:
        """Take the ways that messages have of their own, each a route."""
        routes = with_own_limits(ways.routes, self._cap_of[len(self.activities) :])
        numbers = self._append(ways.pairs, routes, ways.latency_ns) + np.arange(ways.keys.size)
        self._ways = np.stack([ways.keys, numbers])
        self._note_ways()

    def _note_ways(self) -> None:
        """Enter the ways that are not cut; messages of the others take the way of any message."""
        keys, numbers = self._ways[:, ~self.table.stale[self._ways[1]]]
        self._make_room(keys.size)
        self._pairs += keys.size
        note_routes(self.table, keys, numbers.astype(np.int32))

    def _append(
        self,
        users: Ints,
        routes: Routes,
        latency_ns: NDArray[np.float64],
        weight: NDArray[np.float64] | float = 1.0,
        detour: Bools | bool = False,
    ) -> int:
        """Add routes to the table; returns the number of the first."""
        old, count = self.table, latency_ns.size
        self.user = np.concatenate([self.user, users])
        self._longest = max(self._longest, int(np.diff(routes.first).max(initial=0)))
        self.table = old._replace(
            first=np.concatenate([old.first, old.first[-1] + routes.first[1:]]),
            link=np.concatenate([old.link, self._medium[routes.link]]),
            detour=np.concatenate([old.detour, np.broadcast_to(detour, count)]),
            coefficient=np.concatenate([old.coefficient, routes.coefficient]),
            latency=np.concatenate([old.latency, latency_ns]),
            weight=np.concatenate([old.weight, np.broadcast_to(weight, count)]),
            stale=np.concatenate([old.stale, self._crosses_down(routes.first, routes.link)]),
            first_message=np.concatenate([old.first_message, np.zeros(count, np.int64)]),
            last_message=np.concatenate([old.last_message, np.zeros(count, np.int64)]),
            sent=np.concatenate([old.sent, np.zeros(count)]),
            times=np.concatenate([old.times, np.zeros(count, np.int64)]),
        )
        return old.latency.size

    def _make_room(self, more: int) -> None:
        """A larger table of pairs, if so many more would fill it by half."""
        old = self.table
        if (self._pairs + more) * 2 <= old.keys.size:
            return
        size = 1 << int((self._pairs + more) * 4 - 1).bit_length()
        used = np.flatnonzero(old.keys >= 0)
        self.table = old._replace(keys=np.full(size, -1, np.int64), values=np.zeros(size, np.int32))
        note_routes(self.table, old.keys[used], old.values[used])

    def _grow(self) -> None:
        """Room for another flow, however long its route, and for as many again as there are."""
        self.sharing = grown(self.sharing, self._longest)

    def _crosses_down(self, first: Ints, link: NDArray[np.int32]) -> Bools:
        """bool[r]: whether routes cross links that are known to be down."""
        found = np.zeros(first.size - 1, np.bool_)
        if self.states.known_down.any():
            down = np.zeros(self._medium.size, np.bool_)
            down[: self.graph.links] = self.states.known_down
            crossing = np.flatnonzero(down[link])
            found[np.searchsorted(first, crossing, side="right") - 1] = True
        return found

    # -- links that change ---------------------------------------------------------------------------------------------

    def _change(self, m: Ints) -> None:
        """Apply what is due; what went over links that are known to be down takes another way."""
        m[at.CHANGES_DUE] = 0
        news = self.states.advance(int(m[at.NOW]))
        capacity = self.states.capacity[news.links]
        change_capacity(self.sharing, news.links, capacity)
        self.table.capacity[news.links[capacity > 0]] = capacity[capacity > 0]
        self.history += [(int(m[at.NOW]), *pair) for pair in zip(news.links.tolist(), capacity.tolist(), strict=True)]
        self._stop(news.lost)
        for slot in self.under_way() if news.lost else ():
            if self._has_stopped(m, slot):
                drop(m, self.sharing, self.table, slot)
        if news.known or news.rehash_all:
            self._reroute(m, news.rehash_all)
        self._ask(m)

    def under_way(self) -> list[int]:
        """The slots of the flows under way, in order of their numbers."""
        slots = self.sharing.active[: int(self.sharing.count[ACTIVE])]
        found: list[int] = slots[np.argsort(self.sharing.slots["flow"][slots], kind="stable")].tolist()
        return found

    def ends(self, m: Ints, slot: int) -> tuple[int, int]:
        """Source and destination of a flow under way; -1 and the number of the activity, if it is one."""
        message = int(self.sharing.slots[slot].record)
        return int(m[message + at.MSG_AT]), int(m[message + at.MSG_TO])

    def _stop(self, ranks: Sequence[int]) -> None:
        """The jobs of these ranks stop: nothing of theirs starts any more."""
        for rank in ranks:
            self.lost_at_ns[rank] = self.states.down_since_ns[rank]
            self.table.stopped[self.job_of == self.job_of[rank]] = True
        for activity in range(len(self.activities)) if ranks else ():
            self.table.ended[activity] = self.table.stopped[self.activities.a_member_of(activity)]

    def _has_stopped(self, m: Ints, slot: int) -> bool:
        source, target = self.ends(m, slot)
        return bool(self.table.ended[target] if source < 0 else self.table.stopped[source])

    def _reroute(self, m: Ints, everything: bool) -> None:
        """Forget all routes, and find others for what is under way over links that are down, or for everything."""
        table = self.table
        table.stale[:] = self._crosses_down(table.first, table.link)
        table.keys[:] = -1
        table.of_activity[:] = -1
        self._pairs = 0
        self._note_ways()
        slots = np.array(self.under_way(), np.int64)
        routes = m[self.sharing.slots["record"][slots] + at.MSG_ROUTE]
        hit: list[int] = (slots if everything else slots[table.stale[routes]]).tolist()
        pairs, activities = set(), set()
        for slot in hit:
            source, target = self.ends(m, slot)
            if source < 0:
                activities.add(target)
            else:
                pairs.add(source << PAIR_BITS | target)
        self._find(pairs, activities)
        for slot in hit:
            self._move(m, slot)

    def _move(self, m: Ints, slot: int) -> None:
        """Let a flow under way take the way that the rule gives now, if there is one and it is another."""
        route = int(other_route(m, self.table, int(self.sharing.slots[slot].record)))
        if self.table.stale[route]:
            self.waited.add(int(self.sharing.slots[slot].flow))
            return
        before = int(m[int(self.sharing.slots[slot].record) + at.MSG_ROUTE])
        old, new = (slice(*self.table.first[r : r + 2]) for r in (before, route))
        columns = (self.table.link, self.table.coefficient)
        if not all(np.array_equal(column[old], column[new]) for column in columns):
            self._grow()
            take_other_way(m, self.sharing, self.table, slot, route)
            self.rerouted += 1


def with_own_limits(routes: Routes, limit: Ints) -> Routes:
    """The routes, each with one crossing more of a limit of its own (-1: it has none) behind its links."""
    own = np.flatnonzero(limit >= 0)
    if not own.size:
        return routes
    at = routes.first[own + 1]
    first = routes.first + np.concatenate([[0], np.cumsum(limit >= 0)])
    return Routes(first, np.insert(routes.link, at, limit[own]), np.insert(routes.coefficient, at, 1.0))


def _no_routes(
    graph: NetworkGraph, routing: Routing, activities: int, medium: NDArray[np.int32], caps: NDArray[np.float64]
) -> RouteTable:
    """A table without routes; ``caps`` are the activities' own limits, behind the links."""
    links = medium.size if routing.rule == "adaptive" else 0
    return RouteTable(
        keys=np.full(1024, -1, np.int64),
        values=np.zeros(1024, np.int32),
        first=np.zeros(1, np.int64),
        link=np.zeros(0, np.int32),
        coefficient=np.zeros(0),
        latency=np.zeros(0),
        weight=np.zeros(0),
        of_activity=np.full(activities, -1, np.int64),
        stale=np.zeros(0, np.bool_),
        first_message=np.zeros(0, np.int64),
        last_message=np.zeros(0, np.int64),
        sent=np.zeros(0),
        times=np.zeros(0, np.int64),
        stopped=np.zeros(graph.ranks, np.bool_),
        ended=np.zeros(activities, np.bool_),
        way_first=np.zeros(0, np.int64),
        tie=np.zeros(0, np.int64),
        detour=np.zeros(0, np.bool_),
        threshold=routing.threshold,
        medium=medium,
        capacity=np.concatenate([graph.capacity, caps]),
        on_link=np.zeros(links, np.int64),
    )
