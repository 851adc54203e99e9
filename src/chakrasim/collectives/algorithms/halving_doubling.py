"""Halving-doubling: members exchange with partners at distances 1, 2, 4, ..., with messages that halve or double.

For n a power of two the schedule is the reference simulator's, its missing last reduction included.

For any other n (where the reference hangs) it is *folded halving-doubling*: with p the greatest power of two below n
and e = n - p, the extra member p+j first sends all its data to member j (j < e), the first p members do the collective
for themselves and for the extras, and member j at last sends member p+j its result. Every reception of data to be
summed is charged a reduction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.algorithms.packets import REDUCE_SCATTERS, runs
from chakrasim.collectives.schedule import (
    Collective,
    Op,
    Peer,
    Program,
    Request,
    Row,
    Schedule,
    ScheduleError,
    final_size,
    message,
)


def schedule(request: Request) -> Schedule:
    """The halving-doubling schedule: about log2 n messages per member, twice that for an all-reduce.

    Raises ``ScheduleError`` for an all-to-all, which the algorithm cannot do.
    """
    if request.collective == Collective.ALL_TO_ALL:
        raise ScheduleError(
            "halving-doubling has no all-to-all",
            found="all-to-all with halvingDoubling",
            expected="ring, direct or a custom algorithm for all-to-all",
        )
    members = request.members
    final = final_size(request.collective, members, request.data_bytes)
    if members & (members - 1) == 0:
        program = Program(_power_rows(request, members), peer=Peer.XOR)
        return Schedule((program,), np.zeros(members, np.int32), final)
    if request.collective == Collective.ALL_REDUCE:
        return _folded_all_reduce(request, final)
    return _folded_blocks(request, final)


def _steps(request: Request, members: int) -> list[tuple[int, int]]:
    """(distance, message bytes) of each message, and after the last one that of the bundle that has none to send.

    Sizes are computed in double precision and truncated, as in the reference simulator.
    """
    doublings = members.bit_length() - 1
    gathers = request.collective == Collective.ALL_GATHER
    both_halves = request.collective == Collective.ALL_REDUCE
    factor = 0.5 if gathers else 2.0
    distance = members // 2 if gathers else 1
    size = request.data_bytes if gathers else request.data_bytes // 2
    steps = [(distance, size)]
    for _ in range(2 * doublings if both_halves else doublings):
        distance, size = int(distance * factor), int(size / factor)
        if both_halves and distance == members:
            factor = 0.5
            distance, size = int(distance * factor), int(size / factor)
        steps.append((distance, size))
    return steps


def _power_rows(request: Request, members: int) -> tuple[Row, ...]:
    """The rows of each of ``members`` (a power of two) members.

    A bundle may have 0 bytes, as in the reference; messages have at least one.
    """
    steps = _steps(request, members)
    kinds = [run for run in runs(request, 1, members.bit_length() - 2, len(steps)) for _ in range(run.repeat)]
    rows = []
    for turn, ((distance, size), kind) in enumerate(zip(steps, kinds, strict=True)):
        ops = _exchange(distance, message(size), message(size)) if turn < len(steps) - 1 else ()
        rows.append(Row(1, size, kind.reduce, kind.from_memory, kind.send_back, ops))
    return tuple(rows)


def _exchange(distance: int, sent: int, received: int) -> tuple[Op, Op]:
    return Op(True, distance, sent), Op(False, distance, received)


def _folded_all_reduce(request: Request, final: int) -> Schedule:
    """Three programs: members with an extra, members without, extras."""
    core = 1 << (request.members.bit_length() - 1)
    extras = request.members - core
    data = message(request.data_bytes)
    doublings = core.bit_length() - 1
    messages = [(distance, message(size)) for distance, size in _steps(request, core)[:-1]]
    exchanges = [_Exchange(distance, size, size, turn < doublings) for turn, (distance, size) in enumerate(messages)]
    programs = (
        _core_program(exchanges, core, data, data, reduce=True),
        _core_program(exchanges, core, 0, 0, reduce=True),
        _extra_program(core, data, data),
    )
    program_of = np.full(request.members, 1, np.int32)
    program_of[:extras] = 0
    program_of[core:] = 2
    return Schedule(programs, program_of, final)


def _folded_blocks(request: Request, final: int) -> Schedule:
    """Folded reduce-scatter or all-gather: the messages hold whole blocks, those of the extras included.

    The blocks that member i still works for after distance k are those of the members that equal i modulo 2k, and of
    their extras.
    """
    reduce = request.collective in REDUCE_SCATTERS
    members, core = request.members, 1 << (request.members.bit_length() - 1)
    block = message(request.data_bytes // members if reduce else request.data_bytes)
    everything = max(request.data_bytes, block) if reduce else block * members
    distances = [1 << power for power in range(core.bit_length() - 1)]
    index = np.arange(core, dtype=np.int64)
    kept = np.stack([_blocks(index, 2 * distance, members) for distance in distances], axis=1)
    given = np.stack([_blocks(index ^ distance, 2 * distance, members) for distance in distances], axis=1)
    table = np.concatenate([(index < members - core)[:, None], kept, given], axis=1)
    # no column has more than two values, next to each other: a member's class is a number of one bit per column
    codes = (table - table.min(axis=0)) @ (1 << np.arange(table.shape[1]))
    _, examples, inverse = np.unique(codes, return_index=True, return_inverse=True)
    to_extra = block if reduce else everything - block
    programs = []
    for folded, *counts in table[examples].tolist():
        keeps, gives = counts[: len(distances)], counts[len(distances) :]
        exchanges = [
            _Exchange(distance, block * (give if reduce else keep), block * (keep if reduce else give), reduce)
            for distance, keep, give in zip(distances, keeps, gives, strict=True)
        ]
        from_extra = everything if reduce else block
        folded_sizes = (from_extra, to_extra) if folded else (0, 0)
        programs.append(_core_program(exchanges if reduce else exchanges[::-1], core, *folded_sizes, reduce=reduce))
    programs.append(_extra_program(core, everything if reduce else block, to_extra))
    program_of = np.full(members, len(programs) - 1, np.int32)
    program_of[:core] = inverse
    return Schedule(tuple(programs), program_of, final)


def _blocks(index: NDArray[np.int64], modulus: int, members: int) -> NDArray[np.int64]:
    """How many of all members are equal to ``index`` modulo ``modulus``, a power of two that divides p.

    Extra p+j is equal to j modulo every such number, so counting all members counts the extras with their partners.
    """
    residue = index % modulus
    return (members - residue + modulus - 1) // modulus


@dataclass(frozen=True)
class _Exchange:
    """One step between two of the first p members."""

    distance: int
    sent_bytes: int
    received_bytes: int
    reduce: bool


def _core_program(exchanges: list[_Exchange], core: int, from_extra: int, to_extra: int, *, reduce: bool) -> Program:
    """What one of the first p members does; with ``from_extra`` 0 it has no extra to fold in."""
    rows = []
    received, reducing, from_memory = (
        (from_extra, reduce, True) if from_extra else (exchanges[0].sent_bytes, False, False)
    )
    for step in exchanges:
        ops = _exchange(step.distance, step.sent_bytes, step.received_bytes)
        rows.append(Row(1, received, reducing, from_memory, from_memory, ops))
        received, reducing, from_memory = step.received_bytes, step.reduce, True
    last = (Op(True, core, to_extra),) if from_extra else ()
    rows.append(Row(1, received, reducing, from_memory, False, last))
    start_ops = (Op(False, core, from_extra),) if from_extra else ()
    return Program(tuple(rows), initial_bundles=0 if from_extra else 1, start_ops=start_ops, peer=Peer.XOR)


def _extra_program(core: int, sent: int, received: int) -> Program:
    first = Row(1, sent, False, False, False, _exchange(core, sent, received))
    last = Row(1, received, False, True, False, ())
    return Program((first, last), peer=Peer.XOR)
