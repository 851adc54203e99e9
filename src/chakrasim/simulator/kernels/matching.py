"""Which message meets which receive: by (group and sequence, chunk or tag, source, destination, size), in order.

The k-th send of a key meets its k-th receive. Messages of one key take the same way and cannot overtake each other,
so counters replace a list (astra-network.md, 2.2).
"""

from __future__ import annotations

from chakrasim.jit import inner
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.clock import Words, allocate, release, schedule
from chakrasim.simulator.kernels.symmetry import move


@inner
def bucket(m: Words, group: int, tag: int, pair: int, size: int) -> int:
    key = ((group & 0xFFFFFFFF) ^ (group >> 32) * 2654435761) + (tag & 0xFFFFFFFFFF) * 40503
    key = (
        key ^ (pair >> 32) * 73856093 ^ (pair & 0xFFFFFFFF) * 19349663 ^ (size & 0xFFFFFF) * 83492791
    ) & 0xFFFFFFFFFFFF
    return m[at.INDEX] + ((key ^ (key >> 17) ^ (key >> 31)) & m[at.INDEX_MASK])


@inner
def find_entry(m: Words, group: int, tag: int, source: int, destination: int, size: int, signature: int) -> int:
    """The entry of a key, made if there is none. The key is seen from the frame of the destination."""
    if m[at.FOLDED] != 0:
        source = move(m, source, destination, at.BACK)
        destination = move(m, destination, destination, at.BACK)
    pair = (source << 32) | destination
    head = bucket(m, group, tag, pair, size)
    entry = m[head]
    while entry != 0:
        if (
            m[entry + at.ENTRY_PAIR] == pair
            and m[entry + at.ENTRY_GROUP] == group
            and m[entry + at.ENTRY_TAG] == tag
            and m[entry + at.ENTRY_BYTES] == size
        ):
            if m[entry + at.ENTRY_SIGNATURE] != signature:
                m[at.MISMATCHES] += 1
            return entry
        entry = m[entry + at.ENTRY_NEXT]
    entry = allocate(m, at.ENTRY_WORDS)
    m[entry + at.ENTRY_NEXT] = m[head]
    m[head] = entry
    m[entry + at.ENTRY_GROUP] = group
    m[entry + at.ENTRY_TAG] = tag
    m[entry + at.ENTRY_PAIR] = pair
    m[entry + at.ENTRY_BYTES] = size
    m[entry + at.ENTRY_SENT] = 0
    m[entry + at.ENTRY_POSTED] = 0
    m[entry + at.ENTRY_ARRIVED] = 0
    m[entry + at.ENTRY_STREAM] = 0
    m[entry + at.ENTRY_CALLS] = 0
    m[entry + at.ENTRY_CALLS_TAIL] = 0
    m[entry + at.ENTRY_SIGNATURE] = signature
    m[at.INDEX_COUNT] += 1
    return entry


@inner
def tidy_index(m: Words) -> None:
    """Drop entries without a message or receive outstanding; make the index larger if the rest needs it.

    A dropped entry loses nothing: only the difference of its counters matters, and that is zero.
    """
    old = m[at.INDEX]
    size = m[at.INDEX_MASK] + 1
    kept = 0
    chain = 0
    for i in range(size):
        entry = m[old + i]
        while entry != 0:
            following = m[entry + at.ENTRY_NEXT]
            if m[entry + at.ENTRY_SENT] + m[entry + at.ENTRY_POSTED] + m[entry + at.ENTRY_ARRIVED] == 0:
                release(m, entry, at.ENTRY_WORDS)
            else:
                m[entry + at.ENTRY_NEXT] = chain
                chain = entry
                kept += 1
            entry = following
        m[old + i] = 0
    if kept * 2 > size:
        size *= 4
        m[at.INDEX] = m[at.TOP]
        m[at.TOP] += size
        m[at.INDEX_MASK] = size - 1
        m[m[at.INDEX] : m[at.INDEX] + size] = 0
    while chain != 0:
        following = m[chain + at.ENTRY_NEXT]
        head = bucket(
            m,
            m[chain + at.ENTRY_GROUP],
            m[chain + at.ENTRY_TAG],
            m[chain + at.ENTRY_PAIR],
            m[chain + at.ENTRY_BYTES],
        )
        m[chain + at.ENTRY_NEXT] = m[head]
        m[head] = chain
        chain = following
    m[at.INDEX_COUNT] = kept
    m[at.GENERATION] += 1


@inner
def new_call(m: Words, kind: int, slot: int, a: int, b: int) -> int:
    """What is to be done when a point-to-point message or receive completes."""
    call = allocate(m, at.CALL_WORDS)
    m[call + at.CALL_NEXT] = 0
    m[call + at.CALL_KIND] = kind
    m[call + at.CALL_SLOT] = slot
    m[call + at.CALL_A] = a
    m[call + at.CALL_B] = b
    return call


@inner
def post_receive(m: Words, entry: int, stream: int, call: int) -> None:
    """Post a receive; one whose message has arrived completes as a new event at the end of the current tick."""
    if m[entry + at.ENTRY_ARRIVED] > 0:
        m[entry + at.ENTRY_ARRIVED] -= 1
        if call == 0:
            schedule(m, m[at.NOW], at.ON_LATE_STREAM, stream)
        else:
            schedule(m, m[at.NOW], at.ON_LATE_CALL, call)
        return
    m[entry + at.ENTRY_POSTED] += 1
    if call == 0:
        m[entry + at.ENTRY_STREAM] = stream
    elif m[entry + at.ENTRY_CALLS] == 0:
        m[entry + at.ENTRY_CALLS] = call
        m[entry + at.ENTRY_CALLS_TAIL] = call
    else:
        m[m[entry + at.ENTRY_CALLS_TAIL] + at.CALL_NEXT] = call
        m[entry + at.ENTRY_CALLS_TAIL] = call
