"""A device on which streams run side by side: what it is busy with, how fast it computes, when the host has launched.

A communication's kernel holds a part of the device from its begin to its end, whether its bytes move or it waits for
other ranks. Compute nodes in progress go on at what is left to them; whenever that changes, they are advanced and their
ends are sought anew. Ends that no longer hold stay in the queue: an event counts if it comes at its node's end.

Work is counted in ns of an undisturbed device times `layout.WHOLE`, so that all is whole numbers.
"""

from __future__ import annotations

from chakrasim.jit import inner, leaf
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.clock import Words, allocate, register, release
from chakrasim.simulator.kernels.matching import find_entry


@leaf
def node_of(m: Words, slot: int, number: int) -> int:
    return m[slot + at.SLOT_NODES] + number * at.NODE_WORDS


@leaf
def role_of(m: Words, slot: int, node: int) -> int:
    """The record of a communication's role."""
    return m[slot + at.SLOT_ROLES] + m[node + at.NODE_ROLE] * at.ROLE_WORDS


@leaf
def launched_at(m: Words, slot: int, node: int) -> int:
    """When the host has launched a node; 0 if the trace does not say."""
    said = m[node + at.NODE_D] >> 1
    return m[slot + at.SLOT_START] + m[slot + at.SLOT_HOST] + said - 1 if said > 0 else 0


@inner
def spend(m: Words, slot: int) -> None:
    """Charge the time since the last change to what the rank was doing, and to the roles of its communication."""
    past = m[at.NOW] - m[slot + at.SLOT_SINCE]
    if past == 0:
        return
    m[slot + at.SLOT_SINCE] = m[at.NOW]
    computes = m[slot + at.SLOT_ACTIVE + at.CAT_GPU] > 0
    moving = 0
    waiting = 0
    awaited = 0
    role = m[slot + at.SLOT_ROLES]
    for _ in range(m[slot + at.SLOT_ROLE_COUNT]):
        moving += m[role + at.ROLE_MOVING]
        waiting += m[role + at.ROLE_WAITING]
        awaited += m[role + at.ROLE_AWAITED]
        if m[role + at.ROLE_MOVING] + m[role + at.ROLE_WAITING] > 0:
            if computes:
                m[role + at.ROLE_HIDDEN_NS] += past
            elif m[role + at.ROLE_MOVING] > 0:
                m[role + at.ROLE_EXPOSED_NS] += past
            else:
                m[role + at.ROLE_WAITED_NS] += past
        role += at.ROLE_WORDS
    if computes:
        part = at.IN_OVERLAP if moving + waiting > 0 else at.IN_COMPUTE
    elif moving > 0:
        part = at.IN_EXPOSED_COMM
    elif waiting > 0:
        part = at.IN_WAITING
    elif m[slot + at.SLOT_ACTIVE + at.CAT_MEMORY] > 0:
        part = at.IN_MEMORY
    elif m[slot + at.SLOT_ACTIVE + at.CAT_CPU] > 0:
        part = at.IN_CPU
    else:
        part = at.IN_BUBBLE if awaited > 0 else at.IN_IDLE
    m[slot + at.SLOT_TIMES + part] += past


@inner
def begin_beside(m: Words, slot: int, number: int) -> None:
    """A node begins beside others."""
    node = node_of(m, slot, number)
    category = m[node + at.NODE_CATEGORY]
    if category == at.CAT_NONE:
        return
    spend(m, slot)
    if category != at.CAT_COMM:
        m[slot + at.SLOT_ACTIVE + category] += 1
        return
    kind = m[node + at.NODE_KIND]
    field = at.ROLE_MOVING
    if kind == at.RUN_COLLECTIVE:
        plan = m[m[slot + at.SLOT_OWN] + m[node + at.NODE_A]]
        if plan != 0:
            hold(m, slot, m[plan + at.PLAN_HELD])
            schedule = m[plan + at.PLAN_FIRST_PHASE + at.PHASE_SCHEDULES]
            if m[schedule + at.SCHEDULE_CUSTOM] == at.AN_ACTIVITY:
                field = at.ROLE_WAITING
    elif m[at.RENDEZVOUS] == 0:
        peer = m[m[slot + at.SLOT_OWN] + m[node + at.NODE_A]]
        if kind == at.RUN_SEND:
            entry = entry_of_message(m, node, m[slot + at.SLOT_RANK], peer)
            if m[entry + at.ENTRY_POSTED] > m[entry + at.ENTRY_SENT]:
                message_is_sent(m, m[entry + at.ENTRY_CALLS])
        elif kind == at.RUN_RECV:
            entry = entry_of_message(m, node, peer, m[slot + at.SLOT_RANK])
            if m[entry + at.ENTRY_ARRIVED] == 0 and m[entry + at.ENTRY_SENT] <= m[entry + at.ENTRY_POSTED]:
                field = at.ROLE_AWAITED
    m[role_of(m, slot, node) + field] += 1


