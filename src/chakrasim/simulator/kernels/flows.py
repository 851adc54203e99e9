"""Messages and collectives as flows: what joins the sharing and what leaves it at the end of each tick.

Messages of one pair of ranks follow one another, as on one connection: only the first of them is a flow. Without that
those of a ring gather into bunches, which leave links idle that have enough to do.

All events of a tick run before rates are sought once. A message joins when its latency is over; the part of the
latency below a whole nanosecond is paid at its end, so that a message alone takes ceil(latency + size / bandwidth).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chakrasim.jit import inner, kernel, leaf
from chakrasim.machine.graph.routing.pick import least_loaded
from chakrasim.simulator.flow.fill import SLACK_NS
from chakrasim.simulator.flow.links import begin, finish, has_room, leave, take_slot
from chakrasim.simulator.flow.repair import repair
from chakrasim.simulator.flow.state import ACTIVE, QUEUED, Floats, Ints, Sharing
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.clock import Words, release, schedule
from chakrasim.simulator.kernels.layout import PAIR_BITS, WAY
from chakrasim.simulator.kernels.loop import on_message, run_on
from chakrasim.simulator.kernels.network import to_start
from chakrasim.simulator.kernels.progress import advance

SETTLED = -1
ALL_ABOVE = 0.2
"""Share of the flows under way above which all are solved at once."""
_least_loaded = leaf(least_loaded)


class RouteTable(NamedTuple):
    """Routes known so far, found by pair of ranks, and what has crossed each link.

    Attributes
    ----------
    keys, values
        int64[h], int32[h]: hash table from pair (source << 31 | destination, -1 where empty) to route, or, of adaptive
        messages, to choice; from source << 31 | WAY | number to the route of a way that is not stale
    first, link, coefficient
        int64[r + 1], int32[e], float64[e]: the links of each route; activities follow the pairs
    latency, weight
        float64[r]: ns; how a flow counts beside others
    of_activity
        int64[a]: the route of each activity, -1 if it is not known
    stale
        bool[r]: whether a route crosses a link that is known to be down
    first_message, last_message
        int64[r]: the message that is under way on a route, and the last of those behind it, 0: none
    sent, times
        float64[r], int64[r]: bytes that have gone each way, and flows that ended on it
    stopped, ended
        bool[ranks], bool[a]: ranks whose job has stopped, and activities of theirs
    way_first, tie, detour, threshold
        adaptive, int64[c + 1], int64[c], bool[r], float: the routes among which each choice is, and the rest as of
        `least_loaded`
    medium, capacity, on_link
        int32[l], float64[l], int64[l]: of links, capacities as a flow that starts knows them, and flows under way;
        ``on_link`` is empty where nothing is adaptive
    """

    keys: NDArray[np.int64]
    values: Ints
    first: NDArray[np.int64]
    link: Ints
    coefficient: Floats
    latency: Floats
    weight: Floats
    of_activity: NDArray[np.int64]
    stale: NDArray[np.bool_]
    first_message: NDArray[np.int64]
    last_message: NDArray[np.int64]
    sent: Floats
    times: NDArray[np.int64]
    stopped: NDArray[np.bool_]
    ended: NDArray[np.bool_]
    way_first: NDArray[np.int64]
    tie: NDArray[np.int64]
    detour: NDArray[np.bool_]
    threshold: float
    medium: Ints
    capacity: Floats
    on_link: NDArray[np.int64]


@leaf
def home_of(key: int, mask: int) -> int:
    """Where a pair's place in the table is looked for first; what is multiplied stays below 2^63."""
    mixed = (key >> PAIR_BITS) * 0x5BD1E995 ^ (key & ((1 << PAIR_BITS) - 1)) * 0x9E3779B1
    return (mixed ^ (mixed >> 23)) & mask


@leaf
def route_of(t: RouteTable, source: int, destination: int) -> int:
    """The number of a pair's route, -1 if it is not known yet."""
    key = (source << PAIR_BITS) | destination
    mask = t.keys.size - 1
    place = home_of(key, mask)
    while t.keys[place] != key:
        if t.keys[place] < 0:
            return -1
        place = (place + 1) & mask
    return t.values[place]


@kernel
def routes_of(t: RouteTable, keys: NDArray[np.int64], values: Ints) -> None:
    """The routes of pairs, -1 where they are not known."""
    for i in range(keys.size):
        values[i] = route_of(t, keys[i] >> PAIR_BITS, keys[i] & ((1 << PAIR_BITS) - 1))


@kernel
def note_routes(t: RouteTable, keys: NDArray[np.int64], values: Ints) -> None:
    """Enter routes of pairs into a table that has room for them."""
    mask = t.keys.size - 1
    for i in range(keys.size):
        place = home_of(keys[i], mask)
        while t.keys[place] >= 0:
            place = (place + 1) & mask
        t.keys[place] = keys[i]
        t.values[place] = values[i]


