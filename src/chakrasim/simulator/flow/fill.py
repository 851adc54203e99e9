"""Progressive filling: the levels of the chosen flows beside all others, which keep their rates.

The level of every chosen flow rises with that of all others until a link that it crosses is full; those that cross
that link freeze there. A link's own level, what is left of it over the weight of the chosen flows that are not frozen,
only rises while others freeze, so the heap's keys are brought up to date when they come up (graph-networks.md, 6).
"""

from __future__ import annotations

import math
from typing import Any, Final

from chakrasim.jit import inner, leaf
from chakrasim.simulator.flow.links import add_load, touch
from chakrasim.simulator.flow.queue import requeue
from chakrasim.simulator.flow.state import CHANGED, CHOSEN, FILLS, NOWHERE, QUEUED, STAMP, TOUCHED, Places, Sharing

HIGHER: Final = 1.0 + 1e-14
"""By what a link's level must have risen to take its place in the heap anew."""
TINY: Final = 1e-300
"""The same where the level was 0."""
FEW: Final = 64
"""Up to so many links, the one with the lowest level is looked for in a list."""
SLACK_NS: Final = 1e-6
"""What a completion may be past a whole nanosecond and still count as at it."""
LONGEST_NS: Final = 2.0**62
"""What lasts longer never ends."""


@leaf
def fill(s: Sharing) -> None:
    """Set ``level`` and ``bottleneck`` of the chosen flows; ``rate`` stays as it was."""
    s.count[FILLS] += 1
    reach(s)
    for i in range(s.count[TOUCHED]):
        s.ends[s.reached[i]] = s.links[s.reached[i]].unfrozen
    links = open_links(s)
    few = links <= FEW
    if not few:
        heap_up(s, links)
    left = s.count[CHOSEN]
    while left > 0:
        links = lowest(s, links) if few else next_full(s, links)
        left -= freeze_listed(s, s.order[0], s.links[s.order[0]].froze)


@leaf
def open_links(s: Sharing) -> int:
    """List the links that chosen flows cross; returns how many there are."""
    count = 0
    for i in range(s.count[TOUCHED]):
        link = s.reached[i]
        if s.links[link].unfrozen > 0:
            s.links[link].spare = max(s.links[link].spare, 0.0)
            s.links[link].froze = 0.0
            s.order[count] = link
            count += 1
    return count


@inner
def heap_up(s: Sharing, links: int) -> None:
    """Make a heap of the listed links."""
    for i in range(links):
        link = s.order[i]
        s.links[link].froze = s.links[link].spare / s.links[link].pull
    for i in range((links >> 1) - 1, -1, -1):
        sift(s.links, s.order, i, links)


@leaf
def lowest(s: Sharing, links: int) -> int:
    """As `next_full`, with a list instead of a heap: nothing to guess for the processor, faster while it is short."""
    kept = 0
    best = 0
    least = math.inf
    for i in range(links):
        link = s.order[i]
        if s.links[link].unfrozen == 0:
            continue
        level = s.links[link].spare / s.links[link].pull
        if level > s.links[link].froze * HIGHER + TINY:
            s.links[link].froze = level
        else:
            level = s.links[link].froze
        s.order[kept] = link
        if level < least or (level == least and link < s.order[best]):
            least = level
            best = kept
        kept += 1
    link = s.order[best]
    s.order[best] = s.order[0]
    s.order[0] = link
    return kept


@inner
def next_full(s: Sharing, links: int) -> int:
    """Bring the link that is full at the lowest level to the heap's head; returns how many links the heap has then."""
    while True:
        link = s.order[0]
        if s.links[link].unfrozen > 0:
            level = s.links[link].spare / s.links[link].pull
            if not level > s.links[link].froze * HIGHER + TINY:
                return links
            s.links[link].froze = level
        else:
            links -= 1
            s.order[0] = s.order[links]
        sift(s.links, s.order, 0, links)


@inner
def fill_all(s: Sharing, now: float, whole_ns: bool) -> None:
    """The same where all flows are chosen, who then go on at their new rates: fewer passes over much memory."""
    s.count[FILLS] += 1
    index(s)
    links = open_links(s)
    heap_up(s, links)
    left = s.count[CHOSEN]
    while left > 0:
        links = next_full(s, links)
        left -= freeze_indexed(s, s.order[0], s.links[s.order[0]].froze, now, whole_ns)
    s.count[QUEUED] = s.count[CHOSEN]
    for i in range(s.count[CHOSEN]):
        s.queue[i] = s.picked[i]
    requeue(s)


@inner
def index(s: Sharing) -> None:
    """Gather the flows that cross each link; all links are left to them."""
    end = 0
    for i in range(s.count[TOUCHED]):
        end = empty(s, s.reached[i], end)
    for i in range(s.count[CHOSEN]):
        flow = s.picked[i]
        s.frozen[flow] = 0
        weight = s.slots[flow].weight
        for entry in range(s.slots[flow].first, s.slots[flow].last):
            link = s.entries[entry].link
            if s.links[link].touched != s.count[STAMP]:
                touch(s, link)
                end = empty(s, link, end)
            s.links[link].pull += weight * s.entries[entry].coefficient
            s.crossers[s.ends[link]] = flow
            s.ends[link] += 1


