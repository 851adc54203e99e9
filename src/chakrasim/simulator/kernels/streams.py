"""Chunks of collectives: their phases, the queues they wait in, and the programs they run (astra-system.md, 8 to 11).

A stream is one chunk on one rank. It goes through the phases of its plan; in each it waits in a queue of the phase's
dimension until fewer than ``RUNNING_LIMIT`` streams of the queue are running, and then runs its program.
"""

from __future__ import annotations

from chakrasim.jit import inner, leaf
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.bus import request_transfer
from chakrasim.simulator.kernels.clock import Words, allocate, register
from chakrasim.simulator.kernels.custom import begin_custom
from chakrasim.simulator.kernels.device import all_move
from chakrasim.simulator.kernels.matching import find_entry, new_call, post_receive
from chakrasim.simulator.kernels.messages import receive, send
from chakrasim.simulator.kernels.network import inject, to_start


@inner
def create_streams(m: Words, slot: int, node: int, plan: int, sequence: int) -> None:
    """Cut a collective into chunks and start each: all streams of a rank are created in one go, in order."""
    collective = allocate(m, at.COLLECTIVE_WORDS)
    m[collective + at.COLLECTIVE_NODE] = node
    m[collective + at.COLLECTIVE_LEFT] = m[plan + at.PLAN_CHUNKS]
    first_dim = m[at.GROUP_DIMS] * m[m[slot + at.SLOT_NODES] + node * at.NODE_WORDS + at.NODE_B]
    for chunk in range(m[plan + at.PLAN_CHUNKS]):
        stream = allocate(m, m[at.STREAM_SIZE])
        m[stream + at.STREAM_SLOT] = slot
        m[stream + at.STREAM_GROUP] = (m[plan + at.PLAN_GROUP] << 32) | sequence
        m[stream + at.STREAM_CHUNK] = chunk
        m[stream + at.STREAM_PLAN] = plan
        m[stream + at.STREAM_PHASE] = 0
        m[stream + at.STREAM_COLLECTIVE] = collective
        m[stream + at.STREAM_CUSTOM] = 0
        m[stream + at.STREAM_TO] = -1
        m[stream + at.STREAM_FROM] = -1
        m[stream + at.STREAM_WAY] = 0
        if m[plan + at.PLAN_FIRST_WAY] != 0:
            m[stream + at.STREAM_WAY] = m[plan + at.PLAN_FIRST_WAY] + chunk % m[plan + at.PLAN_RINGS]
        choose_queues(m, slot, stream, plan, first_dim)
        enqueue(m, stream)
        start_queue(m, queue_of(m, stream))


@inner
def choose_queues(m: Words, slot: int, stream: int, plan: int, first_dim: int) -> None:
    """Give each phase its queue and its direction (or tree): the counters run on over the whole simulation."""
    per_dim = m[at.QUEUES_PER_DIM]
    half = per_dim // 2
    for p in range(m[plan + at.PLAN_PHASES]):
        phase = phase_of(m, stream, p)
        dim = first_dim + m[phase + at.PHASE_DIM]
        rule = m[phase + at.PHASE_QUEUE_RULE]
        queue = 0
        variant = 0
        if rule != at.QUEUE_ZERO:
            counter = m[slot + at.SLOT_DIM_COUNTERS] + 3 * dim + rule
            if rule == at.QUEUE_NEXT:
                queue = m[counter]
                m[counter] = (queue + 1) % per_dim
                variant = 1 if per_dim > 1 and queue >= half else 0
            elif rule == at.QUEUE_FIRST:
                queue = m[counter]
                m[counter] = (queue + 1) % half if per_dim > 1 else 0
            else:
                queue = half + m[counter] if per_dim > 1 else 0
                m[counter] = (m[counter] + 1) % (per_dim - half) if per_dim > 1 else 0
                variant = 1
        if m[phase + at.PHASE_TREE_COUNTER] >= 0:
            counter = m[slot + at.SLOT_TREE_COUNTERS] + 10 * first_dim + m[phase + at.PHASE_TREE_COUNTER]
            variant = m[counter]
            m[counter] = 1 - variant
        m[stream + at.STREAM_QUEUES + 2 * p] = dim * per_dim + queue
        m[stream + at.STREAM_QUEUES + 2 * p + 1] = variant


