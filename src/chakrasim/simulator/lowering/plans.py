"""From a collective in a workload to chunks, phases and programs (astra-system.md, 8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives import Collective, Request, Schedule, build, traits_of
from chakrasim.collectives.custom.load import custom_programs
from chakrasim.collectives.custom.program import CustomProgram
from chakrasim.collectives.kinds import COLLECTIVE_KEYS, KINDS
from chakrasim.collectives.schedule import WITHOUT_REFERENCE
from chakrasim.errors import InputError
from chakrasim.machine import Algorithm
from chakrasim.machine.graph.routing import ChannelRings
from chakrasim.simulator.context import Context
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.activities import Activities
from chakrasim.simulator.lowering.attributes import TOO_LARGE
from chakrasim.simulator.lowering.channels import Channels, Rings
from chakrasim.simulator.lowering.communication import CollectiveUse
from chakrasim.simulator.lowering.library import Pattern
from chakrasim.simulator.lowering.library_messages import (
    course_of_messages,
    is_switched,
    programs_of,
    refuse_switched,
    sends_round,
)
from chakrasim.simulator.lowering.matrices import Matrix

Ints = NDArray[np.int64]

RING = Algorithm("ring")
DEFAULT_INVOLVED_DIMS = 4
"""A node without ``involved_dim`` takes part in dimensions 0 to 3 only, as in the reference."""
MAX_CHUNKS = 10_000_000
MAX_PASS_NS = 1 << 60


@dataclass(frozen=True)
class Members:
    """Who takes part in a phase: ``count`` ranks of a line through the network.

    A line has ``extent`` ranks, each ``stride`` after the one before. All of them take part, or those at the ``listed``
    places, in that order: some of a dimension, or, of the line of all ranks, a communicator group, which is ``local``.
    """

    count: int
    stride: int
    extent: int
    listed: tuple[int, ...] = ()
    local: bool = False

    @classmethod
    def whole(cls, count: int, stride: int) -> Members:
        """All ranks of a line."""
        return cls(count, stride, count)

    @classmethod
    def group(cls, ranks: tuple[int, ...], of: int) -> Members:
        """The members of a communicator group, in listed order; there are ``of`` ranks."""
        return cls(len(ranks), 1, of, ranks, local=True)

    def place(self, ranks: Ints) -> Ints:
        """Where on its line each rank stands: of a whole line, its member index."""
        return ranks // self.stride % self.extent

    def rank(self, ranks: Ints, index: Ints) -> Ints:
        """The rank that stands at ``index`` among the members of each rank's line."""
        place = np.array(self.listed, np.int64)[index] if self.listed else index
        return ranks + (place - self.place(ranks)) * self.stride


@dataclass(frozen=True)
class Phase:
    """One algorithm on one dimension. ``schedules`` has two variants: clockwise or tree 0, anticlockwise or tree 1."""

    collective: Collective
    algorithm: str
    dim: int
    queue_rule: int
    tree_counter: int
    members: Members
    schedules: tuple[Schedule, Schedule]
    data_bytes: int


@dataclass(frozen=True)
class Plan:
    """A collective ready to run: so many chunks, each going through all phases; no chunks: done at once."""

    use: CollectiveUse
    chunks: int
    phases: tuple[Phase, ...]
    programs: tuple[CustomProgram, ...] = ()
    """Of a custom collective: one per member, in ascending order of rank."""
    activity: int = -1
    """Number of the activity that the collective is on the flow network; -1 where it runs message by message."""
    rings: tuple[Phase, ...] = ()
    """On the flow network, message by message: the phase on each ring; chunks take them in turn."""
    first_way: int = 0
    """Number of the way of the first ring's messages; 0 where they take the way of any message."""

    @property
    def group(self) -> int:
        return self.use.group

    @property
    def by_dimension(self) -> bool:
        """Whether each of its messages stays in one dimension."""
        return not self.programs and not any(phase.members.local for phase in self.phases)

    def member_count(self, context: Context) -> int:
        """How many ranks take part, of a collective of all ranks: in the dimensions that are involved."""
        listed = context.groups.get(self.use.group)
        if listed is not None:
            return len(listed)
        if not self.phases:
            return context.ranks
        return prod(phase.members.count for phase in {phase.dim: phase for phase in self.phases}.values())

    def members(self, context: Context) -> Members:
        """Who takes part, in listed order."""
        listed = context.groups.get(self.use.group)
        return Members.whole(context.ranks, 1) if listed is None else Members.group(listed, context.ranks)


