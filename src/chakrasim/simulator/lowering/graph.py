"""From a trace to a graph that the engine runs: nodes in order of their ids, what each does, who waits for whom.

Sections 6 and 7 of astra-system.md say what the reference does with each type of node; where it would abort, the
trace is refused here with the node's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives import Collective
from chakrasim.machine.memory import REMEDY
from chakrasim.simulator.context import Context
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.reach import count_reachable
from chakrasim.simulator.lowering.attributes import TOO_LARGE, required, scaled
from chakrasim.simulator.lowering.communication import CollectiveUse, collectives, messages
from chakrasim.simulator.lowering.compute import compute_ns, modelled, recorded_ns, warn_of_silent, warn_of_untimed
from chakrasim.simulator.lowering.measured import measured
from chakrasim.simulator.lowering.streams import (
    LONGEST_NS,
    Communication,
    Lines,
    followers,
    launches,
    line_between,
    lines_of,
    roles_of,
    suffering,
)
from chakrasim.trace import NodeType, Trace
from chakrasim.trace.chakra.graph import offsets_of
from chakrasim.trace.chakra.refusal import refuse, refuse_where

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Graph:
    """A trace, lowered. Node numbers count in ascending order of ids.

    ``a`` of a collective is its index in ``uses``, ``b`` its group's index in ``groups``, ``a`` of a message its index
    in ``peers``; else as in ``layout.NODE_A``. ``groups`` and ``peers`` are in order of first use, and ``uses`` in the
    order of these, so that ranks that do the same in different groups have equal columns.
    """

    trace: Trace
    order: Ints
    kind: Ints
    resource: Ints
    category: Ints
    a: Ints
    b: Ints
    c: Ints
    d: Ints
    child_offsets: Ints
    children: Ints
    parents: Ints
    uses: tuple[CollectiveUse, ...]
    groups: tuple[int, ...]
    peers: Ints
    """Ranks; where ``peer_roles`` is not 0, positions in the group of that role."""
    peer_roles: Ints
    own_rank: dict[int, int]
    """Nodes that name their own rank: node number -> rank."""
    replayed: int
    """Broadcasts that take their recorded duration."""
    latencies: int
    """Nodes with a measured latency (``delay_ns``) that is left out, as ASTRA-sim does: only replays wait it."""
    role: Ints
    """Where streams run side by side: index into ``roles`` of what each communication is for."""
    roles: tuple[str, ...] = ()
    skipped: int = 0
    """The same: nodes without an operation, which take no time."""
    shared: Graph | None = None
    """The graph from which this one differs in ``uses``, ``groups`` and ``peers`` only, before roles were filled in."""

    def __len__(self) -> int:
        return len(self.order)

    @property
    def columns(self) -> Graph:
        """The one graph that stands for all with the same columns."""
        return self.shared or self

    def place(self, number: int) -> str:
        """A node's name for messages."""
        return self.trace.place(int(self.order[number]))

    def first_call(self, use: int) -> int:
        """The first node that asks for a collective of ``uses``; 0 if none does."""
        return int(((self.kind == at.RUN_COLLECTIVE) & (self.a == use)).argmax())

    def refuse(self, number: int, message: str, **details: Any) -> NoReturn:
        """Raise an InputError about a node; ``details`` are what was found, what was expected, and a remedy."""
        refuse(self.trace, int(self.order[number]), message, **details)

    def peer(self, number: int) -> int:
        """The rank at the other end of a message."""
        return int(self.peers[self.a[number]])


