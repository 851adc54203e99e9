"""The queue of events: a ring of lists, one for each ns, and a heap of what lies beyond it.

Items of one ns come out in the order in which they went in. What waited in the heap was scheduled before anything that
went straight into the same list, since it is moved as soon as its time lies within the ring: so the order is exact.
"""

from __future__ import annotations

from chakrasim.jit import fetcher, inner, leaf
from chakrasim.simulator.kernels.clock import lowest_bit
from chakrasim.simulator.packet.state import (
    ALIVE,
    FREE,
    LATER_COUNT,
    LATER_ORDER,
    MASK,
    NOTHING,
    NOW,
    SPARE,
    Net,
    whole,
)

NEVER = (1 << 63) - 1
fetch = fetcher()


@leaf
def queue_at(n: Net, port: int, priority: int) -> int:
    """Where the queue of a priority stands: those of one priority are near one another, and queue 0 is its port's."""
    return priority * n.ports.size + port


@leaf
def take(n: Net) -> int:
    """An item that is free; its content is what it was."""
    item = n.g[FREE]
    n.g[FREE] = n.items[item].next
    n.g[SPARE] -= 1
    return item


@leaf
def free(n: Net, item: int) -> None:
    n.items[item].kind = NOTHING
    n.items[item].next = n.g[FREE]
    n.g[FREE] = item
    n.g[SPARE] += 1


@leaf
def append(n: Net, item: int, time: int) -> None:
    n.items[item].next = 0
    place = time & n.g[MASK]
    bucket = n.buckets[place]
    if bucket.head == 0:
        bucket.head = item
        n.filled[place >> 5] |= 1 << (place & 31)
    else:
        n.items[bucket.tail].next = item
    bucket.tail = item


@leaf
def push(n: Net, item: int, time: int) -> None:
    """Schedule an item, now or later."""
    n.g[ALIVE] += 1
    if time - n.g[NOW] <= n.g[MASK]:
        append(n, item, time)
    else:
        push_later(n, item, time)


@leaf
def before(n: Net, a: int, b: int) -> bool:
    first, second = n.later[a], n.later[b]
    return first.time < second.time or (first.time == second.time and first.order < second.order)


@leaf
def swap(n: Net, a: int, b: int) -> None:
    first, second = n.later[a], n.later[b]
    time, order, item = first.time, first.order, first.entry
    first.time, first.order, first.entry = second.time, second.order, second.entry
    second.time, second.order, second.entry = time, order, item


@inner
def push_later(n: Net, item: int, time: int) -> None:
    place = n.g[LATER_COUNT]
    entry = n.later[place]
    entry.time, entry.order, entry.entry = time, n.g[LATER_ORDER], item
    n.g[LATER_COUNT] += 1
    n.g[LATER_ORDER] += 1
    while place > 0 and before(n, place, (place - 1) >> 1):
        swap(n, place, (place - 1) >> 1)
        place = (place - 1) >> 1


@inner
def pop_later(n: Net) -> None:
    """Take the first entry of the heap away."""
    count = n.g[LATER_COUNT] - 1
    n.g[LATER_COUNT] = count
    swap(n, 0, count)
    place = 0
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and before(n, child + 1, child):
            child += 1
        if not before(n, child, place):
            break
        swap(n, place, child)
        place = child


@inner
def next_filled(n: Net, place: int) -> int:
    """The first bucket behind one that has items, around the ring; -1 if none has."""
    word = place >> 5
    skip = (place & 31) + 1
    found = n.filled[word] >> skip << skip
    for _ in range(n.filled.size + 1):
        if found != 0:
            return (word << 5) + lowest_bit(found)
        word = (word + 1) & (n.filled.size - 1)
        found = n.filled[word]
    return -1


@inner
def advance(n: Net, until: int) -> bool:
    """Move the clock to the next ns that has items, if that is not after `until`; False if it is, or if none has."""
    now = n.g[NOW]
    mask = n.g[MASK]
    place = now & mask
    n.filled[place >> 5] &= ~(1 << (place & 31))
    found = next_filled(n, place)
    if found >= 0:
        time = now + ((found - place) & mask)
    elif n.g[LATER_COUNT] > 0:
        time = n.later[0].time
    else:
        return False
    if time > until:
        return False
    n.g[NOW] = time
    while n.g[LATER_COUNT] > 0 and n.later[0].time - time <= mask:
        append(n, whole(n.later[0].entry), n.later[0].time)
        pop_later(n)
    return True


@leaf
def pop(n: Net, until: int) -> int:
    """The next item, and the clock set to its time; 0 if there is none up to `until`.

    The one behind it is fetched meanwhile: those of one ns lie anywhere.
    """
    bucket = n.buckets[n.g[NOW] & n.g[MASK]]
    if bucket.head == 0:
        if not advance(n, until):
            return 0
        bucket = n.buckets[n.g[NOW] & n.g[MASK]]
    item = whole(bucket.head)
    following = n.items[item].next
    bucket.head = following
    fetch(n.items, whole(following))
    return item
