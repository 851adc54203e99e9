"""The event queue: an ordered set of ticks, each a first-in-first-out list, and a rank's list of work per tick.

The queue is a timing wheel whose windows are aligned to powers of two: the ticks of the current window have a list
each, later events wait in coarser lists and move down when the clock enters their window. Lists keep the order of
insertion all the way, so events of one tick run in exactly the order in which they were scheduled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakrasim.jit import inner, leaf
from chakrasim.simulator.kernels import layout as at

Words = NDArray[np.int64]

BIT_INDEX = np.zeros(32, np.int64)
for _bit in range(32):
    BIT_INDEX[((1 << _bit) * 0x077CB531 & 0xFFFFFFFF) >> 27] = _bit

EXACT_WORDS = at.EXACT // 32
LEVEL_WORDS = at.LEVEL // 32


@leaf
def allocate(m: Words, words: int) -> int:
    """A record of so many words, its content undefined."""
    record = m[at.FREE_LISTS + words]
    if record != 0:
        m[at.FREE_LISTS + words] = m[record]
        return record
    record = m[at.TOP]
    m[at.TOP] = record + words
    return record


@leaf
def release(m: Words, record: int, words: int) -> None:
    m[record] = m[at.FREE_LISTS + words]
    m[at.FREE_LISTS + words] = record


@inner
def mix(lineage: int, time: int) -> int:
    """The lineage of what an event of this lineage schedules at this time: a hash in two 31-bit lanes."""
    low = lineage & 0x7FFFFFFF
    high = lineage >> 31
    part = (time ^ (time >> 31)) & 0x7FFFFFFF
    low = ((low ^ part) * 1103515245 + 12345 + (low >> 15)) & 0x7FFFFFFF
    high = ((high ^ low) * 1664525 + part * 48271 + 1013904223 + (high >> 13)) & 0x7FFFFFFF
    return (high << 31) | low


@leaf
def schedule(m: Words, time: int, kind: int, data: int) -> None:
    """Append an event to the list of its tick (now or later)."""
    event = new_event(m, time, m[at.SCHEDULED], kind, data)
    m[at.SCHEDULED] += 1
    if m[at.FOLDED] != 0:
        m[event + at.EVENT_LINEAGE] = mix(m[at.LINEAGE], m[at.NOW])
        m[event + at.EVENT_ROOT] = m[at.ROOT]
    elif m[at.WHOLES] != 0:
        m[event + at.EVENT_SINCE] = m[at.NOW]
    place(m, event, time)
    if m[at.NETWORK] == at.PACKET:
        post(m, time, at.NONE)


@inner
def post(m: Words, time: int, message: int) -> None:
    """Note for the network of packets, whose queue orders all, that an event was scheduled or a message sent."""
    entry = allocate(m, at.POST_WORDS)
    m[entry + at.POST_NEXT] = 0
    m[entry + at.POST_TIME] = time
    m[entry + at.POST_MESSAGE] = message
    if m[at.OUTBOX] == 0:
        m[at.OUTBOX] = entry
    else:
        m[m[at.OUTBOX_TAIL] + at.POST_NEXT] = entry
    m[at.OUTBOX_TAIL] = entry


@leaf
def new_event(m: Words, time: int, order: int, kind: int, data: int) -> int:
    event = allocate(m, m[at.EVENT_WORDS])
    m[event + at.EVENT_TIME] = time
    m[event + at.EVENT_ORDER] = order << at.KIND_BITS | kind
    m[event + at.EVENT_DATA] = data
    return event


@leaf
def place(m: Words, event: int, time: int) -> None:
    """Append an event to its list."""
    ends = list_of(m, time)
    m[event + at.EVENT_NEXT] = 0
    if m[ends] == 0:
        m[ends] = event
    else:
        m[m[ends + 1] + at.EVENT_NEXT] = event
    m[ends + 1] = event


@inner
def place_by_order(m: Words, event: int, time: int) -> None:
    """Insert an event noted earlier: before the first of its list that was scheduled later."""
    ends = list_of(m, time)
    before = 0
    after = m[ends]
    while after != 0 and m[after + at.EVENT_ORDER] < m[event + at.EVENT_ORDER]:
        before = after
        after = m[after + at.EVENT_NEXT]
    m[event + at.EVENT_NEXT] = after
    if before == 0:
        m[ends] = event
    else:
        m[before + at.EVENT_NEXT] = event
    if after == 0:
        m[ends + 1] = event


@leaf
def list_of(m: Words, time: int) -> int:
    """The list of the finest window that holds both a time and the clock, marked as filled."""
    apart = time ^ m[at.WHEEL_TIME]
    if apart < at.EXACT:
        slot = time & (at.EXACT - 1)
        ends = m[at.WHEEL] + 2 * slot
        bits = m[at.WHEEL_BITS] + (slot >> 5)
    else:
        level = 0
        shift = at.EXACT_BITS
        apart >>= at.EXACT_BITS
        while apart >= at.LEVEL:
            apart >>= at.LEVEL_BITS
            shift += at.LEVEL_BITS
            level += 1
        slot = (time >> shift) & (at.LEVEL - 1)
        ends = m[at.WHEEL_UP] + 2 * (level * at.LEVEL + slot)
        bits = m[at.WHEEL_BITS] + EXACT_WORDS + level * LEVEL_WORDS + (slot >> 5)
    m[bits] |= 1 << (slot & 31)
    return ends


@leaf
def lowest_bit(word: int) -> int:
    return BIT_INDEX[((word & -word) * 0x077CB531 & 0xFFFFFFFF) >> 27]


@inner
def next_set(m: Words, bits: int, start: int, count: int) -> int:
    """The first set bit at or after ``start`` among ``count``, or -1."""
    if start >= count:
        return -1
    word = start >> 5
    found = m[bits + word] >> (start & 31) << (start & 31)
    while found == 0:
        word += 1
        if word >= count >> 5:
            return -1
        found = m[bits + word]
    return (word << 5) + lowest_bit(found)


@inner
def next_event(m: Words) -> int:
    """Take the first event of the earliest tick and set the clock to it; 0 when nothing is left."""
    slot = m[at.WHEEL_TIME] & (at.EXACT - 1)
    while m[m[at.WHEEL] + 2 * slot] == 0:
        slot = next_set(m, m[at.WHEEL_BITS], slot, at.EXACT)
        if slot < 0:
            if not enter_next_window(m):
                return 0
            slot = m[at.WHEEL_TIME] & (at.EXACT - 1)
    ends = m[at.WHEEL] + 2 * slot
    event = m[ends]
    following = m[event + at.EVENT_NEXT]
    m[ends] = following
    if following == 0:
        m[m[at.WHEEL_BITS] + (slot >> 5)] &= ~(1 << (slot & 31))
    now = m[event + at.EVENT_TIME]
    m[at.WHEEL_TIME] = now
    m[at.NOW] = now
    return event


@leaf
def tick_is_done(m: Words) -> bool:
    """Whether no event of the clock's tick is left."""
    return m[m[at.WHEEL] + 2 * (m[at.WHEEL_TIME] & (at.EXACT - 1))] == 0