def resolve(use: CollectiveUse, context: Context) -> Plan:
    """Decide chunks, phases and algorithms. Raises InputError for a collective that has no implementation."""
    members = context.groups.get(use.group)
    count = context.ranks if members is None else len(members)
    name = COLLECTIVE_KEYS[use.type]
    custom = context.system.per_node_custom.get(use.custom_node) or context.system.custom.get(name, "")
    everywhere = members is not None or use.involved is None or all(use.involved)
    if context.activities is not None and everywhere and count > 1 and not custom:
        matrix = context.matrices[use.matrix] if use.matrix >= 0 else None
        return _as_activity(use, members or tuple(range(context.ranks)), context.activities, matrix)
    if context.alone is not None and everywhere and count > 1 and not custom and use.type != Collective.BARRIER:
        return _as_library_messages(use, members or tuple(range(context.ranks)), context.alone, context)
    if use.matrix >= 0 and not custom:
        return Plan(use, 1, (), context.matrices[use.matrix].programs(members or tuple(range(context.ranks))))
    if context.channels is not None and everywhere and count > 1 and not custom:
        flat = _flat(use, members or tuple(range(context.ranks)), name, context.channels, context)
        if flat is not None:
            return flat
    lines = None if custom or members is None else _lines(use, members, context)
    chunk, chunks = _chunks(use, context.ranks if lines is None else count, context)
    if count == 1 or chunks == 0:
        return Plan(use, 0, ())
    if custom:
        if chunks != 1:
            context.notes.warn(
                f"the custom {name} runs once for the whole collective: preferred-dataset-splits is not 1"
            )
        programs = custom_programs(
            custom,
            use.type,
            list(members or range(context.ranks)),
            use.size_bytes,
            lambda size: pass_ns(size, context.system.local_mem_bw),
            context.notes,
            to_itself=context.carries_messages_to_itself,
        )
        return Plan(use, 1, (), programs)
    algorithms = _implementations(use.type, name, context)
    if lines is not None:
        phases = _phases(use, chunk, algorithms, lines, context)
    elif members is not None and count < context.ranks:
        phases = _group_phases(use, chunk, members, algorithms, context)
    else:
        phases = _default_phases(use, chunk, algorithms, context, everyone=members is not None)
    if not phases:
        return Plan(use, 0, ())
    return Plan(use, chunks, tuple(phases))


def _as_activity(use: CollectiveUse, members: tuple[int, ...], activities: Activities, matrix: Matrix | None) -> Plan:
    if KINDS[use.type].rooted and use.root >= 0:
        _root_index(use, members)
    if not use.size_bytes and KINDS[use.type].in_place and use.type != Collective.BARRIER:
        return Plan(use, 0, ())
    number = activities.number_of(use.type, use.root, members, use.size_bytes, matrix)
    return Plan(use, 1, (), activity=number)


def _as_library_messages(
    use: CollectiveUse, members: tuple[int, ...], activities: Activities, context: Context
) -> Plan:
    """As the messages that the machine's library sends."""
    assert context.channels is not None
    if not use.size_bytes:
        return Plan(use, 0, ())
    matrix = context.matrices[use.matrix] if use.matrix >= 0 else None
    root = use.root if use.root >= 0 else members[0]
    _root_index(replace(use, root=root), members)
    number = activities.number_of(use.type, root, members, use.size_bytes, matrix)
    pattern = activities.pattern(number)
    if context.unswitched is not None and is_switched(pattern):
        activities = context.unswitched
        number = activities.number_of(use.type, root, members, use.size_bytes, matrix)
        pattern = _without_switches(activities, number, pattern, context)
    refuse_switched(pattern)
    course = course_of_messages(activities, number, use.size_bytes)
    if not sends_round(pattern, use.type):
        return Plan(use, 1, (), programs_of(pattern, use.type, course, activities, context.channels))
    orders = course.hops.source.reshape(pattern.channels, len(members))
    routes = activities.routes_of(course.hops).scaled(pattern.wire)
    latency_ns = course.startup_ns / course.hops.steps
    first = context.channels.add_rings(ChannelRings(orders, routes), latency_ns, float(course.cap[0]))
    return _on_rings(use, Rings(orders, first), RING, root, 1, context)


