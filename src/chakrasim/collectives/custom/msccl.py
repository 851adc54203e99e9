"""Custom collectives given as MSCCL algorithms, scaled to the size of the collective that uses them.

The steps of a thread block run one after the other. A step becomes one to three nodes: a reception, a local pass over
the data, a send. A send is finished when its message has arrived, as in the reference's custom collectives. The data of
the collective are cut into the algorithm's ``nchunksperloop`` chunks, once: there is no second loop. Channels are tags.

Local work reads and writes memory: a reduction makes 3 passes over its data (two reads, a write), a copy 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter

import numpy as np

from chakrasim.collectives.custom.msccl_xml import Block, MscclAlgorithm, Step
from chakrasim.collectives.custom.program import CustomKind, CustomProgram, linked
from chakrasim.collectives.kinds import KINDS
from chakrasim.collectives.schedule import Collective
from chakrasim.collectives.spelling import operation_of
from chakrasim.errors import InputError
from chakrasim.notes import Notes

MAX_DEPENDENCIES = 20_000_000
_TOO_LARGE = 1 << 62
_REDUCTION_PASSES = 3
_COPY_PASSES = 2

_PARTS: dict[str, tuple[CustomKind, ...]] = {
    "s": (CustomKind.SEND,),
    "r": (CustomKind.RECV,),
    "rcs": (CustomKind.RECV, CustomKind.SEND),
    "rrc": (CustomKind.RECV, CustomKind.COMP),
    "rrs": (CustomKind.RECV, CustomKind.COMP, CustomKind.SEND),
    "rrcs": (CustomKind.RECV, CustomKind.COMP, CustomKind.SEND),
    "re": (CustomKind.COMP,),
    "cpy": (CustomKind.COMP,),
    "nop": (),
}
_COLUMNS = ("kind", "peer", "size_bytes", "tag", "delay_ns")


def lower_msccl(
    algorithm: MscclAlgorithm,
    collective: Collective,
    members: int,
    data_bytes: int,
    pass_ns: Callable[[int], int],
    notes: Notes,
) -> tuple[CustomProgram, ...]:
    """The programs of an MSCCL algorithm, one per member, for a collective of ``data_bytes``.

    Raises `InputError` for a wrong number of members, steps without a peer, sends that nobody receives and the reverse,
    and dependencies on steps that do not exist or form cycles.

    Parameters
    ----------
    data_bytes:
        As in `Request`: one member's contribution for all-gather and gather, the whole buffer otherwise. A message of c
        chunks has c/nchunksperloop of the whole, rounded down, at least 1 byte.
    pass_ns:
        How many ns one pass over that many bytes of local memory takes. Local work takes at least 1 ns.
    notes:
        Gets a line if the file is for another kind of collective.
    """
    if len(algorithm.gpus) != members:
        raise InputError(
            "the MSCCL algorithm has another number of GPUs than the group that uses it",
            file=algorithm.source,
            found=f"{len(algorithm.gpus)} GPUs",
            expected=f"{members}",
        )
    if algorithm.chunks < 1:
        raise InputError("the MSCCL algorithm has no chunks", file=algorithm.source, expected="nchunksperloop from 1")
    _warn_of_other_collective(algorithm, collective, notes)
    _check_peers(algorithm)
    total = KINDS[collective].whole_bytes(data_bytes, members)
    return tuple(_lower_gpu(algorithm, blocks, total, pass_ns) for blocks in algorithm.gpus)


def _warn_of_other_collective(algorithm: MscclAlgorithm, collective: Collective, notes: Notes) -> None:
    stated = operation_of(algorithm.collective)
    used = Collective.REDUCE_SCATTER if collective == Collective.REDUCE_SCATTER_BLOCK else collective
    if stated in KINDS and stated != used:
        notes.warn(f"{algorithm.source}: an algorithm for {algorithm.collective} is used for {used.name.lower()}")


def _check_peers(algorithm: MscclAlgorithm) -> None:
    """Every send has its reception: the same messages by sender, receiver, channel and number of chunks."""
    sent: Counter[tuple[int, int, int, int]] = Counter()
    received: Counter[tuple[int, int, int, int]] = Counter()
    for rank, blocks in enumerate(algorithm.gpus):
        for block in blocks:
            for step in block.steps:
                parts = _PARTS[step.kind]
                if CustomKind.SEND in parts:
                    peer = _peer(algorithm, rank, block, step, block.send_peer, "send")
                    sent[rank, peer, block.channel, step.count] += 1
                if CustomKind.RECV in parts:
                    peer = _peer(algorithm, rank, block, step, block.receive_peer, "recv")
                    received[peer, rank, block.channel, step.count] += 1
    for key in sorted((sent - received) + (received - sent)):
        sender, receiver, channel, count = key
        raise InputError(
            "messages are sent that nobody receives, or the reverse",
            file=algorithm.source,
            place=f"GPU {sender} to GPU {receiver}, channel {channel}",
            found=f"{sent[key]} sends and {received[key]} receptions of {count} chunks",
            expected="equally many",
        )


def _peer(algorithm: MscclAlgorithm, rank: int, block: Block, step: Step, peer: int, key: str) -> int:
    if 0 <= peer < len(algorithm.gpus) and peer != rank:
        return peer
    raise InputError(
        f"a step of type {step.kind} in a thread block without a peer for it",
        file=algorithm.source,
        place=f"line {step.line}",
        found=f"{key}={peer} in thread block {block.number} of GPU {rank}",
        expected=f"another GPU, 0 to {len(algorithm.gpus) - 1}",
    )


def _lower_gpu(
    algorithm: MscclAlgorithm, blocks: tuple[Block, ...], total: int, pass_ns: Callable[[int], int]
) -> CustomProgram:
    # A node's id is its number with the nops counted in.
    ids: list[int] = []
    lines: list[int] = []
    parents: list[list[int]] = []
    rows: list[tuple[int, int, int, int, int]] = []
    waits = _waits(algorithm, blocks)
    number = 0
    for block in blocks:
        for place, step in enumerate(block.steps):
            before = waits[block.number, place]
            size = _message_bytes(algorithm, step, total)
            for part in _PARTS[step.kind]:
                ids.append(number)
                lines.append(step.line)
                parents.append(before)
                if part == CustomKind.COMP:
                    rows.append((part, -1, 0, 0, _work_ns(algorithm, step, size, pass_ns)))
                else:
                    peer = block.send_peer if part == CustomKind.SEND else block.receive_peer
                    rows.append((part, peer, size, block.channel, 0))
                before = [number]
                number += 1
            number += not _PARTS[step.kind]
    columns = dict(zip(_COLUMNS, np.array(rows, np.int64).reshape(-1, len(_COLUMNS)).T.copy(), strict=True))
    return linked(ids, parents, algorithm.source, lambda node: f"line {lines[node]}", **columns)


def _message_bytes(algorithm: MscclAlgorithm, step: Step, total: int) -> int:
    size = max(1, total * step.count // algorithm.chunks)
    if size >= _TOO_LARGE:
        raise _too_large(algorithm, step, f"{step.count} of {algorithm.chunks} chunks of {total} bytes")
    return size


def _work_ns(algorithm: MscclAlgorithm, step: Step, size: int, pass_ns: Callable[[int], int]) -> int:
    delay = (_COPY_PASSES if step.kind == "cpy" else _REDUCTION_PASSES) * pass_ns(size)
    if delay >= _TOO_LARGE:
        raise _too_large(algorithm, step, f"{delay} ns of local work")
    return max(1, delay)


def _too_large(algorithm: MscclAlgorithm, step: Step, found: str) -> InputError:
    return InputError(
        "a step is absurdly large", file=algorithm.source, place=f"line {step.line}", found=found, expected="below 2^62"
    )


_Position = tuple[int, int]
"""Number of a thread block, number of a step in it."""


def _waits(algorithm: MscclAlgorithm, blocks: tuple[Block, ...]) -> dict[_Position, list[int]]:
    """Ids of the nodes that each step waits for. Steps without nodes (nop) pass on what they wait for themselves."""
    before = {
        (block.number, place): _before(algorithm, blocks, block, place, step)
        for block in blocks
        for place, step in enumerate(block.steps)
    }
    last: dict[_Position, int] = {}
    nops: set[_Position] = set()
    number = 0
    for block in blocks:
        for place, step in enumerate(block.steps):
            number += max(1, len(_PARTS[step.kind]))
            last[block.number, place] = number - 1
            if step.kind == "nop":
                nops.add((block.number, place))
    waits: dict[_Position, list[int]] = {}
    edges = 0
    for position in _nops_in_order(algorithm, blocks, before, nops) + [key for key in before if key not in nops]:
        found: dict[int, None] = {}
        for earlier in before[position]:
            found.update(dict.fromkeys(waits[earlier] if earlier in nops else (last[earlier],)))
        waits[position] = list(found)
        edges += len(found)
        if edges > MAX_DEPENDENCIES:
            raise InputError(
                "too many dependencies", file=algorithm.source, expected=f"at most {MAX_DEPENDENCIES} on one GPU"
            )
    return waits


def _before(
    algorithm: MscclAlgorithm, blocks: tuple[Block, ...], block: Block, place: int, step: Step
) -> list[_Position]:
    """The steps that a step waits for: that of the other block which it names, and the one before it in its own."""
    before = [(block.number, place - 1)] if place else []
    if step.wait_block < 0:
        return before
    other = next((one for one in blocks if one.number == step.wait_block), None)
    if other is None or step.wait_step >= len(other.steps):
        raise InputError(
            "dependency on a step that does not exist",
            file=algorithm.source,
            place=f"line {step.line}",
            found=f"depid={step.wait_block}, deps={step.wait_step}",
            expected="a thread block of the same GPU and a step in it"
            if other is None
            else f"deps below {len(other.steps)}",
        )
    return [(step.wait_block, step.wait_step), *before]


def _nops_in_order(
    algorithm: MscclAlgorithm,
    blocks: tuple[Block, ...],
    before: dict[_Position, list[_Position]],
    nops: set[_Position],
) -> list[_Position]:
    """All nops, each after those that it waits for."""
    waits_for = {nop: [earlier for earlier in before[nop] if earlier in nops] for nop in before if nop in nops}
    try:
        return list(TopologicalSorter(waits_for).static_order())
    except CycleError as error:
        steps_of = {block.number: block.steps for block in blocks}
        line = min(steps_of[number][place].line for number, place in error.args[1])
        raise InputError("dependency cycle among nop steps", file=algorithm.source, place=f"line {line}") from None
