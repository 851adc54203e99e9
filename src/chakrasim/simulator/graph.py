"""From a trace to a graph that the engine runs: nodes in order of their ids, what each does, who waits for whom.

Sections 6 and 7 of astra-system.md say what the reference does with each type of node; where it would abort, the
trace is refused here with the node's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives import Collective
from chakrasim.errors import InputError
from chakrasim.simulator.context import Context
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.reach import count_reachable
from chakrasim.simulator.replay import measured
from chakrasim.trace import NodeType, Trace

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

TAG_RANGE = 500_000_000
ROOFLINE = "the roofline model"
TOO_LARGE = 1 << 62
"""Bytes, operations and the like must be below this, so that a few of them can be added up."""
TOO_LATE = 1 << 63
"""ns"""


@dataclass(frozen=True)
class CollectiveUse:
    """A collective as nodes of a graph ask for it. ``group`` 0 is the default group; ``custom_node`` the id of a node
    with an implementation of its own, else -1; ``root`` a rank, or -1 for the group's first member."""

    type: Collective
    size_bytes: int
    group: int
    involved: tuple[bool, ...] | None
    root: int
    custom_node: int


@dataclass(frozen=True, eq=False)
class Graph:
    """A trace, lowered. Node numbers count in ascending order of ids.

    ``a`` of a collective is its index in ``uses``, ``b`` its group's index in ``groups``; else as in
    ``layout.NODE_A``. ``groups`` are in order of first use, and ``uses`` in the order of these, so that ranks that do
    the same in different groups have equal columns.
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
    own_rank: dict[int, int]
    """Nodes that name their own rank: node number -> rank."""
    replayed: int
    """Broadcasts that take their recorded duration."""

    def __len__(self) -> int:
        return len(self.order)

    def place(self, number: int) -> str:
        """A node's name for messages."""
        return self.trace.place(int(self.order[number]))


def lower_graph(trace: Trace, context: Context) -> Graph:
    """Check a trace and turn it into a graph. Raises InputError with the node at fault."""
    order = np.argsort(trace.ids, kind="stable").astype(np.int64)
    ids = trace.ids[order]
    repeated = np.flatnonzero(ids[1:] == ids[:-1])
    if len(repeated):
        _fail(trace, int(order[repeated[0] + 1]), f"two nodes have the id {int(ids[repeated[0]])}")
    offsets, children, parents = _dependencies(trace, order, ids)
    actions = _Actions(trace, context)
    actions.fill()
    return Graph(
        trace,
        order,
        actions.kind[order],
        actions.resource[order],
        actions.category[order],
        actions.a[order],
        actions.b[order],
        actions.c[order],
        actions.d[order],
        offsets,
        children,
        parents,
        tuple(actions.uses),
        tuple(actions.groups),
        {int(np.searchsorted(ids, trace.ids[node])): rank for node, rank in actions.own_rank.items()},
        actions.replayed,
    )


def _fail(trace: Trace, node: int, message: str, **details: object) -> None:
    raise InputError(message, file=trace.source, place=trace.place(node), **details)  # type: ignore[arg-type]


def _dependencies(trace: Trace, order: Ints, ids: NDArray[np.uint64]) -> tuple[Ints, Ints, Ints]:
    """Children in CSR form and the number of parents, by node number; data and control dependencies count alike."""
    n = len(ids)
    number = np.empty(n, np.int64)
    number[order] = np.arange(n)
    wants = []
    for deps in (trace.data_deps, trace.ctrl_deps):
        node = np.repeat(np.arange(n), np.diff(deps.offsets))
        parent = np.searchsorted(ids, deps.targets)
        known = parent < n
        known[known] = ids[parent[known]] == deps.targets[known]
        missing = np.flatnonzero(~known)
        if len(missing):
            at_node = int(node[missing[0]])
            _fail(trace, at_node, f"depends on node {int(deps.targets[missing[0]])}, which does not exist")
        wants.append(parent.astype(np.int64) * n + number[node])
    pairs = np.unique(np.concatenate(wants)) if n else np.zeros(0, np.int64)
    parent, child = pairs // max(n, 1), pairs % max(n, 1)
    offsets = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(parent, minlength=n), out=offsets[1:])
    parents = np.bincount(child, minlength=n).astype(np.int64)
    left = np.zeros(n, np.int64)
    if count_reachable(offsets, child, parents, left, np.zeros(n, np.int64)) < n:
        _report_cycle(trace, order, child, parent, left)
    return offsets, child, parents


