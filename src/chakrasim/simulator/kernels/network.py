"""The two analytical networks: a message's way and time (astra-network.md, 4 to 6).

Congestion-unaware: one delay for the whole message, from the first dimension in which the two ranks differ.
Congestion-aware: dimension by dimension, link by link; a link serves one message at a time, first come, first served,
and a message moves on only when all of it has arrived.

Latency (ns) and bytes per ns of each dimension are the arena's only real numbers, beside two of the shared bus.
"""

from __future__ import annotations

import numpy as np

from chakrasim.jit import inner, leaf
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.clock import Words, allocate, new_event, place_by_order, post, schedule
from chakrasim.simulator.kernels.routes import end_of, hops_between, next_link
from chakrasim.simulator.kernels.symmetry import meet, move


@leaf
def real(m: Words, number: int) -> float:
    """A real parameter: its bits stand in the arena like everything else."""
    start = m[at.REALS] + number
    return m[start : start + 1].view(np.float64)[0]


@leaf
def whole_ns(m: Words, x: float) -> int:
    """Truncate a delay; one that ends past the clock's range fails the run."""
    if not x < float(at.LATEST - at.ROUNDING - m[at.NOW]):
        if m[at.ERROR] == 0:
            m[at.ERROR] = at.TIME_OVERFLOW
            m[at.ERROR_SLOT] = 0
            m[at.ERROR_NODE] = -1
        return 0
    return int(x)


