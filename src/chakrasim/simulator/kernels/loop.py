"""The event loop: takes event after event and hands each to the layer it belongs to."""

from __future__ import annotations

from chakrasim.jit import inner, kernel, leaf
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.clock import Words, end_sweep, mix, next_event, register, release, tick_is_done
from chakrasim.simulator.kernels.matching import tidy_index
from chakrasim.simulator.kernels.messages import receive_now, send_now
from chakrasim.simulator.kernels.network import forward, on_link_free, to_start
from chakrasim.simulator.kernels.progress import end_custom, on_task, received
from chakrasim.simulator.kernels.symmetry import meet, move, slot_of
from chakrasim.simulator.kernels.wholes import begin_last, come_by, sweep_by
from chakrasim.simulator.kernels.workload import check_end, complete_node, fetch, fetch_node, issue_pass


@leaf
def visit(m: Words, slot: int) -> None:
    """Note that an event takes place at a rank."""
    if m[at.WHOLES] != 0:
        come_by(m, slot)
    elif m[at.FOLDED] != 0:
        meet(m, slot, at.SLOT_LAST_TIME, m[at.ROOT])


@inner
def run_call(m: Words, call: int) -> None:
    """Do what the completion of a point-to-point message or receive stands for."""
    kind = m[call + at.CALL_KIND]
    slot = m[call + at.CALL_SLOT]
    visit(m, slot)
    if kind == at.CALL_NODE:
        complete_node(m, slot, m[call + at.CALL_A])
    elif kind == at.CALL_CUSTOM:
        end_custom(m, m[call + at.CALL_A], m[call + at.CALL_B])
    elif kind == at.CALL_STREAM:
        received(m, m[call + at.CALL_A])
    else:
        peer = m[call + at.CALL_PEER]
        size = m[call + at.CALL_BYTES]
        if kind == at.CALL_REAL_SEND:
            send_now(m, slot, peer, size, m[call + at.CALL_GROUP], m[call + at.CALL_TAG], m[call + at.CALL_THEN], 0)
        else:
            receive_now(m, slot, peer, size, m[call + at.CALL_GROUP], m[call + at.CALL_TAG], m[call + at.CALL_THEN])
    release(m, call, at.CALL_WORDS)


@inner
def arrive(m: Words, entry: int, sender_call: int, root: int) -> None:
    """A message has reached its destination: the sender's call runs first, then the receiver's.

    Whether the receive was posted is decided before either. ``root`` is the event's, in the receiver's frame.
    """
    m[entry + at.ENTRY_SENT] -= 1
    posted = m[entry + at.ENTRY_POSTED] > 0
    call = 0
    if posted:
        m[entry + at.ENTRY_POSTED] -= 1
        call = m[entry + at.ENTRY_CALLS]
        if call != 0:
            m[entry + at.ENTRY_CALLS] = m[call + at.CALL_NEXT]
    else:
        m[entry + at.ENTRY_ARRIVED] += 1
    stream = m[entry + at.ENTRY_STREAM]
    if sender_call != 0:
        run_call(m, sender_call)
    if m[at.FOLDED] + m[at.WHOLES] != 0:
        m[at.ROOT] = root
        if call == 0:
            visit(m, slot_of(m, m[entry + at.ENTRY_PAIR] & 0xFFFFFFFF))
    if call != 0:
        run_call(m, call)
    elif posted:
        received(m, stream)


@inner
def on_message(m: Words, message: int) -> None:
    """A message has reached the end of a link, or its destination."""
    if m[at.NETWORK] == at.AWARE and (
        m[message + at.MSG_PLACE] != 0 or m[message + at.MSG_AT] != m[message + at.MSG_TO]
    ):
        forward(m, message)
        return
    entry = m[message + at.MSG_ENTRY]
    call = m[message + at.MSG_CALL]
    root = m[at.ROOT]
    if m[at.FOLDED] != 0:
        root = move(m, root, m[message + at.MSG_TO], at.BACK)
    release(m, message, at.MSG_WORDS)
    arrive(m, entry, call, root)


@inner
def on_event(m: Words, event: int) -> None:
    kind = m[event + at.EVENT_ORDER] & ((1 << at.KIND_BITS) - 1)
    m[at.CURRENT] = m[event + at.EVENT_ORDER] >> at.KIND_BITS
    data = m[event + at.EVENT_DATA]
    if m[at.FOLDED] != 0:
        m[at.LINEAGE] = m[event + at.EVENT_LINEAGE]
        m[at.ROOT] = m[event + at.EVENT_ROOT]
    elif m[at.WHOLES] != 0:
        m[at.SINCE] = m[event + at.EVENT_SINCE]
        m[at.BY] = at.OWN
        m[at.IN_SWEEP] = 0
    release(m, event, m[at.EVENT_WORDS])
    m[at.EVENTS] += 1
    if kind == at.ON_SWEEP:
        if m[at.WHOLES] != 0:
            sweep_by(m, data)
        visit(m, m[data + at.SWEEP_SLOT])
        m[at.SWEEP] = data
    elif kind == at.ON_WHOLE:
        begin_last(m, data)
    elif kind == at.ON_LINK_FREE:
        on_link_free(m, data)
    elif kind == at.ON_HOP or kind == at.ON_ARRIVAL:
        m[at.BY] = m[data + at.MSG_AT]
        on_message(m, data)
    elif kind == at.ON_JOIN:
        to_start(m, data)
    elif kind == at.ON_WAKE:
        m[at.UNSETTLED] = 1
    elif kind == at.ON_CHANGE:
        m[at.CHANGES_DUE] = 1
        m[at.UNSETTLED] = 1
    elif kind == at.ON_STREAM_ARRIVAL:
        arrive(m, data, at.NONE, m[at.ROOT])
    elif kind == at.ON_LATE_STREAM:
        visit(m, m[data + at.STREAM_SLOT])
        received(m, data)
    else:
        run_call(m, data)