def _report_cycle(trace: Trace, order: Ints, child: Ints, parent: Ints, left: Ints) -> None:
    """Walk up from a node that never becomes free, through parents that do not either, until one comes up again."""
    stuck_parent = {int(c): int(p) for c, p in zip(child, parent, strict=True) if left[c] > 0 and left[p] > 0}
    node = next(iter(stuck_parent))
    seen: dict[int, int] = {}
    while node not in seen:
        seen[node] = len(seen)
        node = stuck_parent[node]
    cycle = [n for n, at_step in seen.items() if at_step >= seen[node]][::-1]
    names = " -> ".join(str(int(trace.ids[order[n]])) for n in [*cycle[:8], cycle[0]])
    more = f" (and {len(cycle) - 8} more)" if len(cycle) > 8 else ""
    _fail(trace, int(order[cycle[0]]), f"dependencies form a cycle: {names}{more}")


class _Actions:
    """What each node does, by file order; filled type by type."""

    def __init__(self, trace: Trace, context: Context) -> None:
        n = len(trace)
        self.trace = trace
        self.column = cache(trace.attr)
        self.context = context
        self.kind = np.full(n, at.RUN_DELAY, np.int64)
        self.resource = np.full(n, at.COMM, np.int64)
        self.category = np.full(n, at.CAT_NONE, np.int64)
        self.a = np.zeros(n, np.int64)
        self.b = np.zeros(n, np.int64)
        self.c = np.zeros(n, np.int64)
        self.d = np.zeros(n, np.int64)
        self.uses: list[CollectiveUse] = []
        self.groups: list[int] = []
        self.own_rank: dict[int, int] = {}
        self.replayed = 0

    def fill(self) -> None:
        types = self.trace.types
        known = (types >= 0) & (types <= int(NodeType.COMM_COLL_NODE))
        if not known.all():
            node = int(np.flatnonzero(~known)[0])
            _fail(self.trace, node, "unknown node type", found=int(types[node]), expected="0 to 7")
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
            return
        self._compute(comp)
        self._memory(memory)
        if (comm & self.cpu).any():
            node = int(np.flatnonzero(comm & self.cpu)[0])
            _fail(
                self.trace,
                node,
                "a communication node is marked as a CPU operation (is_cpu_op)",
                remedy="set is_cpu_op to false on communication nodes, or replay the trace ('replay-only': 1)",
            )
        self._point_to_point(types == NodeType.COMM_SEND_NODE, at.RUN_SEND)
        self._point_to_point(types == NodeType.COMM_RECV_NODE, at.RUN_RECV)
        self._collectives(types == NodeType.COMM_COLL_NODE)
        if self.context.common_start:
            self._skip_start_offsets()
        skipped = (types == NodeType.INVALID_NODE) | (types == NodeType.METADATA_NODE)
        self.kind[skipped] = at.RUN_SKIP

    def _replay_durations(self) -> None:
        """Every node takes its measured duration after its measured delay; nodes hold no resource (see `replay`)."""
        times = measured(self.trace, common_start=self.context.common_start)
        self.resource[:] = at.RECV
        self.a[:] = times.delay_ns + times.duration_ns
        self.b[:] = np.where(self.cpu | (self.category != at.CAT_GPU), 0, times.duration_ns)
        if self.context.replay == "transfer":
            nodes = np.flatnonzero(times.meeting >= 0)
            self.kind[nodes] = at.RUN_MEETING
            self.a[nodes] = times.meeting[nodes]
            self.b[nodes] = times.transfer_ns[nodes]
            self.c[nodes] = times.delay_ns[nodes]

    def _replay(self, chosen: Mask, *, count_gpu: bool) -> None:
        """Nodes that take their recorded duration, or 1 ns where none is recorded."""
        micros = self.trace.duration_micros[chosen]
        if len(micros) and int(micros.max()) > (TOO_LATE - 1) // 1000:
            node = int(np.flatnonzero(chosen)[np.argmax(micros)])
            _fail(
                self.trace,
                node,
                "the duration is beyond the clock's range",
                found=f"{int(micros.max())} us",
                expected="less than 2^63 ns",
            )
        runtime = np.maximum(micros.astype(np.int64) * 1000, 1)
        self.a[chosen] = runtime
        self.b[chosen] = np.where(self.cpu[chosen], 0, runtime) if count_gpu else 0

    def _skip_start_offsets(self) -> None:
        """All ranks start at once: what a rank starts later than the others takes no time."""
        offset = self.column("is_start_offset").integers() != 0
        self.kind[offset] = at.RUN_DELAY
        self.a[offset] = self.b[offset] = 0

    def _compute(self, comp: Mask) -> None:
        roofline = comp & ~self.cpu if self.context.system.roofline_enabled else np.zeros_like(comp)
        roofline &= ~self._only_measured(roofline)
        self._replay(comp & ~roofline, count_gpu=True)
        if not roofline.any():
            return
        nodes = np.flatnonzero(roofline)
        ops = self._required("num_ops", nodes, ROOFLINE).astype(np.float64)
        size = self._required("tensor_size", nodes, ROOFLINE).astype(np.float64)
        runtime = self._roofline_ns(nodes, ops, size)
        self.a[nodes] = runtime
        self.b[nodes] = runtime
        self.kind[nodes[size == 0]] = at.RUN_SKIP

    def _only_measured(self, roofline: Mask) -> Mask:
        """Nodes that come from a measurement and say nothing of their operations: the roofline has nothing to go by."""
        known = self.column("num_ops").present | self.column("tensor_size").present
        measured = roofline & self.column("duration_ns").present & ~known
        if measured.any():
            self.context.warn(
                "compute nodes of measured traces take their recorded duration: the roofline model needs num_ops"
            )
        return measured

    def _roofline_ns(self, nodes: Ints, ops: NDArray[np.float64], size: NDArray[np.float64]) -> Ints:
        """ops / min(bandwidth * intensity, peak), truncated to ns: doubles in the reference's order (section 7)."""
        system = self.context.system
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            perf = np.minimum(system.local_mem_bw * (ops / size), system.peak_perf_flops)
            runtime = ops / perf * 1e9
        if system.peak_perf_flops == 0 or system.local_mem_bw == 0:
            self.context.warn(
                "the roofline model has no peak-perf or no local-mem-bw: compute takes no time, as in ASTRA-sim"
            )
        runtime = np.where(np.isinf(runtime) | (size == 0), 0.0, runtime)
        bad = np.flatnonzero(~(runtime < float(TOO_LATE)))
        if len(bad):
            node = int(nodes[bad[0]])
            _fail(
                self.trace,
                node,
                "the roofline model gives a time beyond the clock's range",
                found=f"num_ops {ops[bad[0]]:.0f}, tensor_size {size[bad[0]]:.0f}",
                expected="num_ops > 0 and a time of less than 2^63 ns",
            )
        return runtime.astype(np.int64)

    def _memory(self, memory: Mask) -> None:
        if not memory.any():
            return
        nodes = np.flatnonzero(memory)
        remote = self.context.memory
        if remote.kind == "NO_MEMORY_EXPANSION":
            _fail(
                self.trace,
                int(nodes[0]),
                "accesses remote memory, but the machine has none (NO_MEMORY_EXPANSION)",
                remedy="give a remote-memory configuration",
            )
        size = self._required("tensor_size", nodes, "an access to remote memory").astype(np.float64)
        transfer = np.zeros(len(size)) if remote.bandwidth == 0 else size / float(remote.bandwidth)
        self.kind[nodes] = at.RUN_MEMORY
        self.a[nodes] = remote.latency_ns + transfer.astype(np.int64)

    def _point_to_point(self, chosen: Mask, kind: int) -> None:
        if not chosen.any():
            return
        nodes = np.flatnonzero(chosen)
        sending = kind == at.RUN_SEND
        what = "a send" if sending else "a receive"
        peer = self._required("comm_dst" if sending else "comm_src", nodes, what)
        outside = np.flatnonzero((peer < 0) | (peer >= self.context.ranks))
        if len(outside):
            _fail(
                self.trace,
                int(nodes[outside[0]]),
                f"{what} names a rank that does not exist",
                found=int(peer[outside[0]]),
                expected=f"0 to {self.context.ranks - 1}",
            )
        own = self.column("comm_src" if sending else "comm_dst")
        ranks = own.integers()
        self.own_rank.update({int(node): int(ranks[node]) for node in nodes[own.present[nodes]]})
        tag = self._required("comm_tag", nodes, what)
        signed = np.flatnonzero((tag < 0) | (tag >= 2**31))
        if len(signed):
            _fail(self.trace, int(nodes[signed[0]]), "the tag is out of range", found=int(tag[signed[0]]))
        self.kind[nodes] = kind
        self.a[nodes] = peer
        self.b[nodes] = self._required("comm_size", nodes, what)
        self.c[nodes] = tag % TAG_RANGE

    def _collectives(self, chosen: Mask) -> None:
        nodes = np.flatnonzero(chosen)
        if not len(nodes):
            return
        types = self._required("comm_type", nodes, "a collective")
        unknown = np.flatnonzero((types < 0) | (types > int(Collective.BARRIER)))
        if len(unknown):
            _fail(self.trace, int(nodes[unknown[0]]), "unknown collective type", found=int(types[unknown[0]]))
        groups = self._group_numbers(nodes)
        self.groups = self._in_order_of_use(nodes, groups)
        local = {group: i for i, group in enumerate(self.groups)}
        table = np.stack(
            [
                types,
                self._sizes(nodes, types),
                np.array([local[group] for group in groups.tolist()]),
                self._involved_numbers(nodes),
                self._roots(nodes),
                self._custom_nodes(nodes),
            ],
            axis=1,
        )
        rows, which = np.unique(table, axis=0, return_inverse=True)
        self.uses = [
            CollectiveUse(Collective(int(t)), int(s), self.groups[g], self.masks[int(i)], int(r), int(c))
            for t, s, g, i, r, c in rows
        ]
        self.kind[nodes] = at.RUN_COLLECTIVE
        self.a[nodes] = which.reshape(-1)
        self.b[nodes] = table[:, 2]
        if not self.context.physics:
            replayed = np.zeros(len(self.kind), np.bool_)
            replayed[nodes[types == int(Collective.BROADCAST)]] = True
            self.kind[replayed] = at.RUN_DELAY
            self._replay(replayed, count_gpu=False)
            self.replayed = int(replayed.sum())

    def _in_order_of_use(self, nodes: Ints, groups: Ints) -> list[int]:
        """Distinct groups in the order in which the nodes' ids first name them: equal for ranks that do the same."""
        by_id = groups[np.argsort(self.trace.ids[nodes], kind="stable")]
        distinct, first = np.unique(by_id, return_index=True)
        return [int(group) for group in distinct[np.argsort(first)]]

    def _sizes(self, nodes: Ints, types: Ints) -> Ints:
        """comm_size; a barrier moves nothing and needs none."""
        barrier = types == int(Collective.BARRIER)
        size = np.zeros(len(nodes), np.int64)
        size[~barrier] = self._required("comm_size", nodes[~barrier], "a collective")
        return size

    def _group_numbers(self, nodes: Ints) -> Ints:
        """The group id that pg_name names: 0 (or no name) is the group of all ranks."""
        column = self.column("pg_name")
        numbers = np.zeros(len(nodes), np.int64)
        known: dict[int, int] = {}
        for i in np.flatnonzero(column.present[nodes]):
            node = int(nodes[i])
            bits = int(column.bits[node])
            if bits not in known:
                known[bits] = self._group_number(node, column.string(node))
            numbers[i] = known[bits]
        return numbers

    def _group_number(self, node: int, name: str) -> int:
        if name in ("", "0"):
            return 0
        groups = self.context.groups
        if not name.strip().isascii() or not name.strip().isdigit() or int(name) not in groups:
            listed = ", ".join(map(str, list(groups)[:8])) + (", ..." if len(groups) > 8 else "")
            _fail(
                self.trace,
                node,
                f"communicator group {name!r} is not known",
                expected=f"one of the groups {listed}" if groups else "a communicator-group file",
                remedy="give the groups with --comm-group",
            )
        return int(name)

    def _involved_numbers(self, nodes: Ints) -> Ints:
        """Index into ``masks`` of each node's involved_dim; 0: none given."""
        column = self.column("involved_dim")
        self.masks: list[tuple[bool, ...] | None] = [None]
        numbers = np.zeros(len(nodes), np.int64)
        for i in np.flatnonzero(column.present[nodes]):
            node = int(nodes[i])
            if int(column.kind[node]) != BOOL_LIST:
                _fail(self.trace, node, "involved_dim has the wrong type", expected="a bool_list")
            mask = tuple(bool(x) for x in column.list(node))
            if mask not in self.masks:
                self.masks.append(mask)
            numbers[i] = self.masks.index(mask)
        return numbers

    def _roots(self, nodes: Ints) -> Ints:
        """The rank at the root of a rooted collective: attribute ``root_rank`` or ``root``, else -1."""
        for name in ("root_rank", "root"):
            column = self.column(name)
            if column.present[nodes].any():
                return column.integers(-1)[nodes]
        return np.full(len(nodes), -1, np.int64)

    def _custom_nodes(self, nodes: Ints) -> Ints:
        if not self.context.system.per_node_custom:
            return np.full(len(nodes), -1, np.int64)
        ids = self.trace.ids[nodes].astype(np.int64)
        return np.where(np.isin(ids, list(self.context.system.per_node_custom)), ids, -1)

    def _required(self, name: str, nodes: Ints, what: str) -> Ints:
        """An attribute that every one of the nodes must have, as a number below 2^62."""
        column = self.column(name)
        missing = np.flatnonzero(~column.present[nodes])
        if len(missing):
            remedy = (
                "switch the roofline off (roofline-enabled: 0) to run on the recorded durations"
                if what == ROOFLINE
                else None
            )
            _fail(
                self.trace,
                int(nodes[missing[0]]),
                f"{what} needs the attribute {name!r}, which is missing",
                remedy=remedy,
            )
        values = column.integers()[nodes]
        bad = np.flatnonzero((values < 0) | (values >= TOO_LARGE))
        if len(bad):
            _fail(
                self.trace,
                int(nodes[bad[0]]),
                f"attribute {name!r} is out of range",
                found=int(values[bad[0]]),
                expected="0 to 2^62 - 1",
            )
        return values


BOOL_LIST = 28
