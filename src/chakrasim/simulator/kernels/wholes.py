"""Rings reckoned as wholes, on the congestion-unaware network: no message of them is simulated.

There a message takes its time whatever else is on the way, so that what a ring's members do between its begin and its
end depends on nothing but when each of them has come. With D(i, j) the end of the j-th bundle of member i, h the time
of a message to it from the member before, and b the time of a bundle with its reduction,

    D(i, 0) = came(i) + b(0),    D(i, j) = max(D(i - 1, j - 1) + h(i), D(i, j - 1)) + b(j)

which is what the messages would say, to the nanosecond. A wave of as many chunks as may run at a time starts when the
wave before has ended on the rank.

What the messages would do beside is the order of what happens to a rank in one tick. The begin of the last bundle is an
event of its own, so that a ring's end stands where it would: behind what was scheduled in earlier ticks, before what is
in later ones. Where two things happen to a rank in one tick that were scheduled in one tick, too, and where a bundle of
a ring could have moved one of them (tasks of a rank run together, `clock.register`), only messages know: the run stops.
"""

from __future__ import annotations

from chakrasim.jit import inner
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.clock import Words, allocate, register, schedule
from chakrasim.simulator.kernels.matching import find_entry
from chakrasim.simulator.kernels.network import unaware_ns
from chakrasim.simulator.kernels.streams import along, find_member

SCRATCH_WORDS = 4  # for each member of a ring


@inner
def sweep_by(m: Words, sweep: int) -> None:
    """Note whether a ring's end has made this sweep."""
    if m[sweep + at.SWEEP_BY] != 0:
        m[at.BY] = at.BY_WHOLE
    m[at.IN_SWEEP] = 1


@inner
def come_by(m: Words, slot: int) -> None:
    """Note an event at a rank, and whether only messages would know its order to the one before it."""
    by = at.OWN if m[at.BY] == m[slot + at.SLOT_RANK] else m[at.BY]
    since = m[at.SINCE]
    if m[slot + at.SLOT_LAST_TIME] == m[at.NOW]:
        before = m[slot + at.SLOT_LAST_SINCE]
        if since == before and (by != m[slot + at.SLOT_LAST_BY] or by == at.BY_WHOLE):
            m[at.HAZARD] = at.AMBIGUOUS
        if m[at.IN_SWEEP] != 0 and before >= m[at.NOW] - m[at.MOST_TASK_NS]:
            m[at.HAZARD] = at.AMBIGUOUS
    m[slot + at.SLOT_LAST_TIME] = m[at.NOW]
    m[slot + at.SLOT_LAST_SINCE] = since
    m[slot + at.SLOT_LAST_BY] = by


@inner
def come_to_ring(m: Words, slot: int, node: int, plan: int, sequence: int) -> None:
    """A rank has come to a ring; the last to come reckons when all of them leave."""
    group = (m[plan + at.PLAN_GROUP] << 32) | sequence
    entry = find_entry(m, group, at.ACTIVITY_TAG, at.NONE, at.NONE, at.NONE, m[plan + at.PLAN_SIGNATURE])
    first = m[entry + at.ENTRY_STREAM]
    if first != 0 and m[first + at.MEMBER_PLAN] != plan:
        m[at.HAZARD] = at.AMBIGUOUS
    member = allocate(m, at.MEMBER_WORDS)
    m[member + at.MEMBER_NEXT] = first
    m[member + at.MEMBER_SLOT] = slot
    m[member + at.MEMBER_NODE] = node
    m[member + at.MEMBER_PLAN] = plan
    m[member + at.MEMBER_CAME] = m[at.NOW]
    m[entry + at.ENTRY_STREAM] = member
    m[entry + at.ENTRY_ARRIVED] += 1
    ring = m[plan + at.PLAN_FIRST_PHASE + at.PHASE_SCHEDULES]
    if m[entry + at.ENTRY_ARRIVED] == m[ring + at.SCHEDULE_MEMBERS]:
        m[entry + at.ENTRY_ARRIVED] = 0
        m[entry + at.ENTRY_STREAM] = 0
        reckon(m, plan, ring, member)


