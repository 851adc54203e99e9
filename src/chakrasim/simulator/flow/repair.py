"""Rates after an event, by mending those that it touches.

Rates are max-min fair if every flow has a *bottleneck*: a link that is full and on which no flow has a higher level.
Such rates exist and are the only ones, so it does not matter how they are found. An event breaks the proof of a few
flows; their rates are sought beside all others, and whoever's proof that breaks joins them, until all proofs hold.
"""

from __future__ import annotations

import math
from typing import Any, Final

from chakrasim.jit import inner, leaf
from chakrasim.simulator.flow.fill import fill, fill_all, go_on
from chakrasim.simulator.flow.links import add_load, choose
from chakrasim.simulator.flow.queue import due_at
from chakrasim.simulator.flow.state import (
    ACTIVE,
    CHOSEN,
    NOWHERE,
    SOLVES,
    STAMP,
    TOUCHED,
    Sharing,
)

FULL: Final = 1e-11
"""A link is full when no more than this share of it is free."""
HIGHER: Final = 1.0 + 1e-11
"""By what one level must exceed another to count as higher."""
MANY: Final = 4
"""Room is made for new flows only where they are fewer than one in so many: else most rates change anyway."""


@leaf
def repair(s: Sharing, now: float, whole_ns: bool, all_above: int) -> None:
    """Set rates and due times of the flows under way after begins, finishes and changes of capacity at ``now``.

    When more than ``all_above`` flows are chosen, all of them are solved at once.
    """
    s.count[SOLVES] += 1
    new = s.count[CHOSEN]
    if new < s.count[ACTIVE]:
        unproved(s, False)
    if new * MANY < s.count[ACTIVE]:
        for i in range(new):
            make_room(s, s.picked[i])
    while 0 < s.count[CHOSEN] <= all_above and s.count[CHOSEN] < s.count[ACTIVE]:
        fill(s)
        if not unproved(s, True):
            settle(s, now, whole_ns)
            s.count[CHOSEN] = 0
    if s.count[CHOSEN] > 0:
        choose_all(s)
        fill_all(s, now, whole_ns)
    s.count[STAMP] += 1
    s.count[CHOSEN] = 0
    s.count[TOUCHED] = 0


@leaf
def unproved(s: Sharing, filled: bool) -> bool:
    """Choose flows on touched links whose bottleneck is none any more, or that exceed one who froze there."""
    known = s.count[CHOSEN]
    stamp = s.count[STAMP]
    for i in range(s.count[TOUCHED]):
        link = s.reached[i]
        if filled and s.ends[link] == s.links[link].crossing:
            continue  # all that cross it are chosen
        capacity = s.links[link].capacity
        spare = s.links[link].spare if filled else (capacity - s.links[link].load) - s.links[link].rest
        full = spare <= FULL * capacity
        over = spare < -FULL * capacity
        if not filled and full and not over:
            continue
        highest = 0.0
        own = math.inf
        entry = s.links[link].head
        while entry != NOWHERE and full:
            flow = s.entries[entry].slot
            highest = max(highest, s.slots[flow].level)
            if s.slots[flow].chosen == stamp and s.slots[flow].bottleneck == link:
                own = s.slots[flow].level
            entry = s.entries[entry].later
        entry = s.links[link].head
        while entry != NOWHERE:
            flow = s.entries[entry].slot
            if s.slots[flow].chosen != stamp:
                level = s.slots[flow].level
                held = s.slots[flow].bottleneck == link and (not full or level * HIGHER < highest)
                if held or over or level > own * HIGHER:
                    choose(s, flow)
            entry = s.entries[entry].later
    return s.count[CHOSEN] > known


@leaf
def make_room(s: Sharing, new: int) -> None:
    """Choose whom a new flow will most likely push down: those above the level that its tightest link allows."""
    lowest = math.inf
    tightest = NOWHERE
    for entry in range(s.slots[new].first, s.slots[new].last):
        link = s.entries[entry].link
        level = level_if_shared(
            s.slots, s.links, s.entries, link, s.slots[new].weight * s.entries[entry].coefficient, lowest
        )
        if level < lowest:
            lowest = level
            tightest = link
    if tightest == NOWHERE:
        return
    entry = s.links[tightest].head
    while entry != NOWHERE:
        flow = s.entries[entry].slot
        if s.slots[flow].level > lowest:
            choose(s, flow)
        entry = s.entries[entry].later


@inner
def level_if_shared(slots: Any, links: Any, entries: Any, link: int, pull: float, enough: float) -> float:
    """The level at which a link is full if all that take more than it give way; not exact above ``enough``."""
    spare = (links[link].capacity - links[link].load) - links[link].rest
    level = spare / pull
    if level >= enough:
        return level
    more = True
    while more:
        more = False
        left = spare
        weight = pull
        entry = links[link].head
        while entry != NOWHERE:
            flow = entries[entry].slot
            if slots[flow].level > level:
                part = slots[flow].weight * entries[entry].coefficient
                left += slots[flow].level * part
                weight += part
            entry = entries[entry].later
        better = left / weight
        if better > level * HIGHER:
            level = better
            more = level < enough
    return level


@leaf
def settle(s: Sharing, now: float, whole_ns: bool) -> None:
    """Let the chosen flows go on at their new rates."""
    for i in range(s.count[CHOSEN]):
        flow = s.picked[i]
        old = s.slots[flow].rate
        new = s.slots[flow].level * s.slots[flow].weight
        if new == old:
            continue
        for entry in range(s.slots[flow].first, s.slots[flow].last):
            coefficient = s.entries[entry].coefficient
            link = s.entries[entry].link
            add_load(s, link, -old * coefficient)
            add_load(s, link, new * coefficient)
        due_at(s, flow, go_on(s, flow, new, now, whole_ns))


@inner
def choose_all(s: Sharing) -> None:
    """Choose all flows under way, in the order in which they lie in memory where that is not mostly holes."""
    if s.count[ACTIVE] * MANY > s.slots.size:
        s.count[CHOSEN] = 0
        for slot in range(s.slots.size):
            place = s.slots[slot].at
            if place < s.count[ACTIVE] and s.active[place] == slot:
                s.picked[s.count[CHOSEN]] = slot
                s.count[CHOSEN] += 1
    else:
        for i in range(s.count[ACTIVE]):
            s.picked[i] = s.active[i]
        s.count[CHOSEN] = s.count[ACTIVE]
