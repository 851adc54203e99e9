"""Fills the arena: header, network, graphs, plans, and the state of every simulated rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.simulator.arena.builder import ArenaBuilder
from chakrasim.simulator.checks.wholes import most_task_ns
from chakrasim.simulator.context import Context
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.clock import EXACT_WORDS, LEVEL_WORDS
from chakrasim.simulator.kernels.routes import dim_words
from chakrasim.simulator.kernels.symmetry import DIGIT_WORDS
from chakrasim.simulator.kernels.wholes import SCRATCH_WORDS
from chakrasim.simulator.lowering.graph import Graph
from chakrasim.simulator.lowering.plans import Plan
from chakrasim.simulator.lowering.sharing import by_columns
from chakrasim.simulator.lowering.writer import PlanWriter

Ints = NDArray[np.int64]

MEMORY_KINDS = {
    "NO_MEMORY_EXPANSION": at.NO_REMOTE,
    "PER_NPU_MEMORY_EXPANSION": at.PER_NPU,
    "PER_NODE_MEMORY_EXPANSION": at.PER_NODE,
    "MEMORY_POOL": at.POOL,
}
MODELS = {"unaware": at.UNAWARE, "aware": at.AWARE, "flow": at.FLOW, "packet": at.PACKET}
LOWER_BUS_GAP = 0.0038
WORDS_PER_DELAY = 24
"""More than a node of a replay takes."""
WORDS_PER_OPERATION = 120
"""More than any operation, bundle or receive takes from the arena."""


@dataclass(frozen=True)
class Digit:
    """A digit of the rank number in mixed radix; a folded one may be shifted without changing the simulation."""

    stride: int
    radix: int
    folded: bool


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the pieces of a built arena stand: simulated ranks in order, and their graphs."""

    ranks: Ints
    graphs: tuple[Graph, ...]
    graph_of: Ints
    """Index into ``graphs`` by slot."""
    ports: tuple[int, ...]
    """First port of each dimension, and the total at the end."""


