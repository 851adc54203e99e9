"""The loop over events of flows alone: completions first, then capacities, then arrivals, then rates once."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from chakrasim.jit import inner, kernel, leaf
from chakrasim.simulator.flow.arrivals import pop, push
from chakrasim.simulator.flow.fill import whole
from chakrasim.simulator.flow.links import begin, finish, has_room, take_slot, touch
from chakrasim.simulator.flow.queue import sweep
from chakrasim.simulator.flow.repair import repair
from chakrasim.simulator.flow.state import ACTIVE, NOWHERE, QUEUED, Floats, Longs, Places, Sharing

# What `run` returns.
DONE: Final = 0
NEEDS_ROOM: Final = 1
"""The tables must grow; `Course.at[WANTED]` says for how many crossings. Then `run` goes on where it was."""
PAUSED: Final = 2
"""So many instants are through; `run` goes on where it was."""

# Words of `Course.at`.
STARTED: Final = 0
"""Of `Course.starts`."""
WAITING: Final = 1
"""In the heap of flows that follow another, which has ended."""
APPLIED: Final = 2
"""Changes of capacity."""
WANTED: Final = 3
"""Crossings of the flow for which there is no room."""
ENDED: Final = 4
"""Flows that have ended."""

SAME: Final = 1e-14
"""In exact arithmetic, ends that differ by this share of the time are one event: rounding parts what is equal."""

FEW: Final = 16
MANY: Final = 32
"""Past so many ends at one instant, and this part of the flows under way, the rest are swept out of the queue."""


class Course(NamedTuple):
    """What a run goes through, and where it is.

    Attributes
    ----------
    route_first, route_link, route_coefficient
        [f + 1], [e], [e]: the links that each flow crosses
    weight, size_bytes, delay_ns
        [f]; the delay is the time before bytes move
    start_ns
        [f]; of flows that follow another, counted from its end, later the time itself (written)
    starts
        flows that follow none, by the time at which their bytes move
    head_after, next_after
        [f] lists of the flows that follow each
    waiting
        [f] heap of flows whose time is known
    change_ns, change_link, change_capacity
        by time
    finish_ns
        [f] what is found; NaN before
    at, now
        [5] where in the lists the run is; [1] its time, ns
    """

    route_first: Longs
    route_link: Places
    route_coefficient: Floats
    weight: Floats
    size_bytes: Floats
    delay_ns: Floats
    start_ns: Floats
    starts: Places
    head_after: Places
    next_after: Places
    waiting: Places
    change_ns: Floats
    change_link: Places
    change_capacity: Floats
    finish_ns: Floats
    at: Longs
    now: Floats


@inner
def end(c: Course, flow: int, time: float, next_ns: float) -> None:
    """Note a flow's end, and let those that follow it come at ``next_ns`` and their own start."""
    c.finish_ns[flow] = time
    c.at[ENDED] += 1
    after = c.head_after[flow]
    while after != NOWHERE:
        c.start_ns[after] += next_ns + c.delay_ns[after]
        c.at[WAITING] = push(c.waiting, c.start_ns, c.at[WAITING], after)
        after = c.next_after[after]


@leaf
def is_empty(c: Course, flow: int) -> bool:
    """Whether a flow has arrived once its delay is over: it has no bytes, or no way to go."""
    return c.route_first[flow + 1] == c.route_first[flow] or c.size_bytes[flow] <= 0.0


@leaf
def join(s: Sharing, c: Course, flow: int, now: float) -> bool:
    """Let a flow's bytes move; False where there is no room for it."""
    if is_empty(c, flow):
        return True
    first = c.route_first[flow]
    crossings = c.route_first[flow + 1] - first
    if not has_room(s, crossings):
        c.at[WANTED] = crossings
        return False
    slot = take_slot(s, flow, c.weight[flow], c.size_bytes[flow], crossings)
    own = s.slots[slot].first
    for i in range(crossings):
        s.entries[own + i].link = c.route_link[first + i]
        s.entries[own + i].coefficient = c.route_coefficient[first + i]
    begin(s, slot, now)
    return True


