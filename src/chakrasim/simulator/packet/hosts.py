"""What hosts do: queue pairs come to be, data is received and acknowledged, acknowledgements are taken in."""

from __future__ import annotations

from typing import Any

from chakrasim.jit import inner, leaf
from chakrasim.simulator.packet import state
from chakrasim.simulator.packet.clock import free, push, take
from chakrasim.simulator.packet.control import table
from chakrasim.simulator.packet.nic import serve_host
from chakrasim.simulator.packet.pairs import call_off, join_list, refresh
from chakrasim.simulator.packet.routes import queue_pair_ports
from chakrasim.simulator.packet.state import (
    ACK,
    ACK_BYTES,
    ACK_INTERVAL,
    BACK_TO_ZERO,
    CHUNK,
    CHUNKED_END,
    DRIVEN,
    DROPPED,
    DUPLICATES_SILENT,
    ENDED,
    GIVEN_UP,
    HEADER,
    INTERVAL_FROM_START,
    LEARNS_LATE,
    LEAST_WINDOW,
    LET_GO,
    LISTS,
    LIVE,
    LOST,
    NACK,
    NACKS,
    NO_RESENDING,
    NOW,
    OVER,
    PAUSE,
    PAUSES_HELD,
    PENDING,
    PRIORITY,
    RECEIVED,
    REJECTS_ACKS,
    RESEND,
    RESENT,
    UNLISTED,
    UNROUTED,
    WAITING,
    WRAPS,
    Net,
    whole,
)
from chakrasim.simulator.packet.streams import next_stream
from chakrasim.simulator.packet.switches import PAUSE_BYTES

NACK_NS = 500_000
PATIENCE_NS = 1_000_000
"""A sender that has heard nothing for so long, and a round trip, sends again; twice as long after each time."""
MOST_PATIENCE = 64
MOST_TRIES = 12
"""After so many times in a row it gives up,"""
MOST_RETREATS = 200
"""and when it was sent back so often to the same byte."""
OWN_PAUSE_NS = 10_000
OWN_PAUSE_GAP_NS = 1_000_000


@inner
def add_pair(n: Net, flow: int) -> None:
    """A flow's queue pair comes to be, and sends if it can."""
    f = n.flows[flow]
    queue_pair_ports(n, flow)
    if f.nic == 0 or f.back == 0:
        f.state = WAITING
        return
    p = n.ports[f.nic]
    if p.pairs == n.g[LISTS]:
        n.g[UNLISTED] = flow
        return
    f.state = LIVE
    f.clean = 1
    f.began = f.avail = f.moved = n.g[NOW]
    f.top = p.rate if f.top == 0 else min(whole(f.top), p.rate)
    f.rate = f.top
    join_list(n, flow)
    table.begin(n, flow, state.NONE)
    if n.g[NO_RESENDING] == 0:
        if f.bytes == 0:
            wait_to_resend(n, flow, n.g[NOW] + f.patience)
        else:
            f.patience = PATIENCE_NS + f.trip
            wait_to_resend(n, flow, n.g[NOW] + f.patience)
    serve_host(n, whole(f.nic))


@inner
def wait_to_resend(n: Net, flow: int, time: int) -> None:
    item = take(n)
    it = n.items[item]
    it.kind, it.flow = RESEND, flow
    n.flows[flow].timer = item
    push(n, item, time)


@inner
def on_resend(n: Net, flow: int) -> None:
    """The retransmission timer: go back if nothing was acknowledged for long; a flow without bytes ends.

    While no packet at all has been lost the sender is taken to know it: what waits in long queues is not sent twice.
    """
    f = n.flows[flow]
    f.timer = 0
    if f.state != LIVE:
        return
    if f.bytes == 0:
        finish(n, flow)
        refresh(n, flow)
        serve_host(n, whole(f.nic))
        return
    if n.g[NOW] - max(f.moved, f.avail) >= f.patience:
        lost = n.g[DROPPED] + n.g[LOST] + n.g[UNROUTED] > 0
        if f.tries == MOST_TRIES:
            if lost:
                give_up(n, flow)
            return
        f.tries += 1
        f.moved = n.g[NOW]
        f.patience = min(2 * f.patience, MOST_PATIENCE * (PATIENCE_NS + f.trip))
        if f.next > f.una and lost:
            f.resent += f.next - f.una
            f.next = f.una
            n.g[RESENT] += 1
            f.clean = 0
            refresh(n, flow)
    wait_to_resend(n, flow, max(f.moved, f.avail) + f.patience)
    serve_host(n, whole(f.nic))


@inner
def take_data(n: Net, port: int, item: int) -> None:
    """The receiver: a packet is acknowledged, refused or passed over."""
    if n.nodes[n.ports[port].node].pauses > 0:
        pause_own(n, port, item)
    it = n.items[item]
    f = n.flows[it.flow]
    answer = reply(n, f, it.seq, it.bytes - n.g[HEADER])
    if answer == 0 or f.back == 0:
        free(n, item)
        return
    it.kind = answer
    it.bytes = n.g[ACK_BYTES]
    it.seq = f.expected
    f.acked = f.expected
    back = whole(f.back)
    queue_frame(n, back, item)
    serve_host(n, back)
    if n.g[DRIVEN] != 0 and n.g[LEARNS_LATE] == 0 and f.told == 0 and f.expected >= f.bytes and f.state == LIVE:
        f.told = 1
        n.g[RECEIVED] = it.flow


@leaf
def queue_frame(n: Net, port: int, item: int) -> None:
    """Put an acknowledgement or a pause frame into the queue of a host's port."""
    queue = n.queues[port]
    n.items[item].next = 0
    if queue.head == 0:
        queue.head = item
    else:
        n.items[queue.tail].next = item
    queue.tail = item


