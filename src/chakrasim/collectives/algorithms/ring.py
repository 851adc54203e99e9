"""Ring: every member sends to its neighbour and receives from the other one, one message at a time.

Follows the reference simulator, an all-to-all included: there each block is stored and forwarded until it is home,
n(n-1)/2 messages per member.
"""

from __future__ import annotations

from collections.abc import Iterator

from chakrasim.collectives.algorithms.packets import block_bytes, runs
from chakrasim.collectives.schedule import Collective, Op, Program, Request, Row, Schedule, final_size, message, uniform


def schedule(request: Request) -> Schedule:
    """The ring schedule: messages of data/n bytes (all-gather: of data bytes).

    Every member sends 2(n-1) messages for an all-reduce, n-1 for reduce-scatter and all-gather, n(n-1)/2 for an
    all-to-all. The size of the result does not depend on n, except for an all-to-all with ``shared_bus``: O(n) rows.
    """
    members = request.members
    program = Program(tuple(_rows(request, _sends(request.collective, members))))
    return uniform(program, members, final_size(request.collective, members, request.data_bytes))


def _sends(collective: Collective, members: int) -> int:
    if collective == Collective.ALL_REDUCE:
        return 2 * (members - 1)
    if collective == Collective.ALL_TO_ALL:
        return members * (members - 1) // 2
    return members - 1


def _rows(request: Request, sends: int) -> Iterator[Row]:
    size = message(block_bytes(request))
    ahead = 1 if request.clockwise else -1
    ops = (Op(True, ahead, size), Op(False, -ahead, size))
    left = sends
    for run in runs(request, 1, request.members - 1, sends + 1):
        acting = min(run.repeat, left)
        if acting:
            yield Row(acting, size, run.reduce, run.from_memory, run.send_back, ops)
        if run.repeat > acting:  # the bundle after the last message has nothing left to send
            yield Row(run.repeat - acting, size, run.reduce, run.from_memory, run.send_back, ())
        left -= acting