@inner
def enter_next_window(m: Words) -> bool:
    """Move the wheel to the next window that holds events and hand its events down; False when there is none."""
    time = m[at.WHEEL_TIME]
    shift = at.EXACT_BITS
    bits = m[at.WHEEL_BITS] + EXACT_WORDS
    for level in range(at.LEVELS):
        slot = next_set(m, bits, ((time >> shift) & (at.LEVEL - 1)) + 1, at.LEVEL)
        if slot >= 0:
            ends = m[at.WHEEL_UP] + 2 * (level * at.LEVEL + slot)
            above = time >> (shift + at.LEVEL_BITS)
            m[at.WHEEL_TIME] = ((above << at.LEVEL_BITS) | slot) << shift
            event = m[ends]
            m[ends] = 0
            m[bits + (slot >> 5)] &= ~(1 << (slot & 31))
            while event != 0:
                following = m[event + at.EVENT_NEXT]
                place(m, event, m[event + at.EVENT_TIME])
                event = following
            return True
        shift += at.LEVEL_BITS
        bits += LEVEL_WORDS
    return False


@inner
def register(m: Words, slot: int, delay_ns: int, kind: int, a: int, b: int) -> None:
    """Add work to a rank's list for the tick ``delay_ns`` from now.

    All work of one rank at one tick runs at the place of the first registration for that tick.
    """
    if delay_ns > at.LATEST - m[at.NOW]:
        if m[at.ERROR] == 0:
            m[at.ERROR] = at.TIME_OVERFLOW
            m[at.ERROR_SLOT] = slot
            m[at.ERROR_NODE] = a if kind == at.DO_NODE else -1
        return
    time = m[at.NOW] + delay_ns
    task = allocate(m, at.TASK_WORDS)
    m[task + at.TASK_NEXT] = 0
    m[task + at.TASK_KIND] = kind
    m[task + at.TASK_A] = a
    m[task + at.TASK_B] = b
    sweep = m[slot + at.SLOT_SWEEPS]
    while sweep != 0 and m[sweep + at.SWEEP_TIME] != time:
        sweep = m[sweep + at.SWEEP_NEXT]
    if sweep == 0:
        sweep = allocate(m, at.SWEEP_WORDS)
        m[sweep + at.SWEEP_NEXT] = m[slot + at.SLOT_SWEEPS]
        m[slot + at.SLOT_SWEEPS] = sweep
        m[sweep + at.SWEEP_TIME] = time
        m[sweep + at.SWEEP_SLOT] = slot
        m[sweep + at.SWEEP_HEAD] = task
        m[sweep + at.SWEEP_SINCE] = -1
        m[sweep + at.SWEEP_BY] = m[at.IN_WHOLE]
        schedule(m, time, at.ON_SWEEP, sweep)
    elif m[sweep + at.SWEEP_HEAD] == 0:
        m[sweep + at.SWEEP_HEAD] = task
    else:
        m[m[sweep + at.SWEEP_TAIL] + at.TASK_NEXT] = task
    m[sweep + at.SWEEP_TAIL] = task
    if m[at.WHOLES] != 0:
        if m[sweep + at.SWEEP_SINCE] == m[at.NOW] and m[at.IN_WHOLE] + m[sweep + at.SWEEP_LAST_BY] != 0:
            m[at.HAZARD] = at.AMBIGUOUS
        m[sweep + at.SWEEP_SINCE] = m[at.NOW]
        m[sweep + at.SWEEP_LAST_BY] = m[at.IN_WHOLE]


@inner
def end_sweep(m: Words, sweep: int) -> None:
    """Forget a sweep whose list has been run."""
    place_of = m[sweep + at.SWEEP_SLOT] + at.SLOT_SWEEPS
    while m[place_of] != sweep:
        place_of = m[place_of] + at.SWEEP_NEXT
    m[place_of] = m[sweep + at.SWEEP_NEXT]
    release(m, sweep, at.SWEEP_WORDS)
