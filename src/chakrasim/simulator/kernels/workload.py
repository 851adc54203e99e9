"""A rank's graph: which nodes are issued when, and what their completion sets free (astra-system.md, 6).

A pass looks at the free nodes in ascending order of their ids and issues each whose resource is available; nodes that
become free during the pass wait for the next. Nodes are numbered in the order of their ids, so that comparing numbers
compares ids. Where streams run side by side, their order is in the graph and no node needs a resource: `device` has
what is different then.
"""

from __future__ import annotations

from chakrasim.jit import fetcher, inner, leaf
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.clock import Words, allocate, register, release
from chakrasim.simulator.kernels.device import begin_beside, end_beside, launched_at, start_work
from chakrasim.simulator.kernels.matching import new_call
from chakrasim.simulator.kernels.messages import receive, send
from chakrasim.simulator.kernels.streams import create_streams
from chakrasim.simulator.kernels.wholes import come_to_ring

fetch = fetcher()


@inner
def heap_push(m: Words, heap: int, size_at: int, value: int) -> None:
    i = m[size_at]
    m[size_at] = i + 1
    while i > 0:
        parent = (i - 1) >> 1
        if m[heap + parent] <= value:
            break
        m[heap + i] = m[heap + parent]
        i = parent
    m[heap + i] = value


@inner
def heap_pop(m: Words, heap: int, size_at: int) -> int:
    top = m[heap]
    size = m[size_at] - 1
    m[size_at] = size
    value = m[heap + size]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and m[heap + child + 1] < m[heap + child]:
            child += 1
        if m[heap + child] >= value:
            break
        m[heap + i] = m[heap + child]
        i = child
    m[heap + i] = value
    return top


@inner
def set_free(m: Words, slot: int, node: int) -> None:
    """A node's parents have all finished."""
    m[slot + at.SLOT_FREE] += 1
    if m[slot + at.SLOT_IN_PASS] != 0:
        m[m[slot + at.SLOT_PENDING] + m[slot + at.SLOT_PENDING_COUNT]] = node
        m[slot + at.SLOT_PENDING_COUNT] += 1
        return
    resource = m[m[slot + at.SLOT_NODES] + node * at.NODE_WORDS + at.NODE_CLASS]
    heap_push(m, m[slot + at.SLOT_HEAPS + resource], slot + at.SLOT_HEAP_SIZE + resource, node)


@inner
def next_issuable(m: Words, slot: int) -> int:
    """The free node of the smallest id whose resource is available, taken from its heap; -1 if there is none."""
    best = -1
    best_resource = 0
    for resource in range(4):
        if m[slot + at.SLOT_HEAP_SIZE + resource] > 0 and (
            resource == at.RECV or m[slot + at.SLOT_BUSY + resource] == 0
        ):
            node = m[m[slot + at.SLOT_HEAPS + resource]]
            if best < 0 or node < best:
                best = node
                best_resource = resource
    if best >= 0:
        heap_pop(m, m[slot + at.SLOT_HEAPS + best_resource], slot + at.SLOT_HEAP_SIZE + best_resource)
    return best


@inner
def issue_pass(m: Words, slot: int) -> None:
    m[slot + at.SLOT_IN_PASS] = 1
    node = next_issuable(m, slot)
    while node >= 0:
        m[slot + at.SLOT_FREE] -= 1
        issue(m, slot, node)
        node = next_issuable(m, slot)
    m[slot + at.SLOT_IN_PASS] = 0
    count = m[slot + at.SLOT_PENDING_COUNT]
    m[slot + at.SLOT_PENDING_COUNT] = 0
    m[slot + at.SLOT_FREE] -= count
    for i in range(count):
        set_free(m, slot, m[m[slot + at.SLOT_PENDING] + i])


@inner
def count_time(m: Words, slot: int) -> None:
    """Charge the time since the last change to the set of categories that have been active."""
    active = 0
    for category in range(4):
        if m[slot + at.SLOT_ACTIVE + category] > 0:
            active |= 1 << category
    m[slot + at.SLOT_TIMES + active] += m[at.NOW] - m[slot + at.SLOT_SINCE]
    m[slot + at.SLOT_SINCE] = m[at.NOW]


@inner
def note_start(m: Words, slot: int, number: int) -> None:
    if m[slot + at.SLOT_STARTS] != 0:
        m[m[slot + at.SLOT_STARTS] + number] = m[at.NOW]
        m[m[slot + at.SLOT_ISSUED] + m[slot + at.SLOT_ISSUED_COUNT]] = number
        m[slot + at.SLOT_ISSUED_COUNT] += 1


