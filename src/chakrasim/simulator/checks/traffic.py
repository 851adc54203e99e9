"""What a workload will send, counted before the clock starts: in Python's integers, which do not wrap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives import Op, Program, Schedule
from chakrasim.collectives.custom.program import CustomKind
from chakrasim.simulator.context import Context
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.graph import Graph
from chakrasim.simulator.lowering.plans import Plan
from chakrasim.simulator.lowering.sharing import Kinds
from chakrasim.totals import LARGEST, total

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Traffic:
    """Messages and their bytes."""

    messages: int = 0
    size_bytes: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.messages + other.messages, self.size_bytes + other.size_bytes)

    def __mul__(self, times: int) -> Traffic:
        return Traffic(self.messages * times, self.size_bytes * times)

    def all_bytes(self, context: Context) -> int:
        """With what asks for a message and grants it, under rendezvous."""
        return self.size_bytes + (2 * at.CONTROL_BYTES * self.messages if context.protocol.rendezvous else 0)


def check_totals(
    context: Context,
    graphs: Sequence[Graph],
    graph_of: Ints,
    plans: Sequence[Sequence[Plan]],
    calls: Sequence[Ints],
    kinds: Kinds,
) -> None:
    """Raise InputError where all messages of a run have more bytes than the engine can count.

    ``plans[g][u]`` is graph g's plan for its u-th collective, ``calls[g][u]`` how many nodes ask for it.
    """
    ranks = np.bincount(kinds.of_graph[graph_of], minlength=len(kinds.first)).tolist()
    sent = []
    for g, copies in zip(kinds.first, ranks, strict=True):
        counts = calls[g].tolist()
        moved = sum((of_member(p) * n for p, n in zip(plans[g], counts, strict=True)), _messages(graphs[g]))
        sent.append((moved * copies).all_bytes(context))
    if sum(sent) > LARGEST:
        worst = kinds.first[max(range(len(sent)), key=sent.__getitem__)]
        number = _largest(graphs[worst], [of_member(plan) for plan in plans[worst]])
        graphs[worst].refuse(
            number,
            "the messages of the run have more bytes than can be counted",
            found=f"{sum(sent)} bytes in all, most of them by ranks that run this trace",
            expected="less than 2^63",
            remedy="look for absurd sizes",
        )


def _messages(graph: Graph) -> Traffic:
    """What one rank sends to others by itself, beside collectives."""
    sizes = graph.b[graph.kind == at.RUN_SEND]
    return Traffic(len(sizes), total(sizes))


def _largest(graph: Graph, of_use: Sequence[Traffic]) -> int:
    """The node that sends most."""
    sizes = [traffic.size_bytes for traffic in of_use]
    kinds, uses, own = graph.kind.tolist(), graph.a.tolist(), graph.b.tolist()
    moved = [
        sizes[use] if kind == at.RUN_COLLECTIVE else size if kind == at.RUN_SEND else 0
        for kind, use, size in zip(kinds, uses, own, strict=True)
    ]
    return max(range(len(moved)), key=moved.__getitem__)


def of_member(plan: Plan) -> Traffic:
    """What a member sends in one call: the mean of all members, rounded up."""
    if plan.programs:
        members = len(plan.programs)
        sizes = [program.size_bytes[program.kind == CustomKind.SEND] for program in plan.programs]
        return _mean(Traffic(sum(map(len, sizes)), sum(map(total, sizes))), members)
    whole = Traffic()
    for phase in plan.phases:
        one, other = (_mean(_of_schedule(schedule), phase.members.count) for schedule in phase.schedules)
        # Chunks take one variant or the other; where these differ, the larger is assumed.
        whole += max(one, other, key=lambda traffic: traffic.size_bytes)
    return whole * plan.chunks


def _mean(traffic: Traffic, members: int) -> Traffic:
    return Traffic(-(-traffic.messages // members), -(-traffic.size_bytes // members))


def _of_schedule(schedule: Schedule) -> Traffic:
    """What all members of one ring or group send."""
    copies = np.bincount(schedule.program_of, minlength=len(schedule.programs)).tolist()
    whole = Traffic()
    for program, count in zip(schedule.programs, copies, strict=True):
        for op, repeat in sends(program):
            whole += Traffic(repeat, op.size_bytes * repeat) * count
    return whole


def sends(program: Program) -> list[tuple[Op, int]]:
    """The sends of a program, each with how often it is repeated."""
    found = [(op, 1) for op in program.start_ops if op.send]
    return found + [(op, row.repeat) for row in program.rows for op in row.ops if op.send]
