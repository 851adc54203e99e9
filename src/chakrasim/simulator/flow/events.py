"""Single events of the sharing, for loops in Python."""

from __future__ import annotations

import math

from chakrasim.jit import kernel
from chakrasim.simulator.flow.links import begin, finish, has_room, leave, take_slot
from chakrasim.simulator.flow.repair import repair
from chakrasim.simulator.flow.state import QUEUED, Floats, Ints, Sharing


@kernel
def next_end(s: Sharing) -> float:
    return s.slots[s.queue[0]].due if s.count[QUEUED] > 0 else math.inf


@kernel
def end_due(s: Sharing, limit: float, ended: Ints) -> int:
    """Take out flows that are due, as many as there is room for; returns how many."""
    count = 0
    while count < ended.size and s.count[QUEUED] > 0 and s.slots[s.queue[0]].due <= limit:
        slot = s.queue[0]
        ended[count] = s.slots[slot].flow
        finish(s, slot)
        count += 1
    return count


@kernel
def can_enter(s: Sharing, crossings: int) -> bool:
    return bool(has_room(s, crossings))


@kernel
def enter(s: Sharing, flow: int, weight: float, size: float, link: Ints, part: Floats, now: float) -> None:
    """A flow of so many bytes joins the sharing."""
    slot = take_slot(s, flow, weight, size, link.size)
    own = s.slots[slot].first
    for i in range(link.size):
        s.entries[own + i].link = link[i]
        s.entries[own + i].coefficient = part[i]
    begin(s, slot, now)


@kernel
def take_out(s: Sharing, slot: int, now: float) -> float:
    return float(leave(s, slot, now))


@kernel
def settle(s: Sharing, now: float, whole_ns: bool, all_above: int) -> None:
    repair(s, now, whole_ns, all_above)
