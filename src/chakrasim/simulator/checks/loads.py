"""What the links of the network have to carry for a collective, and the time that it cannot take less than.

The congestion-unaware network lets any number of messages use a link at once. Loads are counted along the ways that the
congestion-aware network sends messages (`machine/topologies`), so they are what its links carry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives import Peer, Program
from chakrasim.collectives.custom.program import CustomKind
from chakrasim.simulator.checks.traffic import sends
from chakrasim.simulator.context import Context
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.plans import Members, Phase, Plan

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]

MOST_MESSAGES = 4_000_000
"""Of a collective with more pairs of ranks that send to each other, nothing is said."""
MOST_PROGRAMS = 20_000
"""The same for one whose members run more different programs."""


class Messages(NamedTuple):
    """Some messages: ranks, and bytes as real numbers, which do not wrap."""

    source: Ints
    destination: Ints
    size_bytes: Reals


def least_ns(plan: Plan, context: Context) -> float:
    """The time in which its busiest link carries a plan's messages, latencies left out; 0 where nothing is known."""
    busiest = 0.0
    bandwidth = context.network.bytes_per_ns
    for dim, _, load in loads(plan, context):
        busiest = max(busiest, float(load.max(initial=0.0)) / bandwidth[dim])
    return busiest


def loads(plan: Plan, context: Context) -> Iterator[tuple[int, Ints, Reals]]:
    """By dimension: its links (rank times the dimension's ports plus port) and the bytes that each carries.

    Of rings that do the same at once, one is counted.
    """
    messages = _messages(plan, context)
    here = messages.source.copy() if messages is not None else np.zeros(0, np.int64)
    stride = 1
    for dim, (kind, count) in enumerate(zip(context.network.kinds, context.network.npus_count, strict=True)):
        if messages is None or kind.way is None:
            return
        a, b = here // stride % count, messages.destination // stride % count
        moving = np.flatnonzero(a != b)
        links, sizes = [], []
        for which, member, port in kind.way(a[moving], b[moving], count):
            base = here[moving[which]] - a[moving[which]] * stride
            links.append((base + member * stride) * kind.ports(count) + port)
            sizes.append(messages.size_bytes[moving[which]])
        if links:
            distinct, place = np.unique(np.concatenate(links), return_inverse=True)
            carried = np.zeros(len(distinct))
            np.add.at(carried, place.reshape(-1), np.concatenate(sizes))
            yield dim, distinct, carried
        here += (b - a) * stride
        stride *= count


def _messages(plan: Plan, context: Context) -> Messages | None:
    """All messages of one call, those of equal ends as one. None for too many."""
    parts = list(_custom(plan, context))
    for phase in plan.phases:
        for schedule, chunks in zip(phase.schedules, _chunks(plan, phase, context), strict=True):
            ranks = _ranks(phase.members)
            number = schedule.program_of
            pairs = sum(len(sends(program)) for program in schedule.programs) * len(ranks) / len(schedule.programs)
            if pairs > MOST_MESSAGES or len(schedule.programs) > MOST_PROGRAMS:
                return None
            for index, program in enumerate(schedule.programs):
                parts += _of_program(program, np.flatnonzero(number == index), ranks, chunks)
    if not parts:
        return None
    return Messages(*map(np.concatenate, zip(*parts, strict=True)))


def _chunks(plan: Plan, phase: Phase, context: Context) -> tuple[int, int]:
    """How many chunks at least take each of a phase's two variants."""
    queues = context.queues_per_dim
    if phase.tree_counter >= 0:
        return plan.chunks // 2, plan.chunks // 2
    if phase.queue_rule == at.QUEUE_LAST:
        return 0, plan.chunks
    if phase.queue_rule != at.QUEUE_NEXT or queues == 1:
        return plan.chunks, 0
    return plan.chunks * (queues // 2) // queues, plan.chunks * (queues - queues // 2) // queues


def _ranks(members: Members) -> Ints:
    """Ranks by member index; of strided members, the ring that rank 0 is in."""
    if members.stride:
        return np.arange(members.count, dtype=np.int64) * members.stride
    return np.array(members.listed, np.int64)


def _of_program(program: Program, members: Ints, ranks: Ints, chunks: int) -> Iterator[Messages]:
    if not chunks or not len(members):
        return
    sizes: dict[int, int] = {}
    for op, repeat in sends(program):
        sizes[op.peer] = sizes.get(op.peer, 0) + op.size_bytes * repeat * chunks
    for peer, size in sizes.items():
        other = members ^ peer if program.peer == Peer.XOR else (members + peer) % len(ranks)
        yield Messages(ranks[members], ranks[other], np.full(len(members), float(size)))


def _custom(plan: Plan, context: Context) -> Iterator[Messages]:
    listed = np.array(context.groups.get(plan.group, range(context.ranks)), np.int64)
    for rank, program in zip(np.sort(listed).tolist(), plan.programs, strict=False):
        sent = np.flatnonzero(program.kind == CustomKind.SEND)
        source = np.full(len(sent), rank, np.int64)
        yield Messages(source, listed[program.peer[sent]], program.size_bytes[sent].astype(np.float64))
