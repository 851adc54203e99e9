"""A simulated run over time, for ui.perfetto.dev.

A process stands for a class of ranks that did the same, or for a chosen rank, its threads for what a rank does at a
time: compute, communication (where streams run side by side by role), receives, remote memory, CPU, of each as many
rows as were in flight at once. Process and thread numbers start at 1 (rank + 1): 0 is the idle task to Perfetto.

Perfetto's own format has more than Chrome's: arrows of messages and of dependencies between threads, the bytes that a
rank's communication has in flight, its local memory, where that is tracked, and of recorded jobs what was measured
below what is simulated, with how much later nodes end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from os import PathLike, fspath

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.kinds import COLLECTIVE_KEYS
from chakrasim.errors import InputError
from chakrasim.report.tables.simulation import class_members
from chakrasim.report.timeline.events import SIZE, ArrowEnds, Counter, Process, Track, rows_in_parallel
from chakrasim.report.timeline.links import link_process
from chakrasim.report.timeline.measured import begin_ns, beside
from chakrasim.report.timeline.packets import network_processes
from chakrasim.report.timeline.write import is_perfetto, write_processes
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.graph import Graph
from chakrasim.simulator.outcome.local_memory import tensors_of, usage
from chakrasim.simulator.outcome.records import NodeRecord
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.text.amounts import ranks_text
from chakrasim.trace import NodeType, type_name

Ints = NDArray[np.int64]

COMPUTE, COMMUNICATION, MEMORY, CPU, RECEIVE = range(1, 6)
THREADS = ("compute", "communication", "remote memory", "cpu", "receive")
"""Thread numbers; those of further rows and roles follow."""


def write_timeline(result: SimulationResult, path: str | PathLike[str], *, ranks: Sequence[int] | None = None) -> None:
    """Write the timeline of a result to ``path``, compressed if the name ends in ``.gz``; same result, same bytes.

    A name that ends in ``.pftrace`` (or ``.perfetto-trace``) gets Perfetto's own format, any other Chrome's JSON.
    ``ranks`` are those to show, in this order; all unless given, those that did the same once. Raises InputError if the
    file cannot be written, a rank is not there, or the times of single nodes were not kept.
    """
    if len(result.finish_order) and not result.records:
        raise InputError(
            "there is no timeline: the run has too many nodes for the times of each to be kept",
            file=fspath(path),
            remedy="fold the ranks, or simulate fewer",
        )
    shown = chosen_ranks(result, ranks)
    write_processes(path, _processes(result, shown, ranks is None, is_perfetto(path)))


def chosen_ranks(result: SimulationResult, ranks: Sequence[int] | None) -> list[int]:
    """The ranks to show: those named, each once, or one of each class. Raises InputError for one that is not there."""
    if ranks is None:
        return [int(rank) for rank in result.class_ranks[: len(result.records)]]
    count = len(result.finish_ns)
    for rank in ranks:
        if not 0 <= rank < count:
            raise InputError(f"there is no rank {rank}", found=f"{count:,} ranks", expected=f"0 to {count - 1:,}")
        if int(result.classes[rank]) >= len(result.records):
            raise InputError(f"the times of the nodes of rank {rank} were not kept", remedy="simulate fewer ranks")
    return list(dict.fromkeys(ranks))


def _processes(result: SimulationResult, shown: list[int], by_class: bool, rich: bool) -> Iterator[Process]:
    members = class_members(result, len(result.class_ranks))
    entries = [_Entries(result.records[int(result.classes[rank])]) for rank in shown]
    messages = _messages(result, shown, entries) if rich else {}
    number = sum(len(ends.number) for ends in messages.values())
    begin = begin_ns([own.record for own in entries]) if rich else None
    for rank, own in zip(shown, entries, strict=True):
        like = members[int(result.classes[rank])]
        name = f"rank {rank}"
        if by_class and len(like) > 1:
            name += f" (for {len(like)}: {ranks_text(like.tolist())})"
        elif not by_class and rank != int(result.class_ranks[int(result.classes[rank])]):
            name += f" (as rank {int(result.class_ranks[int(result.classes[rank])])})"
        arrows = [messages[rank]] if rank in messages else []
        if rich:
            arrows.append(_dependencies(own, number))
            number += len(arrows[-1].number)
        process = own.process(rank, name, arrows, _counters(own, result, rank) if rich else ())
        yield process if begin is None else beside(process, own.record, own.numbers, begin)
    after = max([*shown, int(result.class_ranks.max(initial=0))]) + 2
    if result.packets is not None:
        yield from network_processes(result.packets, after)
    elif (links := link_process(result, after)) is not None:
        yield links


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


class _Entries:
    """The nodes of a rank that ran, by start, and the thread of each."""

    def __init__(self, record: NodeRecord) -> None:
        self.record = record
        numbers = np.flatnonzero((record.start_ns >= 0) & (record.end_ns >= 0))
        self.numbers = numbers[np.lexsort((numbers, record.start_ns[numbers]))]
        self.threads, self.shown = threads_of(record, self.numbers)

    def process(self, rank: int, name: str, arrows: Sequence[ArrowEnds], counters: Sequence[Counter]) -> Process:
        """What the rank shows."""
        graph, numbers = self.record.graph, self.numbers
        start = self.record.start_ns[numbers]
        tracks = [
            Track(thread, label, np.flatnonzero(self.threads == thread), label.rstrip("0123456789 "))
            for thread, label in sorted(self.shown.items())
        ]
        return Process(
            pid=rank + 1,
            name=name,
            order=rank,
            tracks=tracks,
            start_ns=start,
            duration_ns=self.record.end_ns[numbers] - start,
            names=node_names(graph, numbers),
            args=_Arguments(graph).of(numbers),
            ids=graph.trace.ids[graph.order[numbers]].astype(np.int64),
            counters=counters,
            arrows=arrows,
        )

    def places(self) -> Ints:
        """int64[nodes]: the entry of each node, -1 for those that did not run."""
        place = np.full(len(self.record.start_ns), -1, np.int64)
        place[self.numbers] = np.arange(len(self.numbers))
        return place


def _dependencies(own: _Entries, first: int) -> ArrowEnds:
    """From nodes to those on other threads that wait for them."""
    graph, place = own.record.graph, own.places()
    parents = place[np.repeat(np.arange(len(graph)), np.diff(graph.child_offsets))]
    children = place[graph.children]
    both = (parents >= 0) & (children >= 0)
    parents, children = parents[both], children[both]
    apart = own.threads[parents] != own.threads[children]
    parents, children = parents[apart], children[apart]
    number = first + 1 + np.arange(len(parents))
    ends = np.repeat([False, True], len(parents))
    return ArrowEnds("dependency", np.concatenate([parents, children]), np.concatenate([number, number]), ends)


def _messages(result: SimulationResult, shown: list[int], entries: Sequence[_Entries]) -> dict[int, ArrowEnds]:
    """By rank, the messages between ranks that are shown; of ranks that did the same only the first has some."""
    kinds = (at.RUN_SEND, at.RUN_RECV)
    first = list({int(result.classes[rank]): i for i, rank in reversed([*enumerate(shown)])}.values())[::-1]
    if result.job is None or not any(np.isin(entries[i].record.graph.kind, kinds).any() for i in first):
        return {}
    from chakrasim.explanation.nodes import nodes_of

    nodes = nodes_of(result, result.job, np.array([shown[i] for i in first], np.int64))
    sent, received = nodes.messages
    owner = np.concatenate([nodes.owner[sent], nodes.owner[received]])
    node = np.concatenate([nodes.number[sent], nodes.number[received]])
    number = 1 + np.concatenate([np.arange(len(sent))] * 2)
    target = np.repeat([False, True], len(sent))
    # A receive may be posted before its message is sent.
    early = np.concatenate([np.zeros(len(sent), np.bool_), nodes.start_ns[received] < nodes.start_ns[sent]])
    found = {}
    for i, one in enumerate(first):
        own = np.flatnonzero(owner == i)
        place = entries[one].places()[node[own]]
        found[shown[one]] = ArrowEnds("message", place, number[own], target[own], early[own])
    return found


def _counters(own: _Entries, result: SimulationResult, rank: int) -> list[Counter]:
    """What a rank has in flight, in memory, and ready to begin."""
    record = own.record
    found = []
    sizes = _Arguments(record.graph).sizes[own.numbers]
    talks = (record.graph.category[own.numbers] == at.CAT_COMM) & (sizes > 0)
    if talks.any():
        numbers, size = own.numbers[talks], sizes[talks]
        times = np.concatenate([record.start_ns[numbers], record.end_ns[numbers]])
        found.append(Counter("communication in flight", SIZE, *_level(times, np.concatenate([size, -size]))))
    if result.peak_memory_bytes is not None:
        ticks, in_use = usage(tensors_of(record))
        found.append(Counter("local memory in use", SIZE, ticks, in_use))
    starts = result.job.context.starts if result.job is not None else {}
    found += _queue(record, starts.get(rank, 0))
    return found


def _level(times: Ints, changes: Ints) -> tuple[Ints, Ints]:
    """Each time once, and the sum of the changes up to it and at it."""
    ticks, which = np.unique(times, return_inverse=True)
    change = np.zeros(len(ticks), np.int64)
    np.add.at(change, which, changes)
    return ticks, np.cumsum(change)


def _queue(record: NodeRecord, begin_ns: int) -> Iterator[Counter]:
    """Operations whose parents have all ended and that have not begun: what they need is taken. None where none ever
    waits so."""
    graph = record.graph
    ready = np.full(len(graph), begin_ns, np.int64)
    np.maximum.at(ready, graph.children, np.repeat(record.end_ns, np.diff(graph.child_offsets)))
    waits = np.flatnonzero(record.start_ns > ready)
    if waits.size:
        times = np.concatenate([ready[waits], record.start_ns[waits]])
        yield Counter("operations ready and waiting", "operations", *_level(times, np.repeat([1, -1], waits.size)))


def node_names(graph: Graph, numbers: Ints) -> list[str]:
    """Names of nodes; nodes without one are called by their type."""
    index = graph.trace.name_index[graph.order[numbers]].astype(np.int64)
    keys = np.where(index > 0, index, -1 - graph.trace.types[graph.order[numbers]])
    return [graph.trace.strings[key] if key > 0 else type_name(-1 - key) for key in keys.tolist()]


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
        return self.graph.trace.attr(name).integers_or(-1)[self.graph.order]

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
