"""The nodes of all ranks of a finished simulation, side by side in columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.graph import Graph
from chakrasim.simulator.lowering.plans import Plan
from chakrasim.simulator.outcome.records import NodeRecord, SimulatedJob
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.trace import NodeType
from chakrasim.trace.chakra.graph import offsets_of

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Nodes:
    """``n`` nodes that ran, those of a rank side by side.

    Attributes
    ----------
    ranks, copies:
        int64[owners]: the rank whose nodes they are, and for how many equal ranks it stands.
    owner, number:
        int64[n]: index into ``ranks``; the node's number in ``graphs[owner]``.
    kind, start_ns, end_ns:
        int64[n]: `layout.RUN_...`, and when it ran.
    before, after:
        int64[edges]: who ends before whom begins, for dependencies, order, or because they use the same resource.
    meeting:
        int64[n]: number of the meeting of a collective, -1 for others. ``counts``, ``waits`` bool[n]: whether others
        wait for it there, and whether it waits. ``members`` int64[n]: how many ranks a collective has, 1 for others.
    messages:
        Pairs of a send and the receive that gets it.
    computes:
        Whether a node is compute, of the device or its host.
    launched, launch_ns, work_ns:
        Whether the host launches it at a time of its own, when that is (-1: not known), how long compute takes alone.
    """

    ranks: Ints
    copies: Ints
    graphs: tuple[Graph, ...]
    owner: Ints
    number: Ints
    kind: Ints
    start_ns: Ints
    end_ns: Ints
    before: Ints
    after: Ints
    meeting: Ints
    counts: Mask
    waits: Mask
    members: Ints
    messages: tuple[Ints, Ints]
    computes: Mask
    launched: Mask
    launch_ns: Ints
    work_ns: Ints

    @cached_property
    def first(self) -> Ints:
        """int64[owners + 1]: where the nodes of each rank begin."""
        return np.searchsorted(self.owner, np.arange(len(self.ranks) + 1)).astype(np.int64)


def nodes_of(result: SimulationResult, job: SimulatedJob, ranks: Ints) -> Nodes:
    """The nodes of ``ranks``: all of them, or one of each class."""
    classes = result.classes
    graphs = tuple(job.graphs[g] for g in job.graph_of[ranks].tolist())
    records = [result.records[c] for c in classes[ranks].tolist()]
    ran = [np.flatnonzero(record.start_ns >= 0) for record in records]
    owner = np.repeat(np.arange(len(ranks)), [len(one) for one in ran])
    number = _joined(ran)
    column = {
        name: _joined([getattr(graph, name)[own] for graph, own in zip(graphs, ran, strict=True)])
        for name in ("kind", "a", "b", "c", "d")
    }
    start, end = (
        _joined([getattr(record, name)[own] for record, own in zip(records, ran, strict=True)])
        for name in ("start_ns", "end_ns")
    )
    types = _joined([graph.trace.types[graph.order[own]] for graph, own in zip(graphs, ran, strict=True)])
    offset = _joined([_is_offset(graph, own) for graph, own in zip(graphs, ran, strict=True)]) != 0
    base = offsets_of([len(one) for one in ran])
    before, after = _orders(graphs, records, ran, base, job.context.issue == "astra-sim")
    turn = _turns(records, ran)
    folded = len(ranks) < len(classes)
    meeting, counts, waits, members = _meetings(column, turn, owner, graphs, ranks, job, classes if folded else None)
    side_by_side = job.context.issue == "streams"
    launch = np.where(side_by_side, column["d"] >> 1, 0)
    starts = job.context.starts
    begins = np.array([starts.get(rank, 0) for rank in ranks.tolist()], np.int64)
    host_waits = np.bincount(owner, column["d"] & 1, len(ranks))[owner] > 0 if side_by_side else False
    return Nodes(
        ranks=ranks,
        copies=np.bincount(classes)[classes[ranks]] if folded else np.ones(len(ranks), np.int64),
        graphs=graphs,
        owner=owner,
        number=number,
        kind=column["kind"],
        start_ns=start,
        end_ns=end,
        before=before,
        after=after,
        meeting=meeting,
        counts=counts,
        waits=waits,
        members=members,
        messages=_messages(column, turn, owner, graphs, ranks, classes if folded else np.arange(len(classes))),
        computes=(types == NodeType.COMP_NODE) & ~offset & np.isin(column["kind"], (at.RUN_DELAY, at.RUN_WORK)),
        launched=launch > 0,
        launch_ns=np.where((launch > 0) & ~np.asarray(host_waits), begins[owner] + launch - 1, -1),
        work_ns=np.where(column["kind"] == at.RUN_WORK, column["a"], end - start),
    )


def _is_offset(graph: Graph, numbers: Ints) -> Ints:
    return graph.trace.attr("is_start_offset").integers()[graph.order[numbers]]


def _joined(parts: list[Any]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64)


def _orders(
    graphs: tuple[Graph, ...], records: list[NodeRecord], ran: list[Ints], base: Ints, exclusive: bool
) -> tuple[Ints, Ints]:
    """Who ends before whom begins: dependencies and, where a resource serves one node at a time, its order of issue."""
    before, after = [], []
    for graph, record, own, first in zip(graphs, records, ran, base.tolist(), strict=False):
        place = np.full(len(graph), -1, np.int64)
        place[own] = first + np.arange(len(own))
        pairs = [(np.repeat(np.arange(len(graph)), np.diff(graph.child_offsets)), graph.children)]
        if exclusive:
            pairs += _in_turn(graph, record)
        for a, b in pairs:
            both = (place[a] >= 0) & (place[b] >= 0)
            before.append(place[a[both]])
            after.append(place[b[both]])
    return _joined(before), _joined(after)


def _in_turn(graph: Graph, record: NodeRecord) -> Iterator[tuple[Ints, Ints]]:
    """Nodes that follow each other on a resource."""
    issued = record.issued[graph.kind[record.issued] != at.RUN_SKIP]
    for resource in (at.CPU, at.GPU, at.COMM):
        line = issued[graph.resource[issued] == resource]
        yield line[:-1], line[1:]


def _turns(records: list[NodeRecord], ran: list[Ints]) -> Ints:
    """By node: which of its rank's nodes it was, in the order of issue."""
    turns = []
    for record, own in zip(records, ran, strict=True):
        place = np.zeros(len(record.start_ns), np.int64)
        place[record.issued] = np.arange(len(record.issued))
        turns.append(place[own])
    return _joined(turns)