@inner
def reckon(m: Words, plan: int, ring: int, first: int) -> None:
    """All have come: when each begins its last bundle."""
    count = m[ring + at.SCHEDULE_MEMBERS]
    program = m[ring + at.SCHEDULE_PROGRAM]
    rows = m[program + at.PROGRAM_ROWS]
    op = m[rows + at.ROW_OPS]
    ahead = m[op + at.OP_PEER]
    size = m[op + at.OP_BYTES]
    who = m[at.SCRATCH]
    wire = who + count
    ended = wire + count
    member = first
    even = True
    while member != 0:
        rank = m[m[member + at.MEMBER_SLOT] + at.SLOT_RANK]
        index = find_member(m, ring, rank)
        peer = rank - along(m, ring, index) + along(m, ring, (index + ahead) % count)
        m[who + index] = member
        m[wire + (index + ahead) % count] = unaware_ns(m, rank, peer, size)
        m[ended + index] = m[member + at.MEMBER_CAME]
        even = even and m[member + at.MEMBER_CAME] == m[at.NOW]
        member = m[member + at.MEMBER_NEXT]
    for i in range(count):
        even = even and m[wire + i] == m[wire] and m[wire] > 0
    waves = (m[plan + at.PLAN_CHUNKS] + m[at.RUNNING_LIMIT] - 1) // m[at.RUNNING_LIMIT]
    sends = m[program + at.PROGRAM_BUNDLES] - 1
    m[at.MESSAGES] += count * sends * m[plan + at.PLAN_CHUNKS]
    m[at.MESSAGE_BYTES] += count * sends * m[plan + at.PLAN_CHUNKS] * size
    last = rows
    bundle_ns = at.LOCAL_BUNDLE_NS if m[ring + at.SCHEDULE_LOCAL] != 0 else m[at.ENDPOINT_NS]
    wave_ns = sends * m[wire]
    left = sends + 1
    while left > 0:  # the last row with a bundle, and the time of all bundles
        wave_ns += min(left, m[last + at.ROW_REPEAT]) * (bundle_ns + max(m[last + at.ROW_REDUCE_NS], 0))
        left -= m[last + at.ROW_REPEAT]
        last += at.ROW_WORDS
    reduce_ns = m[last - at.ROW_WORDS + at.ROW_REDUCE_NS]
    if even:
        for i in range(count):
            m[ended + i] += waves * wave_ns
    else:
        for _ in range(waves):
            ended = run_wave(m, count, ahead, wire, ended, rows, sends, bundle_ns)
    for i in range(count):
        member = m[who + i]
        m[m[member + at.MEMBER_SLOT] + at.SLOT_BYTES_SENT] += sends * m[plan + at.PLAN_CHUNKS] * size
        m[member + at.MEMBER_LASTS] = bundle_ns
        m[member + at.MEMBER_REDUCES] = reduce_ns
        begins = m[ended + i] - bundle_ns - max(reduce_ns, 0)
        if begins <= m[at.NOW] or m[ended + i] < m[at.NOW]:  # a bundle of no time, or past the clock's range
            m[at.HAZARD] = at.AMBIGUOUS
            begins = m[at.NOW]
        schedule(m, begins, at.ON_WHOLE, member)


@inner
def run_wave(m: Words, count: int, ahead: int, wire: int, came: int, rows: int, sends: int, bundle_ns: int) -> int:
    """Run a chunk through the ring from when its members come; where it is written when it has ended on them."""
    done = m[at.SCRATCH] + 2 * count
    following = done + count
    if came != done:
        following = done
        done = came
    row = rows
    left = m[row + at.ROW_REPEAT]
    for j in range(sends + 1):
        if left == 0:
            row += at.ROW_WORDS
            left = m[row + at.ROW_REPEAT]
        left -= 1
        lasts = bundle_ns + max(m[row + at.ROW_REDUCE_NS], 0)
        if j == 0:
            for i in range(count):
                m[done + i] += lasts
            continue
        # Member i hears from the one before it: its own place less `ahead`.
        m[following] = max(m[done + (count - ahead) % count] + m[wire], m[done]) + lasts
        m[following + count - 1] = (
            max(m[done + (2 * count - 1 - ahead) % count] + m[wire + count - 1], m[done + count - 1]) + lasts
        )
        for i in range(1, count - 1):
            m[following + i] = max(m[done + i - ahead] + m[wire + i], m[done + i]) + lasts
        done, following = following, done
    return done


@inner
def begin_last(m: Words, member: int) -> None:
    """A member begins its last bundle."""
    m[at.IN_WHOLE] = 1
    slot = m[member + at.MEMBER_SLOT]
    register(m, slot, m[member + at.MEMBER_LASTS], at.DO_WHOLE, member, m[member + at.MEMBER_REDUCES])
    m[at.IN_WHOLE] = 0


@inner
def ring_has_ended(m: Words, member: int, reduce_ns: int) -> bool:
    """The last bundle is done: whether that was all. A reduction always takes a second event."""
    if reduce_ns < 0:
        return True
    m[at.IN_WHOLE] = 1
    register(m, m[member + at.MEMBER_SLOT], reduce_ns, at.DO_WHOLE, member, at.NO_REDUCTION)
    m[at.IN_WHOLE] = 0
    return False
