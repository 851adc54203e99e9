"""Custom collectives, from Chakra traces or MSCCL XML, into the arena."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.custom.program import CustomProgram
from chakrasim.simulator.arena.builder import ArenaBuilder
from chakrasim.simulator.context import Context
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.plans import Plan, PlanWriter

Ints = NDArray[np.int64]


def write_custom(arena: ArenaBuilder, writer: PlanWriter, plan: Plan, context: Context) -> list[int]:
    """Write a plan's schedule, a program per member; returns its index for both directions (they are the same).

    ``plan.programs`` are in ascending order of rank; peers are positions in the group's list.
    """
    programs = np.array([_program(arena, program) for program in plan.programs], np.int64)
    ranks = context.groups.get(plan.group, ())
    if ranks:
        members = plan.members(context)
        listed, find = writer.members(members)
        by_index = np.empty_like(programs)
        by_index[np.argsort(np.array(ranks), kind="stable")] = programs
        stride = 0
    else:
        listed, find, stride, by_index = 0, 0, 1, programs
    schedule = arena.add([len(programs), stride, listed, find, 0, arena.add(by_index), 1, int(programs[0])])
    return [schedule, schedule]


def _program(arena: ArenaBuilder, program: CustomProgram) -> int:
    children = arena.add(program.children)
    table = np.stack(
        [
            program.kind,
            program.peer,
            program.size_bytes,
            program.tag,
            program.delay_ns,
            program.parents_count,
            children + program.child_offsets[:-1],
            children + program.child_offsets[1:],
            program.hash_keys,
        ],
        axis=1,
    )
    nodes = arena.add(table)
    free = arena.add(program.free)
    return arena.add([len(program), nodes, len(program.free), free, program.free_buckets, 0])


def custom_reserve(plans: Sequence[Plan], words_per_operation: int) -> int:
    """Words that a pass over a custom graph can take from the arena."""
    longest = max((len(program) for plan in plans for program in plan.programs), default=0)
    return 2 * longest * (words_per_operation + 2) + at.CSTATE_FREE_LIST if longest else 0