def _ordinals(keys: list[Ints], turn: Ints) -> Ints:
    """How many with the same keys came earlier."""
    order = np.lexsort((turn, *keys))
    new = np.ones(len(order), np.bool_)
    same = np.ones(max(len(order) - 1, 0), np.bool_)
    for key in keys:
        same &= key[order][1:] == key[order][:-1]
    new[1:] = ~same
    place = np.arange(len(order))
    found = np.empty(len(order), np.int64)
    found[order] = place - np.maximum.accumulate(np.where(new, place, 0))
    return found


def _meetings(
    column: dict[str, Ints],
    turn: Ints,
    owner: Ints,
    graphs: tuple[Graph, ...],
    ranks: Ints,
    job: SimulatedJob,
    classes: Ints | None,
) -> tuple[Ints, Mask, Mask, Ints]:
    """Where collectives meet: the n-th of its group on each rank, or what a replay has found."""
    meeting = np.full(len(owner), -1, np.int64)
    counts, waits = np.ones(len(owner), np.bool_), np.ones(len(owner), np.bool_)
    held = np.flatnonzero(column["kind"] == at.RUN_MEETING)
    meeting[held] = column["a"][held]
    counts[held], waits[held] = column["d"][held] & at.COUNTS > 0, column["d"][held] & at.WAITS > 0
    members = np.ones(len(owner), np.int64)
    members[held] = np.bincount(column["a"][held])[column["a"][held]]
    own = np.flatnonzero(column["kind"] == at.RUN_COLLECTIVE)
    sizes = [_sizes(job.plans[g], job) for g in job.graph_of[ranks].tolist()]
    offsets = offsets_of([len(one) for one in sizes])
    size = _joined(sizes)[offsets[owner[own]] + column["a"][own]]
    own, size = own[size > 0], size[size > 0]
    if not own.size:
        return meeting, counts, waits, members
    members[own] = size
    group = _groups(graphs, owner[own], column["b"][own], ranks, job, classes)
    nth = _ordinals([column["b"][own], owner[own]], turn[own])
    meeting[own] = len(job.context.meetings) + np.unique(np.stack([group, nth]), axis=1, return_inverse=True)[1]
    return meeting, counts, waits, members


def _sizes(plans: Sequence[Plan], job: SimulatedJob) -> Ints:
    """How many ranks take part in each collective of a graph; 0 for those that are done at once."""
    return np.array([plan.member_count(job.context) if plan.chunks else 0 for plan in plans], np.int64)


def _groups(
    graphs: tuple[Graph, ...], owner: Ints, place: Ints, ranks: Ints, job: SimulatedJob, classes: Ints | None
) -> Ints:
    """By collective its group; where ranks are folded, the first of the groups that are images of each other."""
    offsets = offsets_of([len(graph.groups) for graph in graphs])
    numbers = np.array([group for graph in graphs for group in graph.groups], np.int64)
    if classes is not None:
        image = _images(job, classes)
        numbers = np.array([image[group] for group in numbers.tolist()], np.int64)
    found: Ints = numbers[offsets[owner] + place]
    return found


def _images(job: SimulatedJob, classes: Ints) -> dict[int, int]:
    """By group the first of those that ranks of one class have at the same place."""
    root: dict[int, int] = {}

    def find(group: int) -> int:
        while root.setdefault(group, group) != group:
            group = root[group]
        return group

    first: dict[tuple[int, int], int] = {}
    for own_class, g in np.unique(np.stack([classes, job.graph_of]), axis=1).T.tolist():
        for place, group in enumerate(job.graphs[g].groups):
            low, high = sorted((find(first.setdefault((own_class, place), group)), find(group)))
            root[high] = low
    return {group: find(group) for group in root}


def _messages(
    column: dict[str, Ints], turn: Ints, owner: Ints, graphs: tuple[Graph, ...], ranks: Ints, classes: Ints
) -> tuple[Ints, Ints]:
    """Sends and receives of the same message: the n-th of equal ones from one rank to another."""
    offsets = offsets_of([len(graph.peers) for graph in graphs])
    peers = _joined([graph.peers for graph in graphs])
    found = []
    for kind in (at.RUN_SEND, at.RUN_RECV):
        own = np.flatnonzero(column["kind"] == kind)
        peer = peers[offsets[owner[own]] + column["a"][own]]
        nth = _ordinals([column["c"][own], column["b"][own], peer, owner[own]], turn[own])
        ends = [classes[ranks[owner[own]]], classes[peer]]
        source, target = ends if kind == at.RUN_SEND else ends[::-1]
        found.append((own, np.stack([source, target, column["c"][own], column["b"][own], nth], axis=1)))
    (sent, sends), (received, receives) = found
    which = np.unique(np.concatenate([sends, receives]), axis=0, return_inverse=True)[1].reshape(-1)
    message = np.full(int(which.max(initial=-1)) + 1, -1, np.int64)
    message[which[: len(sent)][::-1]] = sent[::-1]
    of = message[which[len(sent) :]]
    return of[of >= 0], received[of >= 0]