def _without_switches(activities: Activities, number: int, asked: Pattern, context: Context) -> Pattern:
    """What the library runs where switches cannot add up, told. Raises InputError where nothing else may be chosen."""
    try:
        pattern = activities.pattern(number)
    except InputError:
        return asked
    if not is_switched(pattern):
        context.notes.warn(
            f"the library would run some collectives by {asked.algorithm}, in which switches add up: packets know no "
            f"such sums, so that these run as without it, by {pattern.algorithm}"
        )
    return pattern


def _flat(use: CollectiveUse, members: tuple[int, ...], name: str, channels: Channels, context: Context) -> Plan | None:
    """On a graph of links, rings and direct messages go over all members at once, on the rings of their channels, as
    they do as one activity; None for other algorithms, which have a phase for each dimension."""
    algorithms = set(_implementations(use.type, name, context))
    algorithm = algorithms.pop()
    if algorithms or algorithm.name not in (RING.name, "direct"):
        return None
    if not use.size_bytes and use.type != Collective.BARRIER:
        return Plan(use, 0, ())
    on_rings = algorithm.name == RING.name and not KINDS[use.type].of_pairs
    rings = channels.of(members) if on_rings else Rings(np.array([members], np.int32))
    root = use.root if use.root >= 0 else members[0]
    _root_index(replace(use, root=root), members)
    return _on_rings(use, rings, algorithm, root, context.system.preferred_dataset_splits, context)


