"""A timeline in Chrome's trace format: ui.perfetto.dev and chrome://tracing open it.

A process stands for a class of ranks that did the same, its threads for what a rank does at a time: compute,
communication (where streams run side by side by role), receives, remote memory, CPU, of each as many rows as were in
flight at once. Times are microseconds with three
decimals, which keep every nanosecond. Process and thread numbers start at 1 (rank + 1): 0 is the idle task to Perfetto.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from os import PathLike, fspath

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.kinds import COLLECTIVE_KEYS
from chakrasim.errors import InputError
from chakrasim.report.tables.simulation import class_members
from chakrasim.report.timeline.chrome import named, rows_in_parallel, write_chrome
from chakrasim.report.timeline.packets import network_events
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.graph import Graph
from chakrasim.simulator.outcome.records import NodeRecord
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.text.amounts import ranks_text
from chakrasim.trace import NodeType, type_name

Ints = NDArray[np.int64]

COMPUTE, COMMUNICATION, MEMORY, CPU, RECEIVE = range(1, 6)
THREADS = ("compute", "communication", "remote memory", "cpu", "receive")
"""Thread numbers; those of further rows and roles follow."""

BATCH = 20_000
"""Slices formatted at a time: what is in memory at once stays small."""


def write_timeline(result: SimulationResult, path: str | PathLike[str]) -> None:
    """Write the timeline of a result to ``path``, compressed if the name ends in ``.gz``; same result, same bytes.

    Raises InputError if the file cannot be written or the times of single nodes were not kept.
    """
    if len(result.finish_order) and not result.records:
        raise InputError(
            "there is no timeline: the run has too many nodes for the times of each to be kept",
            file=fspath(path),
            remedy="fold the ranks, or simulate fewer",
        )
    write_chrome(path, _events(result))


def _events(result: SimulationResult) -> Iterator[str]:
    """Events as JSON text, several to a piece with commas between."""
    members = class_members(result, len(result.class_ranks))
    for rank, record, ranks in zip(result.class_ranks.tolist(), result.records, members, strict=False):
        shown = f"rank {rank}" if len(ranks) == 1 else f"rank {rank} (for {len(ranks)}: {ranks_text(ranks.tolist())})"
        yield from _process(rank, shown, record)
    if result.packets is not None:
        yield from network_events(result.packets, int(result.class_ranks.max(initial=0)) + 2)


def _process(rank: int, name: str, record: NodeRecord) -> Iterator[str]:
    numbers = np.flatnonzero((record.start_ns >= 0) & (record.end_ns >= 0))
    numbers = numbers[np.lexsort((numbers, record.start_ns[numbers]))]
    threads, shown = threads_of(record, numbers)
    pid = rank + 1
    yield from named(pid, COMPUTE, name, rank, process=True)
    for thread in sorted(shown):
        yield from named(pid, thread, shown[thread], thread)
    slices = _Slices(rank, record)
    for start in range(0, len(numbers), BATCH):
        yield slices.text(numbers[start : start + BATCH], threads[start : start + BATCH])


def threads_of(record: NodeRecord, numbers: Ints) -> tuple[Ints, dict[int, str]]:
    """The thread of each node, and the names of threads. Nodes that overlap take the first row that is free."""
    graph = record.graph
    what = np.full(len(numbers), COMMUNICATION, np.int64)
    category, resource = graph.category[numbers], graph.resource[numbers]
    what[category == at.CAT_MEMORY] = MEMORY
    what[category == at.CAT_GPU] = COMPUTE
    what[(resource == at.CPU) | (category == at.CAT_CPU)] = CPU
    receives = graph.trace.types[graph.order[numbers]] == NodeType.COMM_RECV_NODE
    what[receives & (resource == at.RECV)] = RECEIVE
    role = np.where(category == at.CAT_COMM, graph.role[numbers], 0)
    threads = np.zeros(len(numbers), np.int64)
    shown: dict[int, str] = {}
    further = RECEIVE
    for kind, of_role in sorted({*zip(what.tolist(), role.tolist(), strict=True)}, key=lambda key: (key[1], key[0])):
        own = np.flatnonzero((what == kind) & (role == of_role))
        row = np.array(rows_in_parallel(record.start_ns[numbers[own]].tolist(), record.end_ns[numbers[own]].tolist()))
        name = THREADS[kind - 1]
        if graph.roles and kind in (COMMUNICATION, RECEIVE):
            name = f"{name} {graph.roles[of_role]}"
        numbered = [kind] if of_role == 0 else []
        while len(numbered) <= row.max():
            further += 1
            numbered.append(further)
        shown |= {thread: name + (f" {i + 1}" if i else "") for i, thread in enumerate(numbered)}
        threads[own] = np.array(numbered, np.int64)[row]
    return threads, shown


class _Slices:
    """The slices of one process, formatted in batches: names and arguments are quoted once for all that share them."""

    def __init__(self, rank: int, record: NodeRecord) -> None:
        self.rank = rank
        self.record = record
        graph = record.graph
        self.ids = graph.trace.ids[graph.order]
        self.names = _Names(graph)
        self.what = _Arguments(graph)

    def text(self, numbers: Ints, threads: Ints) -> str:
        start, end = self.record.start_ns[numbers], self.record.end_ns[numbers]
        duration = end - start
        names = self.names.of(numbers)
        columns = zip(
            names,
            threads.tolist(),
            (start // 1000).tolist(),
            (start % 1000).tolist(),
            (duration // 1000).tolist(),
            (duration % 1000).tolist(),
            self.ids[numbers].tolist(),
            self.what.of(numbers),
            strict=True,
        )
        head = f'{{"ph":"X","pid":{self.rank + 1},"tid":'
        return ",\n".join(
            f'{head}{thread},"ts":{us}.{ns:03d},"dur":{dur_us}.{dur_ns:03d},"name":{name},"args":{{"id":{node}{args}}}}}'
            for name, thread, us, ns, dur_us, dur_ns, node, args in columns
        )


def node_names(graph: Graph, numbers: Ints) -> list[str]:
    """Names of nodes; nodes without one are called by their type."""
    index = graph.trace.name_index[graph.order[numbers]].astype(np.int64)
    keys = np.where(index > 0, index, -1 - graph.trace.types[graph.order[numbers]])
    return [graph.trace.strings[key] if key > 0 else type_name(-1 - key) for key in keys.tolist()]


class _Names:
    """Quoted names of nodes; nodes without one are called by their type."""

    def __init__(self, graph: Graph) -> None:
        self.trace = graph.trace
        index = graph.trace.name_index[graph.order].astype(np.int64)
        self.keys = np.where(index > 0, index, -1 - graph.trace.types[graph.order])
        self.known: dict[int, str] = {}

    def of(self, numbers: Ints) -> list[str]:
        keys = self.keys[numbers].tolist()
        for key in set(keys) - self.known.keys():
            self.known[key] = json.dumps(self.trace.strings[key] if key > 0 else type_name(-1 - key))
        return [self.known[key] for key in keys]


class _Arguments:
    """Quoted arguments of nodes beside the id, from one text for each distinct combination."""

    def __init__(self, graph: Graph) -> None:
        trace, order = graph.trace, graph.order
        self.graph = graph
        self.types = trace.types[order].astype(np.int64)
        sent = np.isin(self.types, (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE, NodeType.COMM_COLL_NODE))
        self.sizes = np.where(sent, self._column("comm_size"), self._column("tensor_size"))
        self.peers = np.full(len(order), -1, np.int64)
        for kind, name in ((NodeType.COMM_SEND_NODE, "comm_dst"), (NodeType.COMM_RECV_NODE, "comm_src")):
            chosen = self.types == kind
            if chosen.any():
                self.peers[chosen] = self._column(name)[chosen]
        lowered = (graph.kind == at.RUN_SEND) | (graph.kind == at.RUN_RECV)
        self.peers[lowered] = graph.peers[graph.a[lowered]]
        collective = self.types == NodeType.COMM_COLL_NODE
        self.uses = np.where(collective, self._column("comm_type"), -1)
        self.groups = np.full(len(order), -1, np.int64)
        planned = graph.kind == at.RUN_COLLECTIVE
        groups = np.array([*graph.groups, -1], np.int64)
        self.groups[planned] = groups[graph.b[planned]]
        self.known: dict[tuple[int, ...], str] = {}

    def _column(self, name: str) -> Ints:
        """An attribute by node number, -1 where it is absent or no integer."""
        column = self.graph.trace.attr(name)
        values = np.where(column.is_integer, column.bits.view(np.int64), -1)
        return values[self.graph.order]

    def of(self, numbers: Ints) -> list[str]:
        columns = (self.types, self.sizes, self.peers, self.uses, self.groups)
        keys = list(zip(*(column[numbers].tolist() for column in columns), strict=True))
        for key in set(keys) - self.known.keys():
            self.known[key] = self._text(*key)
        return [self.known[key] for key in keys]

    def _text(self, kind: int, size: int, peer: int, collective: int, group: int) -> str:
        args: dict[str, object] = {"type": type_name(kind)}
        if size >= 0:
            args["bytes"] = size
        if peer >= 0:
            args["peer"] = peer
        if collective >= 0:
            args["collective"] = COLLECTIVE_KEYS.get(collective, str(collective))
        if group >= 0:
            args["group"] = group or "all"
        return "," + json.dumps(args, separators=(",", ":"))[1:-1]