@inner
def end_if_empty(c: Course, flow: int, now: float, whole_ns: bool) -> None:
    if is_empty(c, flow):
        time = whole(c.start_ns[flow], 0.0) if whole_ns else c.start_ns[flow]
        end(c, flow, time, max(time, now))


@leaf
def arrive(s: Sharing, c: Course, now: float, whole_ns: bool) -> bool:
    """Let all flows come whose time it is; False where there is no room for the next."""
    while c.at[STARTED] < c.starts.size and c.start_ns[c.starts[c.at[STARTED]]] <= now:
        flow = c.starts[c.at[STARTED]]
        if not join(s, c, flow, now):
            return False
        c.at[STARTED] += 1
        end_if_empty(c, flow, now, whole_ns)
    while c.at[WAITING] > 0 and c.start_ns[c.waiting[0]] <= now:
        flow = c.waiting[0]
        if not join(s, c, flow, now):
            return False
        c.at[WAITING] = pop(c.waiting, c.start_ns, c.at[WAITING])
        end_if_empty(c, flow, now, whole_ns)
    return True


@leaf
def complete(s: Sharing, c: Course, now: float, limit: float, merged: bool) -> None:
    """End all flows that are due by ``limit``: the first from the queue's head, very many in one sweep."""
    alone = FEW + s.count[QUEUED] // MANY
    while s.count[QUEUED] > 0 and s.slots[s.queue[0]].due <= limit:
        slots = 1
        s.picked[0] = s.queue[0]
        if alone == 0:
            slots = sweep(s, limit)
        else:
            alone -= 1
        for i in range(slots):
            slot = s.picked[i]
            due = s.slots[slot].due
            finish(s, slot)
            end(c, s.slots[slot].flow, due, due if merged else now)


@leaf
def next_end(s: Sharing) -> float:
    """When the next flow ends; infinity if none does."""
    return s.slots[s.queue[0]].due if s.count[QUEUED] > 0 else math.inf


@leaf
def next_other(c: Course) -> float:
    """When the next flow comes or the next capacity changes; infinity if none does."""
    time = math.inf
    if c.at[STARTED] < c.starts.size:
        time = c.start_ns[c.starts[c.at[STARTED]]]
    if c.at[WAITING] > 0:
        time = min(time, c.start_ns[c.waiting[0]])
    if c.at[APPLIED] < c.change_ns.size:
        time = min(time, c.change_ns[c.at[APPLIED]])
    return time


@kernel
def run(s: Sharing, c: Course, whole_ns: bool, merge: float, all_above: float, instants: int) -> int:
    """Go on until nothing more can happen (DONE), or there is a reason to return before.

    Parameters
    ----------
    whole_ns
        completions are whole nanoseconds (`repair`)
    merge
        flows that would end within this share of the time are taken out together; 0 for none
    all_above
        the share of the flows under way above which the rates of all are sought
    instants
        how many to go through before PAUSED
    """
    for _ in range(instants):
        ends, other = next_end(s), next_other(c)
        now = max(min(ends, other), c.now[0])
        if now == math.inf:
            return DONE
        limit = now if whole_ns else now * (1.0 + SAME)
        if merge > 0.0 and ends < other:
            # Half of them leave too late and half too early: what the others get is right on average.
            limit = min(now * (1.0 + merge), other)
            now = (now + limit) / 2.0
        c.now[0] = now
        complete(s, c, now, limit, merge > 0.0)
        while c.at[APPLIED] < c.change_ns.size and c.change_ns[c.at[APPLIED]] <= now:
            link = c.change_link[c.at[APPLIED]]
            s.links[link].capacity = c.change_capacity[c.at[APPLIED]]
            touch(s, link)
            c.at[APPLIED] += 1
        if not arrive(s, c, now, whole_ns):
            return NEEDS_ROOM
        repair(s, now, whole_ns, int(all_above * s.count[ACTIVE]))
    return PAUSED