@inner
def begin(m: Words, slot: int, number: int) -> None:
    """A node begins: now, or in a replay after its delay."""
    note_start(m, slot, number)
    category = m[m[slot + at.SLOT_NODES] + number * at.NODE_WORDS + at.NODE_CATEGORY]
    if m[at.STREAMS] != 0:
        begin_beside(m, slot, number)
    elif category != at.CAT_NONE:
        count_time(m, slot)
        m[slot + at.SLOT_ACTIVE + category] += 1


@inner
def issue(m: Words, slot: int, number: int) -> None:
    """Take a node's resource and start it; a skipped node finishes at once."""
    node = m[slot + at.SLOT_NODES] + number * at.NODE_WORDS
    kind = m[node + at.NODE_KIND]
    if kind == at.RUN_SKIP:
        note_start(m, slot, number)
        if m[slot + at.SLOT_STARTS] != 0:
            m[m[slot + at.SLOT_ENDS] + number] = m[at.NOW]
        m[slot + at.SLOT_SKIPPED] += 1
        m[at.NODES_DONE] += 1
        free_children(m, slot, node)
        return
    m[slot + at.SLOT_BUSY + m[node + at.NODE_CLASS]] += 1
    m[slot + at.SLOT_ONGOING] += 1
    if kind == at.RUN_MEETING:
        register(m, slot, m[node + at.NODE_C], at.DO_MEET, number, at.NONE)
        return
    wait_ns = 0
    if kind == at.RUN_DELAY:
        m[slot + at.SLOT_GPU_NS] += m[node + at.NODE_B]
        wait_ns = m[node + at.NODE_C]
    elif m[at.STREAMS] != 0 and kind != at.RUN_WORK:
        wait_ns = launched_at(m, slot, node) - m[at.NOW]
    if wait_ns > 0:
        register(m, slot, wait_ns, at.DO_BEGIN, number, at.NONE)
    else:
        start(m, slot, number)


@inner
def start(m: Words, slot: int, number: int) -> None:
    """Start a node of which nothing but its work is left."""
    begin(m, slot, number)
    node = m[slot + at.SLOT_NODES] + number * at.NODE_WORDS
    kind = m[node + at.NODE_KIND]
    a = m[node + at.NODE_A]
    if kind == at.RUN_DELAY:
        register(m, slot, a, at.DO_NODE, number, at.NONE)
    elif kind == at.RUN_WORK:
        start_work(m, slot, number)
    elif kind == at.RUN_COLLECTIVE:
        plan = m[m[slot + at.SLOT_OWN] + a]
        if plan == 0:
            register(m, slot, at.NONE, at.DO_NODE, number, at.NONE)
        else:
            sequence = m[slot + at.SLOT_SEQUENCES] + m[node + at.NODE_B]
            m[sequence] += 1
            if m[at.WHOLES] != 0:
                come_to_ring(m, slot, number, plan, m[sequence])
            else:
                create_streams(m, slot, number, plan, m[sequence])
    elif kind == at.RUN_SEND:
        call = new_call(m, at.CALL_NODE, slot, number, at.NONE)
        send(m, slot, m[m[slot + at.SLOT_OWN] + a], m[node + at.NODE_B], at.NONE, m[node + at.NODE_C], call, 0)
    elif kind == at.RUN_RECV:
        call = new_call(m, at.CALL_NODE, slot, number, at.NONE)
        receive(m, slot, m[m[slot + at.SLOT_OWN] + a], m[node + at.NODE_B], at.NONE, m[node + at.NODE_C], call)
    else:
        access_memory(m, slot, number, a)


@inner
def free_children(m: Words, slot: int, node: int) -> None:
    waiting = m[slot + at.SLOT_WAITING]
    for i in range(m[node + at.NODE_CHILDREN], m[node + at.NODE_CHILDREN_END]):
        child = m[i]
        m[waiting + child] -= 1
        if m[waiting + child] == 0:
            set_free(m, slot, child)


@inner
def complete_node(m: Words, slot: int, number: int) -> None:
    """A node has completed: release its resource, free its children, run a pass, see whether the rank is done."""
    node = m[slot + at.SLOT_NODES] + number * at.NODE_WORDS
    m[slot + at.SLOT_BUSY + m[node + at.NODE_CLASS]] -= 1
    m[slot + at.SLOT_ONGOING] -= 1
    m[at.NODES_DONE] += 1
    if m[slot + at.SLOT_ENDS] != 0:
        m[m[slot + at.SLOT_ENDS] + number] = m[at.NOW]
    if m[at.STREAMS] != 0:
        end_beside(m, slot, number)
    elif m[node + at.NODE_CATEGORY] != at.CAT_NONE:
        count_time(m, slot)
        m[slot + at.SLOT_ACTIVE + m[node + at.NODE_CATEGORY]] -= 1
    free_children(m, slot, node)
    issue_pass(m, slot)
    check_end(m, slot)