@kernel
def run_flows(m: Words, s: Sharing, t: RouteTable, steps: int) -> int:
    """Run at most about so many events or tasks between two settlements; returns why it stopped."""
    done = m[at.EVENTS]
    while True:
        reason = run_on(m, steps)
        if reason != at.TICK_DONE:
            return reason
        reason = settle(m, s, t)
        if reason != SETTLED:
            return reason
        if m[at.EVENTS] - done > steps:
            return at.PAUSED


@leaf
def settle(m: Words, s: Sharing, t: RouteTable) -> int:
    """What flows do at the end of a tick: some end, or some join and rates are sought."""
    now = m[at.NOW]
    if s.count[QUEUED] > 0 and s.slots[s.queue[0]].due <= now:
        end_flows(m, s, t, now)
        return SETTLED
    if m[at.CHANGES_DUE] != 0:
        return at.NEED_CHANGES
    reason = start_flows(m, s, t, now)
    if reason != SETTLED:
        return reason
    repair(s, float(now), True, int(ALL_ABOVE * s.count[ACTIVE]))
    m[at.UNSETTLED] = 0
    if s.count[QUEUED] > 0:
        due = s.slots[s.queue[0]].due
        if due < float(at.LATEST - at.ROUNDING) and (m[at.WAKE] <= now or due < float(m[at.WAKE])):
            m[at.WAKE] = int(due)
            schedule(m, m[at.WAKE], at.ON_WAKE, at.NONE)
    return SETTLED


@leaf
def end_flows(m: Words, s: Sharing, t: RouteTable, now: int) -> None:
    """Deliver what has arrived by now; the clock's tick may have new events after it."""
    while s.count[QUEUED] > 0 and s.slots[s.queue[0]].due <= now:
        slot = s.queue[0]
        message = s.slots[slot].record
        t.sent[m[message + at.MSG_ROUTE]] += s.slots[slot].began
        t.times[m[message + at.MSG_ROUTE]] += 1
        count_flow(t, m[message + at.MSG_ROUTE], -1)
        finish(s, slot)
        leave_route(m, t, message)
        m[at.EVENTS] += 1
        if m[message + at.MSG_AT] < 0:
            end_activity(m, message)
        else:
            on_message(m, message)


@leaf
def join_route(m: Words, t: RouteTable, message: int, route: int) -> bool:
    """Whether a message's turn on a route has come; else it stands behind the others."""
    if t.first_message[route] == message:
        return True
    m[message + at.MSG_BEHIND] = 0
    last = t.last_message[route]
    t.last_message[route] = message
    if t.first_message[route] == 0:
        t.first_message[route] = message
        return True
    m[last + at.MSG_BEHIND] = message
    return False


@leaf
def leave_route(m: Words, t: RouteTable, message: int) -> None:
    """A message goes from its route: the next one's turn has come."""
    route = m[message + at.MSG_ROUTE]
    if route < 0 or t.first_message[route] != message:
        return
    behind = m[message + at.MSG_BEHIND]
    t.first_message[route] = behind
    if behind != 0:
        to_start(m, behind)


@leaf
def start_flows(m: Words, s: Sharing, t: RouteTable, now: int) -> int:
    """Let waiting messages join, or pay their latency first; those of jobs that have stopped are dropped."""
    while m[at.STARTING] != 0:
        message = m[at.STARTING]
        if has_stopped(m, t, message):
            leave_route(m, t, message)
            m[at.STARTING] = m[message + at.MSG_NEXT]
            release(m, message, at.MSG_WORDS)
            continue
        before = m[message + at.MSG_ROUTE]
        paid = before >= 0
        route = before
        if not paid or t.stale[route]:
            route = route_now(m, t, message)
            if route < 0:
                return at.NEED_ROUTES
        if paid and route != before:
            leave_route(m, t, message)
        latency = t.latency[before] if paid else t.latency[route]
        crossings = t.first[route + 1] - t.first[route]
        size = m[message + at.MSG_BYTES]
        if not has_room(s, crossings):
            return at.NEED_SLOTS
        m[at.STARTING] = m[message + at.MSG_NEXT]
        m[message + at.MSG_ROUTE] = route
        if crossings == 0 or (size == 0 and not is_blocked(s, t, route)):
            arrive_empty(m, message, now if paid else now + math.ceil(latency - SLACK_NS), paid)
            continue
        if route != before:
            if paid:
                count_flow(t, before, -1)
            count_flow(t, route, 1)
        if latency >= 1.0 and not paid:
            schedule(m, now + int(latency), at.ON_JOIN, message)
        elif join_route(m, t, message, route):
            enter(m, s, t, message, route, float(size), latency - math.floor(latency))
    return SETTLED


@leaf
def has_stopped(m: Words, t: RouteTable, message: int) -> bool:
    """Whether a message or collective is of a job that has stopped."""
    sender = m[message + at.MSG_AT]
    return t.ended[m[message + at.MSG_TO]] if sender < 0 else t.stopped[sender]