@inner
def end_beside(m: Words, slot: int, number: int) -> None:
    """A node ends beside others."""
    node = node_of(m, slot, number)
    category = m[node + at.NODE_CATEGORY]
    if category != at.CAT_NONE:
        spend(m, slot)
        if category != at.CAT_COMM:
            m[slot + at.SLOT_ACTIVE + category] -= 1
        else:
            m[role_of(m, slot, node) + at.ROLE_MOVING] -= 1
            if m[node + at.NODE_KIND] == at.RUN_COLLECTIVE:
                plan = m[m[slot + at.SLOT_OWN] + m[node + at.NODE_A]]
                if plan != 0:
                    hold(m, slot, -m[plan + at.PLAN_HELD])
    said = m[node + at.NODE_D]
    if said & 1 != 0:
        behind = m[at.NOW] - m[slot + at.SLOT_START] - ((said >> 1) - 1)
        m[slot + at.SLOT_HOST] = max(m[slot + at.SLOT_HOST], behind)


@inner
def entry_of_message(m: Words, node: int, source: int, destination: int) -> int:
    """The match entry of a node's message."""
    return find_entry(m, at.NONE, m[node + at.NODE_C], source, destination, m[node + at.NODE_B], at.NONE)


@inner
def message_is_sent(m: Words, call: int) -> None:
    """The message that a posted receive waits for is on its way."""
    slot = m[call + at.CALL_SLOT]
    spend(m, slot)
    role = role_of(m, slot, node_of(m, slot, m[call + at.CALL_A]))
    m[role + at.ROLE_AWAITED] -= 1
    m[role + at.ROLE_MOVING] += 1


@inner
def all_move(m: Words, stream: int) -> None:
    """All ranks of a collective have come: none of them waits any more."""
    while stream != 0:
        slot = m[stream + at.STREAM_SLOT]
        spend(m, slot)
        number = m[m[stream + at.STREAM_COLLECTIVE] + at.COLLECTIVE_NODE]
        role = role_of(m, slot, node_of(m, slot, number))
        m[role + at.ROLE_WAITING] -= 1
        m[role + at.ROLE_MOVING] += 1
        stream = m[stream + at.STREAM_NEXT]


@inner
def hold(m: Words, slot: int, share: int) -> None:
    """Communication takes a share of the device, or gives it back (negative)."""
    if share == 0:
        return
    work = m[slot + at.SLOT_WORKS]
    while work != 0:
        past = m[at.NOW] - m[work + at.WORK_SINCE]
        left = m[work + at.WORK_LEFT]
        rate = m[work + at.WORK_RATE]
        m[work + at.WORK_LEFT] = left - past * rate if past <= left // rate else 0
        m[work + at.WORK_SINCE] = m[at.NOW]
        work = m[work + at.WORK_NEXT]
    m[slot + at.SLOT_HELD] += share
    work = m[slot + at.SLOT_WORKS]
    while work != 0:
        aim(m, slot, work)
        work = m[work + at.WORK_NEXT]


@inner
def start_work(m: Words, slot: int, number: int) -> None:
    """A compute node goes to work."""
    node = node_of(m, slot, number)
    work = allocate(m, at.WORK_WORDS)
    m[work + at.WORK_NEXT] = m[slot + at.SLOT_WORKS]
    m[slot + at.SLOT_WORKS] = work
    m[work + at.WORK_NODE] = number
    m[work + at.WORK_LEFT] = m[node + at.NODE_A] << at.SHARE_BITS
    m[work + at.WORK_SINCE] = m[at.NOW]
    m[work + at.WORK_END] = -1
    m[work + at.WORK_LAUNCHED] = launched_at(m, slot, node)
    aim(m, slot, work)


@inner
def aim(m: Words, slot: int, work: int) -> None:
    """Seek the end of a compute node that goes on at what is left of the device."""
    number = m[work + at.WORK_NODE]
    suffers = m[node_of(m, slot, number) + at.NODE_C]
    held = min(m[slot + at.SLOT_HELD], m[at.MOST_HELD])
    rate = at.WHOLE - (held * suffers >> at.SHARE_BITS)
    m[work + at.WORK_RATE] = rate
    end = max(m[at.NOW] + (m[work + at.WORK_LEFT] + rate - 1) // rate, m[work + at.WORK_LAUNCHED])
    if end != m[work + at.WORK_END]:
        m[work + at.WORK_END] = end
        register(m, slot, end - m[at.NOW], at.DO_WORK, number, at.NONE)


@inner
def work_has_ended(m: Words, slot: int, number: int) -> bool:
    """Whether a compute node ends now; then it is no longer in progress."""
    place = slot + at.SLOT_WORKS
    while m[place] != 0:
        work = m[place]
        if m[work + at.WORK_NODE] == number:
            if m[work + at.WORK_END] != m[at.NOW]:
                return False
            m[place] = m[work + at.WORK_NEXT]
            release(m, work, at.WORK_WORDS)
            return True
        place = work + at.WORK_NEXT
    return False
