"""Flows that come to links and leave them."""

from __future__ import annotations

import numpy as np

from chakrasim.jit import inner, kernel, leaf
from chakrasim.simulator.flow.queue import leave_queue
from chakrasim.simulator.flow.state import ACTIVE, CHOSEN, ENTRIES, NOWHERE, STAMP, TOUCHED, Floats, Ints, Sharing


@leaf
def add_load(s: Sharing, link: int, amount: float) -> None:
    """Add to a link's load without losing what rounding takes: loads never drift (Knuth's two-sum)."""
    old = s.links[link].load
    new = old + amount
    part = new - old
    s.links[link].rest += (old - (new - part)) + (amount - part)
    s.links[link].load = new


@leaf
def touch(s: Sharing, link: int) -> None:
    """Note that a link's flows or capacity have changed at this event."""
    stamp = s.count[STAMP]
    if s.links[link].touched != stamp:
        s.links[link].touched = stamp
        s.reached[s.count[TOUCHED]] = link
        s.count[TOUCHED] += 1


@leaf
def choose(s: Sharing, flow: int) -> None:
    """Have a flow's rate sought at this event."""
    stamp = s.count[STAMP]
    if s.slots[flow].chosen != stamp:
        s.slots[flow].chosen = stamp
        s.picked[s.count[CHOSEN]] = flow
        s.count[CHOSEN] += 1


@leaf
def has_room(s: Sharing, crossings: int) -> bool:
    """Whether `take_slot` can be called; if not, the kernel returns and Python goes on with `grown` tables."""
    if s.count[ACTIVE] == s.slots.size or crossings >= s.free_blocks.size:
        return False
    return s.free_blocks[crossings] != NOWHERE or s.count[ENTRIES] + crossings <= s.entries.size


@leaf
def take_slot(s: Sharing, flow: int, weight: float, size: float, crossings: int) -> int:
    """A slot with so many entries, whose ``link`` and ``coefficient`` the caller sets from ``first`` on before `begin`.

    ``flow`` is the number by which completions of one instant are ordered; ``size`` is in bytes, above 0.
    """
    slot = s.active[s.count[ACTIVE]]
    first = s.free_blocks[crossings]
    if first != NOWHERE and crossings > 0:
        s.free_blocks[crossings] = s.entries[first].later
    else:
        first = s.count[ENTRIES]
        s.count[ENTRIES] += crossings
    s.slots[slot].first = first
    s.slots[slot].last = first + crossings
    s.slots[slot].flow = flow
    s.slots[slot].weight = weight
    s.slots[slot].remaining = size
    s.slots[slot].began = size
    s.slots[slot].extra = 0.0
    return slot


@leaf
def begin(s: Sharing, slot: int, now: float) -> None:
    """A flow joins the sharing; it has no rate yet."""
    s.slots[slot].since = now
    s.slots[slot].rate = 0.0
    s.slots[slot].level = 0.0
    s.slots[slot].due = np.inf
    s.slots[slot].place = NOWHERE
    s.slots[slot].at = s.count[ACTIVE]
    s.count[ACTIVE] += 1
    for entry in range(s.slots[slot].first, s.slots[slot].last):
        link = s.entries[entry].link
        head = s.links[link].head
        s.entries[entry].slot = slot
        s.entries[entry].later = head
        s.entries[entry].earlier = NOWHERE
        if head != NOWHERE:
            s.entries[head].earlier = entry
        s.links[link].head = entry
        s.links[link].crossing += 1
    choose(s, slot)


@leaf
def finish(s: Sharing, flow: int) -> None:
    """A flow leaves the sharing."""
    leave_queue(s, flow)
    rate = s.slots[flow].rate
    s.count[ACTIVE] -= 1
    last = s.active[s.count[ACTIVE]]
    s.active[s.slots[flow].at] = last
    s.slots[last].at = s.slots[flow].at
    s.active[s.count[ACTIVE]] = flow
    for entry in range(s.slots[flow].first, s.slots[flow].last):
        link = s.entries[entry].link
        later = s.entries[entry].later
        earlier = s.entries[entry].earlier
        if earlier == NOWHERE:
            s.links[link].head = later
        else:
            s.entries[earlier].later = later
        if later != NOWHERE:
            s.entries[later].earlier = earlier
        s.links[link].crossing -= 1
        if s.links[link].crossing == 0:
            s.links[link].load = 0.0
            s.links[link].rest = 0.0
        else:
            add_load(s, link, -rate * s.entries[entry].coefficient)
        touch(s, link)
    first = s.slots[flow].first
    crossings = s.slots[flow].last - first
    if crossings > 0:
        s.entries[first].later = s.free_blocks[crossings]
        s.free_blocks[crossings] = first


@inner
def leave(s: Sharing, slot: int, now: float) -> float:
    """Take a flow out before its end; returns the bytes that it has left."""
    left = max(s.slots[slot].remaining - s.slots[slot].rate * (now - s.slots[slot].since), 0.0)
    finish(s, slot)
    return left


@kernel
def change_capacity(s: Sharing, links: Ints, capacity: Floats) -> None:
    """Give links other capacities (bytes per ns); rates are to be sought afterwards."""
    for i in range(links.size):
        s.links[links[i]].capacity = capacity[i]
        touch(s, links[i])