@inner
def reply(n: Net, f: Any, seq: int, payload: int) -> int:
    """ACK, NACK or 0 (nothing) for a packet."""
    if seq == f.expected or (seq < f.expected < seq + payload and n.g[DUPLICATES_SILENT] == 0):
        f.expected = seq + payload
        if n.g[INTERVAL_FROM_START] != 0:
            due = f.expected >= n.g[ACK_INTERVAL]
        else:
            new = f.expected - f.acked
            due = new >= n.g[ACK_INTERVAL] or f.expected >= f.bytes or new + n.g[LEAST_WINDOW] >= f.bound > 0
        return ACK if due or f.expected % n.g[CHUNK] == 0 else 0
    if seq < f.expected:
        return 0 if n.g[DUPLICATES_SILENT] != 0 else ACK
    if n.g[NOW] >= f.nack_until or f.nack_last != f.expected:
        f.nack_until = n.g[NOW] + NACK_NS
        f.nack_last = f.expected
        if n.g[BACK_TO_ZERO] != 0:
            f.expected = f.expected // n.g[CHUNK] * n.g[CHUNK]
        n.g[NACKS] += 1
        f.clean = 0
        return NACK
    return 0


@inner
def pause_own(n: Net, port: int, item: int) -> None:
    """A receiver's back-pressure: its first packets make it stop the sender for a while."""
    node = n.nodes[n.ports[port].node]
    if n.g[NOW] < node.pause_from:
        return
    node.pauses -= 1
    node.pause_from = n.g[NOW] + OWN_PAUSE_NS + OWN_PAUSE_GAP_NS
    priority = whole(n.items[item].bits) & PRIORITY
    send_own_pause(n, port, priority, state.MARKED)
    end = take(n)
    it = n.items[end]
    it.kind, it.port, it.bits = LET_GO, port, priority
    push(n, end, n.g[NOW] + OWN_PAUSE_NS)


@inner
def send_own_pause(n: Net, port: int, priority: int, stop: int) -> None:
    item = take(n)
    it = n.items[item]
    it.flow, it.bytes, it.kind, it.bits = 0, PAUSE_BYTES, PAUSE, priority | stop
    next_stream(n)
    if n.g[PAUSES_HELD] != 0:
        queue_frame(n, port, item)
    else:
        queue_pause(n, port, item)
    serve_host(n, port)


@inner
def queue_pause(n: Net, port: int, item: int) -> None:
    """Put a pause frame in front of the acknowledgements of a host's port, behind other pause frames."""
    queue = n.queues[port]
    behind, ahead = whole(queue.head), 0
    while behind != 0 and n.items[behind].kind == PAUSE:
        ahead, behind = behind, whole(n.items[behind].next)
    n.items[item].next = behind
    if ahead == 0:
        queue.head = item
    else:
        n.items[ahead].next = item
    if behind == 0:
        queue.tail = item


@inner
def take_ack(n: Net, item: int) -> None:
    """The sender: what is acknowledged is done with; the last byte ends the flow."""
    it = n.items[item]
    flow = whole(it.flow)
    f = n.flows[flow]
    if f.state != LIVE:
        free(n, item)
        return
    acked = it.seq
    if n.g[BACK_TO_ZERO] != 0 and (n.g[CHUNKED_END] != 0 or acked < f.bytes):
        acked = acked // n.g[CHUNK] * n.g[CHUNK]
    if acked > f.una and n.g[REJECTS_ACKS] == 0:
        f.una = acked
        f.moved = n.g[NOW]
        f.retreats = 0
        if f.tries > 0:
            f.tries = 0
            f.patience = PATIENCE_NS + f.trip
            if f.timer == 0 and n.g[NO_RESENDING] == 0:
                wait_to_resend(n, flow, f.moved + f.patience)
        if f.next < f.una and n.g[WRAPS] == 0:
            f.next = f.una
    if f.una >= f.bytes:
        finish(n, flow)
        if n.g[DRIVEN] != 0:
            n.g[PENDING] = item
            return
    react(n, item)


@inner
def finish(n: Net, flow: int) -> None:
    f = n.flows[flow]
    f.state = OVER
    f.ended = n.g[NOW]
    f.expected = f.acked = f.nack_until = f.nack_last = 0
    stop_timers(n, flow)
    n.ended[n.g[ENDED]] = flow
    n.g[ENDED] += 1


@inner
def stop_timers(n: Net, flow: int) -> None:
    """Call off what a flow's control and its retransmission wait for."""
    f = n.flows[flow]
    table.end(n, flow, state.NONE)
    if f.timer != 0:
        call_off(n, f.timer)
        f.timer = 0


@inner
def give_up(n: Net, flow: int) -> None:
    """Nothing of a flow comes through: it sends no more."""
    n.flows[flow].state = GIVEN_UP
    stop_timers(n, flow)
    refresh(n, flow)


@inner
def react(n: Net, item: int) -> None:
    """The rest of what an acknowledgement does: go back, the rate, the next packet."""
    n.g[PENDING] = 0
    flow = whole(n.items[item].flow)
    f = n.flows[flow]
    if n.items[item].kind == NACK:
        f.resent += max(f.next - f.una, 0)
        f.next = f.una
        f.retreats += 1
        if f.retreats > MOST_RETREATS and n.g[NO_RESENDING] == 0:
            give_up(n, flow)
    table.on_ack(n, flow, item)
    refresh(n, flow)
    free(n, item)
    serve_host(n, whole(f.nic))
