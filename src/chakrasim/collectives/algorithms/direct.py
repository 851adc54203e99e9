"""Direct: every member exchanges with every other one, all at once or a window of them at a time.

The k-th message goes to the k-th neighbour in the ring's direction and expects data from the k-th against it. Follows
the reference simulator, its reduction pattern with windows and in communicator groups included.
"""

from __future__ import annotations

from collections.abc import Iterator

from chakrasim.collectives.algorithms.packets import block_bytes, runs
from chakrasim.collectives.schedule import (
    NO_GATE,
    Collective,
    Op,
    Program,
    Request,
    Row,
    Schedule,
    ScheduleError,
    final_size,
    message,
    uniform,
)


def schedule(request: Request) -> Schedule:
    """The direct schedule: n-1 messages of data/n bytes (all-gather: of data bytes), twice that for an all-reduce.

    The second half of an all-reduce waits until the whole first half has been received.
    """
    others = request.members - 1
    if request.window is not None and request.window < 1:
        raise ScheduleError(
            "the direct algorithm cannot work without a window",
            found=f"window {request.window}",
            expected="a window of 1 or more, or none for all peers at once",
        )
    parallel = others if request.window is None else min(request.window, others)
    both_halves = request.collective == Collective.ALL_REDUCE
    program = Program(
        tuple(_rows(request, parallel, 2 * others if both_halves else others)),
        initial_bundles=parallel,
        gate_rows=others if both_halves else NO_GATE,
        gate_receives=others if both_halves else 0,
        gate_burst=parallel if both_halves else 1,
    )
    return uniform(program, request.members, final_size(request.collective, request.members, request.data_bytes))


def _rows(request: Request, parallel: int, sends: int) -> Iterator[Row]:
    size = message(block_bytes(request))
    others = request.members - 1
    ahead = 1 if request.clockwise else -1
    memory_run = others * parallel if request.local else parallel
    sent = 0
    for run in runs(request, parallel, memory_run, sends + parallel):
        acting = min(run.repeat, sends - sent)
        for turn in range(sent, sent + acting):
            distance = ahead * (turn % others + 1)
            ops = (Op(True, distance, size), Op(False, -distance, size))
            yield Row(1, size, run.reduce, run.from_memory, run.send_back, ops)
        if run.repeat > acting:
            yield Row(run.repeat - acting, size, run.reduce, run.from_memory, run.send_back, ())
        sent += acting
