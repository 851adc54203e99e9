"""The queue of completions: a heap of flows by (due, flow), with the place of each flow in it."""

from __future__ import annotations

from typing import Any

from chakrasim.jit import inner, leaf
from chakrasim.simulator.flow.state import NOWHERE, QUEUED, Places, Sharing


@leaf
def before(slots: Any, a: int, b: int) -> bool:
    return slots[a].due < slots[b].due or (slots[a].due == slots[b].due and slots[a].flow < slots[b].flow)


@inner
def rise(slots: Any, queue: Places, place: int, flow: int) -> None:
    """Put a flow where its due time wants it, at this place or above."""
    while place > 0:
        above = (place - 1) >> 1
        other = queue[above]
        if not before(slots, flow, other):
            break
        queue[place] = other
        slots[other].place = place
        place = above
    queue[place] = flow
    slots[flow].place = place


@inner
def sink(slots: Any, queue: Places, end: int, place: int, flow: int) -> None:
    """Put a flow where its due time wants it, at this place or below."""
    while True:
        below = 2 * place + 1
        if below >= end:
            break
        other = queue[below]
        if below + 1 < end and before(slots, queue[below + 1], other):
            below += 1
            other = queue[below]
        if not before(slots, other, flow):
            break
        queue[place] = other
        slots[other].place = place
        place = below
    queue[place] = flow
    slots[flow].place = place


@leaf
def due_at(s: Sharing, flow: int, time: float) -> None:
    """Set a flow's due time, and its place in the queue."""
    place = s.slots[flow].place
    sooner = time < s.slots[flow].due
    s.slots[flow].due = time
    if place == NOWHERE:
        place = s.count[QUEUED]
        s.count[QUEUED] += 1
        sooner = True
    if sooner:
        rise(s.slots, s.queue, place, flow)
    else:
        sink(s.slots, s.queue, s.count[QUEUED], place, flow)


@leaf
def leave_queue(s: Sharing, flow: int) -> None:
    place = s.slots[flow].place
    if place == NOWHERE:
        return
    s.slots[flow].place = NOWHERE
    s.count[QUEUED] -= 1
    last = s.queue[s.count[QUEUED]]
    if last == flow:
        return
    if before(s.slots, last, flow):
        rise(s.slots, s.queue, place, last)
    else:
        sink(s.slots, s.queue, s.count[QUEUED], place, last)


@inner
def requeue(s: Sharing) -> None:
    """Restore the order of the whole queue after due times have changed without `due_at`."""
    for place in range(s.count[QUEUED]):
        s.slots[s.queue[place]].place = place
    for place in range((s.count[QUEUED] >> 1) - 1, -1, -1):
        sink(s.slots, s.queue, s.count[QUEUED], place, s.queue[place])


@inner
def sweep(s: Sharing, limit: float) -> int:
    """Take all flows that are due by ``limit`` out of the queue, into `Sharing.picked`; returns how many."""
    kept = 0
    due = 0
    for place in range(s.count[QUEUED]):
        slot = s.queue[place]
        if s.slots[slot].due <= limit:
            s.slots[slot].place = NOWHERE
            s.picked[due] = slot
            due += 1
        else:
            s.queue[kept] = slot
            kept += 1
    s.count[QUEUED] = kept
    requeue(s)
    return due
