"""What a completed step of a collective leads to: the next operations, the next phase, the end of the collective."""

from __future__ import annotations

from chakrasim.jit import inner
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.bus import append, begin_work, on_sent, poke, pop, use_lower_bus
from chakrasim.simulator.kernels.clock import Words, register, release
from chakrasim.simulator.kernels.custom import finish_custom
from chakrasim.simulator.kernels.device import work_has_ended
from chakrasim.simulator.kernels.streams import enqueue, launch_bundle, perform_row, queue_of, start_queue
from chakrasim.simulator.kernels.wholes import ring_has_ended
from chakrasim.simulator.kernels.workload import check_end, complete_node, issue_pass, meet, start


@inner
def end_bundle(m: Words, stream: int, reduce_ns: int) -> None:
    """A bundle has passed the bus; one that reduces always takes a second event, even for a time of zero."""
    if reduce_ns >= 0:
        register(m, m[stream + at.STREAM_SLOT], reduce_ns, at.DO_BUNDLE, stream, at.NO_REDUCTION)
        return
    m[stream + at.STREAM_DONE] += 1
    program = m[stream + at.STREAM_PROGRAM]
    burst = 1
    if m[stream + at.STREAM_PERFORMED] >= m[program + at.PROGRAM_GATE_ROWS]:
        if m[stream + at.STREAM_RECEIVED] < m[program + at.PROGRAM_GATE_RECEIVES]:
            return
        burst = m[program + at.PROGRAM_GATE_BURST]
    while burst > 0 and m[stream + at.STREAM_PERFORMED] < m[stream + at.STREAM_DONE]:
        perform_row(m, stream)
        burst -= 1
    if m[stream + at.STREAM_DONE] == m[program + at.PROGRAM_BUNDLES]:
        advance(m, stream)


@inner
def received(m: Words, stream: int) -> None:
    """A message of the current phase has been received: launch the bundle that processes it."""
    m[stream + at.STREAM_RECEIVED] += 1
    launch_bundle(m, stream)


@inner
def advance(m: Words, stream: int) -> None:
    """A phase is complete: go on to the next, or leave.

    The last stream's end completes the collective before the stream has left its queue: what the completion issues
    still sees the queue occupied.
    """
    queue = queue_of(m, stream)
    slot = m[stream + at.STREAM_SLOT]
    if m[stream + at.STREAM_PHASE] + 1 == m[m[stream + at.STREAM_PLAN] + at.PLAN_PHASES]:
        collective = m[stream + at.STREAM_COLLECTIVE]
        m[collective + at.COLLECTIVE_LEFT] -= 1
        if m[collective + at.COLLECTIVE_LEFT] == 0:
            number = m[collective + at.COLLECTIVE_NODE]
            release(m, collective, at.COLLECTIVE_WORDS)
            complete_node(m, slot, number)
        m[queue + at.QUEUE_RUNNING] -= 1
        start_queue(m, queue)
        release(m, stream, m[at.STREAM_SIZE])
        return
    m[stream + at.STREAM_PHASE] += 1
    enqueue(m, stream)
    m[queue + at.QUEUE_RUNNING] -= 1
    start_queue(m, queue)
    start_queue(m, queue_of(m, stream))


@inner
def end_custom(m: Words, stream: int, number: int) -> None:
    """A node of a custom collective has completed."""
    if finish_custom(m, stream, number):
        advance(m, stream)


@inner
def end_memory_access(m: Words, server: int) -> None:
    """A memory server is free: serve the request that has waited longest, on its own rank."""
    request = m[server + at.SERVER_HEAD]
    if request == 0:
        m[server + at.SERVER_BUSY] = 0
        return
    m[server + at.SERVER_HEAD] = m[request + at.REQUEST_NEXT]
    slot = m[request + at.REQUEST_SLOT]
    register(m, slot, m[request + at.REQUEST_NS], at.DO_NODE, m[request + at.REQUEST_NODE], at.NONE)
    register(m, slot, m[request + at.REQUEST_NS], at.DO_SERVER, server, at.NONE)
    release(m, request, at.REQUEST_WORDS)


