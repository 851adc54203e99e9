"""Custom collectives: a graph of sends, receives and delays per member, run without resource limits.

All free nodes are issued in the order in which the reference's hash set lists them, because messages of one tick keep
that order on the links (astra-system.md, 11.6 and 16). The set is always emptied by a pass, so only insertion has to
be followed.
"""

from __future__ import annotations

import numpy as np

from chakrasim.jit import inner
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.clock import Words, register
from chakrasim.simulator.kernels.matching import new_call
from chakrasim.simulator.kernels.messages import receive, send

CUSTOM_SEND = 0
CUSTOM_RECV = 1
CUSTOM_COMP = 2

BUCKET_COUNTS = np.array(
    [13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933, 351061, 712697, 1447153], np.int64
)


@inner
def begin_custom(m: Words, stream: int, program: int) -> None:
    """Start a member's graph with all its nodes unfinished."""
    nodes = m[program + at.CUSTOM_NODES]
    state = m[program + at.CUSTOM_SPARE]
    if state != 0:
        m[program + at.CUSTOM_SPARE] = m[state]
    else:
        state = m[at.TOP]
        m[at.TOP] += at.CSTATE_FREE_LIST + 2 * nodes
    m[stream + at.STREAM_PROGRAM] = program
    m[stream + at.STREAM_CUSTOM] = state
    m[state + at.CSTATE_FREE_COUNT] = m[program + at.CUSTOM_FREE_COUNT]
    m[state + at.CSTATE_BUCKETS] = m[program + at.CUSTOM_BUCKETS]
    m[state + at.CSTATE_ONGOING] = 0
    m[state + at.CSTATE_LEFT] = nodes
    table = m[program + at.CUSTOM_NODE_TABLE]
    for i in range(m[program + at.CUSTOM_FREE_COUNT]):
        m[state + at.CSTATE_FREE_LIST + i] = m[m[program + at.CUSTOM_FREE_LIST] + i]
    for i in range(nodes):
        m[state + at.CSTATE_FREE_LIST + nodes + i] = m[table + i * at.CNODE_WORDS + at.CNODE_PARENTS]
    issue_custom(m, stream)


@inner
def issue_custom(m: Words, stream: int) -> None:
    """Issue every free node, in the order of the set."""
    state = m[stream + at.STREAM_CUSTOM]
    program = m[stream + at.STREAM_PROGRAM]
    slot = m[stream + at.STREAM_SLOT]
    schedule = m[stream + at.STREAM_SCHEDULE]
    count = m[state + at.CSTATE_FREE_COUNT]
    m[state + at.CSTATE_FREE_COUNT] = 0
    m[state + at.CSTATE_ONGOING] += count
    for i in range(count):
        number = m[state + at.CSTATE_FREE_LIST + i]
        node = m[program + at.CUSTOM_NODE_TABLE] + number * at.CNODE_WORDS
        kind = m[node + at.CNODE_KIND]
        if kind == CUSTOM_COMP:
            register(m, slot, m[node + at.CNODE_DELAY_NS], at.DO_CUSTOM, stream, number)
            continue
        peer = m[node + at.CNODE_PEER]
        if m[schedule + at.SCHEDULE_LIST] != 0:
            peer = m[m[schedule + at.SCHEDULE_LIST] + peer]
        call = new_call(m, at.CALL_CUSTOM, slot, stream, number)
        if kind == CUSTOM_SEND:
            way = m[node + at.CNODE_DELAY_NS]
            send(m, slot, peer, m[node + at.CNODE_BYTES], at.NONE, m[node + at.CNODE_TAG], call, way)
        else:
            receive(m, slot, peer, m[node + at.CNODE_BYTES], at.NONE, m[node + at.CNODE_TAG], call)


@inner
def finish_custom(m: Words, stream: int, number: int) -> bool:
    """Free the children of a finished node and issue them; True when the whole graph is done."""
    state = m[stream + at.STREAM_CUSTOM]
    program = m[stream + at.STREAM_PROGRAM]
    waiting = state + at.CSTATE_FREE_LIST + m[program + at.CUSTOM_NODES]
    node = m[program + at.CUSTOM_NODE_TABLE] + number * at.CNODE_WORDS
    m[state + at.CSTATE_ONGOING] -= 1
    m[state + at.CSTATE_LEFT] -= 1
    for i in range(m[node + at.CNODE_CHILDREN], m[node + at.CNODE_CHILDREN_END]):
        child = m[i]
        m[waiting + child] -= 1
        if m[waiting + child] == 0:
            insert_free(m, state, program, child)
    issue_custom(m, stream)
    if m[state + at.CSTATE_ONGOING] > 0:
        return False
    m[state] = m[program + at.CUSTOM_SPARE]
    m[program + at.CUSTOM_SPARE] = state
    return True


@inner
def insert_free(m: Words, state: int, program: int, number: int) -> None:
    """Insert into the free set; when it is full it grows and its elements are inserted anew in their present order."""
    count = m[state + at.CSTATE_FREE_COUNT]
    buckets = m[state + at.CSTATE_BUCKETS]
    capacity = 0 if buckets == 1 else buckets
    if count + 1 > capacity:
        grown = 13
        if buckets != 1:
            for choice in BUCKET_COUNTS:
                if choice >= 2 * buckets:
                    grown = choice
                    break
        m[state + at.CSTATE_BUCKETS] = grown
        for i in range(count):
            put(m, state, program, m[state + at.CSTATE_FREE_LIST + i], i)
    put(m, state, program, number, count)
    m[state + at.CSTATE_FREE_COUNT] = count + 1


@inner
def put(m: Words, state: int, program: int, number: int, count: int) -> None:
    """Place a node in the first ``count`` of the list: before the first of its bucket, else at the front."""
    free = state + at.CSTATE_FREE_LIST
    table = m[program + at.CUSTOM_NODE_TABLE] + at.CNODE_ID
    buckets = m[state + at.CSTATE_BUCKETS]
    own = m[table + number * at.CNODE_WORDS] % buckets
    position = 0
    for i in range(count):
        if m[table + m[free + i] * at.CNODE_WORDS] % buckets == own:
            position = i
            break
    for i in range(count, position, -1):
        m[free + i] = m[free + i - 1]
    m[free + position] = number
