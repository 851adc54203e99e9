"""The flow network beside the arena: tables that grow, routes that are found when they are first asked for, changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import Routes, Routing, find_routes
from chakrasim.simulator.flow.state import ACTIVE, grown, new_sharing
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.flows import (
    RouteTable,
    change_at,
    change_capacity,
    note_routes,
    routes_of,
    run_flows,
    take_other_way,
)
from chakrasim.simulator.kernels.layout import PAIR_BITS
from chakrasim.simulator.lowering.activities import Activities
from chakrasim.simulator.network_changes import Change, Changed, LinkStates

Ints = NDArray[np.int64]


class FlowNetwork:
    """Links, flows under way and known routes of one run; the first routes are those of the activities.

    ``pairs`` (int64[p], source << PAIR_BITS | destination) will send messages: their routes are found together.
    """

    def __init__(
        self,
        graph: NetworkGraph,
        routing: Routing,
        activities: Activities,
        changes: Sequence[Change] = (),
        pairs: Ints | None = None,
    ) -> None:
        self.graph, self.routing, self.activities = graph, routing, activities
        self.states, self.changed = LinkStates(graph, list(changes)), Changed()
        self._asked = False
        self._pairs = 0
        self._pair_of: dict[int, int] = {}
        routes, latency_ns, weight, _ = activities.charges()
        self.sharing = new_sharing(graph.capacity)
        count = latency_ns.size
        self.table = RouteTable(
            keys=np.full(1024, -1, np.int64),
            values=np.zeros(1024, np.int32),
            first=routes.first,
            link=routes.link,
            coefficient=routes.coefficient,
            latency=latency_ns,
            weight=weight,
            of_activity=np.arange(count),
            stale=np.zeros(count, np.bool_),
            first_message=np.zeros(count, np.int64),
            last_message=np.zeros(count, np.int64),
            sent=np.zeros(count),
            times=np.zeros(count, np.int64),
        )
        self.activity_of = dict(enumerate(range(count)))
        """By route: the number of the activity."""
        if pairs is not None and pairs.size:
            self._note_pairs(pairs)

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

    def pair(self, route: int) -> tuple[int, int] | None:
        """The ranks that a route leads from and to; None for an activity."""
        key = self._pair_of.get(route)
        return None if key is None else (key >> PAIR_BITS, key & ((1 << PAIR_BITS) - 1))

    def bytes_sent(self) -> Ints:
        """int64[ranks]: what each rank has sent for collectives that are activities."""
        sent = np.zeros(self.graph.ranks)
        for route, activity in self.activity_of.items():
            if self.table.sent[route]:
                self.activities.bytes_sent(activity, float(self.table.sent[route]), sent)
        return np.rint(sent).astype(np.int64)

    def a_rank_of(self, route: int) -> int:
        """One of the ranks that a route serves."""
        pair = self.pair(route)
        return self.activities.a_member_of(self.activity_of[route]) if pair is None else pair[0]

    def _ask(self, m: Ints) -> None:
        """Have the arena stop when links change next."""
        self._asked = True
        if self.states.next_ns is not None:
            change_at(m, self.states.next_ns)

    def _find_routes(self, m: Ints) -> None:
        """Find the routes of all messages that are about to start."""
        pairs = set()
        message = int(m[at.STARTING])
        while message:
            if m[message + at.MSG_AT] >= 0:
                pairs.add(int(m[message + at.MSG_AT]) << PAIR_BITS | int(m[message + at.MSG_TO]))
            message = int(m[message + at.MSG_NEXT])
        asked = np.array(sorted(pairs), np.int64)
        self._note_pairs(asked[self._routes_of(asked) < 0])

    def _routes_of(self, keys: Ints) -> NDArray[np.int32]:
        found = np.empty(keys.size, np.int32)
        routes_of(self.table, keys, found)
        return found

    def _note_pairs(self, new: Ints) -> None:
        """Find the routes of pairs that are not in the table, as links are known to be; those without one wait."""
        source, destination = (new >> PAIR_BITS).astype(np.int32), (new & ((1 << PAIR_BITS) - 1)).astype(np.int32)
        down = self.states.known_down
        routes = find_routes(self.graph, source, destination, None, self.routing, down if down.any() else None)
        number = self._append(routes, routes.latency_ns(self.graph), np.ones(new.size))
        self._make_room(new.size)
        self._pairs += new.size
        values = np.arange(number, number + new.size, dtype=np.int32)
        self._pair_of |= dict(zip(values.tolist(), new.tolist(), strict=True))
        note_routes(self.table, new, values)

    def _append(self, routes: Routes, latency_ns: NDArray[np.float64], weight: NDArray[np.float64]) -> int:
        """Add routes to the table; returns the number of the first."""
        old, count = self.table, latency_ns.size
        self.table = old._replace(
            first=np.concatenate([old.first, old.first[-1] + routes.first[1:]]),
            link=np.concatenate([old.link, self.graph.medium[routes.link]]),
            coefficient=np.concatenate([old.coefficient, routes.coefficient]),
            latency=np.concatenate([old.latency, latency_ns]),
            weight=np.concatenate([old.weight, weight]),
            stale=np.concatenate([old.stale, np.zeros(count, np.bool_)]),
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
        self.sharing = grown(self.sharing, int(np.diff(self.table.first).max()))

    # -- links that change ---------------------------------------------------------------------------------------------

    def _change(self, m: Ints) -> None:
        """Apply what is due; what went over links that are known to be down takes another way."""
        m[at.CHANGES_DUE] = 0
        links, news = self.states.advance(int(m[at.NOW]))
        own = links[self.graph.medium[links] == links]
        change_capacity(self.sharing, own, self.states.capacity[own])
        if news:
            self._reroute(m)
        self._ask(m)

    def _reroute(self, m: Ints) -> None:
        """Forget routes over links that are down, and find others for what is under way there."""
        down = self.graph.medium[np.flatnonzero(self.states.known_down)]
        table = self.table
        crosses = np.repeat(np.arange(table.latency.size), np.diff(table.first))[np.isin(table.link, down)]
        table.stale[:] = False
        table.stale[crosses] = True
        table.keys[:] = -1
        self._pairs = 0
        self._renew_activities()
        s = self.sharing
        under_way = [int(slot) for slot in s.active[: int(s.count[ACTIVE])]]
        hit = [slot for slot in under_way if table.stale[m[int(s.slots[slot].record) + at.MSG_ROUTE]]]
        hit.sort(key=lambda slot: int(s.slots[slot].flow))
        for slot in hit:
            route = self._other_way(m, int(s.slots[slot].record))
            if route < 0:
                self.changed.waited += 1
                continue
            self._grow()
            take_other_way(m, self.sharing, self.table, slot, route)
            self.changed.rerouted += 1

    def _other_way(self, m: Ints, message: int) -> int:
        """The route that a message under way takes now; -1 if there is none."""
        source, target = int(m[message + at.MSG_AT]), int(m[message + at.MSG_TO])
        if source < 0:
            route = int(self.table.of_activity[target])
            return -1 if self.table.stale[route] else route
        key = np.array([source << PAIR_BITS | target], np.int64)
        if self._routes_of(key)[0] < 0:
            down = self.states.known_down
            if find_routes(self.graph, [source], [target], None, self.routing, down, refuse=False).missing.size:
                return -1
            self._note_pairs(key)
        return int(self._routes_of(key)[0])

    def _renew_activities(self) -> None:
        """Find other ways for the collectives that cross links which are down."""
        stale = [a for a, route in enumerate(self.table.of_activity.tolist()) if self.table.stale[route]]
        if not stale:
            return
        routes, latency_ns, weight, whole = self.activities.charges_without(stale, self.states.known_down)
        number = self._append(routes, latency_ns, weight)
        for i, activity in enumerate(stale):
            self.activity_of[number + i] = activity
            if whole[i]:
                self.table.of_activity[activity] = number + i