def _on_rings(use: CollectiveUse, rings: Rings, algorithm: Algorithm, root: int, splits: int, context: Context) -> Plan:
    """So many chunks on each ring."""
    members = tuple(rings.orders[0].tolist())
    pieces = max(splits * len(rings.orders), 1)
    least = 1 if KINDS[use.type].size_is_part else len(members)
    chunk = max(-(-use.size_bytes // pieces), least)
    chunks = -(-use.size_bytes // chunk) if use.size_bytes else 1
    phases = tuple(
        _phase(
            use.type,
            algorithm,
            0,
            at.QUEUE_ZERO,
            Members.group(order, context.ranks),
            chunk,
            order.index(root),
            use,
            context,
        )
        for order in map(tuple, rings.orders.tolist())
    )
    return Plan(use, chunks, phases[:1], rings=phases, first_way=rings.first_way)


def _chunks(use: CollectiveUse, ranks: int, context: Context) -> tuple[int, int]:
    """Chunk size and number of chunks; a remainder makes one more chunk of full size (8.6).

    ``ranks`` are those of the network, which the reference takes in groups, too.
    """
    if use.type == Collective.BARRIER:
        return 0, 1
    splits = context.system.preferred_dataset_splits
    size = use.size_bytes
    chunk = size // splits
    if KINDS[use.type].size_is_part:
        if chunk == 0:
            return 0, 0
    elif ranks > chunk:
        if size == 0:
            context.notes.warn(
                "a collective of 0 bytes takes the time of ASTRA-sim's minimum size (splits times ranks bytes)"
            )
        chunk = ranks
        size = splits * ranks
    chunks = -(-size // chunk)
    if chunks > MAX_CHUNKS:
        raise InputError(
            f"a collective is cut into {chunks} chunks",
            expected=f"at most {MAX_CHUNKS}",
            remedy="lower preferred-dataset-splits",
        )
    return chunk, chunks


def _implementations(collective: Collective, name: str, context: Context) -> tuple[Algorithm, ...]:
    found = context.system.implementations.get(name, ())
    if found:
        return found
    if collective in WITHOUT_REFERENCE:
        return (RING,)
    if collective == Collective.REDUCE_SCATTER_BLOCK:
        return context.system.implementations.get("reduce-scatter") or (RING,)
    raise InputError(
        f"the system configuration names no implementation for {name}",
        place=f"$.{name}-implementation",
        expected="a list with one algorithm per network dimension",
        remedy=f'add "{name}-implementation": ["ring"]',
    )


def _group_phases(
    use: CollectiveUse, chunk: int, listed: tuple[int, ...], algorithms: tuple[Algorithm, ...], context: Context
) -> list[Phase]:
    """A group smaller than the system: one ring over the members in listed order, on the queues of dimension 0."""
    algorithm = algorithms[0] if len(algorithms) == 1 else RING
    members = Members.group(listed, context.ranks)
    root = 0 if use.root < 0 else _root_index(use, listed)
    split = use.type == Collective.ALL_REDUCE and context.system.collective_optimization == "localBWAware"
    rule = at.QUEUE_FIRST if split else at.QUEUE_NEXT
    return [_phase(use.type, algorithm, 0, rule, members, chunk, root, use, context)]


def _root_index(use: CollectiveUse, listed: tuple[int, ...]) -> int:
    if use.root not in listed:
        raise InputError(f"the root of a collective is not in its group {use.group}", found=f"rank {use.root}")
    return listed.index(use.root)


def _default_phases(
    use: CollectiveUse, chunk: int, algorithms: tuple[Algorithm, ...], context: Context, *, everyone: bool
) -> list[Phase]:
    """All ranks: one phase per dimension, or reduce-scatters up and all-gathers down for a split all-reduce (8.7)."""
    if use.type in WITHOUT_REFERENCE:
        ring = Members.whole(context.ranks, 1)
        root = max(use.root, 0)
        if root >= context.ranks:
            raise InputError("the root of a collective does not exist", found=f"rank {root}")
        return [_phase(use.type, algorithms[0], 0, at.QUEUE_NEXT, ring, chunk, root, use, context)]
    rings = _rings(algorithms, context)
    given = (True,) * len(rings) if everyone else use.involved
    involved = (True,) * DEFAULT_INVOLVED_DIMS if given is None else given
    if len(rings) > len(involved):
        context.notes.warn(
            f"collectives take part only in the first {len(involved)} dimensions"
            + (" (without involved_dim ASTRA-sim assumes four)" if use.involved is None else "")
        )
    lines = {d: ring for d, ring in enumerate(rings[: len(involved)]) if involved[d]}
    return _phases(use, chunk, algorithms, lines, context)


def _phases(
    use: CollectiveUse, chunk: int, algorithms: tuple[Algorithm, ...], lines: Mapping[int, Members], context: Context
) -> list[Phase]:
    """The phases over lines by dimension; a line of one rank has none."""
    active = [d for d, line in lines.items() if line.count > 1]
    steps: list[tuple[Collective, int, int]] = []
    if use.type == Collective.ALL_REDUCE and context.system.collective_optimization == "localBWAware" and active:
        steps += [(Collective.REDUCE_SCATTER, d, at.QUEUE_FIRST) for d in active[:-1]]
        steps += [(Collective.ALL_REDUCE, active[-1], at.QUEUE_FIRST)]
        steps += [(Collective.ALL_GATHER, d, at.QUEUE_LAST) for d in reversed(active[:-1])]
    else:
        dims = reversed(active) if use.type == Collective.ALL_GATHER else active
        steps += [(use.type, d, at.QUEUE_NEXT) for d in dims]
    phases = []
    for collective, d, rule in steps:
        phase = _phase(collective, algorithms[d], d, rule, lines[d], chunk, 0, use, context)
        chunk = phase.schedules[0].final_bytes
        phases.append(phase)
    return phases


def _rings(algorithms: tuple[Algorithm, ...], context: Context) -> list[Members]:
    """Each dimension's ring; an algorithm that takes all ranks at once ends the list (8.3)."""
    rings = []
    stride = 1
    for algorithm, count in zip(algorithms, context.network.npus_count, strict=False):
        if algorithm.spans_all_ranks:
            rings.append(Members.whole(context.ranks, 1))
            return rings
        rings.append(Members.whole(count, stride))
        stride *= count
    return rings


def _lines(use: CollectiveUse, members: tuple[int, ...], context: Context) -> dict[int, Members] | None:
    """By dimension that a group spans, its members there, where it gets its dimensions; None where it is one ring."""
    if not context.protocol.group_dimensions or len(members) in (1, context.ranks) or use.type in WITHOUT_REFERENCE:
        return None
    algorithms = _implementations(use.type, COLLECTIVE_KEYS[use.type], context)
    lines = product_of(members, context.network.npus_count)
    if lines is None or max(lines) >= len(algorithms) or any(algorithms[d].spans_all_ranks for d in lines):
        return None
    return lines


def product_of(members: tuple[int, ...], npus_count: Sequence[int]) -> dict[int, Members] | None:
    """By dimension that a group spans, its members there; None unless it has every combination of their coordinates."""
    ranks = np.array(members, np.int64)
    lines = {}
    stride = 1
    for dim, count in enumerate(npus_count):
        places = tuple(np.unique(ranks // stride % count).tolist())
        if len(places) > 1:
            lines[dim] = Members(len(places), stride, count, places if len(places) < count else ())
        stride *= count
    return lines if prod(line.count for line in lines.values()) == len(members) else None


def _phase(
    collective: Collective,
    algorithm: Algorithm,
    dim: int,
    rule: int,
    members: Members,
    data_bytes: int,
    root: int,
    use: CollectiveUse,
    context: Context,
) -> Phase:
    if data_bytes > TOO_LARGE // members.count:
        raise InputError("a collective moves too much", found=f"{data_bytes} bytes on {members.count} ranks")
    schedules = _schedules(collective, algorithm, members, data_bytes, root, context)
    tree = traits_of(algorithm.name).alternates
    counter = int(use.type) * len(context.network.npus_count) + dim if tree else -1
    return Phase(
        collective,
        algorithm.name,
        dim,
        rule,
        counter,
        members,
        schedules,
        data_bytes,
    )


def _schedules(
    collective: Collective, algorithm: Algorithm, members: Members, data_bytes: int, root: int, context: Context
) -> tuple[Schedule, Schedule]:
    """Both variants of a phase, built once for all groups of a size."""
    parameters = tuple(sorted(dict(algorithm.parameters).items()))
    key = (collective, algorithm.name, algorithm.window, parameters, members.count, members.local, data_bytes, root)
    if key in context.schedules:
        return context.schedules[key]
    tree = traits_of(algorithm.name).alternates
    one, other = (
        build(
            algorithm.name,
            Request(
                collective,
                members.count,
                data_bytes,
                clockwise=tree or variant == 0,
                window=algorithm.window,
                local=members.local,
                variant=variant,
                root=root,
                shared_bus=context.system.model_shared_bus,
                parameters=dict(algorithm.parameters),
            ),
        )
        for variant in (0, 1)
    )
    for row in (row for schedule in (one, other) for program in schedule.programs for row in program.rows):
        if row.reduce:  # refused here, where the node that asks is known
            pass_ns(row.bundle_bytes, context.system.local_mem_bw)
    return context.schedules.setdefault(key, (one, other))


def pass_ns(size_bytes: int, local_mem_bw: float) -> int:
    """One pass over local memory, truncated to ns; free without a bandwidth. Raises InputError for too long a time."""
    if local_mem_bw == 0:
        return 0
    spent_ns = size_bytes / local_mem_bw * 1e9
    if not spent_ns < MAX_PASS_NS:
        raise InputError(
            "a reduction is beyond the clock's range",
            found=f"{size_bytes} bytes at {local_mem_bw:g} B/s of local memory",
            expected="less than 2^60 ns",
            remedy="raise local-mem-bw (in a machine file, the bandwidth of memory)",
        )
    return int(spent_ns)