@leaf
def fetch_node(m: Words, slot: int, number: int) -> None:
    """Have fetched what `complete_node` will read and write, if the slot is near."""
    node = m[slot + at.SLOT_NODES] + number * at.NODE_WORDS
    children = m[node + at.NODE_CHILDREN]
    if children < m[node + at.NODE_CHILDREN_END]:
        fetch(m, m[slot + at.SLOT_WAITING] + m[children])
    for resource in range(4):
        fetch(m, m[slot + at.SLOT_HEAPS + resource])
    if m[slot + at.SLOT_STARTS] != 0:
        fetch(m, m[slot + at.SLOT_ENDS] + number)
        fetch(m, m[slot + at.SLOT_STARTS] + number + 1)
        fetch(m, m[slot + at.SLOT_ISSUED] + m[slot + at.SLOT_ISSUED_COUNT])


@inner
def check_end(m: Words, slot: int) -> None:
    """A rank has finished when nothing of it is free and nothing in flight."""
    if m[slot + at.SLOT_FREE] == 0 and m[slot + at.SLOT_ONGOING] == 0 and m[slot + at.SLOT_DONE] == 0:
        m[slot + at.SLOT_DONE] = 1
        m[slot + at.SLOT_FINISH] = m[at.NOW]
        m[slot + at.SLOT_FINISH_LINEAGE] = m[at.LINEAGE]
        m[slot + at.SLOT_FINISH_ROOT] = m[at.ROOT]
        m[m[at.FINISH_ORDER] + m[at.FINISHED]] = (slot - m[at.SLOT_TABLE]) // at.SLOT_WORDS
        m[at.FINISHED] += 1


@inner
def meet(m: Words, slot: int, number: int) -> None:
    """A rank has come to a meeting. When all have come that others wait for, everybody there goes on."""
    begin(m, slot, number)
    node = m[slot + at.SLOT_NODES] + number * at.NODE_WORDS
    meeting = m[node + at.NODE_A]
    if m[node + at.NODE_D] & at.COUNTS != 0:
        m[meeting + at.MEETING_MISSING] -= 1
    if m[node + at.NODE_D] & at.WAITS == 0:
        register(m, slot, m[node + at.NODE_B], at.DO_NODE, number, at.NONE)
    else:
        request = allocate(m, at.REQUEST_WORDS)
        m[request + at.REQUEST_NEXT] = m[meeting + at.MEETING_WAITING]
        m[request + at.REQUEST_SLOT] = slot
        m[request + at.REQUEST_NODE] = number
        m[request + at.REQUEST_NS] = m[node + at.NODE_B]
        m[meeting + at.MEETING_WAITING] = request
    if m[meeting + at.MEETING_MISSING] > 0:
        return
    request = m[meeting + at.MEETING_WAITING]
    m[meeting + at.MEETING_WAITING] = 0
    while request != 0:
        following = m[request + at.REQUEST_NEXT]
        register(
            m,
            m[request + at.REQUEST_SLOT],
            m[request + at.REQUEST_NS],
            at.DO_NODE,
            m[request + at.REQUEST_NODE],
            at.NONE,
        )
        release(m, request, at.REQUEST_WORDS)
        request = following


@inner
def server_of(m: Words, slot: int) -> int:
    """The memory server that serves a rank."""
    number = 0
    if m[at.MEMORY_KIND] == at.PER_NODE:
        number = m[slot + at.SLOT_RANK] // m[at.RANKS_PER_SERVER]
    return m[at.SERVERS] + number * at.SERVER_WORDS


@inner
def access_memory(m: Words, slot: int, number: int, service_ns: int) -> None:
    """An access to remote memory: at once where each NPU has its own, else one at a time per server."""
    if m[at.MEMORY_KIND] == at.PER_NPU:
        register(m, slot, service_ns, at.DO_NODE, number, at.NONE)
        return
    server = server_of(m, slot)
    if m[server + at.SERVER_BUSY] == 0:
        m[server + at.SERVER_BUSY] = 1
        register(m, slot, service_ns, at.DO_NODE, number, at.NONE)
        register(m, slot, service_ns, at.DO_SERVER, server, at.NONE)
        return
    request = allocate(m, at.REQUEST_WORDS)
    m[request + at.REQUEST_NEXT] = 0
    m[request + at.REQUEST_SLOT] = slot
    m[request + at.REQUEST_NODE] = number
    m[request + at.REQUEST_NS] = service_ns
    if m[server + at.SERVER_HEAD] == 0:
        m[server + at.SERVER_HEAD] = request
    else:
        m[m[server + at.SERVER_TAIL] + at.REQUEST_NEXT] = request
    m[server + at.SERVER_TAIL] = request