@leaf
def empty(s: Sharing, link: int, end: int) -> int:
    """Clear a link, whose flows the index has from ``end`` on; returns where it goes on behind them."""
    s.links[link].spare = s.links[link].capacity
    s.links[link].load = 0.0
    s.links[link].rest = 0.0
    s.links[link].pull = 0.0
    s.links[link].unfrozen = s.links[link].crossing
    s.ends[link] = end
    return end + s.links[link].crossing


@leaf
def reach(s: Sharing) -> None:
    """What is left to the chosen flows on each link that they cross."""
    for i in range(s.count[TOUCHED]):
        reset(s, s.reached[i])
    for i in range(s.count[CHOSEN]):
        flow = s.picked[i]
        s.slots[flow].bottleneck = NOWHERE
        weight = s.slots[flow].weight
        rate = s.slots[flow].rate
        for entry in range(s.slots[flow].first, s.slots[flow].last):
            link = s.entries[entry].link
            if s.links[link].touched != s.count[STAMP]:
                touch(s, link)
                reset(s, link)
            s.links[link].spare += rate * s.entries[entry].coefficient
            s.links[link].pull += weight * s.entries[entry].coefficient
            s.links[link].unfrozen += 1


@leaf
def reset(s: Sharing, link: int) -> None:
    s.links[link].spare = (s.links[link].capacity - s.links[link].load) - s.links[link].rest
    s.links[link].pull = 0.0
    s.links[link].unfrozen = 0


@leaf
def freeze_listed(s: Sharing, link: int, level: float) -> int:
    """Give all chosen flows on a full link its level; returns how many that are."""
    count = 0
    entry = s.links[link].head
    while entry != NOWHERE and s.links[link].unfrozen > 0:
        flow = s.entries[entry].slot
        if s.slots[flow].bottleneck == NOWHERE:
            count += 1
            s.slots[flow].bottleneck = link
            s.slots[flow].level = level
            weight = s.slots[flow].weight
            for other in range(s.slots[flow].first, s.slots[flow].last):
                take(s, s.entries[other].link, level * weight, weight, s.entries[other].coefficient)
        entry = s.entries[entry].later
    return count


@inner
def freeze_indexed(s: Sharing, link: int, level: float, now: float, whole_ns: bool) -> int:
    """The same through the index, for good."""
    count = 0
    end = s.ends[link]
    for place in range(end - s.links[link].crossing, end):
        flow = s.crossers[place]
        if s.frozen[flow] == 0:
            count += 1
            s.frozen[flow] = 1
            s.slots[flow].bottleneck = link
            s.slots[flow].level = level
            weight = s.slots[flow].weight
            rate = level * weight
            for other in range(s.slots[flow].first, s.slots[flow].last):
                at = s.entries[other].link
                take(s, at, rate, weight, s.entries[other].coefficient)
                add_load(s, at, rate * s.entries[other].coefficient)
            if rate != s.slots[flow].rate:
                s.slots[flow].due = go_on(s, flow, rate, now, whole_ns)
    return count


@leaf
def take(s: Sharing, link: int, rate: float, weight: float, coefficient: float) -> None:
    s.links[link].spare -= rate * coefficient
    s.links[link].pull -= weight * coefficient
    s.links[link].unfrozen -= 1


@leaf
def go_on(s: Sharing, flow: int, rate: float, now: float, whole_ns: bool) -> float:
    """Give a flow another rate; returns when it ends at that."""
    s.count[CHANGED] += 1
    s.slots[flow].remaining -= s.slots[flow].rate * (now - s.slots[flow].since)
    s.slots[flow].since = now
    s.slots[flow].rate = rate
    lasts = max(s.slots[flow].remaining, 0.0) / rate if rate > 0.0 else math.inf
    return whole(now, lasts + s.slots[flow].extra) if whole_ns else now + lasts


@leaf
def whole(now: float, lasts: float) -> float:
    """The whole nanosecond at which something that lasts so long has ended; what is before the point stays exact."""
    past = math.floor(now)
    return past + math.ceil((now - past) + lasts - SLACK_NS) if lasts < LONGEST_NS else math.inf


@inner
def sift(links: Any, order: Places, place: int, end: int) -> None:
    """Restore the heap of links below a place; its keys are ``froze``, ties go to the lower link."""
    if place >= end:
        return
    link = order[place]
    key = links[link].froze
    while True:
        below = 2 * place + 1
        if below >= end:
            break
        other = order[below]
        if below + 1 < end:
            right = order[below + 1]
            if links[right].froze < links[other].froze or (links[right].froze == links[other].froze and right < other):
                below += 1
                other = right
        if key < links[other].froze or (key == links[other].froze and link < other):
            break
        order[place] = other
        place = below
    order[place] = link