@inner
def deliver(m: Words, transfer: int) -> None:
    """A transfer has crossed its bus."""
    then = m[transfer + at.TRANSFER_THEN]
    if then == at.THEN_BUNDLE:
        end_bundle(m, m[transfer + at.TRANSFER_A], m[transfer + at.TRANSFER_B])
        return
    npu = m[transfer + at.TRANSFER_A]
    upper = m[transfer + at.TRANSFER_B]
    if then == at.THEN_SEND:
        append(m, npu + at.BUS_SENDS, upper)
    elif then == at.THEN_WORK:
        append(m, npu + at.BUS_WORK, upper)
        if m[npu + at.BUS_WORKING] == 0:
            begin_work(m, npu)
    else:
        end_bundle(m, m[upper + at.TRANSFER_A], m[upper + at.TRANSFER_B])
        release(m, upper, at.TRANSFER_WORDS)
    poke(m, npu)


@inner
def return_or_deliver(m: Words, endpoint: int, list_head: int) -> None:
    """Send the head of a list back if it asks for that, else hand it over; over the lower bus where there is one."""
    transfer = m[list_head]
    if m[transfer + at.TRANSFER_BACK] != 0:
        m[transfer + at.TRANSFER_BACK] = 0
        pop(m, list_head)
        if m[endpoint + at.BUS_LOWER] != 0:
            use_lower_bus(m, endpoint, at.NO, transfer, at.YES, at.THEN_SEND)
        else:
            append(m, endpoint + at.BUS_SENDS, transfer)
    elif m[endpoint + at.BUS_LOWER] != 0:
        pop(m, list_head)
        use_lower_bus(m, endpoint, at.NO, transfer, at.NO, at.THEN_DELIVER)
    else:
        deliver(m, transfer)
        pop(m, list_head)
        release(m, transfer, at.TRANSFER_WORDS)


@inner
def on_received(m: Words, endpoint: int) -> None:
    """An endpoint of the bus has received a transfer."""
    m[endpoint + at.BUS_LAST] = m[at.NOW]
    m[endpoint + at.BUS_BEFORE] = m[endpoint + at.BUS_STATE]
    if m[endpoint + at.BUS_RECEIVE_COUNT] < 2:
        m[endpoint + at.BUS_STATE] = at.BUS_FREE
    m[endpoint + at.BUS_RECEIVE_COUNT] -= 1
    transfer = m[endpoint + at.BUS_RECEIVES]
    if m[transfer + at.TRANSFER_PROCESS] != 0:
        m[transfer + at.TRANSFER_PROCESS] = 0
        pop(m, endpoint + at.BUS_RECEIVES)
        if m[endpoint + at.BUS_LOWER] != 0:
            use_lower_bus(m, endpoint, at.NO, transfer, at.YES, at.THEN_WORK)
        else:
            append(m, endpoint + at.BUS_WORK, transfer)
        if m[endpoint + at.BUS_WORKING] == 0 and m[endpoint + at.BUS_WORK] != 0:
            begin_work(m, endpoint)
    else:
        return_or_deliver(m, endpoint, endpoint + at.BUS_RECEIVES)
    poke(m, endpoint)


@inner
def on_processed(m: Words, endpoint: int) -> None:
    """An endpoint of the bus has processed a transfer."""
    m[endpoint + at.BUS_WORKING] = 0
    return_or_deliver(m, endpoint, endpoint + at.BUS_WORK)
    if m[endpoint + at.BUS_WORK] != 0:
        begin_work(m, endpoint)
    poke(m, endpoint)


@inner
def on_task(m: Words, slot: int, kind: int, a: int, b: int) -> None:
    """Run one piece of a rank's work of this tick."""
    if kind == at.DO_BUNDLE:
        end_bundle(m, a, b)
    elif kind == at.DO_NODE:
        complete_node(m, slot, a)
    elif kind == at.DO_SERVER:
        end_memory_access(m, a)
    elif kind == at.DO_CUSTOM:
        end_custom(m, a, b)
    elif kind == at.DO_BUS_SENT:
        on_sent(m, a)
    elif kind == at.DO_BUS_RECEIVED:
        on_received(m, a)
    elif kind == at.DO_MEET:
        meet(m, slot, a)
    elif kind == at.DO_BEGIN:
        start(m, slot, a)
    elif kind == at.DO_START:
        issue_pass(m, slot)
        check_end(m, slot)
    elif kind == at.DO_WORK:
        if work_has_ended(m, slot, a):
            complete_node(m, slot, a)
    elif kind == at.DO_WHOLE:
        if ring_has_ended(m, a, b):
            number = m[a + at.MEMBER_NODE]
            release(m, a, at.MEMBER_WORDS)
            complete_node(m, slot, number)
    else:
        on_processed(m, a)
