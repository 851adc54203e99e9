"""Recorded training steps as a graph of events, to be replayed with other durations: steps and scenarios are lanes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.event_graph.graph import Circular, EventGraph, Indices, event_graph
from chakrasim.event_graph.lanes import lanes_of
from chakrasim.scenarios.dependencies import Dependencies, dependencies
from chakrasim.scenarios.operations import COMMUNICATION, KINDS, Ints, Operations, Steps, arranged

Times = NDArray[np.float64]
Mask = NDArray[np.bool_]

_BACKWARDS_S: Final = -1e-2
"""A member of a meeting that ended so long before another began was recorded wrongly: its transfer takes no time."""


@dataclass(frozen=True, eq=False)
class Replay:
    """Recorded steps that can be replayed with other durations; ``n`` operations of a step stand replica by replica.

    Attributes
    ----------
    kind, stage, dp_rank:
        int64[n]: what each operation is, and whose.
    duration_s:
        float64[t, n]: how long each takes by itself; of a member of a meeting, from when its last member is ready.
    ideal_s:
        float64[n]: the same for all of a kind: the mean of computation, the median of communication.
    ends:
        The events whose latest is the step's end.
    negative:
        How many operations ended before others of their meeting began, and take no time.
    """

    steps: Steps
    graph: EventGraph
    ends: Ints
    kind: Ints
    stage: Ints
    dp_rank: Ints
    duration_s: Times
    ideal_s: Times
    negative: int

    def times_s(self, duration_s: Times) -> Times:
        """float64[lanes]: how long a step takes with durations float64[n, lanes]."""
        found: Times = lanes_of(self.graph, duration_s, duration_s.shape[1], self.ends).max(axis=0)
        return found

    def kept_s(self, kept: Mask) -> Times:
        """float64[scenarios, t]: how long each step takes with the operations of bool[scenarios, n] as they were
        recorded and the others ideal."""
        lanes = len(self.steps.step)
        recorded = np.ascontiguousarray(self.duration_s.T)
        own, ideal = np.ascontiguousarray(kept.T), self.ideal_s[:, None]

        def durations(part: slice) -> Times:
            lane = np.arange(part.start, part.stop)
            return np.where(own[:, lane // lanes], recorded[:, lane % lanes], ideal)

        found = lanes_of(self.graph, durations, len(kept) * lanes, self.ends)
        times: Times = found.max(axis=0).reshape(len(kept), lanes)
        return times


def replay_of(rows: Operations) -> Replay:
    """The steps that the rows record, ready for replay. Raises `InputError`."""
    steps = arranged(rows)
    rules = dependencies(steps)
    replicas, own = len(steps.rank), len(steps.kind)
    duration, negative = _durations(steps, rules)
    graph, number = _graph(steps, rules, replicas)
    kind = np.tile(steps.kind, replicas)
    optimizers = np.flatnonzero(kind == KINDS.index("optimizer"))
    duration = duration.reshape(len(steps.step), replicas * own)
    return Replay(
        steps, graph, number[1 + optimizers].astype(np.int64), kind, np.tile(steps.stage, replicas),
        np.repeat(np.arange(replicas), own), duration, _ideal(steps, duration, kind), negative,
    )  # fmt: skip


def _durations(steps: Steps, rules: Dependencies) -> tuple[Times, int]:
    """float64[t, d, a], and how many were negative beyond doubt. Sums are in the precision of the recording."""
    found = steps.duration_s.astype(np.float64)
    negative = 0
    alike: dict[tuple[int, bool], list[tuple[int, ...]]] = {}
    for which, members in enumerate(rules.meetings):
        alike.setdefault((len(members), which in rules.shared), []).append(members)
    for (_, shared), meetings in alike.items():
        own = np.array(meetings)
        latest = steps.start_s[:, :, own].max(axis=(1, 3) if shared else 3, keepdims=True)
        transfer = (steps.end_s[:, :, own] - latest).astype(np.float64)
        backwards = transfer <= _BACKWARDS_S
        negative += int(backwards.sum())
        found[:, :, own] = np.where(backwards, 0.0, transfer)
    return found, negative


def _ideal(steps: Steps, duration: Times, kind: Ints) -> Times:
    ideal = np.zeros(len(kind))
    for number in np.unique(steps.kind):
        own = kind == number
        middle = np.median if KINDS[number] in COMMUNICATION else np.mean
        ideal[own] = middle(duration[:, own])
    return ideal


def _graph(steps: Steps, rules: Dependencies, replicas: int) -> tuple[EventGraph, Indices]:
    """The graph of one step, and the number in it of each event: 0 is its start, 1 + k the end of operation k; behind
    them come the meetings, of which an event is the start of the transfer."""
    own = len(rules.before)
    meeting_of = {each: which for which, members in enumerate(rules.meetings) for each in members}
    met = 1 + own * replicas
    edges: list[tuple[int, int, int, int, int]] = []  # source, whether it moves with the replica, target, ..., activity
    for each, before in enumerate(rules.before):
        which = meeting_of.get(each)
        for source in [1 + one for one in before] or [0]:
            moves = own if source else 0
            if which is None:
                edges.append((source, moves, 1 + each, own, each))
            else:
                edges.append((source, moves, met + which, _stride(rules, which), -1))
        if which is not None:
            edges.append((met + which, _stride(rules, which), 1 + each, own, each))
    table = np.array(edges, np.int64)
    replica = np.arange(replicas)[:, None]
    begin, end = table[:, 0] + replica * table[:, 1], table[:, 2] + replica * table[:, 3]
    activity = np.where(table[:, 4] < 0, -1, table[:, 4] + replica * own)
    events = met + len(rules.meetings) * replicas
    try:
        return event_graph(events, begin.ravel(), end.ravel(), 0.0, activity.ravel(), np.zeros(own * replicas))
    except Circular as told:
        raise InputError(
            "operations wait for each other in a circle", file=steps.file, place=f"step {steps.step[0]}, dp_rank 0",
            found=_name(steps, rules, told.event, own * replicas), expected="an order in which they can run",
        ) from None  # fmt: skip


def _stride(rules: Dependencies, meeting: int) -> int:
    """By how much the number of a meeting grows from replica to replica."""
    return 0 if meeting in rules.shared else len(rules.meetings)


def _name(steps: Steps, rules: Dependencies, event: int, operations: int) -> str:
    if event > operations:
        own = rules.meetings[(event - operations - 1) % len(rules.meetings)][0]
    else:
        own = (event - 1) % len(steps.kind)
    return f"{KINDS[steps.kind[own]]} {steps.sequence[own]} of stage {steps.stage[own]}"