@leaf
def look_ahead(m: Words, event: int) -> None:
    """Have fetched what the next event of the tick will need, and the next but one: most events of a tick are of
    different ranks, of which nothing is near."""
    if event == 0:
        return
    following = m[event + at.EVENT_NEXT]
    if following != 0 and is_sweep(m, following):
        slot = m[m[following + at.EVENT_DATA] + at.SWEEP_SLOT]
        for line in range(0, at.SLOT_RANK, 8):
            fetch(m, slot + line)
    if is_sweep(m, event):
        sweep = m[event + at.EVENT_DATA]
        task = m[sweep + at.SWEEP_HEAD]
        if m[task + at.TASK_KIND] == at.DO_NODE or m[task + at.TASK_KIND] == at.DO_WORK:
            fetch_node(m, m[sweep + at.SWEEP_SLOT], m[task + at.TASK_A])


@leaf
def is_sweep(m: Words, event: int) -> bool:
    return m[event + at.EVENT_ORDER] & ((1 << at.KIND_BITS) - 1) == at.ON_SWEEP


@leaf
def short_of_space(m: Words) -> bool:
    return m[at.TOP] + m[at.RESERVE] + 8 * m[at.INDEX_MASK] > m.size


@inner
def fire(m: Words) -> bool:
    """The first issue pass of every rank, in order of rank; False when it needs more space to go on."""
    while m[at.FIRED] < m[at.SLOTS]:
        if short_of_space(m):
            return False
        slot = m[at.SLOT_TABLE] + m[at.FIRED] * at.SLOT_WORDS
        m[at.LINEAGE] = 0
        m[at.ROOT] = m[slot + at.SLOT_RANK]
        if m[slot + at.SLOT_START] > 0:
            register(m, slot, m[slot + at.SLOT_START], at.DO_START, at.NONE, at.NONE)
        else:
            issue_pass(m, slot)
            check_end(m, slot)
        m[at.FIRED] += 1
    return True


@kernel
def fire_again(m: Words) -> bool:
    """Another pass for ranks that have free nodes when the clock has run dry; False when it needs more space.

    By then everything scheduled has happened, also the releases of quiet links, which are only noted.
    """
    m[at.CURRENT] = m[at.SCHEDULED]
    while m[at.PASSED] < m[at.SLOTS]:
        if short_of_space(m):
            return False
        slot = m[at.SLOT_TABLE] + m[at.PASSED] * at.SLOT_WORDS
        if m[slot + at.SLOT_FREE] > 0:
            m[at.LINEAGE] = mix(at.ONWARD, m[at.NOW])
            m[at.ROOT] = m[slot + at.SLOT_RANK]
            issue_pass(m, slot)
            check_end(m, slot)
        m[at.PASSED] += 1
    return True


@inner
def run_on(m: Words, steps: int) -> int:
    """Run at most so many events or tasks; returns why it stopped."""
    if not fire(m):
        return at.NEED_SPACE
    for _ in range(steps):
        if short_of_space(m):
            return at.NEED_SPACE
        if m[at.ERROR] != 0:
            return at.FAILED
        if m[at.HAZARD] != 0:
            return at.BROKEN_SYMMETRY
        if m[at.INDEX_COUNT] > m[at.INDEX_MASK]:
            tidy_index(m)
        sweep = m[at.SWEEP]
        if sweep == 0:
            if m[at.UNSETTLED] != 0 and tick_is_done(m):
                return at.TICK_DONE
            event = next_event(m)
            if event == 0:
                return at.DRY
            look_ahead(m, m[event + at.EVENT_NEXT])
            on_event(m, event)
            continue
        task = m[sweep + at.SWEEP_HEAD]
        if task == 0:
            end_sweep(m, sweep)
            m[at.SWEEP] = 0
            continue
        m[sweep + at.SWEEP_HEAD] = m[task + at.TASK_NEXT]
        kind = m[task + at.TASK_KIND]
        a = m[task + at.TASK_A]
        b = m[task + at.TASK_B]
        release(m, task, at.TASK_WORDS)
        on_task(m, m[sweep + at.SWEEP_SLOT], kind, a, b)
    return at.PAUSED


@kernel
def run(m: Words, steps: int) -> int:
    """Run at most so many events or tasks; returns why it stopped."""
    return run_on(m, steps)
