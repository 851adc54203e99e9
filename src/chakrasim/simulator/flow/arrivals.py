"""Flows that will start once what they follow has ended: a heap by (start, flow)."""

from __future__ import annotations

from chakrasim.jit import inner
from chakrasim.simulator.flow.state import Floats, Places


@inner
def push(heap: Places, key: Floats, count: int, flow: int) -> int:
    """Add a flow; returns how many the heap holds then."""
    place = count
    while place > 0:
        above = (place - 1) >> 1
        other = heap[above]
        if key[other] < key[flow] or (key[other] == key[flow] and other < flow):
            break
        heap[place] = other
        place = above
    heap[place] = flow
    return count + 1


@inner
def pop(heap: Places, key: Floats, count: int) -> int:
    """Take the first flow out; returns how many the heap holds then."""
    count -= 1
    flow = heap[count]
    place = 0
    while True:
        below = 2 * place + 1
        if below >= count:
            break
        other = heap[below]
        if below + 1 < count:
            right = heap[below + 1]
            if key[right] < key[other] or (key[right] == key[other] and right < other):
                below += 1
                other = right
        if key[flow] < key[other] or (key[flow] == key[other] and flow < other):
            break
        heap[place] = other
        place = below
    heap[place] = flow
    return count