@leaf
def phase_of(m: Words, stream: int, p: int) -> int:
    """A phase of the stream's plan, on the ring that its chunk takes."""
    plan = m[stream + at.STREAM_PLAN]
    ring = m[stream + at.STREAM_CHUNK] % m[plan + at.PLAN_RINGS]
    return plan + at.PLAN_FIRST_PHASE + (ring * m[plan + at.PLAN_PHASES] + p) * at.PHASE_WORDS


@leaf
def queue_of(m: Words, stream: int) -> int:
    """The queue record of the stream's current phase."""
    number = m[stream + at.STREAM_QUEUES + 2 * m[stream + at.STREAM_PHASE]]
    return m[m[stream + at.STREAM_SLOT] + at.SLOT_QUEUES] + number * at.QUEUE_WORDS


@inner
def enqueue(m: Words, stream: int) -> None:
    """Wait in the current phase's queue.

    First come, first served: one collective at a time has its streams in a queue, all of one priority.
    """
    queue = queue_of(m, stream)
    m[stream + at.STREAM_NEXT] = 0
    if m[queue + at.QUEUE_HEAD] == 0:
        m[queue + at.QUEUE_HEAD] = stream
    else:
        m[m[queue + at.QUEUE_TAIL] + at.STREAM_NEXT] = stream
    m[queue + at.QUEUE_TAIL] = stream


@inner
def start_queue(m: Words, queue: int) -> None:
    """Start waiting streams while the queue has room."""
    while m[queue + at.QUEUE_RUNNING] < m[at.RUNNING_LIMIT] and m[queue + at.QUEUE_HEAD] != 0:
        stream = m[queue + at.QUEUE_HEAD]
        m[queue + at.QUEUE_HEAD] = m[stream + at.STREAM_NEXT]
        m[queue + at.QUEUE_RUNNING] += 1
        begin_phase(m, stream)


@inner
def begin_phase(m: Words, stream: int) -> None:
    """Start the program of the current phase: its first operations and bundles."""
    p = m[stream + at.STREAM_PHASE]
    phase = phase_of(m, stream, p)
    schedule = m[phase + at.PHASE_SCHEDULES + m[stream + at.STREAM_QUEUES + 2 * p + 1]]
    m[stream + at.STREAM_SCHEDULE] = schedule
    if m[schedule + at.SCHEDULE_CUSTOM] == at.AN_ACTIVITY:
        come_together(m, stream, schedule)
        return
    rank = m[m[stream + at.STREAM_SLOT] + at.SLOT_RANK]
    index = find_member(m, schedule, rank)
    m[stream + at.STREAM_INDEX] = index
    m[stream + at.STREAM_BASE] = rank - along(m, schedule, index)
    program = m[schedule + at.SCHEDULE_PROGRAM]
    if m[schedule + at.SCHEDULE_PROGRAM_OF] != 0:
        program = m[m[schedule + at.SCHEDULE_PROGRAM_OF] + index]
    if m[schedule + at.SCHEDULE_CUSTOM] != 0:
        begin_custom(m, stream, program)
        return
    rows = m[program + at.PROGRAM_ROWS]
    m[stream + at.STREAM_PROGRAM] = program
    m[stream + at.STREAM_DONE] = 0
    m[stream + at.STREAM_RECEIVED] = 0
    m[stream + at.STREAM_PERFORMED] = 0
    m[stream + at.STREAM_LAUNCH_ROW] = rows
    m[stream + at.STREAM_LAUNCH_LEFT] = m[rows + at.ROW_REPEAT]
    m[stream + at.STREAM_PERFORM_ROW] = rows
    m[stream + at.STREAM_PERFORM_LEFT] = m[rows + at.ROW_REPEAT]
    perform(m, stream, m[program + at.PROGRAM_START_OPS], m[program + at.PROGRAM_START_OPS_END])
    for _ in range(m[program + at.PROGRAM_INITIAL]):
        launch_bundle(m, stream)


