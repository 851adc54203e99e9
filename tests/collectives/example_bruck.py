"""Bruck's all-gather: ceil(log2 n) messages per member, for any n.

After k messages a member has its own block and those of the 2^k - 1 members that follow. It then sends what it has to
the member 2^k before it, the last time only what is still missing there (Bruck et al., IEEE TPDS 8(11), 1997).
"""

from __future__ import annotations

from chakrasim.collectives import Collective, Op, Program, Request, Row, Schedule, ScheduleError, register, uniform


@register("bruck")
def schedule(request: Request) -> Schedule:
    """``request.data_bytes`` is one member's block; afterwards every member has all n of them."""
    if request.collective != Collective.ALL_GATHER:
        raise ScheduleError("bruck is an all-gather", found=request.collective.name, expected="ALL_GATHER")
    rows = []
    arrived = request.data_bytes  # the first bundle comes before the first send
    distance = 1
    while distance < request.members:
        size = min(distance, request.members - distance) * request.data_bytes
        ops = (Op(True, -distance, size), Op(False, distance, size))
        rows.append(Row(1, arrived, reduce=False, from_memory=distance > 1, send_back=distance > 1, ops=ops))
        arrived = size
        distance *= 2
    rows.append(Row(1, arrived, reduce=False, from_memory=True, send_back=False, ops=()))
    return uniform(Program(tuple(rows)), request.members, request.data_bytes * request.members)
