"""A finished simulation as a graph of events: begin and end of every node of every rank, and where ranks meet."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.event_graph.graph import NONE, EventGraph, Floats, Indices, Ints, event_graph
from chakrasim.explanation.nodes import Nodes, nodes_of
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.outcome.records import SimulatedJob
from chakrasim.simulator.outcome.result import SimulationResult

Mask = NDArray[np.bool_]
UNFOLDED_NODES: Final = 200_000
"""Up to so many nodes over all ranks each rank has events of its own; beyond, each class of equal ranks has."""


@dataclass(frozen=True, eq=False)
class JobEvents:
    """The events of a job. Activities are its nodes, ``nodes``, in that order.

    Attributes
    ----------
    graph:
        Times in ns. At its own durations every node begins and ends when the simulation says.
    begin, end, come:
        int32[nodes]: the events of each node: that it began, that it ended, and that what it waits for in other ranks
        had come (its begin where it waits for none).
    owner:
        int32[events]: whose event it is, an index into ``nodes.ranks``; -1 for meetings and the origin.
    met:
        int32[nodes]: the event that what is awaited had come, for waits that are counted; -1 for nodes without.
    last:
        int32: events after which nothing comes.
    """

    nodes: Nodes
    graph: EventGraph
    begin: Indices
    end: Indices
    met: Indices
    owner: Indices
    last: Indices
    folded: bool

    @cached_property
    def node_of_event(self) -> Indices:
        """int32[events]: the node that begins or ends with it, -1 for others."""
        found = np.full(len(self.graph), NONE, np.int32)
        number = np.arange(len(self.begin), dtype=np.int32)
        found[self.end], found[self.begin] = number, number
        return found


def job_events(result: SimulationResult, unfolded_nodes: int = UNFOLDED_NODES) -> JobEvents:
    """The events of a finished simulation.

    A node begins when the last it depends on has ended (where one resource is used by one node at a time also: when the
    one before it has), or when the host has launched it. A collective takes what passed since its last rank had come; a
    message what passed since it was sent. So durations hold what contention made of them in this run. Raises
    InputError for results without the times of nodes. Up to ``unfolded_nodes`` over all ranks, every rank has events of
    its own.
    """
    job = result.job
    if job is None or not result.records:
        raise InputError("nothing was simulated node by node, so nothing can be explained",
                         remedy="simulate fewer nodes, or let more be folded")  # fmt: skip
    total = sum(len(job.graphs[g]) for g in job.graph_of.tolist())
    folded = total > unfolded_nodes and len(result.records) < len(result.classes)
    nodes = nodes_of(result, job, result.class_ranks if folded else np.arange(len(result.classes)))
    return _Draft(nodes, job, folded).made()


class _Draft:
    """Edges, list by list: event 0 is the origin, 1 + 2 i and 2 + 2 i are begin and end of node i, meetings follow."""

    def __init__(self, nodes: Nodes, job: SimulatedJob, folded: bool) -> None:
        self.nodes, self.job, self.folded = nodes, job, folded
        count = len(nodes.kind)
        self.begin = 1 + 2 * np.arange(count, dtype=np.int64)
        self.end = self.begin + 1
        self.events = 1 + 2 * count
        self.edges: list[tuple[Ints, Ints, Floats, Ints]] = []
        self.duration = (nodes.end_ns - nodes.start_ns).astype(np.float64)
        self.met = np.full(count, NONE, np.int64)
        self.simple = np.ones(count, np.bool_)
        """Nodes that take their time from their begin on."""

    def made(self) -> JobEvents:
        nodes = self.nodes
        self._begins()
        self._meetings()
        self._messages()
        self._launched()
        own = np.flatnonzero(self.simple)
        self._add(self.begin[own], self.end[own], 0.0, own)
        source, target, lag, activity = (np.concatenate(column) for column in zip(*self.edges, strict=True))
        graph, number = event_graph(self.events, source, target, lag, activity, self.duration)
        owner = np.full(self.events, NONE, np.int32)
        owner[number[self.begin]] = owner[number[self.end]] = nodes.owner
        has_more = np.zeros(self.events, np.bool_)
        has_more[graph.source] = True
        met = np.where(self.met >= 0, number[self.met], NONE).astype(np.int32)
        last = np.flatnonzero(~has_more).astype(np.int32)
        return JobEvents(nodes, graph, number[self.begin], number[self.end], met, owner, last, self.folded)

    def _add(self, source: Ints, target: Ints, lag: Floats | float, activity: Ints | int) -> None:
        count = len(source)
        lags, own = np.broadcast_to(np.asarray(lag, np.float64), count), np.broadcast_to(activity, count)
        self.edges.append((source, target, lags, own.astype(np.int64)))

    def _begins(self) -> None:
        """Let nodes begin after those before them. What passes beyond that is a delay, or the host's launch."""
        nodes = self.nodes
        before, after = nodes.before, nodes.after
        kept = nodes.end_ns[before] <= nodes.start_ns[after]
        before, after = before[kept], after[kept]
        ready = np.zeros(len(nodes.kind), np.int64)
        np.maximum.at(ready, after, nodes.end_ns[before])
        late = nodes.start_ns - ready
        by_host = nodes.launched & (late > 0)
        self._add(self.end[before], self.begin[after], np.where(by_host, 0, late)[after].astype(np.float64), NONE)
        first = np.ones(len(ready), np.bool_)
        first[after] = False
        fixed = np.flatnonzero(by_host | first)
        self._add(np.zeros(len(fixed), np.int64), self.begin[fixed], nodes.start_ns[fixed].astype(np.float64), NONE)

    def _meetings(self) -> None:
        """Collectives end some time after the last of their ranks has come."""
        nodes = self.nodes
        waits = np.flatnonzero(nodes.meeting >= 0)
        count = int(nodes.meeting[waits].max(initial=-1)) + 1
        counted = waits[nodes.counts[waits]]
        came = np.zeros(count, np.int64)
        np.maximum.at(came, nodes.meeting[counted], nodes.start_ns[counted])
        # Who has ended before the last has come (the root of a broadcast, say) did not wait for it.
        waits = waits[nodes.waits[waits] & (nodes.end_ns[waits] >= came[nodes.meeting[waits]])]
        event = self.events + np.arange(count)
        self.events += count
        self._add(self.begin[counted], event[nodes.meeting[counted]], 0.0, NONE)
        own = nodes.meeting[waits]
        self._add(self.begin[waits], event[own], 0.0, NONE)
        self.duration[waits] = nodes.end_ns[waits] - np.maximum(came[own], nodes.start_ns[waits])
        self._add(event[own], self.end[waits], 0.0, waits)
        self.met[waits], self.simple[waits] = event[own], False

    def _messages(self) -> None:
        """A receive ends when it has begun and its message is there."""
        nodes = self.nodes
        sent, received = nodes.messages
        if self.job.context.protocol.rendezvous and self.job.context.replay is None:
            self._handshakes(sent, received)
            return
        there = np.maximum(nodes.end_ns[sent], nodes.start_ns[received])
        late = (nodes.end_ns[received] - there).astype(np.float64)
        kept = late >= 0
        sent, received, late = sent[kept], received[kept], late[kept]
        self._add(self.end[sent], self.end[received], late, NONE)
        self._add(self.begin[received], self.end[received], late, NONE)
        self.duration[received], self.simple[received], self.met[received] = 0.0, False, self.begin[sent]

    def _handshakes(self, sent: Ints, received: Ints) -> None:
        """Both sides of a message wait for the other: what passes then is the message's time."""
        nodes = self.nodes
        event = self.events + np.arange(len(sent))
        self.events += len(sent)
        both = np.maximum(nodes.start_ns[sent], nodes.start_ns[received])
        for one in (sent, received):
            self._add(self.begin[one], event, 0.0, NONE)
            self._add(event, self.end[one], 0.0, one)
            self.duration[one] = nodes.end_ns[one] - both
            self.met[one], self.simple[one] = event, False

    def _launched(self) -> None:
        """Compute that the host has launched late ends no earlier."""
        nodes = self.nodes
        bound = np.flatnonzero((nodes.kind == at.RUN_WORK) & nodes.launched & (nodes.launch_ns == nodes.end_ns))
        self.duration[bound] = np.minimum(self.duration[bound], nodes.work_ns[bound])
        free = np.flatnonzero((nodes.kind == at.RUN_WORK) & nodes.launched & (nodes.launch_ns <= nodes.end_ns))
        self._add(np.zeros(len(free), np.int64), self.end[free], nodes.launch_ns[free].astype(np.float64), NONE)
