"""Plans into the arena, each distinct piece once: schedules of algorithms, and custom collectives."""

from __future__ import annotations

import numpy as np

from chakrasim.collectives import Collective, Peer, Program, Schedule
from chakrasim.collectives.custom.program import CustomProgram
from chakrasim.simulator.arena.builder import ArenaBuilder
from chakrasim.simulator.context import Context
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.plans import Members, Phase, Plan, pass_ns


class PlanWriter:
    """Writes plans into the arena, each distinct piece once."""

    def __init__(self, arena: ArenaBuilder, context: Context) -> None:
        self.arena = arena
        self.context = context
        self.max_phases = 1
        self.most_rings = 1
        self._programs: dict[Program, int] = {}
        self._members: dict[Members, tuple[int, int]] = {}
        self._signatures: dict[tuple[int, int], int] = {}

    def write(self, plan: Plan, group_key: int) -> int:
        """Write one plan; ``group_key`` tells its group's messages from those of other groups."""
        signature = self._signatures.setdefault((int(plan.use.type), plan.use.size_bytes), len(self._signatures) + 1)
        if plan.programs:
            schedule = self._custom_schedule(plan)
            return self._one_phase(plan, group_key, signature, schedule)
        if plan.activity >= 0:
            signature = self._signatures.setdefault((-1, plan.activity), len(self._signatures) + 1)
            members = plan.member_count(self.context)
            size = 0 if plan.use.type == Collective.BARRIER else plan.use.size_bytes
            schedule = self.arena.add([members, 0, 0, 0, size, 0, 0, at.AN_ACTIVITY, plan.activity])
            return self._one_phase(plan, group_key, signature, schedule)
        rings = max(len(plan.rings), 1)
        held = held_by(plan, self.context)
        words = [plan.chunks, len(plan.phases), group_key, signature, rings, plan.first_way, held]
        for i, phase in enumerate(plan.rings or plan.phases):
            schedules = [self._schedule(phase, schedule) for schedule in phase.schedules]
            dim = i if plan.rings else phase.dim  # rings run side by side, each from queues of its own
            words += [dim, phase.queue_rule, phase.tree_counter, *schedules]
        self.max_phases = max(self.max_phases, len(plan.phases))
        self.most_rings = max(self.most_rings, rings)
        return self.arena.add(words)

    def _one_phase(self, plan: Plan, group_key: int, signature: int, schedule: int) -> int:
        """A plan of one chunk with one phase, the same in both directions."""
        held = held_by(plan, self.context)
        return self.arena.add([1, 1, group_key, signature, 1, 0, held, 0, at.QUEUE_ZERO, -1, schedule, schedule])

    def _schedule(self, phase: Phase, schedule: Schedule) -> int:
        programs = [self._program(program) for program in schedule.programs]
        program_of = 0
        if len(programs) > 1:
            program_of = self.arena.add(np.array(programs, np.int64)[schedule.program_of])
        local = phase.members.local and not schedule.endpoint_delay_always
        return self.arena.add([*self._line(phase.members), int(local), program_of, 0, programs[0]])

    def _line(self, members: Members) -> tuple[int, ...]:
        """What a schedule begins with; of listed members, how far along the line each stands, and indices by place."""
        words = (members.count, members.stride, members.extent)
        if not members.listed:
            return *words, 0, 0
        if members not in self._members:
            places = np.array(members.listed, np.int64)
            order = np.argsort(places)
            find = np.stack([places[order], order], axis=1)
            self._members[members] = (self.arena.add(places * members.stride), self.arena.add(find))
        return *words, *self._members[members]

    def _program(self, program: Program) -> int:
        if program not in self._programs:
            self._programs[program] = self._write_program(program)
        return self._programs[program]

    def _write_program(self, program: Program) -> int:
        # What a library's reductions take is in what it allows on each hop.
        memory = self.context.system.local_mem_bw if self.context.alone is None else 0.0
        start, start_end = self._ops(program.start_ops)
        rows: list[int] = []
        for row in program.rows:
            delay = _reduce_ns(row.bundle_bytes, memory) if row.reduce else -1
            rows += [row.repeat, row.bundle_bytes, delay, int(row.from_memory), int(row.send_back), *self._ops(row.ops)]
        table = self.arena.add(rows)
        return self.arena.add(
            [
                program.initial_bundles,
                program.bundles,
                start,
                start_end,
                program.gate_rows,
                program.gate_receives,
                program.gate_burst,
                int(program.peer == Peer.XOR),
                table,
            ]
        )

    def _ops(self, ops: tuple[object, ...]) -> tuple[int, int]:
        words = [int(x) for op in ops for x in op]  # type: ignore[attr-defined]
        start = self.arena.add(words)
        return start, start + len(words)

    def _custom_schedule(self, plan: Plan) -> int:
        """A program per member, in ascending order of rank; peers are positions in the group's list."""
        programs = np.array([self._custom_program(program) for program in plan.programs], np.int64)
        members = plan.members(self.context)
        by_index = np.empty_like(programs)
        by_index[np.argsort(members.listed or range(len(programs)), kind="stable")] = programs
        return self.arena.add([*self._line(members), 0, self.arena.add(by_index), 1, int(programs[0])])

    def _custom_program(self, program: CustomProgram) -> int:
        children = self.arena.add(program.children)
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
        nodes = self.arena.add(table)
        free = self.arena.add(program.free)
        return self.arena.add([len(program), nodes, len(program.free), free, program.free_buckets, 0])


def held_by(plan: Plan, context: Context) -> int:
    """What a collective's kernel holds of a device, of `layout.WHOLE`: a processor for each of the library's channels.
    Without a library nobody knows: nothing."""
    activities = context.activities or context.alone
    if context.issue != "streams" or activities is None:
        return 0
    members = context.groups.get(plan.group, range(context.ranks))
    course = activities.course_of(int(plan.use.type), plan.use.size_bytes, tuple(members))
    if course is None or not plan.use.size_bytes:
        return 0
    return round(at.WHOLE * min(course.choice.channels / context.processors, 1.0))


def _reduce_ns(size_bytes: int, local_mem_bw: float) -> int:
    """Three passes over local memory, one of them truncated to ns, then tripled (9.4)."""
    return 3 * pass_ns(size_bytes, local_mem_bw)
