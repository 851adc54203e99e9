"""Sending and receiving as the layers above ask for it: directly, or after a rendezvous.

Rendezvous (astra-system.md, 12.3): the receiver first sends a control message of 8,192 bytes to the sender; the
sender sends when it has it, the receiver posts its receive when it has arrived.
"""

from __future__ import annotations

from chakrasim.jit import inner
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.clock import Words
from chakrasim.simulator.kernels.matching import find_entry, new_call, post_receive
from chakrasim.simulator.kernels.network import inject


@inner
def send_now(m: Words, slot: int, peer: int, size: int, group: int, tag: int, call: int, way: int) -> None:
    """Send a message; ``call`` runs when it has arrived at its destination (0: nothing), ``way`` is as of `inject`."""
    own = m[slot + at.SLOT_RANK]
    entry = find_entry(m, group, tag, own, peer, size, at.NONE)
    m[entry + at.ENTRY_SENT] += 1
    m[slot + at.SLOT_BYTES_SENT] += size
    inject(m, own, peer, size, entry, call, way)


@inner
def receive_now(m: Words, slot: int, peer: int, size: int, group: int, tag: int, call: int) -> None:
    post_receive(m, find_entry(m, group, tag, peer, m[slot + at.SLOT_RANK], size, at.NONE), at.NONE, call)


@inner
def promise(m: Words, kind: int, slot: int, peer: int, size: int, group: int, tag: int, then: int) -> int:
    """The second half of a rendezvous, to be done when the control message is there."""
    call = new_call(m, kind, slot, at.NONE, at.NONE)
    m[call + at.CALL_GROUP] = group
    m[call + at.CALL_TAG] = tag
    m[call + at.CALL_PEER] = peer
    m[call + at.CALL_BYTES] = size
    m[call + at.CALL_THEN] = then
    return call


@inner
def send(m: Words, slot: int, peer: int, size: int, group: int, tag: int, call: int, way: int) -> None:
    """Send a message by the protocol that the run uses."""
    if m[at.RENDEZVOUS] == 0:
        send_now(m, slot, peer, size, group, tag, call, way)
    else:
        later = promise(m, at.CALL_REAL_SEND, slot, peer, size, group, tag, call)
        receive_now(m, slot, peer, at.CONTROL_BYTES, group, tag | at.CONTROL_TAG, later)


@inner
def receive(m: Words, slot: int, peer: int, size: int, group: int, tag: int, call: int) -> None:
    """Post a receive by the protocol that the run uses."""
    if m[at.RENDEZVOUS] == 0:
        receive_now(m, slot, peer, size, group, tag, call)
    else:
        later = promise(m, at.CALL_REAL_RECV, slot, peer, size, group, tag, call)
        send_now(m, slot, peer, at.CONTROL_BYTES, group, tag | at.CONTROL_TAG, later, 0)