def build(
    context: Context,
    graphs: Sequence[Graph],
    graph_of_rank: Ints,
    plans: Sequence[Sequence[Plan]],
    digits: Sequence[Digit],
    group_keys: dict[int, int],
    record: bool,
    wholes: bool = False,
) -> tuple[Ints, Layout]:
    """The arena of one simulation.

    ``plans[g][u]`` is graph g's plan for its u-th collective use; ``digits`` are empty for a run of all ranks.
    ``wholes``: rings are reckoned as wholes.
    """
    arena = ArenaBuilder()
    ranks = np.unique(representatives(context.ranks, digits))
    words = ranks.size * int(max((len(g) for g in graphs), default=0))
    if words > context.limits.max_nodes:
        raise InputError(
            f"the simulation would run about {words} nodes on {ranks.size} ranks",
            expected=f"at most {context.limits.max_nodes}",
            remedy="raise the limit (max_nodes) if the machine has the memory",
        )
    header: dict[int, int] = {}
    ports = _network(arena, context, header, ranks.size)
    _clock(arena, header, ranks.size)
    writer = PlanWriter(arena, context)
    meetings = arena.add([word for missing in context.meetings for word in (missing, 0)])
    graph_of = graph_of_rank[ranks]
    used = np.unique(graph_of).tolist()
    places: dict[int, int] = {}
    own = {g: _own_table(arena, graphs[g], plans[g], writer, group_keys, places) for g in used}
    nodes = dict(zip(used, by_columns([graphs[g] for g in used], lambda g: _nodes(arena, g, meetings)), strict=True))
    _slots(arena, context, header, ranks, graphs, graph_of, nodes, own, record, writer.most_rings)
    _symmetry(arena, header, context.ranks, ranks, digits)
    header[at.STREAM_SIZE] = at.STREAM_FIXED + 2 * writer.max_phases
    simulated = [graphs[g] for g in used]
    header[at.RESERVE] = _reserve(context, simulated, [plans[g] for g in used], header[at.STREAM_SIZE])
    _options(context, header)
    if wholes:
        _wholes(arena, context, header, [plans[g] for g in used])
    if context.issue == "streams":
        header[at.STREAMS] = 1
        header[at.GROUP_DIMS] = _dims(context, writer.most_rings)
        header[at.MOST_HELD] = at.WHOLE * (context.processors - 1) // context.processors
    header[at.REALS] = arena.add(_reals(context).view(np.int64))
    _check_size(arena.top + header[at.RESERVE], context)
    room = max(0, min(arena.top // 4, context.limits.arena_bytes // 8 - arena.top))  # takes no memory before it is used
    m = arena.build(header[at.RESERVE] + 8 * header[at.INDEX_MASK] + (1 << 16) + room)
    for field, value in header.items():
        m[field] = value
    return m, Layout(ranks, tuple(graphs), graph_of, ports)


def _check_size(words: int, context: Context) -> None:
    if words * 8 > context.limits.arena_bytes:
        raise InputError(
            f"the simulation needs {words * 8 / 2**20:,.1f} MiB of memory",
            expected=f"at most {context.limits.arena_bytes / 2**20:,.1f} MiB",
            remedy="cut collectives into fewer chunks, simulate fewer ranks, or raise the limit (max_bytes)",
        )


def _reals(context: Context) -> NDArray[np.float64]:
    """Latency and bytes per ns of each dimension, then the gap per byte of the upper and of the lower bus."""
    network = context.network
    dims = np.stack([np.array(network.latency_ns, np.float64), np.array(network.bytes_per_ns)], axis=1)
    return np.concatenate([dims.reshape(-1), [context.system.G, LOWER_BUS_GAP]])


def representatives(ranks: int, digits: Sequence[Digit]) -> Ints:
    """By rank: the rank that is simulated for it, all of whose folded digits are zero."""
    every = np.arange(ranks)
    return every - sum(every // d.stride % d.radix * d.stride for d in digits if d.folded)


def _network(arena: ArenaBuilder, context: Context, header: dict[int, int], slots: int) -> tuple[int, ...]:
    table = []
    ports = [0]
    stride = 1
    for kind, count in zip(context.network.kinds, context.network.npus_count, strict=True):
        number, *addresses = dim_words(kind)
        table += [count, stride, number, ports[-1], kind.ports(count), *addresses]
        ports.append(ports[-1] + kind.ports(count))
        stride *= count
    header[at.DIMS] = len(context.network.topology)
    header[at.DIM_TABLE] = arena.add(table)
    header[at.NETWORK] = MODELS[context.network_model]
    header[at.PORTS] = ports[-1]
    if context.aware:
        if slots * ports[-1] * at.LINK_WORDS * 8 > context.limits.arena_bytes:
            raise InputError(f"the network has {slots * ports[-1]} links", remedy="raise the limit (max_bytes)")
        links = np.zeros((slots, ports[-1], at.LINK_WORDS), np.int64)
        for d in range(len(ports) - 1):
            links[:, ports[d] : ports[d + 1], at.LINK_DIM] = d
        links[:, :, at.LINK_LAST_TIME] = -1
        header[at.LINK_TABLE] = arena.add(links)
    return tuple(ports)


def _clock(arena: ArenaBuilder, header: dict[int, int], slots: int) -> None:
    header[at.WHEEL] = arena.zeros(2 * at.EXACT)
    header[at.WHEEL_UP] = arena.zeros(2 * at.LEVELS * at.LEVEL)
    header[at.WHEEL_BITS] = arena.zeros(EXACT_WORDS + at.LEVELS * LEVEL_WORDS)
    size = 1 << max(10, (8 * slots).bit_length())
    header[at.INDEX] = arena.zeros(size)
    header[at.INDEX_MASK] = size - 1


def _own_table(
    arena: ArenaBuilder,
    graph: Graph,
    plans: Sequence[Plan],
    writer: PlanWriter,
    group_keys: dict[int, int],
    places: dict[int, int],
) -> int:
    """Write what ranks of equal columns do not share: the plans of the collectives (0: done at once), the peers.

    ``places`` says of plans that are written where they stand, and gets the others.
    """
    for plan in plans:
        if id(plan) not in places:
            places[id(plan)] = writer.write(plan, group_keys[plan.group]) if plan.chunks else 0
    return arena.add([*(places[id(plan)] for plan in plans), *graph.peers.tolist()])


def _nodes(arena: ArenaBuilder, graph: Graph, meetings: int) -> int:
    """Write a graph's static nodes. ``meetings`` is the first meeting's place."""
    nodes = np.zeros((len(graph), at.NODE_WORDS), np.int64)
    a = graph.a.copy()
    met = graph.kind == at.RUN_MEETING
    a[met] = meetings + a[met] * at.MEETING_WORDS
    a[(graph.kind == at.RUN_SEND) | (graph.kind == at.RUN_RECV)] += len(graph.uses)
    children = arena.add(graph.children)
    nodes[:, at.NODE_KIND] = graph.kind
    nodes[:, at.NODE_CLASS] = graph.resource
    nodes[:, at.NODE_CATEGORY] = graph.category
    nodes[:, at.NODE_ROLE] = graph.role
    nodes[:, at.NODE_CHILDREN] = children + graph.child_offsets[:-1]
    nodes[:, at.NODE_CHILDREN_END] = children + graph.child_offsets[1:]
    nodes[:, at.NODE_A] = a
    nodes[:, at.NODE_B] = graph.b
    nodes[:, at.NODE_C] = graph.c
    nodes[:, at.NODE_D] = graph.d
    return arena.add(nodes)


def _dims(context: Context, most_rings: int) -> int:
    """Dimensions that have queues: those of the network, or rings side by side."""
    return max(len(context.network.npus_count), most_rings)


def _state_template(
    graph: Graph, context: Context, record: bool, most_rings: int
) -> tuple[Ints, dict[int, int], dict[int, int]]:
    """A rank's variable state: the words, the slot fields that point into them, and slot fields with plain values."""
    n = len(graph)
    dims = _dims(context, most_rings)
    blocks: list[Ints] = []
    pointers: dict[int, int] = {}
    values: dict[int, int] = {at.SLOT_NODE_COUNT: n, at.SLOT_LAST_TIME: -1}

    def add(field: int, block: Ints) -> None:
        pointers[field] = sum(map(len, blocks))
        blocks.append(block)

    free = graph.parents == 0
    values[at.SLOT_FREE] = int(free.sum())
    for resource in range(4):
        own = graph.resource == resource
        heap = np.zeros(int(own.sum()), np.int64)
        ready = np.flatnonzero(own & free)
        heap[: len(ready)] = ready
        add(at.SLOT_HEAPS + resource, heap)
        values[at.SLOT_HEAP_SIZE + resource] = len(ready)
    add(at.SLOT_WAITING, graph.parents)
    add(at.SLOT_PENDING, np.zeros(n, np.int64))
    if record:
        add(at.SLOT_STARTS, np.full(n, -1, np.int64))
        add(at.SLOT_ENDS, np.full(n, -1, np.int64))
        add(at.SLOT_ISSUED, np.zeros(n, np.int64))
    if context.issue == "streams":
        dims *= max(1, len(graph.groups))
        values[at.SLOT_ROLE_COUNT] = len(graph.roles)
        add(at.SLOT_ROLES, np.zeros(at.ROLE_WORDS * max(1, len(graph.roles)), np.int64))
    add(at.SLOT_QUEUES, np.zeros(at.QUEUE_WORDS * dims * context.protocol.num_queues_per_dim, np.int64))
    add(at.SLOT_DIM_COUNTERS, np.zeros(3 * dims, np.int64))
    add(at.SLOT_TREE_COUNTERS, np.zeros(10 * dims, np.int64))
    add(at.SLOT_SEQUENCES, np.zeros(max(1, len(graph.groups)), np.int64))
    if context.system.model_shared_bus:
        add(at.SLOT_BUS, np.zeros(4 * at.BUS_WORDS, np.int64))
    return np.concatenate(blocks), pointers, values


def _slots(
    arena: ArenaBuilder,
    context: Context,
    header: dict[int, int],
    ranks: Ints,
    graphs: Sequence[Graph],
    graph_of: Ints,
    nodes: dict[int, int],
    own: dict[int, int],
    record: bool,
    most_rings: int,
) -> None:
    """Write the state of every simulated rank; ``nodes`` and ``own`` say by graph where its static parts stand."""
    slots = np.zeros((len(ranks), at.SLOT_WORDS), np.int64)
    slots[:, at.SLOT_RANK] = ranks
    slots[:, at.SLOT_START] = [context.starts.get(rank, 0) for rank in ranks.tolist()]
    slots[:, at.SLOT_NODES] = [nodes[g] for g in graph_of.tolist()]
    slots[:, at.SLOT_OWN] = [own[g] for g in graph_of.tolist()]
    header[at.SLOT_TABLE] = table = arena.add(slots)  # not copied: it is filled in from here on
    shared = np.array([id(graphs[g].columns) for g in graph_of.tolist()], np.int64)
    for first in np.sort(np.unique(shared, return_index=True)[1]).tolist():
        members = np.flatnonzero(shared == shared[first])
        template, pointers, values = _state_template(graphs[graph_of[first]], context, record, most_rings)
        starts = arena.top + np.arange(len(members)) * len(template)
        if at.SLOT_BUS in pointers:
            state = np.tile(template, (len(members), 1))
            _wire_buses(state, pointers[at.SLOT_BUS], starts, table + members * at.SLOT_WORDS)
            arena.add(state)
        else:
            arena.copies(template, len(members))
        for field, offset in pointers.items():
            slots[members, field] = starts + offset
        for field, value in values.items():
            slots[members, field] = value
    header[at.SLOTS] = len(ranks)
    header[at.FINISH_ORDER] = arena.zeros(len(ranks))
    servers = 0
    if context.memory.kind == "MEMORY_POOL":
        servers = 1
    elif context.memory.kind == "PER_NODE_MEMORY_EXPANSION":
        servers = -(-context.ranks // context.memory.num_npus_per_node)
    header[at.SERVERS] = arena.zeros(servers * at.SERVER_WORDS)


def _wire_buses(state: Ints, offset: int, starts: Ints, slots: Ints) -> None:
    """Four endpoints a rank, whose slot stands at ``slots``: NPU and memory side of the upper bus, the same of the
    lower."""
    first = starts + offset
    for side, (partner, lower, kind) in enumerate(((1, 2, 0), (0, -1, 0), (3, -1, 1), (2, -1, 1))):
        words = offset + side * at.BUS_WORDS
        state[:, words + at.BUS_PARTNER] = first + partner * at.BUS_WORDS
        state[:, words + at.BUS_LOWER] = first + lower * at.BUS_WORDS if lower >= 0 else 0
        state[:, words + at.BUS_LOWER_KIND] = kind
        state[:, words + at.BUS_SLOT] = slots


def _symmetry(
    arena: ArenaBuilder, header: dict[int, int], ranks: int, simulated: Ints, digits: Sequence[Digit]
) -> None:
    header[at.RANKS] = ranks
    folded = len(simulated) < ranks
    header[at.FOLDED] = int(folded)
    header[at.EVENT_WORDS] = 6 if folded else 4
    # Order 0 is that of the first issue passes, before all events.
    header[at.SCHEDULED] = 1
    if folded:
        slot_of = np.full(ranks, -1, np.int64)
        slot_of[simulated] = np.arange(len(simulated))
        header[at.SLOT_OF] = arena.add(slot_of)
        table = np.array([[d.stride, d.radix, int(d.folded)] for d in digits], np.int64)
        assert table.shape[1] == DIGIT_WORDS
        header[at.DIGITS] = len(digits)
        header[at.DIGIT_TABLE] = arena.add(table)


def _wholes(arena: ArenaBuilder, context: Context, header: dict[int, int], plans: Sequence[Sequence[Plan]]) -> None:
    """Let rings be reckoned as wholes, in a run of all ranks: events say when they were scheduled."""
    phases = [plan.phases[0] for own in plans for plan in own if plan.chunks]
    most = max((phase.members.count for phase in phases), default=0)
    header[at.WHOLES] = 1
    header[at.EVENT_WORDS] = at.EVENT_SINCE + 1
    header[at.SCRATCH] = arena.zeros(SCRATCH_WORDS * most)
    header[at.RESERVE] += 16 * most
    header[at.MOST_TASK_NS] = most_task_ns(phases, context)


def _options(context: Context, header: dict[int, int]) -> None:
    system = context.system
    header[at.RUNNING_LIMIT] = context.running_limit
    header[at.QUEUES_PER_DIM] = context.protocol.num_queues_per_dim
    header[at.ENDPOINT_NS] = system.scaled_endpoint_delay_ns(context.protocol.injection_scale)
    header[at.RENDEZVOUS] = int(context.protocol.rendezvous)
    header[at.MEMORY_KIND] = MEMORY_KINDS[context.memory.kind]
    header[at.RANKS_PER_SERVER] = max(1, context.memory.num_npus_per_node)
    header[at.SHARED_BUS] = int(system.model_shared_bus)
    header[at.BUS_L] = system.L
    header[at.BUS_O] = system.o
    header[at.BUS_G_GAP] = system.g
    header[at.BUS_REDUCTION] = system.local_reduction_delay


def _reserve(context: Context, graphs: Sequence[Graph], plans: Sequence[Sequence[Plan]], stream_words: int) -> int:
    """Words that one event can take from the arena, at most: what it issues on two ranks."""
    queues = context.running_limit * context.protocol.num_queues_per_dim
    most = 0
    if context.replay is not None:
        return 2 * (max(map(_burst, graphs), default=0) + context.ranks + 64) * WORDS_PER_DELAY
    streams = context.issue == "streams"
    for graph, own in zip(graphs, plans, strict=True):
        receives = _burst(graph) if streams else int((graph.resource == at.RECV).sum())
        collective = 0
        for plan in own:
            programs = [p for phase in plan.phases for s in phase.schedules for p in s.programs]
            start = max((p.initial_bundles + len(p.start_ops) for p in programs), default=0)
            burst = max((p.gate_burst * max(len(row.ops) for row in p.rows) for p in programs), default=0)
            running = min(plan.chunks, 2 * queues * max(1, len(plan.phases)))
            collective = max(collective, plan.chunks * stream_words + (running * start + burst) * WORDS_PER_OPERATION)
        at_once = min(receives, max(1, len(graph.groups))) if streams else 1
        most = max(most, receives * WORDS_PER_OPERATION + at_once * collective)
    # A pass over a custom graph takes its nodes and its list of free ones.
    longest = max((len(program) for own in plans for plan in own for program in plan.programs), default=0)
    custom = 2 * longest * (WORDS_PER_OPERATION + 2) + at.CSTATE_FREE_LIST if longest else 0
    return 2 * most + 64 * WORDS_PER_OPERATION + custom


def _burst(graph: Graph) -> int:
    """Nodes that one event can set free, at most: at the start, or by the end of a node."""
    return max(int((graph.parents == 0).sum()), int(np.diff(graph.child_offsets).max(initial=0)))