@inner
def come_together(m: Words, stream: int, schedule: int) -> None:
    """Wait for the other ranks of a collective that is one activity; the last to come starts it.

    Where they name different sizes, as for parts that differ, all have the largest.
    """
    plan = m[stream + at.STREAM_PLAN]
    entry = find_entry(m, m[stream + at.STREAM_GROUP], at.ACTIVITY_TAG, 0, 0, 0, m[plan + at.PLAN_SIGNATURE])
    m[stream + at.STREAM_NEXT] = m[entry + at.ENTRY_STREAM]
    m[entry + at.ENTRY_STREAM] = stream
    size = m[schedule + at.SCHEDULE_FIND]
    if m[entry + at.ENTRY_ARRIVED] > 0 and m[entry + at.ENTRY_LARGEST] != size:
        m[entry + at.ENTRY_UNEQUAL] = 1
    m[entry + at.ENTRY_LARGEST] = max(m[entry + at.ENTRY_LARGEST], size)
    m[entry + at.ENTRY_ARRIVED] += 1
    if m[entry + at.ENTRY_ARRIVED] < m[schedule + at.SCHEDULE_MEMBERS]:
        return
    m[at.UNEQUAL] += m[entry + at.ENTRY_UNEQUAL]
    if m[at.STREAMS] != 0:
        all_move(m, m[entry + at.ENTRY_STREAM])
    message = allocate(m, at.MSG_WORDS)
    m[at.MESSAGES] += 1
    m[message + at.MSG_ENTRY] = entry
    m[message + at.MSG_AT] = -1
    m[message + at.MSG_TO] = m[schedule + at.SCHEDULE_PROGRAM]
    m[message + at.MSG_BYTES] = m[entry + at.ENTRY_LARGEST]
    m[message + at.MSG_ROUTE] = -1
    m[message + at.MSG_NUMBER] = m[at.MESSAGES]
    to_start(m, message)


@inner
def find_member(m: Words, schedule: int, rank: int) -> int:
    """A rank's index among the members of its line."""
    place = rank // m[schedule + at.SCHEDULE_STRIDE] % m[schedule + at.SCHEDULE_EXTENT]
    if m[schedule + at.SCHEDULE_LIST] == 0:
        return place
    find = m[schedule + at.SCHEDULE_FIND]
    low = 0
    high = m[schedule + at.SCHEDULE_MEMBERS] - 1
    while low < high:
        middle = (low + high) // 2
        if m[find + 2 * middle] < place:
            low = middle + 1
        else:
            high = middle
    return m[find + 2 * low + 1]


@leaf
def along(m: Words, schedule: int, index: int) -> int:
    """How many ranks after the begin of its line a member stands."""
    if m[schedule + at.SCHEDULE_LIST] != 0:
        return m[m[schedule + at.SCHEDULE_LIST] + index]
    return index * m[schedule + at.SCHEDULE_STRIDE]


@inner
def launch_bundle(m: Words, stream: int) -> None:
    """Launch the next row's bundle: the delay before the stream may act again."""
    row = m[stream + at.STREAM_LAUNCH_ROW]
    if m[stream + at.STREAM_LAUNCH_LEFT] == 0:
        row += at.ROW_WORDS
        m[stream + at.STREAM_LAUNCH_ROW] = row
        m[stream + at.STREAM_LAUNCH_LEFT] = m[row + at.ROW_REPEAT]
    m[stream + at.STREAM_LAUNCH_LEFT] -= 1
    slot = m[stream + at.STREAM_SLOT]
    reduce_ns = m[row + at.ROW_REDUCE_NS]
    if m[m[stream + at.STREAM_SCHEDULE] + at.SCHEDULE_LOCAL] != 0:
        register(m, slot, at.LOCAL_BUNDLE_NS, at.DO_BUNDLE, stream, reduce_ns)
    elif m[at.SHARED_BUS] == 0:
        register(m, slot, m[at.ENDPOINT_NS], at.DO_BUNDLE, stream, reduce_ns)
    else:
        request_transfer(
            m,
            m[slot + at.SLOT_BUS],
            m[row + at.ROW_FROM_MEMORY] != 0,
            m[row + at.ROW_BYTES],
            reduce_ns >= 0,
            m[row + at.ROW_SEND_BACK] != 0,
            stream,
            reduce_ns,
        )