@leaf
def route_now(m: Words, t: RouteTable, message: int) -> int:
    """The route of a message or collective that starts now, -1 if it is not known yet."""
    if m[message + at.MSG_AT] < 0:
        return t.of_activity[m[message + at.MSG_TO]]
    way = -1 - m[message + at.MSG_ROUTE]
    if way > 0:
        found = route_of(t, m[message + at.MSG_AT], WAY | way)
        if found >= 0:
            return found
    found = route_of(t, m[message + at.MSG_AT], m[message + at.MSG_TO])
    if found < 0 or t.on_link.size == 0:
        return found
    return _least_loaded(
        found, t.way_first, t.first, t.link, t.detour, t.tie, t.threshold, t.medium, t.capacity, t.on_link
    )


@kernel
def other_route(m: Words, t: RouteTable, message: int) -> int:
    """`route_now` of a message under way, as if it were not."""
    count_flow(t, m[message + at.MSG_ROUTE], -1)
    route = route_now(m, t, message)
    count_flow(t, m[message + at.MSG_ROUTE], 1)
    return route


@leaf
def count_flow(t: RouteTable, route: int, by: int) -> None:
    """Add to the flows under way on a route's links, where that matters."""
    if t.on_link.size > 0:
        for i in range(t.first[route], t.first[route + 1]):
            t.on_link[t.medium[t.link[i]]] += by


@leaf
def is_blocked(s: Sharing, t: RouteTable, route: int) -> bool:
    """Whether a route crosses a link that is down."""
    for i in range(t.first[route], t.first[route + 1]):  # noqa: SIM110  (kernels have no generators)
        if s.links[t.link[i]].capacity == 0.0:
            return True
    return False


@leaf
def arrive_empty(m: Words, message: int, time: int, paid: bool) -> None:
    """A message without bytes, or to the own rank, takes its latency only."""
    if m[message + at.MSG_AT] >= 0:
        schedule(m, time, at.ON_ARRIVAL, message)
    elif paid:
        end_activity(m, message)
    else:
        schedule(m, time, at.ON_JOIN, message)


@leaf
def enter(m: Words, s: Sharing, t: RouteTable, message: int, route: int, size: float, extra_ns: float) -> None:
    """A flow of so many bytes joins the sharing on a route; ``extra_ns`` of its latency are left to pay."""
    first = t.first[route]
    crossings = t.first[route + 1] - first
    slot = take_slot(s, m[message + at.MSG_NUMBER], t.weight[route], size, crossings)
    s.slots[slot].record = message
    s.slots[slot].extra = extra_ns
    own = s.slots[slot].first
    for i in range(crossings):
        s.entries[own + i].link = t.link[first + i]
        s.entries[own + i].coefficient = t.coefficient[first + i]
    begin(s, slot, float(m[at.NOW]))


@kernel
def change_at(m: Words, time: int) -> None:
    """Have links change at a time."""
    schedule(m, time, at.ON_CHANGE, at.NONE)


@kernel
def take_other_way(m: Words, s: Sharing, t: RouteTable, slot: int, route: int) -> None:
    """Let a flow under way go on, with the bytes that it has left, over another route; its latency is paid."""
    extra_ns = s.slots[slot].extra
    message = s.slots[slot].record
    left = take_out(m, s, t, slot)
    m[message + at.MSG_ROUTE] = route
    if t.first_message[route] == 0:
        join_route(m, t, message, route)
    count_flow(t, route, 1)
    enter(m, s, t, message, route, left, extra_ns)


@kernel
def drop(m: Words, s: Sharing, t: RouteTable, slot: int) -> None:
    """End a flow of a job that has stopped: nobody gets what it has left."""
    message = s.slots[slot].record
    take_out(m, s, t, slot)
    release(m, message, at.MSG_WORDS)


@leaf
def take_out(m: Words, s: Sharing, t: RouteTable, slot: int) -> float:
    """Take a flow under way out of the sharing; returns the bytes that it has left."""
    message = s.slots[slot].record
    route = m[message + at.MSG_ROUTE]
    left = leave(s, slot, float(m[at.NOW]))
    t.sent[route] += s.slots[slot].began - left
    count_flow(t, route, -1)
    leave_route(m, t, message)
    return left


@inner
def end_activity(m: Words, message: int) -> None:
    """A collective has ended, for all of its ranks at once."""
    entry = m[message + at.MSG_ENTRY]
    stream = m[entry + at.ENTRY_STREAM]
    m[entry + at.ENTRY_STREAM] = 0
    m[entry + at.ENTRY_ARRIVED] = 0
    m[entry + at.ENTRY_LARGEST] = 0
    m[entry + at.ENTRY_UNEQUAL] = 0
    release(m, message, at.MSG_WORDS)
    while stream != 0:
        following = m[stream + at.STREAM_NEXT]
        advance(m, stream)
        stream = following