@leaf
def coordinate(m: Words, rank: int, dim: int) -> int:
    if m[at.DIMS] == 1:
        return rank
    return (rank // m[dim + at.DIM_STRIDE]) % m[dim + at.DIM_MEMBERS]


@inner
def unaware_ns(m: Words, source: int, destination: int, size: int) -> int:
    """floor(hops * latency + size / bandwidth) of the first dimension in which the two ranks differ."""
    for d in range(m[at.DIMS]):
        dim = m[at.DIM_TABLE] + d * at.DIM_WORDS
        a = coordinate(m, source, dim)
        b = coordinate(m, destination, dim)
        if a != b:
            hops = hops_between(m, dim, a, b)
            return whole_ns(m, hops * real(m, 2 * d) + size / real(m, 2 * d + 1))
    return 0


@inner
def inject(m: Words, source: int, destination: int, size: int, entry: int, call: int, way: int) -> None:
    """Start moving a message; ``call`` says what its arrival means to the sender (0: nothing), ``way`` which way of its
    own it takes on the flow network (0: none)."""
    m[at.MESSAGES] += 1
    m[at.MESSAGE_BYTES] += size
    root = m[at.ROOT]
    if m[at.NETWORK] == at.UNAWARE:
        time = m[at.NOW] + unaware_ns(m, source, destination, size)
        if call == 0:
            if m[at.FOLDED] != 0:
                m[at.ROOT] = move(m, root, destination, at.BACK)
            schedule(m, time, at.ON_STREAM_ARRIVAL, entry)
            m[at.ROOT] = root
            return
    message = allocate(m, at.MSG_WORDS)
    m[message + at.MSG_ENTRY] = entry
    m[message + at.MSG_AT] = source
    m[message + at.MSG_TO] = destination
    m[message + at.MSG_BYTES] = size
    m[message + at.MSG_CALL] = call
    m[message + at.MSG_PLACE] = 0
    m[message + at.MSG_ROOT] = root
    if m[at.NETWORK] == at.UNAWARE:
        schedule(m, time, at.ON_ARRIVAL, message)
    elif m[at.NETWORK] == at.FLOW:
        m[message + at.MSG_ROUTE] = -1 - way
        m[message + at.MSG_NUMBER] = m[at.MESSAGES]
        to_start(m, message)
    elif m[at.NETWORK] == at.PACKET:
        m[message + at.MSG_ROUTE] = way
        post(m, m[at.NOW], message)
    else:
        forward(m, message)
        m[at.ROOT] = root


@inner
def to_start(m: Words, message: int) -> None:
    """Note a message that joins the flows when all events of this tick have been."""
    m[message + at.MSG_NEXT] = 0
    if m[at.STARTING] == 0:
        m[at.STARTING] = message
    else:
        m[m[at.STARTING_TAIL] + at.MSG_NEXT] = message
    m[at.STARTING_TAIL] = message
    m[at.UNSETTLED] = 1


@inner
def forward(m: Words, message: int) -> None:
    """Offer a message to the link that leads on from where it stands, and note where that link ends.

    Dimensions are crossed in ascending order, each by the route of its topology.
    """
    here = m[message + at.MSG_AT]
    to = m[message + at.MSG_TO]
    d = 0
    dim = m[at.DIM_TABLE]
    a = coordinate(m, here, dim)
    b = coordinate(m, to, dim)
    while a == b and d < m[at.DIMS] - 1:
        d += 1
        dim += at.DIM_WORDS
        a = coordinate(m, here, dim)
        b = coordinate(m, to, dim)
    place = m[message + at.MSG_PLACE]
    owner, port = next_link(m, dim, a if place == 0 else place, b)
    end = end_of(m, dim, owner, port)
    stride = m[dim + at.DIM_STRIDE]
    anchor = here + (owner - a) * stride
    if end < m[dim + at.DIM_MEMBERS]:
        m[message + at.MSG_AT] = here + (end - a) * stride
        m[message + at.MSG_PLACE] = 0
    else:
        m[message + at.MSG_PLACE] = end
    number = anchor
    if m[at.FOLDED] != 0:
        own = move(m, anchor, anchor, at.BACK)
        if own != anchor:  # the port's number is that at the representative
            b = coordinate(m, move(m, to, anchor, at.BACK), dim)
            port = next_link(m, dim, coordinate(m, own, dim) if place == 0 else place, b)[1]
        number = m[m[at.SLOT_OF] + own]
    m[message + at.MSG_ANCHOR] = anchor
    offer(m, message, m[at.LINK_TABLE] + (number * m[at.PORTS] + m[dim + at.DIM_PORT] + port) * at.LINK_WORDS)


@inner
def offer(m: Words, message: int, link: int) -> None:
    """Give a message to a link: it is served at once or waits."""
    if m[at.FOLDED] != 0:
        meet(m, link, at.LINK_LAST_TIME, move(m, m[message + at.MSG_ROOT], m[message + at.MSG_ANCHOR], at.BACK))
    if is_idle(m, link):
        serve(m, link, message)
        return
    m[message + at.MSG_NEXT] = 0
    if m[link + at.LINK_HEAD] == 0:
        m[link + at.LINK_HEAD] = message
    else:
        m[m[link + at.LINK_TAIL] + at.MSG_NEXT] = message
    m[link + at.LINK_TAIL] = message
    m[link + at.LINK_QUEUED] += 1
    m[link + at.LINK_QUEUED_MOST] = max(m[link + at.LINK_QUEUED_MOST], m[link + at.LINK_QUEUED])


@leaf
def is_idle(m: Words, link: int) -> bool:
    """Whether a link can serve at once. A quiet link that cannot gets its release scheduled, at its proper place."""
    state = m[link + at.LINK_STATE]
    if state != at.QUIET:
        return state == at.IDLE
    time = m[link + at.LINK_FREE_AT]
    order = m[link + at.LINK_FREE_ORDER]
    if m[at.NOW] > time or (m[at.NOW] == time and m[at.CURRENT] > order):
        return True
    place_by_order(m, new_event(m, time, order, at.ON_LINK_FREE, link), time)
    m[link + at.LINK_STATE] = at.BUSY
    m[link + at.LINK_CONTENDED] = 1
    return False


@inner
def serve(m: Words, link: int, message: int) -> None:
    """Put a message on a free link: its arrival is scheduled first, then the link's release.

    The release of a link for which messages have never had to wait is only noted: most are not asked for again in time.
    """
    d = m[link + at.LINK_DIM]
    size = m[message + at.MSG_BYTES]
    wire = size / real(m, 2 * d + 1)
    busy_ns = whole_ns(m, wire)
    arrival_ns = whole_ns(m, real(m, 2 * d) + wire)
    m[link + at.LINK_BUSY_NS] += busy_ns
    m[link + at.LINK_BYTES] += size
    m[link + at.LINK_MESSAGES] += 1
    m[link + at.LINK_FREE_AT] = m[at.NOW] + busy_ns
    if m[at.FOLDED] != 0:
        m[at.ROOT] = m[message + at.MSG_ROOT]
    schedule(m, m[at.NOW] + arrival_ns, at.ON_HOP, message)
    if m[at.FOLDED] == 0 and m[link + at.LINK_CONTENDED] == 0:
        m[link + at.LINK_STATE] = at.QUIET
        m[link + at.LINK_FREE_ORDER] = m[at.SCHEDULED]
        m[at.SCHEDULED] += 1
        return
    m[link + at.LINK_STATE] = at.BUSY
    if m[at.FOLDED] != 0:
        m[at.ROOT] = move(m, m[at.ROOT], m[message + at.MSG_ANCHOR], at.BACK)
    schedule(m, m[at.NOW] + busy_ns, at.ON_LINK_FREE, link)


@inner
def on_link_free(m: Words, link: int) -> None:
    """Serve the message that has waited longest."""
    m[link + at.LINK_STATE] = at.IDLE
    if m[at.FOLDED] != 0:
        meet(m, link, at.LINK_LAST_TIME, m[at.ROOT])
    message = m[link + at.LINK_HEAD]
    if message != 0:
        m[link + at.LINK_HEAD] = m[message + at.MSG_NEXT]
        m[link + at.LINK_QUEUED] -= 1
        if m[at.FOLDED] != 0:
            m[message + at.MSG_ROOT] = move(m, m[at.ROOT], m[message + at.MSG_ANCHOR], at.ONWARD)
        serve(m, link, message)