@inner
def perform_row(m: Words, stream: int) -> None:
    """Perform the operations of the next row not yet performed."""
    row = m[stream + at.STREAM_PERFORM_ROW]
    if m[stream + at.STREAM_PERFORM_LEFT] == 0:
        row += at.ROW_WORDS
        m[stream + at.STREAM_PERFORM_ROW] = row
        m[stream + at.STREAM_PERFORM_LEFT] = m[row + at.ROW_REPEAT]
    m[stream + at.STREAM_PERFORM_LEFT] -= 1
    m[stream + at.STREAM_PERFORMED] += 1
    perform(m, stream, m[row + at.ROW_OPS], m[row + at.ROW_OPS_END])


@inner
def perform(m: Words, stream: int, op: int, end: int) -> None:
    """Post sends and receives, in order."""
    schedule = m[stream + at.STREAM_SCHEDULE]
    members = m[schedule + at.SCHEDULE_MEMBERS]
    index = m[stream + at.STREAM_INDEX]
    while op < end:
        if m[m[stream + at.STREAM_PROGRAM] + at.PROGRAM_XOR] != 0:
            peer = index ^ m[op + at.OP_PEER]
        else:
            peer = (index + m[op + at.OP_PEER]) % members
        rank = m[stream + at.STREAM_BASE] + along(m, schedule, peer)
        if m[at.RENDEZVOUS] != 0:
            shake_hands(m, stream, m[op + at.OP_SEND] != 0, rank, m[op + at.OP_BYTES])
        elif m[op + at.OP_SEND] != 0:
            slot = m[stream + at.STREAM_SLOT]
            size = m[op + at.OP_BYTES]
            entry = entry_of(m, stream, at.STREAM_TO, m[slot + at.SLOT_RANK], rank, rank, size)
            m[entry + at.ENTRY_SENT] += 1
            m[slot + at.SLOT_BYTES_SENT] += size
            inject(m, m[slot + at.SLOT_RANK], rank, size, entry, at.NONE, m[stream + at.STREAM_WAY])
        else:
            own = m[m[stream + at.STREAM_SLOT] + at.SLOT_RANK]
            entry = entry_of(m, stream, at.STREAM_FROM, rank, own, rank, m[op + at.OP_BYTES])
            post_receive(m, entry, stream, at.NONE)
        op += at.OP_WORDS


@inner
def entry_of(m: Words, stream: int, field: int, source: int, destination: int, peer: int, size: int) -> int:
    """The match entry of a stream's message, remembered from the last message to (or from) the same peer."""
    last = stream + field
    if m[last] == peer and m[last + 1] == size and m[last + 3] == m[at.GENERATION]:
        return m[last + 2]
    entry = find_entry(
        m,
        m[stream + at.STREAM_GROUP],
        m[stream + at.STREAM_CHUNK],
        source,
        destination,
        size,
        m[m[stream + at.STREAM_PLAN] + at.PLAN_SIGNATURE],
    )
    m[last] = peer
    m[last + 1] = size
    m[last + 2] = entry
    m[last + 3] = m[at.GENERATION]
    return entry


@inner
def shake_hands(m: Words, stream: int, sending: bool, peer: int, size: int) -> None:
    """A collective's message under the rendezvous protocol."""
    slot = m[stream + at.STREAM_SLOT]
    group = m[stream + at.STREAM_GROUP]
    chunk = m[stream + at.STREAM_CHUNK]
    if sending:
        send(m, slot, peer, size, group, chunk, at.NONE, 0)
    else:
        receive(m, slot, peer, size, group, chunk, new_call(m, at.CALL_STREAM, slot, stream, at.NONE))