def lower_graph(trace: Trace, context: Context) -> Graph:
    """Check a trace and turn it into a graph. Raises InputError with the node at fault."""
    order = np.argsort(trace.ids, kind="stable").astype(np.int64)
    ids = trace.ids[order]
    repeated = np.flatnonzero(ids[1:] == ids[:-1])
    if len(repeated):
        refuse(trace, int(order[repeated[0] + 1]), f"two nodes have the id {int(ids[repeated[0]])}")
    pairs = _dependencies(trace, order, ids)
    actions = _Actions(trace, context)
    actions.fill()
    lines: list[Lines] = []
    if context.issue == "streams":
        lines = lines_of(trace, actions.column, order, actions.cpu, actions.communication())
        before, after = followers(trace, actions.column, order, lines)
        number = _numbers(order)
        pairs = np.unique(np.concatenate([pairs, number[before] * len(trace) + number[after]]))
    offsets, children, parents = _children(trace, order, pairs, lines)
    kind, resource, category, a, b, c, d, role = actions.columns.take(order, axis=1)  # each of them contiguous
    return Graph(
        trace,
        order,
        kind,
        resource,
        category,
        a,
        b,
        c,
        d,
        offsets,
        children,
        parents,
        actions.uses,
        actions.groups,
        actions.peers,
        actions.peer_roles,
        {int(np.searchsorted(ids, trace.ids[node])): rank for node, rank in actions.own_rank.items()},
        actions.replayed,
        0 if context.replay else int(np.count_nonzero(trace.attr("delay_ns").bits)),
        role,
        actions.roles,
        actions.skipped,
    )


def _numbers(order: Ints) -> Ints:
    """By position in the trace: the number of the node."""
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    return number


def _dependencies(trace: Trace, order: Ints, ids: NDArray[np.uint64]) -> Ints:
    """Who depends on whom, parent's number * nodes + child's; data and control dependencies count alike."""
    n = len(ids)
    number = _numbers(order)
    wants = []
    for deps in (trace.data_deps, trace.ctrl_deps):
        node = np.repeat(np.arange(n), np.diff(deps.offsets))
        parent = np.searchsorted(ids, deps.targets)
        known = parent < n
        known[known] = ids[parent[known]] == deps.targets[known]
        missing = np.flatnonzero(~known)
        if len(missing):
            at_node = int(node[missing[0]])
            refuse(trace, at_node, f"depends on node {int(deps.targets[missing[0]])}, which does not exist")
        wants.append(parent.astype(np.int64) * n + number[node])
    return np.unique(np.concatenate(wants)) if n else np.zeros(0, np.int64)


def _children(trace: Trace, order: Ints, pairs: Ints, lines: Sequence[Lines]) -> tuple[Ints, Ints, Ints]:
    """Children in CSR form and the number of parents, by node number. Raises InputError for a cycle."""
    n = len(order)
    parent, child = pairs // max(n, 1), pairs % max(n, 1)
    offsets = offsets_of(np.bincount(parent, minlength=n))
    parents = np.bincount(child, minlength=n).astype(np.int64)
    left = np.zeros(n, np.int64)
    if count_reachable(offsets, child, parents, left, np.zeros(n, np.int64)) < n:
        _report_cycle(trace, order, child, parent, left, lines)
    return offsets, child, parents


def _report_cycle(trace: Trace, order: Ints, child: Ints, parent: Ints, left: Ints, lines: Sequence[Lines]) -> None:
    """Walk up from a node that never becomes free, through parents that do not either, until one comes up again."""
    stuck_parent = {int(c): int(p) for c, p in zip(child, parent, strict=True) if left[c] > 0 and left[p] > 0}
    node = next(iter(stuck_parent))
    seen: dict[int, int] = {}
    while node not in seen:
        seen[node] = len(seen)
        node = stuck_parent[node]
    cycle = [n for n, at_step in seen.items() if at_step >= seen[node]][::-1]
    shown = [int(order[n]) for n in [*cycle[:8], cycle[0]]]
    names = " -> ".join(str(int(trace.ids[node])) for node in shown)
    more = f" (and {len(cycle) - 8} more)" if len(cycle) > 8 else ""
    hops = [(a, b, line_between(lines, a, b)) for a, b in pairwise(shown)]
    ordered = [f"{int(trace.ids[b])} follows {int(trace.ids[a])} ({line})" for a, b, line in hops if line]
    if not ordered:
        refuse(trace, shown[0], f"dependencies form a cycle: {names}{more}")
    refuse(
        trace,
        shown[0],
        f"dependencies and the order of ids on streams form a cycle: {names}{more}; {', '.join(ordered)}",
        remedy="number nodes in the order of the program, put them on other streams, or let the machine issue as "
        "ASTRA-sim does (issue: astra-sim)",
    )


