"""Collectives with a root, and the barrier: on a ring, or with every member talking to the root directly.

The reference simulator has no algorithm for them. On the ring, r is a member's distance from the root in the ring's
direction, and blocks are data/n bytes rounded up (gather: data bytes, each member's contribution):

* broadcast: the root scatters its blocks, then all members do a ring all-gather (the scheme of van de Geijn);
* reduce: a ring reduce-scatter, then the blocks are gathered at the root;
* scatter: the root sends the block of the farthest member first, members forward all but their own;
* gather: members send their own block, then forward those of the members behind them;
* barrier: a ring all-gather of messages of 1 byte: who has received n-1 of them knows that all others have entered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.algorithms import direct
from chakrasim.collectives.kinds import KINDS, Root
from chakrasim.collectives.schedule import Collective, Op, Program, Request, Row, Schedule, final_size, message, uniform

TOKEN_BYTES = 1
"""Size of a message that only says that its sender has come to the barrier."""


def ring_schedule(request: Request) -> Schedule:
    """Broadcast, reduce, gather, scatter or barrier on a ring: one program of a few rows per distance from the root."""
    members = request.members
    final = final_size(request.collective, members, request.data_bytes)
    if request.collective == Collective.BARRIER:
        token = _Stream(1, members - 1, members - 1, 0)
        return uniform(_ring_program(token, request, TOKEN_BYTES), members, final)
    size = _block_bytes(request)
    streams = (_stream(request.collective, distance, members) for distance in range(members))
    programs = tuple(_ring_program(stream, request, size) for stream in streams)
    return Schedule(programs, _distances(request), final)


def direct_schedule(request: Request) -> Schedule:
    """The same collectives without intermediate stops: the root exchanges one message with every other member.

    The barrier is a direct all-gather of messages of 1 byte.
    """
    members = request.members
    final = final_size(request.collective, members, request.data_bytes)
    if request.collective == Collective.BARRIER:
        tokens = replace(request, collective=Collective.ALL_GATHER, data_bytes=TOKEN_BYTES)
        return replace(direct.schedule(tokens), final_bytes=final)
    size = _block_bytes(request) if request.collective == Collective.SCATTER else message(request.data_bytes)
    ahead = 1 if request.clockwise else -1
    from_root = KINDS[request.collective].root is Root.GIVES
    to_others = tuple(Op(from_root, ahead * distance, size) for distance in range(1, members))
    away = Row(1, size, False, False, False, to_others if from_root else ())
    arrival = Row(members - 1, size, request.collective == Collective.REDUCE, True, False, ())
    programs = [Program((away,)) if from_root else Program((arrival,), initial_bundles=0, start_ops=to_others)]
    for distance in range(1, members):
        to_root = (Op(not from_root, -ahead * distance, size),)
        if from_root:
            programs.append(Program((Row(1, size, False, True, False, ()),), initial_bundles=0, start_ops=to_root))
        else:
            programs.append(Program((Row(1, size, False, False, False, to_root),)))
    return Schedule(tuple(programs), _distances(request), final)


def _distances(request: Request) -> NDArray[np.int32]:
    """int32[n]: how far each member is from the root in the ring's direction."""
    away = np.arange(request.members, dtype=np.int64) - request.root
    return ((away if request.clockwise else -away) % request.members).astype(np.int32)


def _block_bytes(request: Request) -> int:
    if request.collective == Collective.GATHER:
        return message(request.data_bytes)
    return message(-(-request.data_bytes // request.members))


@dataclass(frozen=True)
class _Stream:
    """What a member does on a ring: the k-th message of ``own`` waits for no reception, each later one for one more.

    The first ``reductions`` receptions are summed with data of the member.
    """

    own: int
    sends: int
    receives: int
    reductions: int


def _stream(collective: Collective, distance: int, members: int) -> _Stream:
    others = members - 1
    at_root = distance == 0
    if collective == Collective.BROADCAST:
        if at_root:
            return _Stream(own=members, sends=2 * others, receives=others, reductions=0)
        return _Stream(own=0, sends=2 * others - distance, receives=2 * others - distance + 1, reductions=0)
    if collective == Collective.REDUCE:
        if at_root:
            return _Stream(own=1, sends=others, receives=2 * others, reductions=others)
        return _Stream(own=1, sends=others + distance, receives=others + distance - 1, reductions=others)
    if collective == Collective.SCATTER:
        if at_root:
            return _Stream(own=others, sends=others, receives=0, reductions=0)
        return _Stream(own=0, sends=others - distance, receives=members - distance, reductions=0)
    if at_root:
        return _Stream(own=0, sends=0, receives=others, reductions=0)
    return _Stream(own=1, sends=distance, receives=distance - 1, reductions=0)


def _ring_program(stream: _Stream, request: Request, size: int) -> Program:
    ahead = 1 if request.clockwise else -1
    send, receive = Op(True, ahead, size), Op(False, -ahead, size)
    start_ops = (receive,) if stream.own == 0 else ()
    rows = tuple(_rows(stream, send, receive))
    return Program(rows, initial_bundles=stream.own, start_ops=start_ops)


def _rows(stream: _Stream, send: Op, receive: Op) -> Iterator[Row]:
    """Receptions are posted one at a time, the first with the last message that waits for none."""
    total = stream.own + stream.receives
    posted = range(max(0, stream.own - 1), stream.own - 1 + stream.receives)
    reducing = range(stream.own, stream.own + stream.reductions)
    edges = {0, stream.own, stream.sends, posted.start, posted.stop, reducing.stop, total}
    for first, after in pairwise(sorted(edge for edge in edges if 0 <= edge <= total)):
        sends = first < stream.sends
        ops = ((send,) if sends else ()) + ((receive,) if first in posted else ())
        arrived = first >= stream.own
        yield Row(after - first, send.size_bytes, first in reducing, arrived, arrived and sends, ops)