class _Actions:
    """What each node does, by file order; filled type by type."""

    def __init__(self, trace: Trace, context: Context) -> None:
        n = len(trace)
        self.trace = trace
        self.column = cache(trace.attr)
        self.context = context
        self.columns = np.zeros((8, n), np.int64)
        self.kind, self.resource, self.category, self.a, self.b, self.c, self.d, self.role = self.columns
        self.kind[:], self.resource[:], self.category[:] = at.RUN_DELAY, at.COMM, at.CAT_NONE
        self.uses: tuple[CollectiveUse, ...] = ()
        self.groups: tuple[int, ...] = ()
        self.peers = self.peer_roles = np.zeros(0, np.int64)
        self.own_rank: dict[int, int] = {}
        self.replayed = self.skipped = 0
        self.roles: tuple[str, ...] = ()
        self.group = np.full(n, -1, np.int64)

    def fill(self) -> None:
        self._fill()
        if self.context.issue == "streams":
            self._side_by_side()

    def communication(self) -> Communication:
        """What streams go by."""
        messages = (self.kind == at.RUN_SEND) | (self.kind == at.RUN_RECV)
        return Communication(self.group, np.where(messages, self.a, -1))

    def _side_by_side(self) -> None:
        """Nodes hold no resource: their order is in the graph."""
        skipped = self.kind == at.RUN_SKIP
        self.skipped = int(skipped.sum())
        self.kind[skipped], self.category[skipped] = at.RUN_DELAY, at.CAT_NONE
        self.columns[3:7, skipped] = 0
        self.resource[:] = at.RECV
        works = np.flatnonzero((self.kind == at.RUN_DELAY) & (self.category == at.CAT_GPU))
        message = "the time is more than streams can count"
        refuse_where(self.a[works] >= LONGEST_NS, self.trace, message, nodes=works, expected="less than 2^46 ns")
        self.kind[works] = at.RUN_WORK
        self.c[works] = suffering(self.trace, self.column, works)
        self.d[:] = np.where(self.cpu, 0, launches(self.trace, self.column))
        groups, peers = np.zeros((2, len(self.kind)), np.int64)
        if self.groups:
            groups = np.where(self.group >= 0, np.array(self.groups, np.int64)[self.group], 0)
        if len(self.peers):
            peer = self.communication().peer
            peers = np.where(peer >= 0, self.peer_roles[peer], 0)
        self.role[:], self.roles = roles_of(self.trace, groups, peers, self.context)

    def _fill(self) -> None:
        types = self.trace.types
        unknown = (types < 0) | (types > int(NodeType.COMM_COLL_NODE))
        refuse_where(unknown, self.trace, "unknown node type", found=types.item, expected="0 to 7")
        self.cpu = self.column("is_cpu_op").integers() != 0
        comp = types == NodeType.COMP_NODE
        memory = (types == NodeType.MEM_LOAD_NODE) | (types == NodeType.MEM_STORE_NODE)
        comm = types >= int(NodeType.COMM_SEND_NODE)
        self.resource[comp] = at.GPU
        self.resource[types == NodeType.COMM_RECV_NODE] = at.RECV
        self.resource[self.cpu] = at.CPU
        self.category[comp] = np.where(self.cpu[comp], at.CAT_CPU, at.CAT_GPU)
        self.category[memory] = at.CAT_MEMORY
        self.category[comm] = at.CAT_COMM
        if self.context.replay is not None:
            self._replay_durations()
            return
        if self.context.system.replay_only:
            self._replay(np.ones(len(types), np.bool_), count_gpu=True)
            self._scale(comp)
            return
        self._compute(comp)
        self._scale(comp)
        self._memory(memory)
        refuse_where(
            comm & self.cpu,
            self.trace,
            "a communication node is marked as a CPU operation (is_cpu_op)",
            remedy="set is_cpu_op to false on communication nodes, or replay the trace ('replay-only': 1)",
        )
        self._messages(comm & (types != NodeType.COMM_COLL_NODE))
        self._collectives(types == NodeType.COMM_COLL_NODE)
        if self.context.common_start:  # what a rank starts later than the others takes no time
            offset = self.column("is_start_offset").integers() != 0
            self.kind[offset], self.a[offset], self.b[offset] = at.RUN_DELAY, 0, 0
        skipped = (types == NodeType.INVALID_NODE) | (types == NodeType.METADATA_NODE)
        self.kind[skipped] = at.RUN_SKIP

    def _replay_durations(self) -> None:
        """Every node takes its measured duration after its measured delay; nodes hold no resource (see `measured`)."""
        times = measured(self.trace, common_start=self.context.common_start)
        self.resource[:] = at.RECV
        self.a[:] = times.duration_ns
        self.c[:] = times.delay_ns
        self.b[:] = np.where(self.cpu | (self.category != at.CAT_GPU), 0, times.duration_ns)
        if self.context.replay == "transfer":
            nodes = np.flatnonzero(times.meeting >= 0)
            self.kind[nodes] = at.RUN_MEETING
            self.a[nodes] = times.meeting[nodes]
            self.b[nodes] = times.transfer_ns[nodes]

    def _replay(self, chosen: Mask, *, count_gpu: bool) -> None:
        """Nodes that take their recorded duration, or 1 ns where none is recorded; to the ns where that is stated."""
        runtime = recorded_ns(self.trace, self.column, np.flatnonzero(chosen))
        self.a[chosen] = runtime
        self.b[chosen] = np.where(self.cpu[chosen], 0, runtime) if count_gpu else 0

    def _compute(self, comp: Mask) -> None:
        by_model = modelled(self.trace, self.column, comp & ~self.cpu, self.context)
        warn_of_silent(self.trace, self.column, comp & ~self.cpu, self.context)
        warn_of_untimed(self.column, comp & ~self.cpu & ~by_model, self.trace.duration_micros, self.context)
        self._replay(comp & ~by_model, count_gpu=True)
        nodes = np.flatnonzero(by_model)
        if not len(nodes):
            return
        runtime, nothing = compute_ns(self.trace, self.column, nodes, self.context)
        self.a[nodes] = runtime
        self.b[nodes] = runtime
        self.kind[nodes[nothing]] = at.RUN_SKIP

    def _scale(self, comp: Mask) -> None:
        """Compute nodes take the time that the machine's factor makes of theirs; what a rank starts later is none."""
        factor = self.context.compute_scale
        if factor == 1.0:
            return
        nodes = np.flatnonzero(comp & (self.column("is_start_offset").integers() == 0))
        self.a[nodes], self.b[nodes] = scaled(self.a[nodes], factor), scaled(self.b[nodes], factor)
        message = f"the time times compute-scale {factor:g} is beyond the clock's range"
        refuse_where(self.a[nodes] >= TOO_LARGE, self.trace, message, nodes=nodes)

    def _memory(self, memory: Mask) -> None:
        nodes = np.flatnonzero(memory)
        if not len(nodes):
            return  # nobody uses the sizes, which may be of any type
        remote = self.context.memory
        if remote.kind == "NO_MEMORY_EXPANSION":
            message = "accesses remote memory, but the machine has none (NO_MEMORY_EXPANSION)"
            refuse_where(memory, self.trace, message, remedy=REMEDY)
        self.kind[nodes] = at.RUN_MEMORY
        self.a[nodes] = remote.access_ns(required(self.column("tensor_size"), nodes, "an access to remote memory"))

    def _messages(self, chosen: Mask) -> None:
        nodes = np.flatnonzero(chosen)
        if not len(nodes):
            return
        found = messages(self.trace, self.column, nodes, self.context)
        self.peers, self.peer_roles, self.own_rank = found.peers, found.roles, found.own_rank
        sends = self.trace.types[nodes] == NodeType.COMM_SEND_NODE
        self.kind[nodes] = np.where(sends, at.RUN_SEND, at.RUN_RECV)
        self.a[nodes] = found.peer
        self.b[nodes] = found.size_bytes
        self.c[nodes] = found.tag

    def _collectives(self, chosen: Mask) -> None:
        nodes = np.flatnonzero(chosen)
        if not len(nodes):
            return
        found = collectives(self.trace, self.column, nodes, self.context)
        self.uses, self.groups = found.uses, found.groups
        self.group[nodes] = found.group
        self.kind[nodes] = at.RUN_COLLECTIVE
        self.a[nodes] = found.use
        self.b[nodes] = found.group
        if not self.context.protocol.physics:
            replayed = np.zeros(len(self.kind), np.bool_)
            replayed[nodes[found.types == int(Collective.BROADCAST)]] = True
            self.kind[replayed] = at.RUN_DELAY
            self._replay(replayed, count_gpu=False)
            self.replayed = int(replayed.sum())
